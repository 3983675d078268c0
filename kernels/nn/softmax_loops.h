/* The loops of softmax.c, compiled for one instruction set (see vector_sets.h). */

/* Loads a vector. Lanes beyond the end of a row become -inf, which contributes nothing to the
 * maximum or the sum. */
INLINE VEC LOOPS(load)(const float *p, int64_t left)
{
    return left < LANES ? LOOPS(load_some)(p, (int)left, (VEC){0} - INFINITY) : VLOAD(p);
}

INLINE void LOOPS(store)(float *p, VEC v, int64_t left)
{
    if (left < LANES)
        LOOPS(store_some)(p, v, (int)left);
    else
        VSTORE(p, v);
}

/* Returns the larger value in each lane, or b if either value is NaN. */
INLINE VEC LOOPS(larger)(VEC a, VEC b)
{
#if defined(SET_AVX512)
    return (VEC)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(SET_AVX2)
    return (VEC)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(SET_SSE)
    return (VEC)_mm_max_ps((__m128)a, (__m128)b);
#else
    for (int l = 0; l < LANES; l++)
        b[l] = a[l] > b[l] ? a[l] : b[l];
    return b;
#endif
}

INLINE float LOOPS(largest)(VEC v)
{
#if defined(SET_AVX512)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float most = v[0];
    for (int l = 1; l < LANES; l++)
        most = v[l] > most ? v[l] : most;
    return most;
#endif
}

INLINE float LOOPS(sum)(VEC v)
{
#if defined(SET_AVX512)
    return _mm512_reduce_add_ps((__m512)v);
#elif LANES == 8
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
#elif LANES == 4
    return (v[0] + v[2]) + (v[1] + v[3]);
#else
#error "no sum of so many LANES"
#endif
}

/*
 * Returns exp(x) for x <= 0 or NaN, as in vec_math.h, but without handling overflow, which cannot
 * occur. `rounder` includes the exponent's bias. The low bits of t, shifted left by 23, are
 * therefore the float 2^k, or 0 if the result underflows.
 */
INLINE VEC LOOPS(exp)(VEC x)
{
    const float rounder = KN_ROUNDER + 127;
    const VEC c = LOOPS(larger)((VEC){0} - 88.02969f, x); /* -88.02969 is -127 ln 2 */
    const VEC t = c * KN_LOG2_E + rounder, k = t - rounder;
    const VEC r = c - k * KN_LN2, size = (VEC)((BITS)t << 23);
    VEC p;
    KN_EXP_POLYNOMIAL(p, r);
    return size + size * (r + r * r * p);
}

TARGET static void LOOPS(rows)(float *d, const float *s, int64_t n_rows, int64_t n)
{
    for (; n_rows > 0; n_rows--, d += n, s += n) {
        VEC most = (VEC){0} - INFINITY, sum = {0};
        for (int64_t i = 0; i < n; i += LANES)
            most = LOOPS(larger)(LOOPS(load)(s + i, n - i), most);
        const float top = LOOPS(largest)(most);
        for (int64_t i = 0; i < n; i += LANES) {
            const VEC e = LOOPS(exp)(LOOPS(load)(s + i, n - i) - top);
            LOOPS(store)(d + i, e, n - i);
            sum += e;
        }
        const float share = 1 / LOOPS(sum)(sum);
        for (int64_t i = 0; i < n; i += LANES)
            LOOPS(store)(d + i, LOOPS(load)(d + i, n - i) * share, n - i);
    }
}

TARGET static void LOOPS(log_rows)(float *d, const float *s, int64_t n_rows, int64_t n)
{
    for (; n_rows > 0; n_rows--, d += n, s += n) {
        VEC most = (VEC){0} - INFINITY, sum = {0};
        for (int64_t i = 0; i < n; i += LANES)
            most = LOOPS(larger)(LOOPS(load)(s + i, n - i), most);
        const float top = LOOPS(largest)(most);
        for (int64_t i = 0; i < n; i += LANES)
            sum += LOOPS(exp)(LOOPS(load)(s + i, n - i) - top);
        const float low = logf(LOOPS(sum)(sum));
        for (int64_t i = 0; i < n; i += LANES)
            LOOPS(store)(d + i, LOOPS(load)(s + i, n - i) - top - low, n - i);
    }
}

static const struct kn_softmax_loops LOOPS(loops) = {LOOPS(rows), LOOPS(log_rows)};
