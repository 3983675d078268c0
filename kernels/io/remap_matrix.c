/*
 * LoadAndRemapMatrix, which reads the rows and columns of a matrix from a checkpoint in a new
 * order. New rows and columns that the old matrix lacks are filled with given values.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "kernels/array/array.h"
#include "kernels/array/sort.h"
#include "kernels/entry.h"
#include "kernels/io/text.h"
#include "runtime/base/checked.h"
#include "runtime/base/regular_file.h"
#include "runtime/core/copy.h"
#include "runtime/files/checkpoint.h"
#include "runtime/session/state.h"

/* New row or column `at` is row or column `old` of the old matrix. */
struct move {
    int64_t old, at;
};

struct remap {
    struct rt_run *r;
    struct rt_checkpoint_run run;
    struct rt_checkpoint *checkpoint;
    const char *name;
    const struct rt_checkpoint_entry *entry;
    int64_t n_rows, n_columns;
    bool has_columns; /* whether columns move, too */
    /* the rows and columns that the old matrix has, sorted by `old` */
    struct move *rows, *columns;
    int64_t n_old_rows, n_old_columns;
    float *out;
};

static int by_old(const void *a, const void *b)
{
    const struct move *x = a, *y = b;

    if (x->old != y->old)
        return x->old < y->old ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Refuses an old row or column that moves twice. Names the pair that a search from the first new
 * row or column finds first. */
static enum rt_status check_twice(struct rt_run *r, const struct move *m, int64_t n)
{
    const struct move *first = NULL;
    enum rt_status st = RT_OK;

    for (int64_t i = 1; i < n && !st; i++) {
        const bool is_second = m[i].old == m[i - 1].old && (i < 2 || m[i].old != m[i - 2].old);
        if (is_second && (!first || m[i].at < first[1].at))
            first = &m[i - 1];
        st = rt_run_tick(r, i);
    }
    if (st || !first)
        return st;
    return rt_fail(r->err, RT_UNIMPLEMENTED,
                   "Old ID %lld is mapped to both new ID %lld and %lld, which is not supported.",
                   (long long)first->old, (long long)first->at, (long long)first[1].at);
}

/* Reads a remapping. A negative element marks a row or column that the old matrix lacks. */
static enum rt_status read_moves(struct rt_run *r, const struct rt_tensor *t, struct move *out,
                                 int64_t *n_old)
{
    const int64_t n = rt_tensor_count(t), *old = t->data;
    enum rt_status st = RT_OK;

    *n_old = 0;
    for (int64_t i = 0; i < n && !st; i++) {
        if (old[i] >= 0)
            out[(*n_old)++] = (struct move){old[i], i};
        st = rt_run_tick(r, i);
    }
    if (!st)
        st = kn_sort(r, out, *n_old, sizeof *out, by_old);
    return st ? st : check_twice(r, out, *n_old);
}

static enum rt_status read_remappings(struct remap *x)
{
    struct rt_run *r = x->r;
    const struct rt_tensor *rows = &r->in[2], *columns = &r->in[3];

    if (rows->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The `row_remapping` tensor must be 1-D, got a tensor of shape %s",
                       KN_TEXT(rows));
    if (columns->rank != 1) /* TensorFlow aborts its process in this case */
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The `col_remapping` tensor must be 1-D, got a tensor of shape %s",
                       KN_TEXT(columns));
    if (rows->dim[0] != x->n_rows)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Size of row_remapping is %lld instead of being equal to num_rows=%lld",
                       (long long)rows->dim[0], (long long)x->n_rows);
    x->has_columns = columns->dim[0] > 0;
    x->rows = rt_scratch(r, (size_t)(x->n_rows + columns->dim[0] + 1) * sizeof *x->rows);
    if (!x->rows)
        return r->err->code;
    x->columns = x->rows + x->n_rows;
    enum rt_status st = read_moves(r, rows, x->rows, &x->n_old_rows);
    if (!st && x->has_columns && columns->dim[0] != x->n_columns)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Provided col_remapping, but its size is %lld instead of being equal to "
                     "num_cols=%lld",
                     (long long)columns->dim[0], (long long)x->n_columns);
    return st ? st : read_moves(r, columns, x->columns, &x->n_old_columns);
}

static enum rt_status text_input(struct rt_run *r, int k, const char *input, const char **out)
{
    if (rt_tensor_count(&r->in[k]) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The `%s` tensor must have exactly one element, got tensor of shape %s",
                       input, KN_TEXT(&r->in[k]));
    return kn_io_text(r, rt_strs(&r->in[k]), input, out);
}

static enum rt_status open_matrix(struct remap *x)
{
    struct rt_run *r = x->r;
    const char *prefix;
    char index[4200];
    enum rt_status st = text_input(r, 0, "ckpt_path", &prefix);

    if (!st)
        st = text_input(r, 1, "old_tensor_name", &x->name);
    /* rt_checkpoint_open reports a missing index as RestoreV2 does. */
    if (!st && snprintf(index, sizeof index, "%s.index", prefix) < (int)sizeof index &&
        access(index, F_OK) != 0 && rt_errno_is_absence(errno))
        st = rt_fail_errno(r->err, index, errno);
    if (!st)
        st = rt_checkpoint_open(&x->checkpoint, prefix, &x->run, r->err);
    if (st)
        return st;
    const struct rt_checkpoint_entry *e = rt_checkpoint_find(x->checkpoint, x->name);
    if (!e)
        return rt_fail(r->err, RT_NOT_FOUND, "Key %s not found in checkpoint", x->name);
    if (e->dtype != RT_F32)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tensor %s has invalid type %s instead of expected type float", x->name,
                       rt_dtype_name(e->dtype));
    if (e->shape.rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tensor %s has shape %s of invalid rank %d instead of expected shape of "
                       "rank 2.",
                       x->name, KN_TEXT(&e->shape), e->shape.rank);
    if (!x->has_columns && e->shape.dim[1] != x->n_columns)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tensor %s has shape %s, where the size of its 2nd dimension is %lld "
                       "instead of being equal to num_cols=%lld",
                       x->name, KN_TEXT(&e->shape), (long long)e->shape.dim[1],
                       (long long)x->n_columns);
    if (x->n_old_columns > 0 && x->columns[x->n_old_columns - 1].old >= e->shape.dim[1])
        return rt_fail(r->err, RT_INVALID_ARGUMENT, /* TensorFlow leaves it uninitialised */
                       "%s: column %lld of a tensor of shape %s", r->node->schema->name,
                       (long long)x->columns[x->n_old_columns - 1].old, KN_TEXT(&e->shape));
    x->entry = e;
    return RT_OK;
}

static enum rt_status copy_row(struct remap *x, const float *old, int64_t at)
{
    float *new = x->out + at * x->n_columns;

    if (!x->has_columns)
        memcpy(new, old, (size_t)x->n_columns * sizeof *new);
    for (int64_t i = 0; i < x->n_old_columns; i++)
        new[x->columns[i].at] = old[x->columns[i].old];
    return rt_run_spend(x->r, &x->r->left, x->n_columns);
}

/* Reads the old rows from `first` to first + n - 1, and copies those that move. x->rows[*i] is the
 * first of them. */
static enum rt_status copy_chunk(struct remap *x, int64_t first, int64_t n, int64_t *i)
{
    const int64_t *dim = x->entry->shape.dim;
    struct rt_tensor t = {0};
    char slice[160];

    if (n > dim[0] - first)
        return rt_fail(x->r->err, RT_INTERNAL,
                       "Extent in dimension 0 out of bounds: shape = %s, slice = %lld,%lld:-",
                       KN_TEXT(&x->entry->shape), (long long)first, (long long)n);
    snprintf(slice, sizeof slice, "%lld %lld %lld,%lld:-", (long long)dim[0], (long long)dim[1],
             (long long)first, (long long)n);
    enum rt_status st = rt_checkpoint_tensor(x->checkpoint, x->name, rt_span_str(slice), RT_F32,
                                             &x->run, &t, x->r->err);
    if (!st)
        st = rt_run_load(x->r, &t);
    for (; !st && *i < x->n_old_rows && x->rows[*i].old - first < n; ++*i)
        st =
            copy_row(x, (const float *)t.data + (x->rows[*i].old - first) * dim[1], x->rows[*i].at);
    rt_tensor_clear(&t);
    return st;
}

/* Copies the rows in chunks of max_rows_in_memory rows, or all at once. Chunks without a row that
 * moves are not read. */
static enum rt_status copy_rows(struct remap *x)
{
    const int64_t most = rt_attr_int(x->r->node, "max_rows_in_memory");
    enum rt_status st = RT_OK;

    if (x->n_old_rows == 0)
        return RT_OK;
    const int64_t least = x->rows[0].old, last = x->rows[x->n_old_rows - 1].old;
    const int64_t limit = x->entry->shape.dim[0];
    for (int64_t i = 0; i < x->n_old_rows && !st;) {
        int64_t first = least;
        if (most > 0) {
            /* The first chunk that ends outside the matrix is read even if none of its rows
             * moves. */
            const int64_t old = x->rows[i].old < limit || least >= limit ? x->rows[i].old : limit;
            first += (old - least) / most * most;
        }
        int64_t n = rt_add_saturated(last - first, 1);
        if (most > 0 && n > most)
            n = most;
        st = copy_chunk(x, first, n, &i);
    }
    return st;
}

/* Fills the elements of rows and columns that the old matrix lacks, in the order of the output. */
static enum rt_status fill(struct remap *x)
{
    struct rt_run *r = x->r;
    const int64_t *rows = r->in[2].data, *columns = r->in[3].data;
    const int64_t n = rt_tensor_count(&r->in[4]);
    const float *value = r->in[4].data;
    int64_t used = 0;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < x->n_rows && !st; i++) {
        if (rows[i] >= 0 && x->n_old_columns == r->in[3].dim[0])
            continue;
        for (int64_t k = 0; k < x->n_columns; k++) {
            if (rows[i] >= 0 && columns[k] >= 0)
                continue;
            if (used == n)
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "initializing_values contained %lld elements, but more missing "
                               "values remain.",
                               (long long)n);
            x->out[i * x->n_columns + k] = value[used++];
        }
        st = rt_run_spend(r, &r->left, x->n_columns);
    }
    if (!st && used < n)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "initializing_values contained %lld elements, but only %lld elements were "
                     "used to fill in missing values.",
                     (long long)n, (long long)used);
    return st;
}

static enum rt_status remap_run(struct rt_run *r)
{
    struct remap x = {
        .r = r,
        .run = {rt_run_check_of, r, rt_run_pool(r)},
        .n_rows = rt_attr_int(r->node, "num_rows"),
        .n_columns = rt_attr_int(r->node, "num_cols"),
    };
    enum rt_status st = read_remappings(&x);

    if (!st)
        st = open_matrix(&x);
    if (!st) {
        x.out = rt_out(r, 0, 2, (const int64_t[2]){x.n_rows, x.n_columns});
        st = x.out ? copy_rows(&x) : r->err->code;
    }
    if (!st)
        st = fill(&x);
    rt_checkpoint_unref(x.checkpoint);
    return st;
}

const struct kn_entry kn_load_and_remap_matrix = {
    .op = {.name = "LoadAndRemapMatrix", .effect = RT_IO},
    .kernels = KN_CPU("LoadAndRemapMatrix", "load_and_remap_matrix", 0, NULL, remap_run),
};
