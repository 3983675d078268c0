/*
 * A REST request on its way: what the transport (rest_parts.h) and the handlers (rest_predict.c,
 * rest_info.c) share. Nothing here knows libmicrohttpd.
 *
 * Owner: the loop thread, except between srv_job_submit and the job's `done`.
 */
#ifndef SRV_REST_REQUEST_H
#define SRV_REST_REQUEST_H

#include "runtime/base/bytes.h"
#include "server/inference/inference.h"
#include "server/protocol/tfs/json_tensor.h"
#include "server/batching/io_loop.h"
#include "server/protocol/tfs/route.h"
#include "server/server.h"

enum { SRV_REST_ID_BYTES = 129 };

struct srv_rest_request {
    struct srv_server *server;
    struct srv_io_loop *io_loop;
    struct rt_arena *arena;
    struct rt_error err; /* for handlers; its arena is set */

    const char *method;
    struct rt_span uri; /* raw, query included; in the arena */
    struct srv_route route;
    struct rt_bytes body;
    bool gzip;                  /* the body is compressed, until srv_rest_inflate */
    char id[SRV_REST_ID_BYTES]; /* X-Request-Id; empty where nobody asks for one */
    int64_t received_ns;

    struct srv_job job; /* owner: this request */
    struct srv_inference inference;
    enum srv_json_form form;
    enum rt_status found; /* of its version; r->err has the text */
    enum rt_status (*decode)(struct srv_rest_request *r);

    /* the answer */
    enum rt_status code;
    int http;
    const char *content_type; /* NULL: no body */
    struct rt_bytes out;

    size_t charged;       /* of server->in_flight */
    size_t refused_bytes; /* what `out` asked for and did not get; else 0 */
};

/*
 * Takes `bytes` more of the budget of bytes in flight, until the request is over. False: there is
 * no room for them. `out` does so by itself as it grows.
 */
bool srv_rest_charge(struct srv_rest_request *r, size_t bytes);
/* Why not, of `what`: as server/base/budget.h has it. */
enum rt_status srv_rest_over_budget(struct srv_rest_request *r, size_t bytes, const char *what);
/* What a decoder said that could take no more than `left`, which was all that there was. */
static inline enum rt_status srv_rest_decoded(const struct srv_rest_request *r, size_t left,
                                              enum rt_status st)
{
    return st == RT_RESOURCE_EXHAUSTED
               ? srv_budget_code(&r->server->in_flight, r->charged, left + 1)
               : st;
}

/* Each sets the answer. The text of a status is that of r->err. */
void srv_rest_fail(struct srv_rest_request *r, enum rt_status code);
void srv_rest_ok(struct srv_rest_request *r, const char *content_type);

/*
 * An inference: its version is found and held, its body decoded, its job submitted. `decode` fills
 * the job's signature and feeds from the body: what the JSON says is wrong comes first, then
 * r->found, then the rest. It is called here for a short body, on a worker for a long one, so that
 * the loop's other requests do not wait. `done` calls srv_rest_inferred. Returns as a handler.
 */
bool srv_rest_inference(struct srv_rest_request *r,
                        enum rt_status (*decode)(struct srv_rest_request *r),
                        void (*done)(struct srv_job *job));
/* Any thread: answers with what `done` has written, or the job's error. The request is finished. */
void srv_rest_inferred(struct srv_rest_request *r, enum rt_status st);
/* Replaces the body by what it holds compressed. As in TensorFlow Serving whatever is wrong with
 * it, its size included, leaves an empty body; a failure is only ever for want of memory. Any
 * thread. */
enum rt_status srv_rest_inflate(struct srv_rest_request *r);

/* Any thread: the job is over and the answer set; the loop sends it. */
void srv_rest_finished(struct srv_rest_request *r);

/*
 * Handlers, on the loop thread. True: a job was submitted, srv_rest_finished follows (or has
 * been called already). False: the answer is set.
 */
bool srv_rest_predict(struct srv_rest_request *r);
bool srv_rest_status(struct srv_rest_request *r);
bool srv_rest_metadata(struct srv_rest_request *r);
bool srv_rest_health(struct srv_rest_request *r);
bool srv_rest_ready(struct srv_rest_request *r);
bool srv_rest_metrics(struct srv_rest_request *r);
bool srv_rest_examples(struct srv_rest_request *r); /* classify and regress */

/* What GetModelMetadata and GetModelStatus say, as protobuf prints JSON. */
void srv_rest_write_metadata(struct rt_bytes *out, const char *model, int64_t version,
                             const struct rt_meta_graph *graph);
struct srv_version_status;
void srv_rest_write_status(struct rt_bytes *out, const struct srv_version_status *versions, int n);

#endif
