#include "runtime/files/slice_set.h"

#include <stdlib.h>

#include "runtime/base/pieces.h"

/* The range of indexes that a slice has in the dimension that is swept. A slice that covers the
 * whole dimension has the range from INT64_MIN to INT64_MAX. */
struct range {
    int64_t first, end;
    const struct rt_slice *slice;
};

/* qsort may copy the array. */
_Static_assert(RT_SLICE_SET_BYTES == 2 * sizeof(struct range), "the memory for each slice");

static bool is_full(const struct rt_slice *s, int axis)
{
    return s->length[axis] < 0;
}

static enum rt_status check_bounds(const struct rt_slice *s, int rank, const int64_t *dim,
                                   struct rt_error *err)
{
    char shape[128], slice[128];

    for (int i = 0; i < rank; i++) {
        if (s->length[i] == -1 && s->start[i] == 0)
            continue;
        if (s->start[i] < 0 || s->length[i] < 0 || s->start[i] > dim[i] ||
            s->length[i] > dim[i] - s->start[i])
            return rt_fail(err, RT_INTERNAL,
                           "Extent in dimension %d out of bounds: shape = %s, slice = %s", i,
                           rt_shape_text(shape, sizeof shape, rank, dim),
                           rt_slice_text(slice, sizeof slice, s));
    }
    return RT_OK;
}

static bool overlap(const struct rt_slice *a, const struct rt_slice *b)
{
    for (int i = 0; i < a->rank; i++) {
        if (is_full(a, i) || is_full(b, i))
            continue;
        const int64_t first = a->start[i] > b->start[i] ? a->start[i] : b->start[i];
        const int64_t end_a = a->start[i] + a->length[i], end_b = b->start[i] + b->length[i];
        if (first >= (end_a < end_b ? end_a : end_b))
            return false;
    }
    return true;
}

/* Returns the dimension in which an index lies in the fewest slices on average. */
static int best_axis(const struct rt_slice *slices, size_t n, int rank, const int64_t *dim)
{
    int best = 0;
    double least = 0;

    for (int axis = 0; axis < rank; axis++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += is_full(&slices[i], axis) || dim[axis] == 0
                       ? 1
                       : (double)slices[i].length[axis] / (double)dim[axis];
        if (axis == 0 || sum < least) {
            best = axis;
            least = sum;
        }
    }
    return best;
}

static int by_first(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return (x->slice > y->slice) - (x->slice < y->slice);
}

static enum rt_status fail_overlap(const struct rt_slice *a, const struct rt_slice *b,
                                   struct rt_error *err)
{
    char earlier[128], later[128];

    return rt_fail(err, RT_INTERNAL, "Overlapping slices: existing slice = %s, new slice = %s",
                   rt_slice_text(earlier, sizeof earlier, a < b ? a : b),
                   rt_slice_text(later, sizeof later, a < b ? b : a));
}

/* Compares each slice with the slices before it, in the order of `range`, that have not ended where
 * it begins. Moves the ranges of these slices to the start of `range`. */
static enum rt_status sweep(struct range *range, size_t n, const struct rt_check *check,
                            struct rt_error *err)
{
    uint64_t n_compared = 0;
    size_t n_open = 0;

    for (size_t i = 0; i < n; i++) {
        const struct range new = range[i];
        size_t n_kept = 0;
        for (size_t k = 0; k < n_open; k++) {
            const enum rt_status st = rt_check_tick(check, ++n_compared, err);
            if (st)
                return st;
            if (range[k].end <= new.first)
                continue;
            if (overlap(range[k].slice, new.slice))
                return fail_overlap(range[k].slice, new.slice, err);
            range[n_kept++] = range[k];
        }
        range[n_kept] = new;
        n_open = n_kept + 1;
    }
    return RT_OK;
}

enum rt_status rt_slice_set_check(const struct rt_slice *slices, size_t n, int rank,
                                  const int64_t *dim, const struct rt_check *check,
                                  struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (size_t i = 0; i < n && !st; i++) {
        st = rt_check_tick(check, i, err);
        if (!st)
            st = check_bounds(&slices[i], rank, dim, err);
    }
    if (st || n < 2)
        return st;
    if (rank == 0)
        return fail_overlap(&slices[0], &slices[1], err);
    struct range *range = calloc(n, sizeof *range);
    if (!range)
        return rt_fail_memory(err, "slices", n * sizeof *range);
    const int axis = best_axis(slices, n, rank, dim);
    for (size_t i = 0; i < n; i++) {
        const struct rt_slice *s = &slices[i];
        range[i] = is_full(s, axis)
                       ? (struct range){INT64_MIN, INT64_MAX, s}
                       : (struct range){s->start[axis], s->start[axis] + s->length[axis], s};
    }
    qsort(range, n, sizeof *range, by_first);
    st = sweep(range, n, check, err);
    free(range);
    return st;
}
