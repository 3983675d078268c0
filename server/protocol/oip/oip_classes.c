/* Replaces an output by the classes with the highest values. This is Triton's extension
 * `classification` of the protocol. A class is the text "VALUE:INDEX", or
 * "VALUE:INDEX:LABEL" if the model has a label for it. */
#include "server/protocol/oip/oip.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/triton/triton_labels.h"

enum {
    MOST_CLASSES = 1000000, /* maximum number of classes in a response, over all outputs */
    TEXT_BYTES = 400,       /* the largest double has 309 digits before the decimal point */
    ROW_PART = 1 << 16,     /* number of values between two checks for cancellation */
    /* Number of written bytes that take as long as a call of sift, or as converting a byte of a
     * class to text (see cancellation.h). */
    SIFT_BYTES = 64,
    CONVERSION_BYTES = 16,
};

/* A type that represents every integer of 64 bits exactly. */
typedef long double value;

static value value_at(const struct rt_tensor *t, int64_t i)
{
    switch ((enum rt_dtype)t->dtype) {
    case RT_U8:
        return ((const uint8_t *)t->data)[i];
    case RT_U16:
        return ((const uint16_t *)t->data)[i];
    case RT_U32:
        return ((const uint32_t *)t->data)[i];
    case RT_U64:
        return ((const uint64_t *)t->data)[i];
    case RT_I8:
        return ((const int8_t *)t->data)[i];
    case RT_I16:
        return ((const int16_t *)t->data)[i];
    case RT_I32:
        return ((const int32_t *)t->data)[i];
    case RT_I64:
        return ((const int64_t *)t->data)[i];
    case RT_F32:
        return ((const float *)t->data)[i];
    case RT_F64:
        return ((const double *)t->data)[i];
    default:
        return 0;
    }
}

bool srv_oip_has_classes(enum rt_dtype dtype)
{
    return dtype != RT_BOOL && dtype != RT_F16 && dtype != RT_BF16 && dtype != RT_STRING;
}

/* A value and its index in its row. */
struct class
{
    value value;
    int64_t index;
};

/* Returns whether `a` comes before `b`: higher values first, NaN last, and among equal values the
 * lower index first. */
static bool is_before(const struct class *a, const struct class *b)
{
    if (isnan(a->value) || isnan(b->value))
        return isnan(a->value) == isnan(b->value) ? a->index < b->index : isnan(b->value);
    return a->value != b->value ? a->value > b->value : a->index < b->index;
}

/* Moves element i of a heap down until the heap is ordered. The top of the heap is the class that
 * comes last in the order of is_before. */
static void sift(struct class *heap, int64_t n, int64_t i)
{
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_before(&heap[child], &heap[child + 1]))
            child++;
        if (!is_before(&heap[i], &heap[child]))
            return;
        const struct class c = heap[i];
        heap[i] = heap[child];
        heap[child] = c;
    }
}

/* Selects the first `n` classes of the `n_row` values at `begin`, in the order of is_before, and
 * stores them in `top` in this order. Stops when the response is cancelled. */
static void choose(const struct rt_tensor *t, int64_t begin, int64_t n_row, struct class *top,
                   int64_t n, struct srv_cancellation *cancellation)
{
    for (int64_t i = 0; i < n; i++)
        top[i] = (struct class){value_at(t, begin + i), i};
    for (int64_t i = n / 2; i-- > 0 && srv_should_continue(cancellation, SIFT_BYTES);)
        sift(top, n, i);
    for (int64_t i = n; i < n_row; i++) {
        const struct class c = {value_at(t, begin + i), i};
        if (i % ROW_PART == 0 && !srv_should_continue(cancellation, ROW_PART))
            return;
        if (!is_before(&c, &top[0]))
            continue;
        if (!srv_should_continue(cancellation, SIFT_BYTES))
            return;
        top[0] = c;
        sift(top, n, 0);
    }
    for (int64_t last = n; last-- > 1 && srv_should_continue(cancellation, SIFT_BYTES);) {
        const struct class c = top[0];
        top[0] = top[last];
        top[last] = c;
        sift(top, last, 0);
    }
}

/* Writes a class in Triton's form. A floating-point value has 6 digits after the decimal point. */
static enum rt_status write_class(const struct rt_tensor *t, const struct class *c,
                                  struct rt_span label, struct srv_cancellation *cancellation,
                                  struct srv_allowance *allowance, struct rt_str *out,
                                  struct rt_error *err)
{
    const bool is_float = t->dtype == RT_F32 || t->dtype == RT_F64;
    char text[TEXT_BYTES];
    const int n = snprintf(text, sizeof text, is_float ? "%.6Lf:%lld" : "%.0Lf:%lld", c->value,
                           (long long)c->index);
    const size_t n_text = (size_t)n, n_all = n_text + (label.n ? 1 + label.n : 0);
    enum rt_status st = srv_allowance_take(allowance, rt_str_counted_bytes(n_all), err);
    char *p = st ? NULL : rt_str_resize(out, NULL, n_all, err);

    if (!p)
        return err->code;
    memcpy(p, text, n_text);
    if (label.n) {
        p[n_text] = ':';
        memcpy(p + n_text + 1, label.p, label.n);
    }
    return srv_should_continue(cancellation, n_text * CONVERSION_BYTES + label.n)
               ? RT_OK
               : srv_cancellation_status(cancellation, err);
}

/* Computes the classes of a tensor. If the signature does not fix the first dimension, it is the
 * batch dimension, and each row has its own classes. Otherwise the whole tensor is one row.
 * Subtracts the number of classes from *left, which must not become negative. */
static enum rt_status make(const struct srv_inference *inf, const struct rt_tensor *t,
                           const struct rt_tensor_spec *spec, uint64_t n_wanted, int64_t *left,
                           struct rt_tensor *out, struct rt_error *err)
{
    struct srv_cancellation cancellation = srv_job_cancellation(inf->job);
    /* the response is charged to the same request as the tensors */
    struct srv_allowance allowance = {.left = SIZE_MAX,
                                      .budget = inf->allowance.budget,
                                      .own = inf->allowance.own,
                                      .what = "the response as classes"};
    const struct rt_shape *shape = &spec->shape;
    const struct srv_triton_labels *labels =
        srv_triton_labels(inf->job->version->triton, inf->job->signature->def->name, spec->alias);
    const bool has_rows = t->rank > 0 && (shape->rank < 0 ? t->rank > 1 : shape->dim[0] < 0);
    const int64_t n_rows = has_rows ? t->dim[0] : 1;
    const int64_t n_row = n_rows ? rt_tensor_count(t) / n_rows : 0;
    const int64_t n = n_wanted < (uint64_t)n_row ? (int64_t)n_wanted : n_row;
    const int64_t dim[2] = {has_rows ? n_rows : n, n};

    if (n && n_rows > *left / n)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "the parameter classification asks for more than %d classes", MOST_CLASSES);
    *left -= n_rows * n;
    /* Both products are small, because MOST_CLASSES limits n and n_rows * n. */
    const size_t top_bytes = ((size_t)n + 1) * sizeof(struct class);
    enum rt_status st = srv_allowance_take(
        &allowance, top_bytes + (size_t)(n_rows * n) * sizeof(struct rt_str), err);
    if (st)
        return st;
    struct class *top = calloc((size_t)n + 1, sizeof *top);
    st = top ? rt_tensor_new(out, NULL, RT_STRING, has_rows ? 2 : 1, dim, err)
             : rt_fail_memory(err, "classes", (size_t)n * sizeof *top);
    struct rt_str *to = st ? NULL : out->data;
    for (int64_t row = 0; !st && n && row < n_rows; row++) {
        choose(t, row * n_row, n_row, top, n, &cancellation);
        st = srv_cancellation_status(&cancellation, err);
        for (int64_t i = 0; i < n && !st; i++)
            st = write_class(t, &top[i], srv_triton_label(labels, top[i].index), &cancellation,
                             &allowance, to++, err);
    }
    free(top);
    srv_allowance_give(&allowance, top_bytes);
    return st;
}

enum rt_status srv_oip_make_classes(const struct srv_inference *inf, struct rt_error *err)
{
    struct srv_oip_request *r = inf->request;
    const struct rt_signature *sig = inf->job->signature->def;
    int64_t left = MOST_CLASSES;
    enum rt_status st = RT_OK;

    for (int i = 0; i < r->n_order && !st; i++) {
        const int k = r->order[i];
        const uint64_t n = r->order_output[i] ? r->order_output[i]->n_classes : 0;
        if (!n)
            continue;
        if (!r->classes)
            r->classes = rt_arena_array(inf->arena, (size_t)r->n_order, sizeof *r->classes);
        st = r->classes
                 ? make(inf, &inf->job->fetches[k], &sig->outputs[k], n, &left, &r->classes[i], err)
                 : rt_fail_memory(err, "classes", 0);
    }
    return st;
}

void srv_oip_clear_classes(struct srv_inference *inf)
{
    const struct srv_oip_request *r = inf->request;

    for (int i = 0; r && r->classes && i < r->n_order; i++)
        if (r->classes[i].data)
            rt_tensor_clear(&r->classes[i]);
}

const struct rt_tensor *srv_oip_result(const struct srv_inference *inf, int i)
{
    const struct srv_oip_request *r = inf->request;
    const bool is_classes = r->classes && r->order_output[i] && r->order_output[i]->n_classes;

    return is_classes ? &r->classes[i] : &inf->job->fetches[r->order[i]];
}
