/*
 * The micro-kernels of packed_gemm.c for one instruction set (see vector_sets.h). MR, 6 or 14, is
 * the maximum number of rows whose sums, of WIDE vectors each, are held in registers. GEMV_ROWS, 3
 * or 6, is the maximum number of rows of the GEMV kernels, which compute several panels together.
 */
#if defined(SET_AVX512)
#define MR        14
#define GEMV_ROWS 6
#else
#define MR        6
#define GEMV_ROWS 3
#endif

#define NR (LANES * WIDE)

#if PREFETCHES
#define SIZED INLINE /* compiled once for each number of rows and vectors */
#else
#define SIZED TARGET static __attribute__((noinline))
#endif

/* Clips v to [least, most]. NaN and -0 stay unchanged. */
INLINE VEC LOOPS(clip)(const struct kn_packed_gemm_block *s, VEC v)
{
    const VEC least = s->least - (VEC){0}, most = s->most - (VEC){0};
    if (!s->clips)
        return v;
#if defined(SET_AVX512)
    return (VEC)_mm512_min_ps((__m512)most, _mm512_max_ps((__m512)least, (__m512)v));
#elif defined(SET_AVX2)
    return (VEC)_mm256_min_ps((__m256)most, _mm256_max_ps((__m256)least, (__m256)v));
#elif defined(SET_SSE)
    return (VEC)_mm_min_ps((__m128)most, _mm_max_ps((__m128)least, (__m128)v));
#else
    for (int i = 0; i < LANES; i++) {
        v[i] = v[i] < least[i] ? least[i] : v[i];
        v[i] = v[i] > most[i] ? most[i] : v[i];
    }
    return v;
#endif
}

/* The state of a micro-kernel: the position in the operands, the sums, and addresses to prefetch in
 * the next panel and in the memory that the next micro-kernel reads and writes. */
struct LOOPS(at) {
    const float *a[(MR + 3) / 4], *b;
    const float *next, *next_a, *next_start, *next_c;
    VEC sum[MR][WIDE];
};

/* Adds n terms to the sums. Rows of a are addressed in groups of four from advancing pointers,
 * which leaves registers for the sums. For each term, prefetches one row of the next micro-kernel's
 * c if prefetch_c is set, and one cache line of its a if prefetch_a is set. */
INLINE void LOOPS(terms)(const struct kn_packed_gemm_block *s, struct LOOPS(at) * at, int64_t n,
                         const int rows, const int wide, const bool prefetch_c,
                         const bool prefetch_a)
{
    for (; n > 0; n--) {
        VEC w[WIDE];
        KN_UNROLL
        for (int j = 0; j < wide; j++)
            w[j] = VLOAD(at->b + j * LANES);
        for (int j = 0; j < NR; j += LINE) {
            __builtin_prefetch(at->next + j, 0, 2);
            if (prefetch_c) {
                __builtin_prefetch(at->next_start + j, 0, 3);
                __builtin_prefetch(at->next_c + j, 1, 3);
            }
        }
        if (prefetch_a)
            __builtin_prefetch(at->next_a, 0, 3);
        KN_UNROLL
        for (int i = 0; i < rows; i++) {
            KN_UNROLL
            for (int j = 0; j < wide; j++)
                at->sum[i][j] += at->a[i / 4][i % 4 * s->lda] * w[j];
        }
        KN_UNROLL
        for (int i = 0; i < rows; i += 4)
            at->a[i / 4]++;
        at->b += NR;
        at->next += s->prefetch_step;
        if (prefetch_c) {
            at->next_start += s->ld_start;
            at->next_c += s->ldc;
        }
        if (prefetch_a)
            at->next_a += LINE;
    }
}

/* The micro-kernel, which computes `wide` vectors in each of `rows` rows of one panel. */
SIZED void LOOPS(micro_kernel)(const struct kn_packed_gemm_block *s, const struct micro_kernel *o,
                               const int rows, const int wide)
{
    const int64_t few = !PREFETCHES ? 0 : s->k < rows ? s->k : rows;
    /* set member by member, because an initialiser would first zero all sums */
    struct LOOPS(at) at;

    at.b = s->b;
    at.next = o->next;
    at.next_a = o->a + rows * s->lda;
    at.next_start = o->next_start;
    at.next_c = o->next_c;
    KN_UNROLL
    for (int j = 0; j < wide; j++) {
        const int some = j < wide - 1 ? LANES : s->last;
        const VEC zero = {0};
        const VEC bias = s->bias ? LOOPS(load_some)(s->bias + j * LANES, some, zero) : zero;
        KN_UNROLL
        for (int i = 0; i < rows; i++) {
            const float *start = o->start ? o->start + i * s->ld_start + j * LANES : NULL;
            at.sum[i][j] = start ? LOOPS(load_some)(start, some, zero) + bias : bias;
        }
    }
    KN_UNROLL
    for (int i = 0; i < rows; i += 4)
        at.a[i / 4] = o->a + i * s->lda;
    if (PREFETCHES)
        LOOPS(terms)(s, &at, few, rows, wide, true, false);
    if (PREFETCHES && s->prefetch_a)
        LOOPS(terms)(s, &at, s->k - few, rows, wide, false, true);
    else
        LOOPS(terms)(s, &at, s->k - few, rows, wide, false, false);
    KN_UNROLL
    for (int i = 0; i < rows; i++) {
        KN_UNROLL
        for (int j = 0; j < wide; j++) {
            const VEC v = LOOPS(clip)(s, at.sum[i][j]);
            LOOPS(store_some)(o->c + i * s->ldc + j * LANES, v, j < wide - 1 ? LANES : s->last);
        }
    }
}

#include "kernels/matmul/packed_gemm_gemv.h"

#define MICRO_KERNEL(r, w)                                                                         \
    case (r)*4 + (w):                                                                              \
        LOOPS(micro_kernel)(s, &o, r, w);                                                          \
        break;
#define MICRO_KERNELS(r) MICRO_KERNEL(r, 1) MICRO_KERNEL(r, 2)
#define SIX_MICRO_KERNELS                                                                          \
    MICRO_KERNELS(1)                                                                               \
    MICRO_KERNELS(2) MICRO_KERNELS(3) MICRO_KERNELS(4) MICRO_KERNELS(5) MICRO_KERNELS(6)
#if MR == 6
#define ALL_MICRO_KERNELS SIX_MICRO_KERNELS
#elif MR == 14
#define ALL_MICRO_KERNELS                                                                          \
    SIX_MICRO_KERNELS MICRO_KERNELS(7) MICRO_KERNELS(8) MICRO_KERNELS(9) MICRO_KERNELS(10)         \
        MICRO_KERNELS(11) MICRO_KERNELS(12) MICRO_KERNELS(13) MICRO_KERNELS(14)
#else
#error "no micro-kernels for this MR"
#endif

/* Computes a block: several panels together if s->panels > 1, otherwise one panel, whose rows are
 * divided into groups of nearly equal size. */
TARGET static void LOOPS(panel_block)(const struct kn_packed_gemm_block *s)
{
    const int64_t groups = kn_div_up(s->rows, MR);
    struct micro_kernel o = {.a = s->a, .c = s->c, .start = s->start, .next = s->next};

    if (s->panels > 1) {
        switch (s->rows * GEMV_PANELS + s->panels) {
            ALL_GEMV
        }
        return;
    }
    for (int64_t i = 0; i < groups; i++) {
        const int64_t r = s->rows / groups + (i < s->rows % groups);
        const bool last = i == groups - 1;
        o.next_c = last ? s->c + NR : o.c + r * s->ldc;
        o.next_start = !s->start ? o.next_c : last ? s->start + NR : o.start + r * s->ld_start;
        switch (r * 4 + s->wide) {
            ALL_MICRO_KERNELS
        }
        o.a += r * s->lda;
        o.c += r * s->ldc;
        if (o.start)
            o.start += r * s->ld_start;
        o.next += s->k * s->prefetch_step;
    }
}

static const struct kn_packed_gemm_loops LOOPS(loops) = {LANES, MR, GEMV_ROWS, LOOPS(panel_block)};

#undef NR
#undef SIZED
#undef MICRO_KERNEL
#undef GEMV
#undef ONE_ROW
#undef ALL_GEMV
#undef MICRO_KERNELS
#undef SIX_MICRO_KERNELS
#undef ALL_MICRO_KERNELS
#undef MR
#undef GEMV_ROWS
