/*
 * A REST request in progress, shared by the transport (rest_loop.h) and the handlers:
 * rest_inference.c, rest_describe.c and rest_action.c, and in the transport rest_metrics.c and
 * rest_viewers.c. rest_routes.c calls them. Nothing in this header uses libmicrohttpd.
 *
 * Owner: the I/O loop's thread, except between a call of srv_job_submit or
 * srv_rest_in_background and the call of srv_rest_finished.
 */
#ifndef SRV_REST_REQUEST_H
#define SRV_REST_REQUEST_H

#include "runtime/base/bytes.h"
#include "server/inference/inference.h"
#include "server/batching/io_loop.h"
#include "server/protocol/route.h"
#include "server/server.h"
#include "server/tracing/request_span.h"

enum { SRV_REST_ID_BYTES = 129 };

struct srv_rest_request {
    struct srv_server *server;
    struct srv_io_loop *io_loop;
    struct rt_arena *arena;
    /* set by handlers; err.arena is set before the handler is called */
    struct rt_error err;

    const char *method;
    /* The URI as received: with its query, and not percent-decoded. Allocated in `arena`. */
    struct rt_span uri;
    struct srv_route route;
    struct rt_bytes body;
    /* whether the body is compressed, by gzip or deflate; cleared by srv_rest_inflate */
    bool gzip;
    char id[SRV_REST_ID_BYTES]; /* X-Request-Id of the response, or empty */
    int64_t received_ns;
    struct srv_request_span span;

    struct srv_job job; /* the request's job, owned by the request */
    struct srv_inference inference;
    struct srv_description description;
    /* Status of the search for the version. If it is not RT_OK, `err` contains the message. */
    enum rt_status found;
    /* value of the header whose name is srv_protocol.json_length_header; p is NULL if the request
     * lacks this header */
    struct rt_span json_length;
    /* header Authorization of a request for an action; p is NULL if the request lacks it */
    struct rt_span authorization;
    struct srv_quota_client client; /* the client of an inference, if there are quotas */
    /* whether the request has the header Origin, which browsers add for web pages */
    bool is_from_page;

    /* The members below describe the response. */
    enum rt_status code;
    int http;
    const char *content_type; /* NULL if the response has no body */
    struct rt_bytes out;

    size_t charged; /* number of bytes charged to the budget server->in_flight */
    /* number of bytes that the budget refused at the last growth of `out`, or 0 */
    size_t refused_bytes;
};

/*
 * Charges bytes to the budget of bytes in flight until the request ends. Returns false if the
 * budget has fewer bytes left. The growth of `out` is charged automatically.
 */
bool srv_rest_charge(struct srv_rest_request *r, size_t bytes);
/* Sets the error for a charge of `bytes` bytes that the budget refused, and returns its code.
 * `what` names the purpose of the bytes (server/base/budget.h). */
enum rt_status srv_rest_over_budget(struct srv_rest_request *r, size_t bytes, const char *what);

/* These functions set the response to the error in r->err, or to the contents of `out`. */
void srv_rest_fail(struct srv_rest_request *r, enum rt_status code);
void srv_rest_ok(struct srv_rest_request *r, const char *content_type);

/*
 * Inflates the body. May be called on any thread. A body of more than `most` inflated bytes stays
 * compressed, and `gzip` stays true. A body that is invalid, or exceeds --max_body_bytes or 100 MiB
 * when inflated, is refused if the protocol checks codings (protocol.h). Otherwise, as in
 * TensorFlow Serving, it becomes empty. Also fails if memory or the budget is exhausted.
 */
enum rt_status srv_rest_inflate(struct srv_rest_request *r, size_t most);

/* Passes a request with its response to the I/O loop, which sends the response. May be called on
 * any thread. */
void srv_rest_finished(struct srv_rest_request *r);

/*
 * A handler runs on the I/O loop's thread. It returns false if it has set the response. It returns
 * true if it has submitted a job. In this case, srv_rest_finished is called later or has already
 * been called.
 */
/* Runs an inference. An error in reading the body takes precedence over the error in r->found. A
 * worker decodes the body if the inflated body is long, or if the I/O loop has used up its decoding
 * time for the turn. */
bool srv_rest_inference(struct srv_rest_request *r);
bool srv_rest_describe(struct srv_rest_request *r);
bool srv_rest_act(struct srv_rest_request *r);
bool srv_rest_metrics(struct srv_rest_request *r);
bool srv_rest_page_file(struct srv_rest_request *r);
bool srv_rest_page_events(struct srv_rest_request *r);
bool srv_rest_page_errors(struct srv_rest_request *r);
bool srv_rest_page_plan(struct srv_rest_request *r);
bool srv_rest_page_profile(struct srv_rest_request *r);

/* Calls `work` on the background thread for short descriptions, or on the one for long descriptions
 * if `description` is long. If `work` returns true, it has set the response, and the request is
 * finished; otherwise srv_rest_finished is called later. `work` may be skipped if the client has
 * disconnected. The return value has the same meaning as a handler's. */
bool srv_rest_in_background(struct srv_rest_request *r, bool (*work)(struct srv_rest_request *r));
/* Does the same on the thread of admin actions, which no long description delays. */
bool srv_rest_in_action(struct srv_rest_request *r, bool (*work)(struct srv_rest_request *r));

#endif
