#include "server/grpc/grpc_call.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/heap.h"
#include "runtime/base/log.h"
#include "server/telemetry/access_log.h"
#include "server/tracing/access.h"
#include "server/grpc/grpc_internal.h"
#include "server/metrics/metrics.h"
#include "server/tracing/profile.h"
#include "server/tracing/tracer.h"
#include "server/base/sockets.h"

_Thread_local struct srv_grpc_loop *srv_grpc_this_loop;

enum {
    /* maximum size in bytes of an error message; longer messages are truncated, as in TensorFlow
     * Serving */
    ERROR_TEXT = 1024,
    CALL_ARENA = 16 << 20,
    /* maximum number of calls in an I/O loop's free list; a call takes 6 KiB */
    MAX_FREE_CALLS = 512,
    /* The I/O loop inflates compressed messages of up to this size. The inflated message takes at
     * most 0.5 MB, and inflating it takes less than a millisecond. */
    INFLATE_ON_LOOP_BYTES = 512,
    /* maximum compressed size in bytes of the messages that the thread for small messages
     * inflates */
    BACKGROUND_SMALL_BYTES = 64 << 10,
    /* A background thread frees messages of at least this size. Returning memory of this size to
     * the system takes up to 0.5 ms. Freeing 400 MB would block the I/O loop for 0.2 s. */
    FREE_IN_BACKGROUND_BYTES = 1 << 20,
    CLOCK_STEP_NS = 1000000, /* resolution of deadlines in the core */
};

/* ---- calls ---- */

struct srv_call *srv_grpc_new_call(struct srv_grpc_loop *loop)
{
    struct srv_call *c = loop->free;

    if (c) {
        loop->free = c->next;
        loop->n_free--;
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
    c->io_loop = &loop->io_loop;
    c->server = loop->io_loop.server;
    c->on_call = (struct srv_grpc_event){SRV_EV_CALL, c};
    c->on_close = (struct srv_grpc_event){SRV_EV_CLOSE, c};
    c->on_message = (struct srv_grpc_event){SRV_EV_MESSAGE, c};
    c->on_sent = (struct srv_grpc_event){SRV_EV_SENT, c};
    return c;
}

void srv_grpc_free_call(struct srv_call *c)
{
    rt_arena_free(c->arena);
    free(c);
}

void srv_grpc_post(struct srv_grpc_loop *loop, struct srv_grpc_port *port,
                   const struct srv_grpc_method *method)
{
    struct srv_grpc *g = loop->grpc;
    struct srv_call *c = srv_grpc_new_call(loop);
    grpc_call_error e;

    if (!c) {
        if (!loop->n_unposted++)
            RT_LOG(RT_LOG_ERROR, "gRPC: out of memory for a call");
        loop->unposted[method ? SRV_GRPC_MAX_PORTS + (method - g->methods->row)
                              : port - g->ports]++;
        return;
    }
    c->port = port;
    c->requested_method = method;
    c->call = NULL;
    c->payload = NULL;
    grpc_metadata_array_init(&c->metadata);
    if (method) {
        e = grpc_server_request_registered_call(port->core, g->registered[method - g->methods->row],
                                                &c->call, &c->deadline, &c->metadata, NULL,
                                                loop->cq, loop->cq, &c->on_call);
    } else {
        grpc_call_details_init(&c->details);
        e = grpc_server_request_call(port->core, &c->call, &c->details, &c->metadata, loop->cq,
                                     loop->cq, &c->on_call);
    }
    if (e != GRPC_CALL_OK) {
        RT_LOG(RT_LOG_ERROR, "gRPC: cannot ask for a call: %s", grpc_call_error_to_string(e));
        grpc_metadata_array_destroy(&c->metadata);
        srv_grpc_free_call(c);
    }
}

void srv_grpc_post_again(struct srv_grpc_loop *loop)
{
    const int n_slots = (int)(sizeof loop->unposted / sizeof *loop->unposted);

    for (int i = 0; i < n_slots && loop->n_unposted; i++) {
        bool by_method = i >= SRV_GRPC_MAX_PORTS;
        int n = loop->unposted[i];
        loop->unposted[i] = 0;
        loop->n_unposted -= n;
        while (n-- > 0)
            srv_grpc_post(loop, &loop->grpc->ports[by_method ? 0 : i],
                          by_method ? &loop->grpc->methods->row[i - SRV_GRPC_MAX_PORTS] : NULL);
    }
}

void srv_grpc_uncount(struct srv_call *c)
{
    if (c->counted)
        atomic_fetch_sub(&c->server->grpc_requests, 1);
    c->counted = false;
}

static void report_to_metrics(struct srv_call *c)
{
    int api = c->method ? c->method->api : SRV_OTHER;
    struct rt_span model = c->method ? c->model : rt_span_str("");
    int64_t ns = c->job.version ? rt_now_ns() - c->received_ns : 0;

    if (c->is_in_metrics || api == SRV_NOT_COUNTED)
        return;
    c->is_in_metrics = true;
    if (c->job.version)
        srv_metrics_request(c->io_loop, &c->job, &c->span, rt_span_str(c->job.version->model),
                            (enum srv_api)api, c->code, ns);
    else
        srv_metrics_request(c->io_loop, NULL, NULL, model, (enum srv_api)api, c->code, ns);
}

/* Reports the call to the access log and the tracer. */
static void report_outcome(struct srv_call *c)
{
    const struct srv_access a = {
        .entry = "GRPC",
        .api = srv_api_name(c->method && c->method->api != SRV_NOT_COUNTED
                                ? (enum srv_api)c->method->api
                                : SRV_OTHER),
        .path = c->method ? rt_span_str(c->method->path) : srv_call_text(c, c->details.method),
        .code = c->code,
        .bytes_in = c->n_in,
        .bytes_out = c->n_out,
        .begin_ns = c->received_ns,
        .end_ns = rt_now_ns(),
        .id = srv_call_metadata(c, "x-request-id"),
        .span = &c->span,
        .client = srv_quota_shown(&c->job.client),
        .peer = rt_span_str(c->peer),
        .model = c->model,
        .version = c->job.version,
    };
    if (c->server->options.access_log)
        srv_access_log(&a);
    /* the inferences of a stream have been reported one by one */
    if (c->method && c->method->api != SRV_NOT_COUNTED && !c->stream.has_begun) {
        srv_tracer_request(c->server->tracer, &a, &c->job);
        srv_profile_request(c->server->profile, &a, &c->job);
    }
}

/* Frees the messages of a call that the core has forgotten. Then gives the bytes that the call has
 * charged back to the budget, and stops counting the call as open. */
static void release_messages(struct srv_call *c)
{
    if (c->has_large)
        grpc_slice_unref(c->large);
    c->has_large = false;
    srv_call_drop_payload(c);
    srv_budget_give(&c->server->in_flight, &c->charged, c->charged);
    srv_budget_give(&c->server->in_flight, &c->stream.charged, c->stream.charged);
    srv_grpc_uncount(c);
    if (c->call)
        srv_call_close_share(c);
    c->call = NULL;
}

/* Runs on a background thread. */
static bool free_with_messages(struct srv_call *c)
{
    release_messages(c);
    srv_grpc_free_call(c);
    return false;
}

static bool has_large_messages(const struct srv_call *c)
{
    const size_t n = c->payload ? c->payload->data.raw.slice_buffer.length : 0;
    return c->has_large || n + c->n_inflated >= FREE_IN_BACKGROUND_BYTES;
}

/* Ends a call for which no more events can arrive. */
static void end_call(struct srv_call *c)
{
    struct srv_grpc_loop *loop = c->loop;

    srv_list_remove(&c->link);
    srv_call_forget_socket(c);
    if (c->call) {
        /* For a call without a message, the core reports a cancellation by the client only at the
         * end of the call. */
        if (c->came_empty && c->cancelled && c->code != RT_DEADLINE_EXCEEDED)
            c->code = RT_CANCELLED;
        report_to_metrics(c);
        if (c->server->options.access_log || c->span.is_recorded || c->span.is_profiled)
            report_outcome(c);
        if (c->stream.has_begun)
            srv_stream_close_share(c);
    }
    if (c->job.version) {
        srv_job_clear(&c->job);
        srv_release(c->io_loop, c->job.version);
    }
    c->job = (struct srv_job){.next = NULL};
    srv_call_end_span(c);
    grpc_metadata_array_destroy(&c->metadata);
    if (!c->requested_method)
        grpc_call_details_destroy(&c->details);
    if (c->call)
        grpc_call_unref(c->call);
    if (has_large_messages(c)) {
        srv_call_in_background(c, SRV_BACKGROUND_FREE, free_with_messages);
        return;
    }
    release_messages(c);
    if (loop->n_free >= MAX_FREE_CALLS) {
        srv_grpc_free_call(c);
        return;
    }
    c->err = (struct rt_error){.arena = NULL};
    c->stream = (struct srv_stream){.is_open = false};
    c->stream_of = NULL;
    c->retry_s = 0;
    rt_arena_reset(c->arena);
    c->next = loop->free;
    loop->free = c;
    loop->n_free++;
}

void srv_grpc_unpend(struct srv_call *c)
{
    while (c && --c->pending == 0) {
        struct srv_call *stream = c->stream_of; /* waits for the end of its parts */
        end_call(c);
        c = stream;
    }
}

void srv_grpc_start_batch(struct srv_call *c, const grpc_op *ops, size_t n,
                          struct srv_grpc_event *event)
{
    grpc_call *call = c->call;
    struct srv_grpc_loop *loop = srv_grpc_this_loop;
    bool here = loop && loop->n_at_once < SRV_GRPC_AT_ONCE;
    grpc_event done = {.type = GRPC_OP_COMPLETE};

    atomic_store_explicit(&c->batch_order, 1, memory_order_release);
    if (here)
        grpc_completion_queue_thread_local_cache_init(loop->cq);
    grpc_call_error e = grpc_call_start_batch(call, ops, n, event, NULL);
    if (here && grpc_completion_queue_thread_local_cache_flush(loop->cq, &done.tag, &done.success))
        loop->at_once[loop->n_at_once++] = done;
    /* The core refuses a batch only if the transport has a bug. The event of a refused batch would
     * never arrive. */
    if (e != GRPC_CALL_OK) {
        RT_LOG(RT_LOG_ERROR, "gRPC: a batch was refused: %s", grpc_call_error_to_string(e));
        abort();
    }
}

/* ---- responses ---- */

static grpc_op op_close(struct srv_call *c)
{
    c->cancelled = 0;
    return (grpc_op){.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                     .data.recv_close_on_server.cancelled = &c->cancelled};
}

void srv_grpc_start_close(struct srv_call *c)
{
    grpc_op op = op_close(c);
    c->close_started = true;
    c->pending++;
    srv_grpc_start_batch(c, &op, 1, &c->on_close);
}

grpc_slice srv_grpc_details_of(const char *text)
{
    static const char cut[] = "...TRUNCATED";
    char buffer[ERROR_TEXT + sizeof cut];

    size_t n = rt_error_decode(buffer, ERROR_TEXT, text);
    if (n > ERROR_TEXT) {
        memcpy(buffer + ERROR_TEXT, cut, sizeof cut);
        n = ERROR_TEXT + sizeof cut - 1;
    }
    return grpc_slice_from_copied_buffer(buffer, n);
}

grpc_op srv_grpc_op_status(enum rt_status code, grpc_slice *details)
{
    grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    op.data.send_status_from_server.status = (grpc_status_code)code;
    op.data.send_status_from_server.status_details = code ? details : NULL;
    return op;
}

grpc_byte_buffer *srv_grpc_message_of(struct rt_span head, void *p, size_t n)
{
    grpc_slice slices[2] = {grpc_slice_from_copied_buffer((const char *)head.p, head.n),
                            p ? grpc_slice_new_with_user_data(p, n, rt_heap_free, p)
                              : grpc_empty_slice()};
    grpc_byte_buffer *message = head.n ? grpc_raw_byte_buffer_create(slices, 2)
                                       : grpc_raw_byte_buffer_create(&slices[1], 1);
    grpc_slice_unref(slices[0]);
    grpc_slice_unref(slices[1]);
    return message;
}

bool srv_call_is_late(const struct srv_call *c)
{
    const gpr_timespec ahead = gpr_time_from_nanos(c->came_empty ? CLOCK_STEP_NS : 0, GPR_TIMESPAN);

    return gpr_time_cmp(c->deadline, gpr_inf_future(c->deadline.clock_type)) != 0 &&
           gpr_time_cmp(c->deadline, gpr_time_add(gpr_now(c->deadline.clock_type), ahead)) <= 0;
}

/* Returns the status code of a call whose deadline has passed. This is `code` if the call's first
 * message has arrived and `code` is an error other than RT_CANCELLED. Otherwise it is
 * RT_DEADLINE_EXCEEDED. */
static enum rt_status late_code(const struct srv_call *c, enum rt_status code)
{
    return !code || code == RT_CANCELLED || c->came_empty ? RT_DEADLINE_EXCEEDED : code;
}

/* Adds the trailing metadata "retry-after" to the operation that sends the status. */
static void add_retry_after(struct srv_call *c, grpc_op *op)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)c->retry_s);
    /* The core stores a text of a few bytes inside the slice, which therefore needs no release. */
    c->retry_after = (grpc_metadata){.key = grpc_slice_from_static_string("retry-after"),
                                     .value = grpc_slice_from_copied_string(text)};
    op->data.send_status_from_server.trailing_metadata_count = 1;
    op->data.send_status_from_server.trailing_metadata = &c->retry_after;
}

/* Keeps the error of a call for the web page. Called on the I/O loop thread if the call has no
 * version, but names a model. */
static void keep_error(const struct srv_call *c, enum rt_status code, const char *text)
{
    const int api = c->method ? c->method->api : SRV_NOT_COUNTED;

    if (code)
        srv_metrics_error(c->io_loop, c->job.version, c->model,
                          api == SRV_NOT_COUNTED ? SRV_OTHER : (enum srv_api)api, code, text);
}

/* Sends a response. May be called on any thread. If `code` is RT_OK, `p` is the message, of which
 * the function takes ownership. If `late` is set, the call ends with the status late_code(c, code).
 * The caller must count the SRV_EV_SENT event in `pending`. */
static void send_response(struct srv_call *c, void *p, size_t n_bytes, enum rt_status code,
                          const char *text, bool late)
{
    if (late) {
        text = code == late_code(c, code) ? text : "Deadline Exceeded";
        code = late_code(c, code);
    }
    if (c->job.version)
        keep_error(c, code, text);
    grpc_op ops[4] = {srv_call_op_metadata(c)};
    grpc_byte_buffer *message = code ? NULL : srv_grpc_message_of(rt_span_of(NULL, 0), p, n_bytes);
    grpc_slice details = code ? srv_grpc_details_of(text) : grpc_empty_slice();
    size_t n = 1;

    c->code = code;
    c->n_out = code ? 0 : n_bytes;
    c->has_large = c->n_out >= FREE_IN_BACKGROUND_BYTES;
    if (c->has_large)
        c->large = grpc_slice_ref(message->data.raw.slice_buffer.slices[0]);
    if (message)
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
    else
        free(p);
    ops[n++] = srv_grpc_op_status(code, &details);
    if (c->retry_s)
        add_retry_after(c, &ops[n - 1]);
    if (c->may_send_close)
        ops[n++] = op_close(c);
    srv_call_awaits(c, SRV_AWAITS_SENT);
    srv_grpc_start_batch(c, ops, n, &c->on_sent);
    if (message)
        grpc_byte_buffer_destroy(message);
    grpc_slice_unref(details);
}

/* Sends a response on the I/O loop thread. No other operation may have been started on the call. */
static void respond_on_loop(struct srv_call *c, void *p, size_t n, enum rt_status code,
                            const char *text)
{
    const bool late = srv_call_is_late(c);

    c->code = late ? late_code(c, code) : code;
    if (!c->job.version && !c->came_empty)
        report_to_metrics(c);
    if (!c->job.version)
        keep_error(c, code, text);
    c->may_send_close = !c->close_started;
    c->pending++;
    send_response(c, p, n, code, text, late);
    c->may_send_close = false;
}

void srv_call_name_limit(struct srv_call *c, enum rt_status code, struct rt_error *err)
{
    srv_name_arena_limit(c->arena, CALL_ARENA, "a gRPC request", code, err);
}

void srv_call_fail(struct srv_call *c, enum rt_status code)
{
    srv_call_name_limit(c, code, &c->err);
    respond_on_loop(c, NULL, 0, code, rt_error_text(&c->err));
}

void srv_call_respond(struct srv_call *c, struct rt_bytes *message)
{
    size_t n = 0;

    if (message->failed) {
        rt_bytes_clear(message);
        srv_call_fail(c, rt_fail_memory(&c->err, "the response", message->limit));
        return;
    }
    char *p = rt_bytes_take(message, &n);
    respond_on_loop(c, p, n, RT_OK, NULL);
}

void srv_call_submit(struct srv_call *c, void (*done)(struct srv_job *job))
{
    struct srv_job *job = &c->job;

    job->io_loop = c->io_loop;
    job->arena = c->arena;
    job->owner = c;
    job->done = done;
    job->err.arena = c->arena;
    job->received_ns = c->received_ns;
    int64_t own = job->deadline_ns;
    job->deadline_ns = srv_call_deadline_ns(c);
    if (own && own < job->deadline_ns)
        job->deadline_ns = own;
    /* One batch sends the response of an inline job and starts RECV_CLOSE. */
    c->may_send_close = !c->close_started;
    c->pending++;
    struct srv_job **end = c->io_loop->turn_end;
    srv_job_submit(job);
    if (c->io_loop->turn_end != end) { /* the job did not run inline, but was queued */
        c->may_send_close = false;
        if (!c->close_started)
            srv_grpc_start_close(c);
    }
}

void srv_call_expect(struct srv_call *c, bool patient)
{
    c->pending++;
    if (!c->close_started)
        srv_grpc_start_close(c);
    if (patient)
        srv_grpc_uncount(c);
}

void srv_call_respond_expected(struct srv_call *c, void *p, size_t n, enum rt_status code,
                               const char *text)
{
    /* The thread of a call that changes the list of models may not read the serving map. */
    if (!c->job.version && !c->model.n)
        keep_error(c, code, text);
    send_response(c, p, n, code, text, srv_call_is_late(c));
}

void srv_grpc_read_message(struct srv_call *c, enum srv_awaited what)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->payload};
    c->pending++;
    /* A message of a stream must not begin a new wait of a peer that takes no response. */
    if (!c->stream.is_sending)
        srv_call_awaits(c, what);
    srv_grpc_start_batch(c, &op, 1, &c->on_message);
}

/* ---- events ---- */

static void note_peer(struct srv_call *c)
{
    char *peer = c->socket < 0 ? grpc_call_get_peer(c->call) : NULL;

    if (c->socket >= 0)
        srv_socket_peer(c->socket, c->peer, sizeof c->peer);
    else
        snprintf(c->peer, sizeof c->peer, "%s", peer ? peer : "");
    gpr_free(peer);
}

/* Refuses a call on which no operation has been started. The core sends the status and forgets the
 * stream. */
static void refuse(struct srv_call *c)
{
    c->code = RT_RESOURCE_EXHAUSTED;
    srv_metrics_event(c->server->metrics, "grpc_call_refused");
    grpc_call_cancel_with_status(c->call, GRPC_STATUS_RESOURCE_EXHAUSTED,
                                 "too many calls are open: --max_grpc_calls, and of these the "
                                 "connection's share",
                                 NULL);
    end_call(c);
}

static const struct srv_grpc_method *find_method(const struct srv_grpc_methods *m, grpc_slice path)
{
    for (int i = 0; i < m->n; i++)
        if (grpc_slice_str_cmp(path, m->row[i].path) == 0)
            return &m->row[i];
    return NULL;
}

static void refuse_unknown(struct srv_call *c, const struct srv_grpc_methods *m)
{
    const struct rt_span path = srv_call_text(c, c->details.method);
    const char *why = c->method ? c->method->off(&c->server->options) : m->why_unknown(path);

    c->method = NULL;
    srv_call_fail(c, rt_fail(&c->err, RT_UNIMPLEMENTED, "%.*s: %s",
                             (int)(path.n < 300 ? path.n : 300), (const char *)path.p, why));
}

void srv_grpc_reset_call(struct srv_call *c)
{
    c->is_in_metrics = false;
    c->pending = 0;
    c->charged = c->n_in = c->n_out = c->quota_in = 0;
    c->cancelled = 0;
    c->close_started = c->is_closed = c->may_send_close = c->was_cut = c->came_empty = false;
    atomic_store_explicit(&c->awaited, SRV_AWAITS_NOTHING, memory_order_relaxed);
    c->seen_awaited = SRV_AWAITS_NOTHING;
    c->code = RT_OK;
    c->err = (struct rt_error){.arena = c->arena};
    c->state = NULL;
    c->model = rt_span_of(NULL, 0);
    c->job = (struct srv_job){.next = NULL};
    c->stream = (struct srv_stream){.is_open = false};
    c->stream_of = NULL;
}

static void on_call(struct srv_call *c, bool ok)
{
    struct srv_grpc_loop *loop = c->loop;
    struct srv_grpc *g = loop->grpc;

    if (!ok) { /* the core is shutting down, and no call has arrived */
        c->call = NULL;
        end_call(c);
        return;
    }
    srv_grpc_post(loop, c->port, c->requested_method);
    srv_list_append(&loop->calls, &c->link);
    loop->closing.n_new++;
    atomic_fetch_add(&g->server->grpc_requests, 1);
    bool has_share = srv_call_open_share(c);
    c->counted = true;
    srv_grpc_reset_call(c);
    c->received_ns = rt_now_ns();
    srv_call_begin_span(c);
    if (c->server->options.access_log)
        note_peer(c);
    c->method =
        c->requested_method ? c->requested_method : find_method(g->methods, c->details.method);
    if (!has_share) {
        refuse(c);
        return;
    }
    if (c->requested_method) {
        srv_grpc_read_message(c, SRV_AWAITS_MESSAGE);
        return;
    }
    c->deadline = c->details.deadline;
    if (!c->method || (c->method->off && c->method->off(&c->server->options))) {
        refuse_unknown(c, g->methods);
        return;
    }
    srv_grpc_read_message(c, SRV_AWAITS_MESSAGE);
    srv_grpc_start_close(c);
}

/* Handles a call whose message is complete. A client that has disconnected may have queued
 * thousands of calls, so its calls are not executed. The handler of a stream is called in any case,
 * because it owns the stream's state. */
static void handle(struct srv_call *c, void (*handler)(struct srv_call *c))
{
    if (c->is_closed && c->cancelled && !c->stream.has_begun)
        srv_call_fail(c, rt_fail(&c->err, RT_CANCELLED, "the client has left"));
    else
        handler(c);
    srv_grpc_unpend(c);
}

static void return_from_detour(struct srv_io_loop *io_loop, struct srv_message *back)
{
    struct srv_call *c =
        (struct srv_call *)(void *)((char *)back - offsetof(struct srv_call, detour.back));

    (void)io_loop;
    c->stream.is_inflating = false;
    handle(c, c->detour.next);
}

static bool run_detour(struct srv_call *c)
{
    if (!atomic_load_explicit(&c->job.cancelled, memory_order_relaxed) && c->detour.work(c))
        return true;
    srv_message_post(c->io_loop, &c->detour.back);
    return false;
}

void srv_call_detour(struct srv_call *c, enum srv_background kind, bool (*work)(struct srv_call *c),
                     void (*next)(struct srv_call *c))
{
    c->pending++; /* for return_from_detour */
    if (!c->close_started)
        srv_grpc_start_close(c);
    c->detour.work = work;
    c->detour.next = next;
    c->detour.back.receive = return_from_detour;
    srv_call_in_background(c, kind, run_detour);
}

/* The compressed size of the call's message decides which thread inflates it. A client with large
 * messages thus does not delay a client with small messages. */
static enum srv_background inflating_thread(const struct srv_call *c)
{
    return c->payload->data.raw.slice_buffer.length <= BACKGROUND_SMALL_BYTES
               ? SRV_BACKGROUND_SMALL
               : SRV_BACKGROUND_LARGE;
}

static void on_message(struct srv_call *c)
{
    if (c->was_cut) { /* the error has already been sent to the client */
        srv_grpc_unpend(c);
        return;
    }
    c->stream.is_reading = false;
    if (!c->stream.is_sending)
        srv_call_awaits(c, SRV_AWAITS_NOTHING);
    c->came_empty = !c->payload && !c->stream.has_begun;
    if (c->payload)
        srv_call_receive(c);
    if (c->payload && !c->payload_status &&
        c->payload->data.raw.compression != GRPC_COMPRESS_NONE &&
        c->payload->data.raw.slice_buffer.length > INFLATE_ON_LOOP_BYTES) {
        c->stream.is_inflating = true;
        srv_call_detour(c, inflating_thread(c), srv_call_inflate, c->method->handle);
        srv_grpc_unpend(c);
        return;
    }
    handle(c, c->method->handle);
}

static void on_close(struct srv_call *c)
{
    struct srv_stream *s = &c->stream;

    c->is_closed = true;
    if (c->cancelled)
        atomic_store_explicit(&c->job.cancelled, true, memory_order_relaxed);
    if (s->is_open) {
        s->is_open = false;
        if (s->look)
            srv_stream_unwatch(c);
        if (s->closed)
            s->closed(c);
    }
    srv_grpc_unpend(c);
}

static void on_sent(struct srv_call *c)
{
    struct srv_stream *s = &c->stream;

    srv_call_awaits(c, SRV_AWAITS_NOTHING);
    if (s->is_sending) {
        s->is_sending = false;
        if (s->is_open && !s->is_ended && s->sent)
            s->sent(c);
    }
    srv_grpc_unpend(c);
}

void srv_grpc_on_event(struct srv_grpc_loop *loop, const grpc_event *e)
{
    struct srv_grpc_event *event = e->tag;

    if (event->call)
        atomic_load_explicit(&event->call->batch_order, memory_order_acquire);
    switch (event->kind) {
    case SRV_EV_CALL:
        on_call(event->call, e->success);
        break;
    case SRV_EV_CLOSE:
        on_close(event->call);
        break;
    case SRV_EV_MESSAGE:
        on_message(event->call);
        break;
    case SRV_EV_SENT:
        on_sent(event->call);
        break;
    case SRV_EV_WAKE:
        break;
    case SRV_EV_SHUTDOWN:
        atomic_fetch_add(&loop->grpc->n_shut_down, 1);
        break;
    }
}
