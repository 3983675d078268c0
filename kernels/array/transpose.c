/* Transpose, ConjugateTranspose, InvertPermutation. */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "runtime/core/copy.h"

#include <stdio.h>

static enum rt_status perm_of(const struct rt_tensor *t, int rank, int64_t *perm,
                              struct rt_error *err)
{
    unsigned seen = 0;

    if (t->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "perm must be rank 1, got shape %s", KN_TEXT(t));
    if (t->dim[0] != rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "transpose expects a vector of size %d. But input(1) is a vector of size "
                       "%lld",
                       rank, (long long)t->dim[0]);
    for (int i = 0; i < rank; i++) {
        perm[i] = kn_int_at(t, i);
        if (perm[i] < 0)
            perm[i] += rank;
        if (perm[i] < 0 || perm[i] >= rank)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%lld is out of range [0 .. %d)",
                           (long long)kn_int_at(t, i), rank);
        seen |= 1u << perm[i];
    }
    for (int i = 0; i < rank; i++) {
        if (seen >> i & 1)
            continue;
        char text[RT_MAX_RANK * 22];
        size_t at = 0;
        for (int k = 0; k < rank; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", k ? "," : "",
                                   (long long)kn_int_at(t, k));
        return rt_fail(err, RT_INVALID_ARGUMENT, "%d is missing from {%s}.", i, text);
    }
    return RT_OK;
}

static enum rt_status transpose_infer(struct rt_infer *x)
{
    int64_t perm[RT_MAX_RANK];

    if (!kn_known(x, 2))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    enum rt_status st = perm_of(x->in[1].value, in->rank, perm, x->err);
    if (st)
        return st;
    x->out[0].shape.rank = in->rank;
    for (int i = 0; i < in->rank; i++)
        x->out[0].shape.dim[i] = in->dim[perm[i]];
    return RT_OK;
}

static enum rt_status transpose_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    int64_t perm[RT_MAX_RANK], stride[RT_MAX_RANK], dim[RT_MAX_RANK], last = -1;
    struct kn_walk w = {.rank = t->rank};
    bool moves = false;
    enum rt_status st = perm_of(&r->in[1], t->rank, perm, r->err);

    if (st)
        return st;
    kn_strides(t->rank, t->dim, stride);
    for (int i = 0; i < t->rank; i++) {
        dim[i] = w.dim[i] = t->dim[perm[i]];
        w.src[i] = stride[perm[i]];
        if (dim[i] != 1) { /* dimensions of length 1 may be in any order */
            moves = moves || perm[i] < last;
            last = perm[i];
        }
    }
    if (!moves)
        return kn_view(r, 0, 0, t->rank, dim);
    kn_strides(t->rank, dim, w.dst);
    if (!kn_out(r, 0, t->rank, dim))
        return r->err->code;
    return kn_walk_copy(kn_dtype(t), &w, r->out[0].data, t->data, r);
}

static enum rt_status conjugate_run(struct rt_run *r)
{
    const enum rt_dtype dt = kn_dtype(&r->in[0]);

    enum rt_status st = transpose_run(r);
    /* the output is not an alias, because TensorFlow always copies the input */
    r->out[0].alias_of = 0;
    if (dt != RT_C64 && dt != RT_C128)
        return st;
    if (st)
        return st;
    struct rt_tensor *o = &r->out[0];
    const int64_t n = rt_tensor_count(o);
    /* an output that is a view of the input is copied first, because the input must not be
     * modified */
    if (n && o->data == r->in[0].data) {
        const struct rt_check check = rt_run_as_check(r);
        struct rt_tensor copy;
        st = rt_tensor_copy_checked(&copy, o, rt_run_pool(r), &check, r->err);
        if (st)
            return st;
        rt_out_tensor(r, 0, &copy);
        rt_tensor_clear(&copy);
    }
    for (int64_t i = 0; i < n; i++) {
        if (dt == RT_C64)
            ((float *)o->data)[2 * i + 1] = -((float *)o->data)[2 * i + 1];
        else
            ((double *)o->data)[2 * i + 1] = -((double *)o->data)[2 * i + 1];
        if ((st = rt_run_tick(r, i)))
            return st;
    }
    return RT_OK;
}

static void transpose_rows(struct rt_rows *r)
{
    int64_t perm[RT_MAX_RANK];

    if (kn_rows_independent(r) || r->in_dep[0].kind != RT_DEP_ROWS || !r->in[1].value ||
        r->in[0].shape.rank < 0 || perm_of(r->in[1].value, r->in[0].shape.rank, perm, NULL))
        return;
    for (int i = 0; i < r->in[0].shape.rank; i++)
        if (perm[i] == r->in_dep[0].axis)
            kn_rows_set(r, RT_DEP_ROWS, i);
}

const struct kn_entry kn_transpose = {
    .op = {.name = "Transpose", .shape_in = 2, .infer = transpose_infer, .rows = transpose_rows},
    .kernels = KN_CPU("Transpose", "transpose", 0, NULL, transpose_run),
};
const struct kn_entry kn_conjugate_transpose = {
    .op = {.name = "ConjugateTranspose",
           .shape_in = 2,
           .infer = transpose_infer,
           .rows = transpose_rows},
    .kernels = KN_CPU("ConjugateTranspose", "conjugate_transpose", 0, NULL, conjugate_run),
};

/* ---- InvertPermutation ---- */

static enum rt_status invert_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];

    if (t->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "invert_permutation expects a 1D vector.");
    const int64_t n = t->dim[0];
    if (!kn_out(r, 0, 1, &n))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        kn_put_int(&r->out[0], i, -1);
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t d = kn_int_at(t, i);
        if (rt_run_tick(r, i))
            return r->err->code;
        if (d < 0 || d >= n)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%lld is not between 0 and %lld",
                           (long long)d, (long long)n);
        if (kn_int_at(&r->out[0], d) != -1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%lld is duplicated in the input.",
                           (long long)d);
        kn_put_int(&r->out[0], d, i);
    }
    return RT_OK;
}

const struct kn_entry kn_invert_permutation = {
    .op = {.name = "InvertPermutation", .infer = kn_infer_copy},
    .kernels = KN_CPU("InvertPermutation", "invert_permutation", 0, NULL, invert_run),
};
