/*
 * Diag makes a tensor of shape [dims, dims] with the input on its diagonal, where dims are the
 * input's dimensions. DiagPart extracts such a diagonal. ParallelConcat stacks rows.
 */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"

enum { PART = 1 << 16 };

static enum rt_status diag_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;

    if (in->rank == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input must be at least rank 1, got 0");
    if (in->rank < 0 || 2 * in->rank > RT_MAX_RANK)
        return RT_OK;
    x->out[0].shape.rank = 2 * in->rank;
    for (int d = 0; d < 2 * in->rank; d++)
        x->out[0].shape.dim[d] = in->dim[d % in->rank];
    return RT_OK;
}

static enum rt_status diag_run(struct rt_run *r)
{
    const struct rt_tensor *x = &r->in[0];
    const int64_t n = rt_tensor_count(x);
    const size_t size = rt_dtype_size(kn_dtype(x));

    if (2 * x->rank > RT_MAX_RANK)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "Diag: the result has more than %d dimensions",
                       RT_MAX_RANK);
    enum rt_status st = kn_outputs(r, diag_infer);
    st = st ? st : kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0]));
    for (int64_t i = 0; i < n && !st; i++) {
        memcpy(kn_at_mut(&r->out[0], i * n + i), kn_at(x, i), size);
        st = rt_run_spend(r, &r->left, 64);
    }
    return st;
}

static enum rt_status part_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;

    if (in->rank < 0)
        return RT_OK;
    if (in->rank % 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "The rank of the tensor should be                                          "
                       "even and positive, got shape %s",
                       KN_TEXT(in));
    const int half = in->rank / 2;
    for (int d = 0; d < half; d++)
        if (in->dim[d] >= 0 && in->dim[d + half] >= 0 && in->dim[d] != in->dim[d + half])
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Invalid shape %s: dimensions %d and %d do not match.", KN_TEXT(in), d,
                           d + half);
    x->out[0].shape = *in;
    x->out[0].shape.rank = half;
    return RT_OK;
}

static enum rt_status part_run(struct rt_run *r)
{
    const size_t size = rt_dtype_size(kn_dtype(&r->in[0]));
    enum rt_status st = kn_outputs(r, part_infer);
    const int64_t n = st ? 0 : rt_tensor_count(&r->out[0]);

    for (int64_t i = 0; i < n && !st; i++) {
        memcpy(kn_at_mut(&r->out[0], i), kn_at(&r->in[0], i * n + i), size);
        st = rt_run_spend(r, &r->left, 64);
    }
    return st;
}

#define TYPES (KN_SET(KN_FLOATS) | KN_SET(KN_COMPLEX) | RT_T(RT_F16) | RT_T(RT_I32) | RT_T(RT_I64))

const struct kn_entry kn_diag = {
    .op = {.name = "Diag", .infer = diag_infer},
    .kernels = KN_CPU("Diag", "diag", TYPES, NULL, diag_run),
};
const struct kn_entry kn_diag_part = {
    .op = {.name = "DiagPart", .infer = part_infer},
    .kernels = KN_CPU("DiagPart", "diag_part", TYPES, NULL, part_run),
};

/* ---- ParallelConcat ---- */

static enum rt_status concat_infer(struct rt_infer *x)
{
    x->out[0].shape = *rt_attr_shape(x->node, "shape");
    return RT_OK;
}

static enum rt_status concat_run(struct rt_run *r)
{
    const struct rt_shape *want = rt_attr_shape(r->node, "shape");
    const enum rt_dtype dt = rt_attr_dtype(r->node, "T");
    enum rt_status st = RT_OK;

    if (!kn_shape_known(want) || want->rank < 1 || want->dim[0] != r->n_in)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "ParallelConcat: the shape %s does not fit %d inputs", KN_TEXT(want),
                       r->n_in);
    if (!kn_out(r, 0, want->rank, want->dim))
        return r->err->code;
    for (int k = 0; k < r->n_in && !st; k++) {
        const struct rt_tensor *t = &r->in[k];
        bool fits = t->rank == want->rank && t->dim[0] == 1;
        for (int d = 1; d < want->rank && fits; d++)
            fits = t->dim[d] == want->dim[d];
        if (!fits)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "ParallelConcat: input %d has the shape %s, which is no row of %s", k,
                           KN_TEXT(t), KN_TEXT(want));
        const int64_t n = rt_tensor_count(t);
        for (int64_t from = 0; from < n && !st; from += PART) {
            const int64_t some = n - from < PART ? n - from : PART;
            kn_copy(dt, kn_at_mut(&r->out[0], k * n + from), kn_at(t, from), some);
            st = rt_run_spend(r, &r->left, rt_dtype_is_plain(dt) ? some : 128 * some);
        }
    }
    return st;
}

const struct kn_entry kn_parallel_concat = {
    .op = {.name = "ParallelConcat", .infer = concat_infer},
    .kernels = KN_CPU("ParallelConcat", "parallel_concat",
                      KN_SET(KN_NUMBERS) | RT_T(RT_BOOL) | RT_T(RT_STRING), NULL, concat_run),
};
