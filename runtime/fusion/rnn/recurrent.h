/*
 * Recurrent layers: the inputs and attributes of the op _RNN (kernels/rnn/rnn.h). cells.h has the
 * table of cells. Passes find recurrent layers in loops and replace them with _RNN (cell.h,
 * rnn_loop.h).
 *
 * A new cell needs a row in that table, a matcher pl_match_NAME in runtime/fusion/cell_*.c, and a
 * step LOOPS(NAME) in kernels/rnn/rnn_cells.h. Nothing more is needed for a cell that has at most
 * four gates, at most one of them with reset before (n_reset_before below), and at most two states.
 * A cell beyond these limits also needs changes in other places:
 *
 *     a fifth gate   pl_cell.gate in cell.h, pl_own_gate and the gates of cell_match.c; `at` of
 *                    kn_rnn_step (kernels/rnn/rnn.h) and of rnn.c
 *     a second gate with reset before
 *                    kn_rnn_step.candidate_sums and rnn.c, which computes the sums of one gate
 *     a third state  its input after RT_RNN_C (states are RT_RNN_H + k) and an output of _RNN:
 *                    pl_cell.made and pl_rnn_layer.state; kn_rnn_step and the states of rnn.c
 */
#ifndef RT_RECURRENT_H
#define RT_RECURRENT_H

#include "runtime/core/fused_op.h"
#include "runtime/fusion/rnn/cells.h"

struct rt_cell {
    enum rt_cell_id id;
    const char *name, *gates;
    int n_gates, n_reset_before, n_reset_after, n_states;
};
static inline const struct rt_cell *rt_cell(int id)
{
    static const struct rt_cell cells[RT_N_CELLS] = {
#define X(name_, gates_, reset_before, reset_after, states)                                        \
    {RT_CELL_##name_, #name_, gates_, (int)sizeof(gates_) - 1, reset_before, reset_after, states},
        RT_CELLS(X)
#undef X
    };
    return &cells[id];
}

/* Inputs of _RNN. An absent input is an empty vector. */
#define RT_RNN_INPUTS(IN, op)                                                                      \
    IN(op, X, x, ONE)                                                                              \
    IN(op, H, h, ONE)                                                                              \
    IN(op, C, c, ONE)                                                                              \
    IN(op, W, w, ONE) /* weights of x for all gates, or for all but the reset-before gates */      \
    IN(op, R, r, ONE) /* weights of h for all but the reset-before gates */                        \
    IN(op, BIAS, bias, ONE)     /* a bias for each column of w */                                  \
    IN(op, R_BIAS, r_bias, ONE) /* a bias for each column of r */                                  \
    IN(op, W_RESET_BEFORE, w_reset_before, ONE)                                                    \
    IN(op, R_RESET_BEFORE, r_reset_before, ONE)                                                    \
    IN(op, BIAS_RESET_BEFORE, bias_reset_before, ONE)                                              \
    IN(op, PEEP_IN, peep_in, ONE)         /* LSTM peephole weights that multiply c in gate i */    \
    IN(op, PEEP_FORGET, peep_forget, ONE) /* LSTM peephole weights that multiply c in gate f */    \
    IN(op, PEEP_LET, peep_let, ONE) /* LSTM peephole weights that multiply the new c in gate o */  \
    IN(op, PROJECT, project, ONE)   /* matrix that projects the output */                          \
    /* `limit` and `limit_too` are limits of the loop's counter, and `length` is the length of the \
     * written list. INT64_MAX stands for the number of steps in x. */                             \
    IN(op, LIMIT, limit, ONE)                                                                      \
    IN(op, LIMIT_TOO, limit_too, ONE)                                                              \
    IN(op, LENGTH, length, ONE)                                                                    \
    IN(op, MASK, mask, ONE)     /* selects the rows that take a step (enum rt_rnn_mask) */         \
    IN(op, BEFORE, before, ONE) /* values to write for rows that take no step */

/* the inputs whose values `infer` reads */
#define RT_RNN_LIMITS                                                                              \
    (UINT64_C(1) << RT_RNN_LIMIT | UINT64_C(1) << RT_RNN_LIMIT_TOO | UINT64_C(1) << RT_RNN_LENGTH)

#define RT_RNN_OUTPUTS(OUT)                                                                        \
    OUT(y)                                                                                         \
    OUT(h)                                                                                         \
    OUT(c)

#define RT_RNN_ATTRS(ATTR)                                                                         \
    ATTR(ENUM, cell)            /* enum rt_cell_id */                                              \
    ATTR(ENUM, gate_activation) /* enum rt_cell_act */                                             \
    ATTR(ENUM, activation)      /* enum rt_cell_act */                                             \
    ATTR(INT, units)                                                                               \
    ATTR(INT, width)     /* number of columns of h and y; equal to `units` without a projection */ \
    ATTR(FLOAT, clip)    /* bound on the absolute value of c, or 0 if there is none */             \
    ATTR(INT, depth)     /* number of columns of x */                                              \
    ATTR(INT, x_rows)    /* number of rows that x must have, or -1 for any number */               \
    ATTR(BOOL, x_listed) /* whether x must have x_rows rows even if no step runs */                \
    /* number of rows that y must have, or -1 for any number */                                    \
    ATTR(INT, y_rows)                                                                              \
    ATTR(INT, x_row)    /* first row, in w and w_reset_before, that multiplies x */                \
    ATTR(INT, h_row)    /* first row, in r and r_reset_before, that multiplies the state */        \
    ATTR(STRING, order) /* letters of the gates in the order of their columns in w */              \
    ATTR(FLOAT, forget_bias)                                                                       \
    ATTR(BOOL, x_by_time) /* whether x is [time, batch, depth] instead of [batch, time, depth] */  \
    ATTR(BOOL, y_by_time)                                                                          \
    ATTR(ENUM, keep)   /* enum rt_rnn_keep */                                                      \
    ATTR(ENUM, read)   /* enum rt_rnn_read */                                                      \
    ATTR(ENUM, masked) /* enum rt_rnn_mask */                                                      \
    /* A row that takes no step repeats its previous output if `holds` is set. If `holds` is not   \
     * set, or the row has not taken a step yet, the output is this row of the input `before`. */  \
    ATTR(BOOL, holds)
RT_FUSED_OP(RT_RNN, rt_rnn, "_RNN");

/* The list element that a step writes. With EACH, step t writes element t. With LAST, every step
 * writes the first element. */
enum rt_rnn_keep { RT_RNN_KEEP_EACH, RT_RNN_KEEP_LAST };
enum rt_rnn_read {
    RT_RNN_UNREAD, /* No node reads y. _RNN still fails if the loop would fail. */
    /* y is the stack of the list's elements. _RNN fails if no step runs and y_rows is -1. */
    RT_RNN_READ,
    RT_RNN_INNER, /* The next layer of the loop reads y. */
};
enum rt_rnn_mask {
    RT_RNN_ALL,
    RT_RNN_BY_STEP, /* The mask is bool [time, batch, 1]. */
    /* The mask is the number of steps of each row: a scalar for all rows, or integers of shape
     * [batch]. */
    RT_RNN_BY_LENGTH,
};

#endif
