/*
 * A call is one HTTP request with its response, from the first received line to the last sent byte.
 * The files of the REST transport share this header (rest_loop.h lists them).
 *
 * Owner: the I/O loop, which reuses finished calls for later requests. libmicrohttpd's request
 * holds a reference to the call. libmicrohttpd's response holds another reference while it uses the
 * body. Several calls may hold references to the same body.
 * Threads: only the thread of the I/O loop uses a call, except where a function says otherwise.
 */
#ifndef SRV_REST_CALL_H
#define SRV_REST_CALL_H

#include <microhttpd.h>
#include <stddef.h>

#include "server/base/list.h"
#include "server/batching/io_loop.h"
#include "server/http/rest_request.h"

struct srv_rest;
struct srv_rest_conn;
struct srv_rest_loop;

enum {
    /* maximum size in bytes of each buffer that is kept for the next request */
    SRV_REST_MAX_IDLE_BYTES = 64 << 10,
    /* maximum number of bytes of a large response that a connection sends per turn */
    SRV_REST_PIECE_BYTES = 32 << 10,
    /* maximum number of existing shared bodies for which the budget is not charged */
    SRV_REST_FREE_SHARED_BODIES = 8,
    /* maximum number of bytes of a refused body that are read to keep the connection open */
    SRV_REST_SWALLOW_BYTES = 1 << 20,
    /* maximum size of a request's arena; tensors are not allocated from it */
    SRV_REST_ARENA_BYTES = 64 << 20,
};

enum srv_rest_stage {
    STAGE_NEW,     /* libmicrohttpd has not called the handler yet */
    STAGE_READING, /* the handler receives the body as it arrives */
    /* the request is refused, and the rest of its body is read before the response is sent */
    STAGE_REFUSED,
    /* the request has arrived, and the connection is suspended until a later turn */
    STAGE_DEFERRED,
    STAGE_WAITING, /* the connection is suspended while a job runs */
    STAGE_SENT,    /* the response has been passed to libmicrohttpd */
    /* The request was refused before its body was complete. Its response has been sent, or sending
     * has failed. */
    STAGE_OVER,
};

/* A response body, plain or compressed, that several responses share: a metrics page, or an event
 * or a file of the web page. The thread that writes the body holds a reference, and so does each
 * call that sends it. Any thread may release a reference. */
struct srv_shared_body {
    struct srv_rest *rest;
    _Atomic int refs;
    struct rt_bytes bytes; /* not modified while a call holds a reference */
    /* whether the body is one of the SRV_REST_FREE_SHARED_BODIES for which the budget is not
     * charged */
    bool is_free;
    size_t charged; /* number of bytes charged to the budget */
};

struct srv_rest_call {
    /* link in one of the loop's lists: `waiting` or `overdue` (requests that wait for a job), or
     * `deferred` */
    struct srv_link link;
    struct srv_rest_request pub;
    struct srv_message message;
    struct srv_rest_loop *loop;
    struct srv_rest_conn *conn;
    struct MHD_Connection *mhd;
    /* next call in the free list, or in the queue of a background thread */
    struct srv_rest_call *next_free;
    /* Number of references. libmicrohttpd's request holds one. libmicrohttpd's response holds
     * another one while it uses the body. */
    int refs;
    /* the body of the response, or NULL if the body is `pub.out` */
    struct srv_shared_body *shared_body;
    enum srv_rest_stage stage;
    bool (*work)(struct srv_rest_request *r); /* argument of srv_rest_in_background */
    bool in_handler, finished, overdue;
    bool close, browser, expects;
    int64_t waiting_since;
    uint64_t swallowed;
    /* whether the client accepts gzip, and whether the response is compressed */
    bool accepts_gzip, deflated;
    bool prefers_openmetrics; /* whether the client prefers OpenMetrics for the metrics page */
    /* whether the response has an X-Request-Id, because the request had one or the access log needs
     * one */
    bool sends_id;
    /* Number of handler calls that delivered a part of the body. */
    uint64_t n_pieces;
    /* seconds after which the client may retry a request that exceeded its quota, or 0 */
    int64_t retry_s;
    uint64_t length; /* value of Content-Length, or UINT64_MAX if the body is chunked */
};

static inline struct srv_rest_call *srv_rest_call_of(struct srv_rest_request *r)
{
    return (struct srv_rest_call *)(void *)((char *)r - offsetof(struct srv_rest_call, pub));
}

/* Returns the body of the response, which must be set. */
static inline const struct rt_bytes *srv_rest_body(const struct srv_rest_call *req)
{
    return req->shared_body ? &req->shared_body->bytes : &req->pub.out;
}

/* ---- rest_calls.c ---- */

/* Returns a call from the free list or a new one, or NULL if memory runs out. */
struct srv_rest_call *srv_rest_new_call(struct srv_rest_loop *l);
/* Releases a reference to the call. The last release puts the call into the loop's free list or
 * frees it. A call with much memory is freed on a background thread. */
void srv_rest_unref(struct srv_rest_call *req);
/* Frees a call without references, and then gives the bytes that the call has charged back to the
 * budget. May be called on any thread. */
void srv_rest_free_call(struct srv_rest_call *req);
/* Frees the part of the body that has been read, on a background thread if it is large, and
 * releases the bytes that the request has charged to the budget. */
void srv_rest_drop_body(struct srv_rest_call *req);
void srv_rest_free_calls(struct srv_rest_loop *l);
/* The `may_grow` callback of a request's buffer `out`. `arg` is the srv_rest_request. */
bool srv_rest_may_grow(void *arg, size_t capacity, size_t wanted);
/* Releases all bytes that srv_rest_charge has charged to the budget. */
void srv_rest_discharge(struct srv_rest_request *r);

/* ---- rest_handler.c ---- */

/* Resumes some of the deferred requests, so that the daemon's next run answers them. */
void srv_rest_resume_deferred(struct srv_rest_loop *l);
/* Resumes the call's connection. libmicrohttpd then calls the handler again, and the handler
 * answers the request. */
void srv_rest_resume(struct srv_rest_call *req);
/* Callbacks of libmicrohttpd; `arg` is the I/O loop. */
void *srv_rest_on_uri(void *arg, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result srv_rest_on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n_data, void **state);
void srv_rest_on_completed(void *arg, struct MHD_Connection *mhd, void **state,
                           enum MHD_RequestTerminationCode why);

/* ---- rest_read.c ---- */

/* Charges the quota of the client for a chunked body, whole or not. Does nothing if it was charged
 * before. */
void srv_rest_charge_quota(struct srv_rest_call *req);
/* Begins a request. Called when libmicrohttpd calls the handler for the request for the first time,
 * after the headers have been read. Returns true if the response is set and must be sent without
 * reading the body. */
bool srv_rest_open(struct srv_rest_call *req, const char *method);
/* Returns whether the request is for the web page, or for its form at the page's own address. */
bool srv_rest_is_for_viewer(const struct srv_rest_call *req);
/* Returns whether the connection's stream refused this request. If it did, sets the response. */
bool srv_rest_is_refused(struct srv_rest_call *req);
enum MHD_Result srv_rest_take_body(struct srv_rest_call *req, const char *data, size_t n);
/* ---- rest_refuse.c ---- */

/* Called in the handler before the body is complete. Sends the response, which must be set. For a
 * limited time, bytes that still arrive are dropped, so that the client can read the response. */
enum MHD_Result srv_rest_refuse_now(struct srv_rest_call *req);

/* ---- rest_response.c ---- */

void srv_rest_refuse(struct srv_rest_call *req, enum rt_status code, int http);
/* Passes the response to libmicrohttpd, which sends it. */
enum MHD_Result srv_rest_send(struct srv_rest_call *req);

/* ---- rest_shared_body.c ---- */

/* Returns an empty body with one reference, or NULL if memory runs out. */
struct srv_shared_body *srv_shared_body_new(struct srv_rest *rest);
/* Releases a reference to a body. May be called on any thread. `body` may be NULL. */
void srv_shared_body_unref(struct srv_shared_body *body);

/* ---- rest_shared_send.c ---- */

/* A kind of body that is written for several requests at once. */
struct srv_shared_body_kind {
    const char *content_type;
    const char *what; /* names the body in an error message */
    void (*write)(struct srv_rest *rest, struct rt_bytes *out);
    /* Returns the error of a body whose bytes have failed. */
    enum rt_status (*fail)(const struct rt_bytes *body, struct rt_error *err);
    bool may_be_free; /* whether it may be one of the SRV_REST_FREE_SHARED_BODIES */
};

/* Returns the compressed body. Returns NULL if memory runs out or the body does not become
 * smaller. */
struct srv_shared_body *srv_shared_body_compress(const struct srv_shared_body *body);
/* Writes one body and sends it to each request of the list, linked by `next_free`. Called on a
 * background thread. */
void srv_shared_body_send(struct srv_rest *rest, const struct srv_shared_body_kind *kind,
                          struct srv_rest_call *first);

/* ---- rest_outcome.c ---- */

/* Records the finished response in the metrics and the access log. Releases the request's
 * version. */
void srv_rest_count(struct srv_rest_call *req);
/* Calls `add` for each header of a finished response except Content-Length. Returns false as soon
 * as a call fails. */
typedef bool srv_rest_add_header(void *arg, const char *name, const char *value);
bool srv_rest_headers(const struct srv_rest_call *req, srv_rest_add_header *add, void *arg);

/* ---- rest_gzip.c ---- */

/* Compresses the response if the client accepts gzip and compression makes the body smaller. May be
 * called on any thread after the response is set. */
void srv_rest_deflate(struct srv_rest_call *req);
/* Returns whether srv_rest_deflate would compress a response with the given body. */
bool srv_rest_takes_gzip(const struct srv_rest_call *req, const struct rt_bytes *body);
/* Appends the compressed body to `out`. If the compressed body does not fit or compression is
 * cancelled, returns false, and the contents of `out` are unusable. */
bool srv_rest_compress(struct rt_bytes *out, const struct rt_bytes *body,
                       struct srv_cancellation *cancellation);

#endif
