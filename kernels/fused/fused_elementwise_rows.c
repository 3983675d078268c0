#include "kernels/fused/fused_elementwise_rows.h"

#include <string.h>

#include "runtime/fusion/elementwise.h"

/* Truth values in a fused chain are the floats 0 and 1. */
#define X(op, TRUTH)                                                                               \
    KN_CLONES static bool row_##op(void *dst, const void *first, const void *second, int64_t n,    \
                                   int64_t sa, int64_t sb)                                         \
    {                                                                                              \
        float *d = dst;                                                                            \
        const float *a = first, *b = second;                                                       \
        KN_IVDEP                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const float x = a[i * sa], y = b[i * sb];                                              \
            d[i] = TRUTH ? 1.0f : 0.0f;                                                            \
        }                                                                                          \
        return true;                                                                               \
    }
RT_ELEMENTWISE_TRUTH(X)
RT_ELEMENTWISE_LOGICAL(X)
#undef X

static kn_binary_row *const truths[RT_ELEMENTWISE_OPS] = {
#define X(op, TRUTH) [RT_ELEMENTWISE_##op] = row_##op,
    RT_ELEMENTWISE_TRUTH(X) RT_ELEMENTWISE_LOGICAL(X)
#undef X
};

void kn_fused_copy(void *d, const void *s, int64_t n)
{
    memmove(d, s, (size_t)n * sizeof(float));
}

KN_CLONES void kn_fused_not(void *dst, const void *src, int64_t n)
{
    float *d = dst;
    const float *s = src;
    KN_IVDEP
    for (int64_t i = 0; i < n; i++)
        d[i] = s[i] != 0 ? 0.0f : 1.0f;
}

KN_CLONES void kn_fused_leaky_relu(float *d, const float *s, int64_t n, float alpha)
{
    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const float x = s[i], y = alpha * x;
        d[i] = x > 0 ? x : y;
    }
}

KN_CLONES void kn_fused_select(float *d, const float *a, const float *b, const float *c, int64_t n,
                               int64_t sa, int64_t sb, int64_t sc)
{
    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const float x = b[i * sb], y = c[i * sc];
        d[i] = a[i * sa] != 0 ? x : y;
    }
}

kn_binary_row *kn_fused_logical(int64_t op)
{
    return truths[op];
}

/* Defines a loop that converts n values of a type to float32. */
#define CONVERT(NAME, T)                                                                           \
    KN_CLONES static void NAME(float *to, const void *from, int64_t n)                             \
    {                                                                                              \
        const T *s = from;                                                                         \
        KN_IVDEP                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = (float)s[i];                                                                   \
    }
CONVERT(convert_bytes, uint8_t)
CONVERT(convert_i32, int32_t)
CONVERT(convert_i64, int64_t)

void kn_fused_to_float(enum rt_dtype d, float *to, const void *from, int64_t n)
{
    if (d == RT_F32)
        memcpy(to, from, (size_t)n * sizeof *to);
    else if (d == RT_I32)
        convert_i32(to, from, n);
    else if (d == RT_I64)
        convert_i64(to, from, n);
    else
        convert_bytes(to, from, n);
}
