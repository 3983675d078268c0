/* RougeL of TensorFlow Text compares each row of a ragged tensor with a reference by the length of
 * their longest common subsequence. */
#include <math.h>

#include "kernels/entry.h"
#include "kernels/text/tokens.h"

enum { COST = 2 };

struct rows {
    struct rt_run *r;
    const struct rt_tensor *values, *splits;
    int64_t n_values;
};

/* Sets *begin and *end to the values of row i. TensorFlow Text does not check its row splits. */
static enum rt_status row(const struct rows *w, int64_t i, int64_t *begin, int64_t *end)
{
    *begin = kn_int_at(w->splits, i);
    *end = kn_int_at(w->splits, i + 1);
    if (*begin < 0 || *begin > *end || *end > w->n_values)
        return rt_fail(w->r->err, RT_INVALID_ARGUMENT,
                       "%s: row %lld has the splits %lld and %lld, but there are %lld values",
                       w->r->node->schema->name, (long long)i, (long long)*begin, (long long)*end,
                       (long long)w->n_values);
    return RT_OK;
}

static bool is_same(const struct rt_tensor *a, int64_t i, const struct rt_tensor *b, int64_t j,
                    struct kn_reader *reader)
{
    if (a->dtype != RT_STRING)
        return kn_int_at(a, i) == kn_int_at(b, j);
    const struct rt_str *s = &rt_strs(a)[i], *t = &rt_strs(b)[j];
    if (s->n != t->n)
        return false;
    *reader->left -= (int64_t)(s->n / 16);
    return kn_same_text(rt_str_data(s), rt_str_data(t), s->n, reader);
}

/* Finds the length of the longest common subsequence. `memory` is for the lengths of a line. */
static enum rt_status common(struct rt_run *r, int64_t *left, struct rt_bytes *memory,
                             const int64_t hyp[2], const int64_t ref[2], int64_t *length)
{
    const int64_t n = ref[1] - ref[0] + 1;
    struct kn_reader reader = {.r = r, .left = left};

    memory->n = 0;
    if (n > (int64_t)(SIZE_MAX / sizeof(int64_t)) / 2 ||
        !rt_bytes_reserve(memory, (size_t)n * sizeof(int64_t)))
        return kn_text_failed(memory);
    int64_t *line = (int64_t *)(void *)memory->p;
    for (int64_t j = 0; j < n; j++) {
        line[j] = 0;
        if (rt_run_spend(r, left, 1))
            return r->err->code;
    }
    for (int64_t i = hyp[0]; i < hyp[1]; i++) {
        int64_t diagonal = 0; /* the length for one value less on both sides */
        for (int64_t j = 1; j < n; j++) {
            const int64_t above = line[j];
            if (is_same(&r->in[0], i, &r->in[2], ref[0] + j - 1, &reader))
                line[j] = diagonal + 1;
            else if (line[j - 1] > above)
                line[j] = line[j - 1];
            diagonal = above;
            if (reader.st || rt_run_spend(r, left, COST))
                return r->err->code;
        }
    }
    *length = line[n - 1];
    return RT_OK;
}

/* Returns the weighted mean of precision p and recall r. A negative alpha stands for the weight of
 * the Document Understanding Conference, (p/r)^2. */
static float f_measure(float p, float r, float alpha)
{
    if (p <= 0 || r <= 0)
        return 0;
    if (alpha < 0) {
        const float beta = p / r, beta2 = beta * beta;
        return (1 + beta2) * r * p / (r + beta2 * p);
    }
    return p * r / (alpha * r + (1 - alpha) * p);
}

static enum rt_status check(struct rt_run *r, float *alpha)
{
    const int64_t n = rt_tensor_count(&r->in[1]), n_ref = rt_tensor_count(&r->in[3]);

    for (int k = 0; k < 4; k++)
        if (r->in[k].rank != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s %s must be a vector",
                           k < 2 ? "hypotheses" : "references", k % 2 ? "splits" : "values");
    if (n != n_ref)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "ref splits len=%lldmust equal hyp splits len=%lld", (long long)n_ref,
                       (long long)n);
    if (n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "ref splits len=0; must have at least 1 split");
    if (rt_tensor_count(&r->in[4]) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: alpha must be a scalar, not %s",
                       r->node->schema->name, KN_TEXT(&r->in[4]));
    *alpha = *(const float *)r->in[4].data;
    if (!(*alpha <= 1))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "alpha must be <1 but was=%g", (double)*alpha);
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    const struct rows hyp = {r, &r->in[0], &r->in[1], rt_tensor_count(&r->in[0])};
    const struct rows ref = {r, &r->in[2], &r->in[3], rt_tensor_count(&r->in[2])};
    const int64_t n = rt_tensor_count(&r->in[1]) - 1;
    int64_t left = RT_WORK;
    struct rt_bytes memory;
    float *to[3] = {NULL}, alpha = 0;
    enum rt_status st = check(r, &alpha);

    for (int k = 0; k < 3 && !st; k++) {
        to[k] = kn_out(r, k, 1, &n);
        st = to[k] ? RT_OK : r->err->code;
    }
    kn_text_begin(&memory, r);
    for (int64_t i = 0; i < n && !st; i++) {
        int64_t h[2], f[2], length = 0;
        st = row(&hyp, i, &h[0], &h[1]);
        if (!st)
            st = row(&ref, i, &f[0], &f[1]);
        if (!st)
            st = common(r, &left, &memory, h, f, &length);
        if (st)
            break;
        to[1][i] = h[1] > h[0] ? (float)length / (float)(h[1] - h[0]) : 0;
        to[2][i] = f[1] > f[0] ? (float)length / (float)(f[1] - f[0]) : 0;
        to[0][i] = f_measure(to[1][i], to[2][i], alpha);
        st = rt_run_spend(r, &left, 16);
    }
    kn_text_end(&memory);
    return st;
}

const struct kn_entry kn_rouge_l = {
    .op = {.name = "RougeL"},
    .kernels = KN_KERNELS({.op = "RougeL",
                           .device = "CPU",
                           .name = "rouge_l",
                           .types = RT_T(RT_STRING) | RT_T(RT_I32) | RT_T(RT_I64),
                           .type_attr = "Tvalues",
                           .run = run}),
};
