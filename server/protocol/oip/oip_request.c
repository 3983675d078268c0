/* Checks and binds the model, signature, inputs and outputs of a request. REST and gRPC share this
 * code. */
#include "server/protocol/oip/oip.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/session/session.h"
#include "server/base/shared_memory.h"
#include "server/protocol/route.h"
#include "server/triton/triton.h"
#include "server/versions/status.h"

enum rt_status srv_oip_read_spec(struct rt_span name, struct rt_span version,
                                 struct srv_model_spec *spec, struct rt_error *err)
{
    struct rt_span rest = version, digits;
    size_t at = name.n;

    *spec = (struct srv_model_spec){.name = name, .has_version = version.n > 0};
    while (at && name.p[at - 1] != '@')
        at--;
    if (at) {
        spec->name = rt_span_of(name.p, at - 1);
        spec->signature = rt_span_of(name.p + at, name.n - at);
    }
    if (!spec->name.n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the request names no model");
    if (!version.n || (srv_route_take_digits(&rest, &digits) && !rest.n &&
                       srv_route_version(digits, &spec->version)))
        return RT_OK;
    const struct rt_span shown = rt_error_name(err, version);
    return rt_fail(err, RT_INVALID_ARGUMENT, "the version \"%.*s\" is no number", (int)shown.n,
                   (const char *)shown.p);
}

struct rt_span srv_oip_full_name(const struct srv_model_spec *spec)
{
    return rt_span_of(spec->name.p, spec->name.n + (spec->signature.p ? 1 + spec->signature.n : 0));
}

/* Sets the error of a model or version that is not served. */
static enum rt_status fail_model(const struct srv_model_spec *spec, struct rt_error *err)
{
    const struct rt_span name = rt_error_name(err, spec->name);

    if (spec->has_version)
        return rt_fail(err, RT_NOT_FOUND, "model \"%.*s\" has no version %lld that is ready",
                       (int)name.n, (const char *)name.p, (long long)spec->version);
    return rt_fail(err, RT_NOT_FOUND,
                   "model \"%.*s\" is not served, or has no version that is ready", (int)name.n,
                   (const char *)name.p);
}

enum rt_status srv_oip_fail_version(struct srv_manager *manager, const struct srv_model_spec *spec,
                                    struct rt_arena *arena, struct rt_error *err)
{
    struct rt_error unknown = {.arena = arena};
    struct srv_version_status v;

    fail_model(spec, err);
    if (!manager ||
        srv_status_one(manager, spec->name, spec->has_version, spec->version, arena, &v, &unknown))
        return err->code;
    const struct rt_error missing = *err;
    const char *message = v.message ? v.message : "";
    return rt_fail(err, RT_NOT_FOUND, "%s: the state of version %lld is %s%s%s",
                   rt_error_text(&missing), (long long)v.version, srv_state_name(v.state),
                   *message ? ": " : "", message);
}

enum rt_status srv_oip_not_found(const struct srv_inference *inf, enum rt_status st,
                                 struct rt_error *err)
{
    return st == RT_NOT_FOUND ? srv_oip_fail_version(inf->manager, &inf->spec, inf->arena, err)
                              : st;
}

enum rt_status srv_oip_fail_input(struct rt_error *err, struct rt_span name, const char *fmt, ...)
{
    const struct rt_span shown = rt_error_name(err, name);
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return rt_fail(err, RT_INVALID_ARGUMENT, "input \"%.*s\" %s", (int)shown.n,
                   (const char *)shown.p, text);
}

enum rt_status srv_oip_check_parameter(struct rt_span name, bool is_set, struct rt_error *err)
{
    static const struct {
        const char *name, *what;
    } refused[] = {
        {"sequence_id", "sequences"},
        {"sequence_start", "sequences"},
        {"sequence_end", "sequences"},
        {"classification", "a classification of something that is not an output"},
    };

    for (size_t i = 0; i < sizeof refused / sizeof *refused && is_set; i++)
        if (rt_span_is(name, refused[i].name))
            return rt_fail(err, RT_UNIMPLEMENTED,
                           "the parameter \"%s\" asks for %s, which this "
                           "server does not have",
                           refused[i].name, refused[i].what);
    return RT_OK;
}

enum rt_status srv_oip_request_parameter(struct srv_inference *inf, struct rt_span name,
                                         const struct srv_oip_value *v, struct rt_error *err)
{
    const bool is_timeout = rt_span_is(name, "timeout");

    if (rt_span_is(name, "triton_enable_empty_final_response")) {
        if (!v->is_bool)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "the parameter triton_enable_empty_final_response is neither true nor "
                           "false");
        ((struct srv_oip_request *)inf->request)->marks_final = v->is_set;
        return RT_OK;
    }
    if (!is_timeout && !rt_span_is(name, "priority"))
        return srv_oip_check_parameter(name, v->is_set, err);
    if (!v->is_number || v->number > INT64_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the parameter %s is no integer of at least 0",
                       is_timeout ? "timeout" : "priority");
    if (is_timeout)
        inf->timeout_us = (int64_t)v->number;
    else
        inf->job->level = v->number < UINT32_MAX ? (uint32_t)v->number : UINT32_MAX;
    return RT_OK;
}

/* Writes the names of a list, as many as fit: `; it has "a", "b" and 3 more`. `name` returns name i
 * of `list`. A name that does not fit is left out as a whole. */
static const char *list_names(char *buffer, size_t capacity, const void *list, int n,
                              const char *(*name)(const void *list, int i))
{
    enum { MORE_BYTES = 32 }; /* for the number of names that are left out */
    const size_t most = capacity - MORE_BYTES;
    size_t used = 0;
    int i = 0;

    for (; i < n; i++) {
        const int k =
            snprintf(buffer + used, most - used, "%s\"%s\"", i ? ", " : "; it has ", name(list, i));
        if (k < 0 || (size_t)k >= most - used)
            break;
        used += (size_t)k;
    }
    buffer[used] = '\0';
    if (i < n)
        snprintf(buffer + used, capacity - used, "%s %d more", used ? " and" : "; it has", n - i);
    return buffer;
}

static const char *signature_name(const void *list, int i)
{
    return ((const struct rt_model_signature *)list)[i].def->name;
}

static const char *tensor_name(const void *list, int i)
{
    return ((const struct rt_tensor_spec *)list)[i].alias;
}

enum rt_status srv_oip_fail_signature(const struct srv_version *version, struct rt_span wanted,
                                      struct rt_error *err)
{
    const struct rt_model *model = version->loaded;
    const struct rt_span shown = rt_error_name(err, wanted);
    char names[544], how[256] = "";

    if (model->n_signatures &&
        snprintf(how, sizeof how, "; %s@%s asks for one of them", version->model,
                 signature_name(model->signatures, 0)) >= (int)sizeof how)
        how[0] = '\0'; /* names that do not fit are left out */
    return rt_fail(
        err, RT_NOT_FOUND, "the model has no signature \"%.*s\"%s%s", (int)shown.n,
        (const char *)shown.p,
        list_names(names, sizeof names, model->signatures, model->n_signatures, signature_name),
        how);
}

/* Sets the error of an input or output that the signature does not have. */
static enum rt_status fail_tensor(const char *what, struct rt_span name, const char *signature,
                                  const struct rt_tensor_spec *specs, int n, struct rt_error *err)
{
    const struct rt_span shown = rt_error_name(err, name);
    char names[544];

    return rt_fail(err, RT_INVALID_ARGUMENT, "%s \"%.*s\" is none of the signature \"%.100s\"%s",
                   what, (int)shown.n, (const char *)shown.p, signature,
                   list_names(names, sizeof names, specs, n, tensor_name));
}

enum rt_status srv_oip_resolve(struct srv_inference *inf, struct rt_error *err)
{
    const struct rt_span name = inf->spec.signature.n
                                    ? inf->spec.signature
                                    : rt_span_str(srv_triton_signature(inf->job->version->triton));
    const enum rt_status st =
        srv_inference_signature(inf, name, &inf->job->signature, RT_NOT_FOUND, "%s", err);

    return st == RT_NOT_FOUND ? srv_oip_fail_signature(inf->job->version, name, err) : st;
}

static enum rt_status fail_type(struct rt_error *err, const char *what, const char *alias,
                                enum rt_dtype dtype)
{
    return rt_fail(err, RT_UNIMPLEMENTED,
                   "%s \"%s\" is of type %s, which the Open Inference Protocol does not have", what,
                   alias, rt_dtype_name(dtype));
}

/* ---- inputs ---- */

static struct srv_oip_input *find_input(const struct srv_oip_request *r, const char *alias)
{
    for (int i = 0; i < r->n_inputs; i++)
        if (rt_span_is(r->inputs[i].name, alias))
            return &r->inputs[i];
    return NULL;
}

/* Checks that the signature has each input of the request, and that the request names no input
 * twice. */
static enum rt_status check_names(const struct srv_oip_request *r, const struct rt_signature *sig,
                                  struct rt_error *err)
{
    for (int i = 0; i < r->n_inputs; i++) {
        const struct rt_span name = r->inputs[i].name;
        const struct rt_tensor_spec *spec = rt_tensor_spec_find(sig->inputs, sig->n_inputs, name);
        if (!spec)
            return fail_tensor("input", name, sig->name, sig->inputs, sig->n_inputs, err);
        if (find_input(r, spec->alias) != &r->inputs[i])
            return srv_oip_fail_input(err, name, "is given twice");
    }
    return RT_OK;
}

/* Writes a shape as Triton does: "[-1,2]". */
static const char *shape_text(char *buffer, size_t capacity, int rank, const int64_t *dim)
{
    size_t n = (size_t)snprintf(buffer, capacity, "[");

    for (int i = 0; i < rank && n < capacity; i++)
        n += (size_t)snprintf(buffer + n, capacity - n, "%s%lld", i ? "," : "", (long long)dim[i]);
    if (n < capacity)
        snprintf(buffer + n, capacity - n, "]");
    return buffer;
}

static enum rt_status fail_shape(const struct srv_inference *inf, const struct srv_oip_input *in,
                                 const struct rt_shape *shape, struct rt_error *err)
{
    const struct rt_span model = rt_error_name(err, srv_oip_full_name(&inf->spec));
    char expected[192], got[192];

    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "unexpected shape for input '%.*s' for model '%.*s'. Expected %s, got %s",
                   (int)in->name.n, (const char *)in->name.p, (int)model.n, (const char *)model.p,
                   shape_text(expected, sizeof expected, shape->rank, shape->dim),
                   shape_text(got, sizeof got, in->rank, in->dim));
}

/* Checks the rank and the fixed dimensions of an input against the signature, as Triton does.
 * TensorFlow Serving runs such a request, and its graph may accept the tensor. A scalar of the
 * signature may also have the shape [1], because Triton's configurations have no empty shape. */
static enum rt_status check_shape(const struct srv_inference *inf, const struct srv_oip_input *in,
                                  const struct rt_shape *shape, struct rt_error *err)
{
    if (shape->rank < 0 || (shape->rank == 0 && in->rank == 1 && in->dim[0] == 1))
        return RT_OK;
    if (in->rank != shape->rank)
        return fail_shape(inf, in, shape, err);
    for (int i = 0; i < in->rank; i++)
        if (shape->dim[i] >= 0 && in->dim[i] != shape->dim[i])
            return fail_shape(inf, in, shape, err);
    return RT_OK;
}

static enum rt_status bind_input(struct srv_inference *inf, int i, struct srv_allowance *allowance,
                                 struct rt_error *err)
{
    const struct rt_model_signature *sig = inf->job->signature;
    const struct rt_tensor_spec *spec = &sig->def->inputs[i];
    struct srv_oip_input *in = find_input(inf->request, spec->alias);
    const enum rt_dtype dtype = rt_callable_feed_dtype(sig->call, i);

    if (!in && spec->default_value) {
        rt_tensor_ref(&inf->job->feeds[i], spec->default_value);
        return RT_OK;
    }
    if (!in)
        return srv_oip_fail_input(err, rt_span_str(spec->alias), "is missing");
    if (in->dtype != dtype) {
        const char *name = srv_oip_dtype_name(dtype);
        return srv_oip_fail_input(err, in->name, "has the datatype %s, but the model takes %s",
                                  srv_oip_dtype_name(in->dtype),
                                  name ? name : rt_dtype_name(dtype));
    }
    if (check_shape(inf, in, &spec->shape, err))
        return err->code;
    in->feed = i;
    return in->region.name.p ? srv_oip_bind_region(inf, in, &inf->job->feeds[i], allowance, err)
                             : srv_oip_tensor_read(in, &inf->job->feeds[i], allowance, err);
}

/* Makes the signature's only input from a body without JSON. If one dimension of the model's shape
 * is unknown, the length of the body determines it. */
static enum rt_status make_input(struct srv_inference *inf, struct rt_error *err)
{
    struct srv_oip_request *r = inf->request;
    const struct rt_model_signature *sig = inf->job->signature;
    const struct rt_tensor_spec *spec = sig->def->inputs;
    struct srv_oip_input *in = rt_arena_alloc(inf->arena, sizeof *in);
    int64_t *open = NULL, known = 1, each;
    int n_open = 0;

    if (!in)
        return rt_fail_memory(err, "a request", sizeof *in);
    if (sig->def->n_inputs != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "a body without JSON is one input, but the signature \"%s\" has %d",
                       sig->def->name, sig->def->n_inputs);
    const enum rt_dtype dtype = rt_callable_feed_dtype(sig->call, 0);
    if (!srv_oip_dtype_name(dtype)) /* the elements of resource and variant tensors are pointers */
        return fail_type(err, "input", spec->alias, dtype);
    *in = (struct srv_oip_input){.name = rt_span_str(spec->alias),
                                 .dtype = dtype,
                                 .rank = spec->shape.rank,
                                 .is_raw = true,
                                 .values = r->body};
    for (int i = 0; i < in->rank; i++) {
        in->dim[i] = spec->shape.dim[i];
        if (in->dim[i] < 0 && n_open++ == 0)
            open = &in->dim[i];
        else if (in->dim[i] < 0 || __builtin_mul_overflow(known, in->dim[i], &known))
            known = 0;
    }
    if (in->rank < 0 || n_open > 1)
        return srv_oip_fail_input(err, in->name,
                                  "has a shape that the size of the body does not determine");
    if (__builtin_mul_overflow(known, (int64_t)rt_dtype_size(in->dtype), &each))
        each = 0;
    if (open)
        *open = in->dtype == RT_STRING ? 1 : each > 0 ? (int64_t)r->body.left / each : 0;
    r->inputs = in;
    r->n_inputs = 1;
    return RT_OK;
}

/* ---- outputs ---- */

static enum rt_status choose_outputs(struct srv_inference *inf, struct rt_error *err)
{
    struct srv_oip_request *r = inf->request;
    const struct rt_signature *sig = inf->job->signature->def;
    const int n = r->n_outputs ? r->n_outputs : sig->n_outputs;

    r->order = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *r->order);
    r->order_is_binary = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *r->order_is_binary);
    r->order_output = rt_arena_array(inf->arena, (size_t)n + 1, sizeof(*r->order_output));
    if (!r->order || !r->order_is_binary || !r->order_output)
        return rt_fail_memory(err, "a request", 0);
    for (int i = 0; i < sig->n_outputs; i++)
        inf->wanted[i] = r->n_outputs == 0;
    for (int i = 0; i < n; i++) {
        r->order[i] = i;
        r->order_is_binary[i] = r->is_binary;
        if (!r->n_outputs)
            continue;
        const struct rt_span name = r->outputs[i].name, shown = rt_error_name(err, name);
        const struct rt_tensor_spec *spec = rt_tensor_spec_find(sig->outputs, sig->n_outputs, name);
        if (!spec)
            return fail_tensor("output", name, sig->name, sig->outputs, sig->n_outputs, err);
        if (inf->wanted[spec - sig->outputs])
            return rt_fail(err, RT_INVALID_ARGUMENT, "output \"%.*s\" is requested twice",
                           (int)shown.n, (const char *)shown.p);
        r->order[i] = (int)(spec - sig->outputs);
        r->order_is_binary[i] = r->outputs[i].is_binary && !r->outputs[i].region.name.p;
        r->order_output[i] = &r->outputs[i];
        inf->wanted[r->order[i]] = true;
    }
    r->n_order = n;
    return RT_OK;
}

/* Checks that the protocol has a name for the type of each requested output. Uses the types of the
 * graph, because the signature may state other types. */
static enum rt_status check_outputs(const struct srv_inference *inf, struct rt_error *err)
{
    const struct rt_model_signature *sig = inf->job->signature;
    const struct srv_oip_request *r = inf->request;

    for (int i = 0; i < sig->def->n_outputs; i++) {
        const enum rt_dtype dtype = rt_callable_fetch_dtype(sig->call, i);
        if (inf->wanted[i] && !srv_oip_dtype_name(dtype))
            return fail_type(err, "output", sig->def->outputs[i].alias, dtype);
    }
    for (int i = 0; i < r->n_outputs; i++) {
        const enum rt_dtype dtype = rt_callable_fetch_dtype(sig->call, r->order[i]);
        if (r->outputs[i].n_classes && !srv_oip_has_classes(dtype))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "output \"%s\" is of type %s, which has no classes: see the parameter "
                           "classification",
                           sig->def->outputs[r->order[i]].alias, rt_dtype_name(dtype));
    }
    return RT_OK;
}

/* Reduces the size of the outputs that an I/O loop writes if the response contains classes.
 * Choosing and writing the classes of 512 large doubles takes more than a millisecond. */
static void limit_inline_outputs(const struct srv_inference *inf)
{
    enum { INLINE_CLASSES_BYTES = 4096 };
    const struct srv_oip_request *r = inf->request;

    for (int i = 0; i < r->n_outputs; i++)
        if (r->outputs[i].n_classes && inf->job->max_inline_bytes > INLINE_CLASSES_BYTES)
            inf->job->max_inline_bytes = INLINE_CLASSES_BYTES;
}

enum rt_status srv_oip_bind(struct srv_inference *inf, struct rt_error *err)
{
    const struct rt_signature *sig = inf->job->signature->def;
    const struct srv_oip_request *r = inf->request;
    enum rt_status st = r->is_raw_body ? make_input(inf, err) : RT_OK;

    if (!st)
        st = check_names(r, sig, err);
    if (!st)
        st = choose_outputs(inf, err);
    if (!st)
        st = check_outputs(inf, err);
    limit_inline_outputs(inf);
    for (int i = 0; i < sig->n_inputs && !st; i++)
        st = bind_input(inf, i, &inf->allowance, err);
    return st ? st : rt_callable_check_feeds(inf->job->signature->call, inf->job->feeds, err);
}

/* ---- shared memory: Triton's extension system_shared_memory ---- */

enum rt_status srv_oip_tensor_parameter(struct srv_oip_region *region, uint64_t *n_classes,
                                        struct rt_span name, const struct srv_oip_value *v,
                                        struct rt_error *err)
{
    const bool is_bytes = rt_span_is(name, "shared_memory_byte_size");

    if (rt_span_is(name, "shared_memory_region")) {
        if (!v->is_text || !v->text.n)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "the parameter shared_memory_region is no name of a region");
        region->name = v->text;
        return RT_OK;
    }
    if (n_classes && rt_span_is(name, "classification")) {
        if (!v->is_number || v->number > INT64_MAX)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "the parameter classification is no integer of at least 0");
        *n_classes = v->number;
        return RT_OK;
    }
    if (!is_bytes && !rt_span_is(name, "shared_memory_offset"))
        return srv_oip_check_parameter(name, v->is_set, err);
    if (!v->is_number || v->number > INT64_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the parameter %s is no integer of at least 0",
                       is_bytes ? "shared_memory_byte_size" : "shared_memory_offset");
    *(is_bytes ? &region->bytes : &region->offset) = v->number;
    region->has_bytes |= is_bytes;
    return RT_OK;
}

enum rt_status srv_oip_check_region(const struct srv_oip_region *region, struct rt_span name,
                                    struct rt_error *err)
{
    const struct rt_span shown = rt_error_name(err, name);

    if ((region->name.p != NULL) == region->has_bytes && (region->name.p || !region->offset))
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "tensor \"%.*s\" has only one of the parameters shared_memory_region and "
                   "shared_memory_byte_size",
                   (int)shown.n, (const char *)shown.p);
}

static enum rt_status check_on(const struct srv_inference *inf, struct rt_error *err)
{
    return inf->shared_memory
               ? RT_OK
               : rt_fail(err, RT_UNIMPLEMENTED,
                         "the parameter \"shared_memory_region\" asks for shared memory, which "
                         "this server does not have: --system_shared_memory_bytes is 0");
}

/* ---- inputs ---- */

/* Fills the strings of a tensor from a copy of the region's bytes. */
static enum rt_status read_strings(struct srv_inference *inf, const struct srv_oip_input *in,
                                   struct rt_tensor *t, struct rt_error *err)
{
    /* in->name is no longer valid after the message has been freed */
    const struct rt_span name = rt_span_str(inf->job->signature->def->inputs[in->feed].alias);
    struct srv_oip_input raw = *in;
    const size_t n = (size_t)in->region.bytes;
    struct srv_allowance *allowance = &inf->allowance;
    enum rt_status st = srv_oip_take(allowance, n, name, err);
    char *p = st ? NULL : malloc(n + 1);

    if (st)
        return st;
    if (!p)
        return rt_fail_memory(err, "an input in shared memory", n);
    const struct rt_span bytes = rt_span_of(p, n);
    st = srv_region_read(inf->shared_memory, in->region.name, in->region.offset, p, n, err);
    raw.is_raw = true;
    raw.values = srv_cursor_of(&bytes, n);
    raw.values.cancellation = &inf->cancellation;
    raw.name = name;
    if (!st)
        st = srv_oip_fill_raw(&raw, t, allowance, err);
    free(p);
    srv_allowance_give(allowance, n);
    return st;
}

/* Reads the values of all inputs in shared memory. Runs on a worker. */
static enum rt_status read_regions(struct srv_job *job)
{
    struct srv_inference *inf = job->inference;
    const struct srv_oip_request *r = inf->request;
    enum rt_status st = RT_OK;

    for (int i = 0; i < r->n_inputs && !st; i++) {
        const struct srv_oip_input *in = &r->inputs[i];
        if (!in->region.name.p)
            continue;
        struct rt_tensor *t = &job->feeds[in->feed];
        if (in->dtype == RT_STRING) {
            st = read_strings(inf, in, t, &job->err);
            continue;
        }
        st = srv_region_read(inf->shared_memory, in->region.name, in->region.offset, t->data,
                             rt_tensor_bytes(t), &job->err);
        uint8_t *bools = in->dtype == RT_BOOL ? t->data : NULL;
        for (int64_t k = 0, n = rt_tensor_count(t); bools && k < n; k++)
            bools[k] = bools[k] != 0; /* kernels require booleans to be 0 or 1 */
    }
    return st;
}

enum rt_status srv_oip_bind_region(struct srv_inference *inf, struct srv_oip_input *in,
                                   struct rt_tensor *out, struct srv_allowance *allowance,
                                   struct rt_error *err)
{
    struct rt_error why = {0};
    char shape[128];
    size_t bytes = 0;
    enum rt_status st = check_on(inf, err);

    if (st)
        return st;
    if (rt_shape_check(in->dtype, in->rank, in->dim, &bytes, &why))
        return srv_oip_fail_size(in, &why, err);
    /* in the region, a 4-byte length precedes each string */
    if (in->dtype == RT_STRING ? (uint64_t)rt_count(in->rank, in->dim) > in->region.bytes / 4
                               : bytes != in->region.bytes)
        return srv_oip_fail_input(err, in->name,
                                  "has a shared_memory_byte_size of %llu, which is not the size of "
                                  "%s of the shape %s",
                                  (unsigned long long)in->region.bytes,
                                  srv_oip_dtype_name(in->dtype),
                                  rt_shape_text(shape, sizeof shape, in->rank, in->dim));
    st = srv_region_check(inf->shared_memory, in->region.name, in->region.offset, in->region.bytes,
                          err);
    if (!st)
        st = srv_oip_take(allowance, bytes, in->name, err);
    if (!st)
        st = rt_tensor_new(out, NULL, in->dtype, in->rank, in->dim, err);
    inf->job->inference = inf;
    inf->job->prepare = read_regions;
    return st;
}

/* ---- outputs ---- */

static enum rt_status write_region(const struct srv_inference *inf,
                                   const struct srv_oip_region *region, const struct rt_tensor *t,
                                   const char *name, struct rt_error *err)
{
    struct srv_cancellation cancellation = srv_job_cancellation(inf->job);
    const size_t n = srv_oip_raw_bytes(t);
    struct rt_bytes bytes;

    if (n > region->bytes)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "output \"%s\" has %zu bytes, but its shared_memory_byte_size is %llu", name,
                       n, (unsigned long long)region->bytes);
    if (t->dtype != RT_STRING)
        return srv_region_write(inf->shared_memory, region->name, region->offset, t->data, n, err);
    rt_bytes_init(&bytes, n + 1);
    srv_oip_write_raw(&bytes, t, &cancellation);
    enum rt_status st = srv_cancellation_status(&cancellation, err);
    if (!st && bytes.failed)
        st = rt_fail_memory(err, "an output in shared memory", n);
    if (!st)
        st = srv_region_write(inf->shared_memory, region->name, region->offset, bytes.p, bytes.n,
                              err);
    rt_bytes_clear(&bytes);
    return st;
}

enum rt_status srv_oip_write_regions(const struct srv_inference *inf, struct rt_error *err)
{
    const struct srv_oip_request *r = inf->request;
    enum rt_status st = RT_OK;

    for (int i = 0; i < r->n_order && !st; i++) {
        if (!srv_oip_in_region(r, i))
            continue;
        st = check_on(inf, err);
        if (!st)
            st = write_region(inf, &r->order_output[i]->region, srv_oip_result(inf, i),
                              inf->job->signature->def->outputs[r->order[i]].alias, err);
    }
    return st;
}
