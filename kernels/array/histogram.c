/* HistogramFixedWidth counts the values in each of several parts of a range. All parts have the
 * same width. */
#include <math.h>
#include <stdio.h>

#include "kernels/array/array.h"
#include "kernels/entry.h"

static double number_at(const struct rt_tensor *t, int64_t i)
{
    return t->dtype == RT_F32   ? (double)((const float *)t->data)[i]
           : t->dtype == RT_F64 ? ((const double *)t->data)[i]
                                : (double)kn_int_at(t, i);
}

static enum rt_status check(struct rt_error *err, const struct rt_tensor *range,
                            const struct rt_tensor *bins)
{
    char low[32], high[32];

    if (range->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "value_range should be a vector.");
    if (range->dim[0] != 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "value_range should be a vector of 2 elements.");
    if (bins->rank != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "nbins should be a scalar.");
    const double a = number_at(range, 0), b = number_at(range, 1);
    if (!(a < b)) {
        snprintf(low, sizeof low, "%g", a);
        snprintf(high, sizeof high, "%g", b);
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "value_range should satisfy value_range[0] < value_range[1], but got '[%s, "
                       "%s]'",
                       low, high);
    }
    if (kn_int_at(bins, 0) <= 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "nbins should be a positive number, but got '%lld'",
                       (long long)kn_int_at(bins, 0));
    return RT_OK;
}

static enum rt_status histogram_run(struct rt_run *r)
{
    const struct rt_tensor *values = &r->in[0], *range = &r->in[1];
    const int64_t n = rt_tensor_count(values);
    enum rt_status st = check(r->err, range, &r->in[2]);

    if (st)
        return st;
    const int64_t bins = kn_int_at(&r->in[2], 0);
    void *out = rt_out(r, 0, 1, &bins);
    st = out ? kn_zero_chunks(r, out, rt_tensor_bytes(&r->out[0])) : r->err->code;
    if (st)
        return st;
    const double low = number_at(range, 0), step = (number_at(range, 1) - low) / (double)bins;
    for (int64_t i = 0; i < n; i++) {
        const double v = number_at(values, i), at = floor((v - low) / step);
        if (bins > 1 && isnan(v))
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Histogram values must not contain NaN");
        const int64_t k = !(at > 0) ? 0 : at >= (double)bins ? bins - 1 : (int64_t)at;
        if (r->out[0].dtype == RT_I32)
            ((int32_t *)out)[k]++;
        else
            ((int64_t *)out)[k]++;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

const struct kn_entry kn_histogram_fixed_width = {
    .op = {.name = "HistogramFixedWidth"},
    .kernels =
        KN_CPU("HistogramFixedWidth", "histogram_fixed_width",
               RT_T(RT_I32) | RT_T(RT_I64) | RT_T(RT_F32) | RT_T(RT_F64), NULL, histogram_run),
};
