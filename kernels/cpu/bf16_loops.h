/*
 * The micro-kernel of bf16.c for one instruction set (see vector_sets.h). WIDE is the number of
 * vectors side by side in a panel, and ROWS is the number of rows of the result whose sums are
 * in registers.
 */
#if defined(SET_AVX512)
#define WIDE 4
#define ROWS 5
#else
#define WIDE 2
#define ROWS 4
#endif

typedef uint32_t LOOPS(pair) __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));
#define PAIR LOOPS(pair)

/* Computes `c [rows, one panel] = a [rows, k] b`. A word of b has row 2i in its low half and row
 * 2i + 1 in its high half. */
INLINE void LOOPS(rows)(const float *a, int64_t lda, const uint32_t *b, float *c, int64_t ldc,
                        int64_t k, const int rows)
{
    VEC sum[ROWS][WIDE];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < WIDE; j++)
            sum[i][j] = (VEC){0};
    for (int64_t l = 0; l < k; l += 2, b += LANES * WIDE) {
        VEC even[WIDE], odd[WIDE];
        /* If k is odd, the last word has no row l + 1 of b. Its high half is 0, and the factor from
         * a must be 0 as well, because an infinity that follows the row of a in memory would yield
         * NaN. */
        const bool last = l + 1 == k;
        for (int j = 0; j < WIDE; j++) {
            const PAIR w = *(const PAIR *)(b + j * LANES);
            even[j] = (VEC)(w << 16);
            odd[j] = (VEC)(w & 0xffff0000u);
        }
        for (int i = 0; i < rows; i++) {
            const float x = a[i * lda + l], y = last ? 0 : a[i * lda + l + 1];
            for (int j = 0; j < WIDE; j++) {
                sum[i][j] += x * even[j];
                sum[i][j] += y * odd[j];
            }
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < WIDE; j++)
            *(VEC *)(c + i * ldc + j * LANES) = sum[i][j];
}

/* Computes all m rows of one panel, where rows of c have the panel's full width. */
TARGET static void LOOPS(panel)(int64_t m, const float *a, int64_t lda, const uint32_t *b, float *c,
                                int64_t ldc, int64_t k)
{
    for (; m >= ROWS; m -= ROWS, a += ROWS * lda, c += ROWS * ldc)
        LOOPS(rows)(a, lda, b, c, ldc, k, ROWS);
    for (; m >= 2; m -= 2, a += 2 * lda, c += 2 * ldc)
        LOOPS(rows)(a, lda, b, c, ldc, k, 2);
    if (m)
        LOOPS(rows)(a, lda, b, c, ldc, k, 1);
}

static const struct kn_bf16_loops LOOPS(loops) = {LANES * WIDE, LOOPS(panel)};

#undef PAIR
#undef WIDE
#undef ROWS
