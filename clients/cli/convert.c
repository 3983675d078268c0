#include "clients/cli/convert.h"

#include <math.h>
#include <string.h>

#include "runtime/base/half.h"

bool cl_is_real(int dtype)
{
    return dtype == SLIPWAY_FLOAT || dtype == SLIPWAY_DOUBLE || dtype == SLIPWAY_HALF ||
           dtype == SLIPWAY_BFLOAT16;
}

#define INTEGERS(X)                                                                                \
    X(SLIPWAY_INT8, int8_t, INT8_MIN, INT8_MAX)                                                    \
    X(SLIPWAY_INT16, int16_t, INT16_MIN, INT16_MAX)                                                \
    X(SLIPWAY_INT32, int32_t, INT32_MIN, INT32_MAX)                                                \
    X(SLIPWAY_INT64, int64_t, INT64_MIN, INT64_MAX)                                                \
    X(SLIPWAY_UINT8, uint8_t, 0, UINT8_MAX)                                                        \
    X(SLIPWAY_UINT16, uint16_t, 0, UINT16_MAX)                                                     \
    X(SLIPWAY_UINT32, uint32_t, 0, UINT32_MAX)                                                     \
    X(SLIPWAY_UINT64, uint64_t, 0, INT64_MAX)

bool cl_is_integer(int dtype)
{
    switch (dtype) {
#define CASE(type, c, min, max) case type:
        INTEGERS(CASE)
#undef CASE
        return true;
    default:
        return false;
    }
}

double cl_get_real(int dtype, const void *p)
{
    switch (dtype) {
#define CASE(type, c, min, max)                                                                    \
    case type: {                                                                                   \
        c v;                                                                                       \
        memcpy(&v, p, sizeof v);                                                                   \
        return (double)v;                                                                          \
    }
        INTEGERS(CASE)
        CASE(SLIPWAY_FLOAT, float, , )
        CASE(SLIPWAY_DOUBLE, double, , )
#undef CASE
    case SLIPWAY_BOOL:
        return *(const unsigned char *)p != 0;
    case SLIPWAY_HALF:
    case SLIPWAY_BFLOAT16: {
        uint16_t bits;
        memcpy(&bits, p, sizeof bits);
        return (double)(dtype == SLIPWAY_HALF ? rt_half_value(bits) : rt_bfloat_value(bits));
    }
    default:
        return NAN;
    }
}

bool cl_set_integer(int dtype, void *p, int64_t v)
{
    switch (dtype) {
#define CASE(type, c, min, max)                                                                    \
    case type: {                                                                                   \
        if (v < (min) || v > (max))                                                                \
            return false;                                                                          \
        c x = (c)v;                                                                                \
        memcpy(p, &x, sizeof x);                                                                   \
        return true;                                                                               \
    }
        INTEGERS(CASE)
#undef CASE
    case SLIPWAY_BOOL:
        *(unsigned char *)p = v != 0;
        return v == 0 || v == 1;
    default:
        return cl_is_real(dtype) && cl_set_real(dtype, p, (double)v);
    }
}

bool cl_set_real(int dtype, void *p, double v)
{
    float f = (float)v;
    uint16_t bits;
    switch (dtype) {
    case SLIPWAY_FLOAT:
        memcpy(p, &f, sizeof f);
        return true;
    case SLIPWAY_DOUBLE:
        memcpy(p, &v, sizeof v);
        return true;
    case SLIPWAY_HALF:
        bits = rt_half_from(v);
        memcpy(p, &bits, sizeof bits);
        return true;
    case SLIPWAY_BFLOAT16:
        bits = rt_bfloat_from(v);
        memcpy(p, &bits, sizeof bits);
        return true;
    default:
        return v >= -0x1p63 && v < 0x1p63 && v == floor(v) && cl_set_integer(dtype, p, (int64_t)v);
    }
}

enum rt_status cl_convert(struct slipway_tensor *t, int dtype, struct rt_arena *arena,
                          struct rt_error *err)
{
    const char *name = t->name ? t->name : "";
    size_t from = slipway_dtype_size(t->dtype), to = slipway_dtype_size(dtype);
    bool from_integer = cl_is_integer(t->dtype) || t->dtype == SLIPWAY_BOOL;
    if (t->dtype == dtype)
        return RT_OK;
    if (!(from_integer || cl_is_real(t->dtype)) ||
        !(cl_is_real(dtype) || cl_is_integer(dtype) || dtype == SLIPWAY_BOOL))
        return rt_fail(err, RT_INVALID_ARGUMENT, "\"%s\": the values are %s, the model takes %s",
                       name, slipway_dtype_name(t->dtype), slipway_dtype_name(dtype));
    int64_t n = slipway_count(t);
    const char *src = t->data;
    char *dst = rt_arena_array(arena, (size_t)n, to);
    if (n && !dst)
        return rt_fail_memory(err, "a tensor", (size_t)n * to);
    for (int64_t i = 0; i < n; i++) {
        const char *p = src + (size_t)i * from;
        double v = cl_get_real(t->dtype, p);
        int64_t whole = 0;
        if (t->dtype == SLIPWAY_INT64 || t->dtype == SLIPWAY_UINT64)
            memcpy(&whole, p, sizeof whole);
        else if (from_integer)
            whole = (int64_t)v;
        bool ok = from_integer ? !(t->dtype == SLIPWAY_UINT64 && whole < 0) &&
                                     cl_set_integer(dtype, dst + (size_t)i * to, whole)
                               : cl_set_real(dtype, dst + (size_t)i * to, v);
        if (!ok)
            return rt_fail(err, RT_INVALID_ARGUMENT, "\"%s\": element %lld, %g, is no %s", name,
                           (long long)i, v, slipway_dtype_name(dtype));
    }
    t->dtype = dtype;
    t->data = n ? dst : NULL;
    return RT_OK;
}
