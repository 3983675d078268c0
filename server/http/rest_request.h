/*
 * A REST request in progress, shared by the transport (rest_loop.h) and the handlers
 * (rest_predict.c, rest_examples.c, rest_info.c). Nothing here uses libmicrohttpd.
 *
 * Owner: the I/O loop thread, except between srv_job_submit and the job's `done`.
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
    struct rt_error err; /* an error for handlers to fill in; its arena is set */

    const char *method;
    struct rt_span uri; /* not decoded, with the query; in the arena */
    struct srv_route route;
    struct rt_bytes body;
    bool gzip;                  /* the body is compressed, until srv_rest_inflate */
    char id[SRV_REST_ID_BYTES]; /* X-Request-Id; empty if not needed */
    int64_t received_ns;

    struct srv_job job; /* its owner is this request */
    struct srv_inference inference;
    enum srv_json_form form;
    enum rt_status found; /* status of finding the version; r->err has the text */
    enum rt_status (*decode)(struct srv_rest_request *r);

    /* The response. */
    enum rt_status code;
    int http;
    const char *content_type; /* NULL: no body */
    struct rt_bytes out;

    size_t charged;       /* bytes taken from the budget server->in_flight */
    size_t refused_bytes; /* the growth of `out` that the budget refused, in bytes; 0: none */
};

/*
 * Takes `bytes` more from the budget of bytes in flight until the request ends. False: they do not
 * fit. `out` charges its own growth.
 */
bool srv_rest_charge(struct srv_rest_request *r, size_t bytes);
/* The error of a refused charge for `what`, as server/base/budget.h describes. */
enum rt_status srv_rest_over_budget(struct srv_rest_request *r, size_t bytes, const char *what);
/* The status of a decoder that was given the whole rest of the budget, `left`, as its limit. */
static inline enum rt_status srv_rest_decoded(const struct srv_rest_request *r, size_t left,
                                              enum rt_status st)
{
    return st == RT_RESOURCE_EXHAUSTED
               ? srv_budget_code(&r->server->in_flight, r->charged, left + 1)
               : st;
}

/* Both set the response. The text of a status is that of r->err. */
void srv_rest_fail(struct srv_rest_request *r, enum rt_status code);
void srv_rest_ok(struct srv_rest_request *r, const char *content_type);

/*
 * Runs an inference: finds and holds its version, decodes its body, and submits its job. `decode`
 * fills the job's signature and feeds from the body. It reports errors in the JSON first, then
 * r->found, then the rest. `decode` runs here for a short body and on a worker for a long one, so
 * that the loop's other requests do not wait. `done` calls srv_rest_inferred. Returns what a
 * handler returns.
 */
bool srv_rest_inference(struct srv_rest_request *r,
                        enum rt_status (*decode)(struct srv_rest_request *r),
                        void (*done)(struct srv_job *job));
/* Any thread: responds with what `done` has written, or with the job's error, and finishes the
 * request. */
void srv_rest_inferred(struct srv_rest_request *r, enum rt_status st);
/* Any thread. Inflates the body. As in TensorFlow Serving, an invalid or too large compressed body
 * becomes an empty one. An error means that memory or the budget is short. */
enum rt_status srv_rest_inflate(struct srv_rest_request *r);

/* Any thread: the job is over and the response set; the I/O loop sends it. */
void srv_rest_finished(struct srv_rest_request *r);

/*
 * Handlers, on the I/O loop thread. True: a job was submitted, and srv_rest_finished follows or
 * was called already. False: the response is set.
 */
bool srv_rest_predict(struct srv_rest_request *r);
bool srv_rest_status(struct srv_rest_request *r);
bool srv_rest_metadata(struct srv_rest_request *r);
bool srv_rest_health(struct srv_rest_request *r);
bool srv_rest_ready(struct srv_rest_request *r);
bool srv_rest_metrics(struct srv_rest_request *r);
bool srv_rest_examples(struct srv_rest_request *r); /* classify and regress */

/* The contents of GetModelMetadata's and GetModelStatus's responses, as protobuf prints JSON. */
void srv_rest_write_metadata(struct rt_bytes *out, const char *model, int64_t version,
                             const struct rt_meta_graph *graph);
struct srv_version_status;
void srv_rest_write_status(struct rt_bytes *out, const struct srv_version_status *versions, int n);

#endif
