/*
 * One step of each cell of runtime/recurrent.h, LOOPS(NAME); included by rnn_loops.h for every
 * instruction set.
 */

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
            LOOPS(gate)(s, z[1]) * VLOAD(c) + LOOPS(gate)(s, z[0]) * LOOPS(act)(s, z[2]);
        VSTORE(c, state);
        VSTORE(to, LOOPS(gate)(s, z[3]) * LOOPS(act)(s, state));
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
        const VEC keep = LOOPS(gate)(s, z[0]), reset = LOOPS(gate)(s, z[1]);
        const VEC fresh = LOOPS(act)(s, VLOAD(x) + reset * z[2]);
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

/* Update and reset (times h) first: the product for the new state is of what reset leaves of the
 * old. They stay in spare[0] and spare[1]. */
INLINE void LOOPS(before_gates)(const struct kn_rnn_step *s, int64_t p, int64_t at, const int rows)
{
    const int64_t wide = s->panels * LANES;
    const float *sums = s->sums + at * s->sums_row + p * s->sums_panel, *h[LOOPS(most)];
    VEC sum[LOOPS(most) * 2];

    for (int i = 0; i < rows; i++) {
        h[i] = s->h + (at + i) * wide;
        for (int j = 0; j < 2; j++)
            sum[i * 2 + j] = VLOAD(sums + i * s->sums_row + j * LANES);
    }
    LOOPS(multiply)(h, s->units, s->weights + p * s->units * 2 * LANES, sum, rows, 2);
    for (int i = 0; i < rows; i++) {
        const int64_t k = (at + i) * wide + p * LANES;
        VSTORE(s->spare[0] + k, LOOPS(gate)(s, sum[i * 2]));
        VSTORE(s->spare[1] + k, LOOPS(gate)(s, sum[i * 2 + 1]) * VLOAD(s->h + k));
    }
}

INLINE void LOOPS(before_state)(const struct kn_rnn_step *s, int64_t p, int64_t at, const int rows)
{
    const int64_t wide = s->panels * LANES;
    const float *sums = s->late_sums + at * s->late_row + p * s->late_panel, *reset[LOOPS(most)];
    VEC sum[LOOPS(most)];

    for (int i = 0; i < rows; i++) {
        reset[i] = s->spare[1] + (at + i) * wide;
        sum[i] = VLOAD(sums + i * s->late_row);
    }
    LOOPS(multiply)(reset, s->units, s->later + p * s->units * LANES, sum, rows, 1);
    for (int i = 0; i < rows; i++) {
        const int64_t k = (at + i) * wide + p * LANES;
        const VEC update = VLOAD(s->spare[0] + k);
        VSTORE(s->h_new + k, update * VLOAD(s->h + k) + (1.0f - update) * LOOPS(act)(s, sum[i]));
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

/* ---- one gate ---- */

INLINE void LOOPS(simple_part)(const struct kn_rnn_step *s, int64_t p, int64_t at, const int rows)
{
    const int64_t wide = s->panels * LANES;
    const float *sums = s->sums + at * s->sums_row + p * LANES, *h[LOOPS(most)];
    VEC sum[LOOPS(most)];

    for (int i = 0; i < rows; i++) {
        h[i] = s->h + (at + i) * wide;
        sum[i] = VLOAD(sums + i * s->sums_row);
    }
    LOOPS(multiply)(h, s->units, s->weights + p * s->units * LANES, sum, rows, 1);
    for (int i = 0; i < rows; i++)
        VSTORE(s->h_new + (at + i) * wide + p * LANES, LOOPS(act)(s, sum[i]));
}

TARGET static void LOOPS(simple)(const struct kn_rnn_step *s)
{
    for (int64_t p = 0; p < s->panels; p++) {
#define PART(n) LOOPS(simple_part)(s, p, at, n)
        FOR_BLOCKS(s->rows, PART);
#undef PART
    }
}
