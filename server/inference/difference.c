#include "server/inference/difference.h"

#include <math.h>
#include <string.h>

#include "runtime/base/half.h"
#include "runtime/base/tolerance.h"

/* Sets *out to element i as a number. Returns false if the type's elements are not real numbers. */
static bool real_at(const struct rt_tensor *t, int64_t i, double *out)
{
    const void *p = t->data;

    switch ((enum rt_dtype)t->dtype) {
#define TYPE(dt, T)                                                                                \
    case dt:                                                                                       \
        *out = (double)((const T *)p)[i];                                                          \
        return true;
        TYPE(RT_F32, float)
        TYPE(RT_F64, double)
        TYPE(RT_I8, int8_t)
        TYPE(RT_I16, int16_t)
        TYPE(RT_I32, int32_t)
        TYPE(RT_I64, int64_t)
        TYPE(RT_U8, uint8_t)
        TYPE(RT_U16, uint16_t)
        TYPE(RT_U32, uint32_t)
        TYPE(RT_U64, uint64_t)
#undef TYPE
    case RT_F16:
        *out = (double)rt_half_value(((const uint16_t *)p)[i]);
        return true;
    case RT_BF16:
        *out = (double)rt_bfloat_value(((const uint16_t *)p)[i]);
        return true;
    default:
        return false;
    }
}

static bool same_bytes(const struct rt_tensor *a, const struct rt_tensor *b, int64_t i)
{
    const size_t size = rt_dtype_size((enum rt_dtype)a->dtype);

    if (a->dtype == RT_STRING) {
        const struct rt_str *x = &rt_strs(a)[i], *y = &rt_strs(b)[i];
        return x->n == y->n && (!x->n || memcmp(rt_str_data(x), rt_str_data(y), x->n) == 0);
    }
    return memcmp((const char *)a->data + (size_t)i * size,
                  (const char *)b->data + (size_t)i * size, size) == 0;
}

/* Returns the index, relative to `from`, of the largest of the n elements that begin at `from`. NaN
 * counts as the largest value. Of equally large elements, the first one counts. */
static int64_t place_of_largest(const struct rt_tensor *t, int64_t from, int64_t n)
{
    int64_t at = 0;
    double best = 0, v = 0;

    real_at(t, from, &best);
    for (int64_t i = 1; i < n && !isnan(best); i++) {
        real_at(t, from + i, &v);
        if (isnan(v) || v > best) {
            best = v;
            at = i;
        }
    }
    return at;
}

enum rt_status srv_difference(const struct rt_tensor *want, const struct rt_tensor *got,
                              struct srv_difference *out, struct rt_error *err)
{
    double sum = 0, a = 0, b = 0;

    *out = (struct srv_difference){.n = rt_tensor_count(want)};
    if (want->dtype != got->dtype || want->rank != got->rank ||
        memcmp(want->dim, got->dim, (size_t)want->rank * sizeof *want->dim) != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the answers differ in type or shape");
    const bool is_real = out->n && real_at(want, 0, &a);
    for (int64_t i = 0; i < out->n; i++) {
        if (!is_real) {
            out->n_differ += !same_bytes(want, got, i);
            continue;
        }
        real_at(want, i, &a);
        real_at(got, i, &b);
        out->largest = rt_tolerance_largest(out->largest, a);
        if (rt_is_close(b, a, 0))
            continue;
        const double off = isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
        out->n_differ++;
        out->most = fmax(out->most, off);
        sum += off;
    }
    out->mean = out->n ? sum / (double)out->n : 0;
    const int64_t length = want->rank > 0 ? want->dim[want->rank - 1] : 1;
    if (!is_real || length < 2)
        return RT_OK;
    out->rows = out->n / length;
    for (int64_t r = 0; r < out->rows; r++)
        out->rows_agree +=
            place_of_largest(want, r * length, length) == place_of_largest(got, r * length, length);
    return RT_OK;
}
