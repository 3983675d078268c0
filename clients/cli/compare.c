#include "clients/cli/compare.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "clients/c/message.h"
#include "clients/cli/convert.h"
#include "proto/prediction_log.h"
#include "proto/unpack.h"
#include "proto/wire.h"
#include "tensorflow_serving/apis/classification.pb-c.h"
#include "tensorflow_serving/apis/inference.pb-c.h"
#include "tensorflow_serving/apis/regression.pb-c.h"

enum { MAX_TENSORS_BYTES = INT32_MAX };

bool cl_near(double a, double b, double tolerance)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= tolerance * (1 + fabs(b));
}

/* ---- tensors ---- */

static bool same_element(const struct slipway_tensor *a, const struct slipway_tensor *b, int64_t i,
                         double tolerance)
{
    size_t size = slipway_dtype_size(a->dtype), at = (size_t)i * size;
    const char *p = (const char *)a->data + at, *q = (const char *)b->data + at;
    if (a->dtype == SLIPWAY_STRING) {
        const struct slipway_string *s = (const void *)p, *t = (const void *)q;
        return s->n == t->n && (!s->n || memcmp(s->p, t->p, s->n) == 0);
    }
    if (memcmp(p, q, size) == 0)
        return true;
    if (cl_is_real(a->dtype))
        return cl_near(cl_get_real(a->dtype, p), cl_get_real(a->dtype, q), tolerance);
    int part = a->dtype == SLIPWAY_COMPLEX64    ? SLIPWAY_FLOAT
               : a->dtype == SLIPWAY_COMPLEX128 ? SLIPWAY_DOUBLE
                                                : 0;
    return part && cl_near(cl_get_real(part, p), cl_get_real(part, q), tolerance) &&
           cl_near(cl_get_real(part, p + size / 2), cl_get_real(part, q + size / 2), tolerance);
}

static bool differ(struct rt_error *why, const char *name, const char *what)
{
    rt_fail(why, RT_DATA_LOSS, "output \"%s\": %s", name, what);
    return false;
}

static bool same_tensor(const struct slipway_tensor *a, const struct slipway_tensor *b,
                        double tolerance, struct rt_error *why)
{
    if (a->dtype != b->dtype)
        return differ(why, a->name, "another type");
    if (a->rank != b->rank || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) != 0)
        return differ(why, a->name, "another shape");
    int64_t n = slipway_count(a);
    for (int64_t i = 0; i < n; i++) {
        if (same_element(a, b, i, tolerance))
            continue;
        size_t at = (size_t)i * slipway_dtype_size(a->dtype);
        if (a->dtype == SLIPWAY_STRING)
            return differ(why, a->name, "another string");
        rt_fail(why, RT_DATA_LOSS, "output \"%s\": element %" PRId64 " is %g, not %g", a->name, i,
                cl_get_real(a->dtype, (const char *)a->data + at),
                cl_get_real(b->dtype, (const char *)b->data + at));
        return false;
    }
    return true;
}

bool cl_same_tensors(const struct slipway_tensor *a, int n_a, const struct slipway_tensor *b,
                     int n_b, double tolerance, struct rt_error *why)
{
    for (int i = 0; i < n_a && i < n_b; i++) {
        if (strcmp(a[i].name, b[i].name) != 0)
            return differ(why, a[i].name, "not expected");
        if (!same_tensor(&a[i], &b[i], tolerance, why))
            return false;
    }
    if (n_a == n_b)
        return true;
    rt_fail(why, RT_DATA_LOSS, "%d outputs, not %d", n_a, n_b);
    return false;
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

bool cl_same_json(json_t *a, json_t *b, double tolerance, struct rt_error *why)
{
    const char *key;
    json_t *v;
    if (json_is_number(a) && json_is_number(b)) {
        bool exact = json_is_integer(a) && json_is_integer(b);
        bool same = exact ? json_integer_value(a) == json_integer_value(b)
                          : cl_near(json_number_value(a), json_number_value(b), tolerance);
        return same || json_differs(why, a, b);
    }
    if (json_is_array(a) && json_is_array(b) && json_array_size(a) == json_array_size(b)) {
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!cl_same_json(json_array_get(a, i), json_array_get(b, i), tolerance, why))
                return false;
        return true;
    }
    if (json_is_object(a) && json_is_object(b) && json_object_size(a) == json_object_size(b)) {
        void *at = json_object_iter(a);
        for (; at; at = json_object_iter_next(a, at)) {
            key = json_object_iter_key(at);
            v = json_object_get(b, key);
            if (!v || !cl_same_json(json_object_iter_value(at), v, tolerance, why))
                return v ? false : json_differs(why, a, b);
        }
        return true;
    }
    return json_equal(a, b) || json_differs(why, a, b);
}

/* ---- messages of which protobuf-c knows the fields ---- */

static bool same_message(const ProtobufCMessage *a, const ProtobufCMessage *b, double tolerance,
                         struct rt_error *why);

static bool field_differs(struct rt_error *why, const ProtobufCFieldDescriptor *f)
{
    rt_fail(why, RT_DATA_LOSS, "%s differs", f->name);
    return false;
}

/* One value of a field, at p and at q. */
static bool same_value(const ProtobufCFieldDescriptor *f, const void *p, const void *q,
                       double tolerance, struct rt_error *why)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_FLOAT: {
        float x, y;
        memcpy(&x, p, sizeof x);
        memcpy(&y, q, sizeof y);
        if (cl_near((double)x, (double)y, tolerance))
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
        return same_message(*m, *n, tolerance, why);
    }
    case PROTOBUF_C_TYPE_INT64:
        return memcmp(p, q, 8) == 0 || field_differs(why, f);
    default:
        return memcmp(p, q, 4) == 0 || field_differs(why, f);
    }
}

static bool same_field(const ProtobufCFieldDescriptor *f, const ProtobufCMessage *a,
                       const ProtobufCMessage *b, double tolerance, struct rt_error *why)
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
        return same_value(f, p, q, tolerance, why);
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
        if (!same_value(f, list + i * size, other + i * size, tolerance, why))
            return false;
    return true;
}

static bool same_message(const ProtobufCMessage *a, const ProtobufCMessage *b, double tolerance,
                         struct rt_error *why)
{
    for (unsigned i = 0; i < a->descriptor->n_fields; i++)
        if (!same_field(&a->descriptor->fields[i], a, b, tolerance, why))
            return false;
    return true;
}

static bool same_messages(const ProtobufCMessageDescriptor *d, struct rt_span got,
                          struct rt_span want, double tolerance, struct rt_error *why)
{
    ProtobufCMessage *a = pb_unpack(d, got, "the answer", why);
    ProtobufCMessage *b = a ? pb_unpack(d, want, "the recorded answer", why) : NULL;
    bool same = a && b && same_message(a, b, tolerance, why);
    pb_free(a);
    pb_free(b);
    return same;
}

/* ---- answers ---- */

static bool same_predict(struct rt_span got, struct rt_span want, double tolerance,
                         struct rt_error *why)
{
    struct slipway_answer a, b;
    size_t budget = MAX_TENSORS_BYTES;
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    bool same = arena && !cl_read_predict(got, arena, &budget, &a, why);
    budget = MAX_TENSORS_BYTES;
    same = same && !cl_read_predict(want, arena, &budget, &b, why) &&
           cl_same_tensors(a.outputs, a.n_outputs, b.outputs, b.n_outputs, tolerance, why);
    rt_arena_free(arena);
    return same;
}

/* SessionRunResponse: repeated NamedTensorProto {name 1, tensor 2} in field 1, in the order asked
 * for. What else it holds is about the run. */
static bool next_named(struct rt_span *rest, struct rt_arena *arena, struct slipway_tensor *out,
                       bool *there, struct rt_error *why)
{
    struct pb_field f, g;
    size_t budget = MAX_TENSORS_BYTES;
    int more;
    *there = false;
    while ((more = pb_field_next(rest, &f)) > 0) {
        if (f.number != 1 || f.type != PB_BYTES)
            continue;
        struct rt_span tensor = {0};
        *there = true;
        out->name = "";
        while ((more = pb_field_next(&f.bytes, &g)) > 0)
            if (g.number == 1 && g.type == PB_BYTES)
                out->name = rt_arena_strndup(arena, (const char *)g.bytes.p, g.bytes.n);
            else if (g.number == 2 && g.type == PB_BYTES)
                tensor = g.bytes;
        return more == 0 && out->name && !cl_read_tensor(tensor, arena, &budget, out, why);
    }
    return more == 0;
}

static bool same_session_run(struct rt_span got, struct rt_span want, double tolerance,
                             struct rt_error *why)
{
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    bool more = true, more_wanted = true, same = arena != NULL;
    rt_fail(why, RT_DATA_LOSS, "not a SessionRunResponse"); /* until something better is known */
    while (same && more && more_wanted) {
        struct slipway_tensor a = {0}, b = {0};
        same = next_named(&got, arena, &a, &more, why) &&
               next_named(&want, arena, &b, &more_wanted, why);
        if (same && more != more_wanted) {
            rt_fail(why, RT_DATA_LOSS, "another number of tensors");
            same = false;
        }
        if (same && more)
            same = cl_same_tensors(&a, 1, &b, 1, tolerance, why);
    }
    rt_arena_free(arena);
    return same;
}

bool cl_same_answers(enum cl_api api, struct rt_span got, struct rt_span want, double tolerance,
                     struct rt_error *why)
{
    if (rt_span_eq(got, want))
        return true;
    switch (api) {
    case CL_PREDICT:
        return same_predict(got, want, tolerance, why);
    case CL_CLASSIFY:
        return same_messages(&tensorflow__serving__classification_response__descriptor, got, want,
                             tolerance, why);
    case CL_REGRESS:
        return same_messages(&tensorflow__serving__regression_response__descriptor, got, want,
                             tolerance, why);
    case CL_MULTI_INFERENCE:
        return same_messages(&tensorflow__serving__multi_inference_response__descriptor, got, want,
                             tolerance, why);
    case CL_SESSION_RUN:
        return same_session_run(got, want, tolerance, why);
    case CL_API_NONE:
        break;
    }
    return false;
}

const char *cl_api_method(enum cl_api api)
{
    switch (api) {
    case CL_CLASSIFY:
        return "/tensorflow.serving.PredictionService/Classify";
    case CL_REGRESS:
        return "/tensorflow.serving.PredictionService/Regress";
    case CL_MULTI_INFERENCE:
        return "/tensorflow.serving.PredictionService/MultiInference";
    case CL_SESSION_RUN:
        return "/tensorflow.serving.SessionService/SessionRun";
    default:
        return "/tensorflow.serving.PredictionService/Predict";
    }
}

bool cl_log_read(struct rt_span record, struct cl_log *out)
{
    struct pb_prediction_log log;
    *out = (struct cl_log){0};
    if (!pb_prediction_log_read(record, &log) || log.type == PB_LOG_NONE ||
        log.type == PB_LOG_PREDICT_STREAMED)
        return false;
    *out = (struct cl_log){
        .api = (enum cl_api)log.type, .request = log.request, .response = log.response};
    return true;
}
