/*
 * RoundRobinTrim and RoundRobinGenerateMasks of TensorFlow Text. Each row consists of segments, one
 * from each of N ragged matrices. The segments take turns: each takes one of its values, until
 * max_sequence_length values of the row are taken or no value is left. The ops return the taken
 * values, or a mask of them.
 */
#include "kernels/array/array.h"
#include "kernels/entry.h"

/* The N segments of one row. */
struct segments {
    struct rt_run *r;
    int n;          /* number of ragged matrices, N */
    int64_t n_rows; /* of every matrix */
    int64_t most;   /* maximum number of values of a row that are taken */
    int64_t left;   /* countdown of rt_run_spend */
};

static const struct rt_tensor *values_of(const struct segments *s, int k)
{
    return &s->r->in[1 + k];
}

static const struct rt_tensor *splits_of(const struct segments *s, int k)
{
    return &s->r->in[1 + s->n + k];
}

static int64_t length_of(const struct segments *s, int k, int64_t row)
{
    return kn_int_at(splits_of(s, k), row + 1) - kn_int_at(splits_of(s, k), row);
}

/* ---- checks ---- */

/* Checks one ragged matrix. TensorFlow Text checks only the ranks, and reads or writes beyond its
 * tensors in the cases that are refused. */
static enum rt_status check_matrix(struct segments *s, int k)
{
    const struct rt_tensor *splits = splits_of(s, k);
    const int64_t n = rt_tensor_count(splits);
    const char *op = s->r->node->schema->name;

    if (n != s->n_rows + 1)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "%s: segment %d has %lld row splits, but segment 0 has %lld", op, k,
                       (long long)n, (long long)(s->n_rows + 1));
    if (kn_int_at(splits, 0) < 0)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT, "%s: a row split of segment %d is negative",
                       op, k);
    for (int64_t i = 0; i < s->n_rows; i++) {
        if (kn_int_at(splits, i + 1) < kn_int_at(splits, i))
            return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                           "%s: the row splits of segment %d decrease", op, k);
        if (rt_run_tick(s->r, i))
            return s->r->err->code;
    }
    return RT_OK;
}

static enum rt_status begin(struct segments *s, struct rt_run *r)
{
    *s = (struct segments){.r = r, .n = (int)rt_attr_int(r->node, "N"), .left = RT_WORK};
    s->n_rows = rt_tensor_count(splits_of(s, 0)) - 1;
    if (rt_tensor_count(&r->in[0]) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: max_sequence_length must be a scalar",
                       r->node->schema->name);
    s->most = kn_int_at(&r->in[0], 0);
    s->most = s->most > 0 ? s->most : 0;
    if (s->n_rows < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: there are no row splits",
                       r->node->schema->name);
    for (int k = 0; k < s->n; k++) {
        const enum rt_status st = check_matrix(s, k);
        if (st)
            return st;
    }
    return RT_OK;
}

/* ---- the turns ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the number of values of the row that are taken in the first n turns. */
static int64_t taken_in(const struct segments *s, int64_t row, int64_t n)
{
    int64_t sum = 0;

    for (int k = 0; k < s->n; k++)
        sum += least(length_of(s, k, row), n);
    return sum;
}

/*
 * Finds how many values the row's segments take: each takes as many as there are full turns, and
 * one more if it is before *last and has one. The number of full turns is found by bisection,
 * because max_sequence_length may be large.
 */
static enum rt_status share(struct segments *s, int64_t row, int64_t *n_turns, int *last)
{
    int64_t low = 0, high = 0, spare;

    for (int k = 0; k < s->n; k++)
        high = high > length_of(s, k, row) ? high : length_of(s, k, row);
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        if (taken_in(s, row, middle) <= s->most)
            low = middle;
        else
            high = middle - 1;
        if (rt_run_spend(s->r, &s->left, 4 * s->n))
            return s->r->err->code;
    }
    *n_turns = low;
    spare = s->most - taken_in(s, row, low);
    for (*last = 0; *last < s->n && spare > 0; ++*last)
        spare -= length_of(s, *last, row) > low;
    return rt_run_spend(s->r, &s->left, 8 * s->n);
}

static int64_t taken_of(const struct segments *s, int k, int64_t row, int64_t n_turns, int last)
{
    return least(length_of(s, k, row), n_turns + (k < last));
}

/* ---- RoundRobinTrim ---- */

/* Checks that the rows of each matrix end within its values. The lengths are bounded then, and
 * their sums do not overflow. */
static enum rt_status check_ends(const struct segments *s)
{
    for (int k = 0; k < s->n; k++) {
        const int64_t end = kn_int_at(splits_of(s, k), s->n_rows);
        const int64_t n = rt_tensor_count(values_of(s, k));
        if (end > n)
            return rt_fail(
                s->r->err, RT_INVALID_ARGUMENT,
                "%s: the row splits of segment %d end at %lld, but there are %lld values",
                s->r->node->schema->name, k, (long long)end, (long long)n);
    }
    return RT_OK;
}

/* Writes the row splits of the outputs. */
static enum rt_status put_splits(struct segments *s)
{
    const int64_t n = s->n_rows + 1;
    struct rt_tensor *out = &s->r->out[s->n];

    for (int k = 0; k < s->n; k++) {
        if (!kn_out(s->r, s->n + k, 1, &n))
            return s->r->err->code;
        kn_put_int(&out[k], 0, 0);
    }
    for (int64_t row = 0; row < s->n_rows; row++) {
        int64_t n_turns;
        int last;
        if (share(s, row, &n_turns, &last))
            return s->r->err->code;
        for (int k = 0; k < s->n; k++)
            kn_put_int(&out[k], row + 1,
                       kn_int_at(&out[k], row) + taken_of(s, k, row, n_turns, last));
    }
    return RT_OK;
}

static enum rt_status put_values(struct segments *s, int k)
{
    const struct rt_tensor *in = values_of(s, k), *from = splits_of(s, k);
    const struct rt_tensor *to = &s->r->out[s->n + k];
    const size_t size = rt_dtype_size(in->dtype);
    const int64_t n = kn_int_at(to, s->n_rows);
    char *out = rt_out(s->r, k, 1, &n);
    enum rt_status st = out ? RT_OK : s->r->err->code;

    for (int64_t row = 0; row < s->n_rows && !st; row++) {
        const int64_t at = kn_int_at(to, row), count = kn_int_at(to, row + 1) - at;
        st = kn_copy_run(s->r, in->dtype, out + (size_t)at * size,
                         (const char *)in->data + (size_t)kn_int_at(from, row) * size, count);
        if (!st)
            st = rt_run_spend(s->r, &s->left, 8);
    }
    return st;
}

static enum rt_status trim(struct rt_run *r)
{
    struct segments s;
    enum rt_status st = begin(&s, r);

    if (!st)
        st = check_ends(&s);
    if (!st)
        st = put_splits(&s);
    for (int k = 0; k < s.n && !st; k++)
        st = put_values(&s, k);
    return st;
}

/* ---- RoundRobinGenerateMasks ---- */

/* Writes a mask of n values, of which the first `taken` are taken. */
static enum rt_status put_mask(struct segments *s, bool *mask, int64_t taken, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        mask[i] = i < taken;
        if (rt_run_tick(s->r, i))
            return s->r->err->code;
    }
    return RT_OK;
}

static bool *mask_of(const struct segments *s, int k, int64_t row)
{
    const struct rt_tensor *splits = splits_of(s, k);

    return (bool *)s->r->out[k].data + (kn_int_at(splits, row) - kn_int_at(splits, 0));
}

static enum rt_status masks(struct rt_run *r)
{
    struct segments s;
    enum rt_status st = begin(&s, r);

    for (int k = 0; k < s.n && !st; k++) {
        const int64_t n = kn_int_at(splits_of(&s, k), s.n_rows) - kn_int_at(splits_of(&s, k), 0);
        st = rt_out(r, k, 1, &n) ? RT_OK : r->err->code;
    }
    for (int64_t row = 0; row < s.n_rows && !st; row++) {
        int64_t n_turns;
        int last;
        st = share(&s, row, &n_turns, &last);
        for (int k = 0; k < s.n && !st; k++)
            st = put_mask(&s, mask_of(&s, k, row), taken_of(&s, k, row, n_turns, last),
                          length_of(&s, k, row));
    }
    return st;
}
/* ---- the ops ---- */

#define MASK_TYPES                                                                                 \
    (RT_T(RT_I8) | RT_T(RT_U8) | RT_T(RT_I16) | RT_T(RT_U16) | RT_T(RT_I32) | RT_T(RT_U32) |       \
     RT_T(RT_I64) | RT_T(RT_U64) | RT_T(RT_BOOL) | RT_T(RT_F32) | RT_T(RT_F64) | RT_T(RT_STRING))
/* TensorFlow Text has these kernels of RoundRobinTrim, too, but they refuse every run. */
#define TRIM_TYPES (MASK_TYPES & ~(RT_T(RT_U16) | RT_T(RT_U32)))

const struct kn_entry kn_tf_text_round_robin_trim = {
    .op = {.name = "TFText>RoundRobinTrim"},
    .kernels = KN_CPU("TFText>RoundRobinTrim", "round_robin_trim", TRIM_TYPES, NULL, trim),
};

const struct kn_entry kn_tf_text_round_robin_generate_masks = {
    .op = {.name = "TFText>RoundRobinGenerateMasks"},
    .kernels =
        KN_CPU("TFText>RoundRobinGenerateMasks", "round_robin_masks", MASK_TYPES, NULL, masks),
};
