/*
 * Each loop thread has a completion queue; each call is one struct from the loop's own list. A
 * call's events are counted, so that it goes back to the list only when none can come any more.
 */
#include "server/grpc.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "server/grpc_info.h"
#include "server/metrics.h"
#include "server/net.h"
#include "server/number.h"
#include "server/predict_proto.h"
#include "server/scheduler.h"

enum {
    POSTED = 16, /* calls that wait for a request, per loop and kind */
    EVENTS_PER_TURN = 256,
    MAX_WATCHERS = 1000,  /* per loop */
    WATCH_NS = 500000000, /* how often watched services are looked at */
    ERROR_TEXT = 1024,    /* longer ones are cut, as TensorFlow Serving does */
    CALL_ARENA = 16 << 20,
    TENSOR_FACTOR = 2, /* a request's tensors may take so many times the largest body */
    MAX_ARGS = 64,
};

/* What an event means. Its address is the tag. */
enum event_kind { EV_CALL, EV_CLOSE, EV_MESSAGE, EV_SENT, EV_WAKE, EV_SHUTDOWN };

struct call;
struct event {
    enum event_kind kind;
    struct call *call;
};

struct watch {
    struct rt_span service;
    enum srv_health told;
    bool is_open, is_sending, is_ended;
};

struct call {
    struct call *next; /* in the loop's list of free calls, or of watchers */
    struct loop *loop;
    struct event on_call, on_close, on_message, on_sent;
    bool is_predict;
    int pending; /* events to come, the first one not counted; loop thread only */
    /* A batch started on another thread comes back through the core's queue, which orders the two;
     * this says the same where the thread sanitizer can see it. */
    _Atomic int handed;
    bool counted;

    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    gpr_timespec deadline;
    grpc_byte_buffer *payload;
    int cancelled;

    struct rt_arena *arena;
    struct rt_error err;
    struct srv_predict_request request;
    bool *wanted;
    struct srv_job job;
    int64_t received_ns;
    size_t charged; /* of the bytes in flight */
    unsigned char *inflated;

    bool close_started;  /* RECV_CLOSE is under way */
    bool is_closed;      /* and has come */
    bool may_send_close; /* the answer, given on the loop thread, takes RECV_CLOSE with it */
    enum rt_status code; /* of the answer */
    struct watch watch;
};

struct loop {
    struct srv_net net; /* first */
    struct srv_grpc *grpc;
    grpc_completion_queue *cq;
    pthread_t thread;
    bool is_running;
    struct event on_wake;
    struct srv_mail begin; /* asks for the first calls */
    struct call *free;
    struct call *watchers;
    int n_watchers;
    int64_t watched_ns;
};

struct srv_grpc {
    struct srv_server *server;
    grpc_server *core;
    void *predict; /* the registered method */
    struct event on_shutdown;
    grpc_channel *nowhere; /* see wake */
    _Atomic int in_flight; /* calls read and not answered; streams of Watch are not counted */
    _Atomic int n_calls;   /* calls that hold a grpc_call */
    _Atomic bool quiesced, shut_down;
    bool is_started;
    /* the UNIX socket */
    int listen_fd, stop_fd;
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    struct stat socket; /* ours, to be unlinked only while it still is */
    pthread_t acceptor;
    int n_loops;
    struct loop *loops;
};

/* ---- calls ---- */

static struct call *new_call(struct loop *loop)
{
    struct call *c = loop->free;

    if (c) {
        loop->free = c->next;
        return c;
    }
    c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->arena = rt_arena_new(CALL_ARENA);
    if (!c->arena) {
        free(c);
        return NULL;
    }
    c->loop = loop;
    c->on_call = (struct event){EV_CALL, c};
    c->on_close = (struct event){EV_CLOSE, c};
    c->on_message = (struct event){EV_MESSAGE, c};
    c->on_sent = (struct event){EV_SENT, c};
    return c;
}

static void free_call(struct call *c)
{
    rt_arena_free(c->arena);
    free(c);
}

/* Asks for one more request. */
static void post_call(struct loop *loop, bool is_predict)
{
    struct srv_grpc *g = loop->grpc;
    struct call *c = new_call(loop);
    grpc_call_error e;

    if (!c) {
        RT_LOG(RT_LOG_ERROR, "gRPC: out of memory for a call");
        return;
    }
    c->is_predict = is_predict;
    c->call = NULL;
    c->payload = NULL;
    grpc_metadata_array_init(&c->metadata);
    if (is_predict) {
        e = grpc_server_request_registered_call(g->core, g->predict, &c->call, &c->deadline,
                                                &c->metadata, &c->payload, loop->cq, loop->cq,
                                                &c->on_call);
    } else {
        grpc_call_details_init(&c->details);
        e = grpc_server_request_call(g->core, &c->call, &c->details, &c->metadata, loop->cq,
                                     loop->cq, &c->on_call);
    }
    if (e != GRPC_CALL_OK) {
        RT_LOG(RT_LOG_ERROR, "gRPC: cannot ask for a call: %s", grpc_call_error_to_string(e));
        grpc_metadata_array_destroy(&c->metadata);
        free_call(c);
    }
}

static void post_calls(struct srv_net *net, struct srv_mail *mail)
{
    (void)mail;
    for (int i = 0; i < POSTED; i++) {
        post_call(net->loop, true);
        post_call(net->loop, false);
    }
}

static bool charge(struct call *c, size_t bytes)
{
    struct srv_server *s = c->loop->net.server;
    int64_t limit = s->options.max_bytes_in_flight, n = (int64_t)bytes;
    int64_t now = atomic_fetch_add_explicit(&s->bytes_in_flight, n, memory_order_relaxed) + n;

    if (limit > 0 && now > limit && now != n) { /* a single request is never too much */
        atomic_fetch_sub_explicit(&s->bytes_in_flight, n, memory_order_relaxed);
        return false;
    }
    c->charged += bytes;
    return true;
}

static void uncharge(struct call *c, size_t bytes)
{
    atomic_fetch_sub_explicit(&c->loop->net.server->bytes_in_flight, (int64_t)bytes,
                              memory_order_relaxed);
    c->charged -= bytes;
}

static void drop_payload(struct call *c)
{
    if (c->payload)
        grpc_byte_buffer_destroy(c->payload);
    c->payload = NULL;
    free(c->inflated);
    c->inflated = NULL;
}

static void uncount(struct call *c)
{
    if (c->counted)
        atomic_fetch_sub(&c->loop->grpc->in_flight, 1);
    c->counted = false;
}

/* No event of the call can come any more. */
static void end_call(struct call *c)
{
    struct loop *loop = c->loop;
    struct srv_net *net = &loop->net;

    if (c->job.version) {
        srv_metrics_request(net, &c->job, rt_span_str(c->job.version->model), SRV_PREDICT, c->code,
                            rt_now_ns() - c->received_ns);
        srv_job_clear(&c->job);
        srv_release(net, c->job.version);
    }
    c->job = (struct srv_job){.next = NULL};
    uncharge(c, c->charged);
    uncount(c);
    drop_payload(c);
    grpc_metadata_array_destroy(&c->metadata);
    if (!c->is_predict)
        grpc_call_details_destroy(&c->details);
    if (c->call) {
        grpc_call_unref(c->call);
        atomic_fetch_sub(&loop->grpc->n_calls, 1);
    }
    c->call = NULL;
    c->err = (struct rt_error){.arena = NULL};
    c->watch = (struct watch){.is_open = false};
    rt_arena_reset(c->arena);
    c->next = loop->free;
    loop->free = c;
}

static void unpend(struct call *c)
{
    if (--c->pending == 0)
        end_call(c);
}

static void start_batch(struct call *c, const grpc_op *ops, size_t n, struct event *event)
{
    grpc_call *call = c->call;
    atomic_store_explicit(&c->handed, 1, memory_order_release);
    grpc_call_error e = grpc_call_start_batch(call, ops, n, event, NULL);
    /* Only a wrong use of the core is answered so, and then no event would come. */
    if (e != GRPC_CALL_OK) {
        RT_LOG(RT_LOG_ERROR, "gRPC: a batch was refused: %s", grpc_call_error_to_string(e));
        abort();
    }
}

/* ---- answers ---- */

static grpc_op op_close(struct call *c)
{
    c->cancelled = 0;
    return (grpc_op){.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                     .data.recv_close_on_server.cancelled = &c->cancelled};
}

/* Loop thread: hears of the client's going while the call is worked on. */
static void start_close(struct call *c)
{
    grpc_op op = op_close(c);
    c->close_started = true;
    c->pending++;
    start_batch(c, &op, 1, &c->on_close);
}

/* Any thread. Takes `body` (NULL: only a status). The event is EV_SENT, counted by the caller. */
static void send_answer(struct call *c, grpc_slice *body, enum rt_status code, const char *text)
{
    grpc_op ops[4] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}};
    grpc_byte_buffer *message = NULL;
    grpc_slice details = grpc_empty_slice();
    size_t n = 1;

    if (body) {
        message = grpc_raw_byte_buffer_create(body, 1);
        grpc_slice_unref(*body);
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
    }
    if (code) {
        static const char cut[] = "...TRUNCATED";
        size_t len = strlen(text);
        char room[ERROR_TEXT + sizeof cut];
        if (len > ERROR_TEXT) {
            memcpy(room, text, ERROR_TEXT);
            memcpy(room + ERROR_TEXT, cut, sizeof cut);
            text = room;
        }
        details = grpc_slice_from_copied_string(text);
    }
    ops[n] = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    ops[n].data.send_status_from_server.status = (grpc_status_code)code;
    ops[n].data.send_status_from_server.status_details = code ? &details : NULL;
    n++;
    if (c->may_send_close)
        ops[n++] = op_close(c);
    start_batch(c, ops, n, &c->on_sent);
    if (message)
        grpc_byte_buffer_destroy(message);
    grpc_slice_unref(details);
}

/* Loop thread, before anything else was started on the call. */
static void answer_here(struct call *c, grpc_slice *body, enum rt_status code, const char *text)
{
    c->may_send_close = !c->close_started;
    c->pending++;
    c->code = code;
    send_answer(c, body, code, text);
    c->may_send_close = false;
}

/* The response's memory is given to the core. */
static grpc_slice slice_taking(void *p, size_t n)
{
    return grpc_slice_new_with_user_data(p, n, free, p);
}

static void answer_bytes(struct call *c, struct rt_bytes *out)
{
    size_t n = 0;

    if (out->failed) {
        answer_here(c, NULL, RT_RESOURCE_EXHAUSTED, "out of memory: the response");
        return;
    }
    char *p = rt_bytes_take(out, &n);
    grpc_slice body = p ? slice_taking(p, n) : grpc_empty_slice();
    answer_here(c, &body, RT_OK, NULL);
}

/* ---- reading ---- */

static int64_t deadline_of(gpr_timespec t)
{
    if (gpr_time_cmp(t, gpr_inf_future(t.clock_type)) == 0)
        return RT_NEVER;
    gpr_timespec left =
        gpr_time_sub(gpr_convert_clock_type(t, GPR_CLOCK_MONOTONIC), gpr_now(GPR_CLOCK_MONOTONIC));
    int64_t now = rt_now_ns();
    if (left.tv_sec > (RT_NEVER - now) / 1000000000 - 1)
        return RT_NEVER;
    return now + left.tv_sec * 1000000000 + left.tv_nsec;
}

/* One zlib or gzip stream, at most `limit` bytes. */
static enum rt_status inflate_slices(struct call *c, const struct rt_span *slices, size_t n_slices,
                                     size_t limit, size_t *n_out)
{
    z_stream z = {.next_in = NULL};
    size_t room = 0, have = 0;
    int rc = Z_OK;
    enum rt_status st = RT_OK;

    if (inflateInit2(&z, 15 + 32) != Z_OK) /* either header */
        return rt_fail_memory(&c->err, "inflating", 0);
    for (size_t i = 0; i < n_slices && rc != Z_STREAM_END && !st; i++) {
        z.next_in = (unsigned char *)(uintptr_t)slices[i].p;
        z.avail_in = (unsigned)slices[i].n;
        do {
            if (have == room) {
                if (room > limit) {
                    st = rt_fail(&c->err, RT_RESOURCE_EXHAUSTED,
                                 "the compressed request is larger than %zu bytes inflated", limit);
                    break;
                }
                room = room ? room * 2 : 16384;
                if (room > limit)
                    room = limit + 1;
                unsigned char *p = realloc(c->inflated, room);
                if (!p) {
                    st = rt_fail_memory(&c->err, "an inflated request", room);
                    break;
                }
                c->inflated = p;
            }
            z.next_out = c->inflated + have;
            z.avail_out = room - have > UINT32_MAX ? UINT32_MAX : (unsigned)(room - have);
            rc = inflate(&z, Z_NO_FLUSH);
            have = (size_t)(z.next_out - c->inflated);
        } while (rc == Z_OK && (z.avail_in || have == room));
        if (!st && rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
            st = rt_fail(&c->err, RT_INVALID_ARGUMENT, "the compressed request is broken");
    }
    inflateEnd(&z);
    if (!st && rc != Z_STREAM_END)
        st = rt_fail(&c->err, RT_INVALID_ARGUMENT, "the compressed request is cut short");
    if (!st && have > limit)
        st = rt_fail(&c->err, RT_RESOURCE_EXHAUSTED,
                     "the compressed request is larger than %zu bytes inflated", limit);
    *n_out = have;
    return st;
}

/* The message, inflated if need be, as a cursor over its slices; its bytes are charged. */
static enum rt_status open_payload(struct call *c, struct srv_cursor *out)
{
    const struct srv_options *o = &c->loop->net.server->options;
    struct rt_span *slices;
    size_t total = 0, n;

    if (!c->payload)
        return rt_fail(&c->err, RT_INVALID_ARGUMENT, "the call came without a message");
    const grpc_slice_buffer *b = &c->payload->data.raw.slice_buffer;
    n = b->count;
    slices = rt_arena_array(c->arena, n + 2, sizeof *slices);
    if (!slices)
        return rt_fail_memory(&c->err, "a request", n * sizeof *slices);
    for (size_t i = 0; i < n; i++) {
        slices[i] = rt_span_of(GRPC_SLICE_START_PTR(b->slices[i]), GRPC_SLICE_LENGTH(b->slices[i]));
        total += slices[i].n;
    }
    if (!charge(c, total))
        return rt_fail(&c->err, RT_UNAVAILABLE,
                       "%zu bytes do not fit beside the other requests that are being served",
                       total);
    if (c->payload->data.raw.compression != GRPC_COMPRESS_NONE) {
        size_t inflated = 0;
        enum rt_status st = inflate_slices(c, slices, n, (size_t)o->max_body_bytes, &inflated);
        if (st)
            return st;
        if (!charge(c, inflated))
            return rt_fail(&c->err, RT_UNAVAILABLE,
                           "%zu bytes do not fit beside the other requests that are being served",
                           inflated);
        slices[0] = rt_span_of(c->inflated, inflated);
        total = inflated;
    }
    *out = srv_cursor_of(slices, total);
    return RT_OK;
}

/* ---- Predict ---- */

static const char default_signature[] = "serving_default";

/* Any thread. The outputs are written where they were made, on the worker. */
static void done(struct srv_job *job)
{
    struct call *c = job->owner;
    struct srv_server *s = c->loop->net.server;
    enum rt_status st = job->status;
    unsigned char *p = NULL;
    size_t n = 0;

    for (int i = 0; i < job->n_fetches && !st; i++)
        if (c->wanted[i])
            st = rt_tensor_load(&job->fetches[i], &job->err);
    if (!st) {
        struct srv_predict_response r = {
            .model = job->version->model,
            .signature = job->signature->def->name,
            .version = job->version->version,
            .sig = job->signature->def,
            .fetches = job->fetches,
            .wanted = c->wanted,
            .as_content = s->options.enable_serialization_as_tensor_content,
        };
        st = srv_predict_write(&r, &p, &n, &job->err);
    }
    /* Before the answer: the loop may end the call as soon as that is sent. */
    srv_job_clear(job);
    c->code = st;
    if (st) {
        send_answer(c, NULL, st, rt_error_text(&job->err));
    } else {
        grpc_slice body = slice_taking(p, n);
        send_answer(c, &body, RT_OK, NULL);
    }
}

static enum rt_status check_method(const struct srv_server *s, const struct rt_signature *sig,
                                   struct rt_error *err)
{
    const char *name = sig->method_name ? sig->method_name : "";

    if (!s->options.enable_signature_method_name_check ||
        strcmp(name, "tensorflow/serving/predict") == 0 ||
        strcmp(name, "tensorflow/serving/classify") == 0 ||
        strcmp(name, "tensorflow/serving/regress") == 0)
        return RT_OK;
    return rt_fail(err, RT_INTERNAL,
                   "Expected prediction signature method_name to be one of "
                   "{tensorflow/serving/predict, tensorflow/serving/classify, "
                   "tensorflow/serving/regress}. Was: %s",
                   name);
}

/* The version, held, and the signature that the request names. */
static enum rt_status resolve(struct call *c)
{
    struct srv_net *net = &c->loop->net;
    const struct srv_model_spec *spec = &c->request.spec;
    struct srv_version *version;
    const char *name = default_signature;

    if (!c->request.has_spec)
        return rt_fail(&c->err, RT_INVALID_ARGUMENT, "Missing ModelSpec");
    if (!spec->name.n)
        return rt_fail(&c->err, RT_INVALID_ARGUMENT, "ModelSpec has no name specified.");
    enum rt_status st = srv_map_find(net->map, spec, &version, &c->err);
    if (st)
        return st;
    if (spec->signature.n) {
        name = rt_arena_strndup(c->arena, (const char *)spec->signature.p, spec->signature.n);
        if (!name)
            return rt_fail_memory(&c->err, "a signature's name", spec->signature.n);
    }
    srv_hold(net, version); /* until the call is over */
    c->job.version = version;
    const struct rt_model_signature *sig = spec->signature.n && strlen(name) != spec->signature.n
                                               ? NULL
                                               : rt_model_signature(version->loaded, name);
    if (!sig)
        return rt_fail(&c->err, RT_FAILED_PRECONDITION, "Serving signature key \"%s\" not found.",
                       name);
    c->job.signature = sig;
    if (!sig->call)
        return rt_fail(&c->err, RT_UNIMPLEMENTED, "signature \"%s\" cannot run: %s", name,
                       sig->unsupported ? sig->unsupported : "it was left out");
    return check_method(net->server, sig->def, &c->err);
}

static enum rt_status bind_tensors(struct call *c)
{
    struct srv_job *job = &c->job;
    const struct rt_signature *sig = job->signature->def;
    size_t payload = c->charged, bytes = 0;

    job->feeds = rt_arena_array(c->arena, (size_t)sig->n_inputs + 1, sizeof *job->feeds);
    job->fetches = rt_arena_array(c->arena, (size_t)sig->n_outputs + 1, sizeof *job->fetches);
    c->wanted = rt_arena_array(c->arena, (size_t)sig->n_outputs + 1, sizeof *c->wanted);
    if (!job->feeds || !job->fetches || !c->wanted)
        return rt_fail_memory(&c->err, "the tensors of a request", 0);
    job->n_feeds = sig->n_inputs;
    job->n_fetches = sig->n_outputs;
    enum rt_status st = srv_predict_bind(&c->request, sig,
                                         (size_t)c->loop->net.server->options.max_body_bytes *
                                             (size_t)TENSOR_FACTOR,
                                         job->feeds, c->wanted, c->arena, &c->err);
    if (st)
        return st;
    for (int i = 0; i < job->n_feeds; i++)
        bytes += rt_tensor_bytes(&job->feeds[i]);
    drop_payload(c);
    uncharge(c, payload);
    if (!charge(c, bytes))
        return rt_fail(&c->err, RT_UNAVAILABLE,
                       "%zu bytes of tensors do not fit beside the other requests that are being "
                       "served",
                       bytes);
    job->body_bytes = bytes;
    return RT_OK;
}

static void on_predict(struct call *c)
{
    struct srv_net *net = &c->loop->net;
    struct srv_job *job = &c->job;
    struct srv_cursor message;
    enum rt_status st = open_payload(c, &message);

    if (!st)
        st = srv_predict_read(message, &c->request, c->arena, &c->err);
    if (!st)
        st = resolve(c);
    if (!st)
        st = bind_tensors(c);
    if (st) {
        if (!job->version)
            srv_metrics_request(net, NULL, c->request.spec.name, SRV_PREDICT, st, 0);
        answer_here(c, NULL, st, rt_error_text(&c->err));
        return;
    }
    job->net = net;
    job->arena = c->arena;
    job->owner = c;
    job->done = done;
    job->err.arena = c->arena;
    job->received_ns = c->received_ns;
    job->deadline_ns = deadline_of(c->deadline);
    /* A job that runs right here takes RECV_CLOSE along with its answer: one batch less. */
    c->may_send_close = true;
    c->pending++; /* for EV_SENT */
    struct srv_job **end = net->turn_end;
    srv_job_submit(job);
    if (net->turn_end != end) { /* queued */
        c->may_send_close = false;
        start_close(c);
    }
}

/* ---- other methods ---- */

static bool is_method(const struct call *c, const char *path)
{
    return grpc_slice_str_cmp(c->details.method, path) == 0;
}

#define PREDICTION "/tensorflow.serving.PredictionService/"
#define MODEL      "/tensorflow.serving.ModelService/"
#define HEALTH     "/grpc.health.v1.Health/"

enum method { GET_METADATA, GET_STATUS, HEALTH_CHECK, HEALTH_WATCH, NO_METHOD };

static enum method method_of(const struct call *c)
{
    bool health = c->loop->net.server->options.enable_grpc_healthcheck_service;

    if (is_method(c, PREDICTION "GetModelMetadata"))
        return GET_METADATA;
    if (is_method(c, MODEL "GetModelStatus"))
        return GET_STATUS;
    if (health && is_method(c, HEALTH "Check"))
        return HEALTH_CHECK;
    if (health && is_method(c, HEALTH "Watch"))
        return HEALTH_WATCH;
    return NO_METHOD;
}

static void answer_unknown(struct call *c)
{
    static const char *const known[] = {PREDICTION "Classify", PREDICTION "Regress",
                                        PREDICTION "MultiInference",
                                        MODEL "HandleReloadConfigRequest"};
    const char *why = "there is no such method";
    char *path = grpc_slice_to_c_string(c->details.method);

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(path, known[i]) == 0)
            why = "this server does not implement the method yet";
    if (strncmp(path, HEALTH, sizeof HEALTH - 1) == 0)
        why = "the health service is off: --enable_grpc_healthcheck_service";
    rt_fail(&c->err, RT_UNIMPLEMENTED, "%s: %s", path, why);
    gpr_free(path);
    srv_metrics_request(&c->loop->net, NULL, rt_span_str(""), SRV_OTHER, RT_UNIMPLEMENTED, 0);
    answer_here(c, NULL, RT_UNIMPLEMENTED, rt_error_text(&c->err));
}

/* The method is known: its message is read. */
static void read_message(struct call *c)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->payload};
    c->pending++;
    start_batch(c, &op, 1, &c->on_message);
    start_close(c);
}

/* ---- Health.Watch ---- */

static void send_health(struct call *c, enum srv_health health)
{
    grpc_op ops[2];
    size_t n = 0, len = 0;
    struct rt_bytes out;

    rt_bytes_init(&out, 64);
    srv_info_health_write(&out, health);
    char *p = rt_bytes_take(&out, &len);
    grpc_slice body = p ? slice_taking(p, len) : grpc_empty_slice();
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&body, 1);
    grpc_slice_unref(body);
    if (!c->watch.told)
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
    ops[n++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
    c->watch.told = health;
    c->watch.is_sending = true;
    c->pending++;
    start_batch(c, ops, n, &c->on_sent);
    grpc_byte_buffer_destroy(message);
}

static void end_watch(struct call *c)
{
    static const char text[] = "the server is stopping";
    grpc_slice details = grpc_slice_from_static_string(text);
    grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};

    op.data.send_status_from_server.status = GRPC_STATUS_UNAVAILABLE;
    op.data.send_status_from_server.status_details = &details;
    c->watch.is_ended = true;
    c->watch.is_sending = true;
    c->pending++;
    start_batch(c, &op, 1, &c->on_sent);
}

static void look_at_watch(struct call *c)
{
    struct srv_grpc *g = c->loop->grpc;

    if (c->watch.is_sending || c->watch.is_ended || !c->watch.is_open)
        return;
    enum srv_health now = srv_info_health_of(g->server, c->watch.service);
    if (now != c->watch.told)
        send_health(c, now);
    else if (atomic_load(&g->quiesced))
        end_watch(c);
}

static void look_at_watchers(struct loop *loop)
{
    loop->watched_ns = rt_now_ns();
    for (struct call *c = loop->watchers, *next; c; c = next) {
        next = c->next;
        look_at_watch(c);
    }
}

static void unwatch(struct call *c)
{
    struct call **at = &c->loop->watchers;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    c->loop->n_watchers--;
    c->watch.is_open = false;
}

static void begin_watch(struct call *c, struct rt_span service)
{
    struct loop *loop = c->loop;

    if (loop->n_watchers >= MAX_WATCHERS) {
        answer_here(c, NULL, RT_RESOURCE_EXHAUSTED, "too many calls of Watch");
        return;
    }
    if (c->is_closed) {
        answer_here(c, NULL, RT_CANCELLED, "the client has gone");
        return;
    }
    uncount(c); /* it would hold up draining */
    c->watch = (struct watch){.service = service, .is_open = true};
    c->next = loop->watchers;
    loop->watchers = c;
    loop->n_watchers++;
    look_at_watch(c);
}

/* ---- the calls that are answered at once ---- */

static void on_health(struct call *c, struct srv_info_call *info, enum method method)
{
    struct rt_span service;
    enum rt_status st = srv_info_health_service(info, &service);

    if (st) {
        answer_here(c, NULL, st, rt_error_text(&c->err));
        return;
    }
    if (method == HEALTH_WATCH) {
        begin_watch(c, service);
        return;
    }
    enum srv_health health = srv_info_health_of(info->server, service);
    if (health == SRV_HEALTH_UNKNOWN) {
        answer_here(c, NULL, RT_NOT_FOUND, "unknown service");
        return;
    }
    srv_info_health_write(&info->out, health);
    answer_bytes(c, &info->out);
}

static void on_message(struct call *c)
{
    struct srv_net *net = &c->loop->net;
    struct srv_info_call info = {
        .server = net->server, .map = net->map, .arena = c->arena, .err = &c->err};
    enum method method = method_of(c);
    enum rt_status st = open_payload(c, &info.request);

    rt_bytes_init(&info.out, 64 << 20);
    if (!st && (method == HEALTH_CHECK || method == HEALTH_WATCH)) {
        on_health(c, &info, method);
        rt_bytes_clear(&info.out);
        return;
    }
    if (!st)
        st = method == GET_METADATA ? srv_info_metadata(&info) : srv_info_status(&info);
    srv_metrics_request(net, NULL, info.model,
                        method == GET_METADATA ? SRV_METADATA
                        : method == GET_STATUS ? SRV_STATUS
                                               : SRV_OTHER,
                        st, 0);
    if (st)
        answer_here(c, NULL, st, rt_error_text(&c->err));
    else
        answer_bytes(c, &info.out);
    rt_bytes_clear(&info.out);
}

/* ---- the loop ---- */

static void on_call(struct call *c, bool ok)
{
    struct loop *loop = c->loop;
    struct srv_grpc *g = loop->grpc;

    if (!ok) { /* shutting down */
        c->call = NULL;
        end_call(c);
        return;
    }
    post_call(loop, c->is_predict);
    atomic_fetch_add(&g->in_flight, 1);
    atomic_fetch_add(&g->n_calls, 1);
    c->counted = true;
    c->pending = 0;
    c->charged = 0;
    c->cancelled = 0;
    c->close_started = c->is_closed = c->may_send_close = false;
    c->code = RT_OK;
    c->err = (struct rt_error){.arena = c->arena};
    c->request = (struct srv_predict_request){.has_spec = false};
    c->job = (struct srv_job){.next = NULL};
    c->watch = (struct watch){.is_open = false};
    c->received_ns = rt_now_ns();
    if (c->is_predict)
        on_predict(c);
    else if (method_of(c) == NO_METHOD)
        answer_unknown(c);
    else
        read_message(c);
}

static void on_close(struct call *c)
{
    c->is_closed = true;
    if (c->cancelled)
        atomic_store_explicit(&c->job.cancelled, true, memory_order_relaxed);
    if (c->watch.is_open) {
        unwatch(c);
    }
    unpend(c);
}

static void on_sent(struct call *c)
{
    if (c->watch.is_sending) {
        c->watch.is_sending = false;
        if (c->watch.is_open)
            look_at_watch(c); /* it may have changed meanwhile */
    }
    unpend(c);
}

static void on_event(struct loop *loop, const grpc_event *e)
{
    struct event *event = e->tag;

    if (event->call)
        atomic_load_explicit(&event->call->handed, memory_order_acquire);
    switch (event->kind) {
    case EV_CALL:
        on_call(event->call, e->success);
        break;
    case EV_CLOSE:
        on_close(event->call);
        break;
    case EV_MESSAGE:
        on_message(event->call);
        unpend(event->call);
        break;
    case EV_SENT:
        on_sent(event->call);
        break;
    case EV_WAKE:
        break;
    case EV_SHUTDOWN:
        atomic_store(&loop->grpc->shut_down, true);
        break;
    }
}

/*
 * Any thread. The core has no way to enqueue an event of one's own; a watch of a channel that never
 * connects, with a deadline that has passed, comes near it. It happens rarely: for mail only.
 */
static void wake(struct srv_net *net)
{
    struct loop *loop = net->loop;
    grpc_channel_watch_connectivity_state(loop->grpc->nowhere, GRPC_CHANNEL_IDLE,
                                          gpr_now(GPR_CLOCK_MONOTONIC), loop->cq, &loop->on_wake);
}

static void *run_loop(void *arg)
{
    struct loop *loop = arg;
    const gpr_timespec zero = gpr_time_0(GPR_CLOCK_MONOTONIC);

    for (;;) {
        gpr_timespec until =
            gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(WATCH_NS, GPR_TIMESPAN));
        grpc_event e = grpc_completion_queue_next(loop->cq, until, NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            break;
        srv_net_begin(&loop->net);
        for (int i = 0; e.type == GRPC_OP_COMPLETE; i++) {
            on_event(loop, &e);
            if (i == EVENTS_PER_TURN)
                break;
            e = grpc_completion_queue_next(loop->cq, zero, NULL);
        }
        if (loop->watchers &&
            (atomic_load(&loop->grpc->quiesced) || rt_now_ns() - loop->watched_ns >= WATCH_NS))
            look_at_watchers(loop);
        srv_net_end(&loop->net);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            break;
    }
    return NULL;
}

/* ---- the UNIX socket ---- */

/* gRPC's own listener would take a live server's path over and remove it when it ends. Ours is
 * bound beside and renamed into place, and removed only while it is the one that we made. */
static void *accept_all(void *arg)
{
    struct srv_grpc *g = arg;

    for (;;) {
        struct pollfd fds[2] = {{.fd = g->listen_fd, .events = POLLIN},
                                {.fd = g->stop_fd, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents)
            break;
        if (!(fds[0].revents & POLLIN))
            continue;
        int fd = accept4(g->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                usleep(100000);
            continue;
        }
        grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
        grpc_server_add_channel_from_fd(g->core, fd, plain);
        grpc_server_credentials_release(plain);
    }
    return NULL;
}

static enum rt_status listen_unix(struct srv_grpc *g, const char *path, struct rt_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char beside[sizeof at.sun_path];
    int n = snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());

    if (n < 0 || (size_t)n >= sizeof beside)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--grpc_socket_path=%s is too long for a socket",
                       path);
    memcpy(at.sun_path, beside, (size_t)n + 1);
    snprintf(g->path, sizeof g->path, "%s", path);
    unlink(beside); /* left by a process of our number that died */
    g->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    g->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (g->listen_fd < 0 || g->stop_fd < 0 ||
        bind(g->listen_fd, (const struct sockaddr *)&at, sizeof at) || listen(g->listen_fd, 1024) ||
        stat(beside, &g->socket) || rename(beside, path) ||
        rt_thread_start(&g->acceptor, "grpc-accept", accept_all, g)) {
        int e = errno;
        unlink(beside);
        if (g->listen_fd >= 0)
            close(g->listen_fd);
        g->listen_fd = -1;
        return rt_fail(err, RT_UNAVAILABLE, "cannot listen on UNIX socket %s: %s", path,
                       strerror(e));
    }
    return RT_OK;
}

static void close_unix(struct srv_grpc *g)
{
    struct stat now;
    uint64_t one = 1;

    if (g->listen_fd < 0)
        return;
    if (write(g->stop_fd, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(g->acceptor, NULL);
    close(g->listen_fd);
    g->listen_fd = -1;
    if (stat(g->path, &now) == 0 && now.st_ino == g->socket.st_ino &&
        now.st_dev == g->socket.st_dev)
        unlink(g->path);
}

/* ---- start and stop ---- */

/* --grpc_channel_arguments=key=value,...: an integer where it is one. `text` is cut up. */
static size_t parse_arguments(char *text, grpc_arg *args, size_t room)
{
    size_t n = 0;

    for (char *at = text; at && *at && n < room;) {
        char *comma = strchr(at, ','), *equals;
        int64_t number;
        if (comma)
            *comma = '\0';
        equals = strchr(at, '=');
        if (equals) {
            *equals = '\0';
            args[n].key = at;
            if (srv_parse_int64(equals + 1, strlen(equals + 1), &number) && number <= INT32_MAX &&
                number >= INT32_MIN) {
                args[n].type = GRPC_ARG_INTEGER;
                args[n].value.integer = (int)number;
            } else {
                args[n].type = GRPC_ARG_STRING;
                args[n].value.string = equals + 1;
            }
            n++;
        }
        at = comma ? comma + 1 : NULL;
    }
    return n;
}

static grpc_arg integer(const char *key, int value)
{
    return (grpc_arg){
        .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

static enum rt_status make_core(struct srv_grpc *g, struct rt_error *err)
{
    const struct srv_options *o = &g->server->options;
    struct rt_arena *arena = rt_arena_new(1 << 20);
    grpc_arg args[MAX_ARGS];
    int64_t limit = o->max_body_bytes < INT32_MAX ? o->max_body_bytes : INT32_MAX;
    size_t n = 0;
    char *user = arena && o->grpc_channel_arguments
                     ? rt_arena_strdup(arena, o->grpc_channel_arguments)
                     : NULL;

    args[n++] = integer(GRPC_ARG_ALLOW_REUSEPORT, 0);
    args[n++] = integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)limit);
    args[n++] = integer(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
    args[n++] = integer(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    n += parse_arguments(user, args + n, MAX_ARGS - n);
    grpc_channel_args all = {.num_args = n, .args = args};
    g->core = grpc_server_create(&all, NULL);
    rt_arena_free(arena);
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    g->nowhere = grpc_channel_create("unix:/nowhere", plain, NULL);
    grpc_channel_credentials_release(plain);
    if (!g->core || !g->nowhere)
        return rt_fail(err, RT_INTERNAL, "gRPC's core cannot make a server");
    g->predict = grpc_server_register_method(g->core, PREDICTION "Predict", NULL,
                                             GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    return g->predict ? RT_OK : rt_fail(err, RT_INTERNAL, "gRPC's core takes no method");
}

enum rt_status srv_grpc_start(struct srv_server *server, struct srv_grpc **out,
                              struct rt_error *err)
{
    int n = (int)server->options.num_grpc_threads;
    struct srv_grpc *g = calloc(1, sizeof *g);
    enum rt_status st;

    if (n < 1)
        n = 1;
    if (!g)
        return rt_fail_memory(err, "the gRPC server", sizeof *g);
    g->server = server;
    g->listen_fd = g->stop_fd = -1;
    g->on_shutdown.kind = EV_SHUTDOWN;
    g->loops = calloc((size_t)n, sizeof *g->loops);
    if (!g->loops || server->n_nets + n > SRV_MAX_NETS) {
        free(g->loops);
        free(g);
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "%d gRPC threads are too many", n);
    }
    grpc_init();
    st = make_core(g, err);
    for (int i = 0; i < n && !st; i++) {
        struct loop *loop = &g->loops[i];
        loop->grpc = g;
        loop->on_wake.kind = EV_WAKE;
        loop->cq = grpc_completion_queue_create_for_next(NULL);
        grpc_server_register_completion_queue(g->core, loop->cq, NULL);
        srv_net_init(&loop->net, server, "GRPC", wake, loop);
        loop->net.index = server->n_nets;
        g->n_loops++;
        if (rt_thread_start(&loop->thread, "grpc-loop", run_loop, loop) == 0) {
            loop->is_running = true;
            server->nets[server->n_nets++] = &loop->net;
        } else {
            st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "cannot start a gRPC thread");
        }
    }
    if (st)
        srv_grpc_stop(g);
    else
        *out = g;
    return st;
}

enum rt_status srv_grpc_listen(struct srv_grpc *g, const char *address, int port, int *bound,
                               struct rt_error *err)
{
    const char *path = g->server->options.grpc_socket_path;
    grpc_server_credentials *plain;
    char at[300];

    *bound = 0;
    if (port || !path || !*path) {
        snprintf(at, sizeof at, strchr(address, ':') ? "[%s]:%d" : "%s:%d", address, port);
        plain = grpc_insecure_server_credentials_create();
        *bound = grpc_server_add_http2_port(g->core, at, plain);
        grpc_server_credentials_release(plain);
        if (!*bound)
            return rt_fail(err, RT_UNAVAILABLE, "cannot listen on %s for gRPC: is it in use?", at);
    }
    grpc_server_start(g->core);
    g->is_started = true;
    for (int i = 0; i < g->n_loops; i++) {
        g->loops[i].begin.open = post_calls;
        srv_mail_post(&g->loops[i].net, &g->loops[i].begin);
    }
    return path && *path ? listen_unix(g, path, err) : RT_OK;
}

void srv_grpc_quiesce(struct srv_grpc *g)
{
    if (atomic_exchange(&g->quiesced, true))
        return;
    close_unix(g);
    grpc_server_shutdown_and_notify(g->core, g->loops[0].cq, &g->on_shutdown);
    for (int i = 0; i < g->n_loops; i++)
        wake(&g->loops[i].net); /* streams of Watch end */
}

int srv_grpc_in_flight(struct srv_grpc *g)
{
    return atomic_load(&g->in_flight);
}

void srv_grpc_cancel_all(struct srv_grpc *g)
{
    grpc_server_cancel_all_calls(g->core);
}

void srv_grpc_stop(struct srv_grpc *g)
{
    if (!g)
        return;
    bool runs = g->n_loops && g->loops[0].is_running;
    if (g->core && g->n_loops)
        srv_grpc_quiesce(g);
    if (g->core && g->n_loops)
        srv_grpc_cancel_all(g);
    /* A call ends when its job has been answered; jobs still run on workers. */
    while (runs && (!atomic_load(&g->shut_down) || atomic_load(&g->n_calls)))
        usleep(1000);
    for (int i = 0; i < g->n_loops; i++)
        grpc_completion_queue_shutdown(g->loops[i].cq);
    for (int i = 0; i < g->n_loops; i++) {
        struct loop *loop = &g->loops[i];
        if (loop->is_running)
            pthread_join(loop->thread, NULL);
        else
            while (grpc_completion_queue_next(loop->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL)
                       .type != GRPC_QUEUE_SHUTDOWN)
                ;
    }
    if (g->core)
        grpc_server_destroy(g->core);
    if (g->nowhere)
        grpc_channel_destroy(g->nowhere);
    for (int i = 0; i < g->n_loops; i++) {
        grpc_completion_queue_destroy(g->loops[i].cq);
        for (struct call *c = g->loops[i].free, *next; c; c = next) {
            next = c->next;
            free_call(c);
        }
    }
    if (g->stop_fd >= 0)
        close(g->stop_fd);
    grpc_shutdown();
    free(g->loops);
    free(g);
}
