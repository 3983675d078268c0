/* CTCGreedyDecoder, and the functions that the CTC ops share (ctc.h). */
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/nn/ctc.h"

enum rt_status kn_ctc_read(struct rt_run *r, struct kn_ctc *c)
{
    const struct rt_tensor *x = &r->in[0], *len = &r->in[1];

    if (x->rank != 3)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "inputs is not a 3-Tensor");
    if (len->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "sequence_length is not a vector");
    *c = (struct kn_ctc){x->dim[0], x->dim[1], x->dim[2], len->data};
    if (rt_tensor_count(x) == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "inputs must not be empty");
    if (c->classes > INT32_MAX)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "num_classes cannot exceed max int");
    if (len->dim[0] != c->batch)
        return rt_fail(r->err, RT_FAILED_PRECONDITION,
                       "len(sequence_length) != batch_size.  len(sequence_length):  %lld "
                       "batch_size: %lld",
                       (long long)len->dim[0], (long long)c->batch);
    for (int64_t b = 0; b < c->batch; b++) {
        if (c->length[b] > c->max_time)
            return rt_fail(r->err, RT_FAILED_PRECONDITION, "sequence_length(%lld) <= %lld",
                           (long long)b, (long long)c->max_time);
        if (rt_run_tick(r, b))
            return r->err->code;
    }
    return RT_OK;
}

enum rt_status kn_ctc_sparse(struct rt_run *r, int k, int step, int64_t batch, const int64_t *n,
                             int64_t **values)
{
    int64_t total = 0, longest = 0, left = RT_WORK;

    for (int64_t b = 0; b < batch; b++) {
        total += n[b];
        longest = n[b] > longest ? n[b] : longest;
    }
    int64_t *at = rt_out(r, k, 2, (int64_t[]){total, 2});
    int64_t *value = at ? rt_out(r, k + step, 1, &total) : NULL;
    int64_t *shape = value ? rt_out(r, k + 2 * step, 1, (int64_t[]){2}) : NULL;
    if (!shape)
        return r->err->code;
    shape[0] = batch;
    shape[1] = longest;
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t i = 0; i < n[b]; i++, at += 2) {
            at[0] = b;
            at[1] = i;
        }
        if (rt_run_spend(r, &left, 2 * n[b]))
            return r->err->code;
    }
    *values = value;
    return RT_OK;
}

enum rt_status kn_ctc_infer_decoder(struct rt_infer *x, int64_t paths)
{
    const struct rt_shape *in = &x->in[0].shape, *len = &x->in[1].shape;

    const int64_t a = in->rank == 3 ? in->dim[1] : -1, b = len->rank == 1 ? len->dim[0] : -1;
    if (x->n_out == 3 * paths + 1)
        x->out[3 * paths].shape = (struct rt_shape){.rank = 2, .dim = {a >= 0 ? a : b, paths}};
    return RT_OK;
}

/* ---- CTCGreedyDecoder ---- */

enum { CHUNK = RT_WORK / 64 };

/* Finds the largest logit of each time step, and adds up these logits. */
#define BEST(dt, T)                                                                                \
    static enum rt_status best_##dt(struct rt_run *r, const struct kn_ctc *c, int64_t b,           \
                                    int32_t *best, void *score)                                    \
    {                                                                                              \
        const T *x = (const T *)r->in[0].data + b * c->classes;                                    \
        T sum = 0;                                                                                 \
        for (int64_t t = 0; t < c->length[b]; t++, x += c->batch * c->classes) {                   \
            int64_t at = 0;                                                                        \
            for (int64_t k = 1; k < c->classes; k++) {                                             \
                at = x[k] > x[at] ? k : at;                                                        \
                if (k % CHUNK == 0 && rt_run_spend(r, &r->left, CHUNK))                            \
                    return r->err->code;                                                           \
            }                                                                                      \
            best[t] = (int32_t)at;                                                                 \
            sum -= x[at];                                                                          \
            if (rt_run_spend(r, &r->left, c->classes % CHUNK))                                     \
                return r->err->code;                                                               \
        }                                                                                          \
        ((T *)score)[b] = sum;                                                                     \
        return RT_OK;                                                                              \
    }
KN_FLOATS(BEST)

/* Removes blanks and, if `merges` is set, repeated classes. Returns the number of remaining
 * classes. */
static int64_t squeeze(const int32_t *best, int64_t n, int64_t blank, bool merges, int32_t *to)
{
    int64_t kept = 0, before = -1;

    for (int64_t t = 0; t < n; t++) {
        if (best[t] != blank && !(merges && best[t] == before))
            to[kept++] = best[t];
        before = best[t];
    }
    return kept;
}

static enum rt_status greedy_infer(struct rt_infer *x)
{
    return kn_ctc_infer_decoder(x, 1);
}

static enum rt_status greedy_run(struct rt_run *r)
{
    struct kn_ctc c;
    int64_t blank = rt_attr_int(r->node, "blank_index"), total = 0, *value;
    enum rt_status st = kn_ctc_read(r, &c);

    if (st)
        return st;
    if (blank < 0)
        blank += c.classes;
    if (blank < 0 || blank >= c.classes)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "blank_index expected to be between %lld and %lld but was %lld",
                       (long long)-c.classes, (long long)c.classes - 1,
                       (long long)rt_attr_int(r->node, "blank_index"));
    for (int64_t b = 0; b < c.batch; b++)
        total += c.length[b] > 0 ? c.length[b] : 0;
    int64_t *n = rt_scratch(r, (size_t)c.batch * sizeof *n + ((size_t)total + 1) * sizeof(int32_t));
    void *score = n ? kn_out(r, 3, 2, (int64_t[]){c.batch, 1}) : NULL;
    if (!score)
        return r->err->code;
    int32_t *best = (int32_t *)(n + c.batch), *to = best;
    const bool merges = rt_attr_bool(r->node, "merge_repeated");
    for (int64_t b = 0; b < c.batch; b++) {
        st = r->in[0].dtype == RT_F32 ? best_RT_F32(r, &c, b, to, score)
                                      : best_RT_F64(r, &c, b, to, score);
        if (st)
            return st;
        n[b] = squeeze(to, c.length[b], blank, merges, to);
        to += n[b];
    }
    st = kn_ctc_sparse(r, 0, 1, c.batch, n, &value);
    for (int64_t i = 0; !st && i < to - best; i++) {
        value[i] = best[i];
        st = rt_run_tick(r, i);
    }
    return st;
}

const struct kn_entry kn_ctc_greedy_decoder = {
    .op = {.name = "CTCGreedyDecoder", .infer = greedy_infer},
    .kernels =
        KN_CPU("CTCGreedyDecoder", "ctc_greedy_decoder", KN_SET(KN_FLOATS), NULL, greedy_run),
};
