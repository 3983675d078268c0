/* Handles inference requests of any protocol. Finds the version and acquires a handle to it,
 * decodes the body into a job, and encodes the job's outputs. */
#include "runtime/base/clock.h"
#include "server/request_log/request_log.h"
#include "server/http/rest_request.h"

enum {
    /* A worker decodes bodies of at least this size. Decoding such a body takes about a
     * millisecond, during which the I/O loop would serve no other connection. */
    LONG_BODY = 32 << 10,
    /* The I/O loop always decodes shorter uncompressed bodies. Decoding them takes hardly longer
     * than passing them to a worker. */
    SHORT_BODY = 4 << 10,
    /* Maximum time in nanoseconds per turn for which an I/O loop inflates bodies and decodes bodies
     * of at least SHORT_BODY bytes. Workers decode the turn's other bodies of this size. */
    DECODE_PER_TURN_NS = 1000000,
    /* Maximum size in bytes of the tensors that the I/O loop makes. A worker makes larger ones. A
     * short body may stand for large tensors: by values in shared memory, or by a context that
     * precedes each example. */
    LONG_TENSORS = 256 << 10,
    /* Maximum size in bytes of the outputs that the I/O loop writes. Workers write larger outputs.
     * The I/O loop takes one to two milliseconds to write this size as JSON and compress it. */
    LONG_OUTPUTS = 64 << 10,
};

static int64_t deadline_of(const struct srv_rest_request *r)
{
    const int64_t limit_ms = r->server->options.rest_api_timeout_in_ms;
    int64_t at;
    if (limit_ms <= 0 || __builtin_mul_overflow(limit_ms, 1000000, &at) ||
        __builtin_add_overflow(at, r->received_ns, &at))
        return RT_NEVER;
    return at;
}

/* Reads the body into the job's feeds, of at most `most` bytes, and charges them to the budget. */
static enum rt_status decode(struct srv_rest_request *r, size_t most)
{
    struct srv_inference *inf = &r->inference;
    const struct rt_span body = rt_span_of(r->body.p, r->body.n);

    inf->allowance = (struct srv_allowance){.left = most,
                                            .budget = &r->server->in_flight,
                                            .own = &r->charged,
                                            .what = "the request as tensors"};
    enum rt_status st = srv_inference_read(inf, srv_cursor_of(&body, body.n), &r->err);
    if (st)
        return st;
    const int64_t deadline_ns = srv_inference_deadline_ns(inf, r->received_ns);
    if (deadline_ns < r->job.deadline_ns)
        r->job.deadline_ns = deadline_ns;
    if (r->found)
        return r->found;
    const size_t parsed = rt_arena_used(r->arena);
    if (parsed > SRV_FREE_BYTES && !srv_rest_charge(r, parsed - SRV_FREE_BYTES))
        return srv_rest_over_budget(r, parsed - SRV_FREE_BYTES, "the request, parsed,");
    st = srv_inference_resolve(inf, &r->err);
    if (!st)
        st = srv_inference_bind(inf, &r->err);
    inf->allowance.left = SIZE_MAX; /* a worker reads strings in shared memory later */
    r->job.body_bytes = r->charged;
    return st;
}

static enum rt_status read_body(struct srv_rest_request *r)
{
    const enum rt_status st = r->gzip ? srv_rest_inflate(r, SIZE_MAX) : RT_OK;
    return st ? st : decode(r, SIZE_MAX);
}

static enum rt_status decode_short(struct srv_rest_request *r)
{
    return decode(r, LONG_TENSORS);
}

/* Inflates a body on the I/O loop. A body of more than LONG_BODY inflated bytes stays
 * compressed. */
static enum rt_status inflate_short(struct srv_rest_request *r)
{
    return srv_rest_inflate(r, LONG_BODY);
}

/* Performs a step of reading the body on the I/O loop. Adds its duration to decode_ns, which
 * DECODE_PER_TURN_NS limits. */
static enum rt_status on_loop(struct srv_rest_request *r,
                              enum rt_status (*step)(struct srv_rest_request *r))
{
    const int64_t start = rt_now_ns();
    const enum rt_status st = step(r);
    r->io_loop->decode_ns += rt_now_ns() - start;
    return st;
}

/* Inflates and decodes the body on a worker. */
static enum rt_status decode_job(struct srv_job *job)
{
    struct srv_rest_request *r = job->owner;
    const enum rt_status st = read_body(r);
    if (st)
        rt_error_copy(&job->err, &r->err);
    return st;
}

/* Finishes the request with the response or the job's error. Runs on any thread, usually on the
 * worker that ran the job. */
static void done(struct srv_job *job)
{
    struct srv_rest_request *r = job->owner;
    struct srv_inference *inf = &r->inference;
    const struct srv_options *o = &r->server->options;
    enum rt_status st = job->status;

    if (!st)
        st = srv_inference_finish(inf, &job->err);
    if (!st)
        st = srv_inference_encode(inf, &r->out, &job->err);
    /* An op may fail with the same status, for example Unbatch with its own timeout. */
    if (st == RT_DEADLINE_EXCEEDED && job->deadline_ns == deadline_of(r) &&
        rt_now_ns() >= job->deadline_ns)
        rt_fail(&r->err, st, "%s (--rest_api_timeout_in_ms=%lld)", rt_error_text(&r->job.err),
                (long long)o->rest_api_timeout_in_ms);
    else if (st)
        rt_error_copy(&r->err, &r->job.err);
    if (st)
        srv_rest_fail(r, st);
    else
        srv_rest_ok(r, inf->json_bytes ? "application/octet-stream" : "application/json");
    /* The growth of `out` is charged by srv_rest_may_grow, and the size of JSON is not known
     * before it is written. Only the log's messages, which have a known size, use `growth`. */
    struct srv_growth growth = {&r->server->in_flight, &r->charged, srv_job_cancellation(job)};
    inf->growth = &growth;
    if (!st && srv_request_log_wants(job))
        srv_request_log_add(inf, &r->out);
    srv_request_span_encoded(job->span);
    srv_inference_clear(inf);
    srv_rest_finished(r);
}

/* Prepares the request for finding the version and reading the body. */
static void init(struct srv_rest_request *r)
{
    struct srv_inference *inf = &r->inference;
    struct srv_job *job = &r->job;

    srv_inference_init(inf, r->route.endpoint->rest.infer, &r->server->options, r->arena, job);
    inf->spec = r->route.spec;
    inf->json_length = r->json_length;
    inf->shared_memory = r->server->shared_memory;
    inf->manager = r->server->manager;
    job->io_loop = r->io_loop;
    job->owner = r;
    job->client = r->client;
    job->span = srv_request_span_read(&r->span);
    job->done = done;
    job->max_inline_bytes = LONG_OUTPUTS;
    job->received_ns = r->received_ns;
    job->deadline_ns = deadline_of(r);
}

/* Makes a worker decode the body. */
static void decode_on_worker(struct srv_rest_request *r)
{
    r->job.decode = decode_job;
    r->job.body_bytes = r->charged;
    srv_job_submit(&r->job);
}

/* Clears the tensors of a body that stands for more than LONG_TENSORS bytes, and makes a worker
 * decode the body again. Before the decoding, the request held `charged` bytes. */
static void decode_again_on_worker(struct srv_rest_request *r, size_t charged)
{
    struct srv_version *version = r->job.version;

    srv_inference_clear(&r->inference);
    srv_budget_give(&r->server->in_flight, &r->charged, r->charged - charged);
    r->err = (struct rt_error){.arena = r->arena};
    init(r);
    r->job.version = version;
    decode_on_worker(r);
}

bool srv_rest_inference(struct srv_rest_request *r)
{
    struct srv_inference *inf = &r->inference;
    enum rt_status st;

    init(r);
    r->found = srv_inference_find(inf, r->io_loop->map, &r->err);
    if (!r->found)
        /* The handle to the version is released when the response is sent. */
        srv_hold(r->io_loop, r->job.version);
    /* A request without a version never becomes a job, so no worker decodes its body. */
    const bool is_late = !r->found && r->io_loop->decode_ns >= DECODE_PER_TURN_NS;
    const enum rt_status inflated =
        r->gzip && r->body.n < LONG_BODY && !is_late ? on_loop(r, inflate_short) : RT_OK;
    st = inflated;
    const bool is_long = r->gzip || r->body.n >= LONG_BODY;
    const bool is_short = !r->gzip && r->body.n < SHORT_BODY;
    if (!st && !r->found && (is_long || (is_late && !is_short))) {
        decode_on_worker(r);
        return true;
    }
    const size_t charged = r->charged;
    /* A long body is not decoded if the version was not found. */
    if (!st && is_long)
        st = r->found;
    else if (!st)
        st = is_short ? decode_short(r) : on_loop(r, decode_short);
    if (!inflated && st == RT_RESOURCE_EXHAUSTED && !r->found && !is_long) {
        decode_again_on_worker(r, charged);
        return true;
    }
    if (st) {
        srv_inference_clear(inf);
        srv_rest_fail(r, st);
        return false;
    }
    srv_job_submit(&r->job);
    return true;
}
