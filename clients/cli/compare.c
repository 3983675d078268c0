#include "clients/cli/compare.h"

#include <inttypes.h>
#include <string.h>

#include "clients/c/message.h"
#include "clients/cli/convert.h"
#include "proto/unpack.h"
#include "proto/wire.h"
#include "runtime/base/arena.h"
#include "runtime/base/tolerance.h"
#include "tensorflow_serving/apis/classification.pb-c.h"
#include "tensorflow_serving/apis/inference.pb-c.h"
#include "tensorflow_serving/apis/regression.pb-c.h"

enum { MAX_TENSORS_BYTES = INT32_MAX };

/* ---- tensors ---- */

/* Returns the floating-point type of an element or, for complex types, of its parts. Returns 0 if
 * elements of this type are compared as bytes. */
static int part_of(int dtype)
{
    switch (dtype) {
    case SLIPWAY_COMPLEX64:
        return SLIPWAY_FLOAT;
    case SLIPWAY_COMPLEX128:
        return SLIPWAY_DOUBLE;
    default:
        return cl_is_real(dtype) ? dtype : 0;
    }
}

static double step_of(int dtype)
{
    return dtype == SLIPWAY_HALF       ? RT_TOLERANCE_HALF_STEP
           : dtype == SLIPWAY_BFLOAT16 ? RT_TOLERANCE_BFLOAT16_STEP
                                       : 0;
}

static bool differ(struct rt_error *why, const char *name, const char *what)
{
    rt_fail(why, RT_DATA_LOSS, "output \"%s\": %s", name, what);
    return false;
}

static double part_at(const struct slipway_tensor *t, int part, int64_t i)
{
    return cl_get_real(part, (const char *)t->data + (size_t)i * slipway_dtype_size(part));
}

static bool same_reals(const struct slipway_tensor *a, const struct slipway_tensor *b,
                       double tolerance, struct rt_error *why)
{
    int part = part_of(a->dtype), parts = part == a->dtype ? 1 : 2;
    int64_t n = slipway_count(a) * parts;
    double largest = 0;

    for (int64_t i = 0; i < n; i++)
        largest = rt_tolerance_largest(largest, part_at(b, part, i));
    double allowed = rt_tolerance_allowed(largest, tolerance, step_of(a->dtype));
    for (int64_t i = 0; i < n; i++) {
        if (rt_is_close(part_at(a, part, i), part_at(b, part, i), allowed))
            continue;
        i -= i % parts;
        if (parts == 1)
            rt_fail(why, RT_DATA_LOSS, "output \"%s\": element %" PRId64 " is %g, not %g", a->name,
                    i, part_at(a, part, i), part_at(b, part, i));
        else
            rt_fail(why, RT_DATA_LOSS, "output \"%s\": element %" PRId64 " is (%g,%g), not (%g,%g)",
                    a->name, i / 2, part_at(a, part, i), part_at(a, part, i + 1),
                    part_at(b, part, i), part_at(b, part, i + 1));
        return false;
    }
    return true;
}

static bool same_strings(const struct slipway_tensor *a, const struct slipway_tensor *b,
                         struct rt_error *why)
{
    const struct slipway_string *s = a->data, *t = b->data;
    for (int64_t n = slipway_count(a), i = 0; i < n; i++)
        if (s[i].n != t[i].n || (s[i].n && memcmp(s[i].p, t[i].p, s[i].n) != 0))
            return differ(why, a->name, "another string");
    return true;
}

static bool same_bytes(const struct slipway_tensor *a, const struct slipway_tensor *b,
                       struct rt_error *why)
{
    size_t size = slipway_dtype_size(a->dtype);
    for (int64_t n = slipway_count(a), i = 0; i < n; i++) {
        const char *p = (const char *)a->data + (size_t)i * size;
        const char *q = (const char *)b->data + (size_t)i * size;
        if (memcmp(p, q, size) == 0)
            continue;
        rt_fail(why, RT_DATA_LOSS, "output \"%s\": element %" PRId64 " is %g, not %g", a->name, i,
                cl_get_real(a->dtype, p), cl_get_real(b->dtype, q));
        return false;
    }
    return true;
}

bool cl_same_tensor(const struct slipway_tensor *got, const struct slipway_tensor *want,
                    double tolerance, struct rt_error *why)
{
    if (got->dtype != want->dtype)
        return differ(why, got->name, "another type");
    if (got->rank != want->rank ||
        memcmp(got->dim, want->dim, (size_t)got->rank * sizeof *got->dim) != 0)
        return differ(why, got->name, "another shape");
    if (part_of(got->dtype))
        return same_reals(got, want, tolerance, why);
    return got->dtype == SLIPWAY_STRING ? same_strings(got, want, why) : same_bytes(got, want, why);
}

/* ---- JSON ---- */

static bool json_differs(struct rt_error *why, const json_t *a, const json_t *b)
{
    char *got = json_dumps(a, JSON_ENCODE_ANY | JSON_COMPACT);
    char *want = json_dumps(b, JSON_ENCODE_ANY | JSON_COMPACT);
    rt_fail(why, RT_DATA_LOSS, "%.80s, not %.80s", got ? got : "?", want ? want : "?");
    free(got);
    free(want);
    return false;
}

/* The state of a comparison of two JSON responses. All values under one key belong to one output.
 * In the column format the key occurs in one object, and in the row format in several. */
struct outputs {
    json_t *largest; /* maps each output's name to its largest finite recorded magnitude */
    double tolerance;
};

static bool note_largest(json_t *largest, const char *key, json_t *v)
{
    if (json_is_number(v)) {
        double before = json_number_value(json_object_get(largest, key));
        double now = rt_tolerance_largest(before, json_number_value(v));
        return now == before || json_object_set_new_nocheck(largest, key, json_real(now)) == 0;
    }
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!note_largest(largest, key, json_array_get(v, i)))
            return false;
    void *at = json_is_object(v) ? json_object_iter(v) : NULL;
    for (; at; at = json_object_iter_next(v, at))
        if (!note_largest(largest, json_object_iter_key(at), json_object_iter_value(at)))
            return false;
    return true;
}

static bool same_json(const struct outputs *o, const char *key, json_t *got, json_t *want,
                      struct rt_error *why)
{
    if (json_is_integer(got) && json_is_integer(want))
        return json_integer_value(got) == json_integer_value(want) || json_differs(why, got, want);
    if (json_is_number(got) && json_is_number(want)) {
        double largest = json_number_value(json_object_get(o->largest, key));
        return rt_is_close(json_number_value(got), json_number_value(want),
                           rt_tolerance_allowed(largest, o->tolerance, 0)) ||
               json_differs(why, got, want);
    }
    if (json_is_array(got) && json_is_array(want) &&
        json_array_size(got) == json_array_size(want)) {
        for (size_t i = 0; i < json_array_size(got); i++)
            if (!same_json(o, key, json_array_get(got, i), json_array_get(want, i), why))
                return false;
        return true;
    }
    if (json_is_object(got) && json_is_object(want)) {
        void *at = json_object_iter(want);
        for (; at; at = json_object_iter_next(want, at)) {
            const char *name = json_object_iter_key(at);
            json_t *own = json_object_get(got, name);
            if (!own || !same_json(o, name, own, json_object_iter_value(at), why))
                return own ? false : json_differs(why, got, want);
        }
        return true;
    }
    return json_equal(got, want) || json_differs(why, got, want);
}

bool cl_same_json(json_t *got, json_t *want, double tolerance, struct rt_error *why)
{
    struct outputs o = {.largest = json_object(), .tolerance = tolerance};
    bool noted = o.largest && note_largest(o.largest, "", want);
    if (!noted)
        rt_fail_memory(why, "comparing answers", 0);
    bool same = noted && same_json(&o, "", got, want, why);
    json_decref(o.largest);
    return same;
}

/* ---- messages whose fields protobuf-c knows ---- */

static bool same_message(const ProtobufCMessage *a, const ProtobufCMessage *b, double allowed,
                         struct rt_error *why);
static double largest_of(const ProtobufCMessage *m, double largest);

static bool field_differs(struct rt_error *why, const ProtobufCFieldDescriptor *f)
{
    rt_fail(why, RT_DATA_LOSS, "%s differs", f->name);
    return false;
}

/* Compares two values of a protobuf field, at the addresses p and q. */
static bool same_value(const ProtobufCFieldDescriptor *f, const void *p, const void *q,
                       double allowed, struct rt_error *why)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_FLOAT: {
        float x, y;
        memcpy(&x, p, sizeof x);
        memcpy(&y, q, sizeof y);
        if (rt_is_close((double)x, (double)y, allowed))
            return true;
        rt_fail(why, RT_DATA_LOSS, "%s is %g, not %g", f->name, (double)x, (double)y);
        return false;
    }
    case PROTOBUF_C_TYPE_STRING: {
        const char *const *s = p, *const *t = q;
        if (strcmp(*s ? *s : "", *t ? *t : "") == 0)
            return true;
        rt_fail(why, RT_DATA_LOSS, "%s is \"%.60s\", not \"%.60s\"", f->name, *s ? *s : "",
                *t ? *t : "");
        return false;
    }
    case PROTOBUF_C_TYPE_MESSAGE: {
        const ProtobufCMessage *const *m = p, *const *n = q;
        if (!*m || !*n)
            return *m == *n || field_differs(why, f);
        return same_message(*m, *n, allowed, why);
    }
    case PROTOBUF_C_TYPE_INT64:
        return memcmp(p, q, 8) == 0 || field_differs(why, f);
    default:
        return memcmp(p, q, 4) == 0 || field_differs(why, f);
    }
}

static bool same_field(const ProtobufCFieldDescriptor *f, const ProtobufCMessage *a,
                       const ProtobufCMessage *b, double allowed, struct rt_error *why)
{
    const char *p = (const char *)a + f->offset, *q = (const char *)b + f->offset;
    if (strcmp(f->name, "model_spec") == 0)
        return true;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        int case_a, case_b;
        memcpy(&case_a, (const char *)a + f->quantifier_offset, sizeof case_a);
        memcpy(&case_b, (const char *)b + f->quantifier_offset, sizeof case_b);
        if (case_a != (int)f->id && case_b != (int)f->id)
            return true;
        if (case_a != case_b)
            return field_differs(why, f);
    }
    if (f->label != PROTOBUF_C_LABEL_REPEATED)
        return same_value(f, p, q, allowed, why);
    size_t n, m, size = f->type == PROTOBUF_C_TYPE_FLOAT ? 4 : 8;
    const char *list, *other;
    memcpy(&n, (const char *)a + f->quantifier_offset, sizeof n);
    memcpy(&m, (const char *)b + f->quantifier_offset, sizeof m);
    memcpy(&list, p, sizeof list);
    memcpy(&other, q, sizeof other);
    if (n != m) {
        rt_fail(why, RT_DATA_LOSS, "%zu %s, not %zu", n, f->name, m);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (!same_value(f, list + i * size, other + i * size, allowed, why))
            return false;
    return true;
}

static bool same_message(const ProtobufCMessage *a, const ProtobufCMessage *b, double allowed,
                         struct rt_error *why)
{
    for (unsigned i = 0; i < a->descriptor->n_fields; i++)
        if (!same_field(&a->descriptor->fields[i], a, b, allowed, why))
            return false;
    return true;
}

/* Returns the larger of `largest` and the largest magnitude in a field (rt_tolerance_largest). */
static double largest_value(const ProtobufCFieldDescriptor *f, const void *p, double largest)
{
    const ProtobufCMessage *m;
    float x;
    if (f->type == PROTOBUF_C_TYPE_FLOAT) {
        memcpy(&x, p, sizeof x);
        return rt_tolerance_largest(largest, (double)x);
    }
    if (f->type != PROTOBUF_C_TYPE_MESSAGE)
        return largest;
    memcpy(&m, p, sizeof m);
    return m ? largest_of(m, largest) : largest;
}

static double largest_of(const ProtobufCMessage *m, double largest)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        const char *p = (const char *)m + f->offset, *list;
        size_t n, size = f->type == PROTOBUF_C_TYPE_FLOAT ? 4 : 8;
        int chosen = (int)f->id;
        if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
            memcpy(&chosen, (const char *)m + f->quantifier_offset, sizeof chosen);
        if (chosen != (int)f->id)
            continue;
        if (f->label != PROTOBUF_C_LABEL_REPEATED) {
            largest = largest_value(f, p, largest);
            continue;
        }
        memcpy(&n, (const char *)m + f->quantifier_offset, sizeof n);
        memcpy(&list, p, sizeof list);
        for (size_t k = 0; k < n; k++)
            largest = largest_value(f, list + k * size, largest);
    }
    return largest;
}

static bool same_messages(const ProtobufCMessageDescriptor *d, struct rt_span got,
                          struct rt_span want, double tolerance, struct rt_error *why)
{
    ProtobufCMessage *a = pb_unpack(d, got, "the answer", why);
    ProtobufCMessage *b = a ? pb_unpack(d, want, "the recorded answer", why) : NULL;
    bool same =
        a && b && same_message(a, b, rt_tolerance_allowed(largest_of(b, 0), tolerance, 0), why);
    pb_free(a);
    pb_free(b);
    return same;
}

/* ---- responses ---- */

/* field number of `outputs` in PredictResponse, and of `tensor` in SessionRunResponse */
enum { OUTPUTS = 1 };

static bool same_entry(struct rt_span name, struct rt_span got, struct rt_span want,
                       double tolerance, struct rt_error *why)
{
    struct slipway_tensor a = {0}, b = {0};
    size_t budget = MAX_TENSORS_BYTES;
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    char *text = arena ? rt_arena_strndup(arena, (const char *)name.p, name.n) : NULL;
    bool same = text && !cl_read_tensor(got, arena, &budget, &a, why);
    if (!text)
        rt_fail_memory(why, "comparing answers", name.n);
    budget = MAX_TENSORS_BYTES;
    same = same && !cl_read_tensor(want, arena, &budget, &b, why);
    a.name = b.name = text;
    same = same && cl_same_tensor(&a, &b, tolerance, why);
    rt_arena_free(arena);
    return same;
}

/* Compares outputs by name, in any order. Ignores outputs without a recorded value. */
static bool same_entries(struct rt_span got, struct rt_span want, double tolerance,
                         struct rt_error *why)
{
    struct rt_span name, tensor, own_name, own;
    int more, found = 0;
    while ((more = pb_entry_next(&want, OUTPUTS, &name, &tensor)) > 0) {
        struct rt_span rest = got;
        while ((found = pb_entry_next(&rest, OUTPUTS, &own_name, &own)) > 0 &&
               !rt_span_eq(name, own_name))
            ;
        if (found < 0)
            break;
        if (!found) {
            rt_fail(why, RT_DATA_LOSS, "output \"%.*s\" is not answered",
                    (int)(name.n < 100 ? name.n : 100), (const char *)name.p);
            return false;
        }
        if (!same_entry(name, own, tensor, tolerance, why))
            return false;
    }
    if (more == 0)
        return true;
    rt_fail(why, RT_DATA_LOSS, "%s is not well formed",
            found < 0 ? "the answer" : "the recorded answer");
    return false;
}

bool cl_same_responses(enum pb_log_type type, struct rt_span got, struct rt_span want,
                       double tolerance, struct rt_error *why)
{
    if (rt_span_eq(got, want))
        return true;
    switch (type) {
    case PB_LOG_CLASSIFY:
        return same_messages(&tensorflow__serving__classification_response__descriptor, got, want,
                             tolerance, why);
    case PB_LOG_REGRESS:
        return same_messages(&tensorflow__serving__regression_response__descriptor, got, want,
                             tolerance, why);
    case PB_LOG_MULTI_INFERENCE:
        return same_messages(&tensorflow__serving__multi_inference_response__descriptor, got, want,
                             tolerance, why);
    default:
        return same_entries(got, want, tolerance, why);
    }
}

const char *cl_log_method(enum pb_log_type type)
{
    switch (type) {
    case PB_LOG_CLASSIFY:
        return "/tensorflow.serving.PredictionService/Classify";
    case PB_LOG_REGRESS:
        return "/tensorflow.serving.PredictionService/Regress";
    case PB_LOG_MULTI_INFERENCE:
        return "/tensorflow.serving.PredictionService/MultiInference";
    case PB_LOG_SESSION_RUN:
        return "/tensorflow.serving.SessionService/SessionRun";
    case PB_LOG_PREDICT:
        return "/tensorflow.serving.PredictionService/Predict";
    default:
        return NULL;
    }
}
