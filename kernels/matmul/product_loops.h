/*
 * The loops of product.c for one instruction set (see vector_sets.h), with
 *   ROWS  whose sums, of WIDE vectors each, are held in registers: 6 or 14
 *   THIN  rows, at most, of which several panels are done at a time: 3 or 6
 */
#if defined(SET_AVX512)
#define ROWS 14
#define THIN 6
#else
#define ROWS 6
#define THIN 3
#endif

#define PANEL (LANES * WIDE)

#if ASKS_AHEAD
#define SIZED INLINE /* a copy for each number of rows and vectors */
#else
#define SIZED TARGET static __attribute__((noinline))
#endif

/* No less than the least and no more than the most; NaN stays, and so does -0. */
INLINE VEC LOOPS(clip)(const struct strip *s, VEC v)
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

/* Where a corner's loops are. What lies ahead is asked for: a panel, and what the next corner
 * reads and writes. */
struct LOOPS(at) {
    const float *a[(ROWS + 3) / 4], *b;
    const float *next, *a_then, *start_then, *c_then;
    VEC sum[ROWS][WIDE];
};

/* `n` terms more. Rows of a are addressed in fours from pointers that move along, which leaves
 * registers for the sums. With `asks` a row of the next corner's c is asked for with each term,
 * with `reads` a line of its a. */
INLINE void LOOPS(terms)(const struct strip *s, struct LOOPS(at) * at, int64_t n, const int rows,
                         const int wide, const bool asks, const bool reads)
{
    for (; n > 0; n--) {
        VEC w[WIDE];
        KN_UNROLL
        for (int j = 0; j < wide; j++)
            w[j] = VLOAD(at->b + j * LANES);
        for (int j = 0; j < PANEL; j += LINE) {
            __builtin_prefetch(at->next + j, 0, 2);
            if (asks) {
                __builtin_prefetch(at->start_then + j, 0, 3);
                __builtin_prefetch(at->c_then + j, 1, 3);
            }
        }
        if (reads)
            __builtin_prefetch(at->a_then, 0, 3);
        KN_UNROLL
        for (int i = 0; i < rows; i++) {
            KN_UNROLL
            for (int j = 0; j < wide; j++)
                at->sum[i][j] += at->a[i / 4][i % 4 * s->lda] * w[j];
        }
        KN_UNROLL
        for (int i = 0; i < rows; i += 4)
            at->a[i / 4]++;
        at->b += PANEL;
        at->next += s->ahead;
        if (asks) {
            at->start_then += s->ld_start;
            at->c_then += s->ldc;
        }
        if (reads)
            at->a_then += LINE;
    }
}

/* `rows` rows of one panel, `wide` vectors of it. */
SIZED void LOOPS(corner)(const struct strip *s, const struct corner *o, const int rows,
                         const int wide)
{
    const int64_t few = !ASKS_AHEAD ? 0 : s->k < rows ? s->k : rows;
    struct LOOPS(at) at; /* an initialiser would write zeros for all sums first */

    at.b = s->b;
    at.next = o->next;
    at.a_then = o->a + rows * s->lda;
    at.start_then = o->start_then;
    at.c_then = o->c_then;
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
    if (ASKS_AHEAD)
        LOOPS(terms)(s, &at, few, rows, wide, true, false);
    if (ASKS_AHEAD && s->reads)
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

/*
 * Few rows of `panels` whole panels: of one there would be too few sums for a new multiplication
 * to begin before the one before it has ended. With `near` they are not asked for ahead.
 */
SIZED void LOOPS(thin)(const struct strip *s, const int rows, const int panels, const bool near)
{
    const int wide = panels * WIDE;
    const float *b = s->b, *a = s->a;
    VEC sum[THIN][MOST_PANELS * WIDE];

    KN_UNROLL
    for (int j = 0; j < wide; j++) {
        const VEC bias = s->bias ? VLOAD(s->bias + j * LANES) : (VEC){0};
        KN_UNROLL
        for (int i = 0; i < rows; i++)
            sum[i][j] = s->start ? VLOAD(s->start + i * s->ld_start + j * LANES) + bias : bias;
    }
    for (int64_t l = 0; l < s->k; l++) {
        for (int i = 0; i < panels && !near; i++)
            for (int j = 0; j < PANEL; j += LINE)
                __builtin_prefetch(b + i * s->step + j + AHEAD, 0, 3);
        VEC w[MOST_PANELS * WIDE];
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
        b += PANEL;
    }
    KN_UNROLL
    for (int i = 0; i < rows; i++) {
        KN_UNROLL
        for (int j = 0; j < wide; j++)
            VSTORE(s->c + i * s->ldc + j * LANES, LOOPS(clip)(s, sum[i][j]));
    }
}

#define CORNER(r, w)                                                                               \
    case (r)*4 + (w):                                                                              \
        LOOPS(corner)(s, &o, r, w);                                                                \
        break;
#define CORNERS(r)  CORNER(r, 1) CORNER(r, 2)
#define SIX_CORNERS CORNERS(1) CORNERS(2) CORNERS(3) CORNERS(4) CORNERS(5) CORNERS(6)
#if ROWS == 6
#define ALL_CORNERS SIX_CORNERS
#elif ROWS == 14
#define ALL_CORNERS                                                                                \
    SIX_CORNERS CORNERS(7) CORNERS(8) CORNERS(9) CORNERS(10) CORNERS(11) CORNERS(12) CORNERS(13)   \
        CORNERS(14)
#else
#error "no corners for so many ROWS"
#endif

#define THIN_CORNER(r, panels)                                                                     \
    case (r)*MOST_PANELS + (panels):                                                               \
        LOOPS(thin)(s, r, panels, false);                                                          \
        break;
/* One row uses a weight once: asking for it costs as much as that. */
#define ONE_ROW(panels)                                                                            \
    case MOST_PANELS + (panels):                                                                   \
        if (s->near)                                                                               \
            LOOPS(thin)(s, 1, panels, true);                                                       \
        else                                                                                       \
            LOOPS(thin)(s, 1, panels, false);                                                      \
        break;
#if THIN == 3
#define ALL_THIN ONE_ROW(4) ONE_ROW(2) THIN_CORNER(2, 2) THIN_CORNER(3, 2)
#elif THIN == 6
#define ALL_THIN                                                                                   \
    ONE_ROW(4)                                                                                     \
    ONE_ROW(2)                                                                                     \
    THIN_CORNER(2, 2) THIN_CORNER(3, 2) THIN_CORNER(4, 2) THIN_CORNER(5, 2) THIN_CORNER(6, 2)
#else
#error "no corners for so few rows as THIN"
#endif

/* s->panels of them at once, or all rows of one panel in groups of even height. */
TARGET static void LOOPS(strip)(const struct strip *s)
{
    const int64_t groups = kn_parts(s->rows, ROWS);
    struct corner o = {.a = s->a, .c = s->c, .start = s->start, .next = s->next};

    if (s->panels > 1) {
        switch (s->rows * MOST_PANELS + s->panels) {
            ALL_THIN
        }
        return;
    }
    for (int64_t i = 0; i < groups; i++) {
        const int64_t r = s->rows / groups + (i < s->rows % groups);
        const bool last = i == groups - 1;
        o.c_then = last ? s->c + PANEL : o.c + r * s->ldc;
        o.start_then = !s->start ? o.c_then : last ? s->start + PANEL : o.start + r * s->ld_start;
        switch (r * 4 + s->wide) {
            ALL_CORNERS
        }
        o.a += r * s->lda;
        o.c += r * s->ldc;
        if (o.start)
            o.start += r * s->ld_start;
        o.next += s->k * s->ahead;
    }
}

static const struct kn_product_loops LOOPS(loops) = {LANES, ROWS, THIN, LOOPS(strip)};

#undef PANEL
#undef SIZED
#undef CORNER
#undef THIN_CORNER
#undef ONE_ROW
#undef ALL_THIN
#undef CORNERS
#undef SIX_CORNERS
#undef ALL_CORNERS
#undef ROWS
#undef THIN
