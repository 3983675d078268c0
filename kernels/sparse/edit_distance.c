/* EditDistance computes the Levenshtein distances between the sequences of two sparse tensors. A
 * sequence consists of the consecutive values whose indices differ only in the last dimension. */
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/sparse/coo.h"

#include <math.h>

/* ---- inputs ---- */

static enum rt_status check_ranks(struct rt_run *r)
{
    static const struct {
        const char *name, *kind;
        int input, rank;
    } wanted[] = {
        {"hypothesis_indices", "matrix", 0, 2}, {"truth_indices", "matrix", 3, 2},
        {"hypothesis_values", "vector", 1, 1},  {"truth_values", "vector", 4, 1},
        {"hypothesis_shape", "vector", 2, 1},   {"truth_shape", "vector", 5, 1},
    };

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const struct rt_tensor *t = &r->in[wanted[i].input];
        if (t->rank != wanted[i].rank)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s should be a %s, but got shape: %s",
                           wanted[i].name, wanted[i].kind, KN_TEXT(t));
    }
    return RT_OK;
}

static enum rt_status check_lengths(struct rt_run *r, const char *name, const struct kn_coo *c)
{
    if (c->values->dim[0] != c->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected %s_values.NumElements == #rows(%s_indices), their shapes are: %s "
                       "and %s",
                       name, name, KN_TEXT(c->values), KN_TEXT(c->indices));
    if (c->shape->dim[0] != c->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected %s_shape.NumElements == #cols(%s_indices), their shapes are: %s "
                       "and %s",
                       name, name, KN_TEXT(c->shape), KN_TEXT(c->indices));
    return RT_OK;
}

/* Checks `n` dimensions as TensorFlow does when it makes a shape of them. */
static enum rt_status check_shape(struct rt_run *r, const int64_t *dim, int64_t n)
{
    char text[KN_SHAPE_TEXT];
    struct rt_shape s = {.rank = 0};

    if (n > RT_MAX_RANK)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "EditDistance: rank %lld is above %d",
                       (long long)n, RT_MAX_RANK);
    for (; s.rank < n; s.rank++) {
        if (dim[s.rank] < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)dim[s.rank]);
        s.dim[s.rank] = dim[s.rank];
    }
    if (kn_shape_total(&s) < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Shape %s would have more than 2**63 - 1 elements",
                       kn_coo_text(text, sizeof text, dim, n));
    return RT_OK;
}

static enum rt_status check(struct rt_run *r, const struct kn_coo *hypothesis,
                            const struct kn_coo *truth)
{
    enum rt_status st = check_ranks(r);

    if (st || (st = check_lengths(r, "hypothesis", hypothesis)) ||
        (st = check_lengths(r, "truth", truth)))
        return st;
    if (truth->rank < 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input SparseTensors must have rank at least 2, but truth_shape rank is: "
                       "%lld",
                       (long long)truth->rank);
    if (truth->rank != hypothesis->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected truth and hypothesis to have matching ranks, but their shapes "
                       "are: %s and %s",
                       KN_TEXT(truth->shape), KN_TEXT(hypothesis->shape));
    st = check_shape(r, hypothesis->dim, hypothesis->rank);
    return st ? st : check_shape(r, truth->dim, truth->rank);
}

/* ---- distances ---- */

typedef bool equal_fn(const void *a, const void *b);

#define EQUAL(dt, T, ...)                                                                          \
    static bool equal_##dt(const void *a, const void *b)                                           \
    {                                                                                              \
        return KN_GET(dt, *(const T *)a) == KN_GET(dt, *(const T *)b);                             \
    }
KN_FOR_NUMBERS(EQUAL, 0)

static bool equal_bytes(const void *a, const void *b)
{
    return *(const char *)a == *(const char *)b;
}

static bool equal_text(const void *a_, const void *b_)
{
    const struct rt_str *a = a_, *b = b_;

    return a->n == b->n && (a->n == 0 || memcmp(rt_str_data(a), rt_str_data(b), a->n) == 0);
}

static equal_fn *equal_of(enum rt_dtype dtype)
{
    switch (dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return equal_##dt;
        KN_NUMBERS(X)
#undef X
    case RT_STRING:
        return equal_text;
    default:
        return equal_bytes;
    }
}

/* The values of one input, and the sequence that begins at value `from` and has `n` values. */
struct sequences {
    struct kn_coo coo;
    int64_t from, n;
};

static const int64_t *row_of(const struct sequences *s)
{
    return s->coo.at + s->from * s->coo.rank;
}

static enum rt_status next(struct rt_run *r, struct sequences *s)
{
    s->from += s->n;
    for (s->n = 0; s->from + s->n < s->coo.n; s->n++) {
        if (kn_coo_compare(row_of(s), row_of(s) + s->n * s->coo.rank, s->coo.rank - 1) != 0)
            break;
        if (rt_run_spend(r, &r->left, s->coo.rank))
            return r->err->code;
    }
    return RT_OK;
}

/* Sets *out to the distance between the current sequences. `cost` has room for the values of the
 * truth. */
static enum rt_status distance(struct rt_run *r, const struct sequences *a,
                               const struct sequences *b, int64_t *cost, int64_t *out)
{
    const enum rt_dtype dt = kn_dtype(a->coo.values);
    const size_t size = rt_dtype_size(dt);
    const char *const x = kn_at(a->coo.values, a->from), *const y = kn_at(b->coo.values, b->from);
    equal_fn *equal = equal_of(dt);

    /* cost[k] is the distance between the first i values of `a` and the first k + 1 values of
     * `b`. */
    for (int64_t k = 0; k < b->n; k++)
        cost[k] = k + 1;
    int64_t last = a->n;
    for (int64_t i = 0; i < a->n; i++) {
        const char *value = x + (size_t)i * size;
        int64_t diagonal = i; /* the distance one row and one column before */
        last = i + 1;
        for (int64_t k = 0; k < b->n; k++) {
            const int64_t change = diagonal + !equal(value, y + (size_t)k * size);
            const int64_t gap = (cost[k] < last ? cost[k] : last) + 1;
            diagonal = cost[k];
            last = cost[k] = change < gap ? change : gap;
            if (rt_run_spend(r, &r->left, 4 + kn_text_work(dt, value, 1)))
                return r->err->code;
        }
    }
    *out = b->n ? cost[b->n - 1] : a->n;
    return RT_OK;
}

/* ---- EditDistance ---- */

/* Returns the address of the output for the sequence whose indices begin at `row`, or NULL, with
 * the reason in r->err. As in TensorFlow, only the offset must be within the output. */
static float *place(struct rt_run *r, const int64_t *row)
{
    const struct rt_tensor *o = &r->out[0];
    const int64_t n = rt_tensor_count(o);
    uint64_t offset = 0;

    for (int d = 0; d < o->rank; d++)
        offset = offset * (uint64_t)o->dim[d] + (uint64_t)row[d];
    if (offset < (uint64_t)n)
        return (float *)o->data + offset;
    rt_fail(r->err, RT_INTERNAL,
            "Got an inner product %lld which would require writing to outside of the buffer for "
            "the output tensor (max elements %lld)",
            (long long)offset, (long long)n);
    return NULL;
}

static enum rt_status fill(struct rt_run *r, struct sequences *a, struct sequences *b,
                           int64_t *cost)
{
    const bool normalizes = rt_attr_bool(r->node, "normalize");
    enum rt_status st = next(r, a);

    if (!st)
        st = next(r, b);
    while (!st && (a->n || b->n)) {
        const int order = !a->n   ? 1
                          : !b->n ? -1
                                  : kn_coo_compare(row_of(a), row_of(b), a->coo.rank - 1);
        float *o = place(r, row_of(order <= 0 ? a : b));
        int64_t d = order < 0 ? a->n : b->n;
        if (!o || (order == 0 && distance(r, a, b, cost, &d)))
            return r->err->code;
        *o = (float)d;
        if (normalizes)
            *o = order < 0 ? INFINITY : *o / (float)b->n;
        if (order <= 0)
            st = next(r, a);
        if (order >= 0 && !st)
            st = next(r, b);
    }
    return st;
}

static enum rt_status run(struct rt_run *r)
{
    struct sequences hypothesis = {.coo = kn_coo_of(&r->in[0], &r->in[1], &r->in[2])};
    struct sequences truth = {.coo = kn_coo_of(&r->in[3], &r->in[4], &r->in[5])};
    enum rt_status st = check(r, &hypothesis.coo, &truth.coo);
    int64_t dim[RT_MAX_RANK];

    if (st)
        return st;
    const int64_t rank = truth.coo.rank - 1;
    for (int64_t d = 0; d < rank; d++) {
        const int64_t a = hypothesis.coo.dim[d], b = truth.coo.dim[d];
        dim[d] = a > b ? a : b;
    }
    if ((st = kn_coo_check_shape(r, dim, rank)))
        return st;
    float *o = kn_out(r, 0, (int)rank, dim);
    if (!o)
        return r->err->code;
    if (rt_tensor_count(&r->out[0]) == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Got output shape %s which has 0 elements",
                       KN_TEXT(&r->out[0]));
    if ((st = kn_zero_chunks(r, o, (size_t)rt_tensor_count(&r->out[0]) * sizeof *o)))
        return st;
    int64_t *cost = rt_scratch(r, (size_t)truth.coo.n * sizeof *cost + 1);
    return cost ? fill(r, &hypothesis, &truth, cost) : r->err->code;
}

const struct kn_entry kn_edit_distance = {
    .op = {.name = "EditDistance"},
    .kernels = KN_CPU("EditDistance", "edit_distance",
                      KN_SET(KN_NUMBERS) | RT_T(RT_BOOL) | RT_T(RT_STRING), NULL, run),
};
