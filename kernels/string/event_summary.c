/* ScalarSummary, HistogramSummary and TensorSummary write the bytes of a Summary message, which
 * TensorBoard reads. */
#include <float.h>
#include <math.h>

#include "kernels/cpu/types.h"
#include "kernels/parsing/tensor_bytes.h"
#include "kernels/string/each.h"
#include "kernels/string/summary_bytes.h"

/* Fields of Summary.Value and HistogramProto, as tags of the wire format: number * 8 + wire type.
 */
enum {
    SIMPLE_VALUE = 0x15,
    HISTOGRAM = 0x2a,
    NODE_NAME = 0x3a,
    TENSOR = 0x42,
    MIN = 0x09,
    MAX = 0x11,
    NUM = 0x19,
    SUM = 0x21,
    SUM_SQUARES = 0x29,
    BUCKET_LIMIT = 0x32,
    BUCKET = 0x3a,
};
/* Makes a function that returns element i of a tensor of real numbers or booleans. A conversion to
 * float by way of double would round large integers twice. */
#define CONVERTED(dt, T, to)                                                                       \
    case dt:                                                                                       \
        return (to)KN_GET(dt, ((const T *)t->data)[i]);
#define ELEMENT(name, to)                                                                          \
    static to name(const struct rt_tensor *t, int64_t i)                                           \
    {                                                                                              \
        switch (kn_dtype(t)) {                                                                     \
            KN_FOR_REALS(CONVERTED, to)                                                            \
            CONVERTED(RT_BOOL, bool, to)                                                           \
        default:                                                                                   \
            return 0;                                                                              \
        }                                                                                          \
    }
ELEMENT(float_at, float)
ELEMENT(double_at, double)

static void put_tag(struct rt_bytes *b, struct rt_span tag)
{
    if (!tag.n) /* the serializer leaves out the default value */
        return;
    kn_put_length(b, KN_SUMMARY_TAG, tag.n);
    rt_bytes_add(b, tag.p, tag.n);
}

static size_t tag_size(struct rt_span tag)
{
    return tag.n ? kn_field_size(tag.n) : 0;
}

/* ---- ScalarSummary ---- */

static enum rt_status check_scalars(struct rt_run *r)
{
    const struct rt_tensor *tags = &r->in[0], *values = &r->in[1];
    const struct rt_str *tag = rt_tensor_count(tags) == 1 ? rt_strs(tags) : NULL;
    const int n = tag && tag->n < 256 ? (int)tag->n : 256;

    if (tags->rank == values->rank &&
        (!tags->rank || !memcmp(tags->dim, values->dim, (size_t)tags->rank * sizeof tags->dim[0])))
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "tags and values are not the same shape: %s != %s%s%.*s%s", KN_TEXT(tags),
                   KN_TEXT(values), tag ? " (tag '" : "", tag ? n : 0, tag ? rt_str_data(tag) : "",
                   tag ? "')" : "");
}

void kn_put_scalar_value(struct rt_bytes *b, struct rt_span tag, const struct rt_tensor *numbers,
                         int64_t i)
{
    enum { FLOAT_FIELD = 5 };
    const float v = float_at(numbers, i);

    kn_put_length(b, KN_SUMMARY_VALUE, tag_size(tag) + FLOAT_FIELD);
    put_tag(b, tag);
    rt_bytes_addc(b, SIMPLE_VALUE);
    rt_bytes_add(b, &v, sizeof v);
}

static enum rt_status scalar_run(struct rt_run *r)
{
    const struct rt_str *tag = rt_strs(&r->in[0]);
    int64_t left = RT_WORK;
    struct rt_bytes b;
    enum rt_status st = check_scalars(r);

    if (st)
        return st;
    kn_text_begin(&b, r);
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]) && !st && !b.failed; i++) {
        kn_put_scalar_value(&b, rt_span_of(rt_str_data(&tag[i]), tag[i].n), &r->in[1], i);
        st = kn_spend_string(r, &left, tag[i].n);
    }
    if (!st)
        return kn_put_summary(r, &b);
    kn_text_end(&b);
    return st;
}

/* ---- HistogramSummary ---- */

/* The limits of TensorFlow's buckets: 0, and 1e-12, 1.1e-12, ... below 1e20 with both signs. */
enum { N_SIDE = 774, N_LIMITS = 2 * (N_SIDE + 1) + 1 };

struct histogram {
    double limit[N_LIMITS], count[N_LIMITS];
    double min, max, num, sum, sum_squares;
};

static void histogram_begin(struct histogram *h)
{
    const int zero = N_SIDE + 1;
    int k = 1;

    *h = (struct histogram){.min = DBL_MAX, .max = -DBL_MAX};
    for (double v = 1e-12; v < 1e20 && k <= N_SIDE; v *= 1.1, k++) {
        h->limit[zero + k] = v;
        h->limit[zero - k] = -v;
    }
    h->limit[zero + k] = DBL_MAX;
    h->limit[zero - k] = -DBL_MAX;
}

static void histogram_add(struct histogram *h, double v)
{
    int low = 0, n = N_LIMITS - 1; /* the first limit above v is in [low, low + n] */

    while (n > 0) {
        const int half = n / 2;
        if (h->limit[low + half] <= v) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    h->count[low]++;
    h->min = v < h->min ? v : h->min;
    h->max = v > h->max ? v : h->max;
    h->num++;
    h->sum += v;
    h->sum_squares += v * v;
}

/* Replaces each run of empty buckets by its last one, and returns the number of buckets. */
static int collapse(struct histogram *h)
{
    int n = 0;

    for (int k = 0; k < N_LIMITS; k++) {
        const bool joins = n > 0 && h->count[k] <= 0 && h->count[n - 1] <= 0;
        n -= joins;
        h->limit[n] = h->limit[k];
        h->count[n++] = h->count[k];
    }
    return n;
}

static void put_double(struct rt_bytes *b, char tag, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    if (!bits) /* the serializer leaves out the default value */
        return;
    rt_bytes_addc(b, tag);
    rt_bytes_add(b, &v, sizeof v);
}

static void put_histogram(struct rt_bytes *b, struct histogram *h)
{
    const size_t bytes = (size_t)collapse(h) * sizeof(double);

    put_double(b, MIN, h->min);
    put_double(b, MAX, h->max);
    put_double(b, NUM, h->num);
    put_double(b, SUM, h->sum);
    put_double(b, SUM_SQUARES, h->sum_squares);
    kn_put_length(b, BUCKET_LIMIT, bytes);
    rt_bytes_add(b, h->limit, bytes);
    kn_put_length(b, BUCKET, bytes);
    rt_bytes_add(b, h->count, bytes);
}

/* Refuses a number that has no bucket. */
static enum rt_status fail_number(struct rt_run *r, double v, const char *what, struct rt_span name)
{
    const int n = name.n < 256 ? (int)name.n : 256;

    return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s in %s for: %.*s", isnan(v) ? "Nan" : "Infinity",
                   isnan(v) ? "summary histogram" : what, n, (const char *)name.p);
}

static enum rt_status histogram_fill(struct rt_run *r, struct histogram *h,
                                     const struct rt_tensor *numbers, const char *what,
                                     struct rt_span name)
{
    enum { WORK = 32 };
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    histogram_begin(h);
    for (int64_t i = 0; i < rt_tensor_count(numbers) && !st; i++) {
        const double v = double_at(numbers, i);
        if (!isfinite(v))
            return fail_number(r, v, what, name);
        histogram_add(h, v);
        st = rt_run_spend(r, &left, WORK);
    }
    return st;
}

enum rt_status kn_put_histogram_value(struct rt_run *r, struct rt_bytes *b, struct rt_span tag,
                                      const struct rt_tensor *numbers, const char *what,
                                      struct rt_span name)
{
    struct histogram *h = rt_scratch(r, sizeof *h);
    enum rt_status st = h ? histogram_fill(r, h, numbers, what, name) : r->err->code;
    struct rt_bytes inner;

    if (st)
        return st;
    kn_text_begin(&inner, r);
    put_histogram(&inner, h);
    if (inner.failed)
        st = kn_text_failed(&inner);
    kn_put_length(b, KN_SUMMARY_VALUE, tag_size(tag) + kn_field_size(inner.n));
    put_tag(b, tag);
    kn_put_length(b, HISTOGRAM, inner.n);
    rt_bytes_add(b, inner.p, inner.n);
    kn_text_end(&inner);
    return st;
}

static enum rt_status histogram_run(struct rt_run *r)
{
    const struct rt_str *tag = rt_strs(&r->in[0]);
    const char *name = r->node->name;
    struct rt_bytes b;

    if (r->in[0].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "tags must be scalar");
    kn_text_begin(&b, r);
    const enum rt_status st =
        kn_put_histogram_value(r, &b, rt_span_of(rt_str_data(tag), tag->n), &r->in[1], "Histogram",
                               rt_span_of(name, strlen(name)));
    if (!st)
        return kn_put_summary(r, &b);
    kn_text_end(&b);
    return st;
}

/* ---- TensorSummary ---- */

static enum rt_status tensor_run(struct rt_run *r)
{
    const size_t n_name = strlen(r->node->name);
    struct rt_str tensor = {0};
    struct rt_bytes b;
    enum rt_status st = kn_tensor_to_bytes(r, &r->in[0], KN_STRING_FIELD, &tensor);

    if (!st) {
        kn_text_begin(&b, r);
        kn_put_length(&b, KN_SUMMARY_VALUE, kn_field_size(n_name) + kn_field_size(tensor.n));
        st = kn_put_bytes(r, &b, NODE_NAME, r->node->name, n_name);
        if (!st)
            st = kn_put_bytes(r, &b, TENSOR, rt_str_data(&tensor), tensor.n);
        if (!st)
            st = kn_put_summary(r, &b);
        else
            kn_text_end(&b);
    }
    rt_str_clear(&tensor);
    return st;
}

/* every type but those of objects, whose elements are pointers */
#define DATA (~(RT_T(RT_RESOURCE) | RT_T(RT_VARIANT)))

#define SUMMARY(symbol, op_, effect_, types_, run_)                                                \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = (effect_), .infer = kn_infer_scalars},                     \
        .kernels = KN_CPU(op_, #symbol, types_, NULL, run_),                                       \
    };
SUMMARY(histogram_summary, "HistogramSummary", RT_PURE, KN_SET(KN_REALS), histogram_run)
SUMMARY(scalar_summary, "ScalarSummary", RT_PURE, KN_SET(KN_REALS), scalar_run)
/* The message has the name of the node, so equal nodes must not be merged. */
SUMMARY(tensor_summary, "TensorSummary", RT_IO, DATA, tensor_run)
