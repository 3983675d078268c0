/*
 * The loops of product.c for one instruction set; included once for each, with
 *   LOOPS(name)  a name of its own for every function
 *   TARGET       the attribute that selects the instruction set
 *   LANES        floats in a vector
 *   ROWS         whose sums, of WIDE vectors each, are held in registers
 */

typedef float LOOPS(vec) __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));
typedef int32_t LOOPS(bits) __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));
#define VEC   LOOPS(vec)
#define BITS  LOOPS(bits)
#define PANEL (LANES * WIDE)

#define VLOAD(p)     (*(const VEC *)(p))
#define VSTORE(p, v) (*(VEC *)(p) = (v))

#define INLINE TARGET static inline __attribute__((always_inline))

/* The first n of a vector's floats, 1 to all. */
INLINE VEC LOOPS(load_some)(const float *p, int n)
{
#if LANES == 16
    return (VEC)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    float some[LANES] = {0};
    if (n == LANES)
        return VLOAD(p);
    memcpy(some, p, (size_t)n * sizeof *p);
    return VLOAD(some);
#endif
}

INLINE void LOOPS(store_some)(float *p, VEC v, int n)
{
#if LANES == 16
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    float some[LANES];
    if (n == LANES) {
        VSTORE(p, v);
    } else {
        VSTORE(some, v);
        memcpy(p, some, (size_t)n * sizeof *p);
    }
#endif
}

INLINE VEC LOOPS(choose)(BITS yes, VEC a, VEC b)
{
    return (VEC)((yes & (BITS)a) | (~yes & (BITS)b));
}

/*
 * `rows` rows of one panel, `wide` vectors of it. Rows of a are addressed in fours from pointers
 * that move along, which leaves registers for the sums.
 */
INLINE void LOOPS(corner)(const struct strip *s, const float *a, float *c, const float *start,
                          const float *next, const int rows, const int wide)
{
    const int64_t lda = s->lda, ahead = s->ahead;
    const float *from[(ROWS + 3) / 4], *b = s->b;
    VEC sum[ROWS][WIDE];

    for (int j = 0; j < wide; j++) {
        const int some = j < wide - 1 ? LANES : s->last;
        const VEC bias = s->bias ? LOOPS(load_some)(s->bias + j * LANES, some) : (VEC){0};
        for (int i = 0; i < rows; i++)
            sum[i][j] =
                start ? LOOPS(load_some)(start + i * s->ld_start + j * LANES, some) + bias : bias;
    }
    for (int i = 0; i < rows; i += 4)
        from[i / 4] = a + i * lda;
    for (int64_t l = s->k; l > 0; l--) {
        VEC w[WIDE];
        for (int j = 0; j < wide; j++)
            w[j] = VLOAD(b + j * LANES);
        for (int j = 0; j < PANEL; j += LINE)
            __builtin_prefetch(next + j, 0, 2);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < wide; j++)
                sum[i][j] += from[i / 4][i % 4 * lda] * w[j];
        for (int i = 0; i < rows; i += 4)
            from[i / 4]++;
        b += PANEL;
        next += ahead;
    }
    if (s->clips) {
        const VEC least = (VEC){0} + s->least, most = (VEC){0} + s->most;
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < wide; j++) {
                const VEC v = LOOPS(choose)(sum[i][j] < least, least, sum[i][j]);
                sum[i][j] = LOOPS(choose)(v > most, most, v);
            }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < wide; j++)
            LOOPS(store_some)
            (c + i * s->ldc + j * LANES, sum[i][j], j < wide - 1 ? LANES : s->last);
}

#define CORNER(r, w)                                                                               \
    case (r)*4 + (w):                                                                              \
        LOOPS(corner)(s, a, c, start, next, r, w);                                                 \
        break;
#define CORNERS(r)  CORNER(r, 1) CORNER(r, 2)
#define SIX_CORNERS CORNERS(1) CORNERS(2) CORNERS(3) CORNERS(4) CORNERS(5) CORNERS(6)
#if ROWS == 6
#define ALL_CORNERS SIX_CORNERS
#else
#define ALL_CORNERS                                                                                \
    SIX_CORNERS CORNERS(7) CORNERS(8) CORNERS(9) CORNERS(10) CORNERS(11) CORNERS(12) CORNERS(13)   \
        CORNERS(14)
#endif

/* All rows of one panel, in groups of even height. */
TARGET static void LOOPS(strip)(const struct strip *s)
{
    const int64_t groups = (s->rows + ROWS - 1) / ROWS;
    const float *a = s->a, *start = s->start, *next = s->next;
    float *c = s->c;

    for (int64_t i = 0; i < groups; i++) {
        const int64_t r = s->rows / groups + (i < s->rows % groups);
        switch (r * 4 + s->wide) {
            ALL_CORNERS
        }
        a += r * s->lda;
        c += r * s->ldc;
        if (start)
            start += r * s->ld_start;
        next += s->k * s->ahead;
    }
}

static const struct kn_product_loops LOOPS(loops) = {LANES, ROWS, LOOPS(strip)};

#undef VEC
#undef BITS
#undef PANEL
#undef VLOAD
#undef VSTORE
#undef INLINE
#undef CORNER
#undef CORNERS
#undef SIX_CORNERS
#undef ALL_CORNERS
#undef LOOPS
#undef TARGET
#undef LANES
#undef ROWS
