/*
 * Recurrent layers (_RNN), as the runtime finds them in loops; runtime/recurrent.h has the table of
 * cells and what the op's inputs and attributes are.
 *
 * The input's products are made for many steps at once; a step then multiplies the state by the
 * recurrent weights only. Both weights are packed so that the gates of some neighbouring units lie
 * together: when their sums are complete, the new state of these units is made in place.
 *
 *     panel   the columns of LANES units, all their gates: [k][gate][LANES]
 *     sums    one row: [panel][gate][LANES]
 *     state   one row: units, filled up with zeros to whole panels
 *
 * rnn_layer.c says what shapes a layer takes and makes, rnn.c runs it; rnn_loops.h (products) and
 * rnn_cells.h (steps) are compiled once per instruction set.
 */
#ifndef KN_CPU_RNN_H
#define KN_CPU_RNN_H

#include "runtime/op.h"
#include "runtime/recurrent.h"

/* ---- loops ---- */

/* One step of a block of rows. */
struct kn_rnn_step {
    enum rt_cell_act gate_act, act;
    int64_t rows, units, panels;
    const float *weights; /* recurrent, packed; of all but the late gates */
    const float *later;   /* of the late gates */
    const float *bias;    /* [panel][LANES], of the recurrent product of the gate that is apart */
    const float *sums;    /* of the input: rows `sums_row` floats apart, panels `sums_panel` */
    int64_t sums_row, sums_panel;
    const float *late_sums; /* of the late gates: the same */
    int64_t late_row, late_panel;
    const float *h; /* state rows, panels * LANES floats apart, as all below */
    float *h_new, *c;
    float *spare[2]; /* of cells with late gates */
};

struct kn_rnn_loops {
    int lanes;
    /* sums [n, panels * gates * LANES] = rows of x times packed weights + bias (one row of sums) */
    void (*product)(const float *const *x, int64_t n, int64_t k, const float *weights,
                    int64_t panels, int gates, const float *bias, float *sums);
    void (*step[RT_N_CELLS])(const struct kn_rnn_step *s);
};

/* For this machine; any: 0 the best, 1 and 2 the lesser ones, NULL when it has none (tests). */
const struct kn_rnn_loops *kn_rnn_loops_here(int which);

/* ---- a layer ---- */

struct kn_layer {
    const struct rt_cell *cell;
    int64_t units, depth;
    int64_t x_batch, time; /* of x */
    int64_t batch;         /* of all rows */
    int64_t steps, length; /* length: of y */
    int64_t mask_batch, mask_time;
    enum rt_rnn_keep keep;
    enum rt_rnn_read read;
    enum rt_rnn_mask mask;
    bool x_by_time, y_by_time;
    bool known;      /* steps and length are */
    bool fits;       /* a step could be taken */
    bool joined;     /* x and h side by side are multiplied by one matrix */
    bool late_apart; /* w_late holds the late gates' columns, w those of the others only */
    bool holds;      /* a row that takes no step writes what it wrote last, at first `before` */
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
extern const struct rt_schema kn_layer_schema;

#endif
