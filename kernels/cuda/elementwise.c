/*
 * Element-wise ops and "_Chain" on a GPU. All of them run on one device kernel (elementwise.cu),
 * which interprets a list of steps. A single op is a list of one step.
 */
#include <string.h>

#include "kernels/cuda/device/elementwise.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/math/elementwise.h"
#include "kernels/nn/window.h"
#include "runtime/base/checked.h"
#include "runtime/core/op.h"
#include "runtime/fusion/elementwise.h"

struct steps {
    int n;
    struct kc_elementwise_step step[KC_ELEMENTWISE_MOST_STEPS];
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

/* Sets *s to the node's steps. Returns false if the GPU cannot run them. */
static bool read_steps(const struct rt_prep *p, struct steps *s)
{
    const bool is_chain = strcmp(p->node->op->name, "_Chain") == 0;
    if (!is_chain) {
        s->n = 1;
        s->step[0] = (struct kc_elementwise_step){.op = step_op_of(p->node->op->name),
                                                  .a = 0,
                                                  .b = p->n_in > 1 ? 1 : -1,
                                                  .c = p->n_in > 2 ? 2 : -1};
        if (s->step[0].op == RT_ELEMENTWISE_LeakyRelu)
            s->step[0].alpha = rt_attr_float(p->node, "alpha");
        return true;
    }
    struct rt_elementwise chain;
    int n;
    rt_elementwise_read(p->node, &chain);
    const struct rt_elementwise_step *from = rt_elementwise_steps(&chain, &n);
    if (chain.pieces || n > KC_ELEMENTWISE_MOST_STEPS)
        return false;
    s->n = n;
    for (int k = 0; k < n; k++) {
        struct kc_elementwise_step *to = &s->step[k];
        const bool is_leaky = from[k].op == RT_ELEMENTWISE_LeakyRelu;
        *to = (struct kc_elementwise_step){.op = (int32_t)from[k].op,
                                           .a = (int16_t)from[k].a,
                                           .b = (int16_t)from[k].b,
                                           .c = (int16_t)(is_leaky ? -1 : from[k].c)};
        if (is_leaky)
            to->alpha = rt_elementwise_number_of(from[k].c);
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

/* Returns whether each input can be broadcast to the output's shape. Equal, for example, can return
 * a scalar for inputs of incompatible shapes. */
static bool broadcasts(const struct rt_prep *p)
{
    const struct rt_shape *out = &p->out[0].shape;
    for (int k = 0; k < p->n_in; k++) {
        const struct rt_shape *in = &p->in[k].shape;
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
static bool set_dims(const struct rt_prep *p, struct kc_elementwise *e)
{
    const struct rt_shape *out = &p->out[0].shape;
    int64_t count[KC_ELEMENTWISE_MOST_IN];
    for (int k = 0; k < p->n_in; k++)
        count[k] = 1;
    for (int i = out->rank - 1; i >= 0; i--) {
        int64_t stride[KC_ELEMENTWISE_MOST_IN];
        bool joins = e->rank > 0;
        if (out->dim[i] == 1)
            continue;
        for (int k = 0; k < p->n_in; k++) {
            const struct rt_shape *in = &p->in[k].shape;
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
        for (int k = 0; k < p->n_in; k++)
            e->in[k].stride[e->rank] = stride[k];
        e->dim[e->rank++] = out->dim[i];
    }
    return true;
}

/* Fills in the kernel's parameter, except for the addresses of the tensors. Returns false if the
 * kernel cannot run the node. */
static bool fill(const struct rt_prep *p, struct kc_elementwise *e)
{
    struct steps s;
    *e = (struct kc_elementwise){.n = kn_shape_count(&p->out[0].shape)};
    /* BiasAdd adds along the last axis only in a channels-last format. */
    if (strcmp(p->node->op->name, "BiasAdd") == 0 && kn_channels_first(p->node))
        return false;
    if (p->n_in > KC_ELEMENTWISE_MOST_IN || !broadcasts(p) || !read_steps(p, &s) || !set_dims(p, e))
        return false;
    e->n_in = p->n_in;
    e->n_steps = s.n;
    memcpy(e->step, s.step, (size_t)s.n * sizeof *s.step);
    e->out_type = type_of(p->out[0].dtype);
    for (int k = 0; k < p->n_in; k++) {
        e->in[k].type = type_of(p->in[k].dtype);
        if (e->in[k].type < 0)
            return false;
    }
    return e->out_type == KC_F32 || e->out_type == KC_BOOL;
}

int kc_elementwise_can(const struct rt_prep *p)
{
    struct kc_elementwise e;
    return fill(p, &e);
}

enum rt_status kc_elementwise_prepare(struct rt_prep *p, void **state)
{
    struct kc_elementwise *e = rt_prep_alloc(p, sizeof *e);
    if (!e)
        return p->err->code;
    *state = e;
    return fill(p, e) ? RT_OK
                      : rt_fail(p->err, RT_FAILED_PRECONDITION, "the GPU cannot run these steps");
}

enum rt_status kc_elementwise_run(struct rt_run *r)
{
    struct kc_elementwise e = *(const struct kc_elementwise *)r->state;
    for (int k = 0; k < r->n_in; k++)
        e.in[k].data = r->in[k].data;
    e.out = r->out[0].data;
    return cuda_launch(r->stream, kc_elementwise_module, cuda_blocks(e.n), &e, r->err);
}
