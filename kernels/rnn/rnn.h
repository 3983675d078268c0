/*
 * Recurrent layers (_RNN), as the runtime finds them in loops; runtime/fusion/recurrent.h has the
 * table of cells and what the op's inputs and attributes are.
 *
 * The input's products are made for many steps at once (product.h); a step then multiplies the
 * state by the recurrent weights only, adding to them, and a pass over the sums makes the new
 * state.
 *
 *     sums    one row: the columns of w, as its matrix has them
 *     state   one row: units, and room for whole vectors behind them that holds anything
 *
 * rnn_layer.c says what shapes a layer takes and makes, rnn.c runs it; rnn_loops.h (activations)
 * and rnn_cells.h (cells) are compiled once per instruction set. Threads: pure; a run's state lies
 * in its own scratch memory.
 */
#ifndef KN_CPU_RNN_H
#define KN_CPU_RNN_H

#include "runtime/core/op.h"
#include "runtime/fusion/recurrent.h"

/* ---- loops ---- */

/* What a cell makes new states of, for some rows. Gate g's sums begin at[g] floats behind the
 * beginning of a row; whole vectors of them are read, so that there must be room behind the last.
 */
struct kn_rnn_step {
    enum rt_cell_act gate_act, act;
    float forget_bias, clip; /* clip: 0: c may be anything */
    int64_t rows, units, state_row;
    int64_t at[4];
    const float *sums; /* of the input, and of the state unless gates are apart */
    int64_t sums_row;
    const float *recurrent_sums; /* of the state: where gates are apart; like sums */
    const float *candidate_sums; /* of the only late gate */
    int64_t candidate_row;
    const float *h; /* rows of states, as all below: state_row floats apart */
    float *h_new, *c;
    const float *peep[3]; /* vectors that c is multiplied by in gates i, f and o; NULL: none */
    float *spare[2]; /* of cells with late gates: what they keep; what r_candidate multiplies */
};

struct kn_rnn_loops {
    int lanes;
    /* Cells with late gates are called twice: when `spare` can be made, and when `late` is there.
     */
    void (*cell[RT_N_CELLS])(const struct kn_rnn_step *s, bool is_candidate);
};

/* ---- a layer ---- */

struct kn_layer {
    const struct rt_cell *cell;
    int64_t units, depth, width; /* width: of h and y */
    int64_t x_batch, time;       /* of x */
    int64_t batch;               /* of all rows */
    int64_t steps, length;       /* length: of y */
    int64_t mask_batch, mask_time;
    int64_t y_rows; /* how many rows y must have; -1: any */
    enum rt_rnn_keep keep;
    enum rt_rnn_read read;
    enum rt_rnn_mask mask;
    bool x_by_time, y_by_time;
    bool known;              /* steps and length are */
    bool fits;               /* a step could be taken */
    bool concatenated;       /* x and h side by side are multiplied by one matrix */
    bool separate_candidate; /* w_candidate holds the late gates' columns, w those of the others
                                only */
    bool holds; /* a row that takes no step writes what it wrote last, at first `before` */
};

/* From exact shapes; err NULL: says only whether all is well. */
enum rt_status kn_layer_of(const struct rt_node *n, const struct rt_info *in, struct kn_layer *s,
                           struct rt_error *err);
void kn_layer_y(const struct kn_layer *s, struct rt_shape *out);
/* A row that is masked writes something else than the new state. */
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
