/* NgramsStringJoin of TensorFlow Text joins `width` neighbouring strings of the innermost
 * dimension, which is ragged or not. */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/string/text.h"
#include "runtime/base/checked.h"

struct joiner {
    struct rt_run *r;
    struct rt_span separator;
    int64_t width, left;
};

/* Returns the number of n-grams of a row of n strings. As in TensorFlow Text, a width of 0 gives as
 * many empty strings as a ragged row has strings, and a negative width gives nothing. */
static int64_t count_of(const struct joiner *j, int64_t n)
{
    if (j->width <= 0)
        return j->width == 0 ? n : 0;
    return n >= j->width ? n - j->width + 1 : 0;
}

/* Joins the strings at `from`. */
static enum rt_status join(struct joiner *j, const struct rt_str *from, struct rt_str *to)
{
    struct rt_run *r = j->r;
    size_t size = 0;
    bool fits = j->width < 2 || rt_mul_size((size_t)(j->width - 1), j->separator.n, &size);

    for (int64_t i = 0; i < j->width && fits; i++)
        fits = rt_add_size(size, from[i].n, &size);
    if (!fits)
        return rt_fail_memory(r->err, r->node->name, SIZE_MAX);
    char *p = rt_str_resize(to, rt_run_pool(r), size, r->err);
    enum rt_status st = p ? RT_OK : r->err->code;
    for (int64_t i = 0; i < j->width && !st; i++) {
        if (i > 0) {
            st = kn_copy_text(r, &j->left, p, (const char *)j->separator.p, j->separator.n);
            p += j->separator.n;
        }
        if (!st)
            st = kn_copy_text(r, &j->left, p, rt_str_data(&from[i]), from[i].n);
        p += from[i].n;
        if (!st)
            st = rt_run_spend(r, &j->left, KN_STRING_WORK);
    }
    return st ? st : rt_run_spend(r, &j->left, KN_STRING_WORK);
}

/* Joins the strings of a row that begins at `from`, and advances *to past its n-grams. */
static enum rt_status join_row(struct joiner *j, const struct rt_str *from, int64_t n,
                               struct rt_str **to)
{
    enum rt_status st = rt_run_spend(j->r, &j->left, 4);

    for (int64_t i = 0; i < count_of(j, n) && !st; i++)
        st = join(j, from + i, (*to)++);
    return st;
}

static enum rt_status join_dense(struct joiner *j)
{
    const struct rt_tensor *in = &j->r->in[0];
    int64_t dim[RT_MAX_RANK];

    if (in->rank < 1)
        return rt_fail(j->r->err, RT_INVALID_ARGUMENT, "%s: the strings must not be a scalar",
                       j->r->node->schema->name);
    if (j->width < 1) /* TensorFlow Text then damages its memory. */
        return rt_fail(j->r->err, RT_INVALID_ARGUMENT, "%s: width must be positive, not %lld",
                       j->r->node->schema->name, (long long)j->width);
    memcpy(dim, in->dim, sizeof dim);
    const int64_t n = in->dim[in->rank - 1], total = rt_tensor_count(in);
    dim[in->rank - 1] = count_of(j, n);
    struct rt_str *to = kn_out(j->r, 0, in->rank, dim);
    enum rt_status st = to ? RT_OK : j->r->err->code;
    for (int64_t i = 0; i < total && !st; i += n)
        st = join_row(j, rt_strs(in) + i, n, &to);
    return st;
}

/* Checks the innermost row splits, and writes those of the n-grams to the last output. TensorFlow
 * Text checks nothing, and reads beyond the strings in the cases that are refused. */
static enum rt_status put_splits(struct joiner *j, int k, int64_t *total)
{
    const struct rt_tensor *in = &j->r->in[k];
    const int64_t n = rt_tensor_count(in), n_strings = rt_tensor_count(&j->r->in[0]);
    int64_t at = 0;

    if (n == 0)
        return rt_fail(j->r->err, RT_INVALID_ARGUMENT, "%s: there are no row splits",
                       j->r->node->schema->name);
    if (!kn_out(j->r, k, 1, &n))
        return j->r->err->code;
    kn_put_int(&j->r->out[k], 0, 0);
    for (int64_t i = 1; i < n; i++) {
        const int64_t begin = kn_int_at(in, i - 1), end = kn_int_at(in, i);
        if (begin < 0 || end < begin || end > n_strings)
            return rt_fail(j->r->err, RT_INVALID_ARGUMENT,
                           "%s: a row from %lld to %lld, but there are %lld strings",
                           j->r->node->schema->name, (long long)begin, (long long)end,
                           (long long)n_strings);
        at += count_of(j, end - begin);
        kn_put_int(&j->r->out[k], i, at);
        if (rt_run_tick(j->r, i))
            return j->r->err->code;
    }
    *total = at;
    return RT_OK;
}

static enum rt_status join_ragged(struct joiner *j, int n_splits)
{
    struct rt_run *r = j->r;
    int64_t total = 0;
    enum rt_status st = RT_OK;

    for (int k = 1; k < n_splits && !st; k++) {
        const int64_t n = rt_tensor_count(&r->in[k]);
        void *to = kn_out(r, k, 1, &n);
        st = to ? kn_copy_run(r, r->in[k].dtype, to, r->in[k].data, n) : r->err->code;
    }
    if (!st && r->in[0].rank != 1)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: strings of shape %s are not a vector",
                     r->node->schema->name, KN_TEXT(&r->in[0]));
    if (!st)
        st = put_splits(j, n_splits, &total);
    struct rt_str *to = st ? NULL : rt_out(r, 0, 1, &total);
    if (!to)
        return r->err->code;
    const struct rt_tensor *splits = &r->in[n_splits];
    for (int64_t i = 1; i < rt_tensor_count(splits) && !st; i++) {
        const int64_t begin = kn_int_at(splits, i - 1);
        st = join_row(j, rt_strs(&r->in[0]) + begin, kn_int_at(splits, i) - begin, &to);
    }
    return st;
}

static enum rt_status run(struct rt_run *r)
{
    struct joiner j = {.r = r,
                       .separator = rt_attr_str(r->node, "string_separator"),
                       .width = rt_attr_int(r->node, "width"),
                       .left = RT_WORK};
    const int64_t axis = rt_attr_int(r->node, "axis");
    const int n_splits = (int)rt_attr_int(r->node, "RAGGED_RANK");

    if (axis != -1)
        return rt_fail(r->err, RT_INTERNAL, "axis != -1: %lld", (long long)axis);
    return n_splits ? join_ragged(&j, n_splits) : join_dense(&j);
}

const struct kn_entry kn_tf_text_ngrams_string_join = {
    .op = {.name = "TFText>NgramsStringJoin"},
    .kernels = KN_KERNELS(
        {.op = "TFText>NgramsStringJoin", .device = "CPU", .name = "ngrams_join", .run = run}),
};
