/*
 * Matches the LSTM cells of Keras, and LSTMCell and BasicLSTMCell of TensorFlow 1. TensorFlow 1's
 * cells add a forget bias. They may clip the cell state, feed it to the gates (peepholes), and
 * project the output. Keras may store separate weights for each gate (implementation=1).
 */
#include "runtime/fusion/rnn/cell_match.h"

#include <string.h>

/* The gates, in the order of rt_cell.gates, "ifgo". NEW is the candidate (g), and LET is the output
 * gate (o). */
enum { IN, FORGET, NEW, LET };

/* The argument of a gate's activation: `sum + bias + peep * of`. `peep` is a vector of peephole
 * weights, and `of` is a cell state. */
struct gate {
    struct pl_edge sum, peep, of;
    float bias;
};

/* Matches `e = sum + vector * of`, with operands in any order, and fills in the gate's peephole. */
static bool is_peep(const struct pl_match *m, struct pl_edge e, struct gate *gate)
{
    struct pl_edge in[2], half[2];

    if (!pl_sum_of(m, e, half))
        return false;
    for (int k = 0; k < 4; k++) {
        if (k == 2)
            pl_swap(half);
        if (!pl_op_of(m, half[1], "Mul", in, 2))
            continue;
        if (k % 2)
            pl_swap(in);
        if (!pl_row_constant(m->g, in[0]))
            continue;
        gate->sum = half[0];
        gate->peep = in[0];
        gate->of = in[1];
        return true;
    }
    return false;
}

static bool is_gate(const struct pl_match *m, struct pl_edge e, enum rt_cell_act act,
                    struct gate *gate)
{
    struct pl_edge in[2], of;
    struct pl_terms t;

    *gate = (struct gate){.peep = {-1, 0}};
    if (pl_act_of(m, e, &gate->sum) != act)
        return false;
    is_peep(m, gate->sum, gate);
    if (pl_sum_of(m, gate->sum, in)) {
        if (!pl_float_constant(m->g, in[1], &gate->bias))
            pl_swap(in);
        if (pl_float_constant(m->g, in[1], &gate->bias))
            gate->sum = in[0];
    }
    return pl_columns_of(m, gate->sum, &of) || pl_terms_of(m, gate->sum, &t);
}

/* Matches `h_new = gate(out) * act(c_new)`, with operands in any order. Sets *c to c_new before
 * clipping. */
static bool output_of(struct pl_match *m, struct pl_edge h_new, struct gate *let, struct pl_edge *c)
{
    struct pl_edge in[2], half[2], inner;
    float clip;

    if (!pl_op_of(m, h_new, "Mul", in, 2))
        return false;
    for (int k = 0; k < 2; k++, pl_swap(in)) {
        m->c->gate_act = pl_act_of(m, in[0], c);
        m->c->act = pl_act_of(m, in[1], &m->c->made[1]);
        m->c->clip = 0;
        *c = m->c->made[1];
        if (pl_clip_of(m, *c, &inner, &clip)) {
            *c = inner;
            m->c->clip = clip;
        }
        if (is_gate(m, in[0], m->c->gate_act, let) && pl_sum_of(m, *c, half))
            return true;
    }
    return false;
}

/* Matches `c_new = gate(forget) * c + gate(in) * act(candidate)`, with operands in any order. */
static bool state_of(struct pl_match *m, struct pl_edge c_new, struct gate *gate)
{
    struct pl_edge half[2], a[2], b[2];

    if (!pl_sum_of(m, c_new, half))
        return false;
    for (int k = 0; k < 2; k++, pl_swap(half)) {
        if (!pl_op_of(m, half[0], "Mul", a, 2) || !pl_op_of(m, half[1], "Mul", b, 2))
            return false;
        for (int j = 0; j < 4; j++) {
            m->c->in[RT_RNN_C] = b[1];
            if (is_gate(m, a[0], m->c->gate_act, &gate[IN]) &&
                is_gate(m, a[1], m->c->act, &gate[NEW]) &&
                is_gate(m, b[0], m->c->gate_act, &gate[FORGET]))
                return true;
            pl_swap(j % 2 ? b : a);
        }
    }
    return false;
}

/* Matches the sums of the gates: column blocks of one sum, or separate sums. */
static bool sums_of(struct pl_match *m, const struct gate *gate, struct pl_edge h)
{
    struct pl_cell *c = m->c;
    struct pl_edge of;
    struct pl_terms t;
    int k;

    if (!pl_columns_of(m, gate[IN].sum, &of)) {
        if (!pl_terms_of(m, gate[IN].sum, &t))
            return false;
        c->units = t.cols;
        c->width = c->width ? c->width : c->units;
        for (int i = 0; i < 4; i++)
            if (!pl_own_gate(m, gate[i].sum, h, i))
                return false;
        memcpy(c->order, c->kind->gates, 4);
        return true;
    }
    if (!pl_terms_of(m, of, &t) || t.cols % 4)
        return false;
    c->units = t.cols / 4;
    c->width = c->width ? c->width : c->units;
    for (int i = 0; i < 4; i++) {
        if (!pl_is_column(m, gate[i].sum, of, t.cols, c->units, &k) || k > 3 || c->order[k])
            return false;
        c->order[k] = c->kind->gates[i];
    }
    return pl_x_and_state(m, &t, h);
}

/* Copies the forget gate's bias and the peepholes to the cell. Returns false if another gate has a
 * bias, or if the cell has no place for one of the peepholes. */
static bool extras_of(struct pl_match *m, const struct gate *gate)
{
    static const int peep[4] = {RT_RNN_PEEP_IN, RT_RNN_PEEP_FORGET, -1, RT_RNN_PEEP_LET};
    struct pl_cell *c = m->c;

    c->forget_bias = gate[FORGET].bias;
    if (gate[IN].bias != 0 || gate[NEW].bias != 0 || gate[LET].bias != 0)
        return false;
    for (int i = 0; i < 4; i++) {
        if (gate[i].peep.node < 0)
            continue;
        if (peep[i] < 0 || !pl_unit_vector(m, gate[i].peep) ||
            !pl_same(gate[i].of, i == LET ? c->made[1] : c->in[RT_RNN_C]))
            return false;
        c->in[peep[i]] = gate[i].peep;
    }
    return true;
}

/* Matches the projection `h_new = output * matrix` with a constant matrix, and returns `output`.
 * Returns h_new if there is no projection. */
static struct pl_edge project_of(struct pl_match *m, struct pl_edge h_new, int64_t *units)
{
    struct pl_terms t;

    *units = 0;
    if (!pl_is(&m->g->node[h_new.node], "MatMul") || !pl_terms_of(m, h_new, &t))
        return h_new;
    m->c->in[RT_RNN_PROJECT] = t.matrix[0];
    m->c->width = t.cols;
    *units = t.rows[0];
    return t.a[0];
}

bool pl_match_lstm(struct pl_match *m, struct pl_edge h_new, struct pl_edge h)
{
    struct gate gate[4];
    struct pl_edge c_new;
    int64_t units;

    h_new = project_of(m, h_new, &units);
    return output_of(m, h_new, &gate[LET], &c_new) && state_of(m, c_new, gate) &&
           sums_of(m, gate, h) && extras_of(m, gate) && (units == 0 || units == m->c->units);
}
