/*
 * Ops on sets: DenseToDenseSetOperation, DenseToSparseSetOperation, SparseToSparseSetOperation and
 * SetSize. A tensor is an array of sets: the elements of each set lie along the last dimension. A
 * set may contain a value more than once. Results are sorted.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "kernels/array/sort.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/sparse/coo.h"
#include "runtime/base/checked.h"

/* ---- inputs ---- */

struct item {
    int64_t number;
    const struct rt_str *text; /* NULL for numbers */
    const void *from;          /* address of the element in the input's values */
};

/* One input, which is a dense or sparse tensor. `group` is the index of the current set of a dense
 * tensor, or the row of indices at which the current set of a sparse tensor begins. */
struct sets {
    bool is_dense;
    const struct rt_tensor *values;
    struct kn_coo coo;
    const int64_t *dim; /* the shape */
    int64_t rank, n, group;
    struct item *item; /* the elements of the current set, sorted */
    int64_t n_items;
};

static enum rt_status check_group_shapes(struct rt_run *r, const struct sets *a,
                                         const struct sets *b)
{
    const int64_t n = a->rank - 1;

    if (a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)n * sizeof *a->dim) == 0)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "Mismatched shapes %s vs %s",
                   kn_coo_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, a->dim, n),
                   kn_coo_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, b->dim, b->rank - 1));
}

static enum rt_status read_dense(struct rt_run *r, int k, struct sets *s)
{
    const struct rt_tensor *t = &r->in[k];

    if (t->rank < 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Shape %s has rank %d < 2", KN_TEXT(t),
                       t->rank);
    *s = (struct sets){.is_dense = true, .values = t, .dim = t->dim, .rank = t->rank};
    s->n = rt_tensor_count(t);
    return RT_OK;
}

static enum rt_status read_sparse(struct rt_run *r, int k, struct sets *s)
{
    const struct rt_tensor *at = &r->in[k], *values = &r->in[k + 1], *shape = &r->in[k + 2];
    enum rt_status st;

    if (shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Shape must be a 1D tensor.");
    const struct kn_coo c = kn_coo_of(at, values, shape);
    if ((st = kn_coo_check_shape(r, c.dim, shape->dim[0])))
        return st;
    if (shape->dim[0] < 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid rank %lld.", (long long)shape->dim[0]);
    if (at->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "indices must be a matrix, but got: %s",
                       KN_TEXT(at));
    if (values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "vals must be a vec, but got: %s",
                       KN_TEXT(values));
    if (at->dim[0] != values->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "indices and values rows (indexing dimension) must match. (indices = %lld, "
                       "values = %lld)",
                       (long long)at->dim[0], (long long)values->dim[0]);
    if (at->dim[1] != shape->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Order length must be SparseTensor rank.");
    *s = (struct sets){.values = values, .coo = c, .dim = c.dim, .rank = c.rank, .n = c.n};
    return rt_attr_bool(r->node, "validate_indices") ? kn_coo_check_rows(r, &c) : RT_OK;
}

/* ---- one set ---- */

static int by_value(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (!x->text)
        return x->number < y->number ? -1 : x->number > y->number;
    const size_t n = x->text->n < y->text->n ? x->text->n : y->text->n;
    const int c = n ? memcmp(rt_str_data(x->text), rt_str_data(y->text), n) : 0;
    return c ? c : x->text->n < y->text->n ? -1 : x->text->n > y->text->n;
}

/* Adds elements [from, from + n) of the values to the current set, and sorts it. */
static enum rt_status fill(struct rt_run *r, struct sets *s, int64_t from, int64_t n)
{
    const bool is_text = s->values->dtype == RT_STRING;
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++) {
        s->item[i] = (struct item){.from = kn_at(s->values, from + i)};
        if (is_text)
            s->item[i].text = s->item[i].from;
        else
            s->item[i].number = kn_int_at(s->values, from + i);
        if (rt_run_spend(r, &r->left, is_text ? (int64_t)s->item[i].text->n : 1))
            return r->err->code;
    }
    if (kn_sort(r, s->item, n, sizeof *s->item, by_value))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        if (kept == 0 || by_value(&s->item[kept - 1], &s->item[i]) != 0)
            s->item[kept++] = s->item[i];
        if (rt_run_spend(r, &r->left, is_text ? (int64_t)s->item[i].text->n : 1))
            return r->err->code;
    }
    s->n_items = kept;
    return RT_OK;
}

static const int64_t *row_of(const struct sets *s)
{
    return s->coo.at + s->group * s->rank;
}

/* Reads the set that begins at the current row of a sparse tensor, and advances to the next set. */
static enum rt_status next_sparse(struct rt_run *r, struct sets *s)
{
    const int64_t *first = row_of(s), from = s->group;
    int64_t n = 0;

    for (const int64_t *row = first; from + n < s->n; row += s->rank, n++) {
        if (kn_coo_compare(first, row, s->rank - 1) != 0)
            break;
        for (int64_t d = 0; d < s->rank; d++)
            if (row[d] >= s->dim[d])
                return rt_fail(r->err, RT_INTERNAL,
                               "indices[%lld, %lld] expected < %lld, got %lld.", (long long)n,
                               (long long)d, (long long)s->dim[d], (long long)row[d]);
        if (rt_run_spend(r, &r->left, 2 * s->rank))
            return r->err->code;
    }
    s->group += n;
    return fill(r, s, from, n);
}

static enum rt_status next_dense(struct rt_run *r, struct sets *s)
{
    const int64_t n = s->dim[s->rank - 1];
    return fill(r, s, s->group++ * n, n);
}

/* ---- results ---- */

enum operation { INTERSECTION, UNION, A_MINUS_B, B_MINUS_A };

struct result {
    enum operation operation;
    struct item *item;
    int64_t *group; /* the first rank - 1 indices of each set that is not empty */
    int64_t *end;   /* for each set that is not empty, the index of the item after its last item */
    int64_t n, n_groups, rank, largest;
};

static enum rt_status operation_of(struct rt_run *r, enum operation *out)
{
    static const char *const names[] = {"intersection", "union", "a-b", "b-a"};
    const struct rt_span s = rt_attr_str(r->node, "set_operation");

    for (int i = 0; i < 4; i++)
        if (s.n == strlen(names[i]) && strncasecmp((const char *)s.p, names[i], s.n) == 0) {
            *out = (enum operation)i;
            return RT_OK;
        }
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid set_operation %.*s.", (int)s.n,
                   (const char *)s.p);
}

/* Combines the current set of `a` with that of `b`, and appends the result to `o`. `group` holds
 * the first rank - 1 indices of both sets. */
static enum rt_status combine(struct rt_run *r, struct result *o, const struct sets *a,
                              const struct sets *b, const int64_t *group)
{
    const int64_t before = o->n;
    int64_t i = 0, k = 0;

    while (i < a->n_items || k < b->n_items) {
        const int c = i == a->n_items   ? 1
                      : k == b->n_items ? -1
                                        : by_value(&a->item[i], &b->item[k]);
        const struct item *first = c <= 0 ? &a->item[i] : &b->item[k];
        const bool takes = o->operation == UNION || (o->operation == INTERSECTION && c == 0) ||
                           (o->operation == A_MINUS_B && c < 0) ||
                           (o->operation == B_MINUS_A && c > 0);
        if (takes)
            o->item[o->n++] = *first;
        i += c <= 0;
        k += c >= 0;
        if (rt_run_spend(r, &r->left, first->text ? (int64_t)first->text->n : 1))
            return r->err->code;
    }
    if (o->n == before)
        return RT_OK;
    memcpy(o->group + o->n_groups * (o->rank - 1), group, (size_t)(o->rank - 1) * sizeof *group);
    o->end[o->n_groups++] = o->n;
    o->largest = o->n - before > o->largest ? o->n - before : o->largest;
    return rt_run_spend(r, &r->left, o->rank);
}

static enum rt_status write_result(struct rt_run *r, const struct result *o, const int64_t *dim)
{
    int64_t *at = rt_out(r, 0, 2, (int64_t[]){o->n, o->rank});
    char *values = at ? rt_out(r, 1, 1, &o->n) : NULL;
    int64_t *shape = values ? rt_out(r, 2, 1, &o->rank) : NULL;

    if (!shape)
        return r->err->code;
    memcpy(shape, dim, (size_t)(o->rank - 1) * sizeof *shape);
    shape[o->rank - 1] = o->largest;
    for (int64_t g = 0, i = 0; g < o->n_groups; g++)
        for (const int64_t first = i; i < o->end[g]; i++, at += o->rank) {
            memcpy(at, o->group + g * (o->rank - 1), (size_t)(o->rank - 1) * sizeof *at);
            at[o->rank - 1] = i - first;
            kn_coo_copy(kn_dtype(&r->out[1]), values, i, o->item[i].from, 0);
            if (rt_run_spend(r, &r->left, KN_COO_WORK + o->rank))
                return r->err->code;
        }
    return RT_OK;
}

/* ---- walks ---- */

/* Writes the indices of set `group` of a dense tensor. */
static void dense_row(const struct sets *s, int64_t group, int64_t *row)
{
    for (int64_t d = s->rank - 1; d-- > 0; group /= s->dim[d])
        row[d] = group % s->dim[d];
}

/* Returns the index of the dense set to which a row of sparse indices belongs, or -1 if the row
 * lies outside the dense tensor. */
static int64_t dense_group(const struct sets *dense, const int64_t *row)
{
    int64_t group = 0;

    for (int64_t d = 0; d < dense->rank - 1; d++) {
        if (row[d] < 0 || row[d] >= dense->dim[d])
            return -1;
        group = group * dense->dim[d] + row[d];
    }
    return group;
}

static enum rt_status walk_dense(struct rt_run *r, struct result *o, struct sets *a, struct sets *b)
{
    int64_t groups = a->n || b->n ? 1 : 0, row[RT_MAX_RANK];
    enum rt_status st = RT_OK;

    for (int64_t d = 0; d < a->rank - 1; d++)
        groups *= a->dim[d];
    for (int64_t g = 0; g < groups && !st; g++) {
        dense_row(a, g, row);
        st = next_dense(r, a);
        st = st ? st : next_dense(r, b);
        st = st ? st : combine(r, o, a, b, row);
    }
    return st;
}

/* Combines the sets of the dense tensor with those of the sparse tensor, in the order of the dense
 * sets. If a sparse set is out of order, this set and all later sparse sets are ignored. */
static enum rt_status walk_dense_sparse(struct rt_run *r, struct result *o, struct sets *a,
                                        struct sets *b)
{
    int64_t groups = 1, row[RT_MAX_RANK], g = 0;
    enum rt_status st = RT_OK;

    for (int64_t d = 0; d < a->rank - 1; d++)
        groups *= a->dim[d];
    while (g < groups && !st) {
        const int64_t next = b->group < b->n ? dense_group(a, row_of(b)) : -1;
        if (a->n == 0 && next < g) /* all remaining sets of both operands are empty */
            break;
        g = a->n == 0 ? next : g;
        dense_row(a, g, row);
        a->group = g;
        b->n_items = 0;
        st = next_dense(r, a);
        if (!st && next == g)
            st = next_sparse(r, b);
        st = st ? st : combine(r, o, a, b, row);
        g++;
    }
    return st;
}

static enum rt_status walk_sparse(struct rt_run *r, struct result *o, struct sets *a,
                                  struct sets *b)
{
    enum rt_status st = RT_OK;

    while ((a->group < a->n || b->group < b->n) && !st) {
        const int c = a->group == a->n   ? 1
                      : b->group == b->n ? -1
                                         : kn_coo_compare(row_of(a), row_of(b), a->rank - 1);
        const int64_t *row = row_of(c <= 0 ? a : b);
        a->n_items = b->n_items = 0;
        if (c <= 0)
            st = next_sparse(r, a);
        if (!st && c >= 0)
            st = next_sparse(r, b);
        st = st ? st : combine(r, o, a, b, row);
    }
    return st;
}

static enum rt_status operate(struct rt_run *r, struct sets *a, struct sets *b)
{
    struct result o = {.rank = a->rank};
    enum rt_status st = operation_of(r, &o.operation);
    const int64_t most = a->n + b->n;
    size_t rows;

    st = st ? st : check_group_shapes(r, a, b);
    if (st)
        return st;
    if (!rt_mul_size((size_t)most, (size_t)o.rank * sizeof(int64_t), &rows))
        return rt_fail(r->err, RT_RESOURCE_EXHAUSTED, "%s: too many elements",
                       r->node->schema->name);
    struct item *item = rt_scratch(r, 2 * (size_t)most * sizeof *item + rows + 1);
    if (!item)
        return r->err->code;
    a->item = item;
    b->item = item + a->n;
    o.item = item + most;
    o.end = (int64_t *)(item + 2 * most);
    o.group = o.end + most;
    st = !a->is_dense  ? walk_sparse(r, &o, a, b)
         : b->is_dense ? walk_dense(r, &o, a, b)
                       : walk_dense_sparse(r, &o, a, b);
    return st ? st : write_result(r, &o, a->dim);
}

static enum rt_status operation_run(struct rt_run *r)
{
    const bool dense_a = r->n_in < 6, dense_b = r->n_in < 4;
    enum operation operation;
    struct sets a, b;
    enum rt_status st = operation_of(r, &operation);

    st = st ? st : dense_a ? read_dense(r, 0, &a) : read_sparse(r, 0, &a);
    st = st ? st : dense_b ? read_dense(r, 1, &b) : read_sparse(r, dense_a ? 1 : 3, &b);
    return st ? st : operate(r, &a, &b);
}

/* ---- SetSize ---- */

static enum rt_status size_run(struct rt_run *r)
{
    struct sets s;
    enum rt_status st = read_sparse(r, 0, &s);

    if (!st && s.rank - 1 > RT_MAX_RANK)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "SetSize: more than %d dimensions", RT_MAX_RANK);
    int32_t *size = st ? NULL : rt_out(r, 0, (int)s.rank - 1, s.dim);
    if (!size)
        return r->err->code;
    s.item = rt_scratch(r, ((size_t)s.n + 1) * sizeof *s.item);
    st = s.item ? kn_zero_chunks(r, size, rt_tensor_bytes(&r->out[0])) : r->err->code;
    while (s.group < s.n && !st) {
        const int64_t group = dense_group(&s, row_of(&s));
        st = next_sparse(r, &s);
        if (!st && group < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "SetSize: an index is negative");
        if (!st)
            size[group] = (int32_t)s.n_items;
    }
    return st;
}

#define TYPES (KN_SET(KN_SIGNED) | RT_T(RT_U8) | RT_T(RT_U16) | RT_T(RT_STRING))

#define SETS(symbol, op_, run_)                                                                    \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_)},                                                                     \
        .kernels = KN_CPU(op_, #symbol, TYPES, NULL, run_),                                        \
    };
SETS(dense_to_dense_set_operation, "DenseToDenseSetOperation", operation_run)
SETS(dense_to_sparse_set_operation, "DenseToSparseSetOperation", operation_run)
SETS(set_size, "SetSize", size_run)
SETS(sparse_to_sparse_set_operation, "SparseToSparseSetOperation", operation_run)
