/*
 * Recurrent layers, as runtime/fuse_loop.c finds them in loops: LSTM, and GRU with the reset gate
 * behind or before the recurrent product.
 *
 * The input's products are made for many steps at once; a step then multiplies the state by the
 * recurrent weights only. Both weights are packed so that the gates of some neighbouring units lie
 * together: when their sums are complete, the new state of these units is made in place.
 *
 *     panel   the columns of LANES units, all their gates: [k][gate][LANES]
 *     sums    one row: [panel][gate][LANES]
 *     state   one row: units, filled up with zeros to whole panels
 *
 * rnn_loops.h has the loops, compiled once per instruction set.
 */
#ifndef KN_CPU_RNN_H
#define KN_CPU_RNN_H

#include <stdbool.h>
#include <stdint.h>

enum kn_cell {
    KN_LSTM,       /* gates input, forget, new, output */
    KN_GRU,        /* gates update, reset, new: new = tanh(x + reset * (h R)) */
    KN_GRU_BEFORE, /* new = tanh(x + (reset * h) R) */
};

/* One step of a block of rows. */
struct kn_rnn_step {
    int64_t rows, units, panels;
    const float *weights; /* recurrent, packed; KN_GRU_BEFORE: of update and reset */
    const float *later;   /* KN_GRU_BEFORE: of new, panels of one gate */
    const float *bias;    /* KN_GRU: [panel][LANES], of new's recurrent product */
    const float *sums;    /* of the input, rows `sums_row` floats apart */
    int64_t sums_row;
    const float *h;                    /* state rows, panels * LANES floats apart, as all below */
    float *h_new, *c, *update, *reset; /* c: KN_LSTM; update, reset (times h): KN_GRU_BEFORE */
};

struct kn_rnn_loops {
    int lanes;
    /* sums [n, panels * gates * LANES] = rows of x times packed weights + bias (one row of sums) */
    void (*product)(const float *const *x, int64_t n, int64_t k, const float *weights,
                    int64_t panels, int gates, const float *bias, float *sums);
    void (*lstm)(const struct kn_rnn_step *s);
    void (*gru)(const struct kn_rnn_step *s);
    void (*gru_before)(const struct kn_rnn_step *s);
};

/* For this machine; any: 0 the best, 1 and 2 the lesser ones, NULL when it has none (tests). */
const struct kn_rnn_loops *kn_rnn_loops_here(int which);

#endif
