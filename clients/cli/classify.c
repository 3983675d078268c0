#include "clients/cli/classify.h"

#include <stdlib.h>
#include <string.h>

#include "clients/c/message.h"
#include "clients/cli/json.h"
#include "proto/unpack.h"
#include "runtime/base/base64.h"
#include "tensorflow_serving/apis/classification.pb-c.h"
#include "tensorflow_serving/apis/regression.pb-c.h"

/* ---- requests ---- */

/* The kinds of values in a Feature. Each number is the kind's field number in the Feature
 * message. */
enum kind { UNSET = 0, BYTES_LIST = 1, FLOAT_LIST = 2, INT64_LIST = 3 };

static const char *type_name(const json_t *v)
{
    return json_is_object(v)   ? "Object"
           : json_is_array(v)  ? "Array"
           : json_is_string(v) ? "String"
           : json_is_number(v) ? "Number"
           : json_is_null(v)   ? "Null"
                               : "Bool";
}

static enum rt_status add_text(struct rt_bytes *values, const char *name, const json_t *v,
                               struct rt_error *err)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity", "Inf", "-Inf"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(json_string_value(v), words[i]) == 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Feature: %s: %s is understood over REST only",
                           name, words[i]);
    cl_put_bytes(values, 1, json_string_value(v), json_string_length(v));
    return RT_OK;
}

static enum rt_status add_base64(struct rt_bytes *values, const json_t *text, struct rt_error *err)
{
    const struct rt_span s = rt_span_of(json_string_value(text), json_string_length(text));
    char *bytes = malloc(s.n + 1);
    size_t n = 0;
    enum rt_status st = RT_OK;
    if (!bytes)
        return rt_fail_memory(err, "an example", s.n);
    if (rt_base64_read(bytes, &n, s))
        cl_put_bytes(values, 1, bytes, n);
    else
        st = rt_fail(err, RT_INVALID_ARGUMENT, "Unable to base64 decode");
    free(bytes);
    return st;
}

/* Appends a value to the values of a Feature. Sets *kind at the first value. */
static enum rt_status add_value(struct rt_bytes *values, enum kind *kind, const char *name,
                                const json_t *v, struct rt_error *err)
{
    static const char *const names[] = {"UNKNOWN", "bytes", "float", "int64"};
    const json_t *b64 = json_object_size(v) == 1 ? json_object_get(v, "b64") : NULL;
    const enum kind own = json_is_string(v) || json_is_string(b64)   ? BYTES_LIST
                          : json_is_real(v)                          ? FLOAT_LIST
                          : json_is_integer(v) || json_is_boolean(v) ? INT64_LIST
                                                                     : UNSET;
    const float real = (float)json_real_value(v);
    if (!own)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Feature: %s has element with unexpected JSON type: %s", name, type_name(v));
    if (*kind && *kind != own)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Unexpected element type in feature: %s expecting type: %s", name,
                       names[*kind]);
    *kind = own;
    if (b64)
        return add_base64(values, b64, err);
    if (own == BYTES_LIST)
        return add_text(values, name, v, err);
    if (own == FLOAT_LIST)
        rt_bytes_add(values, &real, sizeof real);
    else
        cl_put_varint(values, json_is_integer(v) ? (uint64_t)json_integer_value(v)
                                                 : (uint64_t)json_is_true(v));
    return RT_OK;
}

/* Wraps the message in *b: *b becomes a message whose field `number` is the old message. */
static void wrap(struct rt_bytes *b, uint32_t number)
{
    struct rt_bytes outer;
    rt_bytes_init(&outer, SIZE_MAX);
    cl_put_bytes(&outer, number, b->p, b->n);
    outer.failed |= b->failed;
    rt_bytes_clear(b);
    *b = outer;
}

/* Appends an entry of a Features message: the name and the Feature. */
static enum rt_status put_feature(struct rt_bytes *features, const char *name, const json_t *v,
                                  struct rt_error *err)
{
    enum rt_status st = RT_OK;
    enum kind kind = UNSET;
    struct rt_bytes b, entry;
    rt_bytes_init(&b, SIZE_MAX);
    rt_bytes_init(&entry, SIZE_MAX);
    for (size_t i = 0; i < json_array_size(v) && !st; i++)
        st = add_value(&b, &kind, name, json_array_get(v, i), err);
    if (!json_is_array(v))
        st = add_value(&b, &kind, name, v, err);
    if (kind == FLOAT_LIST || kind == INT64_LIST)
        wrap(&b, 1); /* the packed field */
    if (kind)
        wrap(&b, kind);
    cl_put_bytes(&entry, 1, name, strlen(name));
    cl_put_bytes(&entry, 2, b.p, b.n);
    cl_put_bytes(features, 1, entry.p, entry.n);
    features->failed |= b.failed || entry.failed;
    rt_bytes_clear(&b);
    rt_bytes_clear(&entry);
    return st;
}

/* Appends field `number`, an Example. */
static enum rt_status put_example(struct rt_bytes *out, uint32_t number, json_t *v,
                                  struct rt_error *err)
{
    enum rt_status st = RT_OK;
    struct rt_bytes b;
    if (!json_is_object(v))
        return rt_fail(err, RT_INVALID_ARGUMENT, "Example must be JSON object but got JSON %s",
                       type_name(v));
    rt_bytes_init(&b, SIZE_MAX);
    for (void *i = json_object_iter(v); i && !st; i = json_object_iter_next(v, i))
        st = put_feature(&b, json_object_iter_key(i), json_object_iter_value(i), err);
    wrap(&b, 1);
    cl_put_bytes(out, number, b.p, b.n);
    out->failed |= b.failed;
    rt_bytes_clear(&b);
    return st;
}

enum rt_status cl_write_examples(struct rt_bytes *out, const struct slipway_model *model,
                                 const json_t *body, struct rt_error *err)
{
    const json_t *examples = json_object_get(body, "examples");
    json_t *context = json_object_get(body, "context");
    enum rt_status st = RT_OK;
    struct rt_bytes input;
    rt_bytes_init(&input, SIZE_MAX);
    for (size_t i = 0; i < json_array_size(examples) && !st; i++)
        st = put_example(&input, 1, json_array_get(examples, i), err);
    if (!st && context)
        st = put_example(&input, 2, context, err);
    wrap(&input, context ? 2 : 1); /* ExampleListWithContext or ExampleList */
    cl_put_model(out, model);
    cl_put_bytes(out, 2, input.p, input.n);
    out->failed |= input.failed;
    rt_bytes_clear(&input);
    return st;
}

/* ---- responses ---- */

static void put_classes(struct rt_bytes *out, const Tensorflow__Serving__Classifications *c)
{
    rt_bytes_addc(out, '[');
    for (size_t i = 0; i < c->n_classes; i++) {
        rt_bytes_adds(out, i ? ", [" : "[");
        cl_json_text(out, c->classes[i]->label, strlen(c->classes[i]->label));
        rt_bytes_adds(out, ", ");
        cl_json_real(out, (double)c->classes[i]->score, false);
        rt_bytes_addc(out, ']');
    }
    rt_bytes_addc(out, ']');
}

enum rt_status cl_json_results(struct rt_bytes *out, enum pb_log_type type, struct rt_span response,
                               struct rt_error *err)
{
    const bool is_classify = type == PB_LOG_CLASSIFY;
    void *m = pb_unpack(is_classify ? &tensorflow__serving__classification_response__descriptor
                                    : &tensorflow__serving__regression_response__descriptor,
                        response, "the answer", err);
    if (!m)
        return pb_unpack_failed(err, RT_DATA_LOSS);
    const Tensorflow__Serving__ClassificationResponse *c = m;
    const Tensorflow__Serving__RegressionResponse *r = m;
    rt_bytes_adds(out, "{\"results\": [");
    for (size_t i = 0; is_classify && c->result && i < c->result->n_classifications; i++) {
        rt_bytes_adds(out, i ? ", " : "");
        put_classes(out, c->result->classifications[i]);
    }
    for (size_t i = 0; !is_classify && r->result && i < r->result->n_regressions; i++) {
        rt_bytes_adds(out, i ? ", " : "");
        cl_json_real(out, (double)r->result->regressions[i]->value, false);
    }
    rt_bytes_adds(out, "]}");
    pb_free(m);
    return RT_OK;
}
