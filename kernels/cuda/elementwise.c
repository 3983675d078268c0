/*
 * Element-wise ops and "_Chain" on a GPU. All of them run on one device kernel (elementwise.cu),
 * which interprets a list of steps. A single op is a list of one step.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cuda/device/elementwise.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/vector.h"
#include "kernels/math/elementwise.h"
#include "kernels/nn/window.h"
#include "runtime/base/checked.h"
#include "runtime/core/op.h"
#include "runtime/fusion/elementwise.h"

_Static_assert((int)KC_ELEMENTWISE_MOST_PIECES == (int)RT_ELEMENTWISE_MOST_IN, "all pieces fit");

struct state {
    struct kc_elementwise kernel; /* without addresses */
    int n_pieces;                 /* number of inputs that form the kernel's input 0; at least 1 */
    bool is_divisible;            /* whether vectors of 4 elements never cross an axis or a piece */
};

static int step_op_of(const char *op)
{
    static const struct {
        const char *name;
        int op;
    } ops[] = {
#define X(op, unused) {#op, RT_ELEMENTWISE_##op},
        RT_ELEMENTWISE_UNARY(X) RT_ELEMENTWISE_BINARY(X) RT_ELEMENTWISE_TRUTH(X)
#undef X
            {"BiasAdd", RT_ELEMENTWISE_BiasAdd},
        {"Cast", RT_ELEMENTWISE_Cast},
        {"LeakyRelu", RT_ELEMENTWISE_LeakyRelu},
        {"SelectV2", RT_ELEMENTWISE_SelectV2}};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (strcmp(ops[k].name, op) == 0)
            return ops[k].op;
    return -1;
}

/* Returns the kernel's operand for operand k of a step of the node. The kernel has one input for
 * all pieces of a concatenation. */
static int16_t operand_of(const struct state *s, int64_t k)
{
    if (k < 0)
        return -1;
    return (int16_t)(k == 0 ? 0 : k - s->n_pieces + 1);
}

/* Sets the steps. Returns false if the GPU cannot run them. */
static bool read_steps(const struct rt_prep *p, struct state *s)
{
    struct kc_elementwise *e = &s->kernel;
    struct rt_elementwise chain;
    s->n_pieces = 1;
    if (strcmp(p->node->op->name, "_Chain") != 0) {
        e->n_steps = 1;
        e->step[0] = (struct kc_elementwise_step){.op = step_op_of(p->node->op->name),
                                                  .a = 0,
                                                  .b = p->n_in > 1 ? 1 : -1,
                                                  .c = p->n_in > 2 ? 2 : -1};
        if (e->step[0].op == RT_ELEMENTWISE_LeakyRelu)
            e->step[0].alpha = rt_attr_float(p->node, "alpha");
        return true;
    }
    rt_elementwise_read(p->node, &chain);
    const struct rt_elementwise_step *from = rt_elementwise_steps(&chain, &e->n_steps);
    if (e->n_steps > KC_ELEMENTWISE_MOST_STEPS)
        return false;
    if (chain.pieces)
        s->n_pieces = (int)chain.pieces;
    e->n_pieces = (int32_t)chain.pieces;
    for (int k = 0; k < e->n_steps; k++) {
        const bool is_leaky = from[k].op == RT_ELEMENTWISE_LeakyRelu;
        e->step[k] = (struct kc_elementwise_step){.op = (int32_t)from[k].op,
                                                  .a = operand_of(s, from[k].a),
                                                  .b = operand_of(s, from[k].b),
                                                  .c = operand_of(s, is_leaky ? -1 : from[k].c)};
        if (is_leaky)
            e->step[k].alpha = rt_elementwise_number_of(from[k].c);
    }
    return true;
}

/* Sets the columns at which the pieces end. Returns false if the concatenation has not the output's
 * shape. */
static bool set_pieces(const struct rt_prep *p, struct state *s)
{
    struct rt_elementwise chain;
    struct rt_shape whole;
    struct rt_error err = {0};
    struct kc_elementwise *e = &s->kernel;
    const struct rt_shape *out = &p->out[0].shape;
    if (!e->n_pieces)
        return true;
    rt_elementwise_read(p->node, &chain);
    if (kn_concat_shape(p->in, e->n_pieces, chain.axis, &whole, &err) || !kn_shape_eq(&whole, out))
        return false;
    const int axis = (int)(chain.axis < 0 ? chain.axis + out->rank : chain.axis);
    int64_t each = 1; /* number of columns for each index along the axis */
    for (int i = axis + 1; i < out->rank; i++)
        each = rt_mul_saturated(each, out->dim[i]);
    for (int k = 0; k < e->n_pieces; k++) {
        const int64_t length = rt_mul_saturated(each, p->in[k].shape.dim[axis]);
        e->pieces_row += length;
        e->piece[k].end = e->pieces_row;
        s->is_divisible = s->is_divisible && length % 4 == 0;
        if (p->in[k].dtype != RT_F32)
            return false;
    }
    return true;
}

static int type_of(enum rt_dtype d)
{
    switch (d) {
    case RT_F32:
        return KC_F32;
    case RT_BOOL:
        return KC_BOOL;
    case RT_U8:
        return KC_U8;
    case RT_I32:
        return KC_I32;
    case RT_I64:
        return KC_I64;
    default:
        return -1;
    }
}

/* Returns the shape of the kernel's input k. */
static const struct rt_shape *shape_of(const struct rt_prep *p, const struct state *s, int k)
{
    if (k == 0 && s->kernel.n_pieces)
        return &p->out[0].shape;
    return &p->in[k + s->n_pieces - 1].shape;
}

/* Returns whether each input can be broadcast to the output's shape. Equal, for example, can return
 * a scalar for inputs of incompatible shapes. */
static bool broadcasts(const struct rt_prep *p, const struct state *s)
{
    const struct rt_shape *out = &p->out[0].shape;
    for (int k = 0; k < s->kernel.n_in; k++) {
        const struct rt_shape *in = shape_of(p, s, k);
        const int missing = out->rank - in->rank;
        if (missing < 0)
            return false;
        for (int i = 0; i < in->rank; i++)
            if (in->dim[i] != 1 && in->dim[i] != out->dim[i + missing])
                return false;
    }
    return true;
}

/* Sets the dimensions of the output and the strides of the inputs. Neighbouring dimensions are
 * merged if every input is broadcast along both or along neither. Returns false if too many
 * dimensions remain. */
static bool set_dims(const struct rt_prep *p, struct state *s)
{
    struct kc_elementwise *e = &s->kernel;
    const struct rt_shape *out = &p->out[0].shape;
    int64_t count[KC_ELEMENTWISE_MOST_IN];
    for (int k = 0; k < e->n_in; k++)
        count[k] = 1;
    for (int i = out->rank - 1; i >= 0; i--) {
        int64_t stride[KC_ELEMENTWISE_MOST_IN];
        bool joins = e->rank > 0;
        if (out->dim[i] == 1)
            continue;
        for (int k = 0; k < e->n_in; k++) {
            const struct rt_shape *in = shape_of(p, s, k);
            const int at = i - (out->rank - in->rank);
            const int64_t d = at < 0 ? 1 : in->dim[at];
            stride[k] = d == 1 ? 0 : count[k];
            count[k] = rt_mul_saturated(count[k], d);
            joins = joins && !stride[k] == !e->in[k].stride[e->rank - 1];
        }
        if (joins) {
            e->dim[e->rank - 1] = rt_mul_saturated(e->dim[e->rank - 1], out->dim[i]);
            continue;
        }
        if (e->rank == KC_ELEMENTWISE_MOST_RANK)
            return false;
        for (int k = 0; k < e->n_in; k++)
            e->in[k].stride[e->rank] = stride[k];
        e->dim[e->rank++] = out->dim[i];
    }
    s->is_divisible = e->rank > 0 && e->dim[0] % 4 == 0;
    return true;
}

/* Fills in the state. Returns false if the kernel cannot run the node. */
static bool fill(const struct rt_prep *p, struct state *s)
{
    struct kc_elementwise *e = &s->kernel;
    *e = (struct kc_elementwise){.n = kn_shape_count(&p->out[0].shape)};
    /* BiasAdd adds along the last axis only in a channels-last format. */
    if (strcmp(p->node->op->name, "BiasAdd") == 0 && kn_channels_first(p->node))
        return false;
    if (!read_steps(p, s))
        return false;
    e->n_in = p->n_in - s->n_pieces + 1;
    if (e->n_in > KC_ELEMENTWISE_MOST_IN || !broadcasts(p, s) || !set_dims(p, s) ||
        !set_pieces(p, s))
        return false;
    e->out_type = type_of(p->out[0].dtype);
    for (int k = 0; k < e->n_in; k++) {
        e->in[k].type = type_of(p->in[k + s->n_pieces - 1].dtype);
        if (e->in[k].type < 0)
            return false;
    }
    return e->out_type == KC_F32 || e->out_type == KC_BOOL;
}

int kc_elementwise_can(const struct rt_prep *p)
{
    struct state s;
    return fill(p, &s);
}

enum rt_status kc_elementwise_prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    *state = s;
    return fill(p, s) ? RT_OK
                      : rt_fail(p->err, RT_FAILED_PRECONDITION, "the GPU cannot run these steps");
}

enum rt_status kc_elementwise_run(struct rt_run *r)
{
    const struct state *s = r->state;
    struct kc_elementwise e = s->kernel;
    bool is_aligned = kc_is_aligned(r->out[0].data);
    for (int k = 0; k < r->n_in; k++) {
        const int own = k - s->n_pieces + 1; /* the kernel's input */
        if (k < e.n_pieces)
            e.piece[k].data = r->in[k].data;
        else
            e.in[own].data = r->in[k].data;
        is_aligned = is_aligned && (kc_is_aligned(r->in[k].data) ||
                                    (k >= e.n_pieces && e.in[own].stride[0] == 0));
    }
    e.out = r->out[0].data;
    e.width = s->is_divisible && is_aligned ? 4 : 1;
    return cuda_launch(r->stream, kc_elementwise_module, cuda_blocks(e.n / e.width), &e, r->err);
}
