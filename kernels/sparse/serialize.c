/* SerializeSparse, SerializeManySparse, DeserializeSparse and DeserializeManySparse convert a
 * sparse tensor to three strings, or variants, and back (serialize.h). */
#include "kernels/sparse/serialize.h"

#include "kernels/entry.h"
#include "kernels/list/list.h"
#include "kernels/parsing/tensor_bytes.h"
#include "kernels/string/each.h"
#include "runtime/core/copy.h"
#include "runtime/core/tensor_proto.h"

/* ---- tensors in variants ---- */

struct boxed {
    struct rt_object o;
    struct rt_tensor t;
};

static void boxed_free(struct rt_object *o)
{
    struct boxed *b = (struct boxed *)o;

    rt_tensor_clear(&b->t);
    rt_pool_free(b);
}

static const struct rt_object_type boxed_type = {"tensor", boxed_free};

static struct rt_object *box(struct rt_run *r, const struct rt_tensor *t)
{
    struct boxed *b = rt_run_alloc(r, sizeof *b);

    if (!b)
        return NULL;
    if (kn_keep(r, &b->t, t)) {
        rt_pool_free(b);
        return NULL;
    }
    rt_object_init(&b->o, &boxed_type);
    return &b->o;
}

/* Sets element i of output 0, which holds strings or variants. */
static enum rt_status put_part(struct rt_run *r, int64_t i, const struct rt_tensor *t)
{
    if (r->out[0].dtype == RT_STRING)
        return kn_tensor_to_bytes(r, t, KN_STRING_CONTENT, kn_at_mut(&r->out[0], i));
    struct rt_object *o = box(r, t);
    if (!o)
        return r->err->code;
    *(struct rt_object **)kn_at_mut(&r->out[0], i) = o;
    return RT_OK;
}

/* ---- serialising ---- */

enum rt_status kn_sparse_check_ranks(struct rt_run *r, const struct kn_coo *s)
{
    if (s->indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input indices should be a matrix but received shape %s",
                       KN_TEXT(s->indices));
    if (s->values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input values should be a vector but received shape %s", KN_TEXT(s->values));
    if (s->shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input shape should be a vector but received shape %s", KN_TEXT(s->shape));
    return RT_OK;
}

static enum rt_status serialize_infer(struct rt_infer *x)
{
    kn_set_vector(&x->out[0], KN_SPARSE_PARTS);
    return RT_OK;
}

static enum rt_status serialize_run(struct rt_run *r)
{
    const struct kn_coo s = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    const int64_t n = KN_SPARSE_PARTS;
    enum rt_status st = kn_sparse_check_ranks(r, &s);

    if (!st && !kn_out(r, 0, 1, &n))
        st = r->err->code;
    for (int k = 0; k < KN_SPARSE_PARTS && !st; k++)
        st = put_part(r, k, &r->in[k]);
    return st;
}

enum rt_status kn_sparse_check_rows(struct rt_run *r, const struct kn_coo *s)
{
    const int64_t rank = s->shape->dim[0];

    if (s->indices->dim[0] != s->values->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "indices and values rows (indexing dimension) must match. (indices = %lld, "
                       "values = %lld)",
                       (long long)s->indices->dim[0], (long long)s->values->dim[0]);
    if (s->rank != rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Order length must be SparseTensor rank.");
    return kn_coo_check_rows(r, s);
}

int64_t kn_sparse_row_length(const struct kn_coo *s, int64_t at, int64_t row)
{
    int64_t n = 0;

    while (at + n < s->n && s->at[(at + n) * s->rank] == row)
        n++;
    return n;
}

enum rt_status kn_sparse_row(struct rt_run *r, const struct kn_coo *s, int64_t at, int64_t n,
                             struct rt_tensor part[KN_SPARSE_PARTS])
{
    const int64_t rank = s->rank - 1;
    int64_t left = RT_WORK;
    enum rt_status st = rt_tensor_new(&part[KN_INDICES_PART], rt_run_pool(r), RT_I64, 2,
                                      (int64_t[]){n, rank}, r->err);

    if (!st)
        st = rt_tensor_new(&part[KN_SHAPE_PART], rt_run_pool(r), RT_I64, 1, &rank, r->err);
    if (st)
        return st;
    part[KN_VALUES_PART] = kn_rows_of(s->values, at, n);
    part[KN_VALUES_PART].buf = NULL;
    memcpy(part[KN_SHAPE_PART].data, s->dim + 1, (size_t)rank * sizeof *s->dim);
    int64_t *to = part[KN_INDICES_PART].data;
    for (int64_t i = 0; i < n && !st; i++) {
        memcpy(to + i * rank, s->at + (at + i) * s->rank + 1, (size_t)rank * sizeof *to);
        st = rt_run_spend(r, &left, s->rank);
    }
    return st;
}

static enum rt_status serialize_many_run(struct rt_run *r)
{
    enum { ROW_WORK = 4096 }; /* a row takes 2 to 8 us for its allocations and messages */
    const struct kn_coo s = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    enum rt_status st = kn_sparse_check_ranks(r, &s);

    if (st)
        return st;
    const int64_t rank = s.shape->dim[0];
    if (rank < 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Rank of input SparseTensor should be > 1, but saw rank: %lld",
                       (long long)rank);
    st = kn_coo_check_shape(r, s.dim, rank);
    if (!st)
        st = kn_sparse_check_rows(r, &s);
    if (!st && !rt_out(r, 0, 2, (int64_t[]){s.dim[0], KN_SPARSE_PARTS}))
        st = r->err->code;
    for (int64_t row = 0, at = 0; !st && row < s.dim[0]; row++) {
        const int64_t n = kn_sparse_row_length(&s, at, row);
        struct rt_tensor part[KN_SPARSE_PARTS] = {0};
        st = kn_sparse_row(r, &s, at, n, part);
        for (int k = 0; k < KN_SPARSE_PARTS && !st; k++)
            st = put_part(r, row * KN_SPARSE_PARTS + k, &part[k]);
        for (int k = 0; k < KN_SPARSE_PARTS; k++)
            rt_tensor_clear(&part[k]);
        if (!st)
            st = rt_run_spend(r, &r->left, ROW_WORK + KN_COO_WORK * n);
        at += n;
    }
    return st;
}

/* every type but those of objects, whose elements are pointers */
#define DATA (~(RT_T(RT_RESOURCE) | RT_T(RT_VARIANT)))

const struct kn_entry kn_serialize_sparse = {
    .op = {.name = "SerializeSparse", .infer = serialize_infer},
    .kernels = KN_CPU("SerializeSparse", "serialize_sparse", DATA, NULL, serialize_run),
};
const struct kn_entry kn_serialize_many_sparse = {
    .op = {.name = "SerializeManySparse"},
    .kernels =
        KN_CPU("SerializeManySparse", "serialize_many_sparse", DATA, NULL, serialize_many_run),
};

/* ---- joining ---- */

/* Writes the shape of the joined sparse tensor: the outer dimensions, and the largest size of each
 * dimension of the sparse tensors. */
static enum rt_status join_shape(struct rt_run *r, const struct rt_tensor *part, int64_t n,
                                 const int64_t *dim, int n_dims)
{
    const int64_t rank = part[KN_SHAPE_PART].dim[0], all = n_dims + rank;
    int64_t left = RT_WORK;
    int64_t *o = rt_out(r, KN_SHAPE_PART, 1, &all);
    enum rt_status st = o ? RT_OK : r->err->code;

    for (int64_t d = 0; d < all && !st; d++)
        o[d] = d < n_dims ? dim[d] : 0;
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t *size = part[i * KN_SPARSE_PARTS + KN_SHAPE_PART].data;
        st = kn_coo_check_shape(r, size, rank);
        for (int64_t d = 0; d < rank && !st; d++)
            if (size[d] > o[n_dims + d])
                o[n_dims + d] = size[d];
        if (!st)
            st = rt_run_spend(r, &left, rank);
    }
    return st ? st : kn_coo_check_shape(r, o, all);
}

/* Writes the indices of one sparse tensor, each preceded by the outer position of the tensor. */
static enum rt_status join_indices(struct rt_run *r, const struct rt_tensor *indices, int64_t *to,
                                   int64_t position, const int64_t *dim, int n_dims)
{
    const int64_t rank = indices->dim[1], *from = indices->data;
    int64_t outer[RT_MAX_RANK], left = RT_WORK;
    enum rt_status st = RT_OK;

    for (int d = n_dims - 1; d >= 0; d--) {
        outer[d] = position % dim[d];
        position /= dim[d];
    }
    for (int64_t i = 0; i < indices->dim[0] && !st; i++) {
        memcpy(to, outer, (size_t)n_dims * sizeof *to);
        if (rank)
            memcpy(to + n_dims, from + i * rank, (size_t)rank * sizeof *to);
        to += n_dims + rank;
        st = rt_run_spend(r, &left, n_dims + rank);
    }
    return st;
}

enum rt_status kn_sparse_join(struct rt_run *r, const struct rt_tensor *part, int64_t n,
                              const int64_t *dim, int n_dims)
{
    const int64_t rank = n_dims + part[KN_SHAPE_PART].dim[0];
    const enum rt_dtype dtype = kn_dtype(&part[KN_VALUES_PART]);
    int64_t total = 0, at = 0, left = RT_WORK;
    enum rt_status st = join_shape(r, part, n, dim, n_dims);

    for (int64_t i = 0; i < n; i++)
        total += part[i * KN_SPARSE_PARTS + KN_VALUES_PART].dim[0];
    int64_t *indices = st ? NULL : rt_out(r, KN_INDICES_PART, 2, (int64_t[]){total, rank});
    char *values = indices ? rt_out(r, KN_VALUES_PART, 1, &total) : NULL;
    if (!values)
        return r->err->code;
    for (int64_t i = 0; i < n && !st; i++) {
        const struct rt_tensor *p = part + i * KN_SPARSE_PARTS;
        const int64_t rows = p[KN_VALUES_PART].dim[0];
        st = join_indices(r, &p[KN_INDICES_PART], indices + at * rank, i, dim, n_dims);
        if (!st)
            st = kn_copy_run(r, dtype, values + (size_t)at * rt_dtype_size(dtype),
                             p[KN_VALUES_PART].data, rows);
        if (!st)
            st = rt_run_spend(r, &left, rows * (rank + 1));
        at += rows;
    }
    return st;
}

/* ---- deserialising ---- */

/* Maximum size of a tensor whose TensorProto contains only some of the tensor's values. */
enum { MAX_REPEATED = 64 << 20 };

/* Replaces the strings of a parsed tensor by copies that the run's memory pool counts. */
static enum rt_status count_strings(struct rt_run *r, struct rt_tensor *t)
{
    struct rt_tensor counted;
    int64_t left = RT_WORK;
    enum rt_status st = rt_tensor_new(&counted, rt_run_pool(r), RT_STRING, t->rank, t->dim, r->err);

    if (st)
        return st;
    struct rt_str *o = counted.data;
    for (int64_t i = 0; i < rt_tensor_count(t) && !st; i++) {
        st = kn_spend_string(r, &left, 0);
        if (!st)
            st = kn_set_text(r, &left, &o[i], rt_str_data(&rt_strs(t)[i]), rt_strs(t)[i].n);
    }
    if (st) {
        rt_tensor_clear(&counted);
        return st;
    }
    rt_tensor_clear(t);
    *t = counted;
    return RT_OK;
}

/* Sets *out to the tensor in element i of the input. */
static enum rt_status read_part(struct rt_run *r, int64_t i, struct rt_tensor *out)
{
    enum { PART_WORK = 2048 }; /* 1 to 3 us for the message, an allocation, and freeing it later */
    const struct rt_check check = rt_run_as_check(r);

    if (r->in[0].dtype == RT_VARIANT) {
        struct rt_object *o = *(struct rt_object *const *)kn_at(&r->in[0], i);
        if (!o || o->type != &boxed_type)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Could not get a tensor from serialized variant");
        rt_tensor_ref(out, &((struct boxed *)o)->t);
        return RT_OK;
    }
    const struct rt_str *s = &rt_strs(&r->in[0])[i];
    enum rt_status st = rt_run_spend(r, &r->left, PART_WORK + (int64_t)s->n);
    if (!st)
        st = rt_tensor_parse_any(rt_span_of(rt_str_data(s), s->n), MAX_REPEATED, out,
                                 rt_run_pool(r), &check, r->err);
    if (!st && out->dtype == RT_STRING) {
        st = count_strings(r, out);
        if (st)
            rt_tensor_clear(out);
    }
    return st;
}

static enum rt_status check_values(struct rt_run *r, int64_t i, const struct rt_tensor *part)
{
    const struct rt_tensor *indices = &part[KN_INDICES_PART], *values = &part[KN_VALUES_PART];
    const enum rt_dtype want = rt_attr_dtype(r->node, "dtype");

    if (values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected serialized_sparse[%lld, 1] to represent a values vector but "
                       "received shape %s",
                       (long long)i, KN_TEXT(values));
    if (kn_dtype(values) != want)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Requested SparseTensor of type %s but SparseTensor[%lld].values.dtype() "
                       "== %s",
                       rt_dtype_name(want), (long long)i, rt_dtype_name(kn_dtype(values)));
    if (values->dim[0] != indices->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected row counts of SparseTensor[%lld].indices and "
                       "SparseTensor[%lld].values to match but they do not: %lld vs. %lld",
                       (long long)i, (long long)i, (long long)indices->dim[0],
                       (long long)values->dim[0]);
    return RT_OK;
}

static enum rt_status check_shape(struct rt_run *r, int64_t i, const struct rt_tensor *part)
{
    const struct rt_tensor *indices = &part[KN_INDICES_PART], *shape = &part[KN_SHAPE_PART];

    if (shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected serialized_sparse[%lld, 1] to be a shape vector but its shape is "
                       "%s",
                       (long long)i, KN_TEXT(shape));
    if (shape->dim[0] != indices->dim[1])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected column counts of SparseTensor[%lld].indices to match size of "
                       "SparseTensor[%lld].shape but they do not: %lld vs. %lld",
                       (long long)i, (long long)i, (long long)indices->dim[1],
                       (long long)shape->dim[0]);
    for (int k = 0; k < KN_SPARSE_PARTS; k++)
        if (k != KN_VALUES_PART && part[k].dtype != RT_I64)
            return rt_fail(r->err, RT_INTERNAL,
                           "Output %d of type %s does not match declared output type int64 for "
                           "node {{node %s}}",
                           k, rt_dtype_name(kn_dtype(&part[k])), r->node->name);
    return RT_OK;
}

/* Reads and checks sparse tensor i of the input. */
static enum rt_status read_sparse(struct rt_run *r, int64_t i, struct rt_tensor *part)
{
    const int64_t first = i * KN_SPARSE_PARTS;
    enum rt_status st = read_part(r, first, &part[KN_INDICES_PART]);

    if (!st && part[KN_INDICES_PART].rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected serialized_sparse[%lld, 0] to represent an index matrix but "
                       "received shape %s",
                       (long long)i, KN_TEXT(&part[KN_INDICES_PART]));
    if (!st)
        st = read_part(r, first + KN_VALUES_PART, &part[KN_VALUES_PART]);
    if (!st)
        st = check_values(r, i, part);
    if (!st)
        st = read_part(r, first + KN_SHAPE_PART, &part[KN_SHAPE_PART]);
    return st ? st : check_shape(r, i, part);
}

static enum rt_status read_all(struct rt_run *r, struct rt_tensor *part, int64_t n)
{
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        struct rt_tensor *p = part + i * KN_SPARSE_PARTS;
        st = read_sparse(r, i, p);
        const int64_t rank = st ? 0 : p[KN_SHAPE_PART].dim[0];
        if (!st && i && rank != part[KN_SHAPE_PART].dim[0])
            st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                         "Inconsistent shape across SparseTensors: rank prior to "
                         "SparseTensor[%lld] was: %lld but rank of SparseTensor[%lld] is: %lld",
                         (long long)i, (long long)part[KN_SHAPE_PART].dim[0], (long long)i,
                         (long long)rank);
    }
    return st;
}

static enum rt_status check_serialized(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0];

    if (in->rank == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Serialized sparse should have non-zero rank []");
    if (in->dim[in->rank - 1] != KN_SPARSE_PARTS)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Serialized sparse should have 3 as the last dimension %s", KN_TEXT(in));
    if (rt_tensor_count(in) == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Serialized sparse should have at least 1 serialized tensor, but has a zero "
                       "dimension %s",
                       KN_TEXT(in));
    return RT_OK;
}

static enum rt_status deserialize_run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0];
    enum rt_status st = check_serialized(r);

    if (st)
        return st;
    const int64_t n_parts = rt_tensor_count(in);
    struct rt_tensor *part = rt_run_alloc(r, (size_t)n_parts * sizeof *part);
    if (!part)
        return r->err->code;
    st = read_all(r, part, n_parts / KN_SPARSE_PARTS);
    if (!st && in->rank == 1)
        for (int k = 0; k < KN_SPARSE_PARTS; k++)
            rt_out_tensor(r, k, &part[k]);
    else if (!st)
        st = kn_sparse_join(r, part, n_parts / KN_SPARSE_PARTS, in->dim, in->rank - 1);
    for (int64_t i = 0; i < n_parts; i++)
        rt_tensor_clear(&part[i]);
    rt_pool_free(part);
    return st;
}

const struct kn_entry kn_deserialize_sparse = {
    .op = {.name = "DeserializeSparse"},
    .kernels = KN_CPU("DeserializeSparse", "deserialize_sparse", 0, NULL, deserialize_run),
};
const struct kn_entry kn_deserialize_many_sparse = {
    .op = {.name = "DeserializeManySparse"},
    .kernels = KN_CPU("DeserializeManySparse", "deserialize_many_sparse", 0, NULL, deserialize_run),
};
