#include "kernels/sparse/coo.h"

#include "kernels/array/sort.h"
#include "runtime/base/checked.h"

#include <stdio.h>

struct kn_coo kn_coo_of(const struct rt_tensor *indices, const struct rt_tensor *values,
                        const struct rt_tensor *shape)
{
    return (struct kn_coo){
        .indices = indices,
        .values = values,
        .shape = shape,
        .n = indices->rank ? indices->dim[0] : 1,
        .rank = indices->rank > 1 ? indices->dim[1] : 1,
        .at = indices->data,
        .dim = shape->data,
    };
}

enum rt_status kn_coo_check(struct rt_run *r, const struct kn_coo *s)
{
    if (s->indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Sparse indices must be rank 2 but is rank %d",
                       s->indices->rank);
    if (s->values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Sparse values must be rank 1 but is rank %d",
                       s->values->rank);
    if (s->shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Sparse shape must be rank 1 but is rank %d",
                       s->shape->rank);
    if (s->indices->dim[0] != s->values->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Number of elements in indices (%lld) and values (%lld) do not match",
                       (long long)s->indices->dim[0], (long long)s->values->dim[0]);
    if (s->indices->dim[1] != s->shape->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Index rank (%lld) and shape rank (%lld) do not match",
                       (long long)s->indices->dim[1], (long long)s->shape->dim[0]);
    return RT_OK;
}

enum rt_status kn_coo_check_shape(struct rt_run *r, const int64_t *dim, int64_t rank)
{
    int64_t total = 1, before = 1;

    for (int64_t d = 0; d < rank; d++) {
        before = total;
        if (dim[d] < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Expected shape dimensions to be non-negative, got %lld",
                           (long long)dim[d]);
        if (!rt_mul(total, dim[d], &total)) {
            size_t product;
            const bool fits = rt_mul_size((size_t)before, (size_t)dim[d], &product);
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Encountered overflow when multiplying %lld with %lld, result: %lld",
                           (long long)before, (long long)dim[d], fits ? (long long)product : -1);
        }
    }
    return RT_OK;
}

/* Formats a row of indices for error messages, as "[1, -2]". */
static const char *row_text(char *buf, size_t n, const int64_t *row, int64_t rank)
{
    size_t len = (size_t)snprintf(buf, n, "[");

    for (int64_t d = 0; d < rank && len < n; d++)
        len += (size_t)snprintf(buf + len, n - len, "%s%lld", d ? ", " : "", (long long)row[d]);
    if (len < n)
        snprintf(buf + len, n - len, "]");
    return buf;
}

enum rt_status kn_coo_check_inside(struct rt_run *r, const struct kn_coo *s)
{
    char text[KN_SHAPE_TEXT];
    int64_t left = RT_WORK;

    for (int64_t i = 0; i < s->n; i++) {
        const int64_t *row = s->at + i * s->rank;
        for (int64_t d = 0; d < s->rank; d++)
            if (row[d] < 0 || row[d] >= s->dim[d])
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "Sparse index tuple indices[%lld, :] = %s is out of bounds",
                               (long long)i, row_text(text, sizeof text, row, s->rank));
        if (rt_run_spend(r, &left, s->rank))
            return r->err->code;
    }
    return RT_OK;
}

int kn_coo_compare(const int64_t *a, const int64_t *b, int64_t rank)
{
    for (int64_t d = 0; d < rank; d++)
        if (a[d] != b[d])
            return a[d] < b[d] ? -1 : 1;
    return 0;
}

const char *kn_coo_text(char *buf, size_t n, const int64_t *row, int64_t rank)
{
    size_t len = (size_t)snprintf(buf, n, "[");

    for (int64_t d = 0; d < rank && len < n; d++)
        len += (size_t)snprintf(buf + len, n - len, "%s%lld", d ? "," : "", (long long)row[d]);
    if (len < n)
        snprintf(buf + len, n - len, "]");
    return buf;
}

enum rt_status kn_coo_check_rows(struct rt_run *r, const struct kn_coo *c)
{
    char text[KN_SHAPE_TEXT];

    for (int64_t i = 0; i < c->n; i++) {
        const int64_t *row = c->at + i * c->rank;
        const int order = i ? kn_coo_compare(row - c->rank, row, c->rank) : -1;
        bool is_inside = true;
        for (int64_t d = 0; d < c->rank; d++)
            is_inside &= row[d] >= 0 && row[d] < c->dim[d];
        if (rt_run_spend(r, &r->left, 2 * c->rank))
            return r->err->code;
        if (is_inside && order < 0)
            continue;
        kn_coo_text(text, sizeof text, row, c->rank);
        if (!is_inside)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "indices[%lld] = %s is out of bounds: need 0 <= index < %s",
                           (long long)i, text,
                           kn_coo_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, c->dim, c->rank));
        if (order > 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "indices[%lld] = %s is out of order. Many sparse ops require sorted "
                           "indices.\n    Use `tf.sparse.reorder` to create a correctly ordered "
                           "copy.\n\n",
                           (long long)i, text);
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "indices[%lld] = %s is repeated", (long long)i,
                       text);
    }
    return RT_OK;
}

static int by_index(const void *a, const void *b)
{
    const struct kn_coo_place *x = a, *y = b;

    for (int64_t d = 0; d < x->rank; d++) {
        const int64_t k = x->order ? x->order[d] : d;
        if (x->row[k] != y->row[k])
            return x->row[k] < y->row[k] ? -1 : 1;
    }
    return x->at < y->at ? -1 : x->at > y->at;
}

struct kn_coo_place *kn_coo_sort(struct rt_run *r, const int64_t *at, int64_t n, int64_t rank,
                                 const int64_t *order)
{
    struct kn_coo_place *place = rt_scratch(r, ((size_t)n + 1) * sizeof *place);

    for (int64_t i = 0; i < n && place; i++) {
        place[i] = (struct kn_coo_place){rank ? at + i * rank : at, order, rank, i};
        if (rt_run_tick(r, i))
            return NULL;
    }
    if (!place || kn_sort(r, place, n, sizeof *place, by_index))
        return NULL;
    return place;
}
