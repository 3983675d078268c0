/* Bottom-up merge sort of chunks that qsort has sorted. */
#include "kernels/array/sort.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/array/array.h"

struct sort {
    struct rt_run *r;
    size_t size;
    int (*compare)(const void *a, const void *b);
};

/* the cost of comparing and moving one element, in units of rt_run_spend */
enum { STEP_WORK = 32 };

/* Merges the sorted ranges src[from, middle) and src[middle, to) into dst[from, to). */
static enum rt_status merge(const struct sort *s, char *dst, const char *src, int64_t from,
                            int64_t middle, int64_t to)
{
    const size_t size = s->size;
    const char *a = src + (size_t)from * size, *a_end = src + (size_t)middle * size;
    const char *b = a_end, *b_end = src + (size_t)to * size;

    dst += (size_t)from * size;
    while (a < a_end && b < b_end) {
        const char **least = s->compare(b, a) < 0 ? &b : &a;
        memcpy(dst, *least, size);
        *least += size;
        dst += size;
        if (rt_run_spend(s->r, &s->r->left, STEP_WORK))
            return s->r->err->code;
    }
    /* At most one of the two ranges has elements left. */
    const char *rest = a < a_end ? a : b;
    return kn_copy_chunks(s->r, RT_U8, dst, rest, (a < a_end ? a_end : b_end) - rest);
}

/* Merges all sorted chunks, and leaves the result in `base`. */
static enum rt_status merge_runs(const struct sort *s, char *base, char *workspace, int64_t n)
{
    char *src = base, *dst = workspace, *swap;
    enum rt_status st = RT_OK;

    for (int64_t width = KN_SORT_RUN; width < n && !st; width *= 2) {
        for (int64_t i = 0; i < n && !st; i += 2 * width) {
            const int64_t middle = n - i < width ? n : i + width;
            st = merge(s, dst, src, i, middle, n - middle < width ? n : middle + width);
        }
        swap = src;
        src = dst;
        dst = swap;
    }
    return st || src == base ? st : kn_copy_chunks(s->r, RT_U8, base, src, n * (int64_t)s->size);
}

enum rt_status kn_sort(struct rt_run *r, void *base, int64_t n, size_t size,
                       int (*compare)(const void *a, const void *b))
{
    const struct sort s = {r, size, compare};
    char *at = base;

    for (int64_t i = 0; i < n; i += KN_SORT_RUN) {
        const int64_t some = n - i < KN_SORT_RUN ? n - i : KN_SORT_RUN;
        qsort(at + (size_t)i * size, (size_t)some, size, compare);
        if (rt_run_spend(r, &r->left, STEP_WORK * 14 * some)) /* 14 is log2 of KN_SORT_RUN */
            return r->err->code;
    }
    if (n <= KN_SORT_RUN)
        return RT_OK;
    char *workspace = rt_run_alloc(r, (size_t)n * size);
    if (!workspace)
        return r->err->code;
    const enum rt_status st = merge_runs(&s, base, workspace, n);
    rt_pool_free(workspace);
    return st;
}
