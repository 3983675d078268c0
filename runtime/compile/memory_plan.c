/*
 * Memory planning: assigns each value of a segment an offset in the activation buffer. Extents are
 * placed from the largest to the smallest. Each is placed in the smallest sufficient gap between
 * the extents that are in use at the same time. For neural networks, the result is close to the
 * minimum size. The time is quadratic in the number of extents. The length of the segment limits
 * this number.
 */
#include "runtime/compile/compile.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const struct rt_extent *x = *(struct rt_extent *const *)a, *y = *(struct rt_extent *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

static size_t end_of(const struct rt_extent *e)
{
    return e->offset + e->bytes;
}

/* Returns the offset of the smallest gap that can hold `e`. `placed` is sorted by offset. */
static size_t find_gap(struct rt_extent *const *placed, int n, const struct rt_extent *e)
{
    size_t at = 0, best = SIZE_MAX, least = SIZE_MAX;
    for (int i = 0; i < n; i++) {
        const struct rt_extent *other = placed[i];
        if (other->last < e->first || e->last < other->first)
            continue;
        if (other->offset > at && other->offset - at >= e->bytes && other->offset - at < least) {
            least = other->offset - at;
            best = at;
        }
        if (end_of(other) > at)
            at = end_of(other);
    }
    return best == SIZE_MAX ? at : best;
}

size_t rt_memory_plan_place(struct rt_extent *e, int n, bool on_device)
{
    struct rt_extent **order = malloc(((size_t)n + 1) * 2 * sizeof(void *));
    size_t total = 0;
    int n_order = 0;
    if (!order)
        return SIZE_MAX;
    struct rt_extent **placed = order + n;
    for (int i = 0; i < n; i++) {
        if (e[i].on_device != on_device)
            continue;
        if (e[i].bytes > SIZE_MAX / 2 / ((size_t)n + 1) - 64) {
            free(order);
            return SIZE_MAX;
        }
        e[i].bytes = (e[i].bytes + 63) & ~(size_t)63;
        order[n_order++] = &e[i];
    }
    if (n_order)
        qsort(order, (size_t)n_order, sizeof *order, by_size);
    for (int i = 0; i < n_order; i++) {
        struct rt_extent *x = order[i];
        x->offset = find_gap(placed, i, x);
        int at = i;
        for (; at > 0 && placed[at - 1]->offset > x->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = x;
        total = end_of(x) > total ? end_of(x) : total;
    }
    free(order);
    return total;
}
