/*
 * Runs the steps whose sub-plan computes slices of the step's inputs: MapDefun, one row at a time,
 * and BatchFunction, one batch at a time.
 *
 * TensorFlow merges the batches of concurrent BatchFunction calls. Here, each call is a batch by
 * itself: the server has merged requests already where that is safe. The sub-plan gets the padded
 * batches that TensorFlow would make for a single call.
 */
#include "runtime/exec/batch_rows.h"
#include "runtime/exec/executor.h"

#include <string.h>

#include "runtime/core/copy.h"

/* ---- the sub-plan ---- */

/* The runs of a step's sub-plan. */
struct calls {
    struct rt_context *outer, *own; /* `own` is taken by the first call and kept for the others */
    const struct rt_plan_step *step;
    const struct rt_exec_runner *runner;
    struct rt_tensor *feeds, *results;
    int n_sliced; /* number of inputs of which each call gets a slice; it gets the others whole */
    struct rt_error *err;
};

static enum rt_status begin(struct calls *x, struct rt_context *c, const struct rt_plan_step *n,
                            const struct rt_exec_runner *runner, struct rt_tensor *in,
                            struct rt_error *err)
{
    enum rt_status st = RT_OK;

    *x = (struct calls){.outer = c,
                        .step = n,
                        .runner = runner,
                        .feeds = c->loop,
                        .results = c->loop + c->plan->max_in,
                        .n_sliced = pl_n_sliced(n->def),
                        .err = err};
    for (int k = 0; k < x->n_sliced && !st; k++)
        st = rt_context_load(c, &in[k], err);
    return st;
}

/* Runs the sub-plan. Takes the first n_sliced feeds, and borrows the step's other inputs. The
 * results are readable on the host, and belong to the caller. */
static enum rt_status call(struct calls *x, const struct rt_tensor *in)
{
    struct rt_context *c = x->outer;
    struct rt_plan *p = x->step->sub[0];
    enum rt_status st = rt_context_check(c, x->err);

    for (int k = x->n_sliced; k < x->step->n_in; k++)
        rt_tensor_ref(&x->feeds[k], &in[k]);
    if (!st && !x->own && !(x->own = rt_context_take(p, c->shared)))
        st = rt_fail_memory(x->err, "a run", (size_t)p->n_values * sizeof *in);
    if (!st) {
        c->shared->depth++;
        c->shared->moving = true;
        st = x->runner->run(x->own, x->feeds, x->results, x->err);
        c->shared->moving = false;
        c->shared->depth--;
    }
    for (int k = 0; k < x->step->n_in; k++)
        rt_tensor_clear(&x->feeds[k]);
    for (int o = 0; o < x->step->n_out && !st; o++)
        st = rt_context_load(c, &x->results[o], x->err);
    return st;
}

static void end(struct calls *x)
{
    for (int k = 0; k < x->step->n_in; k++)
        rt_tensor_clear(&x->feeds[k]);
    for (int o = 0; o < x->step->n_out; o++)
        rt_tensor_clear(&x->results[o]);
    if (x->own)
        rt_context_give(x->own);
}

static char *element(const struct rt_tensor *t, int64_t i)
{
    return (char *)t->data + (size_t)i * rt_dtype_size((enum rt_dtype)t->dtype);
}

/* Makes *to the rows [first, first + n) of t, which must have rows, as a view. */
static void slice(struct rt_tensor *to, const struct rt_tensor *t, int64_t first, int64_t n)
{
    rt_tensor_ref(to, t);
    to->alias_of = 0;
    to->dim[0] = n;
    if (rt_tensor_count(t))
        to->data = element(t, first * rt_batch_row_elements(t));
}

/* Copies n elements to element `at` of `to` and those behind it. */
static enum rt_status copy(struct calls *x, const struct rt_tensor *to, int64_t at,
                           const void *from, int64_t n)
{
    const struct rt_check check = rt_context_as_check(x->outer);

    return n ? rt_copy_elements_checked((enum rt_dtype)to->dtype, element(to, at), from, n, &check,
                                        x->err)
             : RT_OK;
}

/* Returns whether result o has the type that the step declares. */
static bool is_as_declared(const struct calls *x, int o)
{
    return x->results[o].dtype == x->step->def->out_dtype[o];
}

/* ---- MapDefun ---- */

static enum rt_status count_rows(const struct calls *x, const struct rt_tensor *in, int64_t *rows)
{
    for (int k = 0; k < x->n_sliced; k++) {
        if (in[k].rank < 1)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "All inputs must have rank at least 1. Input %d has a rank of 0.", k);
        if (in[k].dim[0] != in[0].dim[0])
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "All inputs must have the same dimension 0. Input %d has leading "
                           "dimension %lld, while all previous inputs have leading dimension %lld",
                           k, (long long)in[k].dim[0], (long long)in[0].dim[0]);
    }
    *rows = in[0].dim[0];
    return RT_OK;
}

static bool is_compatible(const struct rt_shape *want, const struct rt_tensor *t)
{
    bool yes = want->rank < 0 || want->rank == t->rank;

    for (int d = 0; d < want->rank && yes; d++)
        yes = want->dim[d] < 0 || want->dim[d] == t->dim[d];
    return yes;
}

static bool is_exact(const struct rt_shape *s)
{
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d] < 0)
            return false;
    return s->rank >= 0;
}

/* Allocates output o for rows of this shape. */
static enum rt_status make_rows(const struct calls *x, struct rt_tensor *out, int o, int64_t rows,
                                int rank, const int64_t *dim)
{
    int64_t whole[RT_MAX_RANK] = {rows};

    if (rank >= RT_MAX_RANK)
        return rt_fail(x->err, RT_UNIMPLEMENTED, "rank %d is above %d", rank + 1, RT_MAX_RANK);
    memcpy(whole + 1, dim, (size_t)rank * sizeof *whole);
    return rt_context_tensor(x->outer, &out[o], (enum rt_dtype)x->step->def->out_dtype[o], rank + 1,
                             whole, x->err);
}

/* Puts the results of row `row` into the outputs. The shape of the first row is that of all rows,
 * where the attribute does not say it. */
static enum rt_status put_row(struct calls *x, struct rt_tensor *out, int64_t row, int64_t rows)
{
    const struct rt_attr *shapes = rt_attr(x->step->def, "output_shapes");
    enum rt_status st = RT_OK;

    for (int o = 0; o < x->step->n_out && !st; o++) {
        struct rt_tensor *t = &x->results[o];
        struct rt_shape want = shapes->v.shapes[o];
        char is[200], expected[200];
        if (row > 0) {
            want.rank = out[o].rank - 1;
            memcpy(want.dim, out[o].dim + 1, (size_t)want.rank * sizeof *want.dim);
        }
        if (!is_as_declared(x, o))
            st = rt_fail(x->err, RT_INVALID_ARGUMENT,
                         "Mismatch in function return type and expected output type for output: %d",
                         o);
        else if (!is_compatible(&want, t))
            st = rt_fail(x->err, RT_INVALID_ARGUMENT,
                         "Mismatch in function retval shape, %s, and expected output shape, %s.",
                         rt_shape_text(is, sizeof is, t->rank, t->dim),
                         rt_shape_text(expected, sizeof expected, want.rank, want.dim));
        if (!st && row == 0)
            st = make_rows(x, out, o, rows, t->rank, t->dim);
        if (!st)
            st = copy(x, &out[o], row * rt_tensor_count(t), t->data, rt_tensor_count(t));
        rt_tensor_clear(t);
    }
    return st;
}

/* Makes the outputs for inputs without rows. */
static enum rt_status make_no_rows(const struct calls *x, struct rt_tensor *out)
{
    const struct rt_attr *shapes = rt_attr(x->step->def, "output_shapes");
    enum rt_status st = RT_OK;

    for (int o = 0; o < x->step->n_out && !st; o++) {
        const struct rt_shape *s = &shapes->v.shapes[o];
        st = is_exact(s) ? make_rows(x, out, o, 0, s->rank, s->dim)
                         : rt_fail(x->err, RT_INTERNAL, "Missing %d-th output from {{node %s}}", o,
                                   x->step->name);
    }
    return st;
}

enum rt_status rt_exec_map(struct rt_context *c, const struct rt_plan_step *n,
                           const struct rt_exec_runner *runner, struct rt_tensor *in,
                           struct rt_tensor *out, struct rt_error *err)
{
    struct calls x;
    int64_t rows = 0;
    enum rt_status st = begin(&x, c, n, runner, in, err);

    if (!st)
        st = count_rows(&x, in, &rows);
    if (!st && rows == 0)
        st = make_no_rows(&x, out);
    for (int64_t i = 0; i < rows && !st; i++) {
        for (int k = 0; k < x.n_sliced; k++) {
            struct rt_tensor *row = &x.feeds[k];
            slice(row, &in[k], i, 1);
            row->rank--;
            memmove(row->dim, row->dim + 1, (size_t)row->rank * sizeof *row->dim);
        }
        st = call(&x, in);
        if (!st)
            st = put_row(&x, out, i, rows);
    }
    end(&x);
    return st;
}

/* ---- BatchFunction ---- */

/* Refuses attributes that TensorFlow refuses, when the node runs as TensorFlow does. */
static enum rt_status check_attributes(const struct rt_node *n, struct rt_error *err)
{
    const struct rt_attr *allowed = rt_attr(n, "allowed_batch_sizes");
    const bool splits = rt_attr_bool(n, "enable_large_batch_splitting");
    const int64_t most = rt_attr_int(n, "max_batch_size");
    const int64_t timeout = rt_attr_int(n, "batch_timeout_micros");
    const int64_t last = allowed->n ? allowed->v.ints[allowed->n - 1] : most;

    if (rt_batch_check_sizes(allowed, err))
        return err->code;
    if (last != most && !splits)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "final entry in allowed_batch_sizes must equal max_batch_size when "
                       "enable_large_batch_splitting is False");
    if (most == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input_batch_size_limit must be positive; was 0");
    if (timeout < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "batch_timeout_micros must be non-negative; was %lld", (long long)timeout);
    if (splits && most > 0 && last > most)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "When enable_large_batch_splitting is true, input_batch_size_limit must be "
                       "greater than or equal to max_execution_batch_size.1%lld%lld",
                       (long long)most, (long long)last);
    return RT_OK;
}

/* Makes *to the rows [first, first + n) of t, followed by copies of row `first` that fill it up to
 * `padded` rows. */
static enum rt_status pad(struct calls *x, struct rt_tensor *to, const struct rt_tensor *t,
                          int64_t first, int64_t n, int64_t padded)
{
    const struct rt_check check = rt_context_as_check(x->outer);
    struct rt_tensor rows;
    int64_t dim[RT_MAX_RANK];

    slice(&rows, t, first, n);
    if (padded == n) {
        *to = rows;
        return RT_OK;
    }
    memcpy(dim, t->dim, sizeof dim);
    dim[0] = padded;
    enum rt_status st =
        rt_context_tensor(x->outer, to, (enum rt_dtype)t->dtype, t->rank, dim, x->err);
    if (!st)
        st = rt_batch_pad(to, &rows, &check, x->err);
    rt_tensor_clear(&rows);
    return st;
}

static enum rt_status check_result(struct calls *x, int o, int64_t n, int64_t padded)
{
    const struct rt_tensor *t = &x->results[o];

    if (t->rank < 1)
        return rt_fail(x->err, RT_FAILED_PRECONDITION, "Batched output tensor has 0 dimensions");
    if (t->dim[0] != padded)
        return rt_fail(x->err, RT_FAILED_PRECONDITION,
                       "Batched output tensor's 0th dimension does not equal the sum of the 0th "
                       "dimension sizes of the input tensors. 0th dimension size: %lld; batch "
                       "size: %lld; unbatched tasks size: 0; padding size: %lld",
                       (long long)t->dim[0], (long long)n, (long long)(padded - n));
    return is_as_declared(x, o)
               ? RT_OK
               : rt_fail(x->err, RT_INTERNAL,
                         "Output %d of type %s does not match declared output type %s for node "
                         "{{node %s}}",
                         o, rt_dtype_name((enum rt_dtype)t->dtype),
                         rt_dtype_name((enum rt_dtype)x->step->def->out_dtype[o]), x->step->name);
}

/* Puts the first n rows of the results into the outputs, as their rows from `first` on. A batch
 * that was not split becomes the outputs without a copy. */
static enum rt_status put_batch(struct calls *x, struct rt_tensor *out, int64_t first, int64_t n,
                                int64_t padded, int64_t size)
{
    enum rt_status st = RT_OK;

    for (int o = 0; o < x->step->n_out && !st; o++) {
        struct rt_tensor *t = &x->results[o];
        st = check_result(x, o, n, padded);
        if (!st && n == size) {
            slice(&out[o], t, 0, n);
        } else if (!st) {
            if (first == 0)
                st = make_rows(x, out, o, size, t->rank - 1, t->dim + 1);
            if (!st && (t->rank != out[o].rank ||
                        memcmp(t->dim + 1, out[o].dim + 1, (size_t)(t->rank - 1) * sizeof *t->dim)))
                st = rt_fail(x->err, RT_INVALID_ARGUMENT,
                             "BatchFunction: output %d has another shape in each part of a batch "
                             "that was split",
                             o);
            if (!st)
                st = copy(x, &out[o], first * rt_batch_row_elements(t), t->data,
                          n * rt_batch_row_elements(t));
        }
        rt_tensor_clear(t);
    }
    return st;
}

static enum rt_status run_batch(struct calls *x, const struct rt_tensor *in, struct rt_tensor *out,
                                int64_t size)
{
    const struct rt_attr *allowed = rt_attr(x->step->def, "allowed_batch_sizes");
    const bool splits = rt_attr_bool(x->step->def, "enable_large_batch_splitting");
    const int64_t most = splits && allowed->n ? allowed->v.ints[allowed->n - 1] : size;
    enum rt_status st = RT_OK;

    if (most <= 0)
        return rt_fail(x->err, RT_UNAVAILABLE,
                       "The batch scheduling queue to which this task was submitted is full; task "
                       "size is %lld but scheduling capacity is only 0",
                       (long long)size);
    for (int64_t first = 0; first < size && !st; first += most) {
        const int64_t n = size - first < most ? size - first : most;
        const int64_t padded = rt_batch_padded_size(allowed, n);
        for (int k = 0; k < x->n_sliced && !st; k++)
            st = pad(x, &x->feeds[k], &in[k], first, n, padded);
        if (!st)
            st = call(x, in);
        if (!st)
            st = put_batch(x, out, first, n, padded, size);
    }
    return st;
}

enum rt_status rt_exec_batch(struct rt_context *c, const struct rt_plan_step *n,
                             const struct rt_exec_runner *runner, struct rt_tensor *in,
                             struct rt_tensor *out, struct rt_error *err)
{
    const int64_t none = 0;
    struct calls x;
    enum rt_status st = begin(&x, c, n, runner, in, err);

    if (!st)
        st = check_attributes(n->def, err);
    if (!st)
        st = rt_batch_check_rows(in, x.n_sliced, rt_attr_int(n->def, "max_batch_size"), err);
    if (!st && in[0].dim[0])
        st = run_batch(&x, in, out, in[0].dim[0]);
    else /* TensorFlow does not run the function either. */
        for (int o = 0; o < n->n_out && !st; o++)
            st = rt_context_tensor(c, &out[o], (enum rt_dtype)n->def->out_dtype[o], 1, &none, err);
    end(&x);
    return st;
}
