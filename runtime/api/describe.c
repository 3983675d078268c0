#include "runtime/api/describe.h"

#include <string.h>

#include "runtime/base/bytes.h"
#include "runtime/core/op.h"
#include "runtime/fusion/elementwise.h"
#include "runtime/fusion/epilogue.h"

/* ---- what was fused ---- */

static const char *elementwise_step_name(int64_t op)
{
    switch (op) {
#define X(name, kernel)                                                                            \
    case RT_ELEMENTWISE_##name:                                                                    \
        return #name;
        RT_ELEMENTWISE_UNARY(X)
        RT_ELEMENTWISE_BINARY(X)
        RT_ELEMENTWISE_TRUTH(X)
        RT_ELEMENTWISE_LOGICAL(X)
        X(BiasAdd, )
        X(LogicalNot, )
        X(Cast, )
        X(LeakyRelu, )
        X(SelectV2, )
#undef X
    default:
        return "?";
    }
}

static const char *elementwise_text(const struct rt_node *n, struct rt_arena *arena)
{
    struct rt_elementwise chain;
    struct rt_bytes text;
    int n_steps;
    rt_elementwise_read(n, &chain);
    const struct rt_elementwise_step *step = rt_elementwise_steps(&chain, &n_steps);
    rt_bytes_init(&text, 4096);
    for (int i = 0; i < n_steps; i++) {
        if (i)
            rt_bytes_addc(&text, ' ');
        rt_bytes_adds(&text, elementwise_step_name(step[i].op));
    }
    const char *out = rt_arena_strndup(arena, text.p ? text.p : "", text.n);
    rt_bytes_clear(&text);
    return out;
}

const char *rt_node_fused(const struct rt_node *n, struct rt_arena *arena)
{
    if (n && strcmp(n->schema->name, "_Chain") == 0)
        return elementwise_text(n, arena);
    for (int k = 0; n && k < n->n_extra; k++)
        if (strcmp(n->extra[k].name, RT_EPILOGUE) == 0 && n->extra[k].value.type == RT_ATTR_STRING)
            return n->extra[k].value.v.s;
    return "";
}

/* ---- arithmetic and traffic ---- */

int64_t rt_trace_bytes(const struct rt_trace_output *t)
{
    if (t->shape.rank < 0 || !rt_dtype_is_plain(t->dtype))
        return 0;
    return (int64_t)rt_shape_elements(&t->shape) * (int64_t)rt_dtype_size(t->dtype);
}

double rt_node_flops(const struct rt_node *n, const struct rt_trace_output *in, int n_in,
                     const struct rt_trace_output *out, int n_out)
{
    struct rt_shape shape[RT_FLOPS_INPUTS];
    if (!n || !n->op || !n->op->flops || n_in < 2 || n_out < 1)
        return 0;
    const int n_shapes = n_in < RT_FLOPS_INPUTS ? n_in : RT_FLOPS_INPUTS;
    for (int k = 0; k < n_shapes; k++)
        shape[k] = in[k].shape;
    return n->op->flops(n, shape, n_shapes, &out[0].shape);
}

double rt_node_bytes(const struct rt_node *n, const struct rt_trace_output *in, int n_in,
                     const struct rt_trace_output *out, int n_out)
{
    if (n && n->op && n->op->is_view)
        return 0;
    const bool is_gather = n_out && n && n->op && n->op->is_gather;
    double bytes = 0;
    for (int k = 0; k < n_in; k++)
        bytes += (double)rt_trace_bytes(k == 0 && is_gather ? &out[0] : &in[k]);
    for (int k = 0; k < n_out; k++)
        bytes += (double)rt_trace_bytes(&out[k]);
    return bytes;
}
