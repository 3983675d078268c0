/* Every network here runs with its nodes joined and as they are: the answers must agree. */
#include "tests/support/test.h"

#include <math.h>

#include "kernels/kernels.h"
#include "runtime/session/session.h"
#include "tests/support/draw.h"
#include "tests/support/graph_def.h"

enum { MOST = 8 };

struct fixture {
    struct rt_bytes g;
    struct rt_registry *ops;
    bool plain; /* inputs of plain numbers only */
    int n_feeds, n_fetches;
    const char *feed[MOST], *fetch[MOST];
    struct rt_tensor in[MOST];
    struct rt_error err;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    x->ops = rt_registry_new();
    rt_bytes_init(&x->g, 1 << 24);
    *state = x;
    return x->ops && kn_register(x->ops) ? 0 : -1;
}

static void clear(struct fixture *x)
{
    for (int i = 0; i < x->n_feeds; i++)
        rt_tensor_clear(&x->in[i]);
    x->n_feeds = x->n_fetches = 0;
    rt_bytes_clear(&x->g);
    rt_bytes_init(&x->g, 1 << 24);
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    clear(x);
    rt_bytes_clear(&x->g);
    rt_registry_free(x->ops);
    free(x);
    return 0;
}

/* ---- networks ---- */

static void node(struct fixture *x, const char *name, const char *op, const char *inputs,
                 const char *attrs)
{
    gd_node(&x->g, name, op, inputs, attrs);
}

/* A constant of this shape ("3x3x4x8"), of numbers around `middle`. */
static void constant(struct fixture *x, const char *name, const char *shape, float middle)
{
    int64_t n = 1;
    for (const char *s = shape; *s;) {
        char *end;
        n *= strtol(s, &end, 10);
        s = end + (*end != 0);
    }
    const size_t capacity = (size_t)n * 16 + 100;
    char *text = malloc(capacity);
    int at = snprintf(text, capacity, "dtype=float value=float<%s>:", shape);
    for (char *s = text; s < text + at; s++)
        if (*s == 'x' && s > text + 24)
            *s = ',';
    for (int64_t i = 0; i < n; i++)
        at += snprintf(text + at, capacity - (size_t)at, i ? ",%.6g" : "%.6g",
                       (double)(middle + draw() / 2));
    node(x, name, "Const", "", text);
    free(text);
}

static void scalar(struct fixture *x, const char *name, double v)
{
    char text[80];
    snprintf(text, sizeof text, "dtype=float value=float<>:%.9g", v);
    node(x, name, "Const", "", text);
}

static void feed(struct fixture *x, const char *name, int rank, const int64_t *dim)
{
    struct rt_tensor *t = &x->in[x->n_feeds];
    assert_ok(rt_tensor_new(t, NULL, RT_F32, rank, dim, &x->err), &x->err);
    const int64_t n = rt_tensor_count(t);
    for (int64_t i = 0; i < n; i++)
        ((float *)t->data)[i] = 3 * draw();
    if (!x->plain && n > 40) {
        ((float *)t->data)[3] = NAN;
        ((float *)t->data)[n / 2] = INFINITY;
        ((float *)t->data)[n - 2] = -INFINITY;
        ((float *)t->data)[n / 3] = -0.0f;
    }
    node(x, name, "Placeholder", "", "dtype=float shape=<?>");
    x->feed[x->n_feeds++] = name;
}

static void fetch(struct fixture *x, const char *name)
{
    x->fetch[x->n_fetches++] = name;
}

/* ---- runs ---- */

enum way { APART, JOINED, COMPILED, N_WAYS };

static struct rt_session *open_session(struct fixture *x, enum way way, struct rt_callable **call)
{
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    const struct rt_session_options o = {
        .registry = x->ops,
        .compiles_inline = way == COMPILED,
        .tuning = {.no_fusion = way == APART, .no_autotune = true}};
    const struct rt_call_spec spec = {
        .feeds = x->feed, .fetches = x->fetch, .n_feeds = x->n_feeds, .n_fetches = x->n_fetches};
    assert_ok(rt_library_import(&l, gd_span(&x->g), x->ops, &x->err), &x->err);
    assert_ok(rt_session_new(&s, l, &o, &x->err), &x->err);
    assert_ok(rt_session_prepare(s, &spec, call, &x->err), &x->err);
    return s;
}

static enum rt_status run(struct fixture *x, enum way way, struct rt_tensor *out, int64_t *nodes)
{
    struct rt_callable *call = NULL;
    struct rt_session_stats stats;
    struct rt_session *s = open_session(x, way, &call);
    const enum rt_status st = rt_callable_run(call, x->in, out, NULL, &x->err);
    rt_session_stats(s, &stats);
    *nodes = stats.nodes_run;
    rt_session_free(s);
    return st;
}

static bool alike(float a, float b, double largest)
{
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b))
        return (isnan(a) && isnan(b)) || a == b;
    return fabs((double)a - (double)b) <= 1e-5 * largest;
}

static void assert_alike(const struct rt_tensor *a, const struct rt_tensor *b, const char *what)
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
        if (!alike(x[i], y[i], largest))
            fail_msg("%s: element %lld is %.9g apart and %.9g joined", what, (long long)i,
                     (double)x[i], (double)y[i]);
}

/* Runs every way; `joined` nodes fewer, or more, run joined. Clears the network. */
static void compare(struct fixture *x, int joined, const char *what)
{
    struct rt_tensor out[N_WAYS][MOST] = {{{0}}};
    int64_t nodes[N_WAYS];
    enum rt_status st[N_WAYS];
    char text[1024] = "";

    for (int k = 0; k < N_WAYS; k++) {
        st[k] = run(x, (enum way)k, out[k], &nodes[k]);
        if (st[k] && k == 0) { /* the same words, but for the node's name */
            snprintf(text, sizeof text, "%s", rt_error_text(&x->err));
            text[strcspn(text, "[")] = 0;
        }
        if (st[k] != st[0])
            fail_msg("%s: %s apart (%s), %s joined (%s)", what, rt_status_name(st[0]), text,
                     rt_status_name(st[k]), rt_error_text(&x->err));
        if (st[k] && strncmp(text, rt_error_text(&x->err), strlen(text)) != 0)
            fail_msg("%s: '%s' apart, '%s' joined", what, text, rt_error_text(&x->err));
        for (int i = 0; i < x->n_fetches && !st[0]; i++)
            assert_alike(&out[0][i], &out[k][i], what);
    }
    if (!st[0] && nodes[APART] - nodes[JOINED] < joined)
        fail_msg("%s: %lld nodes apart, %lld joined", what, (long long)nodes[APART],
                 (long long)nodes[JOINED]);
    for (int k = 0; k < N_WAYS; k++)
        for (int i = 0; i < x->n_fetches; i++)
            rt_tensor_clear(&out[k][i]);
    clear(x);
}

/* ---- heads ---- */

enum head { CONV_1X1, CONV_3X3, CONV_STRIDE, WINOGRAD, DEPTHWISE, MATMUL, SMALL_MATMUL, N_HEADS };

static const char *const head_name[] = {"1x1",       "3x3",    "3x3 with stride", "winograd",
                                        "depthwise", "matmul", "small matmul"};
static const int channels[] = {24, 20, 32, 32, 20, 64, 12};

/* "head" from a fed "x": its shape without channels is returned in dim. */
static int add_head(struct fixture *x, enum head h, int64_t batch, int64_t *dim)
{
    const int64_t side = h == WINOGRAD ? 9 : 11;
    const int64_t ci = h == WINOGRAD ? 32 : h == MATMUL ? 96 : h == SMALL_MATMUL ? 7 : 20;
    static const char *const filter[] = {"1x1x20x24", "3x3x20x20", "3x3x20x32", "3x3x32x32",
                                         "3x3x20x1",  "96x64",     "7x12"};

    constant(x, "w", filter[h], 0);
    dim[0] = batch;
    if (h >= MATMUL) {
        dim[1] = ci;
        feed(x, "x", 2, dim);
        node(x, "head", "MatMul", "x w", "T=float");
        dim[1] = channels[h];
        return 2;
    }
    dim[1] = dim[2] = side;
    dim[3] = ci;
    feed(x, "x", 4, dim);
    node(x, "head", h == DEPTHWISE ? "DepthwiseConv2dNative" : "Conv2D", "x w",
         h == CONV_STRIDE ? "T=float strides=[1,2,2,1] padding='SAME'"
                          : "T=float strides=[1,1,1,1] padding='SAME'");
    if (h == CONV_STRIDE)
        dim[1] = dim[2] = (side + 1) / 2;
    dim[3] = channels[h];
    return 4;
}

static void vector(struct fixture *x, const char *name, enum head h, float middle)
{
    char shape[16];
    snprintf(shape, sizeof shape, "%d", channels[h]);
    constant(x, name, shape, middle);
}

/* ---- activations, as frameworks write them ---- */

static void one(struct fixture *x, const char *op, const char *in, const char *out)
{
    node(x, out, op, in, strcmp(op, "LeakyRelu") == 0 ? "T=float alpha=0.3f" : "T=float");
}

/* "out" from "in"; how many nodes it took. */
static int activation(struct fixture *x, int kind, const char *in)
{
    static const char *const simple[] = {"Relu", "Relu6", "Sigmoid", "Tanh", "Elu", "LeakyRelu"};
    char two[64];

    snprintf(two, sizeof two, "%s s", in);
    switch (kind) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        one(x, simple[kind], in, "out");
        return 1;
    case 6: /* swish */
        one(x, "Sigmoid", in, "s");
        one(x, "Mul", two, "out");
        return 2;
    case 7: /* with a number, as Keras 2 has it */
        scalar(x, "beta", 1.5);
        snprintf(two, sizeof two, "beta %s", in);
        one(x, "Mul", two, "b");
        one(x, "Sigmoid", "b", "s");
        snprintf(two, sizeof two, "%s s", in);
        one(x, "Mul", two, "out");
        return 3;
    case 8:
    case 9: /* hard sigmoid, hard swish */
        scalar(x, "three", 3);
        scalar(x, "sixth", 1.0 / 6);
        snprintf(two, sizeof two, "%s three", in);
        one(x, "AddV2", two, "a");
        one(x, "Relu6", "a", "r");
        one(x, "Mul", "r sixth", kind == 8 ? "out" : "h");
        snprintf(two, sizeof two, "%s h", in);
        if (kind == 9)
            one(x, "Mul", two, "out");
        return kind - 5;
    case 10: /* tf.nn.gelu */
        scalar(x, "half", 0.5);
        scalar(x, "root", 1.4142135623730951);
        scalar(x, "one", 1);
        snprintf(two, sizeof two, "half %s", in);
        one(x, "Mul", two, "hx");
        snprintf(two, sizeof two, "%s root", in);
        one(x, "RealDiv", two, "d");
        one(x, "Erf", "d", "e");
        one(x, "AddV2", "one e", "p");
        one(x, "Mul", "hx p", "out");
        return 5;
    case 11: /* Keras 3 */
        scalar(x, "half", 0.5);
        scalar(x, "root", 0.7071067811865476);
        snprintf(two, sizeof two, "half %s", in);
        one(x, "Mul", two, "hx");
        one(x, "Neg", in, "n");
        one(x, "Mul", "n root", "d");
        one(x, "Erfc", "d", "e");
        one(x, "Mul", "hx e", "out");
        return 5;
    default: /* tf.nn.gelu(approximate=True) */
        scalar(x, "half", 0.5);
        scalar(x, "one", 1);
        scalar(x, "three", 3);
        scalar(x, "c", 0.044715);
        scalar(x, "k", 0.7978845608028654);
        snprintf(two, sizeof two, "half %s", in);
        one(x, "Mul", two, "hx");
        snprintf(two, sizeof two, "%s three", in);
        one(x, "Pow", two, "cube");
        one(x, "Mul", "c cube", "cc");
        snprintf(two, sizeof two, "%s cc", in);
        one(x, "AddV2", two, "sum");
        one(x, "Mul", "k sum", "ks");
        one(x, "Tanh", "ks", "t");
        one(x, "AddV2", "one t", "p");
        one(x, "Mul", "hx p", "out");
        return 8;
    }
}
enum { N_ACTIVATIONS = 13 };

static void every_activation_joins_every_head(void **state)
{
    struct fixture *x = *state;
    int64_t dim[4];
    char what[80];

    for (int h = 0; h < N_HEADS; h++)
        for (int k = 0; k < N_ACTIVATIONS; k++)
            for (int64_t batch = 0; batch < 3; batch += 2) {
                snprintf(what, sizeof what, "activation %d behind %s, batch %d", k, head_name[h],
                         (int)batch);
                add_head(x, (enum head)h, batch, dim);
                const int n = activation(x, k, "head");
                fetch(x, "out");
                compare(x, n, what);
            }
}

/* Activations with other nodes than the usual ones, and what only looks like one. */
static void what_is_written_otherwise_gives_the_same(void **state)
{
    static const struct {
        const char *what;
        int joined;
        const char *nodes[10][3];
    } c[] = {
        {"hard sigmoid by a difference and a quotient",
         3,
         {{"a", "Sub", "head m3"}, {"r", "Relu6", "a"}, {"out", "RealDiv", "r n6"}}},
        {"a difference the other way round",
         0,
         {{"a", "Sub", "n3 head"}, {"r", "Relu6", "a"}, {"out", "RealDiv", "r n6"}}},
        {"hard swish of another number",
         0,
         {{"a", "AddV2", "head n31"},
          {"r", "Relu6", "a"},
          {"h", "RealDiv", "r n6"},
          {"out", "Mul", "h head"}}},
        {"gelu with a square",
         9,
         {{"sq", "Square", "head"},
          {"cube", "Mul", "sq head"},
          {"cc", "Mul", "cube c"},
          {"sum", "AddV2", "head cc"},
          {"ks", "Mul", "sum k"},
          {"t", "Tanh", "ks"},
          {"p", "AddV2", "t n1"},
          {"hx", "Mul", "head half"},
          {"out", "Mul", "p hx"}}},
        {"gelu of the fourth power",
         0,
         {{"cube", "Pow", "head n4"},
          {"cc", "Mul", "cube c"},
          {"sum", "AddV2", "head cc"},
          {"ks", "Mul", "sum k"},
          {"t", "Tanh", "ks"},
          {"p", "AddV2", "t n1"},
          {"hx", "Mul", "head half"},
          {"out", "Mul", "p hx"}}},
        {"gelu of the second power",
         0,
         {{"cube", "Pow", "head n2"},
          {"cc", "Mul", "cube c"},
          {"sum", "AddV2", "head cc"},
          {"ks", "Mul", "sum k"},
          {"t", "Tanh", "ks"},
          {"p", "AddV2", "t n1"},
          {"hx", "Mul", "head half"},
          {"out", "Mul", "p hx"}}},
        {"gelu of another factor",
         0,
         {{"cube", "Pow", "head n3"},
          {"cc", "Mul", "cube c"},
          {"sum", "AddV2", "head cc"},
          {"ks", "Mul", "sum k2"},
          {"t", "Tanh", "ks"},
          {"p", "AddV2", "t n1"},
          {"hx", "Mul", "head half"},
          {"out", "Mul", "p hx"}}},
        {"a vector less the value", 0, {{"out", "Sub", "v head"}}},
        {"the value less a vector", 1, {{"out", "Sub", "head v"}}},
    };
    static const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"n1", 1},   {"n2", 2},    {"n3", 3},     {"n4", 4},       {"n6", 6},
        {"m3", -3},  {"n31", 3.1}, {"half", 0.5}, {"c", 0.044715}, {"k", 0.7978845608028654},
        {"k2", 0.78}};
    struct fixture *x = *state;
    int64_t dim[4];

    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int h = 0; h < N_HEADS; h++) {
            add_head(x, (enum head)h, 2, dim);
            vector(x, "v", (enum head)h, 1);
            for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
                scalar(x, numbers[k].name, numbers[k].value);
            for (int k = 0; k < 10 && c[i].nodes[k][0]; k++)
                one(x, c[i].nodes[k][1], c[i].nodes[k][2], c[i].nodes[k][0]);
            fetch(x, "out");
            compare(x, c[i].joined, c[i].what);
        }
}

/* Bias, batch normalisation in both forms, a residual, then an activation. */
static void bias_normalisation_and_residual_join(void **state)
{
    struct fixture *x = *state;
    int64_t dim[4];
    char what[80];

    for (int h = 0; h < N_HEADS; h++)
        for (int form = 0; form < 8; form++)
            for (int64_t batch = 0; batch < 3; batch++) {
                const char *at = "head";
                int joined = 0;
                x->plain = batch == 1;
                const int rank = add_head(x, (enum head)h, batch, dim);
                snprintf(what, sizeof what, "form %d behind %s, batch %d", form, head_name[h],
                         (int)batch);
                if (form & 1) {
                    vector(x, "bias", (enum head)h, 0);
                    node(x, "biased", "BiasAdd", "head bias", "T=float");
                    at = "biased";
                    joined++;
                }
                char in[64];
                vector(x, "v1", (enum head)h, 1);
                vector(x, "v2", (enum head)h, 0);
                vector(x, "v3", (enum head)h, 0);
                vector(x, "v4", (enum head)h, 2);
                if (rank == 4 && (form & 2)) {
                    snprintf(in, sizeof in, "%s v1 v2 v3 v4", at);
                    node(x, "bn", "FusedBatchNormV3", in,
                         "T=float U=float is_training=false epsilon=0.01f");
                    joined++;
                } else {
                    snprintf(in, sizeof in, "%s v1", at);
                    node(x, "m", "Mul", in, "T=float");
                    node(x, "bn", "AddV2", "m v2", "T=float");
                    joined += 2;
                }
                if (form & 4) {
                    feed(x, "residual", rank, dim);
                    node(x, "sum", "AddV2", form & 1 ? "bn residual" : "residual bn", "T=float");
                    joined++;
                }
                joined += activation(x, form & 1 ? 0 : 6, form & 4 ? "sum" : "bn");
                fetch(x, "out");
                compare(x, joined, what);
            }
    x->plain = false;
}

/* What comes behind a residual must not come before it; nor is training what runs do. */
static void what_comes_behind_a_residual_stays_there(void **state)
{
    static const char *const behind[][3] = {
        {"Mul", "sum v1", "T=float"},
        {"AddV2", "sum v2", "T=float"},
        {"Sub", "sum v2", "T=float"},
        {"BiasAdd", "sum v2", "T=float"},
        {"FusedBatchNormV3", "sum v1 v2 v3 v4", "T=float U=float is_training=false epsilon=0.01f"},
        {"FusedBatchNormV3", "head v1 v2 v3 v4", "T=float U=float is_training=true epsilon=0.01f"},
    };
    struct fixture *x = *state;
    int64_t dim[4];

    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++)
        for (int h = 0; h < N_HEADS; h++) {
            const int rank = add_head(x, (enum head)h, 2, dim);
            if (rank != 4 && strcmp(behind[i][0], "FusedBatchNormV3") == 0) {
                clear(x);
                continue;
            }
            vector(x, "v1", (enum head)h, 1);
            vector(x, "v2", (enum head)h, 0);
            vector(x, "v3", (enum head)h, 0);
            vector(x, "v4", (enum head)h, 2);
            feed(x, "residual", rank, dim);
            node(x, "sum", "AddV2", "head residual", "T=float");
            node(x, "last", behind[i][0], behind[i][1], behind[i][2]);
            node(x, "out", "Relu", "last", "T=float");
            fetch(x, "out");
            compare(x, 0, behind[i][0]);
        }
}

/* Images whose outputs do not fit a cache: rows, with their padding, and whole images. */
static void large_images_join_in_blocks(void **state)
{
    static const struct {
        const char *op, *filter, *attrs;
        int64_t side, ci;
        int co;
    } c[] = {
        {"Conv2D", "1x1x8x32", "padding='SAME' strides=[1,1,1,1]", 96, 8, 32},
        {"Conv2D", "3x3x8x32", "padding='SAME' strides=[1,1,1,1]", 95, 8, 32},
        {"Conv2D", "5x5x4x48", "padding='SAME' strides=[1,2,2,1]", 190, 4, 48},
        {"Conv2D", "3x3x4x48", "padding='SAME' strides=[1,1,1,1] dilations=[1,9,9,1]", 94, 4, 48},
        {"DepthwiseConv2dNative", "3x3x32x1", "padding='SAME' strides=[1,1,1,1]", 96, 32, 32},
        {"DepthwiseConv2dNative", "5x5x32x1", "padding='SAME' strides=[1,2,2,1]", 191, 32, 32},
        {"Conv2D", "3x3x8x32",
         "padding='EXPLICIT' explicit_paddings=[0,0,40,1,2,30,0,0] strides=[1,1,1,1]", 95, 8, 32}};
    struct fixture *x = *state;
    char attrs[160], shape[16];

    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int k = 0; k < 2; k++) {
            const int64_t dim[] = {1 + (i == 0), c[i].side, c[i].side, c[i].ci};
            constant(x, "w", c[i].filter, 0);
            snprintf(shape, sizeof shape, "%d", c[i].co);
            constant(x, "b", shape, 0);
            feed(x, "x", 4, dim);
            snprintf(attrs, sizeof attrs, "T=float %s", c[i].attrs);
            node(x, "head", c[i].op, "x w", attrs);
            node(x, "biased", "BiasAdd", "head b", "T=float");
            const int n = activation(x, k ? 0 : 6, "biased");
            fetch(x, "out");
            compare(x, n + 1, c[i].attrs);
        }
}

/* ---- what must stay as it is ---- */

static void a_residual_of_another_shape_is_broadcast_or_refused(void **state)
{
    static const struct {
        int rank;
        int64_t dim[5];
    } r[] = {{4, {2, 11, 11, 1}},
             {4, {1, 11, 11, 24}},
             {0, {0}},
             {1, {24}},
             {1, {1}},
             {5, {3, 2, 11, 11, 24}},
             {4, {2, 11, 1, 24}},
             {4, {2, 11, 11, 23}},
             {4, {3, 11, 11, 24}},
             {1, {0}},
             {4, {0, 11, 11, 24}},
             {3, {11, 11, 24}}};
    struct fixture *x = *state;
    int64_t dim[4];
    char what[40];

    for (size_t i = 0; i < sizeof r / sizeof *r; i++)
        for (int h = CONV_1X1; h <= SMALL_MATMUL; h += MATMUL - CONV_1X1 - 1)
            for (int64_t batch = 1; batch < 3; batch++) {
                vector(x, "b", (enum head)h, 0);
                add_head(x, (enum head)h, batch, dim);
                feed(x, "residual", r[i].rank, r[i].dim);
                node(x, "biased", "BiasAdd", "head b", "T=float");
                node(x, "sum", "AddV2", i & 1 ? "biased residual" : "residual biased", "T=float");
                activation(x, 6, "sum");
                fetch(x, "out");
                snprintf(what, sizeof what, "residual %d behind %s", (int)i, head_name[h]);
                compare(x, 4, what);
            }
}

static void vectors_that_do_not_fit_stay_nodes(void **state)
{
    static const char *const shape[] = {"2x24", "11x24", "11x1", "1x1x1x1x24", "23", "1x24"};
    struct fixture *x = *state;
    int64_t dim[4];

    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int k = 0; k < 3; k++) {
            add_head(x, CONV_1X1, 2, dim);
            constant(x, "v", shape[i], 1);
            node(x, "out", k == 0 ? "Mul" : k == 1 ? "AddV2" : "Sub", "head v", "T=float");
            fetch(x, "out");
            compare(x, i == 5, shape[i]);
        }
    /* Factors that would take the weights out of a float's range. */
    add_head(x, CONV_1X1, 2, dim);
    scalar(x, "v", 1e-30);
    node(x, "out", "Mul", "head v", "T=float");
    fetch(x, "out");
    compare(x, 0, "a tiny factor");
    add_head(x, CONV_1X1, 2, dim);
    node(x, "v", "Const", "", "dtype=float value=float<>:inf");
    node(x, "out", "Mul", "head v", "T=float");
    fetch(x, "out");
    compare(x, 0, "an infinite factor");
}

static void a_value_that_others_see_stays(void **state)
{
    struct fixture *x = *state;
    int64_t dim[4];

    add_head(x, CONV_1X1, 2, dim);
    vector(x, "b", CONV_1X1, 0);
    node(x, "biased", "BiasAdd", "head b", "T=float");
    node(x, "out", "Relu", "biased", "T=float");
    fetch(x, "out");
    fetch(x, "biased");
    compare(x, 1, "a fetched sum");

    add_head(x, CONV_1X1, 2, dim);
    node(x, "out", "Relu", "head", "T=float");
    node(x, "more", "Neg", "head", "T=float");
    fetch(x, "out");
    fetch(x, "more");
    compare(x, 0, "two readers");

    add_head(x, CONV_1X1, 2, dim);
    node(x, "s", "Sigmoid", "head", "T=float");
    node(x, "out", "Mul", "s head", "T=float");
    fetch(x, "out");
    fetch(x, "s");
    compare(x, 0, "a fetched part of a swish");

    add_head(x, CONV_1X1, 2, dim);
    node(x, "out", "AddV2", "head head", "T=float");
    fetch(x, "out");
    compare(x, 0, "twice itself");

    add_head(x, CONV_1X1, 2, dim);
    node(x, "s", "Sigmoid", "head", "T=float");
    node(x, "out", "AddV2", "s head", "T=float");
    fetch(x, "out");
    compare(x, 0, "itself and its sigmoid");

    add_head(x, CONV_1X1, 2, dim);
    node(x, "yes", "Const", "", "dtype=bool value=bool<>:1");
    node(x, "check", "Assert", "yes x", "T=[float]");
    node(x, "out", "Relu", "head ^check", "T=float");
    fetch(x, "out");
    compare(x, 0, "a control edge");
}

/* A block with a projection: both operands of the sum are convolutions. */
static void of_two_convolutions_one_takes_the_sum(void **state)
{
    struct fixture *x = *state;
    int64_t dim[4];

    add_head(x, CONV_1X1, 2, dim);
    constant(x, "w2", "1x1x20x24", 0);
    vector(x, "b", CONV_1X1, 0);
    node(x, "other", "Conv2D", "x w2", "T=float strides=[1,1,1,1] padding='SAME'");
    node(x, "biased", "BiasAdd", "other b", "T=float");
    node(x, "sum", "AddV2", "biased head", "T=float");
    node(x, "out", "Relu", "sum", "T=float");
    node(x, "again", "Conv2D", "out w3", "T=float strides=[1,1,1,1] padding='SAME'");
    constant(x, "w3", "1x1x24x24", 0);
    node(x, "last", "AddV2", "out again", "T=float");
    fetch(x, "last");
    compare(x, 4, "a projection");
}

/* ---- a session's life ---- */

static void nan_now_and_then_is_never_lost(void **state)
{
    struct fixture *x = *state;
    int64_t dim[4];

    for (int h = 0; h < N_HEADS; h++) {
        struct rt_callable *call[2];
        struct rt_session *s[2];
        struct rt_tensor out[2] = {{0}};

        x->plain = true;
        add_head(x, (enum head)h, 2, dim);
        vector(x, "b", (enum head)h, 0);
        node(x, "biased", "BiasAdd", "head b", "T=float");
        node(x, "out", "Relu", "biased", "T=float");
        fetch(x, "out");
        for (int k = 0; k < 2; k++)
            s[k] = open_session(x, k ? COMPILED : APART, &call[k]);
        for (int i = 0; i < 24; i++) {
            float *v = x->in[0].data;
            v[17] = i % 3 == 1 ? NAN : 1;
            v[5] = i % 7 == 2 ? -INFINITY : 2;
            for (int k = 0; k < 2; k++)
                assert_ok(rt_callable_run(call[k], x->in, &out[k], NULL, &x->err), &x->err);
            assert_alike(&out[0], &out[1], head_name[h]);
            rt_tensor_clear(&out[0]);
            rt_tensor_clear(&out[1]);
        }
        rt_session_free(s[0]);
        rt_session_free(s[1]);
        clear(x);
    }
    x->plain = false;
}

/* TensorFlow's own fused product makes 0 of it, where a session rewrites the graph; the nodes that
 * were written do not. */
static void an_average_of_nothing_stays_nan_behind_relu(void **state)
{
    struct fixture *x = *state;
    const int64_t dim[] = {2, 0, 3, 16};

    feed(x, "x", 4, dim);
    constant(x, "w", "16x24", 0);
    constant(x, "b", "24", 0);
    node(x, "axes", "Const", "", "dtype=int32 value=int32<2>:1,2");
    node(x, "mean", "Mean", "x axes", "T=float Tidx=int32");
    node(x, "head", "MatMul", "mean w", "T=float");
    node(x, "biased", "BiasAdd", "head b", "T=float");
    node(x, "out", "Relu", "biased", "T=float");
    fetch(x, "out");
    for (enum way way = APART; way < N_WAYS; way++) {
        struct rt_tensor out[MOST] = {{0}};
        int64_t nodes;
        assert_ok(run(x, way, out, &nodes), &x->err);
        assert_int_equal(rt_tensor_count(&out[0]), 2 * 24);
        for (int i = 0; i < 2 * 24; i++)
            assert_true(isnan(((float *)out[0].data)[i]));
        rt_tensor_clear(&out[0]);
    }
    clear(x);
}

static void rows_stay_apart_with_a_residual(void **state)
{
    struct fixture *x = *state;
    const int64_t dim[] = {2, 8, 8, 4};
    const struct rt_shape shape[] = {{.rank = 4, .dim = {-1, 8, 8, 4}},
                                     {.rank = 4, .dim = {-1, 8, 8, 4}}};

    for (int k = 0; k < 2; k++) {
        struct rt_callable *call;
        feed(x, "x", 4, dim);
        feed(x, "y", 4, dim);
        constant(x, "w", "3x3x4x4", 0);
        constant(x, "w2", "1x1x4x4", 0);
        node(x, "zero", "Const", "", "dtype=int32 value=int32<1>:0");
        node(x, "turned", "ReverseV2", "y zero", "T=float Tidx=int32");
        node(x, "head", "Conv2D", "x w", "T=float padding='SAME' strides=[1,1,1,1]");
        node(x, "sum", "AddV2", k ? "head turned" : "y head", "T=float");
        node(x, "r", "Relu", "sum", "T=float");
        node(x, "out", "Conv2D", "r w2", "T=float padding='SAME' strides=[1,1,1,1]");
        fetch(x, "out");
        struct rt_session *s = open_session(x, JOINED, &call);
        assert_int_equal(rt_callable_is_rowwise(call, shape, &x->err), k == 0);
        rt_session_free(s);
        clear(x);
    }
}

/* ---- padding ---- */

static void padding_with_zeros_joins_a_convolution(void **state)
{
    static const struct {
        const char *pad, *value, *attrs;
        bool depthwise;
        int joined;
    } c[] = {
        {"0,0,1,1,1,1,0,0", NULL, "padding='VALID' strides=[1,2,2,1]", false, 1},
        {"0,0,0,2,2,0,0,0", NULL, "padding='VALID' strides=[1,1,1,1]", true, 1},
        {"0,0,0,1,0,1,0,0", NULL, "padding='VALID' strides=[1,2,2,1]", true, 1},
        {"0,0,1,1,1,1,0,0", "0", "padding='VALID' strides=[1,1,1,1]", false, 1},
        {"0,0,1,1,1,1,0,0", "-0", "padding='VALID' strides=[1,1,1,1]", false, 1},
        {"0,0,1,0,0,1,0,0", NULL,
         "padding='EXPLICIT' explicit_paddings=[0,0,1,2,0,1,0,0] strides=[1,1,1,1]", false, 1},
        {"0,0,4,3,4,4,0,0", NULL, "padding='VALID' strides=[1,1,1,1] dilations=[1,2,2,1]", false,
         1},
        /* These stay: another value, another axis, SAME, more than the window. */
        {"0,0,1,1,1,1,0,0", "2", "padding='VALID' strides=[1,1,1,1]", false, 0},
        {"0,0,1,1,1,1,0,0", "nan", "padding='VALID' strides=[1,1,1,1]", false, 0},
        {"1,0,1,1,1,1,0,0", NULL, "padding='VALID' strides=[1,1,1,1]", false, 0},
        {"0,0,1,1,1,1,8,4", NULL, "padding='VALID' strides=[1,1,1,1]", false, 0},
        {"0,0,1,1,1,1,0,0", NULL, "padding='SAME' strides=[1,1,1,1]", false, 0},
        {"0,0,3,3,0,0,0,0", NULL, "padding='VALID' strides=[1,1,1,1]", false, 0},
    };
    struct fixture *x = *state;
    char text[160];

    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int64_t batch = 0; batch < 3; batch++) {
            const int64_t dim[] = {batch, 13, 12, c[i].pad[12] == '8' ? 8 : 20};
            feed(x, "x", 4, dim);
            snprintf(text, sizeof text, "dtype=int32 value=int32<4,2>:%s", c[i].pad);
            node(x, "paddings", "Const", "", text);
            if (c[i].value) {
                snprintf(text, sizeof text, "dtype=float value=float<>:%s", c[i].value);
                node(x, "value", "Const", "", text);
            }
            node(x, "padded", c[i].value ? "PadV2" : "Pad",
                 c[i].value ? "x paddings value" : "x paddings", "T=float Tpaddings=int32");
            constant(x, "w", c[i].depthwise ? "3x3x20x1" : "3x3x20x16", 0);
            snprintf(text, sizeof text, "T=float %s", c[i].attrs);
            node(x, "head", c[i].depthwise ? "DepthwiseConv2dNative" : "Conv2D", "padded w", text);
            node(x, "out", "Relu6", "head", "T=float");
            fetch(x, "out");
            compare(x, 1 + c[i].joined, c[i].pad);
        }
    /* Read by somebody else too. */
    const int64_t dim[] = {2, 9, 9, 20};
    feed(x, "x", 4, dim);
    node(x, "paddings", "Const", "", "dtype=int32 value=int32<4,2>:0,0,1,1,1,1,0,0");
    node(x, "padded", "Pad", "x paddings", "T=float Tpaddings=int32");
    constant(x, "w", "3x3x20x16", 0);
    node(x, "head", "Conv2D", "padded w", "T=float padding='VALID' strides=[1,1,1,1]");
    fetch(x, "head");
    fetch(x, "padded");
    compare(x, 0, "a fetched padding");
}

/* Zeros around a MaxPool are larger than what is negative in it. */
static void padding_with_zeros_joins_a_pool(void **state)
{
    static const struct {
        const char *pad, *op, *attrs;
        int joined;
    } c[] = {
        {"0,0,1,1,1,1,0,0", "MaxPool", "padding='VALID' ksize=[1,3,3,1] strides=[1,2,2,1]", 1},
        {"0,0,0,1,2,0,0,0", "MaxPool", "padding='VALID' ksize=[1,3,3,1] strides=[1,1,1,1]", 1},
        {"0,0,1,0,1,0,0,0", "MaxPool", "padding='VALID' ksize=[1,2,2,1] strides=[1,3,3,1]", 1},
        {"0,0,3,3,0,0,0,0", "MaxPool", "padding='VALID' ksize=[1,4,1,1] strides=[1,4,1,1]", 1},
        /* These stay: padding of its own, more than the window, other axes, no maximum. */
        {"0,0,1,1,1,1,0,0", "MaxPool", "padding='SAME' ksize=[1,3,3,1] strides=[1,2,2,1]", 0},
        {"0,0,1,1,1,1,0,0", "MaxPool",
         "padding='EXPLICIT' explicit_paddings=[0,0,1,1,1,1,0,0] ksize=[1,3,3,1] "
         "strides=[1,2,2,1]",
         0},
        {"0,0,3,0,0,0,0,0", "MaxPool", "padding='VALID' ksize=[1,3,3,1] strides=[1,2,2,1]", 0},
        {"0,0,1,1,1,1,2,2", "MaxPool", "padding='VALID' ksize=[1,3,3,1] strides=[1,2,2,1]", 0},
        {"0,0,1,1,1,1,0,0", "MaxPool", "padding='VALID' ksize=[1,1,1,5] strides=[1,1,1,5]", 0},
        {"0,0,1,1,1,1,0,0", "AvgPool", "padding='VALID' ksize=[1,3,3,1] strides=[1,2,2,1]", 0},
    };
    static const int channels_of[] = {20, 64, 3};
    struct fixture *x = *state;
    char text[200];

    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int64_t batch = 0; batch < 3; batch++) {
            const int64_t dim[] = {batch, 13, 12,
                                   strstr(c[i].attrs, ",5]") ? 20 : channels_of[batch]};
            feed(x, "x", 4, dim);
            constant(x, "down", "1x1x1x1", -3); /* mostly below the zeros around it */
            node(x, "low", "AddV2", "x down", "T=float");
            snprintf(text, sizeof text, "dtype=int32 value=int32<4,2>:%s", c[i].pad);
            node(x, "paddings", "Const", "", text);
            node(x, "padded", "Pad", "low paddings", "T=float Tpaddings=int32");
            snprintf(text, sizeof text, "T=float %s", c[i].attrs);
            node(x, "out", c[i].op, "padded", text);
            fetch(x, "out");
            compare(x, c[i].joined, c[i].attrs);
        }
}

/* ---- Reshape behind a product ---- */

static void steps_behind_a_reshape_join_the_matmul(void **state)
{
    static const struct {
        const char *last, *bias; /* the last dimensions, and what is added */
        int joined;
    } c[] = {
        {"64", "64", 3},       {"4,16", "4x16", 3}, {"1,64", "1x64", 0}, {"4,16", "16", 0},
        {"2,4,16", "16", 0},   {"128", "128", 0},   {"32", "32", 0},     {"64", "1x64", 0},
        {"4,16", "1x4x16", 0}, {"16,4", "4x16", 0}, {"-1", "64", 0},     {"4,-1", "16", 0},
        {"64", "2x3x64", 0},
    };
    struct fixture *x = *state;
    char text[80];

    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int form = 0; form < 3; form++)
            for (int64_t batch = 0; batch < 7; batch += 6) {
                const int64_t dim[] = {batch, 96};
                constant(x, "w", "96x64", 0);
                constant(x, "b", c[i].bias, 0);
                feed(x, "x", 2, dim);
                node(x, "head", form == 2 ? "BatchMatMulV2" : "MatMul", "x w", "T=float");
                snprintf(text, sizeof text, "dtype=int32 value=int32<%d>:%s%s",
                         (strchr(c[i].last, ',')
                              ? strrchr(c[i].last, ',') != strchr(c[i].last, ',') ? 3 : 2
                              : 1) +
                             (form ? 0 : 2),
                         form    ? ""
                         : batch ? "2,3,"
                                 : "0,3,",
                         c[i].last);
                node(x, "last", "Const", "", text);
                if (form) { /* [rows of x] and what is constant */
                    node(x, "shape", "Shape", "x", "T=float");
                    node(x, "zero", "Const", "", "dtype=int32 value=int32<>:0");
                    node(x, "nought", "Const", "", "dtype=int32 value=int32<1>:0");
                    node(x, "one", "Const", "", "dtype=int32 value=int32<1>:1");
                    node(x, "rows", "StridedSlice", "shape nought one one",
                         "T=int32 Index=int32 begin_mask=0 end_mask=0 ellipsis_mask=0 "
                         "new_axis_mask=0 shrink_axis_mask=0");
                    node(x, "to", "ConcatV2", "rows last zero", "T=int32 N=2");
                }
                node(x, "wide", "Reshape", form ? "head to" : "head last", "T=float");
                node(x, "sum", "AddV2", "wide b", "T=float");
                const int n = activation(x, 11, "sum");
                fetch(x, "out");
                snprintf(text, sizeof text, "%s + %s, form %d", c[i].last, c[i].bias, form);
                compare(x, c[i].joined ? n + 1 : 0, text);
            }
    /* Nothing behind it. */
    const int64_t dim[] = {6, 96};
    constant(x, "w", "96x64", 0);
    feed(x, "x", 2, dim);
    node(x, "head", "MatMul", "x w", "T=float");
    node(x, "to", "Const", "", "dtype=int32 value=int32<3>:2,3,64");
    node(x, "wide", "Reshape", "head to", "T=float");
    fetch(x, "wide");
    compare(x, 0, "a bare Reshape");
}

/* Its own refusal (TensorFlow has no dilated depthwise kernel) is the one that is answered. */
static void what_a_convolution_refuses_comes_before_its_epilogue(void **state)
{
    struct fixture *x = *state;
    feed(x, "in", 4, (int64_t[]){1, 6, 6, 2});
    feed(x, "other", 4, (int64_t[]){1, 5, 6, 2});
    constant(x, "filter", "3x3x2x1", 0);
    node(x, "y", "DepthwiseConv2dNative", "in filter",
         "T=float padding='SAME' strides=[1,1,1,1] dilations=[1,2,2,1]");
    node(x, "sum", "AddV2", "y other", "T=float");
    node(x, "relu", "Relu", "sum", "T=float");
    fetch(x, "relu");
    compare(x, 0, "a dilated convolution with an addend that does not fit");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_activation_joins_every_head),
        TEST(what_a_convolution_refuses_comes_before_its_epilogue),
        TEST(what_is_written_otherwise_gives_the_same),
        TEST(bias_normalisation_and_residual_join),
        TEST(what_comes_behind_a_residual_stays_there),
        TEST(large_images_join_in_blocks),
        TEST(a_residual_of_another_shape_is_broadcast_or_refused),
        TEST(vectors_that_do_not_fit_stay_nodes),
        TEST(a_value_that_others_see_stays),
        TEST(of_two_convolutions_one_takes_the_sum),
        TEST(nan_now_and_then_is_never_lost),
        TEST(an_average_of_nothing_stays_nan_behind_relu),
        TEST(rows_stay_apart_with_a_residual),
        TEST(padding_with_zeros_joins_a_convolution),
        TEST(padding_with_zeros_joins_a_pool),
        TEST(steps_behind_a_reshape_join_the_matmul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
