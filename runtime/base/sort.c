/* Bottom-up merge sort of chunks that qsort has sorted. */
#include "runtime/base/sort.h"

#include <stdlib.h>
#include <string.h>

struct sort {
    size_t size;
    int (*compare)(const void *a, const void *b);
    const struct rt_check *check; /* may be NULL */
    struct rt_error *err;
    size_t n_unchecked; /* number of elements merged since the last check */
};

/* Counts n merged elements. Calls the check when RT_SORT_RUN elements have been counted. */
static enum rt_status spend(struct sort *s, size_t n)
{
    s->n_unchecked += n;
    if (s->n_unchecked < RT_SORT_RUN)
        return RT_OK;
    s->n_unchecked = 0;
    return rt_check_call(s->check, s->err);
}

/* Moves n elements. */
static enum rt_status move(struct sort *s, char *dst, const char *src, size_t n)
{
    enum rt_status st = RT_OK;

    for (size_t at = 0; at < n && !st; at += RT_SORT_RUN) {
        const size_t some = n - at < RT_SORT_RUN ? n - at : RT_SORT_RUN;
        memcpy(dst + at * s->size, src + at * s->size, some * s->size);
        st = spend(s, some);
    }
    return st;
}

/* Merges the sorted ranges src[from, middle) and src[middle, to) into dst[from, to). */
static enum rt_status merge(struct sort *s, char *dst, const char *src, size_t from, size_t middle,
                            size_t to)
{
    const size_t size = s->size;
    const char *a = src + from * size, *a_end = src + middle * size;
    const char *b = a_end, *b_end = src + to * size;

    dst += from * size;
    while (a < a_end && b < b_end) {
        const char **least = s->compare(b, a) < 0 ? &b : &a;
        memcpy(dst, *least, size);
        *least += size;
        dst += size;
        const enum rt_status st = spend(s, 1);
        if (st)
            return st;
    }
    return a < a_end ? move(s, dst, a, (size_t)(a_end - a) / size)
                     : move(s, dst, b, (size_t)(b_end - b) / size);
}

enum rt_status rt_sort(void *base, void *workspace, size_t n, size_t size,
                       int (*compare)(const void *a, const void *b), const struct rt_check *check,
                       struct rt_error *err)
{
    struct sort s = {.size = size, .compare = compare, .check = check, .err = err};
    char *src = base, *dst = workspace, *swap;
    enum rt_status st = RT_OK;

    for (size_t at = 0; at < n && !st; at += RT_SORT_RUN) {
        const size_t some = n - at < RT_SORT_RUN ? n - at : RT_SORT_RUN;
        qsort(src + at * size, some, size, compare);
        st = spend(&s, some);
    }
    for (size_t width = RT_SORT_RUN; width < n && !st; width *= 2) {
        for (size_t i = 0; i < n && !st; i += 2 * width) {
            const size_t middle = n - i < width ? n : i + width;
            st = merge(&s, dst, src, i, middle, n - middle < width ? n : middle + width);
        }
        swap = src;
        src = dst;
        dst = swap;
    }
    return st || src == base ? st : move(&s, base, src, n);
}

enum rt_status rt_sort_alloc(void *base, size_t n, size_t size,
                             int (*compare)(const void *a, const void *b), const char *what,
                             const struct rt_check *check, struct rt_error *err)
{
    void *workspace = n > RT_SORT_RUN ? malloc(n * size) : NULL;

    if (n > RT_SORT_RUN && !workspace)
        return rt_fail_memory(err, what, n * size);
    const enum rt_status st = rt_sort(base, workspace, n, size, compare, check, err);
    free(workspace);
    return st;
}
