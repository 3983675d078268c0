/*
 * Recurrent layers, between the passes that find them in loops (cell.h, rnn_loop.h) and the op that
 * computes them, _RNN (kernels/rnn/rnn.h): the table of cells, and the op's inputs and attributes.
 *
 * A new cell is a row here, its matcher pl_match_NAME in runtime/fusion/cell_*.c, and its step
 * LOOPS(NAME) in kernels/rnn/rnn_cells.h. That is all for a cell of at most four gates, of which
 * one is late, and two states. More of these need more room:
 *
 *     a fifth gate   pl_cell.gate in cell.h, pl_own_gate and the gates of cell_match.c; `at` of
 *                    kn_rnn_step (kernels/rnn/rnn.h) and of rnn.c
 *     a late one     kn_rnn_step.late and rnn.c, which makes one late product
 *     a third state  its input behind RT_RNN_C (states are RT_RNN_H + k) and an output of _RNN:
 *                    pl_cell.made and pl_rnn_layer.state; kn_rnn_step and the states of
 *                    rnn.c
 */
#ifndef RT_RECURRENT_H
#define RT_RECURRENT_H

#include "runtime/core/fused_op.h"

/*
 * X(name, gates, n_reset_before, n_reset_after, n_states)
 *   gates    a letter each, in the order in which the step has them; 'f' gets the forget bias
 *   n_reset_before  so many, the last ones, multiply something else than the state, with weights
 *                   r_late
 *   n_reset_after   so many, the last ones, add what multiplies the state, with its bias, by
 *                   themselves
 *   n_states        1: h, which is the output too; 2: and c
 */
#define RT_CELLS(X)                                                                                \
    X(lstm, "ifgo", 0, 0, 2)                                                                       \
    X(gru, "zrn", 0, 1, 1)        /* n = act(x + r * (h R)) */                                     \
    X(gru_before, "zrn", 1, 0, 1) /* n = act(x + (r * h) R) */                                     \
    X(simple, "n", 0, 0, 1)       /* h = act(x + h R) */

enum rt_cell_id {
#define X(name, ...) RT_CELL_##name,
    RT_CELLS(X)
#undef X
        RT_N_CELLS
};

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

/* Activations, of gates and of what they let through. */
#define RT_CELL_ACTS(X)                                                                            \
    X(linear)                                                                                      \
    X(sigmoid)                                                                                     \
    X(tanh)                                                                                        \
    X(relu)                                                                                        \
    X(hard_sigmoid)   /* x / 5 + 1/2, between 0 and 1 */                                           \
    X(hard_sigmoid_6) /* x / 6 + 1/2, between 0 and 1 */

enum rt_cell_act {
#define X(name) RT_CELL_ACT_##name,
    RT_CELL_ACTS(X)
#undef X
        RT_N_CELL_ACTS
};
/* One that is not there is an empty vector. */
#define RT_RNN_INPUTS(IN, op)                                                                      \
    IN(op, X, x, ONE)                                                                              \
    IN(op, H, h, ONE)                                                                              \
    IN(op, C, c, ONE)                                                                              \
    IN(op, W, w, ONE)           /* of x, all gates' columns, or all but the late ones' */          \
    IN(op, R, r, ONE)           /* of h, all but the late gates' columns */                        \
    IN(op, BIAS, bias, ONE)     /* as many as w has columns */                                     \
    IN(op, R_BIAS, r_bias, ONE) /* as many as r has columns */                                     \
    IN(op, W_RESET_BEFORE, w_late, ONE)                                                            \
    IN(op, R_RESET_BEFORE, r_late, ONE)                                                            \
    IN(op, BIAS_RESET_BEFORE, bias_late, ONE)                                                      \
    IN(op, PEEP_IN, peep_in, ONE) /* of LSTM: what c is multiplied by in gates i and f, */         \
    IN(op, PEEP_FORGET, peep_forget, ONE)                                                          \
    IN(op, PEEP_LET, peep_let, ONE) /* and the new c in gate o */                                  \
    IN(op, PROJECT, project, ONE)   /* what the output is multiplied by before it is one */        \
    /* Bounds of the loop's count, and how long the list is that it writes; INT64_MAX: as x */     \
    IN(op, LIMIT, limit, ONE)                                                                      \
    IN(op, LIMIT_TOO, limit_too, ONE)                                                              \
    IN(op, LENGTH, length, ONE)                                                                    \
    IN(op, MASK, mask, ONE)     /* which rows take a step, by enum rt_rnn_mask */                  \
    IN(op, BEFORE, before, ONE) /* what a row writes that does not */

#define RT_RNN_OUTPUTS(OUT)                                                                        \
    OUT(y)                                                                                         \
    OUT(h)                                                                                         \
    OUT(c)

#define RT_RNN_ATTRS(ATTR)                                                                         \
    ATTR(ENUM, cell)            /* enum rt_cell_id */                                              \
    ATTR(ENUM, gate_activation) /* enum rt_cell_act */                                             \
    ATTR(ENUM, activation)      /* enum rt_cell_act */                                             \
    ATTR(INT, units)                                                                               \
    ATTR(INT, width)     /* of h and y: units, but with a projection */                            \
    ATTR(FLOAT, clip)    /* how far from zero c gets; 0: any */                                    \
    ATTR(INT, depth)     /* of x */                                                                \
    ATTR(INT, x_rows)    /* how many rows x must have; -1: any */                                  \
    ATTR(BOOL, x_listed) /* that holds even where there are no steps */                            \
    ATTR(INT, y_rows)    /* the same of y: then y is zero where nothing is written */              \
    ATTR(INT, x_row)     /* of w, w_late: where the part begins that multiplies x */               \
    ATTR(INT, h_row)     /* of r, r_late: the same for the state */                                \
    ATTR(STRING, order)  /* which gates the columns hold */                                        \
    ATTR(FLOAT, forget_bias)                                                                       \
    ATTR(BOOL, x_by_time) /* x is [time, batch, depth], not [batch, time] */                       \
    ATTR(BOOL, y_by_time)                                                                          \
    ATTR(ENUM, keep)   /* enum rt_rnn_keep */                                                      \
    ATTR(ENUM, read)   /* enum rt_rnn_read */                                                      \
    ATTR(ENUM, masked) /* enum rt_rnn_mask */                                                      \
    ATTR(BOOL, holds)  /* `before` becomes what a row wrote last */
RT_FUSED_OP(RT_RNN, rt_rnn, "_RNN");

/* Which element of its list each step writes: one of its own, or always the first. */
enum rt_rnn_keep { RT_RNN_KEEP_EACH, RT_RNN_KEEP_LAST };
enum rt_rnn_read {
    RT_RNN_UNREAD, /* y is not; but what the loop refuses is refused */
    RT_RNN_READ,   /* as a stack of the list, which refuses one without any element */
    RT_RNN_INNER,  /* by the next layer of the same loop */
};
enum rt_rnn_mask {
    RT_RNN_ALL,
    RT_RNN_BY_STEP,   /* bool [time, batch, 1] */
    RT_RNN_BY_LENGTH, /* integers [batch], or one: a row takes so many steps */
};

#endif
