/*
 * CTCLoss: Graves et al., "Connectionist temporal classification", 2006. The loss is the negative
 * logarithm of the probability of all paths that yield the labels. The forward-backward algorithm
 * computes the loss and the gradient with respect to the logits, on the sequence of labels with
 * blanks between them. The probabilities of paths are stored as logarithms.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/nn/ctc.h"
#include "runtime/base/checked.h"

enum { COST = 32 }; /* work of adding two probabilities in log space */

struct labels {
    const int32_t *given;
    int64_t n_given;
    int32_t *label; /* the labels with blanks before, between and after them */
    int64_t n;
};

/* Does not refuse shapes that do not match: check_shapes refuses them when the op runs, with the
 * messages of TensorFlow's kernel. */
static enum rt_status loss_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;

    if (in->rank != 3)
        return RT_OK;
    x->out[0].shape = (struct rt_shape){.rank = 1, .dim = {in->dim[1]}};
    x->out[1].shape = *in;
    return RT_OK;
}

static enum rt_status check_shapes(struct rt_run *r, struct kn_ctc *c)
{
    const struct rt_tensor *x = &r->in[0], *at = &r->in[1], *value = &r->in[2], *len = &r->in[3];

    if (x->rank != 3)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "inputs is not a 3-Tensor");
    if (len->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "sequence_length is not a vector");
    if (at->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "labels_indices is not a matrix");
    if (at->dim[1] < 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "labels_indices second dimension must be >= 1. Received %lld",
                       (long long)at->dim[1]);
    if (value->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "labels_values is not a vector");
    *c = (struct kn_ctc){x->dim[0], x->dim[1], x->dim[2], len->data};
    if (c->max_time == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Max time or first dimension of input cannot be 0.");
    if (len->dim[0] != c->batch)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "len(sequence_length) != batch_size.  len(sequence_length):  %lld "
                       "batch_size: %lld",
                       (long long)len->dim[0], (long long)c->batch);
    if (c->batch == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "batch_size must not be 0");
    if (at->dim[0] != value->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "labels_indices and labels_values must contain the same number of rows, but "
                       "saw shapes: %s vs. %s",
                       KN_TEXT(at), KN_TEXT(value));
    if (at->dim[1] != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Order length must be SparseTensor rank.");
    return RT_OK;
}

/* Checks that the indices of the labels are sorted and belong to elements of the batch. Sets n[b]
 * to the number of labels of element b. */
static enum rt_status check_indices(struct rt_run *r, const struct kn_ctc *c, int64_t *n)
{
    static const char invalid[] = "label SparseTensor is not valid: indices";
    const int64_t *at = r->in[1].data, rows = r->in[1].dim[0];
    int64_t longest = 0;

    for (int64_t k = 0; k < rows; k++) {
        longest = at[2 * k + 1] >= longest ? rt_add_saturated(at[2 * k + 1], 1) : longest;
        if (rt_run_tick(r, k))
            return r->err->code;
    }
    for (int64_t k = 0; k < rows; k++, at += 2) {
        if (at[0] < 0 || at[0] >= c->batch || at[1] < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%s[%lld] = [%lld,%lld] is out of bounds: need 0 <= index < "
                           "[%lld,%lld]",
                           invalid, (long long)k, (long long)at[0], (long long)at[1],
                           (long long)c->batch, (long long)longest);
        const int64_t order = k == 0 ? 1 : at[0] != at[-2] ? at[0] - at[-2] : at[1] - at[-1];
        if (order < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%s[%lld] = [%lld,%lld] is out of order. Many sparse ops require sorted "
                           "indices.\n    Use `tf.sparse.reorder` to create a correctly ordered "
                           "copy.\n\n",
                           invalid, (long long)k, (long long)at[0], (long long)at[1]);
        if (order == 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s[%lld] = [%lld,%lld] is repeated",
                           invalid, (long long)k, (long long)at[0], (long long)at[1]);
        n[at[0]]++;
        if (rt_run_tick(r, k))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status check_lengths(struct rt_run *r, const struct kn_ctc *c, const int64_t *n)
{
    for (int64_t b = 0; b < c->batch; b++) {
        if (c->length[b] < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "seq_len(%lld) < 0", (long long)b);
        if (c->length[b] > c->max_time)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "sequence_length(%lld) <= %lld",
                           (long long)b, (long long)c->max_time);
        if (rt_run_tick(r, b))
            return r->err->code;
    }
    for (int64_t b = 0; b < c->batch; b++)
        if (n[b] == 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Labels length is zero in batch %lld",
                           (long long)b);
    return RT_OK;
}

/* Formats labels for error messages, as "1, 2". */
static const char *labels_text(char *buf, size_t n, const int32_t *label, int64_t n_labels,
                               int64_t step)
{
    size_t len = 0;

    buf[0] = 0;
    for (int64_t i = 0; i < n_labels && len < n; i++)
        len += (size_t)snprintf(buf + len, n - len, "%s%d", i ? "," : "", label[i * step]);
    return buf;
}

/* Reads the labels of batch element b. Removes blanks at the end, merges repeated labels if the
 * node requests it, and inserts blanks. */
static enum rt_status read_labels(struct rt_run *r, const struct kn_ctc *c, int64_t b,
                                  struct labels *l)
{
    const bool collapses = rt_attr_bool(r->node, "preprocess_collapse_repeated");
    const int32_t *given = l->given;
    const int64_t blank = c->classes - 1;
    char text[256], seen[256];
    bool is_over = false;

    l->n = 0;
    l->label[l->n++] = (int32_t)blank;
    for (int64_t i = 0; i < l->n_given; i++) {
        if (collapses && i > 0 && given[i] == given[i - 1])
            continue;
        if (given[i] >= blank) {
            is_over = true;
            continue;
        }
        if (is_over)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Saw a non-null label (index >= num_classes - 1) following a null "
                           "label, batch: %lld num_classes: %lld labels: %s labels seen so far: %s",
                           (long long)b, (long long)c->classes,
                           labels_text(text, sizeof text, given, l->n_given, 1),
                           labels_text(seen, sizeof seen, l->label + 1, l->n / 2, 2));
        l->label[l->n++] = given[i];
        l->label[l->n++] = (int32_t)blank;
    }
    for (int64_t u = 1; u < l->n; u += 2)
        if (l->label[u] < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "All labels must be nonnegative integers, batch: %lld labels: %s",
                           (long long)b, labels_text(text, sizeof text, given, l->n_given, 1));
    if (l->n_given > c->length[b] && !rt_attr_bool(r->node, "ignore_longer_outputs_than_inputs"))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Not enough time for target transition sequence (required: %lld, available: "
                       "%d)%lldYou can turn this error into a warning by using the flag "
                       "ignore_longer_outputs_than_inputs",
                       (long long)l->n_given, c->length[b], (long long)b);
    return rt_run_spend(r, &r->left, 4 * l->n_given);
}

#define LOSS(dt, T, EXP, LOG, LOG1P)                                                               \
    static T add_logs_##dt(T a, T b)                                                               \
    {                                                                                              \
        const T hi = a > b ? a : b, lo = a > b ? b : a;                                            \
        return lo == (T)-INFINITY ? hi : hi + LOG1P(EXP(lo - hi));                                 \
    }                                                                                              \
    static enum rt_status softmax_##dt(struct rt_run *r, const T *x, T *y, int64_t n)              \
    {                                                                                              \
        T hi = x[0], sum = 0;                                                                      \
        for (int64_t k = 1; k < n; k++) {                                                          \
            hi = x[k] > hi ? x[k] : hi;                                                            \
            if (rt_run_spend(r, &r->left, 1))                                                      \
                return r->err->code;                                                               \
        }                                                                                          \
        for (int64_t k = 0; k < n; k++) {                                                          \
            y[k] = EXP(x[k] - hi);                                                                 \
            sum += y[k];                                                                           \
            if (rt_run_spend(r, &r->left, COST))                                                   \
                return r->err->code;                                                               \
        }                                                                                          \
        for (int64_t k = 0; k < n; k++)                                                            \
            y[k] /= sum;                                                                           \
        return rt_run_spend(r, &r->left, n);                                                       \
    }                                                                                              \
    /* Returns the probability of reaching position u in one time step. A path comes from          \
     * position u itself, or from one of the next two positions in the direction of `step`.        \
     * `from` contains the probabilities before the step. */                                       \
    static T reach_##dt(const T *from, const struct labels *l, int64_t u, int64_t step,            \
                        bool merges)                                                               \
    {                                                                                              \
        const int64_t blank = l->label[0], one = u + step, two = u + 2 * step;                     \
        T sum = merges || l->label[u] == blank ? from[u] : (T)-INFINITY;                           \
        if (one >= 0 && one < l->n)                                                                \
            sum = add_logs_##dt(sum, from[one]);                                                   \
        if (two >= 0 && two < l->n && l->label[u] != blank &&                                      \
            !(merges && l->label[u] == l->label[two]))                                             \
            sum = add_logs_##dt(sum, from[two]);                                                   \
        return sum;                                                                                \
    }                                                                                              \
    static enum rt_status loss_##dt(struct rt_run *r, const struct kn_ctc *c, int64_t b,           \
                                    const struct labels *l, void *work)                            \
    {                                                                                              \
        const bool merges = rt_attr_bool(r->node, "ctc_merge_repeated");                           \
        const int64_t n_time = c->length[b], n = c->classes, line = c->batch * n;                  \
        T *grad = (T *)r->out[1].data + b * n, *alpha = work, *beta = alpha + n_time * l->n;       \
        T *next = beta + l->n, *sum = next + l->n, found = (T)-INFINITY;                           \
        const T *x = (const T *)r->in[0].data + b * n;                                             \
        for (int64_t t = 0; t < n_time; t++) {                                                     \
            T *y = grad + t * line, *row = alpha + t * l->n;                                       \
            if (softmax_##dt(r, x + t * line, y, n))                                               \
                return r->err->code;                                                               \
            for (int64_t u = 0; u < l->n; u++) {                                                   \
                const T came = t == 0 ? (u < 2 ? 0 : (T)-INFINITY)                                 \
                                      : reach_##dt(row - l->n, l, u, -1, merges);                  \
                row[u] = came + LOG(y[l->label[u]]);                                               \
                if (rt_run_spend(r, &r->left, 3 * COST))                                           \
                    return r->err->code;                                                           \
            }                                                                                      \
        }                                                                                          \
        const T *last = alpha + (n_time - 1) * l->n;                                               \
        found = add_logs_##dt(last[l->n - 1], l->n > 1 ? last[l->n - 2] : (T)-INFINITY);           \
        ((T *)r->out[0].data)[b] = -found;                                                         \
        for (int64_t t = n_time; t-- > 0 && found != (T)-INFINITY;) {                              \
            T *y = grad + t * line;                                                                \
            for (int64_t k = 0; k < n && found != found; k++)                                      \
                y[k] = found;                                                                      \
            for (int64_t u = 0; u < l->n; u++)                                                     \
                sum[l->label[u]] = (T)-INFINITY;                                                   \
            for (int64_t u = 0; u < l->n; u++) {                                                   \
                beta[u] = t == n_time - 1 ? (u >= l->n - 2 ? 0 : (T)-INFINITY)                     \
                                          : reach_##dt(next, l, u, 1, merges);                     \
                T *s = &sum[l->label[u]];                                                          \
                *s = add_logs_##dt(*s, alpha[t * l->n + u] + beta[u]);                             \
                if (rt_run_spend(r, &r->left, 4 * COST))                                           \
                    return r->err->code;                                                           \
            }                                                                                      \
            for (int64_t u = 0; u < l->n; u++)                                                     \
                next[u] = beta[u] + LOG(y[l->label[u]]);                                           \
            for (int64_t u = 0; u < l->n; u++) {                                                   \
                T *s = &sum[l->label[u]];                                                          \
                y[l->label[u]] -= EXP(*s - found);                                                 \
                *s = (T)-INFINITY;                                                                 \
            }                                                                                      \
            if (rt_run_spend(r, &r->left, 2 * COST * l->n + n))                                    \
                return r->err->code;                                                               \
        }                                                                                          \
        return RT_OK;                                                                              \
    }
LOSS(RT_F32, float, expf, logf, log1pf)
LOSS(RT_F64, double, exp, log, log1p)

/* Computes the loss of each batch element. `n` holds the numbers of labels, and `label` has space
 * for the longest labels with their blanks. */
static enum rt_status loss_each(struct rt_run *r, const struct kn_ctc *c, const int64_t *n,
                                struct labels *l)
{
    const bool is_float = r->in[0].dtype == RT_F32;
    const size_t size = is_float ? sizeof(float) : sizeof(double);
    const int32_t *value = r->in[2].data;
    enum rt_status st = RT_OK;

    for (int64_t b = 0; b < c->batch && !st; b++, value += l->n_given) {
        size_t table, bytes;
        l->given = value;
        l->n_given = n[b];
        st = read_labels(r, c, b, l);
        if (st || c->length[b] == 0 || l->n_given > c->length[b])
            continue;
        if (!rt_mul_size((size_t)c->length[b] + 2, (size_t)l->n, &table) ||
            !rt_add_size(table, (size_t)c->classes, &table) || !rt_mul_size(table, size, &bytes))
            return rt_fail(r->err, RT_RESOURCE_EXHAUSTED, "CTCLoss: too many labels");
        void *work = rt_run_alloc(r, bytes);
        if (!work)
            return r->err->code;
        st = is_float ? loss_RT_F32(r, c, b, l, work) : loss_RT_F64(r, c, b, l, work);
        rt_pool_free(work);
    }
    return st;
}

static enum rt_status loss_run(struct rt_run *r)
{
    struct kn_ctc c;
    struct labels l = {0};
    int64_t longest = 0;
    enum rt_status st = check_shapes(r, &c);

    if (st)
        return st;
    void *loss = kn_out(r, 0, 1, &c.batch);
    void *grad = loss ? kn_out(r, 1, 3, r->in[0].dim) : NULL;
    int64_t *n = grad ? rt_run_alloc(r, (size_t)c.batch * sizeof *n) : NULL;
    if (!n)
        return r->err->code;
    memset(loss, 0, rt_tensor_bytes(&r->out[0]));
    st = kn_zero_chunks(r, grad, rt_tensor_bytes(&r->out[1]));
    st = st ? st : check_indices(r, &c, n);
    st = st ? st : check_lengths(r, &c, n);
    if (!st && c.classes == 0)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "inputs must have at least one class");
    if (!st && c.classes > INT32_MAX)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "num_classes cannot exceed max int");
    for (int64_t b = 0; b < c.batch && !st; b++)
        longest = n[b] > longest ? n[b] : longest;
    l.label = st ? NULL : rt_run_alloc(r, (2 * (size_t)longest + 1) * sizeof *l.label);
    st = l.label ? loss_each(r, &c, n, &l) : r->err->code;
    rt_pool_free(l.label);
    rt_pool_free(n);
    return st;
}

const struct kn_entry kn_ctc_loss = {
    .op = {.name = "CTCLoss", .infer = loss_infer},
    .kernels = KN_CPU("CTCLoss", "ctc_loss", KN_SET(KN_FLOATS), NULL, loss_run),
};
