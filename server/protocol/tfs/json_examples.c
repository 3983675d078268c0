#include "server/protocol/tfs/json_examples.h"

#include <string.h>

#include "server/json/json_number.h"
#include "server/base/wire.h"

/* The kinds of values in a Feature. Each number is the kind's field number in the Feature
 * message. */
enum kind { UNSET = 0, BYTES_LIST = 1, FLOAT_LIST = 2, INT64_LIST = 3 };

struct feature {
    enum kind kind;
    char name[256];
    struct rt_bytes values;
};

/* Memory in which examples are written one after the other. It is taken from the allowance as it
 * grows, and given back when all examples are written. */
struct scratch {
    struct srv_allowance *allowance;
    size_t most; /* allowance->left before the first example */
    struct feature feature;
    struct rt_bytes name, features, context;
    /* why a buffer last could not grow, or RT_OK */
    enum rt_status refused;
    struct rt_error why;
};

static enum rt_status too_large(const struct scratch *s, struct rt_error *err)
{
    return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                   "the examples take more than the %zu bytes that are left for this request",
                   s->most);
}

static enum rt_status take_memory(struct scratch *s, size_t bytes, struct rt_error *err)
{
    return bytes > s->allowance->left ? too_large(s, err)
                                      : srv_allowance_take(s->allowance, bytes, err);
}

/* The `may_grow` callback of the buffers. */
static bool may_grow(void *arg, size_t capacity, size_t new_capacity)
{
    struct scratch *s = arg;

    const enum rt_status st = take_memory(s, new_capacity - capacity, &s->why);
    if (st)
        s->refused = st;
    return !st;
}

/* Returns why a buffer has failed, or RT_OK if none has. */
static enum rt_status check_buffers(const struct scratch *s, struct rt_error *err)
{
    if (!s->features.failed && !s->feature.values.failed && !s->name.failed && !s->context.failed)
        return RT_OK;
    if (!s->refused)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "the examples take more memory than there is");
    rt_error_copy(err, &s->why);
    return s->refused;
}

static void open_buffer(struct scratch *s, struct rt_bytes *b)
{
    rt_bytes_init(b, SIZE_MAX / 2);
    b->may_grow = may_grow;
    b->grow_arg = s;
}

static void close_buffer(struct scratch *s, struct rt_bytes *b)
{
    srv_allowance_give(s->allowance, b->capacity);
    rt_bytes_clear(b);
}

/* ---- one value ---- */

static enum rt_status unexpected_type(const struct feature *f, struct srv_json v,
                                      struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "Feature: %s has element with unexpected JSON type: %s", f->name,
                   srv_json_type_name(v));
}

/* Sets the kind of the feature at its first value, and checks that all other values have the same
 * kind. */
static enum rt_status take_kind(struct feature *f, enum kind kind, struct rt_error *err)
{
    static const char *const names[] = {"UNKNOWN", "bytes", "float", "int64"};

    if (f->kind && f->kind != kind)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Unexpected element type in feature: %s expecting type: %s", f->name,
                       names[f->kind]);
    f->kind = kind;
    return RT_OK;
}

static enum rt_status add_text(struct feature *f, struct srv_json v, struct rt_error *err)
{
    const struct rt_span token = srv_json_token(v);
    size_t n = srv_json_unquote_long(NULL, token, v.cancellation);
    enum rt_status st = take_kind(f, BYTES_LIST, err);

    if (st)
        return st;
    srv_put_head(&f->values, 1, n);
    if (rt_bytes_reserve(&f->values, n)) {
        f->values.n += srv_json_unquote_long(f->values.p + f->values.n, token, v.cancellation);
    }
    return RT_OK;
}

static enum rt_status add_b64(struct feature *f, struct rt_span token, struct rt_error *err)
{
    size_t n = 0;
    enum rt_status st = take_kind(f, BYTES_LIST, err);

    if (st)
        return st;
    if (!srv_json_unbase64(NULL, &n, token))
        return rt_fail(err, RT_INVALID_ARGUMENT, "Unable to base64 decode");
    srv_put_head(&f->values, 1, n);
    if (rt_bytes_reserve(&f->values, n)) {
        srv_json_unbase64(f->values.p + f->values.n, &n, token);
        f->values.n += n;
    }
    return RT_OK;
}

/* Appends a value to the packed list of int64 values in f->values. */
static void add_varint(struct feature *f, int64_t v)
{
    unsigned char buffer[10];
    rt_bytes_add(&f->values, buffer, (size_t)(srv_write_varint(buffer, (uint64_t)v) - buffer));
}

static enum rt_status add_number(struct feature *f, struct srv_json v, struct rt_error *err)
{
    struct srv_number number;
    enum rt_status st;

    srv_number_read(v.p, v.end, &number);
    if (number.kind == SRV_NUMBER_DOUBLE) {
        float value = (float)number.d;
        st = take_kind(f, FLOAT_LIST, err);
        if (!st)
            rt_bytes_add(&f->values, &value, sizeof value);
        return st;
    }
    st = take_kind(f, INT64_LIST, err);
    if (st)
        return st;
    if (number.kind == SRV_NUMBER_UINT)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Feature: %s has uint64_t element. Only int64_t is supported.", f->name);
    add_varint(f, number.i);
    return RT_OK;
}

static enum rt_status add_value(struct feature *f, struct srv_json v, struct rt_error *err)
{
    struct rt_span token;
    enum rt_status st;

    switch (srv_json_type(v)) {
    case SRV_JSON_TRUE:
    case SRV_JSON_FALSE:
        st = take_kind(f, INT64_LIST, err);
        if (!st)
            add_varint(f, srv_json_type(v) == SRV_JSON_TRUE);
        return st;
    case SRV_JSON_STRING:
        return add_text(f, v, err);
    case SRV_JSON_NUMBER:
        return add_number(f, v, err);
    case SRV_JSON_OBJECT:
        if (srv_json_is_b64(v, &token))
            return add_b64(f, token, err);
        break;
    default:
        break;
    }
    return unexpected_type(f, v, err);
}

/* ---- an example ---- */

/* Cost of writing one feature, in bytes, as reported to srv_should_continue. */
enum { FEATURE_COST = 64 };

/* Appends an entry to a Features message: the name, and a Feature with the values f->values. */
static void put_feature(struct rt_bytes *features, const struct feature *f, const char *name,
                        size_t n_name)
{
    size_t n = f->values.n;
    size_t list = f->kind == BYTES_LIST ? n : srv_bytes_size(1, n);
    size_t feature = f->kind ? srv_bytes_size(f->kind, list) : 0;

    srv_put_head(features, 1, srv_bytes_size(1, n_name) + srv_bytes_size(2, feature));
    srv_put_bytes(features, 1, name, n_name);
    srv_put_head(features, 2, feature);
    if (!f->kind)
        return;
    srv_put_head(features, f->kind, list);
    if (f->kind != BYTES_LIST)
        srv_put_head(features, 1, n);
    rt_bytes_add(features, f->values.p, n);
}

static enum rt_status add_feature(struct scratch *s, struct rt_span key, struct srv_json value,
                                  struct rt_error *err)
{
    struct feature *f = &s->feature;
    struct rt_bytes *name = &s->name;
    size_t n = srv_json_unquote(NULL, key), shown;
    enum rt_status st = RT_OK;

    name->n = 0;
    if (!rt_bytes_reserve(name, n + 1))
        return check_buffers(s, err);
    srv_json_unquote(name->p, key);
    name->p[n] = '\0';
    n = strlen(name->p); /* a name ends at its first NUL, as in TensorFlow Serving */
    shown = n < sizeof f->name ? n : sizeof f->name - 1;
    memcpy(f->name, name->p, shown);
    f->name[shown] = '\0';
    f->kind = UNSET;
    f->values.n = 0;
    if (srv_json_type(value) == SRV_JSON_ARRAY) {
        struct srv_json element;
        const unsigned char *at = srv_json_first(value);
        while (!st && srv_json_next(&at, value, &element))
            st = add_value(f, element, err);
    } else {
        st = add_value(f, value, err);
    }
    /* writing a feature costs more than skipping its bytes */
    if (!st && srv_should_continue(value.cancellation, FEATURE_COST + f->values.n))
        put_feature(&s->features, f, name->p, n);
    return st;
}

/* Parses an example. Writes its serialized Features message, field 1 of the Example message, to
 * s->features. */
static enum rt_status read_example(struct scratch *s, struct srv_json v, struct rt_error *err)
{
    struct srv_json value;
    struct rt_span key;
    enum rt_status st = RT_OK;

    if (srv_json_type(v) != SRV_JSON_OBJECT)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Example must be JSON object but got JSON %s",
                       srv_json_type_name(v));
    s->features.n = 0;
    const unsigned char *at = srv_json_first(v);
    while (!st && srv_json_member(&at, v, &key, &value))
        st = add_feature(s, key, value, err);
    return st ? st : check_buffers(s, err);
}

static enum rt_status read_context(struct scratch *s, struct srv_json v, struct rt_error *err)
{
    enum rt_status st = read_example(s, v, err);

    if (!st && s->features.n)
        srv_put_bytes(&s->context, 1, s->features.p, s->features.n);
    return st ? st : check_buffers(s, err);
}

/* ---- the request ---- */

static enum rt_status badly_formed(const struct srv_json_doc *doc, const char *what,
                                   struct rt_error *err)
{
    char text[SRV_JSON_SHOWN];
    return rt_fail(err, RT_INVALID_ARGUMENT, "JSON Value: %s %s",
                   srv_json_show(text, sizeof text, doc->top), what);
}

static enum rt_status check_list(const struct srv_json_doc *doc, struct rt_error *err)
{
    if (!doc->examples.p)
        return badly_formed(
            doc, "When method is classify, key 'examples' is expected and was not found", err);
    if (srv_json_type(doc->examples) != SRV_JSON_ARRAY)
        return badly_formed(doc, "Expecting 'examples' value to be an list/array", err);
    if (!srv_json_count(doc->examples))
        return badly_formed(doc, "'examples' value is an empty array", err);
    return RT_OK;
}

static enum rt_status read_examples(const struct srv_json_doc *doc, struct scratch *s,
                                    struct rt_tensor *out, struct rt_error *err)
{
    const struct rt_bytes *context = &s->context;
    int64_t n = srv_json_count(doc->examples), i = 0;
    struct srv_json v;
    const unsigned char *at = srv_json_first(doc->examples);
    enum rt_status st =
        (size_t)n > s->allowance->left / sizeof(struct rt_str)
            ? rt_fail(err, RT_RESOURCE_EXHAUSTED, "%lld examples are too many", (long long)n)
            : srv_allowance_take(s->allowance, (size_t)n * sizeof(struct rt_str), err);

    if (!st)
        st = rt_tensor_new(out, NULL, RT_STRING, 1, &n, err);

    while (!st && i < n && srv_json_next(&at, doc->examples, &v)) {
        st = read_example(s, v, err);
        if (st)
            break;
        size_t own = s->features.n ? srv_bytes_size(1, s->features.n) : 0;
        size_t need = context->n + own;
        st = take_memory(s, need, err);
        if (st)
            break;
        unsigned char *to =
            (unsigned char *)rt_str_resize((struct rt_str *)out->data + i++, NULL, need, err);
        if (!to) {
            st = err->code;
            break;
        }
        if (context->n)
            memcpy(to, context->p, context->n);
        if (s->features.n)
            srv_write_bytes(to + context->n, 1, s->features.p, s->features.n);
    }
    if (st)
        rt_tensor_clear(out);
    return st;
}

enum rt_status srv_json_decode_examples(const struct srv_json_doc *doc,
                                        struct srv_allowance *allowance, struct rt_tensor *out,
                                        struct rt_error *err)
{
    struct scratch s = {.allowance = allowance, .most = allowance->left};
    struct rt_bytes *const buffers[] = {&s.feature.values, &s.name, &s.features, &s.context};
    enum { N_BUFFERS = sizeof buffers / sizeof buffers[0] };
    enum rt_status st = RT_OK;

    *out = (struct rt_tensor){.dtype = 0};
    for (int i = 0; i < N_BUFFERS; i++)
        open_buffer(&s, buffers[i]);
    if (doc->context.p)
        st = read_context(&s, doc->context, err);
    if (!st)
        st = check_list(doc, err);
    if (!st)
        st = read_examples(doc, &s, out, err);
    for (int i = 0; i < N_BUFFERS; i++)
        close_buffer(&s, buffers[i]);
    return st;
}

/* ---- results ---- */

/* Cost of writing one score, in bytes, as reported to srv_should_continue. */
enum { SCORE_COST = 64 };

static void put_score(struct rt_bytes *out, float score)
{
    char buffer[SRV_NUMBER_BYTES];
    rt_bytes_add(out, buffer, srv_float_write(buffer, score));
}

enum rt_status srv_json_encode_scores(struct rt_bytes *out, const struct srv_scoring *s,
                                      const struct rt_tensor *fetches, int64_t n,
                                      struct srv_cancellation *cancellation, struct rt_error *err)
{
    bool classify = s->api == SRV_CLASSIFY;
    int64_t width = n ? srv_scoring_width(s, fetches) : 0;

    if (!n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Cannot convert empty %s to JSON",
                       classify ? "ClassificationResults" : "RegressionResults");
    rt_bytes_adds(out, "{\n    \"results\": [");
    for (int64_t i = 0; i < n && !out->failed && srv_should_continue(cancellation, SCORE_COST);
         i++) {
        if (i)
            rt_bytes_adds(out, ", ");
        if (!classify) {
            put_score(out, srv_scoring_score(s, fetches, i, 0));
            continue;
        }
        rt_bytes_addc(out, '[');
        for (int64_t k = 0;
             k < width && !out->failed && srv_should_continue(cancellation, SCORE_COST); k++) {
            struct rt_span label = srv_scoring_label(s, fetches, i, k);
            rt_bytes_adds(out, k ? ", [" : "[");
            srv_json_quote_long(out, label.p, label.n, cancellation);
            rt_bytes_adds(out, ", ");
            put_score(out, srv_scoring_score(s, fetches, i, k));
            rt_bytes_addc(out, ']');
        }
        rt_bytes_addc(out, ']');
    }
    rt_bytes_adds(out, classify ? "\n    ]\n}" : "]\n}");
    const enum rt_status st = srv_cancellation_status(cancellation, err);
    return !st && out->failed ? rt_fail_memory(err, "a response", out->n) : st;
}
