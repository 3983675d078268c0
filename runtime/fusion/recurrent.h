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
 *                    pl_cell.made, pl_rnn_layer.state and the node's outputs in rnn_loop.c; the
 *                    op's schema in kernels/rnn/rnn_layer.c; kn_rnn_step and the states of rnn.c
 */
#ifndef RT_RECURRENT_H
#define RT_RECURRENT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * X(name, gates, n_late, n_apart, n_states)
 *   gates    a letter each, in the order in which the step has them; 'f' gets the forget bias
 *   n_late   so many, the last ones, multiply something else than the state, with weights r_late
 *   n_apart  so many, the last ones, add what multiplies the state, with its bias, by themselves
 *   n_states 1: h, which is the output too; 2: and c
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
    int n_gates, n_late, n_apart, n_states;
};
static inline const struct rt_cell *rt_cell(int id)
{
    static const struct rt_cell cells[RT_N_CELLS] = {
#define X(name_, gates_, late, apart, states)                                                      \
    {RT_CELL_##name_, #name_, gates_, (int)sizeof(gates_) - 1, late, apart, states},
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
static inline const char *rt_cell_act_name(int act)
{
    static const char *const names[RT_N_CELL_ACTS] = {
#define X(name) #name,
        RT_CELL_ACTS(X)
#undef X
    };
    return names[act];
}

/* One that is not there is an empty vector. */
#define RT_RNN_INS(X)                                                                              \
    X(X, "x")                                                                                      \
    X(H, "h")                                                                                      \
    X(C, "c")                                                                                      \
    X(W, "w")           /* of x, all gates' columns, or all but the late ones' */                  \
    X(R, "r")           /* of h, all but the late gates' columns */                                \
    X(BIAS, "bias")     /* as many as w has columns */                                             \
    X(R_BIAS, "r_bias") /* as many as r has columns */                                             \
    X(W_LATE, "w_late")                                                                            \
    X(R_LATE, "r_late")                                                                            \
    X(BIAS_LATE, "bias_late")                                                                      \
    X(PEEP_IN, "peep_in") /* of LSTM: what c is multiplied by in gates i and f, */                 \
    X(PEEP_FORGET, "peep_forget")                                                                  \
    X(PEEP_LET, "peep_let") /* and the new c in gate o */                                          \
    X(PROJECT, "project")   /* what the output is multiplied by before it is one */                \
    /* Bounds of the loop's count, and how long the list is that it writes; INT64_MAX: as x */     \
    X(LIMIT, "limit")                                                                              \
    X(LIMIT_TOO, "limit_too")                                                                      \
    X(LENGTH, "length")                                                                            \
    X(MASK, "mask")     /* which rows take a step, by enum rt_rnn_mask */                          \
    X(BEFORE, "before") /* what a row writes that does not */

enum rt_rnn_in {
#define X(id, name) RT_RNN_##id,
    RT_RNN_INS(X)
#undef X
        RT_RNN_N_IN
};

#define RT_RNN_ATTRS(X)                                                                            \
    X(CELL, "cell", INT)                                                                           \
    X(GATE_ACT, "gate_activation", STRING)                                                         \
    X(ACT, "activation", STRING)                                                                   \
    X(UNITS, "units", INT)                                                                         \
    X(WIDTH, "width", INT)        /* of h and y: units, but with a projection */                   \
    X(CLIP, "clip", FLOAT)        /* how far from zero c gets; 0: any */                           \
    X(DEPTH, "depth", INT)        /* of x */                                                       \
    X(X_ROWS, "x_rows", INT)      /* how many rows x must have; -1: any */                         \
    X(X_LISTED, "x_listed", BOOL) /* that holds even where there are no steps */                   \
    X(Y_ROWS, "y_rows", INT)      /* the same of y: then y is zero where nothing is written */     \
    X(X_ROW, "x_row", INT)        /* of w, w_late: where the part begins that multiplies x */      \
    X(H_ROW, "h_row", INT)        /* of r, r_late: the same for the state */                       \
    X(ORDER, "order", STRING)     /* which gates the columns hold */                               \
    X(FORGET_BIAS, "forget_bias", FLOAT)                                                           \
    X(X_BY_TIME, "x_by_time", BOOL) /* x is [time, batch, depth], not [batch, time] */             \
    X(Y_BY_TIME, "y_by_time", BOOL)                                                                \
    X(KEEP, "keep", INT)     /* enum rt_rnn_keep */                                                \
    X(READ, "read", INT)     /* enum rt_rnn_read */                                                \
    X(MASKED, "masked", INT) /* enum rt_rnn_mask */                                                \
    X(HOLDS, "holds", BOOL)  /* `before` becomes what a row wrote last */

enum rt_rnn_attr {
#define X(id, name, type) RT_RNN_ATTR_##id,
    RT_RNN_ATTRS(X)
#undef X
        RT_RNN_N_ATTR
};

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
