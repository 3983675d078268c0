/*
 * Ragged tensors in variants, with which tf.map_fn maps rows of ragged tensors. A variant holds the
 * row splits of each ragged dimension and the values. Values are references to rows of the tensor
 * that was encoded, so its elements are not copied before the variants are decoded.
 */
#include "kernels/list/list_internal.h"

#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

struct ragged {
    struct rt_object o;
    int n; /* number of ragged dimensions */
    struct rt_tensor values;
    struct rt_tensor splits[]; /* the outermost dimension first */
};

static void ragged_free(struct rt_object *o)
{
    struct ragged *v = (struct ragged *)o;

    for (int k = 0; k < v->n; k++)
        rt_tensor_clear(&v->splits[k]);
    rt_tensor_clear(&v->values);
    rt_pool_free(v);
}

static const struct rt_object_type ragged_type = {"tensorflow::RaggedTensorVariant", ragged_free};

static struct ragged *ragged_new(struct rt_run *r, int n)
{
    struct ragged *v = rt_run_alloc(r, sizeof *v + (size_t)n * sizeof v->splits[0]);

    if (v) {
        rt_object_init(&v->o, &ragged_type);
        v->n = n;
    }
    return v;
}

static struct ragged *ragged_of(struct rt_object *o)
{
    return o && o->type == &ragged_type ? (struct ragged *)o : NULL;
}

static struct ragged *ragged_at(const struct rt_tensor *t, int64_t i)
{
    return ragged_of(((struct rt_object *const *)t->data)[i]);
}

bool kn_is_ragged(const struct rt_tensor *t)
{
    return t->rank == 0 && ragged_of(rt_tensor_handle(t));
}

/* ---- checks of row splits ---- */

#define FAIL_SPLITS(r, ...)                                                                        \
    rt_fail((r)->err, RT_INVALID_ARGUMENT, "Invalid ragged splits: " __VA_ARGS__)

/* Checks row splits whose last element must be n_values, or may be any number if n_values is -1. */
static enum rt_status check_splits(struct rt_run *r, const struct rt_tensor *t, int64_t n_values)
{
    if (t->rank != 1)
        return FAIL_SPLITS(r, "ragged splits must be rank 1 but is rank %d", t->rank);
    const int64_t n = t->dim[0];
    if (n == 0)
        return FAIL_SPLITS(r, "ragged splits must have at least one splits, but is empty");
    if (kn_int_at(t, 0) != 0)
        return FAIL_SPLITS(r, "first element of ragged splits  must be 0 but is %lld",
                           (long long)kn_int_at(t, 0));
    for (int64_t i = 1; i < n; i++) {
        if (kn_int_at(t, i) < kn_int_at(t, i - 1))
            return FAIL_SPLITS(r,
                               "ragged splits must be monotonically increasing, but "
                               "ragged_splits[%lld]=%lld is smaller than row_splits[%lld]=%lld",
                               (long long)i, (long long)kn_int_at(t, i), (long long)i - 1,
                               (long long)kn_int_at(t, i - 1));
        if (rt_run_spend(r, &r->left, 4))
            return r->err->code;
    }
    if (n_values >= 0 && kn_int_at(t, n - 1) != n_values)
        return FAIL_SPLITS(r,
                           "last element of ragged splits must be the number of ragged "
                           "values(%lld) but is %lld",
                           (long long)n_values, (long long)kn_int_at(t, n - 1));
    return RT_OK;
}

/* Checks the row splits of n ragged dimensions over values with n_values rows. */
static enum rt_status check_nested(struct rt_run *r, const struct rt_tensor *splits, int n,
                                   int64_t n_values)
{
    enum rt_status st = RT_OK;

    /* As in TensorFlow, the innermost dimension is checked first. */
    for (int k = n - 1; k >= 0 && !st; k--) {
        const int64_t next = k + 1 == n                ? n_values
                             : splits[k + 1].rank == 1 ? splits[k + 1].dim[0] - 1
                                                       : -1;
        st = check_splits(r, &splits[k], next);
    }
    return st;
}

/* ---- RaggedTensorToVariant(nested splits, values) ---- */

/* Makes *v row i of the ragged tensor in the inputs. */
static enum rt_status encode_row(struct rt_run *r, int64_t i, struct ragged *v)
{
    const int n = r->n_in - 1;
    int64_t lo = i, hi = i + 1;

    for (int k = 0; k < n; k++) {
        const struct rt_tensor *s = &r->in[k];
        const int64_t first = kn_int_at(s, lo), last = kn_int_at(s, hi);
        if (k > 0) {
            const int64_t len = hi - lo + 1;
            struct rt_tensor *own = &v->splits[k - 1];
            if (rt_tensor_new(own, rt_run_pool(r), kn_dtype(s), 1, &len, r->err))
                return r->err->code;
            for (int64_t j = 0; j < len; j++) {
                kn_put_int(own, j, kn_int_at(s, lo + j) - first);
                if (rt_run_spend(r, &r->left, 4))
                    return r->err->code;
            }
        }
        lo = first;
        hi = last;
    }
    const struct rt_tensor *values = &r->in[n];
    const struct rt_tensor rows = n ? kn_rows_of(values, lo, hi - lo) : kn_row(values, i);
    return kn_keep(r, &v->values, &rows);
}

static enum rt_status encode_batch(struct rt_run *r)
{
    const int n = r->n_in - 1;
    const struct rt_tensor *values = &r->in[n];

    if (values->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Requires flat_values to have rank>=1 when nested_row_splits is not empty, "
                       "but is 0.");
    if (check_nested(r, r->in, n, values->dim[0]))
        return r->err->code;
    const int64_t n_rows = n ? r->in[0].dim[0] - 1 : values->dim[0];
    if (!rt_out(r, 0, 1, &n_rows))
        return r->err->code;
    for (int64_t i = 0; i < n_rows; i++) {
        struct ragged *v = ragged_new(r, n > 1 ? n - 1 : 0);
        if (!v)
            return r->err->code;
        ((struct rt_object **)r->out[0].data)[i] = &v->o;
        if (encode_row(r, i, v) || rt_run_spend(r, &r->left, KN_ITEM_WORK))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status encode_run(struct rt_run *r)
{
    const int n = r->n_in - 1;

    if (rt_attr_bool(r->node, "batched_input"))
        return encode_batch(r);
    if (n && r->in[n].rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Requires flat_values to have rank>=1 when nested_row_splits is not empty, "
                       "but is 0.");
    struct ragged *v = ragged_new(r, n);
    if (!v)
        return r->err->code;
    enum rt_status st = kn_keep(r, &v->values, &r->in[n]);
    for (int k = 0; k < n && !st; k++)
        st = kn_keep(r, &v->splits[k], &r->in[k]);
    if (st) {
        rt_object_unref(&v->o);
        return st;
    }
    return rt_out_object(r, 0, &v->o);
}

KN_LIST_OP(ragged_tensor_to_variant, "RaggedTensorToVariant", NULL, encode_run)

/* ---- RaggedTensorFromVariant(variants) -> nested splits, values ---- */

struct decoding {
    int inner;    /* number of ragged dimensions of each variant */
    bool stacks;  /* the values are stacked rather than joined along their first dimension */
    int64_t n;    /* number of variants */
    int64_t rows; /* number of rows of all values */
};

/* Checks the type and the splits of variant i. */
static enum rt_status check_variant(struct rt_run *r, const struct decoding *d, int64_t i)
{
    const struct rt_tensor *t = &r->in[0];
    const struct ragged *v = ragged_at(t, i);

    if (!v) {
        struct rt_tensor one = *t;
        one.rank = 0;
        one.data = (struct rt_object **)t->data + i;
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input Variant element at index %lld doesn't hold a RaggedTensorVariant: %s",
                       (long long)i, kn_variant_text(&one));
    }
    if (v->n != d->inner)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Encoded input RaggedTensorVariant has ragged_rank=%d.  Expected "
                       "ragged_rank=%d.",
                       v->n, d->inner);
    const enum rt_dtype want = rt_attr_dtype(r->node, "Tvalues");
    if (kn_dtype(&v->values) != want)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected values Tensor dtype: %s, found: %s",
                       rt_dtype_name(want), rt_dtype_name(kn_dtype(&v->values)));
    const enum rt_dtype splits = rt_attr_dtype(r->node, "Tsplits");
    for (int k = 0; k < v->n; k++)
        if (kn_dtype(&v->splits[k]) != splits)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Expected row_splits Tensor dtype: %s, found: %s", rt_dtype_name(splits),
                           rt_dtype_name(kn_dtype(&v->splits[k])));
    return RT_OK;
}

/* Sets *s to the shape of a row of the values of a variant. */
static void row_shape(const struct decoding *d, const struct rt_tensor *values, struct rt_shape *s)
{
    kn_shape_get(values, s);
    if (!d->stacks && s->rank) {
        s->rank--;
        memmove(s->dim, s->dim + 1, (size_t)s->rank * sizeof s->dim[0]);
    }
}

/* Checks that the values of variant i go with those of variant 0, and counts their rows. */
static enum rt_status check_values(struct rt_run *r, struct decoding *d, int64_t i)
{
    const struct rt_tensor *first = &ragged_at(&r->in[0], 0)->values;
    const struct rt_tensor *values = &ragged_at(&r->in[0], i)->values;
    struct rt_shape a, b;

    row_shape(d, first, &a);
    row_shape(d, values, &b);
    if (first->rank != values->rank && !d->stacks)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Rank of values must match for all components; values shape at index 0: %s, "
                       "values shape at index %lld: %s",
                       KN_TEXT(first), (long long)i, KN_TEXT(values));
    if (!kn_shape_eq(&a, &b))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "All flat_values must have compatible shapes.  Shape at index 0: %s.  Shape "
                       "at index %lld: %s.  If you are using tf.map_fn, then you may need to "
                       "specify an explicit fn_output_signature with appropriate ragged_rank, "
                       "and/or convert output tensors to RaggedTensors.",
                       KN_TEXT(&a), (long long)i, KN_TEXT(&b));
    if (!d->stacks && !values->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Flat values of component at index %lld must have rank>=1", (long long)i);
    if (!rt_add(d->rows, d->stacks ? 1 : values->dim[0], &d->rows))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%s: the values would have more than 2**63 - 1 rows", r->node->schema->name);
    return RT_OK;
}

/* Makes output k the splits of dimension k of the variants, whose rows have equal lengths. As in
 * TensorFlow, they are those of one row of the dimension before. */
static enum rt_status uniform_splits(struct rt_run *r, int k)
{
    const struct rt_tensor *t = &r->in[0];
    const int64_t n = t->dim[k] + 1;

    if (!rt_out(r, k, 1, &n))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        kn_put_int(&r->out[k], i, i * t->dim[k + 1]);
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

/* Makes output k the splits that separate the variants. */
static enum rt_status variant_splits(struct rt_run *r, const struct decoding *d, int k)
{
    const int64_t n = d->n + 1;
    int64_t at = 0;

    if (!rt_out(r, k, 1, &n))
        return r->err->code;
    kn_put_int(&r->out[k], 0, 0);
    for (int64_t i = 0; i < d->n; i++) {
        const struct ragged *v = ragged_at(&r->in[0], i);
        at += v->n ? v->splits[0].dim[0] - 1 : v->values.dim[0];
        kn_put_int(&r->out[k], i + 1, at);
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

/* Makes output k the joined splits of dimension `level` of the variants. */
static enum rt_status inner_splits(struct rt_run *r, const struct decoding *d, int k, int level)
{
    int64_t n = 1, at = 0, to = 0;

    for (int64_t i = 0; i < d->n; i++)
        n += ragged_at(&r->in[0], i)->splits[level].dim[0] - 1;
    if (!rt_out(r, k, 1, &n))
        return r->err->code;
    kn_put_int(&r->out[k], to++, 0);
    for (int64_t i = 0; i < d->n; i++) {
        const struct rt_tensor *s = &ragged_at(&r->in[0], i)->splits[level];
        for (int64_t j = 1; j < s->dim[0]; j++)
            kn_put_int(&r->out[k], to++, at + kn_int_at(s, j));
        at += kn_int_at(s, s->dim[0] - 1);
        if (rt_run_spend(r, &r->left, 4 * s->dim[0] + 8))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status join_values(struct rt_run *r, const struct decoding *d)
{
    const int k = r->n_out - 1;
    struct rt_shape s = {.rank = 0};
    int64_t dim[RT_MAX_RANK] = {d->rows}, at = 0;

    if (d->n)
        row_shape(d, &ragged_at(&r->in[0], 0)->values, &s);
    if (s.rank == RT_MAX_RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    memcpy(dim + 1, s.dim, (size_t)s.rank * sizeof dim[0]);
    if (!rt_out(r, k, s.rank + 1, dim))
        return r->err->code;
    for (int64_t i = 0; i < d->n; i++) {
        const struct rt_tensor *v = &ragged_at(&r->in[0], i)->values;
        const int64_t n = rt_tensor_count(v);
        if ((n && kn_copy_run(r, kn_dtype(v), kn_at_mut(&r->out[k], at), v->data, n)) ||
            rt_run_spend(r, &r->left, n + 8))
            return r->err->code;
        at += n;
    }
    return RT_OK;
}

/* Decodes a scalar variant. */
static enum rt_status decode_one(struct rt_run *r)
{
    const struct ragged *v = ragged_at(&r->in[0], 0);

    for (int k = 0; k < v->n; k++)
        rt_out_tensor(r, k, &v->splits[k]);
    rt_out_tensor(r, v->n, &v->values);
    return check_nested(r, v->splits, v->n, v->values.rank ? v->values.dim[0] : -1);
}

static enum rt_status decode_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const int64_t outer = rt_attr_int(r->node, "output_ragged_rank");
    int64_t inner = rt_attr_int(r->node, "input_ragged_rank");

    if (inner == -1) {
        inner = outer - t->rank;
        if (inner < 0 && outer > 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Inferred input_ragged_rank (output_ragged_rank - "
                           "encoded_variant.dims()) must be >= 0, found output_ragged_rank: %lld, "
                           "encoded_variant.dims(): %d, inferred input_ragged_rank: %lld",
                           (long long)outer, t->rank, (long long)inner);
    }
    const bool stacks = outer == 0 && inner <= 0 && t->rank > 0;
    if (inner != outer - t->rank && !stacks)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "output_ragged_rank must be equal to input_ragged_rank + "
                       "encoded_ragged.dims(); output_ragged_rank: %lld, input_ragged_rank: %lld, "
                       "encoded_variant.dims(): %d.",
                       (long long)outer, (long long)inner, t->rank);
    struct decoding d = {
        .inner = (int)(inner < 0 ? 0 : inner), .stacks = stacks, .n = rt_tensor_count(t)};
    for (int64_t i = 0; i < d.n; i++)
        if (check_variant(r, &d, i) || rt_run_spend(r, &r->left, 16 * (d.inner + 1)))
            return r->err->code;
    if (t->rank == 0)
        return decode_one(r);
    for (int64_t i = 0; i < d.n; i++) {
        const struct ragged *v = ragged_at(t, i);
        if (check_values(r, &d, i) ||
            check_nested(r, v->splits, v->n, v->values.rank ? v->values.dim[0] : -1) ||
            rt_run_spend(r, &r->left, 16 * (d.inner + 1)))
            return r->err->code;
    }
    const int between = t->rank - 1;
    enum rt_status st = RT_OK;
    for (int k = 0; k < outer && !st; k++)
        st = k < between    ? uniform_splits(r, k)
             : k == between ? variant_splits(r, &d, k)
                            : inner_splits(r, &d, k, k - between - 1);
    return st ? st : join_values(r, &d);
}

KN_LIST_OP(ragged_tensor_from_variant, "RaggedTensorFromVariant", NULL, decode_run)

/* ---- RaggedTensorToVariantGradient(variants, row splits, shape of the values) ---- */

/* Copies the values of variant i to the output, from element *at on. A variant that holds something
 * else stands for zeros. */
static enum rt_status grad_of_row(struct rt_run *r, int64_t i, int64_t each, int64_t *at)
{
    const struct ragged *v = ragged_at(&r->in[0], i);
    const int64_t total = rt_tensor_count(&r->out[0]);
    int64_t n = 0;

    if (v) {
        n = rt_tensor_count(&v->values);
    } else if (r->in[1].rank == 0) {
        n = each;
    } else if (i + 1 < r->in[1].dim[0]) {
        n = kn_int_at(&r->in[1], i + 1) - kn_int_at(&r->in[1], i);
        n = n > total ? total : rt_mul_saturated(n, each);
    }
    n = n < total - *at ? n : total - *at;
    if (v && kn_dtype(&v->values) != kn_dtype(&r->out[0]))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected values Tensor dtype: %s, found: %s",
                       rt_dtype_name(kn_dtype(&r->out[0])), rt_dtype_name(kn_dtype(&v->values)));
    if (n <= 0)
        return RT_OK;
    void *to = kn_at_mut(&r->out[0], *at);
    *at += n;
    if (v)
        return kn_copy_run(r, kn_dtype(&v->values), to, v->values.data, n);
    return rt_dtype_is_plain(kn_dtype(&r->out[0]))
               ? kn_zero_chunks(r, to, (size_t)n * rt_dtype_size(kn_dtype(&r->out[0])))
               : RT_OK;
}

/* Reads the shape in input 2. */
static enum rt_status read_shape(struct rt_run *r, struct rt_shape *s)
{
    const struct rt_tensor *t = &r->in[2];

    if (t->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "dense_values_shape must be a vector, got %s",
                       KN_TEXT(t));
    s->rank = kn_ints(t, s->dim, RT_MAX_RANK);
    if (s->rank < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)s->dim[i]);
    return RT_OK;
}

static enum rt_status grad_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    struct rt_shape s;
    int64_t at = 0;
    /* A scalar in place of the splits stands for a tensor without ragged dimensions. */
    enum rt_status st = r->in[1].rank ? check_splits(r, &r->in[1], -1) : RT_OK;

    if (st)
        return st;
    if (t->rank == 0 && kn_is_ragged(t)) {
        const struct rt_tensor *values = &ragged_at(t, 0)->values;
        if (kn_dtype(values) != rt_attr_dtype(r->node, "Tvalues"))
            return rt_fail(
                r->err, RT_INVALID_ARGUMENT, "Expected values Tensor dtype: %s, found: %s",
                rt_dtype_name(rt_attr_dtype(r->node, "Tvalues")), rt_dtype_name(kn_dtype(values)));
        rt_out_tensor(r, 0, values);
        return RT_OK;
    }
    if ((st = read_shape(r, &s)))
        return st;
    if (!rt_out(r, 0, s.rank, s.dim))
        return r->err->code;
    const int64_t each = s.rank ? rt_count(s.rank - 1, s.dim + 1) : 1;
    for (int64_t i = 0; i < rt_tensor_count(t) && !st; i++)
        if (!(st = grad_of_row(r, i, each, &at)))
            st = rt_run_spend(r, &r->left, 64);
    if (!st && at < rt_tensor_count(&r->out[0]))
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "RaggedTensorToVariantGradient: the gradients have %lld values, but "
                     "dense_values_shape is %s",
                     (long long)at, KN_TEXT(&s));
    return st;
}

KN_LIST_OP(ragged_tensor_to_variant_gradient, "RaggedTensorToVariantGradient", NULL, grad_run)

/* ---- sums and zeros ---- */

/* Returns a new ragged tensor with the row splits of v and without values. */
static struct ragged *with_splits_of(struct rt_run *r, const struct ragged *v)
{
    struct ragged *o = ragged_new(r, v->n);

    for (int k = 0; o && k < v->n; k++)
        rt_tensor_ref(&o->splits[k], &v->splits[k]);
    return o;
}

static bool same_splits(const struct rt_tensor *a, const struct rt_tensor *b)
{
    const size_t bytes = rt_tensor_bytes(a);

    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0 &&
           (bytes == 0 || memcmp(a->data, b->data, bytes) == 0);
}

enum rt_status kn_ragged_add(struct rt_run *r, const struct rt_tensor *a, const struct rt_tensor *b,
                             int depth, struct rt_object **out)
{
    const struct ragged *x = ragged_at(a, 0), *y = ragged_at(b, 0);

    if (x->values.dtype != y->values.dtype)
        return rt_fail(
            r->err, RT_INVALID_ARGUMENT,
            "Can't add RaggedTensorVariants of different dtypes. One is %s and the other "
            "is %s",
            rt_dtype_name(kn_dtype(&x->values)), rt_dtype_name(kn_dtype(&y->values)));
    if (x->n != y->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Can't add RaggedTensorVariants of different ragged rank. One is %d and the "
                       "other is %d",
                       x->n, y->n);
    for (int k = 0; k < x->n; k++) {
        if (!same_splits(&x->splits[k], &y->splits[k]))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Can't add RaggedTensorVariants with different row_splits.");
        if (rt_run_spend(r, &r->left, rt_tensor_count(&x->splits[k])))
            return r->err->code;
    }
    struct ragged *o = with_splits_of(r, x);
    if (!o)
        return r->err->code;
    const enum rt_status st = kn_item_add(r, &x->values, &y->values, depth, &o->values);
    if (st) {
        rt_object_unref(&o->o);
        return st;
    }
    *out = &o->o;
    return RT_OK;
}

enum rt_status kn_ragged_zeros(struct rt_run *r, const struct rt_tensor *t, struct rt_object **out)
{
    const struct ragged *v = ragged_at(t, 0);
    struct ragged *o = with_splits_of(r, v);

    if (!o)
        return r->err->code;
    enum rt_status st = rt_tensor_new(&o->values, rt_run_pool(r), kn_dtype(&v->values),
                                      v->values.rank, v->values.dim, r->err);
    if (!st && rt_dtype_is_plain(kn_dtype(&v->values)) && o->values.data)
        st = kn_zero_chunks(r, o->values.data, rt_tensor_bytes(&o->values));
    if (st) {
        rt_object_unref(&o->o);
        return st;
    }
    *out = &o->o;
    return RT_OK;
}
