/*
 * The GEMV kernels of packed_gemm_loops.h, which includes this file for each instruction set and
 * undefines the file's macros. The macro ALL_GEMV has a case for each combination of rows and
 * panels.
 */

/*
 * Multiplies a few rows by `panels` complete panels (a GEMV). Several panels are computed together:
 * a single panel has so few sums that each multiply-add would wait for the previous one. If
 * `in_cache` is set, panels are not prefetched.
 */
SIZED void LOOPS(gemv)(const struct kn_packed_gemm_block *s, const int rows, const int panels,
                       const bool in_cache)
{
    const int wide = panels * WIDE;
    const float *b = s->b, *a = s->a;
    VEC sum[GEMV_ROWS][GEMV_PANELS * WIDE];

    KN_UNROLL
    for (int j = 0; j < wide; j++) {
        const VEC bias = s->bias ? VLOAD(s->bias + j * LANES) : (VEC){0};
        KN_UNROLL
        for (int i = 0; i < rows; i++)
            sum[i][j] = s->start ? VLOAD(s->start + i * s->ld_start + j * LANES) + bias : bias;
    }
    for (int64_t l = 0; l < s->k; l++) {
        for (int i = 0; i < panels && !in_cache; i++)
            for (int j = 0; j < NR; j += LINE)
                __builtin_prefetch(b + i * s->step + j + PREFETCH_FLOATS, 0, 3);
        VEC w[GEMV_PANELS * WIDE];
        KN_UNROLL
        for (int j = 0; j < wide; j++)
            w[j] = VLOAD(b + j / WIDE * s->step + j % WIDE * LANES);
        KN_UNROLL
        for (int j = 0; j < wide && rows > 1; j++)
            KEEP(w[j]);
        KN_UNROLL
        for (int i = 0; i < rows; i++) {
            KN_UNROLL
            for (int j = 0; j < wide; j++)
                sum[i][j] += a[i * s->lda] * w[j];
        }
        a++;
        b += NR;
    }
    KN_UNROLL
    for (int i = 0; i < rows; i++) {
        KN_UNROLL
        for (int j = 0; j < wide; j++)
            VSTORE(s->c + i * s->ldc + j * LANES, LOOPS(clip)(s, sum[i][j]));
    }
}

#define GEMV(r, panels)                                                                            \
    case (r)*GEMV_PANELS + (panels):                                                               \
        LOOPS(gemv)(s, r, panels, false);                                                          \
        break;
/* With one row, each weight is used only once, so prefetching it costs as much as using it. */
#define ONE_ROW(panels)                                                                            \
    case GEMV_PANELS + (panels):                                                                   \
        if (s->in_cache)                                                                           \
            LOOPS(gemv)(s, 1, panels, true);                                                       \
        else                                                                                       \
            LOOPS(gemv)(s, 1, panels, false);                                                      \
        break;
#if GEMV_ROWS == 3
#define ALL_GEMV ONE_ROW(4) ONE_ROW(2) GEMV(2, 2) GEMV(3, 2)
#elif GEMV_ROWS == 6
#define ALL_GEMV                                                                                   \
    ONE_ROW(4)                                                                                     \
    ONE_ROW(2)                                                                                     \
    GEMV(2, 2) GEMV(3, 2) GEMV(4, 2) GEMV(5, 2) GEMV(6, 2)
#else
#error "no GEMV kernels for this GEMV_ROWS"
#endif
