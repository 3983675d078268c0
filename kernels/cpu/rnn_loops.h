/*
 * The loops of recurrent layers for one instruction set; included once for each, with
 *   LOOPS(name)  a name of its own for every function
 *   TARGET       the attribute that selects the instruction set
 *   LANES        floats in a vector
 *   SUMS         vectors that are summed at a time
 */

typedef float LOOPS(vec) __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));
#define VEC          LOOPS(vec)
#define VLOAD(p)     (*(const VEC *)(p))
#define VSTORE(p, v) (*(VEC *)(p) = (v))
#define INLINE       TARGET static inline __attribute__((always_inline))

/* ---- activations: vec_math.h's, lane by lane ---- */

typedef int32_t LOOPS(ints) __attribute__((vector_size(LANES * sizeof(int32_t))));
#define INTS LOOPS(ints)

INLINE VEC LOOPS(select)(INTS yes, VEC a, VEC b)
{
    return (VEC)(((INTS)a & yes) | ((INTS)b & ~yes));
}

INLINE VEC LOOPS(exp)(VEC x)
{
    const VEC zero = {0}, least = zero - 0x1.5d58a0p6f;
    const INTS is_tiny = x<least, is_large = x> 89.0f;
    const VEC c = LOOPS(select)(is_tiny, least, LOOPS(select)(is_large, zero + 89.0f, x));
    const VEC t = c * 0x1.715476p0f + KN_ROUNDER, k = t - KN_ROUNDER;
    const VEC r = (c - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f;
    VEC p = zero + 1.991696295e-04f;
    p = p * r + 1.394728812e-03f;
    p = p * r + 8.333267340e-03f;
    p = p * r + 4.166625256e-02f;
    p = p * r + 1.666666685e-01f;
    p = p * r + 5.000000083e-01f;
    const VEC e = 1.0f + (r + r * r * p);
    const INTS n = (INTS)t - (INTS)(zero + KN_ROUNDER), half = n >> 1;
    const VEC y = e * (VEC)((half + 127) << 23) * (VEC)((n - half + 127) << 23);
    return LOOPS(select)(is_tiny, zero, y);
}

INLINE VEC LOOPS(sigmoid)(VEC x)
{
    return 1.0f / (1.0f + LOOPS(exp)(-x));
}

INLINE VEC LOOPS(tanh)(VEC x)
{
    const INTS sign = (INTS)x & INT32_MIN;
    const VEC a = (VEC)((INTS)x ^ sign), z = x * x;
    VEC p = (VEC){0} - 5.603875917e-03f;
    p = p * z + 2.055168036e-02f;
    p = p * z - 5.371409340e-02f;
    p = p * z + 1.333115261e-01f;
    p = p * z - 3.333327207e-01f;
    const VEC near_zero = x + x * (z * p);
    const VEC far = 1.0f - 2.0f / (LOOPS(exp)(2.0f * a) + 1.0f);
    return LOOPS(select)(a < 0.625f, near_zero, (VEC)((INTS)far | sign));
}

/* ---- products ---- */

/* sum [rows, gates] += rows of x [k] times a panel. Few sums wait for each other: they get a
 * second set, for every other k. */
INLINE void LOOPS(multiply)(const float *const *x, int64_t k, const float *panel, VEC *sum,
                            const int rows, const int gates)
{
    enum { FEW = 8 };
    const int64_t step = (int64_t)gates * LANES;
    int64_t l = 0;

    if (rows * gates < FEW) {
        VEC odd[FEW];
        for (int i = 0; i < rows * gates; i++)
            odd[i] = (VEC){0};
        for (; l + 1 < k; l += 2, panel += 2 * step)
            for (int i = 0; i < rows; i++)
                for (int j = 0; j < gates; j++) {
                    sum[i * gates + j] += x[i][l] * VLOAD(panel + j * LANES);
                    odd[i * gates + j] += x[i][l + 1] * VLOAD(panel + step + j * LANES);
                }
        for (int i = 0; i < rows * gates; i++)
            sum[i] += odd[i];
    }
    for (; l < k; l++, panel += step) {
        VEC w[4];
        for (int j = 0; j < gates; j++)
            w[j] = VLOAD(panel + j * LANES);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < gates; j++)
                sum[i * gates + j] += x[i][l] * w[j];
    }
}

/* Rows that are done at a time, in parts of even height. */
#define CASE(n, call)                                                                              \
    case n:                                                                                        \
        call;                                                                                      \
        break;
#if SUMS >= 24
#define CASES(call)                                                                                \
    switch (n) {                                                                                   \
        CASE(1, call(1))                                                                           \
        CASE(2, call(2)) CASE(3, call(3)) CASE(4, call(4)) CASE(5, call(5)) CASE(6, call(6))       \
    }
enum { LOOPS(most) = 6 };
#else
#define CASES(call)                                                                                \
    switch (n) {                                                                                   \
        CASE(1, call(1)) CASE(2, call(2))                                                          \
    }
enum { LOOPS(most) = 2 };
#endif

/* Calls `part` with n, a constant in it, for blocks of `rows`; `at` is the first row. */
#define FOR_BLOCKS(rows, part)                                                                     \
    do {                                                                                           \
        const int64_t parts_ = ((rows) + LOOPS(most) - 1) / LOOPS(most);                           \
        int64_t at = 0;                                                                            \
        for (int64_t i_ = 0; i_ < parts_; i_++) {                                                  \
            const int64_t n = (rows) / parts_ + (i_ < (rows) % parts_);                            \
            CASES(part)                                                                            \
            at += n;                                                                               \
        }                                                                                          \
    } while (0)

/* ---- the input's product ---- */

INLINE void LOOPS(corner)(const float *const *x, int64_t k, const float *panel, const float *bias,
                          float *sums, int64_t row, const int rows, const int gates)
{
    VEC sum[LOOPS(most) * 4];

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < gates; j++)
            sum[i * gates + j] = VLOAD(bias + j * LANES);
    LOOPS(multiply)(x, k, panel, sum, rows, gates);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < gates; j++)
            VSTORE(sums + i * row + j * LANES, sum[i * gates + j]);
}

INLINE void LOOPS(panels)(const float *const *x, int64_t rows, int64_t k, const float *weights,
                          int64_t panels, const float *bias, float *sums, const int gates)
{
    const int64_t wide = (int64_t)gates * LANES, row = panels * wide;

    for (int64_t p = 0; p < panels; p++, weights += k * wide) {
#define PART(n)                                                                                    \
    LOOPS(corner)(x + at, k, weights, bias + p * wide, sums + at * row + p * wide, row, n, gates)
        FOR_BLOCKS(rows, PART);
#undef PART
    }
}

TARGET static void LOOPS(product)(const float *const *x, int64_t n, int64_t k, const float *weights,
                                  int64_t panels, int gates, const float *bias, float *sums)
{
    if (gates == 4)
        LOOPS(panels)(x, n, k, weights, panels, bias, sums, 4);
    else
        LOOPS(panels)(x, n, k, weights, panels, bias, sums, 3);
}

/* ---- LSTM ---- */

INLINE void LOOPS(lstm_part)(const struct kn_rnn_step *s, int64_t p, int64_t at, const int rows)
{
    const int64_t wide = s->panels * LANES;
    const float *sums = s->sums + at * s->sums_row + p * 4 * LANES, *h[LOOPS(most)];
    VEC sum[LOOPS(most) * 4];

    for (int i = 0; i < rows; i++) {
        h[i] = s->h + (at + i) * wide;
        for (int j = 0; j < 4; j++)
            sum[i * 4 + j] = VLOAD(sums + i * s->sums_row + j * LANES);
    }
    LOOPS(multiply)(h, s->units, s->weights + p * s->units * 4 * LANES, sum, rows, 4);
    for (int i = 0; i < rows; i++) {
        float *c = s->c + (at + i) * wide + p * LANES;
        float *to = s->h_new + (at + i) * wide + p * LANES;
        const VEC *z = sum + i * 4;
        const VEC state =
            LOOPS(sigmoid)(z[1]) * VLOAD(c) + LOOPS(sigmoid)(z[0]) * LOOPS(tanh)(z[2]);
        VSTORE(c, state);
        VSTORE(to, LOOPS(sigmoid)(z[3]) * LOOPS(tanh)(state));
    }
}

TARGET static void LOOPS(lstm)(const struct kn_rnn_step *s)
{
    for (int64_t p = 0; p < s->panels; p++) {
#define PART(n) LOOPS(lstm_part)(s, p, at, n)
        FOR_BLOCKS(s->rows, PART);
#undef PART
    }
}

/* ---- GRU ---- */

INLINE void LOOPS(gru_part)(const struct kn_rnn_step *s, int64_t p, int64_t at, const int rows)
{
    const int64_t wide = s->panels * LANES;
    const float *sums = s->sums + at * s->sums_row + p * 3 * LANES, *h[LOOPS(most)];
    VEC sum[LOOPS(most) * 3];

    for (int i = 0; i < rows; i++) {
        h[i] = s->h + (at + i) * wide;
        for (int j = 0; j < 2; j++)
            sum[i * 3 + j] = VLOAD(sums + i * s->sums_row + j * LANES);
        sum[i * 3 + 2] = VLOAD(s->bias + p * LANES);
    }
    LOOPS(multiply)(h, s->units, s->weights + p * s->units * 3 * LANES, sum, rows, 3);
    for (int i = 0; i < rows; i++) {
        const float *from = h[i] + p * LANES, *x = sums + i * s->sums_row + 2 * LANES;
        const VEC *z = sum + i * 3;
        const VEC keep = LOOPS(sigmoid)(z[0]), reset = LOOPS(sigmoid)(z[1]);
        const VEC fresh = LOOPS(tanh)(VLOAD(x) + reset * z[2]);
        VSTORE(s->h_new + (at + i) * wide + p * LANES, keep * VLOAD(from) + (1.0f - keep) * fresh);
    }
}

TARGET static void LOOPS(gru)(const struct kn_rnn_step *s)
{
    for (int64_t p = 0; p < s->panels; p++) {
#define PART(n) LOOPS(gru_part)(s, p, at, n)
        FOR_BLOCKS(s->rows, PART);
#undef PART
    }
}

/* Update and reset first: the product for the new state is of what reset leaves of the old. */
INLINE void LOOPS(before_gates)(const struct kn_rnn_step *s, int64_t p, int64_t at, const int rows)
{
    const int64_t wide = s->panels * LANES;
    const float *sums = s->sums + at * s->sums_row + p * 3 * LANES, *h[LOOPS(most)];
    VEC sum[LOOPS(most) * 2];

    for (int i = 0; i < rows; i++) {
        h[i] = s->h + (at + i) * wide;
        for (int j = 0; j < 2; j++)
            sum[i * 2 + j] = VLOAD(sums + i * s->sums_row + j * LANES);
    }
    LOOPS(multiply)(h, s->units, s->weights + p * s->units * 2 * LANES, sum, rows, 2);
    for (int i = 0; i < rows; i++) {
        const int64_t k = (at + i) * wide + p * LANES;
        VSTORE(s->update + k, LOOPS(sigmoid)(sum[i * 2]));
        VSTORE(s->reset + k, LOOPS(sigmoid)(sum[i * 2 + 1]) * VLOAD(s->h + k));
    }
}

INLINE void LOOPS(before_state)(const struct kn_rnn_step *s, int64_t p, int64_t at, const int rows)
{
    const int64_t wide = s->panels * LANES;
    const float *sums = s->sums + at * s->sums_row + (p * 3 + 2) * LANES, *reset[LOOPS(most)];
    VEC sum[LOOPS(most)];

    for (int i = 0; i < rows; i++) {
        reset[i] = s->reset + (at + i) * wide;
        sum[i] = VLOAD(sums + i * s->sums_row);
    }
    LOOPS(multiply)(reset, s->units, s->later + p * s->units * LANES, sum, rows, 1);
    for (int i = 0; i < rows; i++) {
        const int64_t k = (at + i) * wide + p * LANES;
        const VEC update = VLOAD(s->update + k);
        VSTORE(s->h_new + k, update * VLOAD(s->h + k) + (1.0f - update) * LOOPS(tanh)(sum[i]));
    }
}

TARGET static void LOOPS(gru_before)(const struct kn_rnn_step *s)
{
    for (int64_t p = 0; p < s->panels; p++) {
#define PART(n) LOOPS(before_gates)(s, p, at, n)
        FOR_BLOCKS(s->rows, PART);
#undef PART
    }
    for (int64_t p = 0; p < s->panels; p++) {
#define PART(n) LOOPS(before_state)(s, p, at, n)
        FOR_BLOCKS(s->rows, PART);
#undef PART
    }
}

static const struct kn_rnn_loops LOOPS(loops) = {LANES, LOOPS(product), LOOPS(lstm), LOOPS(gru),
                                                 LOOPS(gru_before)};

#undef VEC
#undef INTS
#undef VLOAD
#undef VSTORE
#undef INLINE
#undef CASE
#undef CASES
#undef FOR_BLOCKS
#undef LOOPS
#undef TARGET
#undef LANES
#undef SUMS
