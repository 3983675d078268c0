#include "clients/c/slipway_client.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

#include "clients/c/message.h"

/* bytes allowed in a response's arena for names and tables, in addition to the tensors */
enum { ARENA_SLACK = 1 << 20 };

struct slipway_client {
    grpc_channel *channel;
    char *authorization; /* value of the authorization header, or NULL */
    size_t max_message_bytes;
};

/* ---- errors ---- */

static enum slipway_code fail_span(struct slipway_error *err, enum slipway_code code,
                                   const void *text, size_t n)
{
    if (n >= sizeof err->text)
        n = sizeof err->text - 1;
    if (n)
        memcpy(err->text, text, n);
    err->text[n] = '\0';
    err->code = code;
    return code;
}

static enum slipway_code fail(struct slipway_error *err, enum slipway_code code, const char *text)
{
    return fail_span(err, code, text, strlen(text));
}

static enum slipway_code failed(struct slipway_error *err, const struct rt_error *why)
{
    return fail(err, (enum slipway_code)why->code, rt_error_text(why));
}

/* ---- the connection ---- */

static grpc_channel_credentials *credentials(const struct slipway_options *o)
{
    if (!o->tls)
        return grpc_insecure_credentials_create();
    grpc_ssl_pem_key_cert_pair pair = {.private_key = o->key, .cert_chain = o->cert};
    return grpc_ssl_credentials_create_ex(o->ca, o->key ? &pair : NULL, NULL, NULL);
}

struct slipway_client *slipway_client_new(const struct slipway_options *o,
                                          struct slipway_error *err)
{
    if (!o->address || !*o->address) {
        fail(err, SLIPWAY_INVALID_ARGUMENT, "no address is given");
        return NULL;
    }
    if (!o->cert != !o->key) {
        fail(err, SLIPWAY_INVALID_ARGUMENT, "a certificate and its key are given together");
        return NULL;
    }
    if (!o->tls && (o->ca || o->cert)) {
        fail(err, SLIPWAY_INVALID_ARGUMENT, "certificates are given, but TLS is not asked for");
        return NULL;
    }
    struct slipway_client *c = calloc(1, sizeof *c);
    size_t n = o->token ? strlen(o->token) + sizeof "Bearer " : 0;
    if (c && n)
        c->authorization = malloc(n);
    if (!c || (n && !c->authorization)) {
        free(c);
        fail(err, SLIPWAY_RESOURCE_EXHAUSTED, "out of memory for a client");
        return NULL;
    }
    if (n) {
        memcpy(c->authorization, "Bearer ", sizeof "Bearer " - 1);
        memcpy(c->authorization + sizeof "Bearer " - 1, o->token, strlen(o->token) + 1);
    }
    c->max_message_bytes = o->max_message_bytes ? o->max_message_bytes : INT32_MAX;
    /* gRPC's API lacks const for these parameters, although gRPC only reads them. */
    char receive[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, send[] = GRPC_ARG_MAX_SEND_MESSAGE_LENGTH;
    char backoff[] = GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS;
    char pool[] = GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, name[] = GRPC_SSL_TARGET_NAME_OVERRIDE_ARG;
    char *server_name = o->tls && o->server_name ? strdup(o->server_name) : NULL;
    grpc_arg args[8] = {
        {GRPC_ARG_INTEGER,
         receive,
         {.integer = c->max_message_bytes > INT32_MAX ? -1 : (int)c->max_message_bytes}},
        {GRPC_ARG_INTEGER, send, {.integer = -1}},
        {GRPC_ARG_INTEGER, backoff, {.integer = 200}},
    };
    size_t n_args = 3;
    if (o->own_connection)
        args[n_args++] = (grpc_arg){GRPC_ARG_INTEGER, pool, {.integer = 1}};
    if (server_name)
        args[n_args++] = (grpc_arg){GRPC_ARG_STRING, name, {.string = server_name}};

    grpc_init();
    grpc_channel_credentials *creds = credentials(o);
    if (creds) {
        c->channel = grpc_channel_create(o->address, creds,
                                         &(grpc_channel_args){.num_args = n_args, .args = args});
        grpc_channel_credentials_release(creds);
    }
    free(server_name);
    if (!c->channel) {
        slipway_client_free(c);
        fail(err, SLIPWAY_INVALID_ARGUMENT,
             "the certificates cannot be used: they are not PEM, or the key is another's");
        return NULL;
    }
    return c;
}

void slipway_client_free(struct slipway_client *c)
{
    if (!c)
        return;
    if (c->channel)
        grpc_channel_destroy(c->channel);
    grpc_shutdown();
    free(c->authorization);
    free(c);
}

/* ---- a call ---- */

static unsigned char *bytes_of(grpc_byte_buffer *buffer, size_t *n)
{
    grpc_byte_buffer_reader reader;
    grpc_slice slice;
    *n = grpc_byte_buffer_length(buffer);
    unsigned char *p = malloc(*n + 1);
    if (!p || !grpc_byte_buffer_reader_init(&reader, buffer)) {
        free(p);
        return NULL;
    }
    size_t at = 0;
    while (grpc_byte_buffer_reader_next(&reader, &slice)) {
        size_t more = GRPC_SLICE_LENGTH(slice);
        if (more > *n - at)
            more = *n - at;
        memcpy(p + at, GRPC_SLICE_START_PTR(slice), more);
        at += more;
        grpc_slice_unref(slice);
    }
    grpc_byte_buffer_reader_destroy(&reader);
    *n = at;
    p[at] = 0;
    return p;
}

/* Calls a unary method and waits for the response. Takes ownership of `request`. */
static enum slipway_code unary(struct slipway_client *c, const char *method, grpc_slice request,
                               int64_t timeout_ms, grpc_byte_buffer **response,
                               struct slipway_error *err)
{
    grpc_completion_queue *cq = grpc_completion_queue_create_for_pluck(NULL);
    gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    if (timeout_ms > 0)
        deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
    grpc_slice path = grpc_slice_from_copied_string(method);
    grpc_call *call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, cq, path,
                                               NULL, deadline, NULL);
    grpc_slice_unref(path);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&request, 1);
    grpc_slice_unref(request);
    grpc_metadata_array initial, trailing;
    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    grpc_metadata sent = {0};
    if (c->authorization) {
        sent.key = grpc_slice_from_static_string("authorization");
        sent.value = grpc_slice_from_static_string(c->authorization);
    }
    grpc_status_code status = GRPC_STATUS_UNKNOWN;
    grpc_slice details = grpc_empty_slice();
    grpc_op ops[6] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},  {.op = GRPC_OP_SEND_MESSAGE},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}, {.op = GRPC_OP_RECV_INITIAL_METADATA},
        {.op = GRPC_OP_RECV_MESSAGE},           {.op = GRPC_OP_RECV_STATUS_ON_CLIENT},
    };
    ops[0].data.send_initial_metadata.count = c->authorization ? 1 : 0;
    ops[0].data.send_initial_metadata.metadata = &sent;
    ops[1].data.send_message.send_message = message;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &initial;
    ops[4].data.recv_message.recv_message = response;
    ops[5].data.recv_status_on_client.trailing_metadata = &trailing;
    ops[5].data.recv_status_on_client.status = &status;
    ops[5].data.recv_status_on_client.status_details = &details;
    *response = NULL;
    enum slipway_code code;
    if (grpc_call_start_batch(call, ops, 6, call, NULL) == GRPC_CALL_OK) {
        grpc_completion_queue_pluck(cq, call, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        code = status ? fail_span(err, (enum slipway_code)status, GRPC_SLICE_START_PTR(details),
                                  GRPC_SLICE_LENGTH(details))
                      : SLIPWAY_OK;
    } else
        code = fail(err, SLIPWAY_INVALID_ARGUMENT,
                    "gRPC refuses the call: the token or the method holds what it cannot send");
    if (code && *response) {
        grpc_byte_buffer_destroy(*response);
        *response = NULL;
    }
    grpc_slice_unref(details);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    grpc_byte_buffer_destroy(message);
    grpc_call_unref(call);
    grpc_completion_queue_shutdown(cq);
    grpc_completion_queue_destroy(cq);
    if (!code && !*response)
        return fail(err, SLIPWAY_INTERNAL, "the server gave no answer");
    return code;
}

static enum slipway_code exchange(struct slipway_client *c, const char *method, grpc_slice request,
                                  const struct slipway_call *call, unsigned char **out,
                                  size_t *n_out, struct slipway_error *err)
{
    grpc_byte_buffer *response;
    *out = NULL;
    *n_out = 0;
    enum slipway_code code = unary(c, method, request, call ? call->timeout_ms : 0, &response, err);
    if (code)
        return code;
    *out = bytes_of(response, n_out);
    grpc_byte_buffer_destroy(response);
    return *out ? SLIPWAY_OK
                : fail(err, SLIPWAY_RESOURCE_EXHAUSTED, "out of memory for the answer");
}

enum slipway_code slipway_unary(struct slipway_client *c, const char *method, const void *request,
                                size_t n, const struct slipway_call *call, unsigned char **out,
                                size_t *n_out, struct slipway_error *err)
{
    return exchange(c, method, grpc_slice_from_copied_buffer(request, n), call, out, n_out, err);
}

/* Calls a method with the serialized message `request`. Takes ownership of the bytes, without a
 * copy. */
static enum slipway_code send_bytes(struct slipway_client *c, const char *method,
                                    struct rt_bytes *request, const struct slipway_call *call,
                                    unsigned char **out, size_t *n_out, struct slipway_error *err)
{
    *out = NULL;
    size_t n;
    bool is_empty = !request->failed && !request->n;
    char *p = rt_bytes_take(request, &n);
    rt_bytes_clear(request);
    if (!p && !is_empty)
        return fail(err, SLIPWAY_RESOURCE_EXHAUSTED, "out of memory for the request");
    grpc_slice slice = p ? grpc_slice_new(p, n, free) : grpc_empty_slice();
    return exchange(c, method, slice, call, out, n_out, err);
}

/* ---- results: the public struct and the arena that holds its data ---- */

struct given {
    union {
        struct slipway_answer response;
        struct slipway_status status;
        struct slipway_metadata metadata;
    } is; /* must be the first member, because its address is cast to `struct given *` */
    struct rt_arena *arena;
};

static struct given *given_new(size_t cap, struct slipway_error *err)
{
    struct rt_arena *arena = rt_arena_new(cap > SIZE_MAX - ARENA_SLACK ? cap : cap + ARENA_SLACK);
    struct given *g = arena ? rt_arena_alloc(arena, sizeof *g) : NULL;
    if (g)
        g->arena = arena;
    else {
        rt_arena_free(arena);
        fail(err, SLIPWAY_RESOURCE_EXHAUSTED, "out of memory for the answer");
    }
    return g;
}

static void given_free(void *public)
{
    struct given *g = public;
    if (g)
        rt_arena_free(g->arena);
}

void slipway_answer_free(struct slipway_answer *a)
{
    given_free(a);
}

void slipway_status_free(struct slipway_status *s)
{
    given_free(s);
}

void slipway_metadata_free(struct slipway_metadata *m)
{
    given_free(m);
}

/* ---- the calls ---- */

enum slipway_code slipway_predict(struct slipway_client *c, const struct slipway_model *model,
                                  const struct slipway_tensor *inputs, int n_inputs,
                                  const struct slipway_call *call, struct slipway_answer **out,
                                  struct slipway_error *err)
{
    struct rt_bytes request;
    struct rt_error why = {0};
    unsigned char *bytes;
    size_t n, budget = c->max_message_bytes;
    *out = NULL;
    rt_bytes_init(&request, SIZE_MAX);
    if (cl_write_predict(&request, model, inputs, n_inputs, call ? call->outputs : NULL,
                         call ? call->n_outputs : 0, &why)) {
        rt_bytes_clear(&request);
        return failed(err, &why);
    }
    enum slipway_code code = send_bytes(c, "/tensorflow.serving.PredictionService/Predict",
                                        &request, call, &bytes, &n, err);
    if (code)
        return code;
    struct given *g = given_new(budget, err);
    if (!g)
        code = err->code;
    else if (cl_read_predict(rt_span_of(bytes, n), g->arena, &budget, &g->is.response, &why)) {
        code = failed(err, &why);
        given_free(g);
    } else
        *out = &g->is.response;
    free(bytes);
    return code;
}

const struct slipway_tensor *slipway_output(const struct slipway_answer *a, const char *name)
{
    for (int i = 0; i < a->n_outputs; i++)
        if (strcmp(a->outputs[i].name, name) == 0)
            return &a->outputs[i];
    return NULL;
}

/* Sends a request that contains only a ModelSpec, and waits for the response. */
static enum slipway_code query(struct slipway_client *c, const char *method,
                               void (*write)(struct rt_bytes *, const struct slipway_model *),
                               const struct slipway_model *model, const struct slipway_call *call,
                               unsigned char **bytes, size_t *n, struct given **g,
                               struct slipway_error *err)
{
    struct rt_bytes request;
    rt_bytes_init(&request, SIZE_MAX);
    write(&request, model);
    enum slipway_code code = send_bytes(c, method, &request, call, bytes, n, err);
    if (code)
        return code;
    *g = given_new(SIZE_MAX, err);
    if (!*g) {
        free(*bytes);
        return err->code;
    }
    return SLIPWAY_OK;
}

enum slipway_code slipway_status(struct slipway_client *c, const struct slipway_model *model,
                                 const struct slipway_call *call, struct slipway_status **out,
                                 struct slipway_error *err)
{
    struct given *g;
    struct rt_error why = {0};
    unsigned char *bytes;
    size_t n;
    *out = NULL;
    enum slipway_code code = query(c, "/tensorflow.serving.ModelService/GetModelStatus",
                                   cl_write_status_request, model, call, &bytes, &n, &g, err);
    if (code)
        return code;
    if (cl_read_status(rt_span_of(bytes, n), g->arena, &g->is.status, &why)) {
        code = failed(err, &why);
        given_free(g);
    } else
        *out = &g->is.status;
    free(bytes);
    return code;
}

enum slipway_code slipway_metadata(struct slipway_client *c, const struct slipway_model *model,
                                   const struct slipway_call *call, struct slipway_metadata **out,
                                   struct slipway_error *err)
{
    struct given *g;
    struct rt_error why = {0};
    unsigned char *bytes;
    size_t n;
    *out = NULL;
    enum slipway_code code = query(c, "/tensorflow.serving.PredictionService/GetModelMetadata",
                                   cl_write_metadata_request, model, call, &bytes, &n, &g, err);
    if (code)
        return code;
    if (cl_read_metadata(rt_span_of(bytes, n), g->arena, &g->is.metadata, &why)) {
        code = failed(err, &why);
        given_free(g);
    } else
        *out = &g->is.metadata;
    free(bytes);
    return code;
}

enum slipway_code slipway_reload(struct slipway_client *c, const char *config,
                                 const struct slipway_call *call, struct slipway_error *err)
{
    struct rt_bytes request;
    struct rt_error why = {0};
    unsigned char *bytes;
    size_t n;
    rt_bytes_init(&request, SIZE_MAX);
    if (cl_write_reload_request(&request, config, &why)) {
        rt_bytes_clear(&request);
        return failed(err, &why);
    }
    enum slipway_code code =
        send_bytes(c, "/tensorflow.serving.ModelService/HandleReloadConfigRequest", &request, call,
                   &bytes, &n, err);
    if (code)
        return code;
    cl_read_reload(rt_span_of(bytes, n), &why);
    free(bytes);
    return failed(err, &why);
}
