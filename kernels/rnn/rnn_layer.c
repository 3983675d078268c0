/*
 * Checks the shapes of the inputs of a recurrent layer and infers the shapes of its outputs. The
 * errors are those that the original loop would return. The rows of x, the states and the mask are
 * broadcast together. The columns of c and of `before` may also be broadcast. The outputs have the
 * broadcast number of rows. A loop of zero steps returns the initial states, whatever their shapes.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/rnn/rnn.h"

static bool read_limit(const struct rt_info *x, int64_t time, int64_t *v)
{
    *v = -1;
    if (!x->value)
        return false;
    *v = kn_int_at(x->value, 0);
    if (*v == INT64_MAX)
        *v = time;
    return true;
}

static bool is_scalar(const struct rt_info *x)
{
    return !x->value || x->value->rank == 0;
}

static enum rt_status too_far(const char *what, int64_t i, struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "Trying to %s element %lld in a list with %lld elements.", what, (long long)i,
                   (long long)i);
}

static bool widen(int64_t *n, int64_t by)
{
    if (*n == 1)
        *n = by;
    return *n == by || by == 1;
}

/* Returns whether `x` can be broadcast to [batch, units]. If *batch is 1, sets *batch to the number
 * of rows of x. */
static bool broadcasts(const struct rt_shape *x, int64_t *batch, int64_t units)
{
    return x->rank <= 2 &&
           (x->rank == 0 || x->dim[x->rank - 1] == units || x->dim[x->rank - 1] == 1) &&
           (x->rank < 2 || widen(batch, x->dim[0]));
}

/* Returns whether x has shape [s->batch, cols] and thus needs no broadcasting. */
static bool is_whole(const struct kn_layer *s, const struct rt_shape *x, int64_t cols)
{
    return x->rank == 2 && x->dim[0] == s->batch && x->dim[1] == cols;
}

/* Returns whether the mask of a Keras layer has a valid shape. The mask is broadcast with the
 * values that it selects. */
static bool step_mask_fits(const struct rt_info *in, struct kn_layer *s)
{
    const struct rt_shape *mask = &in[RT_RNN_MASK].shape;
    int64_t rows =
        mask->rank == 3 && mask->dim[2] == 1 && widen(&s->batch, mask->dim[1]) ? s->batch : -1;

    return rows >= 0 &&
           (!kn_layer_masks_y(s) ||
            (broadcasts(&in[RT_RNN_BEFORE].shape, &rows, s->width) && rows == s->batch));
}

/* Returns whether a TensorFlow 1 layer with sequence lengths has valid shapes. The layer's Select
 * op requires operands of equal shape and does not broadcast. */
static bool lengths_fit(const struct rt_info *in, const struct kn_layer *s)
{
    const struct rt_shape *lengths = &in[RT_RNN_MASK].shape;

    return (lengths->rank == 0 || (lengths->rank == 1 && lengths->dim[0] == s->batch)) &&
           is_whole(s, &in[RT_RNN_H].shape, s->width) &&
           (s->cell->n_states < 2 || is_whole(s, &in[RT_RNN_C].shape, s->units)) &&
           (!kn_layer_masks_y(s) || is_whole(s, &in[RT_RNN_BEFORE].shape, s->width));
}

/* Checks the shapes for a step, and sets s->batch to the number of rows that a step computes. */
static enum rt_status fit(const struct rt_info *in, struct kn_layer *s, struct rt_error *err)
{
    const struct rt_shape *h = &in[RT_RNN_H].shape;

    s->batch = s->x_batch;
    if (h->rank != 2 || h->dim[1] != s->width)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Matrix size-incompatible: a state %s is not of %lld units", KN_TEXT(h),
                       (long long)s->width);
    if (s->concatenated && h->dim[0] != s->x_batch)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "ConcatOp : Dimension 0 in both shapes must be equal: "
                       "shape[0] = [%lld,%lld] vs. shape[1] = %s",
                       (long long)s->x_batch, (long long)s->depth, KN_TEXT(h));
    if (!widen(&s->batch, h->dim[0]) ||
        (s->cell->n_states > 1 && !broadcasts(&in[RT_RNN_C].shape, &s->batch, s->units)))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Incompatible shapes: states %s and %s for a batch of %lld and %lld units",
                       KN_TEXT(h), KN_TEXT(&in[RT_RNN_C].shape), (long long)s->x_batch,
                       (long long)s->units);
    if ((s->mask == RT_RNN_BY_STEP && !step_mask_fits(in, s)) ||
        (s->mask == RT_RNN_BY_LENGTH && !lengths_fit(in, s)))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Incompatible shapes: a mask %s and outputs %s for a batch of %lld",
                       KN_TEXT(&in[RT_RNN_MASK].shape), KN_TEXT(&in[RT_RNN_BEFORE].shape),
                       (long long)s->batch);
    s->mask_batch = s->mask == RT_RNN_BY_STEP ? in[RT_RNN_MASK].shape.dim[1] : 1;
    if (s->mask == RT_RNN_BY_LENGTH && in[RT_RNN_MASK].shape.rank == 1)
        s->mask_batch = s->batch;
    return RT_OK;
}

/* Sets the number of steps, and checks the loop's bounds and the lengths of the lists that the loop
 * reads and writes. */
static enum rt_status count_steps(const struct rt_info *in, struct kn_layer *s,
                                  struct rt_error *err)
{
    int64_t limit[3];

    s->known = true;
    for (int k = 0; k < 3; k++) {
        if (!is_scalar(&in[RT_RNN_LIMIT + k]))
            return too_far("access", s->time, err);
        s->known = read_limit(&in[RT_RNN_LIMIT + k], s->time, &limit[k]) && s->known;
    }
    if (!s->known)
        return RT_OK;
    s->steps = limit[0] < limit[1] ? limit[0] : limit[1];
    s->steps = s->steps < 0 ? 0 : s->steps;
    s->length = limit[2];
    if (s->length < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "The num_elements to reserve must be a non negative number, but got %lld",
                       (long long)s->length);
    if (s->steps > s->time && (s->time <= s->length || s->keep != RT_RNN_KEEP_EACH))
        return too_far("access", s->time, err);
    if (s->mask == RT_RNN_BY_STEP && s->steps > s->mask_time)
        return too_far("access", s->mask_time, err);
    if (s->keep == RT_RNN_KEEP_EACH && s->steps > s->length)
        return too_far("modify", s->length, err);
    if (s->keep == RT_RNN_KEEP_LAST && s->steps > 0 && s->length == 0)
        return too_far("modify", 0, err);
    return RT_OK;
}

enum rt_status kn_layer_of(const struct rt_node *n, const struct rt_info *in, struct kn_layer *s,
                           struct rt_error *err)
{
    const struct rt_shape *x = &in[RT_RNN_X].shape, *mask = &in[RT_RNN_MASK].shape;
    struct rt_rnn op;

    rt_rnn_read(n, &op);
    *s = (struct kn_layer){
        .cell = rt_cell(op.cell),
        .keep = (enum rt_rnn_keep)op.keep,
        .read = (enum rt_rnn_read)op.read,
        .mask = (enum rt_rnn_mask)op.masked,
        .y_rows = op.y_rows,
        .units = op.units,
        .width = op.width,
        .depth = op.depth,
        .x_by_time = op.x_by_time,
        .y_by_time = op.y_by_time,
        .holds = op.holds,
        .concatenated = op.h_row > 0,
        .separate_candidate = !kn_is_none(&in[RT_RNN_W_RESET_BEFORE].shape),
    };
    if (x->rank != 3 || x->dim[2] != s->depth)
        return rt_fail(
            err, RT_INVALID_ARGUMENT,
            "Matrix size-incompatible: the steps of a sequence %s are not of %lld values",
            KN_TEXT(x), (long long)s->depth);
    if (s->mask == RT_RNN_BY_STEP && mask->rank == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Tensor must be at least a vector, but saw shape: []");
    s->time = x->dim[s->x_by_time ? 0 : 1];
    s->x_batch = x->dim[s->x_by_time ? 1 : 0];
    if (op.x_rows >= 0 && s->x_batch != op.x_rows && (s->time > 0 || op.x_listed))
        return rt_fail(
            err, RT_INVALID_ARGUMENT,
            "Specified a list with shape [%lld,%lld] from a tensor with shape [%lld,%lld]",
            (long long)op.x_rows, (long long)s->depth, (long long)s->x_batch, (long long)s->depth);
    s->mask_time = s->mask == RT_RNN_BY_STEP ? mask->dim[0] : 0;
    s->fits = fit(in, s, NULL) == RT_OK;
    const enum rt_status st = count_steps(in, s, err);
    if (st || !s->known || s->steps == 0)
        return st;
    if (!s->fits)
        return fit(in, s, err);
    if (s->y_rows >= 0 && s->batch != s->y_rows)
        return rt_fail(
            err, RT_INVALID_ARGUMENT,
            "Tried to set a tensor with incompatible shape at a list index. Item element "
            "shape: [%lld,%lld] list shape: [%lld,%lld]",
            (long long)s->batch, (long long)s->width, (long long)s->y_rows, (long long)s->width);
    if (s->concatenated && s->steps > 1 && s->batch != s->x_batch)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "ConcatOp : Dimension 0 in both shapes must be equal: "
                       "shape[0] = [%lld,%lld] vs. shape[1] = [%lld,%lld]",
                       (long long)s->x_batch, (long long)s->depth, (long long)s->batch,
                       (long long)s->width);
    return RT_OK;
}

void kn_layer_gates(const struct kn_layer *s, const struct rt_rnn *op, int64_t at[4])
{
    for (int g = 0; g < s->cell->n_gates; g++) {
        const char *letter = strchr(op->order, s->cell->gates[g]);
        at[g] = letter ? (letter - op->order) * s->units : 0;
    }
}

void kn_layer_y(const struct kn_layer *s, struct rt_shape *out)
{
    const int64_t n = s->read == RT_RNN_UNREAD ? 0 : s->known ? s->length : -1;

    const int64_t batch = s->y_rows >= 0 ? s->y_rows : s->batch;

    *out = (struct rt_shape){.rank = 3, .dim = {n, batch, s->width}};
    if (!s->y_by_time) {
        out->dim[0] = batch;
        out->dim[1] = n;
    }
}

/* Returns whether the shapes of all inputs but the loop bounds are known. The bounds are read as
 * values. */
static bool shapes_known(const struct rt_info *in)
{
    for (int k = 0; k < RT_RNN_N_IN; k++)
        if ((k < RT_RNN_LIMIT || k > RT_RNN_LENGTH) && !kn_shape_known(&in[k].shape))
            return false;
    return true;
}

enum rt_status kn_layer_infer(struct rt_infer *x)
{
    struct kn_layer s;

    if (!shapes_known(x->in))
        return RT_OK;
    const enum rt_status st = kn_layer_of(x->node, x->in, &s, x->err);
    if (st)
        return st;
    kn_layer_y(&s, &x->out[0].shape);
    for (int k = 0; k < 2; k++) {
        const struct rt_shape *from = &x->in[RT_RNN_H + k].shape;
        const int64_t cols = k ? s.units : s.width;
        if ((s.known && s.steps == 0) || k >= s.cell->n_states)
            x->out[1 + k].shape = *from;
        else if (s.known || (s.fits && is_whole(&s, from, cols)))
            kn_set_shape(&x->out[1 + k], 2, (int64_t[]){s.batch, cols});
    }
    return RT_OK;
}

/* Returns whether rows of the layer depend on rows of input k. Sets *axis to the batch axis of that
 * input. */
static bool is_by_row(const struct kn_layer *s, int k, int *axis)
{
    *axis = 0;
    switch (k) {
    case RT_RNN_X:
        *axis = s->x_by_time ? 1 : 0;
        return true;
    case RT_RNN_H:
        return true;
    case RT_RNN_C:
        return s->cell->n_states > 1;
    case RT_RNN_MASK:
        *axis = s->mask == RT_RNN_BY_STEP ? 1 : 0;
        return s->mask != RT_RNN_ALL;
    case RT_RNN_BEFORE:
        return kn_layer_masks_y(s);
    default:
        return false;
    }
}

/* Marks the op as row-wise if x, the states and the mask (if any) have the same number of rows, and
 * the loop runs over all time steps of x. */
void kn_layer_rows(struct rt_rows *r)
{
    struct kn_layer s;
    int axis;

    if (kn_rows_independent(r) || !shapes_known(r->in))
        return;
    if (kn_layer_of(r->node, r->in, &s, NULL) || !s.known || !s.fits || s.steps != s.time ||
        s.batch != s.x_batch || (s.mask != RT_RNN_ALL && s.mask_batch != s.batch) ||
        (s.keep == RT_RNN_KEEP_EACH && s.length != s.time) ||
        (s.keep == RT_RNN_KEEP_LAST && s.length != 1))
        return;
    for (int k = 0; k < r->n_in; k++) {
        const struct rt_dep *d = &r->in_dep[k];
        const bool is_size = k >= RT_RNN_LIMIT && k <= RT_RNN_LENGTH && d->kind == RT_DEP_SIZE;
        if (!is_by_row(&s, k, &axis)) {
            if (d->kind != RT_DEP_NONE && !is_size)
                return;
            continue;
        }
        const bool is_state = k == RT_RNN_H || k == RT_RNN_C || k == RT_RNN_BEFORE;
        if (d->kind != RT_DEP_ROWS || d->axis != axis ||
            (is_state && !is_whole(&s, &r->in[k].shape, k == RT_RNN_C ? s.units : s.width)))
            return;
    }
    r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, s.y_by_time ? 1 : 0};
    for (int k = 0; k < 2; k++)
        r->out_dep[1 + k] = (struct rt_dep){k < s.cell->n_states ? RT_DEP_ROWS : RT_DEP_NONE, 0};
}
