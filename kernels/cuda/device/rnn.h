/*
 * The parameter of the device kernel that computes one step of a recurrent layer
 * (runtime/fusion/rnn/recurrent.h). Each block computes KC_RNN_ROWS rows of a batch for
 * KC_RNN_UNITS units. The warps of a block share the sums over the state.
 */
#ifndef KC_RNN_H
#define KC_RNN_H

#include <stdint.h>

enum { KC_RNN_ROWS = 8, KC_RNN_UNITS = 8, KC_RNN_MOST_GATES = 4 };

struct kc_rnn {
    float *h_new, *c_new; /* [rows, units]; c_new may be equal to c */
    float *y;             /* a second copy of h_new, or NULL */
    const float *sums;    /* the input of this step times the input weights, plus the bias */
    const float *h, *c;
    const float *r;      /* recurrent weights, [units, r_row] */
    const float *r_bias; /* a vector that is added to the recurrent sums, or NULL */
    int64_t rows, units;
    /* distance between two rows, in elements; 0 if all rows share one state */
    int64_t sums_row, h_row, c_row, r_row, y_row;
    int64_t at[KC_RNN_MOST_GATES]; /* first column of each gate in `sums` and `r` */
    int32_t cell;                  /* an enum rt_cell_id */
    int32_t n_gates;
    int32_t gate_act, act;   /* enum rt_cell_act */
    float forget_bias, clip; /* c is clipped to [-clip, clip], unless clip is 0 */
};

#endif
