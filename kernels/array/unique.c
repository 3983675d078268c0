/* Unique and its variants return each distinct value once, in the order of first occurrence.
 * ListDiff returns the values of one list that are not in another list. */
#include "kernels/array/hash_set.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

/* Items are slices of a tensor along one axis. The tensor is viewed as [outer, n, inner]. */
struct items {
    const struct rt_tensor *t;
    int64_t outer, n, inner;
};

static const void *part(const struct items *s, int64_t o, int64_t i, int64_t k)
{
    return kn_at(s->t, (o * s->n + i) * s->inner + k);
}

static uint64_t hash_item(const struct items *s, int64_t i, struct kn_reader *read)
{
    struct rt_siphash h = rt_siphash_begin(rt_siphash_key());

    for (int64_t o = 0; o < s->outer; o++) {
        kn_hash_add(&h, kn_dtype(s->t), part(s, o, i, 0), s->inner, read);
        if (s->outer > 1 && !kn_read_on(read, (size_t)s->inner))
            break;
    }
    return rt_siphash_end(h, 0, 0);
}

static bool same_item(const struct items *a, int64_t i, const struct items *b, int64_t j,
                      struct kn_reader *read)
{
    for (int64_t o = 0; o < a->outer; o++)
        for (int64_t k = 0; k < a->inner; k++) {
            if (!kn_same_element(kn_dtype(a->t), part(a, o, i, k), part(b, o, j, k), read))
                return false;
            if ((k & 0x3ffff) == 0x3ffff && !kn_read_on(read, RT_WORK))
                return false;
        }
    return true;
}

/* Returns the work of reading the strings of item i (kn_text_work). */
static int64_t item_text_work(const struct items *s, int64_t i)
{
    int64_t work = 0;

    for (int64_t o = 0; kn_dtype(s->t) == RT_STRING && o < s->outer; o++)
        work += kn_text_work(RT_STRING, part(s, o, i, 0), s->inner);
    return work;
}

/* Reads the axis of UniqueV2. Without an axis, the tensor must be a vector. */
static enum rt_status axis_of(struct rt_run *r, int *axis)
{
    const struct rt_tensor *t = &r->in[0], *a = r->n_in > 1 ? &r->in[1] : NULL;

    *axis = 0;
    if (a && a->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "axis expects a 1D vector.");
    if (!a || rt_tensor_count(a) == 0) {
        if (t->rank != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "unique expects a 1D vector.");
        return RT_OK;
    }
    if (rt_tensor_count(a) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "axis does not support input tensors larger than 1 elements");
    int64_t v = kn_int_at(a, 0);
    if (v < 0)
        v += t->rank;
    if (v < 0 || v >= t->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "axis has to be between [0, %d)", t->rank);
    *axis = (int)v;
    return RT_OK;
}

static enum rt_status unique_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    int axis = 0;
    enum rt_status st = axis_of(r, &axis);

    if (st)
        return st;
    struct items s = {.t = t, .outer = 1, .n = t->dim[axis], .inner = 1};
    for (int i = 0; i < t->rank; i++)
        if (i != axis)
            *(i < axis ? &s.outer : &s.inner) *= t->dim[i];
    if (rt_tensor_count(t) == 0)
        s.outer = 0; /* items without elements are all equal, so no element is compared */

    /* An occupied slot contains the number of a distinct item, counted from 1. A free slot contains
     * 0. For each distinct item, first[] contains the position of its first occurrence, and count[]
     * contains the number of its occurrences. */
    const int64_t n_slots = kn_hash_slots(s.n), n = s.n;
    int64_t *slot = rt_scratch(r, (size_t)(n_slots + 2 * n + 1) * sizeof *slot);
    if (!slot || !rt_out(r, 1, 1, &n))
        return r->err->code;
    int64_t *first = slot + n_slots, *count = first + n, n_unique = 0;
    /* The cost of hashing one item or of probing one slot, in units of rt_run_spend, not counting
     * the bytes of strings. */
    const int64_t fixed_work =
        rt_add_saturated(rt_mul_saturated(4, s.outer * s.inner), KN_PROBE_WORK);
    int64_t left = RT_WORK;
    struct kn_reader read = {.r = r, .left = &left};
    if (kn_zero_chunks(r, slot, (size_t)n_slots * sizeof *slot))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t work = rt_add_saturated(fixed_work, item_text_work(&s, i));
        int64_t at = (int64_t)(hash_item(&s, i, &read) & (uint64_t)(n_slots - 1));
        for (; slot[at] && !same_item(&s, first[slot[at] - 1], &s, i, &read);
             at = (at + 1) & (n_slots - 1))
            if (read.st || rt_run_spend(r, &left, work))
                return r->err->code;
        if (read.st || rt_run_spend(r, &left, work))
            return r->err->code;
        if (!slot[at]) {
            first[n_unique] = i;
            count[n_unique] = 0;
            slot[at] = ++n_unique;
        }
        count[slot[at] - 1]++;
        kn_put_int(&r->out[1], i, slot[at] - 1);
    }

    int64_t dim[RT_MAX_RANK];
    memcpy(dim, t->dim, (size_t)t->rank * sizeof dim[0]);
    dim[axis] = n_unique;
    if (!rt_out(r, 0, t->rank, dim))
        return r->err->code;
    for (int64_t o = 0; o < s.outer && !st; o++)
        for (int64_t u = 0; u < n_unique && !st; u++) {
            st = kn_copy_run(r, kn_dtype(t), kn_at_mut(&r->out[0], (o * n_unique + u) * s.inner),
                             part(&s, o, first[u], 0), s.inner);
            if (!st)
                st = rt_run_spend(r, &left, KN_PROBE_WORK + s.inner);
        }
    if (r->n_out > 2 && !st) {
        if (!rt_out(r, 2, 1, &n_unique))
            return r->err->code;
        for (int64_t u = 0; u < n_unique && !st; u++) {
            kn_put_int(&r->out[2], u, count[u]);
            st = rt_run_tick(r, u);
        }
    }
    return st;
}

static enum rt_status unique_infer(struct rt_infer *x)
{
    if (x->n_in == 1 && x->in[0].shape.rank == 1)
        x->out[1].shape = x->in[0].shape;
    return RT_OK;
}

#define UNIQUE(symbol, op_)                                                                        \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = unique_infer, .rows = NULL},                                \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, unique_run),                                      \
    };
UNIQUE(unique, "Unique")
UNIQUE(unique_v2, "UniqueV2")
UNIQUE(unique_with_counts, "UniqueWithCounts")
UNIQUE(unique_with_counts_v2, "UniqueWithCountsV2")

/* ---- ListDiff(x, y): the elements of x that are not in y, and their indices ---- */

/* Finds the slot of the item of `b` that equals item i of `a`, or the free slot for this item if no
 * item of `b` equals it. Returns false if the run has been cancelled or its deadline has passed. */
static bool find(struct rt_run *r, int64_t *left, const struct items *b, const int64_t *slot,
                 int64_t n_slots, const struct items *a, int64_t i, int64_t *at)
{
    const int64_t work = KN_PROBE_WORK + item_text_work(a, i);
    struct kn_reader read = {.r = r, .left = left};

    *at = (int64_t)(hash_item(a, i, &read) & (uint64_t)(n_slots - 1));
    for (; slot[*at] && !same_item(b, slot[*at] - 1, a, i, &read); *at = (*at + 1) & (n_slots - 1))
        if (read.st || rt_run_spend(r, left, work))
            return false;
    return !read.st && rt_run_spend(r, left, work) == RT_OK;
}

static enum rt_status diff_run(struct rt_run *r)
{
    const struct rt_tensor *x = &r->in[0], *y = &r->in[1];

    if (x->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "x should be a 1D vector.");
    if (y->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "y should be a 1D vector.");
    const struct items a = {.t = x, .outer = 1, .n = x->dim[0], .inner = 1};
    const struct items b = {.t = y, .outer = 1, .n = y->dim[0], .inner = 1};
    const int64_t n_slots = kn_hash_slots(b.n);
    int64_t *slot = rt_scratch(r, (size_t)(n_slots + a.n) * sizeof *slot), *keep, n = 0;
    if (!slot)
        return r->err->code;
    keep = slot + n_slots;
    if (kn_zero_chunks(r, slot, (size_t)n_slots * sizeof *slot))
        return r->err->code;
    int64_t left = RT_WORK, at;
    for (int64_t i = 0; i < b.n; i++) {
        if (!find(r, &left, &b, slot, n_slots, &b, i, &at))
            return r->err->code;
        slot[at] = i + 1;
    }
    for (int64_t i = 0; i < a.n; i++) {
        if (!find(r, &left, &b, slot, n_slots, &a, i, &at))
            return r->err->code;
        if (!slot[at])
            keep[n++] = i;
    }
    if (!rt_out(r, 0, 1, &n) || !rt_out(r, 1, 1, &n))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        enum rt_status st =
            kn_copy_run(r, kn_dtype(x), kn_at_mut(&r->out[0], i), kn_at(x, keep[i]), 1);
        if (st)
            return st;
        kn_put_int(&r->out[1], i, keep[i]);
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

const struct kn_entry kn_list_diff = {
    .op = {.name = "ListDiff"},
    .kernels = KN_CPU("ListDiff", "list_diff", 0, NULL, diff_run),
};
