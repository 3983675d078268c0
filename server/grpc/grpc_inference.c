/* Implements the methods of any protocol that run a model. */
#include "runtime/base/clock.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_methods.h"
#include "server/inference/inference.h"
#include "server/telemetry/request_log.h"

enum {
    /* The decoded tensors of a request have at most `TENSOR_FACTOR * --max_body_bytes` bytes. */
    TENSOR_FACTOR = 2,
    /* The I/O loop decodes messages and tensors of up to HERE_BYTES bytes. A worker decodes larger
     * ones, because decoding them takes longer than passing the call to a worker and back. The size
     * of the tensors counts too, because a message of 41 bytes may describe a tensor of 256 MiB. A
     * worker also encodes larger outputs. */
    HERE_BYTES = 256 << 10,
    /* Maximum number of fields, including those of nested messages, that the I/O loop reads.
     * Reading them takes about 0.02 ms. */
    HERE_FIELDS = 1024,
    /* Maximum number of fields in a message, including those of nested messages but not those of
     * tensors and examples. Reading them takes about 10 ms. The limits on inputs, feeds, fetches,
     * filters and tasks permit about 100,000 fields. Most fields of a larger message are therefore
     * unknown or repeated. */
    MOST_FIELDS = 1 << 20,
};

struct request {
    struct srv_inference inf; /* the first member */
    struct srv_cursor message;
    int64_t fields_left;
    /* status of reading the message on a background thread; c->err contains the error */
    enum rt_status read_status;
    /* The job's original `signature` and `prepare`, while a worker decodes the tensors. */
    const struct rt_model_signature *signature;
    enum rt_status (*prepare)(struct srv_job *job);
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
    if (!st && srv_request_log_wants(job))
        srv_request_log_add(inf, &out);
    /*
     * The inference is cleared before the response is sent. The I/O loop may end the call
     * immediately afterwards.
     */
    srv_inference_clear(inf);
    unsigned char *p = st ? NULL : (unsigned char *)rt_bytes_take(&out, &n);
    if (!p)
        rt_bytes_clear(&out);
    srv_call_respond_expected(c, p, n, st, st ? rt_error_text(&job->err) : NULL);
}

static size_t most_tensor_bytes(const struct srv_call *c)
{
    return (size_t)c->server->options.max_body_bytes * (size_t)TENSOR_FACTOR;
}

/* Frees the message. The budget is then charged for the `bytes` bytes of the decoded tensors
 * instead. */
static enum rt_status hold_tensors(struct srv_call *c, size_t bytes)
{
    srv_call_drop_payload(c);
    srv_budget_give(&c->server->in_flight, &c->charged, c->charged);
    c->job.body_bytes = bytes;
    return srv_call_charge(c, bytes, "the request as tensors");
}

/* Decodes the tensors on a worker, and then calls the job's original `prepare` if there is one. */
static enum rt_status prepare(struct srv_job *job)
{
    struct srv_call *c = job->owner;
    struct request *r = c->state;
    size_t bytes;

    job->signature = r->signature;
    job->prepare = r->prepare;
    r->inf.budget = most_tensor_bytes(c);
    enum rt_status st = srv_inference_bind(&r->inf, &bytes, &c->err);
    if (!st)
        st = hold_tensors(c, bytes);
    if (st)
        rt_error_copy(&job->err, &c->err);
    return st || !job->prepare ? st : job->prepare(job);
}

/* Makes a worker decode the tensors. job->signature is NULL until then, because the scheduler's
 * statistics of a signature must not include the decoding. */
static void bind_on_worker(struct srv_call *c, struct request *r)
{
    struct srv_job *job = &c->job;

    r->fields_left = INT64_MAX;
    r->signature = job->signature;
    r->prepare = job->prepare;
    job->signature = NULL;
    job->prepare = prepare;
    job->body_bytes = c->charged;
}

static enum rt_status bind_here_or_there(struct srv_call *c, struct request *r)
{
    size_t most = most_tensor_bytes(c), bytes = 0;
    enum rt_status st = RT_RESOURCE_EXHAUSTED;

    r->inf.budget = most < HERE_BYTES ? most : HERE_BYTES;
    if (c->charged <= HERE_BYTES && r->fields_left <= HERE_FIELDS)
        st = srv_inference_bind(&r->inf, &bytes, &c->err);
    if (st != RT_RESOURCE_EXHAUSTED && r->fields_left >= 0)
        return st ? st : hold_tensors(c, bytes);
    for (int i = 0; i < c->job.n_feeds; i++)
        rt_tensor_clear(&c->job.feeds[i]);
    c->err = (struct rt_error){.arena = c->arena};
    bind_on_worker(c, r);
    return RT_OK;
}

/* Turns a parsed request into a job. The job holds a handle to the requested version. */
static enum rt_status admit(struct srv_call *c, struct request *r)
{
    struct srv_inference *inf = &r->inf;
    enum rt_status st = srv_inference_find(inf, c->io_loop->map, &c->err);

    if (st)
        return st;
    srv_hold(c->io_loop, c->job.version); /* the handle is released when the call ends */
    if (inf->timeout_us > 0)
        c->job.deadline_ns = srv_inference_deadline_ns(inf, c->received_ns);
    st = srv_inference_resolve(inf, &c->err);
    return st ? st : bind_here_or_there(c, r);
}

/* Submits a parsed request as a job. If `st` is an error or the job cannot be created, sends the
 * error instead. */
static void submit(struct srv_call *c, enum rt_status st)
{
    struct request *r = c->state;

    c->model = r->inf.spec.name;
    if (!st)
        st = admit(c, r);
    if (st)
        srv_call_fail(c, st);
    else
        srv_call_submit(c, done);
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

void srv_grpc_inference(struct srv_call *c)
{
    struct request *r = rt_arena_alloc(c->arena, sizeof *r);
    enum rt_status st;

    if (!r) {
        srv_call_fail(c, rt_fail_memory(&c->err, "a request", sizeof *r));
        return;
    }
    c->state = r;
    srv_inference_init(&r->inf, c->method->endpoint->grpc.infer, &c->server->options, c->arena,
                       &c->job);
    c->job.max_inline_bytes = HERE_BYTES;
    st = srv_call_open(c, &r->message);
    if (!st) {
        r->fields_left = HERE_FIELDS;
        r->message.fields_left = &r->fields_left;
        st = srv_inference_read(&r->inf, r->message, &c->err);
    }
    if (r->fields_left < 0) {
        c->err = (struct rt_error){.arena = c->arena};
        srv_call_detour(c, SRV_BACKGROUND_FIELDS, read_in_background, submit_read);
        return;
    }
    submit(c, st);
}
