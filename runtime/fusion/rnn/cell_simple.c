/* Matches the simple RNN cell `h_new = act(x W + h R + bias)` of Keras and TensorFlow 1
 * (BasicRNNCell). */
#include "runtime/fusion/rnn/cell_match.h"

bool pl_match_simple(struct pl_match *m, struct pl_edge h_new, struct pl_edge h)
{
    struct pl_cell *c = m->c;
    struct pl_edge sum;
    struct pl_terms t;

    c->act = pl_act_of(m, h_new, &sum);
    if (!pl_terms_of(m, sum, &t))
        return false;
    c->units = c->width = t.cols;
    c->order[0] = 'n';
    return pl_x_and_state(m, &t, h);
}
