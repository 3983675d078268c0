/* Implements the methods of any protocol that run a model. */
#include <grpc/grpc_security.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_methods.h"
#include "server/grpc/grpc_stream.h"
#include "server/inference/admission.h"
#include "server/inference/inference.h"
#include "server/metrics/metrics.h"
#include "server/request_log/request_log.h"

enum {
    /* The decoded tensors of a request have at most `TENSOR_FACTOR * --max_body_bytes` bytes. */
    TENSOR_FACTOR = 2,
    /* The I/O loop decodes messages and tensors of up to ON_LOOP_BYTES bytes. A worker decodes
     * larger ones, because decoding them takes longer than passing the call to a worker and back.
     * The size of the tensors counts too, because a message of 41 bytes may describe a tensor of
     * 256 MiB. A worker also encodes larger outputs. */
    ON_LOOP_BYTES = 256 << 10,
    /* Maximum number of fields, including those of nested messages, that the I/O loop reads.
     * Reading them takes about 0.02 ms. */
    ON_LOOP_FIELDS = 1024,
    /* Maximum number of fields in a message, including those of nested messages but not those of
     * tensors and examples. Reading them takes about 10 ms. The limits on inputs, feeds, fetches,
     * filters and tasks permit about 100,000 fields. Most fields of a larger message are therefore
     * unknown or repeated. */
    MOST_FIELDS = 1 << 20,
    MOST_PARTS = 64, /* maximum number of inferences of a stream in progress, its parts */
    /* While the requests and responses of a stream's parts have this many bytes or more, no further
     * request of the stream is read. */
    MOST_PART_BYTES = 4 << 20,
};

struct request {
    struct srv_inference inf; /* the first member */
    struct srv_cursor message;
    size_t message_bytes; /* number of bytes charged for the message */
    int64_t fields_left;
    /* status of reading the message on a background thread; c->err contains the error */
    enum rt_status read_status;
    /* the result of an inference of a stream, until its I/O loop sends it */
    struct rt_bytes out;
    enum rt_status status;
    const struct rt_error *why; /* the error of the inference, unless `status` is RT_OK */
    bool is_over, is_answered;
    size_t most_held; /* the most bytes that were charged at a time before the response */
};

/* Completes a request, and encodes the outputs on the thread that computed them. May be called on
 * any thread. */
static void done(struct srv_job *job)
{
    struct srv_call *c = job->owner;
    /* c->state points to a struct request. Its first member is the inference. */
    struct srv_inference *inf = c->state;
    enum rt_status st = job->status;
    struct rt_bytes out;
    size_t n = 0;
    struct srv_growth growth = {&c->server->in_flight, &c->charged, srv_job_cancellation(job)};

    /* the bytes charged for the response are released when the call ends */
    inf->growth = &growth;
    rt_bytes_init(&out, SRV_MESSAGE_MOST);
    if (!st)
        st = srv_inference_finish(inf, &job->err);
    if (!st)
        st = srv_inference_encode(inf, &out, &job->err);
    srv_call_name_limit(c, st, &job->err);
    if (!st && srv_request_log_wants(job))
        srv_request_log_add(inf, &out);
    srv_request_span_encoded(job->span);
    /*
     * The inference is cleared before the response is sent. The I/O loop may end the call
     * immediately afterwards.
     */
    srv_inference_clear(inf);
    if (c->stream.has_begun) {
        struct request *r = c->state;
        r->out = out;
        r->status = st;
        srv_stream_post(c);
        return;
    }
    c->retry_s = job->retry_s;
    unsigned char *p = st ? NULL : (unsigned char *)rt_bytes_take(&out, &n);
    if (!p)
        rt_bytes_clear(&out);
    srv_call_respond_expected(c, p, n, st, st ? rt_error_text(&job->err) : NULL);
}

static size_t most_tensor_bytes(const struct srv_call *c)
{
    return (size_t)c->server->options.max_body_bytes * (size_t)TENSOR_FACTOR;
}

/* Returns the allowance for the tensors of a request, of at most `bytes` bytes. */
static struct srv_allowance allowance_of(struct srv_call *c, size_t bytes)
{
    return (struct srv_allowance){.left = bytes,
                                  .budget = &c->server->in_flight,
                                  .own = &c->charged,
                                  .what = "the request as tensors"};
}

/* Frees the message after its tensors have been decoded. The budget is then charged only for the
 * tensors and the arena. The tensors whose values are read from shared memory later may take what
 * is left of the greatest allowance. */
static void drop_message(struct srv_call *c, struct request *r)
{
    const size_t most = most_tensor_bytes(c), taken = r->inf.allowance.taken;

    r->inf.allowance.left = most > taken ? most - taken : 0;
    c->model = rt_span_str(c->job.version->model);
    r->most_held = c->charged;
    srv_call_drop_payload(c);
    srv_budget_give(&c->server->in_flight, &c->charged, r->message_bytes);
    c->job.body_bytes = c->charged;
}

/* Charges the budget for what the arena contains, such as copies of the request's identifier and
 * names. The arena's first block is free, so most requests need no further access to the budget. */
static enum rt_status charge_arena(struct srv_call *c)
{
    const size_t bytes = rt_arena_used(c->arena);

    return bytes > SRV_FREE_BYTES
               ? srv_call_charge(c, bytes - SRV_FREE_BYTES, "the request, parsed,")
               : RT_OK;
}

/* Decodes the tensors on a worker. */
static enum rt_status decode_job(struct srv_job *job)
{
    struct srv_call *c = job->owner;
    struct request *r = c->state;

    r->inf.allowance = allowance_of(c, most_tensor_bytes(c));
    enum rt_status st = srv_inference_bind(&r->inf, &c->err);
    if (!st)
        drop_message(c, r);
    if (st)
        rt_error_copy(&job->err, &c->err);
    return st;
}

/* Makes a worker decode the tensors. */
static void bind_on_worker(struct srv_call *c, struct request *r)
{
    struct srv_job *job = &c->job;

    r->fields_left = INT64_MAX;
    r->inf.allowance = (struct srv_allowance){.left = 0};
    job->decode = decode_job;
    job->body_bytes = c->charged;
}

static enum rt_status bind_on_loop_or_worker(struct srv_call *c, struct request *r)
{
    const size_t most = most_tensor_bytes(c), charged = c->charged;
    enum rt_status st = RT_RESOURCE_EXHAUSTED;

    r->inf.allowance = allowance_of(c, most < ON_LOOP_BYTES ? most : ON_LOOP_BYTES);
    if (c->charged <= ON_LOOP_BYTES && r->fields_left <= ON_LOOP_FIELDS)
        st = srv_inference_bind(&r->inf, &c->err);
    if (st != RT_RESOURCE_EXHAUSTED && r->fields_left >= 0) {
        if (!st)
            drop_message(c, r);
        return st;
    }
    for (int i = 0; i < c->job.n_feeds; i++)
        rt_tensor_clear(&c->job.feeds[i]);
    srv_budget_give(&c->server->in_flight, &c->charged, c->charged - charged);
    c->err = (struct rt_error){.arena = c->arena};
    bind_on_worker(c, r);
    return RT_OK;
}

/* Turns a parsed request into a job. The job holds a handle to the requested version. */
static enum rt_status admit(struct srv_call *c, struct request *r)
{
    struct srv_inference *inf = &r->inf;
    enum rt_status st = charge_arena(c);

    if (!st)
        st = srv_inference_find(inf, c->io_loop->map, &c->err);
    if (st)
        return st;
    srv_hold(c->io_loop, c->job.version); /* the handle is released when the call ends */
    if (inf->timeout_us > 0)
        c->job.deadline_ns = srv_inference_deadline_ns(inf, c->job.received_ns);
    st = srv_inference_resolve(inf, &c->err);
    return st ? st : bind_on_loop_or_worker(c, r);
}

/* ---- streams ---- */

/* Sends the response of a part, or its error. A stream that has closed or ended sends nothing. */
static void respond(struct srv_call *c, struct request *r)
{
    const struct srv_stream_steps *steps = c->method->endpoint->stream;
    struct rt_bytes head;

    rt_bytes_init(&head, SRV_MESSAGE_MOST);
    if (!c->stream.is_open || c->stream.is_ended) {
        rt_bytes_clear(&r->out);
    } else if (r->status) {
        steps->write_error(&r->inf, rt_error_text(r->why), &head);
        srv_stream_send(c, &head);
    } else {
        steps->write_head(&r->inf, &head, r->out.n);
        if (head.failed)
            r->out.failed = true;
        srv_stream_send_parts(c, rt_span_of(head.p, head.n), &r->out);
    }
    rt_bytes_clear(&head);
}

/* Begins to send the response of a part whose inference is over. */
static void answer(struct srv_call *c, struct srv_call *part)
{
    struct request *r = part->state;
    struct srv_job *job = &part->job;

    srv_metrics_request(part->io_loop, job->version ? job : NULL, &part->span,
                        job->version ? rt_span_str(job->version->model) : part->model,
                        (enum srv_api)part->method->endpoint->stream_api, r->status,
                        job->version ? rt_now_ns() - job->received_ns : 0);
    if (r->status)
        srv_metrics_error(part->io_loop, job->version, part->model,
                          (enum srv_api)part->method->endpoint->stream_api, r->status,
                          rt_error_text(r->why));
    respond(c, r);
    srv_call_trace_inference(part, r->status);
    r->is_answered = true;
}

/*
 * Answers the parts that are over, in the order of the requests, and then reads the next request or
 * ends the stream. A part is dropped when its response has been sent, so that the budget is charged
 * for the response and the drain waits for it. The inferences of a stream run at the same time, so
 * that they can form batches. At most MOST_PARTS of them are in progress, and no further request is
 * read while their requests and responses have MOST_PART_BYTES, so that the client's flow control
 * limits what a stream holds.
 */
static void advance(struct srv_call *c)
{
    struct srv_stream *s = &c->stream;
    const bool is_ending = srv_call_is_ending(c);
    struct srv_call *part;

    while ((part = srv_stream_first_part(c)) && ((struct request *)part->state)->is_over &&
           (!s->is_sending || !s->is_open || s->is_ended)) {
        if (((struct request *)part->state)->is_answered)
            srv_stream_drop(part);
        else
            answer(c, part);
    }
    if (s->is_ended)
        return;
    if (s->has_all || is_ending || !s->is_open) {
        if (!s->n_parts && !s->is_sending) {
            const bool has_failed = s->has_all && c->err.code;
            const enum rt_status st = has_failed   ? c->err.code
                                      : is_ending  ? RT_UNAVAILABLE
                                      : s->is_open ? RT_OK
                                                   : RT_CANCELLED;
            srv_stream_end(c, st,
                           has_failed  ? rt_error_text(&c->err)
                           : is_ending ? "the server is stopping"
                                       : "the client has left");
        }
    } else if (!s->is_reading && !s->is_inflating && s->n_parts < MOST_PARTS &&
               s->part_bytes < MOST_PART_BYTES && srv_stream_has_room(c)) {
        srv_stream_read(c);
    }
    if (!s->is_ended)
        srv_stream_note_wait(c);
}

/* Runs on the I/O loop thread when an inference of a stream has ended, or could not begin. */
static void end_inference(struct srv_call *part, enum rt_status st, const struct rt_error *why)
{
    struct request *r = part->state;

    r->status = st;
    r->why = why;
    r->is_over = true;
    srv_stream_hold(part, r->out.n);
    srv_stream_note_held(part, part->charged > r->most_held ? part->charged : r->most_held);
    advance(part->stream_of);
}

static void end_job(struct srv_call *part)
{
    end_inference(part, ((struct request *)part->state)->status, &part->job.err);
}

/* The client has disconnected, or the stream has ended. */
static void on_closed(struct srv_call *c)
{
    srv_stream_cancel_parts(c);
    advance(c);
}

/* If `st` is RT_OK, submits a parsed request as a job. If `st` is an error, or if the job cannot be
 * created, sends the error. */
static void submit(struct srv_call *c, enum rt_status st)
{
    struct request *r = c->state;

    c->model = r->inf.spec.name;
    if (!st)
        st = admit(c, r);
    if (!c->stream.has_begun) {
        if (st)
            srv_call_fail(c, st);
        else
            srv_call_submit(c, done);
    } else if (st) {
        srv_inference_clear(&r->inf);
        srv_call_name_limit(c, st, &c->err);
        end_inference(c, st, &c->err);
    } else {
        srv_stream_submit(c, done, end_job);
    }
}

static bool read_in_background(struct srv_call *c)
{
    struct request *r = c->state;

    r->fields_left = MOST_FIELDS;
    r->read_status = srv_inference_read(&r->inf, r->message, &c->err);
    if (r->fields_left < 0) {
        c->err = (struct rt_error){.arena = c->arena};
        r->read_status =
            rt_fail(&c->err, RT_INVALID_ARGUMENT,
                    "the request has too many fields outside of its tensors and examples");
    }
    r->fields_left = INT64_MAX;
    return false;
}

static void submit_read(struct srv_call *c)
{
    submit(c, ((struct request *)c->state)->read_status);
}

/* Takes the message from the quota of its client. */
static enum rt_status take_quota(struct srv_call *c)
{
    /* A part has neither metadata nor a call of the core, but its stream has both. */
    struct srv_call *call = c->stream_of ? c->stream_of : c;
    const char *by = c->server->options.quota_client;
    struct rt_span name = rt_span_of(NULL, 0);
    int64_t retry_s = 0;
    enum rt_status st;

    if (!c->server->quota)
        return RT_OK;
    const bool is_tls = strcmp(by, "tls") == 0;
    /* A client must not choose its quota behind a proxy that appends the client's name. */
    if (!is_tls && srv_call_repeats(call, by))
        return srv_quota_fail_repeated(by, &c->err);
    grpc_auth_context *auth = is_tls ? grpc_call_auth_context(call->call) : NULL;
    if (auth) {
        grpc_auth_property_iterator at =
            grpc_auth_context_find_properties_by_name(auth, GRPC_X509_CN_PROPERTY_NAME);
        const grpc_auth_property *p = grpc_auth_property_iterator_next(&at);
        if (p)
            name = rt_span_of(p->value, p->value_length);
    } else if (!is_tls) {
        name = srv_call_metadata(call, by);
    }
    st = srv_admit(c->server, name, call->n_in - call->quota_in, rt_now_ns(), &c->job.client,
                   &retry_s, &c->err);
    call->quota_in = call->n_in;
    grpc_auth_context_release(auth); /* `name` may point into it */
    if (st)
        c->retry_s = c->stream.has_begun ? 0 : retry_s;
    return st;
}

/* Finds out which request of a stream is refused before it is read, for the answer. */
static void identify(struct srv_call *c, struct request *r)
{
    struct srv_cursor message = srv_call_peek(c);

    r->fields_left = ON_LOOP_FIELDS;
    message.fields_left = &r->fields_left;
    c->method->endpoint->stream->identify(&r->inf, message);
    r->fields_left = 0;
}

/* Reads the message of a call, or the next message of a stream. */
static void begin(struct srv_call *c, struct request *r)
{
    enum rt_status st;

    c->state = r;
    srv_inference_init(&r->inf, c->method->endpoint->grpc.infer, &c->server->options, c->arena,
                       &c->job);
    r->inf.shared_memory = c->server->shared_memory;
    c->job.max_inline_bytes = ON_LOOP_BYTES;
    r->inf.manager = c->server->manager;
    c->job.received_ns = c->stream.has_begun ? rt_now_ns() : c->received_ns;
    c->job.span = srv_request_span_read(&c->span);
    st = take_quota(c);
    if (!st)
        st = srv_call_open(c, &r->message);
    r->message_bytes = c->charged;
    r->fields_left = ON_LOOP_FIELDS;
    r->message.fields_left = &r->fields_left;
    if (!st)
        st = srv_inference_read(&r->inf, r->message, &c->err);
    else if (c->stream.has_begun)
        identify(c, r);
    if (r->fields_left < 0) {
        c->err = (struct rt_error){.arena = c->arena};
        srv_call_detour(c, SRV_BACKGROUND_FIELDS, read_in_background, submit_read);
        return;
    }
    submit(c, st);
}

void srv_grpc_inference(struct srv_call *c)
{
    struct request *r = rt_arena_alloc(c->arena, sizeof *r);

    if (r)
        begin(c, r);
    else
        srv_call_fail(c, rt_fail_memory(&c->err, "a request", sizeof *r));
}

/* Begins the inference of a stream's message. Returns false if memory runs out. */
static bool begin_part(struct srv_call *c)
{
    struct srv_call *part = srv_stream_take(c);
    struct request *r = part ? rt_arena_alloc(part->arena, sizeof *r) : NULL;

    if (r)
        begin(part, r);
    else if (part)
        srv_stream_drop(part);
    return r;
}

void srv_grpc_inference_stream(struct srv_call *c)
{
    if (!c->stream.has_begun && !srv_stream_begin(c, advance, on_closed))
        return;
    if (!c->payload || !c->stream.is_open || c->stream.is_ended)
        c->stream.has_all = true;
    if (!c->stream.has_all && !begin_part(c)) {
        rt_fail_memory(&c->err, "a request", sizeof(struct request));
        c->stream.has_all = true;
    }
    advance(c);
}
