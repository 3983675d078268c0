#include "tests/support/op.h"

#include "kernels/kernels.h"
#include "runtime/base/clock.h"
#include "tests/support/graph_def.h"
#include "tests/support/test.h"

struct rt_tensor op_tensor(enum rt_dtype dtype, int rank, const int64_t *dim, const void *values)
{
    struct rt_tensor t;
    struct rt_error err = {0};
    assert_ok(rt_tensor_new(&t, NULL, dtype, rank, dim, &err), &err);
    if (values && rt_tensor_bytes(&t))
        memcpy(t.data, values, rt_tensor_bytes(&t));
    return t;
}

struct rt_tensor op_floats(int64_t n, const float *values)
{
    return op_tensor(RT_F32, 1, &n, values);
}

struct rt_tensor op_ints(int64_t n, const int32_t *values)
{
    return op_tensor(RT_I32, 1, &n, values);
}

struct rt_tensor op_int(int32_t value)
{
    return op_tensor(RT_I32, 0, NULL, &value);
}

struct opened {
    struct rt_bytes graph;
    struct rt_registry *registry;
    struct rt_session *session;
    struct rt_callable *callable;
};

static enum rt_status open_call(struct opened *o, struct op_call *c)
{
    char inputs[OP_MOST * 8] = "", names[2 * OP_MOST][8], attrs[64];
    const char *feeds[OP_MOST], *fetches[OP_MOST];
    rt_bytes_init(&o->graph, 1 << 20);
    for (int i = 0; i < c->n_in; i++) {
        const char *from = names[i];
        snprintf(names[i], sizeof names[i], "x%d", i);
        feeds[i] = names[i];
        snprintf(attrs, sizeof attrs, "dtype=%s shape=<?>",
                 rt_dtype_name((enum rt_dtype)c->in[i].dtype));
        gd_node(&o->graph, names[i], "Placeholder", "", attrs);
        char before[8];
        if (c->before[i]) {
            snprintf(before, sizeof before, "b%d", i);
            gd_node(&o->graph, before, c->before[i], names[i], c->before_attrs[i]);
            from = before;
        }
        snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%s%s", i ? " " : "",
                 from);
    }
    gd_node(&o->graph, "op", c->op, inputs, c->attrs);
    for (int i = 0; i < c->n_out; i++) {
        snprintf(names[OP_MOST + i], sizeof names[0], "op:%d", i);
        fetches[i] = names[OP_MOST + i];
    }

    o->registry = rt_registry_new();
    assert_true(o->registry && kn_register(o->registry));
    struct rt_library *library = NULL;
    enum rt_status st = rt_library_import(&library, gd_span(&o->graph), o->registry, &c->err);
    if (st)
        return st;
    const struct rt_session_options options = {.registry = o->registry,
                                               .run_memory_limit = c->run_memory_limit};
    st = rt_session_new(&o->session, library, &options, &c->err);
    if (st) {
        rt_library_free(library);
        return st;
    }
    const struct rt_call_spec spec = {.feeds = feeds,
                                      .fetches = fetches,
                                      .targets = (const char *const[]){"op"},
                                      .n_feeds = c->n_in,
                                      .n_fetches = c->n_out,
                                      .n_targets = c->n_out == 0};
    return rt_session_prepare(o->session, &spec, &o->callable, &c->err);
}

static void close_call(struct opened *o)
{
    rt_session_free(o->session);
    rt_registry_free(o->registry);
    rt_bytes_clear(&o->graph);
}

enum rt_status op_run(struct op_call *c)
{
    struct opened o = {0};
    enum rt_status st = open_call(&o, c);
    if (st == RT_OK) {
        const struct rt_run_options options = {
            .deadline_ns = c->deadline_ms ? rt_now_ns() + c->deadline_ms * 1000000 : 0};
        st = rt_callable_run(o.callable, c->in, c->out, &options, &c->err);
    }
    close_call(&o);
    return st;
}

bool op_is_rowwise(struct op_call *c, const struct rt_shape *shapes)
{
    struct opened o = {0};
    const bool yes =
        open_call(&o, c) == RT_OK && rt_callable_is_rowwise(o.callable, shapes, &c->err);
    close_call(&o);
    return yes;
}

void op_clear(struct op_call *c)
{
    for (int i = 0; i < OP_MOST; i++) {
        rt_tensor_clear(&c->in[i]);
        rt_tensor_clear(&c->out[i]);
    }
}
