#include "runtime/api/describe.h"

#include <string.h>

#include "runtime/base/bytes.h"
#include "runtime/fusion/elementwise.h"
#include "runtime/fusion/epilogue.h"
#include "runtime/fusion/recurrent.h"

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

/* ---- arithmetic ---- */

static double count(const struct rt_shape *s)
{
    double n = 1;
    for (int d = 0; d < s->rank; d++)
        n *= (double)s->dim[d];
    return s->rank < 0 ? 0 : n;
}

int64_t rt_trace_bytes(const struct rt_trace_output *t)
{
    if (t->shape.rank < 0 || !rt_dtype_is_plain(t->dtype))
        return 0;
    return (int64_t)count(&t->shape) * (int64_t)rt_dtype_size(t->dtype);
}

/* A convolution multiplies each element of `of` by each element of the filter for one channel: the
 * filter's last dimension is the channels of `of`. */
static double convolution_flops(const struct rt_shape *of, const struct rt_shape *filter)
{
    if (filter->rank < 2 || filter->dim[filter->rank - 1] <= 0)
        return 0;
    return 2 * count(of) * count(filter) / (double)filter->dim[filter->rank - 1];
}

/* Each element of `out` is a sum along one of the last two dimensions of `a`. */
static double matmul_flops(const struct rt_shape *out, const struct rt_shape *a, bool transposed)
{
    if (a->rank < 2)
        return 0;
    return 2 * count(out) * (double)a->dim[a->rank - (transposed ? 2 : 1)];
}

/* Each time step of a recurrent layer multiplies the input and the state by the weights of all
 * gates. */
static double recurrent_flops(const struct rt_node *n, const struct rt_shape *x)
{
    struct rt_rnn op;
    rt_rnn_read(n, &op);
    const double units = (double)op.units, depth = (double)op.depth;
    const int gates = rt_cell(op.cell)->n_gates;
    return depth > 0 ? 2 * count(x) / depth * (depth + units) * gates * units : 0;
}

double rt_node_flops(const struct rt_node *n, const struct rt_trace_output *in, int n_in,
                     const struct rt_trace_output *out, int n_out)
{
    const char *op = n ? n->schema->name : "";
    if (n_in < 2 || n_out < 1)
        return 0;
    const struct rt_shape *a = &in[0].shape, *b = &in[1].shape, *y = &out[0].shape;
    if (strcmp(op, "Conv2D") == 0 || strcmp(op, "Conv3D") == 0)
        return convolution_flops(y, b);
    if (strcmp(op, "DepthwiseConv2dNative") == 0)
        return b->rank == 4 ? 2 * count(y) * (double)(b->dim[0] * b->dim[1]) : 0;
    if (strcmp(op, "Conv2DBackpropInput") == 0 && n_in > 2)
        return convolution_flops(&in[2].shape, b);
    if (strcmp(op, "MatMul") == 0)
        return matmul_flops(y, a, rt_attr_bool(n, "transpose_a"));
    if (strncmp(op, "BatchMatMul", strlen("BatchMatMul")) == 0)
        return matmul_flops(y, a, rt_attr_bool(n, "adj_x"));
    if (strcmp(op, "_Attention") == 0 && n_in > 2 && a->rank == 4 && b->rank == 4)
        /* [B,T,N,H]: the scores, and the values weighted by them */
        return 4 * count(a) * (double)b->dim[1];
    if (strcmp(op, "_RNN") == 0)
        return recurrent_flops(n, a);
    return 0;
}

/* ---- traffic ---- */

/* Ops that read only those elements of input 0 that they output. */
static bool takes_part(const char *op)
{
    static const char *const names[] = {"Gather",         "GatherV2",         "GatherNd",
                                        "ResourceGather", "ResourceGatherNd", "Slice",
                                        "StridedSlice"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op, names[i]) == 0)
            return true;
    return false;
}

double rt_node_bytes(const struct rt_node *n, const struct rt_trace_output *in, int n_in,
                     const struct rt_trace_output *out, int n_out)
{
    if (n && n->op && n->op->is_view)
        return 0;
    const char *op = n ? n->schema->name : "";
    const bool is_part = n_out && takes_part(op);
    double bytes = 0;
    for (int k = 0; k < n_in; k++)
        bytes += (double)rt_trace_bytes(k == 0 && is_part ? &out[0] : &in[k]);
    for (int k = 0; k < n_out; k++)
        bytes += (double)rt_trace_bytes(&out[k]);
    return bytes;
}
