/*
 * Matches the GRU cells of Keras and TensorFlow 1's GRUCell. Keras applies the reset gate before or
 * after the recurrent matmul, and may store separate weights for each gate (implementation=1).
 * GRUCell applies the reset gate before the matmul, and multiplies the concatenation of x and the
 * state by one matrix.
 */
#include "runtime/fusion/rnn/cell_match.h"

#include <string.h>

/* Matches `h_new = update * h + (1 - update) * act(candidate)`, with operands in any order. Sets
 * *fresh to the edge of the candidate. */
static bool state_of(struct pl_match *m, struct pl_edge h_new, struct pl_edge h,
                     struct pl_edge *update, struct pl_edge *fresh)
{
    struct pl_edge half[2], in[2], rest[2];
    float one;

    if (!pl_sum_of(m, h_new, half))
        return false;
    for (int k = 0; k < 4; k++) {
        if (k == 2)
            pl_swap(half);
        if (!pl_op_of(m, half[0], "Mul", in, 2))
            return false;
        if (k % 2)
            pl_swap(in);
        if (!pl_op_of(m, in[0], "Sub", rest, 2) || !pl_float_constant(m->g, rest[0], &one) ||
            one != 1)
            continue;
        m->c->act = pl_act_of(m, in[1], fresh);
        *update = rest[1];
        return pl_op_of(m, half[1], "Mul", in, 2) &&
               ((pl_same(in[0], *update) && pl_same(in[1], h)) ||
                (pl_same(in[1], *update) && pl_same(in[0], h)));
    }
    return false;
}

/* Sets the order of the column blocks. The positions of the update gate and the reset gate must be
 * 0 and 1, in either order. */
static bool set_order(struct pl_cell *c, int update, int reset, bool with_new)
{
    if (update > 1 || reset > 1 || update == reset)
        return false;
    memcpy(c->order, update == 0 ? "zrn" : "rzn", 4);
    if (!with_new)
        c->order[2] = '\0';
    return true;
}

/* ---- Keras: a gate is a column block of x's product plus one of the state's ---- */

/* One operand of a gate's sum: either x or the state, multiplied by its weights. */
struct side {
    struct pl_edge of;
    struct pl_terms t;
};

static bool side_of(struct pl_match *m, struct pl_edge column, struct side *s)
{
    return pl_columns_of(m, column, &s->of) && pl_terms_of(m, s->of, &s->t) && s->t.n_matmuls == 1;
}

/* Matches a gate: the activation of a sum. One summand is column block k of x multiplied by its
 * weights, and the other is column block k of the state multiplied by its weights. */
static bool gate_of(struct pl_match *m, struct pl_edge e, const struct side *x,
                    const struct side *h, int *k)
{
    const int64_t units = m->c->units;
    struct pl_edge in[2];
    int other;

    if (pl_act_of(m, e, &e) != m->c->gate_act || !pl_sum_of(m, e, in))
        return false;
    if (!pl_is_column(m, in[0], x->of, x->t.cols, units, k))
        pl_swap(in);
    return pl_is_column(m, in[0], x->of, x->t.cols, units, k) &&
           pl_is_column(m, in[1], h->of, h->t.cols, units, &other) && other == *k;
}

/* Finds the two operands of a gate's sum. Sets *of_h to the state multiplied by its weights, and *x
 * to x multiplied by its weights. */
static bool sides_of(struct pl_match *m, struct pl_edge update, struct pl_edge h, struct side *x,
                     struct side *of_h)
{
    struct pl_edge in[2];

    m->c->gate_act = pl_act_of(m, update, &update);
    if (!pl_sum_of(m, update, in) || !side_of(m, in[0], x) || !side_of(m, in[1], of_h))
        return false;
    if (pl_same(x->t.a[0], h)) {
        const struct side s = *x;
        *x = *of_h;
        *of_h = s;
    }
    return pl_same(of_h->t.a[0], h) && !pl_same(x->t.a[0], h);
}

/* Matches `e = reset * block`, the second term of the candidate's sum. `block` is a column block of
 * the GEMM of the state and its weights. The caller has already matched the first term, a column
 * block of the GEMM of x and its weights. */
static bool reset_after(struct pl_match *m, struct pl_edge e, const struct side *h,
                        struct pl_edge *reset)
{
    struct pl_edge in[2];
    int k;

    if (!pl_op_of(m, e, "Mul", in, 2) || h->t.cols != 3 * m->c->units)
        return false;
    if (!pl_is_column(m, in[1], h->of, h->t.cols, m->c->units, &k))
        pl_swap(in);
    *reset = in[0];
    return pl_is_column(m, in[1], h->of, h->t.cols, m->c->units, &k) && k == 2;
}

/* Matches `e = reset * h`, and sets *reset to the other factor. */
static bool is_reset_state(struct pl_match *m, struct pl_edge e, struct pl_edge h,
                           struct pl_edge *reset)
{
    struct pl_edge in[2];

    if (!pl_op_of(m, e, "Mul", in, 2))
        return false;
    if (!pl_same(in[1], h))
        pl_swap(in);
    *reset = in[0];
    return pl_same(in[1], h);
}

/* Matches `e = (reset * h) R`, the second term of the candidate's sum. The caller has already
 * matched the first term, a column block of the GEMM of x and its weights. */
static bool reset_before(struct pl_match *m, struct pl_edge e, struct pl_edge h,
                         const struct side *of_h, struct pl_edge *reset)
{
    const int64_t units = m->c->units;
    struct pl_terms t;

    if (!pl_terms_of(m, e, &t) || t.n_matmuls != 1 || t.n_biases || t.rows[0] != units ||
        t.cols != units || of_h->t.cols != 2 * units || of_h->t.n_biases)
        return false;
    m->c->in[RT_RNN_R_RESET_BEFORE] = t.matrix[0];
    return is_reset_state(m, t.a[0], h, reset);
}

static bool keras(struct pl_match *m, struct pl_edge h_new, struct pl_edge h, bool before)
{
    struct pl_cell *c = m->c;
    struct pl_edge update, fresh, reset, in[2];
    struct side x, of_h;
    int k, j;

    if (!state_of(m, h_new, h, &update, &fresh) || !sides_of(m, update, h, &x, &of_h) ||
        x.t.cols % 3 || !pl_sum_of(m, fresh, in))
        return false;
    c->units = c->width = x.t.cols / 3;
    if (!pl_is_column(m, in[0], x.of, x.t.cols, c->units, &k))
        pl_swap(in);
    if (!pl_is_column(m, in[0], x.of, x.t.cols, c->units, &k) || k != 2 ||
        !(before ? reset_before(m, in[1], h, &of_h, &reset) : reset_after(m, in[1], &of_h, &reset)))
        return false;
    if (!gate_of(m, update, &x, &of_h, &k) || !gate_of(m, reset, &x, &of_h, &j) ||
        !set_order(c, k, j, true) || of_h.t.rows[0] != c->units)
        return false;
    c->depth = x.t.rows[0];
    c->in[RT_RNN_X] = x.t.a[0];
    c->in[RT_RNN_H] = h;
    c->in[RT_RNN_W] = x.t.matrix[0];
    c->in[RT_RNN_R] = of_h.t.matrix[0];
    c->in[RT_RNN_BIAS] = x.t.bias;
    c->in[RT_RNN_R_BIAS] = of_h.t.bias;
    return true;
}

/* ---- TensorFlow 1: the gates are column blocks of an activated sum ---- */

static bool tf1(struct pl_match *m, struct pl_edge h_new, struct pl_edge h)
{
    struct pl_cell *c = m->c;
    struct pl_edge update, fresh, reset, gates, sum, x;
    struct pl_terms t, candidate;
    int k, j;

    if (!state_of(m, h_new, h, &update, &fresh) || !pl_columns_of(m, update, &gates))
        return false;
    c->gate_act = pl_act_of(m, gates, &sum);
    if (!pl_terms_of(m, sum, &t) || t.cols % 2 || !pl_terms_of(m, fresh, &candidate))
        return false;
    c->units = c->width = t.cols / 2;
    if (!pl_x_and_state(m, &t, h) || t.n_matmuls != 1 || candidate.cols != c->units ||
        candidate.rows[0] != t.rows[0] || !pl_side_by_side(m, &candidate, &x, &sum) ||
        !pl_same(x, c->in[RT_RNN_X]) || !is_reset_state(m, sum, h, &reset) ||
        !pl_is_column(m, update, gates, t.cols, c->units, &k) ||
        !pl_is_column(m, reset, gates, t.cols, c->units, &j))
        return false;
    c->in[RT_RNN_W_RESET_BEFORE] = c->in[RT_RNN_R_RESET_BEFORE] = candidate.matrix[0];
    c->in[RT_RNN_BIAS_RESET_BEFORE] = candidate.bias;
    return set_order(c, k, j, false);
}

/* ---- Keras, with separate weights for each gate ---- */

enum { UPDATE, RESET, NEW };

static bool gate_before(struct pl_match *m, struct pl_edge h_new, struct pl_edge h)
{
    struct pl_cell *c = m->c;
    struct pl_edge update, fresh, reset, sum;
    struct pl_terms t;

    if (!state_of(m, h_new, h, &update, &fresh))
        return false;
    c->gate_act = pl_act_of(m, update, &sum);
    if (!pl_terms_of(m, sum, &t))
        return false;
    c->units = c->width = t.cols;
    if (!pl_own_gate(m, sum, h, UPDATE) || !pl_terms_of(m, fresh, &t) || t.n_matmuls != 2 ||
        t.cols != c->units)
        return false;
    const int k = pl_same(t.a[0], c->in[RT_RNN_X]) ? 1 : 0;
    if (!is_reset_state(m, t.a[k], h, &reset) || !pl_same(t.a[1 - k], c->in[RT_RNN_X]) ||
        t.rows[k] != c->units || t.rows[1 - k] != c->depth ||
        pl_act_of(m, reset, &sum) != c->gate_act || !pl_own_gate(m, sum, h, RESET))
        return false;
    c->in[RT_RNN_R_RESET_BEFORE] = t.matrix[k];
    c->gate[0][NEW] = t.matrix[1 - k];
    c->gate[RT_RNN_BIAS - RT_RNN_W][NEW] = t.bias;
    memcpy(c->order, "zrn", 4);
    return true;
}

static bool gate_after(struct pl_match *m, struct pl_edge h_new, struct pl_edge h)
{
    struct pl_cell *c = m->c;
    struct pl_edge update, fresh, sum, in[2], side[2], half[2];
    struct pl_terms t;

    if (!state_of(m, h_new, h, &update, &fresh))
        return false;
    c->gate_act = pl_act_of(m, update, &sum);
    if (!pl_sum_of(m, sum, side) || !pl_terms_of(m, side[0], &t))
        return false;
    c->units = c->width = t.cols;
    memcpy(c->order, "zrn", 4);
    if (!pl_own_sides(m, side, h, UPDATE) || !pl_sum_of(m, fresh, in))
        return false;
    /* Tries all operand orders of the candidate's sum, `in[0] + half[0] * half[1]`. */
    for (int k = 0; k < 4; k++) {
        if (k == 2)
            pl_swap(in);
        if (!pl_op_of(m, in[1], "Mul", half, 2))
            continue;
        if (k % 2)
            pl_swap(half);
        const struct pl_edge last[2] = {in[0], half[1]};
        if (pl_own_sides(m, last, h, NEW) && pl_act_of(m, half[0], &sum) == c->gate_act &&
            pl_sum_of(m, sum, side) && pl_own_sides(m, side, h, RESET))
            return true;
    }
    return false;
}

bool pl_match_gru(struct pl_match *m, struct pl_edge h_new, struct pl_edge h)
{
    const struct pl_cell none = *m->c;

    if (keras(m, h_new, h, false))
        return true;
    *m->c = none;
    return gate_after(m, h_new, h);
}

bool pl_match_gru_before(struct pl_match *m, struct pl_edge h_new, struct pl_edge h)
{
    const struct pl_cell none = *m->c;

    if (keras(m, h_new, h, true))
        return true;
    *m->c = none;
    if (tf1(m, h_new, h))
        return true;
    *m->c = none;
    return gate_before(m, h_new, h);
}
