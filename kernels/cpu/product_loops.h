/*
 * The loops of product.c for one instruction set; included once for each, with
 *   LOOPS(name)  a name of its own for every function
 *   TARGET       the attribute that selects the instruction set
 *   LANES        floats in a vector
 *   ROWS         whose sums, of WIDE vectors each, are held in registers
 *   THIN         rows, at most, of which several panels are done at a time
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

INLINE VEC LOOPS(clip)(const struct strip *s, VEC v)
{
    const VEC least = s->least - (VEC){0}, most = s->most - (VEC){0};
    if (!s->clips)
        return v;
    v = LOOPS(choose)(v < least, least, v);
    return LOOPS(choose)(v > most, most, v);
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
        const VEC least = s->least - (VEC){0}, most = s->most - (VEC){0};
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

/*
 * Few rows of `panels` whole panels: of one there would be too few sums for a new multiplication
 * to begin before the one before it has ended.
 */
INLINE void LOOPS(thin)(const struct strip *s, const int rows, const int panels)
{
    const int wide = panels * WIDE;
    const float *b = s->b, *a = s->a;
    VEC sum[THIN][MOST_PANELS * WIDE];

    for (int j = 0; j < wide; j++) {
        const VEC bias = s->bias ? VLOAD(s->bias + j * LANES) : (VEC){0};
        for (int i = 0; i < rows; i++)
            sum[i][j] = s->start ? VLOAD(s->start + i * s->ld_start + j * LANES) + bias : bias;
    }
    for (int64_t l = 0; l < s->k; l++) {
        for (int i = 0; i < panels; i++)
            for (int j = 0; j < PANEL; j += LINE)
                __builtin_prefetch(b + i * s->step + j + AHEAD, 0, 3);
        VEC w[MOST_PANELS * WIDE];
        for (int j = 0; j < wide; j++)
            w[j] = VLOAD(b + j / WIDE * s->step + j % WIDE * LANES);
        if (rows > 1)
            for (int j = 0; j < wide; j++)
                KEEP(w[j]);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < wide; j++)
                sum[i][j] += a[i * s->lda] * w[j];
        a++;
        b += PANEL;
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < wide; j++)
            VSTORE(s->c + i * s->ldc + j * LANES, LOOPS(clip)(s, sum[i][j]));
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

#define THIN_CORNER(r, panels)                                                                     \
    case (r)*MOST_PANELS + (panels):                                                               \
        LOOPS(thin)(s, r, panels);                                                                 \
        break;
#if THIN == 3
#define ALL_THIN THIN_CORNER(1, 4) THIN_CORNER(2, 2) THIN_CORNER(3, 2)
#else
#define ALL_THIN                                                                                   \
    THIN_CORNER(1, 4)                                                                              \
    THIN_CORNER(2, 2) THIN_CORNER(3, 2) THIN_CORNER(4, 2) THIN_CORNER(5, 2) THIN_CORNER(6, 2)
#endif

/* s->panels of them at once, or all rows of one panel in groups of even height. */
TARGET static void LOOPS(strip)(const struct strip *s)
{
    const int64_t groups = (s->rows + ROWS - 1) / ROWS;
    const float *a = s->a, *start = s->start, *next = s->next;
    float *c = s->c;

    if (s->panels > 1) {
        switch (s->rows * MOST_PANELS + s->panels) {
            ALL_THIN
        }
        return;
    }
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

static const struct kn_product_loops LOOPS(loops) = {LANES, ROWS, THIN, LOOPS(strip)};

#undef VEC
#undef BITS
#undef PANEL
#undef VLOAD
#undef VSTORE
#undef INLINE
#undef CORNER
#undef THIN_CORNER
#undef ALL_THIN
#undef CORNERS
#undef SIX_CORNERS
#undef ALL_CORNERS
#undef LOOPS
#undef TARGET
#undef LANES
#undef ROWS
#undef THIN
