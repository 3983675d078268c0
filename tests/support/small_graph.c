#include "tests/support/small_graph.h"

#include "kernels/kernels.h"
#include "runtime/api/describe.h"
#include "tests/support/graph_session.h"

int sg_set_up(void **state)
{
    struct small_graph *x = calloc(1, sizeof *x);
    rt_bytes_init(&x->g, 1 << 24);
    x->registry = rt_registry_new();
    *state = x;
    return x && x->registry && kn_register(x->registry) ? 0 : -1;
}

int sg_set_up_unfused(void **state)
{
    const int failed = sg_set_up(state);
    ((struct small_graph *)*state)->no_fusion = true;
    return failed;
}

int sg_tear_down(void **state)
{
    struct small_graph *x = *state;
    rt_bytes_clear(&x->g);
    rt_session_free(x->session);
    rt_registry_free(x->registry);
    free(x);
    return 0;
}

void sg_node(struct small_graph *x, const char *name, const char *op, const char *inputs,
             const char *attrs)
{
    gd_node(&x->g, name, op, inputs, attrs);
}

void sg_constant(struct small_graph *x, const char *name, const char *ctrl, const char *value)
{
    char attrs[100];
    snprintf(attrs, sizeof attrs, "dtype=float value=float<>:%s", value);
    sg_node(x, name, "Const", ctrl, attrs);
}

void sg_variable(struct small_graph *x)
{
    sg_node(x, "v", "VarHandleOp", "", "dtype=float shape=<> shared_name='v'");
    sg_node(x, "init", "AssignVariableOp", "v x", "dtype=float");
}

void sg_ref_variable(struct small_graph *x)
{
    sg_node(x, "r", "VariableV2", "", "dtype=float shape=<>");
    sg_node(x, "init", "Assign", "r x", "T=float");
}

static enum rt_status prepare(struct small_graph *x, const char *fetch, const char *target,
                              struct rt_callable **c)
{
    const char *feed = "x";
    struct rt_call_spec spec = {.feeds = &feed,
                                .fetches = &fetch,
                                .targets = &target,
                                .n_feeds = 1,
                                .n_fetches = fetch ? 1 : 0,
                                .n_targets = target ? 1 : 0};
    if (!x->session) {
        const struct rt_session_options options = {.registry = x->registry,
                                                   .tuning = {.no_fusion = x->no_fusion}};
        x->session = gs_open(gd_span(&x->g), &options);
    }
    return rt_session_prepare(x->session, &spec, c, &x->err);
}

struct rt_callable *sg_prepare(struct small_graph *x, const char *fetch, const char *target)
{
    struct rt_callable *c = NULL;
    assert_ok(prepare(x, fetch, target, &c), &x->err);
    return c;
}

enum rt_status sg_run(struct small_graph *x, float feed, const char *fetch, struct rt_tensor *out)
{
    const struct rt_tensor in = {.dtype = RT_F32, .data = &feed};
    struct rt_callable *c;
    const enum rt_status st = prepare(x, fetch, NULL, &c);
    return st ? st : rt_callable_run(c, &in, out, NULL, &x->err);
}

float sg_number(struct small_graph *x, float feed, const char *fetch, const char *target)
{
    struct rt_tensor in = {.dtype = RT_F32, .data = &feed}, t = {0};
    struct rt_callable *c = sg_prepare(x, fetch, target);
    float f = 0;
    assert_ok(rt_callable_run(c, &in, &t, NULL, &x->err), &x->err);
    if (fetch) {
        assert_int_equal(t.rank, 0);
        f = t.dtype == RT_I32 ? (float)*(const int32_t *)t.data : *(const float *)t.data;
        rt_tensor_clear(&t);
    }
    return f;
}

int sg_count(struct small_graph *x, const char *fetch, const char *target, const char *op)
{
    struct rt_arena *arena = rt_arena_new(1 << 24);
    struct rt_described_plan d;
    int n = 0;
    assert_non_null(arena);
    assert_ok(rt_callable_describe(sg_prepare(x, fetch, target), arena, &d, &x->err), &x->err);
    for (int i = 0; i < d.n_nodes; i++)
        n += strcmp(d.node[i].op, op) == 0;
    rt_arena_free(arena);
    return n;
}
