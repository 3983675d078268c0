/* LSTM: of Keras, and LSTMCell and BasicLSTMCell of TensorFlow 1, which add a forget bias. */
#include "runtime/cell_match.h"

/* An activated column, with something added to it or not. Its number is looked up later. */
static bool is_gate(struct pl_match *m, struct pl_edge e, enum rt_cell_act act, bool forgets,
                    struct pl_edge *column)
{
    struct pl_edge in[2], of;

    if (pl_act_of(m, e, column) != act)
        return false;
    if (forgets && pl_sum_of(m, *column, in)) {
        if (!pl_float_constant(m->g, in[1], &m->c->forget_bias))
            pl_swap(in);
        if (!pl_float_constant(m->g, in[1], &m->c->forget_bias))
            return false;
        *column = in[0];
    }
    return pl_columns_of(m, *column, &of);
}

/* h_new = gate(out) * act(c_new), in any order. */
static bool output_of(struct pl_match *m, struct pl_edge h_new, struct pl_edge *out)
{
    struct pl_edge in[2], half[2];

    if (!pl_op_of(m, h_new, "Mul", in, 2))
        return false;
    for (int k = 0; k < 2; k++, pl_swap(in)) {
        m->c->gate_act = pl_act_of(m, in[0], out);
        m->c->act = pl_act_of(m, in[1], &m->c->made[1]);
        if (is_gate(m, in[0], m->c->gate_act, false, out) && pl_sum_of(m, m->c->made[1], half))
            return true;
    }
    return false;
}

/* c_new = gate(forget) * c + gate(in) * act(fresh), in any order. */
static bool state_of(struct pl_match *m, struct pl_edge *forget, struct pl_edge *in,
                     struct pl_edge *fresh)
{
    struct pl_edge half[2], a[2], b[2];

    if (!pl_sum_of(m, m->c->made[1], half))
        return false;
    for (int k = 0; k < 2; k++, pl_swap(half)) {
        if (!pl_op_of(m, half[0], "Mul", a, 2) || !pl_op_of(m, half[1], "Mul", b, 2))
            return false;
        for (int j = 0; j < 4; j++) {
            m->c->in[RT_RNN_C] = b[1];
            m->c->forget_bias = 0;
            if (is_gate(m, a[0], m->c->gate_act, false, in) &&
                is_gate(m, a[1], m->c->act, false, fresh) &&
                is_gate(m, b[0], m->c->gate_act, true, forget))
                return true;
            pl_swap(j % 2 ? b : a);
        }
    }
    return false;
}

bool pl_match_lstm(struct pl_match *m, struct pl_edge h_new, struct pl_edge h)
{
    struct pl_cell *c = m->c;
    struct pl_edge gate[4], of; /* in the order i, f, g, o */
    struct pl_terms t;
    int k;

    if (!output_of(m, h_new, &gate[3]) || !state_of(m, &gate[1], &gate[0], &gate[2]) ||
        !pl_columns_of(m, gate[0], &of) || !pl_terms_of(m, of, &t) || t.cols % 4)
        return false;
    c->units = t.cols / 4;
    for (int i = 0; i < 4; i++) {
        if (!pl_is_column(m, gate[i], of, t.cols, c->units, &k) || k > 3 || c->order[k])
            return false;
        c->order[k] = c->kind->gates[i];
    }
    return pl_x_and_state(m, &t, h);
}
