/*
 * Defines LOOPS(NAME) for each cell of runtime/fusion/rnn/recurrent.h. LOOPS(NAME) computes the new
 * states of one step from the sums of the gates. rnn_loops.h includes this file for every
 * instruction set.
 */

/* Loops over rows i of the step and over units [u, u + LANES). */
#define FOR_VECTORS                                                                                \
    for (int64_t i = 0; i < s->rows; i++)                                                          \
        for (int64_t u = 0; u < s->units; u += LANES)

/* Loads the sums of gate g for LANES units of row i, starting at unit u. */
INLINE VEC LOOPS(sum)(const struct kn_rnn_step *s, const float *sums, int64_t i, int g, int64_t u)
{
    return VLOAD(sums + i * s->sums_row + s->at[g] + u);
}

/* Returns the value of a gate. Its peephole connection to the cell state c, if any, is added to its
 * sum before the activation. */
INLINE VEC LOOPS(peeping)(const struct kn_rnn_step *s, const float *peep, VEC sum, VEC c, int64_t u)
{
    return LOOPS(gate)(s, peep ? sum + VLOAD(peep + u) * c : sum);
}

TARGET static void LOOPS(lstm)(const struct kn_rnn_step *s, bool is_candidate)
{
    enum { IN, FORGET, NEW, LET };

    (void)is_candidate;
    FOR_VECTORS
    {
        const int64_t k = i * s->state_row + u;
        const VEC old = VLOAD(s->c + k);
        const VEC forget = LOOPS(peeping)(
            s, s->peep[1], LOOPS(sum)(s, s->sums, i, FORGET, u) + s->forget_bias, old, u);
        const VEC in = LOOPS(peeping)(s, s->peep[0], LOOPS(sum)(s, s->sums, i, IN, u), old, u);
        VEC c = forget * old + in * LOOPS(act)(s, LOOPS(sum)(s, s->sums, i, NEW, u));
        if (s->clip > 0) {
            const VEC most = (VEC){0} + s->clip;
            c = LOOPS(select)(c > most, most, LOOPS(select)(c < -most, -most, c));
        }
        VSTORE(s->c + k, c);
        const VEC let = LOOPS(peeping)(s, s->peep[2], LOOPS(sum)(s, s->sums, i, LET, u), c, u);
        VSTORE(s->h_new + k, let * LOOPS(act)(s, c));
    }
}

TARGET static void LOOPS(gru)(const struct kn_rnn_step *s, bool is_candidate)
{
    enum { UPDATE, RESET, NEW };

    (void)is_candidate;
    FOR_VECTORS
    {
        const int64_t k = i * s->state_row + u;
        const VEC keep = LOOPS(gate)(s, LOOPS(sum)(s, s->sums, i, UPDATE, u) +
                                            LOOPS(sum)(s, s->recurrent_sums, i, UPDATE, u));
        const VEC reset = LOOPS(gate)(s, LOOPS(sum)(s, s->sums, i, RESET, u) +
                                             LOOPS(sum)(s, s->recurrent_sums, i, RESET, u));
        const VEC fresh = LOOPS(act)(s, LOOPS(sum)(s, s->sums, i, NEW, u) +
                                            reset * LOOPS(sum)(s, s->recurrent_sums, i, NEW, u));
        VSTORE(s->h_new + k, keep * VLOAD(s->h + k) + (1.0f - keep) * fresh);
    }
}

/* Computes a step in two calls. The first call computes only the update and reset gates, because
 * the candidate's weights multiply reset * h. */
TARGET static void LOOPS(gru_before)(const struct kn_rnn_step *s, bool is_candidate)
{
    enum { UPDATE, RESET };

    FOR_VECTORS
    {
        const int64_t k = i * s->state_row + u;
        if (!is_candidate) {
            VSTORE(s->spare[0] + k, LOOPS(gate)(s, LOOPS(sum)(s, s->sums, i, UPDATE, u)));
            VSTORE(s->spare[1] + k,
                   LOOPS(gate)(s, LOOPS(sum)(s, s->sums, i, RESET, u)) * VLOAD(s->h + k));
            continue;
        }
        const VEC keep = VLOAD(s->spare[0] + k);
        const VEC fresh = LOOPS(act)(s, VLOAD(s->candidate_sums + i * s->candidate_row + u));
        VSTORE(s->h_new + k, keep * VLOAD(s->h + k) + (1.0f - keep) * fresh);
    }
}

TARGET static void LOOPS(simple)(const struct kn_rnn_step *s, bool is_candidate)
{
    (void)is_candidate;
    FOR_VECTORS
    {
        VSTORE(s->h_new + i * s->state_row + u, LOOPS(act)(s, LOOPS(sum)(s, s->sums, i, 0, u)));
    }
}

#undef FOR_VECTORS
