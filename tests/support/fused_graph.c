#include "tests/support/fused_graph.h"

#include <math.h>

#include "kernels/kernels.h"
#include "tests/support/draw.h"
#include "tests/support/graph_session.h"

int fg_set_up(void **state)
{
    struct fused_graph *x = calloc(1, sizeof *x);
    x->ops = rt_registry_new();
    rt_bytes_init(&x->g, 1 << 24);
    *state = x;
    return x->ops && kn_register(x->ops) ? 0 : -1;
}

void fg_clear(struct fused_graph *x)
{
    for (int i = 0; i < x->n_feeds; i++)
        rt_tensor_clear(&x->in[i]);
    x->n_feeds = x->n_fetches = 0;
    rt_bytes_clear(&x->g);
    rt_bytes_init(&x->g, 1 << 24);
}

int fg_tear_down(void **state)
{
    struct fused_graph *x = *state;
    fg_clear(x);
    rt_bytes_clear(&x->g);
    rt_registry_free(x->ops);
    free(x);
    return 0;
}

void fg_node(struct fused_graph *x, const char *name, const char *op, const char *inputs,
             const char *attrs)
{
    gd_node(&x->g, name, op, inputs, attrs);
}

void fg_constant(struct fused_graph *x, const char *name, const char *shape, float middle)
{
    struct rt_bytes text;
    int64_t n = 1;

    rt_bytes_init(&text, 1 << 24);
    rt_bytes_addf(&text, "dtype=float value=float<");
    for (const char *s = shape; *s;) {
        char *end;
        const long dim = strtol(s, &end, 10);
        n *= dim;
        rt_bytes_addf(&text, "%s%ld", s == shape ? "" : ",", dim);
        s = end + (*end != 0);
    }
    rt_bytes_addf(&text, ">:");
    for (int64_t i = 0; i < n; i++)
        rt_bytes_addf(&text, i ? ",%.6g" : "%.6g", (double)(middle + draw() / 2));
    fg_node(x, name, "Const", "", text.p);
    rt_bytes_clear(&text);
}

void fg_scalar(struct fused_graph *x, const char *name, double value)
{
    char text[80];
    snprintf(text, sizeof text, "dtype=float value=float<>:%.9g", value);
    fg_node(x, name, "Const", "", text);
}

void fg_feed(struct fused_graph *x, const char *name, int rank, const int64_t *dim)
{
    struct rt_tensor *t = &x->in[x->n_feeds];
    assert_true(x->n_feeds < FG_MOST);
    assert_ok(rt_tensor_new(t, NULL, RT_F32, rank, dim, &x->err), &x->err);
    const int64_t n = rt_tensor_count(t);
    for (int64_t i = 0; i < n; i++)
        ((float *)t->data)[i] = 3 * draw();
    if (!x->finite_feeds && n > 40) {
        ((float *)t->data)[3] = NAN;
        ((float *)t->data)[n / 2] = INFINITY;
        ((float *)t->data)[n - 2] = -INFINITY;
        ((float *)t->data)[n / 3] = -0.0f;
    }
    fg_node(x, name, "Placeholder", "", "dtype=float shape=<?>");
    x->feed[x->n_feeds++] = name;
}

void fg_fetch(struct fused_graph *x, const char *name)
{
    assert_true(x->n_fetches < FG_MOST);
    x->fetch[x->n_fetches++] = name;
}

struct rt_session *fg_open(struct fused_graph *x, enum fg_way way, struct rt_callable **call)
{
    const struct rt_session_options options = {
        .registry = x->ops,
        .compiles_inline = way == FG_SPECIALISED,
        .tuning = {.no_fusion = way == FG_UNFUSED, .no_autotune = true}};
    const struct rt_call_spec spec = {
        .feeds = x->feed, .fetches = x->fetch, .n_feeds = x->n_feeds, .n_fetches = x->n_fetches};
    struct rt_session *s = gs_open(gd_span(&x->g), &options);
    *call = gs_prepare(s, &spec);
    return s;
}

enum rt_status fg_run(struct fused_graph *x, enum fg_way way, struct rt_tensor *out, int64_t *nodes)
{
    struct rt_callable *call = NULL;
    struct rt_session_stats stats;
    struct rt_session *s = fg_open(x, way, &call);
    const enum rt_status st = rt_callable_run(call, x->in, out, NULL, &x->err);
    rt_session_stats(s, &stats);
    *nodes = stats.nodes_run;
    rt_session_free(s);
    return st;
}

static bool is_near(float a, float b, double largest)
{
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b))
        return (isnan(a) && isnan(b)) || a == b;
    return fabs((double)a - (double)b) <= 1e-5 * largest;
}

void fg_assert_near(const struct rt_tensor *a, const struct rt_tensor *b, const char *what)
{
    const float *x = a->data, *y = b->data;
    double largest = 1;

    assert_int_equal(a->rank, b->rank);
    for (int i = 0; i < a->rank; i++)
        assert_int_equal(a->dim[i], b->dim[i]);
    for (int64_t i = 0; i < rt_tensor_count(a); i++)
        if (isfinite(x[i]) && fabs((double)x[i]) > largest)
            largest = fabs((double)x[i]);
    for (int64_t i = 0; i < rt_tensor_count(a); i++)
        if (!is_near(x[i], y[i], largest))
            fail_msg("%s: element %lld is %.9g unfused and %.9g fused", what, (long long)i,
                     (double)x[i], (double)y[i]);
}

void fg_compare(struct fused_graph *x, int saved, const char *what)
{
    struct rt_tensor out[FG_N_WAYS][FG_MOST] = {{{0}}};
    int64_t nodes[FG_N_WAYS];
    enum rt_status st[FG_N_WAYS];
    char text[1024] = "";

    for (int k = 0; k < FG_N_WAYS; k++) {
        st[k] = fg_run(x, (enum fg_way)k, out[k], &nodes[k]);
        /* The part of an error message that begins with "[" names a node. The unfused and the fused
         * graph may name different nodes. */
        if (st[k] && k == 0) {
            snprintf(text, sizeof text, "%s", rt_error_text(&x->err));
            text[strcspn(text, "[")] = 0;
        }
        if (st[k] != st[0])
            fail_msg("%s: %s unfused (%s), %s fused (%s)", what, rt_status_name(st[0]), text,
                     rt_status_name(st[k]), rt_error_text(&x->err));
        if (st[k] && strncmp(text, rt_error_text(&x->err), strlen(text)) != 0)
            fail_msg("%s: '%s' unfused, '%s' fused", what, text, rt_error_text(&x->err));
        for (int i = 0; i < x->n_fetches && !st[0]; i++)
            fg_assert_near(&out[0][i], &out[k][i], what);
    }
    if (!st[0] && nodes[FG_UNFUSED] - nodes[FG_FUSED] < saved)
        fail_msg("%s: %lld nodes ran unfused, %lld fused", what, (long long)nodes[FG_UNFUSED],
                 (long long)nodes[FG_FUSED]);
    for (int k = 0; k < FG_N_WAYS; k++)
        for (int i = 0; i < x->n_fetches; i++)
            rt_tensor_clear(&out[k][i]);
    fg_clear(x);
}
