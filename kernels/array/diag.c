/*
 * Ops on matrix diagonals: all versions of MatrixDiag, MatrixDiagPart and MatrixSetDiag, and
 * MatrixBandPart.
 *
 * In the packed form, every diagonal from `lower` to `upper` is a row, and the uppermost diagonal
 * comes first. Diagonal 0 is the main diagonal, and positive diagonals lie above it. Shorter
 * diagonals are padded at the end opposite to the one that `align` selects.
 */
#include "kernels/array/array.h"
#include "kernels/entry.h"

struct diags {
    int64_t lower, upper, rows, cols, longest;
    bool super_left, sub_left;
};

static int64_t diag_len(const struct diags *d, int64_t k)
{
    const int64_t r = d->rows + (k < 0 ? k : 0), c = d->cols - (k > 0 ? k : 0);

    return r < c ? r : c;
}

/* Returns the offset at which the elements of diagonal k begin in its packed row. */
static int64_t diag_offset(const struct diags *d, int64_t k)
{
    return (k >= 0 && d->super_left) || (k <= 0 && d->sub_left) ? 0 : d->longest - diag_len(d, k);
}

static void read_align(const struct rt_node *n, struct diags *d)
{
    d->super_left = d->sub_left = true;
    if (!rt_attr(n, "align"))
        return;
    const struct rt_span a = rt_attr_str(n, "align");
    d->super_left = a.n > 0 && a.p[0] == 'L';
    d->sub_left = rt_span_is(a, "LEFT_LEFT") || rt_span_is(a, "RIGHT_LEFT");
}

/* Reads the diagonal indices. k is NULL for ops that support the main diagonal only. */
static enum rt_status read_k(const struct rt_tensor *k, struct diags *d, struct rt_error *err)
{
    d->lower = d->upper = 0;
    if (!k)
        return RT_OK;
    const int64_t n = rt_tensor_count(k);
    if (k->rank > 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "diag_index must be a scalar or vector, received shape: %s", KN_TEXT(k));
    if (n < 1 || n > 2)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "diag_index must have only one or two elements, received %lld elements.",
                       (long long)n);
    d->lower = kn_int_at(k, 0);
    d->upper = kn_int_at(k, n - 1);
    return RT_OK;
}

static enum rt_status check_order(const struct diags *d, struct rt_error *err)
{
    if (d->lower <= d->upper)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "lower_diag_index must not be larger than upper_diag_index: %lld > %lld",
                   (long long)d->lower, (long long)d->upper);
}

static void set_longest(struct diags *d)
{
    const int64_t r = d->rows + (d->upper < 0 ? d->upper : 0);
    const int64_t c = d->cols - (d->lower > 0 ? d->lower : 0);

    d->longest = r < c ? r : c;
}

/* `dot` is "." for MatrixDiagPart and "" for the other ops, because only TensorFlow's
 * MatrixDiagPart ends its message about the lower index with a full stop. */
static enum rt_status check_bounds(const struct diags *d, const char *dot, struct rt_error *err)
{
    const int64_t k[2] = {d->lower, d->upper};

    for (int i = 0; i < 2; i++)
        if (!(k[i] > -d->rows && k[i] < d->cols) && k[i] != 0)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "%s_diag_index is out of bound: %lld%s It must be between %lld and "
                           "%lld",
                           i ? "upper" : "lower", (long long)k[i], i ? "" : dot,
                           (long long)-d->rows, (long long)d->cols);
    return RT_OK;
}

/* Checks an input of MatrixDiagV2 that must be a scalar. Like TensorFlow, refuses a vector of one
 * element. */
static enum rt_status check_scalar(const char *name, int rank, struct rt_error *err)
{
    return rank == 0 ? RT_OK : rt_fail(err, RT_INVALID_ARGUMENT, "%s must be a scalar", name);
}

/* ---- MatrixDiag(diagonal[, k, num_rows, num_cols, padding_value]) ---- */

static enum rt_status diag_of(const struct rt_node *n, const struct rt_shape *in,
                              const struct rt_tensor *k, const struct rt_tensor *rows,
                              const struct rt_tensor *cols, struct diags *d, struct rt_shape *out,
                              struct rt_error *err)
{
    read_align(n, d);
    enum rt_status st = read_k(k, d, err);
    if (st)
        return st;
    if (in->rank < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "diagonal must be at least 1-dim, received shape: %s", KN_TEXT(in));
    if ((st = check_order(d, err)))
        return st;
    if (d->upper > INT32_MAX || d->lower < -(int64_t)INT32_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: k is out of bounds", n->schema->name);
    const int64_t n_diags = d->upper - d->lower + 1;
    if (n_diags > 1 && (in->rank < 2 || in->dim[in->rank - 2] != n_diags))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "The number of diagonals provided in the input does not match the "
                       "lower_diag_index and upper_diag_index range.");
    const int64_t longest = in->dim[in->rank - 1];
    const int64_t min_rows = longest - (d->upper < 0 ? d->upper : 0);
    const int64_t min_cols = longest + (d->lower > 0 ? d->lower : 0);
    if (rows && ((st = check_scalar("num_rows", rows->rank, err)) ||
                 (st = check_scalar("num_cols", cols->rank, err))))
        return st;
    d->rows = rows ? kn_int_at(rows, 0) : -1;
    d->cols = cols ? kn_int_at(cols, 0) : -1;
    if (d->rows != -1 && d->rows < min_rows)
        return rt_fail(err, RT_INVALID_ARGUMENT, "The number of rows is too small.");
    if (d->cols != -1 && d->cols < min_cols)
        return rt_fail(err, RT_INVALID_ARGUMENT, "The number of columns is too small.");
    if (d->rows == -1 && d->cols == -1)
        d->rows = d->cols = min_rows > min_cols ? min_rows : min_cols;
    else if (d->rows == -1)
        d->rows = min_rows;
    else if (d->cols == -1)
        d->cols = min_cols;
    if (d->rows != min_rows && d->cols != min_cols)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "The number of rows or columns is not consistent with the specified "
                       "d_lower, d_upper, and diagonal.");
    d->longest = longest;
    const int outer = in->rank - (n_diags > 1 ? 2 : 1);
    if (outer + 2 > RT_MAX_RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       n->schema->name, RT_MAX_RANK);
    *out = *in;
    out->rank = outer + 2;
    out->dim[outer] = d->rows;
    out->dim[outer + 1] = d->cols;
    if (kn_shape_total(out) < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Shape %s has too many elements", KN_TEXT(out));
    return RT_OK;
}

static enum rt_status diag_infer(struct rt_infer *x)
{
    const bool plain = x->n_in == 1;
    struct diags d;
    struct rt_shape out;

    if (!kn_known(x, plain ? 0 : 14))
        return RT_OK;
    enum rt_status st = plain ? RT_OK : check_scalar("padding_value", x->in[4].shape.rank, x->err);
    if (st)
        return st;
    st = diag_of(x->node, &x->in[0].shape, plain ? NULL : x->in[1].value,
                 plain ? NULL : x->in[2].value, plain ? NULL : x->in[3].value, &d, &out, x->err);
    if (!st)
        x->out[0].shape = out;
    return st;
}

static void shape_of(const struct rt_tensor *t, struct rt_shape *s)
{
    s->rank = t->rank;
    memcpy(s->dim, t->dim, sizeof s->dim);
}

/* Copies diagonals between the packed form and matrices. The elements must not own memory. */
static enum rt_status move_diags(struct rt_run *r, const struct diags *d, char *packed, char *full,
                                 int64_t n_matrices, size_t size, bool to_full)
{
    enum { COST = 4 }; /* cost per element, in units of rt_run_spend */
    const int64_t n_diags = d->upper - d->lower + 1;
    int64_t left = RT_WORK;

    for (int64_t m = 0; m < n_matrices; m++) {
        for (int64_t k = d->upper; k >= d->lower; k--) {
            const int64_t len = diag_len(d, k), row = k < 0 ? -k : 0, col = k > 0 ? k : 0;
            char *p =
                packed +
                (size_t)((m * n_diags + d->upper - k) * d->longest + diag_offset(d, k)) * size;
            char *f = full + (size_t)((m * d->rows + row) * d->cols + col) * size;
            for (int64_t i = 0; i < len; i++, p += size, f += (size_t)(d->cols + 1) * size)
                memcpy(to_full ? f : p, to_full ? p : f, size);
            if (rt_run_spend(r, &left, COST * (len + 4)))
                return r->err->code;
        }
    }
    return RT_OK;
}

static enum rt_status pad(struct rt_run *r, int in)
{
    struct rt_tensor *o = &r->out[0];

    if (in < r->n_in)
        return kn_repeat(kn_dtype(o), o->data, r->in[in].data, rt_tensor_count(o), r);
    return kn_zero_chunks(r, o->data, rt_tensor_bytes(o));
}

static enum rt_status diag_run(struct rt_run *r)
{
    const bool plain = r->n_in == 1;
    struct rt_shape in, out;
    struct diags d;

    shape_of(&r->in[0], &in);
    enum rt_status st = plain ? RT_OK : check_scalar("padding_value", r->in[4].rank, r->err);
    if (st)
        return st;
    st = diag_of(r->node, &in, plain ? NULL : &r->in[1], plain ? NULL : &r->in[2],
                 plain ? NULL : &r->in[3], &d, &out, r->err);
    if (st)
        return st;
    if (!kn_out(r, 0, out.rank, out.dim))
        return r->err->code;
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    st = pad(r, 4);
    if (!st && rt_tensor_count(&r->in[0]))
        st = move_diags(r, &d, r->in[0].data, r->out[0].data,
                        rt_tensor_count(&r->out[0]) / (d.rows * d.cols),
                        rt_dtype_size(kn_dtype(&r->out[0])), true);
    return st;
}

/* Marks the op as row-wise if the rows of all inputs that depend on the batch lie along the same
 * axis, and this axis is not one of the last `inner` axes of the output. */
static void outer_rows(struct rt_rows *r, int inner)
{
    int axis = -1;

    if (kn_rows_independent(r) || !kn_shape_known(&r->out[0].shape))
        return;
    for (int k = 0; k < r->n_in; k++) {
        if (r->in_dep[k].kind == RT_DEP_NONE)
            continue;
        if (r->in_dep[k].kind != RT_DEP_ROWS || (axis >= 0 && axis != r->in_dep[k].axis))
            return;
        axis = r->in_dep[k].axis;
    }
    if (axis >= 0 && axis < r->out[0].shape.rank - inner)
        kn_rows_set(r, RT_DEP_ROWS, axis);
}

static void matrix_rows(struct rt_rows *r)
{
    outer_rows(r, 2);
}

static void part_rows(struct rt_rows *r)
{
    if (r->in_dep[0].kind == RT_DEP_ROWS && r->in_dep[0].axis >= r->in[0].shape.rank - 2)
        return;
    outer_rows(r, 0);
}

/* move_diags copies bytes, so types whose elements own memory are excluded. */
#define PLAIN_TYPES (~(RT_T(RT_STRING) | RT_T(RT_RESOURCE) | RT_T(RT_VARIANT)))
#define DIAG(symbol, op_, shape_in_, infer_, rows_, run_)                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .shape_in = (shape_in_), .infer = (infer_), .rows = (rows_)},        \
        .kernels = KN_CPU(op_, #symbol, PLAIN_TYPES, NULL, run_),                                  \
    };
DIAG(matrix_diag, "MatrixDiag", 0, diag_infer, matrix_rows, diag_run)
DIAG(batch_matrix_diag, "BatchMatrixDiag", 0, diag_infer, matrix_rows, diag_run)
DIAG(matrix_diag_v2, "MatrixDiagV2", 14, diag_infer, matrix_rows, diag_run)
DIAG(matrix_diag_v3, "MatrixDiagV3", 14, diag_infer, matrix_rows, diag_run)

/* ---- MatrixDiagPart(input[, k, padding_value]) ---- */

static enum rt_status part_of(const struct rt_node *n, const struct rt_shape *in,
                              const struct rt_tensor *k, struct diags *d, struct rt_shape *out,
                              struct rt_error *err)
{
    read_align(n, d);
    enum rt_status st = read_k(k, d, err);
    if (st)
        return st;
    if (in->rank < 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input must be at least 2-dim, received shape: %s",
                       KN_TEXT(in));
    d->rows = in->dim[in->rank - 2];
    d->cols = in->dim[in->rank - 1];
    if ((st = check_bounds(d, ".", err)) || (st = check_order(d, err)))
        return st;
    set_longest(d);
    *out = *in;
    out->rank -= 2;
    if (d->lower != d->upper)
        out->dim[out->rank++] = d->upper - d->lower + 1;
    out->dim[out->rank++] = d->longest;
    return RT_OK;
}

/* Unlike MatrixDiag, MatrixDiagPart accepts a one-element padding value of any shape. */
static enum rt_status check_padding(int64_t n, struct rt_error *err)
{
    return n == 1 ? RT_OK : rt_fail(err, RT_INVALID_ARGUMENT, "Padding must be scalar.");
}

static enum rt_status part_infer(struct rt_infer *x)
{
    struct diags d;
    struct rt_shape out;

    if (!kn_known(x, x->n_in == 1 ? 0 : 2))
        return RT_OK;
    if (x->n_in > 2 && check_padding(kn_shape_total(&x->in[2].shape), x->err))
        return x->err->code;
    enum rt_status st =
        part_of(x->node, &x->in[0].shape, x->n_in == 1 ? NULL : x->in[1].value, &d, &out, x->err);
    if (!st)
        x->out[0].shape = out;
    return st;
}

static enum rt_status part_run(struct rt_run *r)
{
    struct rt_shape in, out;
    struct diags d;

    shape_of(&r->in[0], &in);
    if (r->n_in > 2 && check_padding(rt_tensor_count(&r->in[2]), r->err))
        return r->err->code;
    enum rt_status st = part_of(r->node, &in, r->n_in == 1 ? NULL : &r->in[1], &d, &out, r->err);
    if (st)
        return st;
    if (!kn_out(r, 0, out.rank, out.dim))
        return r->err->code;
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    st = pad(r, 2);
    if (!st && rt_tensor_count(&r->in[0]))
        st = move_diags(r, &d, r->out[0].data, r->in[0].data,
                        rt_tensor_count(&r->in[0]) / (d.rows * d.cols),
                        rt_dtype_size(kn_dtype(&r->out[0])), false);
    return st;
}

DIAG(matrix_diag_part, "MatrixDiagPart", 0, part_infer, part_rows, part_run)
DIAG(batch_matrix_diag_part, "BatchMatrixDiagPart", 0, part_infer, part_rows, part_run)
DIAG(matrix_diag_part_v2, "MatrixDiagPartV2", 2, part_infer, part_rows, part_run)
DIAG(matrix_diag_part_v3, "MatrixDiagPartV3", 2, part_infer, part_rows, part_run)

/* ---- MatrixSetDiag(input, diagonal[, k]) ---- */

static enum rt_status set_of(const struct rt_node *n, const struct rt_shape *in,
                             const struct rt_shape *diag, const struct rt_tensor *k,
                             struct diags *d, struct rt_error *err)
{
    struct rt_shape want;

    read_align(n, d);
    enum rt_status st = read_k(k, d, err);
    if (st)
        return st;
    if (in->rank < 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input must be at least 2-dim, received shape: %s",
                       KN_TEXT(in));
    if (diag->rank < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "diagonal must be at least 1-dim, received shape: %s", KN_TEXT(diag));
    d->rows = in->dim[in->rank - 2];
    d->cols = in->dim[in->rank - 1];
    if ((st = check_bounds(d, "", err)) || (st = check_order(d, err)))
        return st;
    if (d->lower != d->upper &&
        (diag->rank < 2 || diag->dim[diag->rank - 2] != d->upper - d->lower + 1))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "The number of diagonals provided in `diag` is not consistent with "
                       "`lower_diag_index` and `upper_diag_index`");
    set_longest(d);
    want = *in;
    want.rank -= 2;
    if (d->lower != d->upper)
        want.dim[want.rank++] = d->upper - d->lower + 1;
    want.dim[want.rank++] = d->longest;
    if (diag->rank != want.rank ||
        memcmp(diag->dim, want.dim, (size_t)want.rank * sizeof want.dim[0]) != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Either first dimensions of diagonal don't match input.shape[:-2], or "
                       "diagonal.shape[:-1] is not equal to the longests diagonal in range "
                       "[lower_diag_index:upper_diag_index].\nInput shape: %s\nDiagonal shape: "
                       "%s\nExpected diagonal shape: %s",
                       KN_TEXT(in), KN_TEXT(diag), KN_TEXT(&want));
    return RT_OK;
}

static enum rt_status set_infer(struct rt_infer *x)
{
    struct diags d;

    x->out[0].shape = x->in[0].shape;
    if (!kn_known(x, x->n_in > 2 ? 4 : 0))
        return RT_OK;
    x->alias[0] = 0;
    return set_of(x->node, &x->in[0].shape, &x->in[1].shape, x->n_in > 2 ? x->in[2].value : NULL,
                  &d, x->err);
}

static enum rt_status set_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    struct rt_shape in, diag;
    struct diags d;

    shape_of(t, &in);
    shape_of(&r->in[1], &diag);
    enum rt_status st = set_of(r->node, &in, &diag, r->n_in > 2 ? &r->in[2] : NULL, &d, r->err);
    if (st)
        return st;
    if (!kn_out(r, 0, t->rank, t->dim))
        return r->err->code;
    struct rt_tensor *o = &r->out[0];
    if (rt_tensor_count(o) == 0)
        return RT_OK;
    if (o->data != t->data &&
        (st = kn_copy_run(r, kn_dtype(t), o->data, t->data, rt_tensor_count(t))))
        return st;
    return move_diags(r, &d, r->in[1].data, o->data, rt_tensor_count(o) / (d.rows * d.cols),
                      rt_dtype_size(kn_dtype(o)), true);
}

DIAG(matrix_set_diag, "MatrixSetDiag", 0, set_infer, matrix_rows, set_run)
DIAG(batch_matrix_set_diag, "BatchMatrixSetDiag", 0, set_infer, matrix_rows, set_run)
DIAG(matrix_set_diag_v2, "MatrixSetDiagV2", 4, set_infer, matrix_rows, set_run)
DIAG(matrix_set_diag_v3, "MatrixSetDiagV3", 4, set_infer, matrix_rows, set_run)

/* ---- MatrixBandPart(input, num_lower, num_upper) ---- */

static enum rt_status band_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;

    x->out[0].shape = *in;
    if (!kn_known(x, 6))
        return RT_OK;
    if (in->rank < 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "input must be at least 2-dim, received shape: %s", KN_TEXT(in));
    for (int k = 1; k < 3; k++)
        if (x->in[k].shape.rank != 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "%s must be scalar, got shape %s",
                           k == 1 ? "num_lower" : "num_upper", KN_TEXT(&x->in[k].shape));
    const int64_t lower = kn_int_at(x->in[1].value, 0), upper = kn_int_at(x->in[2].value, 0);
    const int64_t rows = in->dim[in->rank - 2], cols = in->dim[in->rank - 1];
    if (lower > rows)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "num_lower must be negative or less or equal to number of rows (%lld) got: "
                       "%lld",
                       (long long)rows, (long long)lower);
    if (upper > cols)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "num_upper must be negative or less or equal to number of columns (%lld) "
                       "got: %lld",
                       (long long)cols, (long long)upper);
    x->alias[0] = 0;
    return RT_OK;
}

static enum rt_status band_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const int64_t lower = kn_int_at(&r->in[1], 0), upper = kn_int_at(&r->in[2], 0);
    struct rt_info check;
    enum rt_status st = kn_infer_now(r, band_infer, &check);

    if (st)
        return st;
    if (!kn_out(r, 0, t->rank, t->dim))
        return r->err->code;
    struct rt_tensor *o = &r->out[0];
    const size_t size = rt_dtype_size(kn_dtype(o));
    const int64_t rows = t->dim[t->rank - 2], cols = t->dim[t->rank - 1];
    const int64_t n = rt_tensor_count(o);
    const bool is_all = (lower < 0 || lower == rows) && (upper < 0 || upper == cols);
    if (n == 0 || (is_all && kn_hand_on(r, 0)))
        return RT_OK;
    if (o->data != t->data && kn_copy_chunks(r, kn_dtype(t), o->data, t->data, n))
        return r->err->code;
    for (int64_t i = 0; i < n / cols; i++) {
        const int64_t row = i % rows;
        int64_t from = lower < 0 || row - lower < 0 ? 0 : row - lower;
        int64_t to = upper < 0 || row + upper + 1 > cols ? cols : row + upper + 1;
        from = from < cols ? from : cols;
        to = to > from ? to : from;
        if (kn_zero_chunks(r, kn_at_mut(o, i * cols), (size_t)from * size) ||
            kn_zero_chunks(r, kn_at_mut(o, i * cols + to), (size_t)(cols - to) * size) ||
            rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

DIAG(matrix_band_part, "MatrixBandPart", 6, band_infer, matrix_rows, band_run)
DIAG(batch_matrix_band_part, "BatchMatrixBandPart", 6, band_infer, matrix_rows, band_run)
