#include "runtime/plan/row_analyses.h"

#include <stdlib.h>

void rt_row_analyses_clear(struct rt_row_analyses *p)
{
    free(p->length);
    *p = (struct rt_row_analyses){0};
}

int rt_count_open(const struct rt_shape *shapes, int n_feeds)
{
    int n = 0;

    for (int k = 0; k < n_feeds; k++)
        for (int d = 1; d < shapes[k].rank; d++)
            n += shapes[k].dim[d] < 0;
    return n;
}

bool rt_feeds_have_rows(const struct rt_shape *shapes, const struct rt_tensor *feeds, int n_feeds)
{
    for (int k = 0; k < n_feeds; k++) {
        if (feeds[k].rank < 1 || feeds[k].rank != shapes[k].rank ||
            feeds[k].dim[0] != feeds[0].dim[0])
            return false;
        for (int d = 1; d < shapes[k].rank; d++)
            if (shapes[k].dim[d] >= 0 && shapes[k].dim[d] != feeds[k].dim[d])
                return false;
    }
    return true;
}

void rt_close_shapes(struct rt_shape *out, const struct rt_shape *shapes,
                     const struct rt_tensor *feeds, int n_feeds)
{
    for (int k = 0; k < n_feeds; k++) {
        out[k] = shapes[k];
        for (int d = 1; d < shapes[k].rank; d++)
            out[k].dim[d] = feeds[k].dim[d];
    }
}

static bool has_lengths(const int64_t *length, const struct rt_shape *shapes,
                        const struct rt_tensor *feeds, int n_feeds)
{
    for (int k = 0; k < n_feeds; k++)
        for (int d = 1; d < shapes[k].rank; d++)
            if (shapes[k].dim[d] < 0 && *length++ != feeds[k].dim[d])
                return false;
    return true;
}

static int find(const struct rt_row_analyses *p, const struct rt_shape *shapes,
                const struct rt_tensor *feeds, int n_feeds)
{
    const size_t n_open = (size_t)rt_count_open(shapes, n_feeds);

    for (int i = 0; i < p->n; i++)
        if (has_lengths(p->length + (size_t)i * n_open, shapes, feeds, n_feeds))
            return i;
    return -1;
}

enum rt_row_verdict rt_row_analyses_find(const struct rt_row_analyses *p,
                                         const struct rt_shape *shapes,
                                         const struct rt_tensor *feeds, int n_feeds)
{
    const int i = find(p, shapes, feeds, n_feeds);

    if (i < 0)
        return RT_ROWS_NOT_ANALYSED;
    return p->is_proved[i] ? RT_ROWS_INDEPENDENT : RT_ROWS_NOT_INDEPENDENT;
}

bool rt_row_analyses_put(struct rt_row_analyses *p, const struct rt_shape *shapes,
                         const struct rt_tensor *feeds, int n_feeds, bool is_proved)
{
    const size_t n_open = (size_t)rt_count_open(shapes, n_feeds);
    int i = find(p, shapes, feeds, n_feeds);

    if (!p->length)
        p->length = calloc(n_open * RT_ROW_ANALYSES + 1, sizeof *p->length);
    if (!p->length)
        return false;
    if (i < 0) {
        i = p->next;
        p->next = (p->next + 1) % RT_ROW_ANALYSES;
        p->n = i + 1 > p->n ? i + 1 : p->n;
    }
    int64_t *to = p->length + (size_t)i * n_open;
    for (int k = 0; k < n_feeds; k++)
        for (int d = 1; d < shapes[k].rank; d++)
            if (shapes[k].dim[d] < 0)
                *to++ = feeds[k].dim[d];
    p->is_proved[i] = is_proved;
    return true;
}
