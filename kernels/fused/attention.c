/* The shapes of an "_Attention" (attention.h). */
#include "kernels/fused/attention.h"

#include <string.h>

#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

static enum rt_status check_dim(const struct rt_shape *s, int axis, int64_t want,
                                struct rt_error *err)
{
    char text[160];
    if (want < 0 || s->dim[axis] < 0 || s->dim[axis] == want)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "Expected dimension %lld at axis %d of the input shaped %s but got dimension "
                   "%lld",
                   (long long)want, axis, rt_shape_text(text, sizeof text, s->rank, s->dim),
                   (long long)s->dim[axis]);
}

static enum rt_status check_rank(int k, int rank, struct rt_error *err)
{
    return rank == 4 ? RT_OK
                     : rt_fail(err, RT_INVALID_ARGUMENT,
                               "Expected input %d to have rank %d but got: %d", k, 4, rank);
}

int kn_attention_heads(const struct rt_attention *op, int k)
{
    return op->heads_first >> k & 1 ? 1 : 2;
}

/* Checks the batch size and the number of heads of input k, whose shape is `s`. If op->broadcasts
 * contains `which`, both are broadcast with those in *scores, and the results are stored in
 * *scores. Otherwise both must equal those in *scores. */
static enum rt_status meet(const struct rt_attention *op, int k, int which,
                           const struct rt_shape *s, struct rt_shape *scores, struct rt_error *err)
{
    const int axis[2] = {0, kn_attention_heads(op, k)};
    enum rt_status st = RT_OK;

    for (int i = 0; i < 2 && !st; i++) {
        if (op->broadcasts & which) {
            const struct rt_shape one = {1, {scores->dim[i]}}, other = {1, {s->dim[axis[i]]}};
            struct rt_shape both;
            st = kn_broadcast(&both, &one, &other, err);
            scores->dim[i] = st ? 0 : both.dim[0];
        } else {
            st = check_dim(s, axis[i], scores->dim[i], err);
        }
    }
    return st;
}

enum rt_status kn_attention_scores(const struct rt_attention *op, const struct rt_info *in,
                                   struct rt_shape *before, struct rt_shape *behind,
                                   struct rt_error *err)
{
    const struct rt_shape *q = &in[RT_ATTENTION_QUERIES].shape, *k = &in[RT_ATTENTION_KEYS].shape;
    int n_steps;
    const struct rt_attention_step *s = rt_attention_steps(op, &n_steps);
    enum rt_status st = check_rank(0, q->rank, err);

    if (!st)
        st = check_rank(1, k->rank, err);
    if (!st)
        st = check_dim(k, 3, q->dim[3], err);
    if (st)
        return st;
    const int qn = kn_attention_heads(op, RT_ATTENTION_QUERIES),
              kn = kn_attention_heads(op, RT_ATTENTION_KEYS);
    *before = (struct rt_shape){4, {q->dim[0], q->dim[qn], q->dim[3 - qn], k->dim[3 - kn]}};
    st = meet(op, RT_ATTENTION_KEYS, RT_ATTENTION_SCORES, k, before, err);
    *behind = *before;
    for (int j = 0; j < n_steps && !st; j++) {
        const struct rt_shape last = *behind;
        st = kn_broadcast(behind, &last, &in[s[j].a].shape, err);
    }
    return st ? st : check_rank(0, behind->rank, err);
}

enum rt_status kn_attention_infer(struct rt_infer *x)
{
    const struct rt_shape *v = &x->in[RT_ATTENTION_VALUES].shape;
    struct rt_shape before, s;
    struct rt_attention op;

    rt_attention_read(x->node, &op);
    for (int k = 0; k < x->n_in; k++)
        if (x->in[k].shape.rank < 0)
            return RT_OK;
    enum rt_status st = kn_attention_scores(&op, x->in, &before, &s, x->err);
    if (!st)
        st = check_rank(1, v->rank, x->err);
    if (!st)
        st = check_dim(v, 3 - kn_attention_heads(&op, RT_ATTENTION_VALUES), s.dim[3], x->err);
    if (!st)
        st = meet(&op, RT_ATTENTION_VALUES, RT_ATTENTION_CONTEXT, v, &s, x->err);
    const int heads = kn_attention_heads(&op, RT_ATTENTION_OUT);
    x->out[0].shape = (struct rt_shape){4, {s.dim[0], 0, 0, v->dim[3]}};
    x->out[0].shape.dim[heads] = s.dim[1];
    x->out[0].shape.dim[3 - heads] = s.dim[2];
    return st;
}

struct kn_attention_places kn_attention_places(const struct rt_attention *op, int k,
                                               const struct rt_shape *s)
{
    const int heads = kn_attention_heads(op, k), rows = 3 - heads;
    int64_t apart[3] = {s->dim[1] * s->dim[2] * s->dim[3], s->dim[2] * s->dim[3], s->dim[3]};
    return (struct kn_attention_places){.batch = s->dim[0] == 1 ? 0 : apart[0],
                                        .head = s->dim[heads] == 1 ? 0 : apart[heads],
                                        .row = apart[rows]};
}

void kn_attention_strides(const struct rt_shape *s, int64_t stride[4])
{
    int64_t next = 1;

    memset(stride, 0, 4 * sizeof *stride);
    for (int i = s->rank - 1; i >= 0; i--) {
        stride[4 - s->rank + i] = s->dim[i] == 1 ? 0 : next;
        next = rt_mul_saturated(next, s->dim[i]);
    }
}
