/*
 * The op _RNN is a recurrent layer, which the runtime creates from a loop.
 * runtime/fusion/rnn/recurrent.h has the table of cells and the op's inputs and attributes.
 *
 * The input's GEMM is computed for many steps together (packed_gemm.h). A step then multiplies the
 * state by the recurrent weights, adds the products to the input's sums, and computes the new state
 * from the sums. Each row of the arrays `sums` and `state` holds the following elements:
 *
 *     sums    one sum for each column of w, in the order of the columns
 *     state   one value for each unit, padded with arbitrary values to complete vectors
 *
 * rnn_layer.c checks and infers a layer's shapes, and rnn.c runs the layer. rnn_loops.h
 * (activations) and rnn_cells.h (cells) are compiled once per instruction set.
 *
 * Threads: any; the state of a run is in its own scratch memory.
 */
#ifndef KN_RNN_RNN_H
#define KN_RNN_RNN_H

#include "runtime/core/op.h"
#include "runtime/fusion/rnn/recurrent.h"

/* ---- loops ---- */

/* The arguments of one step of a cell, for some rows. The sums of gate g begin at[g] floats after
 * the start of a row. Complete vectors of sums are read, so the memory after the last row must be
 * readable. */
struct kn_rnn_step {
    enum rt_cell_act gate_act, act;
    float forget_bias, clip; /* c is clipped to [-clip, clip], unless clip is 0 */
    int64_t rows, units, state_row;
    int64_t at[4];
    /* The input's part of the gates' sums. In cells without n_reset_after gates, the state's part
     * has been added. */
    const float *sums;
    int64_t sums_row;
    /* the state's part of the gates' sums, in the same layout as `sums`; used only by cells with
     * n_reset_after gates */
    const float *recurrent_sums;
    /* sums of the candidate state; used only by cells with an n_reset_before gate */
    const float *candidate_sums;
    int64_t candidate_row;
    const float *h; /* the rows of h, h_new, c and spare are state_row floats apart */
    float *h_new, *c;
    /* peephole weights that multiply c in gates i, f and o, or NULL if there are none */
    const float *peep[3];
    /* In cells with an n_reset_before gate, spare[0] holds the update gate, and spare[1] holds
     * reset * h, which the caller multiplies by the candidate's recurrent weights. */
    float *spare[2];
};

struct kn_rnn_loops {
    int lanes;
    /* The function of a cell computes one step. For a cell with an n_reset_before gate, it is
     * called twice. The first call, without is_candidate, computes `spare`. The caller then
     * computes candidate_sums, and calls the function again with is_candidate. */
    void (*cell[RT_N_CELLS])(const struct kn_rnn_step *s, bool is_candidate);
};
/* Returns the loops for one of the instruction sets that the processor supports, or NULL if `which`
 * is too large. Set 0 is the best one, which rnn.c uses. */
const struct kn_rnn_loops *kn_rnn_loops_of(int which);

/* ---- a layer ---- */

struct kn_layer {
    const struct rt_cell *cell;
    int64_t units, depth, width; /* `width` is the number of columns of h and y */
    int64_t x_batch, time;       /* lengths of x along the batch and time axes */
    int64_t batch;               /* number of rows of the batch after broadcasting */
    int64_t steps, length;       /* `length` is the number of steps in y */
    int64_t mask_batch, mask_time;
    int64_t y_rows; /* number of rows that y must have, or -1 if it may have any number */
    enum rt_rnn_keep keep;
    enum rt_rnn_read read;
    enum rt_rnn_mask mask;
    bool x_by_time, y_by_time;
    bool known;        /* whether `steps` and `length` are known */
    bool fits;         /* whether a step can run on these shapes */
    bool concatenated; /* whether a single matrix multiplies the concatenation of x and h */
    /* whether w_candidate holds the columns of the n_reset_before gates; `w` then holds only the
     * columns of the other gates */
    bool separate_candidate;
    /* Whether a masked row repeats its previous output. If not, or before its first unmasked step,
     * a masked row outputs its row of the input `before`. */
    bool holds;
};

/* Computes the layer's dimensions from exact shapes. err is NULL if the caller needs only the
 * status. */
enum rt_status kn_layer_of(const struct rt_node *n, const struct rt_info *in, struct kn_layer *s,
                           struct rt_error *err);
/* Sets at[g] to the offset, in elements, of the columns of gate g within a row of w and r. */
void kn_layer_gates(const struct kn_layer *s, const struct rt_rnn *op, int64_t at[4]);
void kn_layer_y(const struct kn_layer *s, struct rt_shape *out);
/* Returns whether the output of a masked row may differ from its new state. */
static inline bool kn_layer_masks_y(const struct kn_layer *s)
{
    return s->mask != RT_RNN_ALL && s->read != RT_RNN_INNER;
}
static inline bool kn_is_none(const struct rt_shape *x)
{
    return x->rank == 1 && x->dim[0] == 0;
}

enum rt_status kn_layer_infer(struct rt_infer *x);
void kn_layer_rows(struct rt_rows *r);

#endif
