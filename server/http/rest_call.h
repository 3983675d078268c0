/*
 * A call is one HTTP request with its response, from the first line received to the last byte sent.
 * The files of the REST transport share this header (rest_loop.h lists them).
 *
 * Owner: the I/O loop, which keeps unused calls for later requests. libmicrohttpd's request holds a
 * reference to the call, and libmicrohttpd's response holds another one while the response uses the
 * body.
 * Threads: only the thread of the I/O loop uses a call, except where a function says otherwise.
 */
#ifndef SRV_REST_CALL_H
#define SRV_REST_CALL_H

#include <microhttpd.h>
#include <stddef.h>

#include "server/base/list.h"
#include "server/batching/io_loop.h"
#include "server/http/rest_request.h"

struct srv_rest_conn;
struct srv_rest_loop;

enum {
    /* maximum size of the buffers that a finished request leaves for the next one */
    SRV_REST_MAX_IDLE_BYTES = 64 << 10,
    /* maximum number of bytes of a refused body that are read to keep the connection open */
    SRV_REST_SWALLOW_BYTES = 1 << 20,
};

enum srv_rest_stage {
    STAGE_NEW,     /* libmicrohttpd has not called the handler yet */
    STAGE_READING, /* the handler reads the body */
    /* the request is refused; the rest of its body is read before the response is sent */
    STAGE_REFUSED,
    /* the request has arrived; the connection is suspended until a later turn answers it */
    STAGE_DEFERRED,
    STAGE_WAITING, /* the connection is suspended while a job runs */
    STAGE_SENT,    /* the response has been passed to libmicrohttpd */
    /* the request was refused before its body was complete, and the attempt to send the response
     * has ended */
    STAGE_OVER,
};

struct srv_rest_call {
    /* Link in loop->waiting or loop->overdue (the lists of requests that wait for a job), or in
     * loop->deferred. */
    struct srv_link link;
    struct srv_rest_request pub;
    struct srv_message message;
    struct srv_rest_loop *loop;
    struct srv_rest_conn *conn;
    struct MHD_Connection *mhd;
    /* next call in the free list, or in the queue of an aside thread */
    struct srv_rest_call *next_free;
    /* number of references, held by libmicrohttpd's request, and by its response while the response
     * uses `pub.out` */
    int refs;
    enum srv_rest_stage stage;
    void (*describe)(struct srv_rest_request *r); /* argument of srv_rest_describe_aside */
    bool in_handler, finished, overdue;
    bool close, browser, expects;
    int64_t waiting_since;
    uint64_t swallowed;
    bool accepts_gzip, deflated; /* the client accepts gzip; the response has been compressed */
    /* the response has an X-Request-Id, because the request had one or because the access log
     * needs one */
    bool sends_id;
    /* Number of calls of the handler in which libmicrohttpd has delivered parts of the body. */
    uint64_t n_pieces;
    uint64_t length; /* value of Content-Length, or UINT64_MAX if the body is chunked */
};

static inline struct srv_rest_call *srv_rest_call_of(struct srv_rest_request *r)
{
    return (struct srv_rest_call *)(void *)((char *)r - offsetof(struct srv_rest_call, pub));
}

/* ---- rest_handler.c ---- */

void srv_rest_unref(struct srv_rest_call *req);
/* Resumes some of the deferred requests, so that they are answered in this turn. Called before the
 * daemon runs. */
void srv_rest_resume_deferred(struct srv_rest_loop *l);
/* Frees the calls in the free list of an I/O loop. */
void srv_rest_free_calls(struct srv_rest_loop *l);
/* Resumes the connection. libmicrohttpd then calls the handler again, and the handler sends the
 * response. */
void srv_rest_resume(struct srv_rest_call *req);
/* Callbacks of libmicrohttpd; `arg` is the I/O loop. */
void *srv_rest_on_uri(void *arg, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result srv_rest_on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n_data, void **state);
void srv_rest_on_completed(void *arg, struct MHD_Connection *mhd, void **state,
                           enum MHD_RequestTerminationCode why);

/* ---- rest_read.c ---- */

/* Handles the first call of the handler, in which only the headers have been read. Returns true
 * if the response is set and no body is read. */
bool srv_rest_open(struct srv_rest_call *req, const char *method);
/* Returns whether the connection's stream refused this request. If it did, sets the response. */
bool srv_rest_is_refused(struct srv_rest_call *req);
enum MHD_Result srv_rest_take_body(struct srv_rest_call *req, const char *data, size_t n);
/* ---- rest_refuse.c ---- */

/* Called in the handler before the body is complete. Sends the response that is set. For a limited
 * time the bytes that still arrive are dropped, so that the client can read the response. */
enum MHD_Result srv_rest_refuse_now(struct srv_rest_call *req);

/* ---- rest_response.c ---- */

/* The may_grow callback of a request's `out`. `arg` is the srv_rest_request. */
bool srv_rest_may_grow(void *arg, size_t capacity, size_t wanted);
/* Releases all bytes that srv_rest_charge has charged to the budget. */
void srv_rest_discharge(struct srv_rest_request *r);
/* Sets a response whose HTTP status differs from that of `code`. */
void srv_rest_refuse(struct srv_rest_call *req, enum rt_status code, int http);
/* Passes the response to libmicrohttpd. */
enum MHD_Result srv_rest_send(struct srv_rest_call *req);

/* ---- rest_outcome.c ---- */

/* Reports a finished response to the metrics and the access log, and releases the version. */
void srv_rest_count(struct srv_rest_call *req);
/* Calls `add` for each header of a finished response except Content-Length. Returns false if
 * `add` failed for one of them. */
typedef bool srv_rest_add_header(void *arg, const char *name, const char *value);
bool srv_rest_headers(const struct srv_rest_call *req, srv_rest_add_header *add, void *arg);

/* ---- rest_gzip.c ---- */

/* Compresses the response if the client accepts gzip and the body becomes smaller. May be called on
 * any thread once the response is set. */
void srv_rest_deflate(struct srv_rest_call *req);
/* Returns whether srv_rest_deflate would compress a response with this body. */
bool srv_rest_takes_gzip(const struct srv_rest_call *req, const struct rt_bytes *body);
/* Appends the compressed body to `out`. If the compressed body exceeds the limit of `out`, or if
 * compression is cancelled, returns false, and the contents of `out` are unusable. */
bool srv_rest_compress(struct rt_bytes *out, const struct rt_bytes *body,
                       struct srv_cancellation *cancellation);

#endif
