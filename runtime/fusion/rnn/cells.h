/*
 * The cells of recurrent layers (recurrent.h) and their activations. Device code (kernels/cuda)
 * includes this header too, so it contains nothing else.
 */
#ifndef RT_CELLS_H
#define RT_CELLS_H

/*
 * Cells of recurrent layers. X(name, gates, n_reset_before, n_reset_after, n_states)
 *   gates           one letter for each gate, in the order in which the step reads them; the gate
 *                   'f' gets the forget bias
 *   n_reset_before  number of gates, at the end of `gates`, whose weights r_reset_before multiply
 *                   reset * state instead of the state
 *   n_reset_after   number of gates, at the end of `gates`, that multiply the recurrent sum (the
 *                   product of weights and state, plus its bias) by the reset gate before adding it
 *   n_states        1 if the only state is h, which is also the output; 2 if the states are h and c
 */
#define RT_CELLS(X)                                                                                \
    X(lstm, "ifgo", 0, 0, 2)                                                                       \
    X(gru, "zrn", 0, 1, 1)        /* The candidate is `n = act(x + r * (h R))`. */                 \
    X(gru_before, "zrn", 1, 0, 1) /* The candidate is `n = act(x + (r * h) R)`. */                 \
    X(simple, "n", 0, 0, 1)       /* The state is `h = act(x + h R)`. */

enum rt_cell_id {
#define X(name, ...) RT_CELL_##name,
    RT_CELLS(X)
#undef X
        RT_N_CELLS
};

/* Activation functions of the gates and of the values that the gates scale. */
#define RT_CELL_ACTS(X)                                                                            \
    X(linear)                                                                                      \
    X(sigmoid)                                                                                     \
    X(tanh)                                                                                        \
    X(relu)                                                                                        \
    X(hard_sigmoid)   /* `clip(x / 5 + 1/2, 0, 1)` */                                              \
    X(hard_sigmoid_6) /* `clip(x / 6 + 1/2, 0, 1)` */

enum rt_cell_act {
#define X(name) RT_CELL_ACT_##name,
    RT_CELL_ACTS(X)
#undef X
        RT_N_CELL_ACTS
};

#endif
