#include "runtime/exec/batch_rows.h"

#include "runtime/core/copy.h"

enum rt_status rt_batch_check_sizes(const struct rt_attr *allowed, struct rt_error *err)
{
    for (size_t i = 1; i < allowed->n; i++)
        if (allowed->v.ints[i] <= allowed->v.ints[i - 1])
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "allowed_batch_sizes entries must be monotonically increasing");
    return RT_OK;
}

enum rt_status rt_batch_check_rows(const struct rt_tensor *in, int n, int64_t most,
                                   struct rt_error *err)
{
    for (int k = 0; k < n; k++)
        if (in[k].rank < 1)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Batching input tensors must have at least one dimension.");
    for (int k = 1; k < n; k++)
        if (in[k].dim[0] != in[0].dim[0])
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Batching input tensors supplied in a given op invocation must have "
                           "equal 0th-dimension size.");
    if (most > 0 && in[0].dim[0] > most)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Task size %lld is larger than maximum input batch size %lld",
                       (long long)in[0].dim[0], (long long)most);
    return RT_OK;
}

int64_t rt_batch_padded_size(const struct rt_attr *allowed, int64_t n)
{
    for (size_t i = 0; i < allowed->n; i++)
        if (allowed->v.ints[i] >= n)
            return allowed->v.ints[i];
    return n;
}

int64_t rt_batch_row_elements(const struct rt_tensor *t)
{
    int64_t n = 1;

    for (int d = 1; d < t->rank; d++)
        n *= t->dim[d];
    return n;
}

enum rt_status rt_batch_pad(const struct rt_tensor *to, const struct rt_tensor *rows,
                            const struct rt_check *check, struct rt_error *err)
{
    const enum rt_dtype dtype = (enum rt_dtype)to->dtype;
    const int64_t each = rt_batch_row_elements(to), n = rows->dim[0], padded = to->dim[0];
    const size_t row_bytes = (size_t)each * rt_dtype_size(dtype);
    char *const start = to->data;
    enum rt_status st = RT_OK;

    if (!each || !n)
        return RT_OK;
    st = rt_copy_elements_checked(dtype, start, rows->data, n * each, check, err);
    /* The copies double, so that there are few calls however short the rows are. */
    for (int64_t at = n, m; at < padded && !st; at += m) {
        m = at == n ? 1 : at - n < padded - at ? at - n : padded - at;
        st = rt_copy_elements_checked(dtype, start + (size_t)at * row_bytes,
                                      at == n ? rows->data
                                              : (const void *)(start + (size_t)n * row_bytes),
                                      m * each, check, err);
    }
    return st;
}
