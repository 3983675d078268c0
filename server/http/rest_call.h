/*
 * A call is one HTTP request with its response, from the first line received to the last byte sent.
 * The files of the REST transport share this header (rest_loop.h lists them).
 *
 * Owner: the I/O loop, which keeps finished calls for later requests. libmicrohttpd's request holds
 * a reference to the call, and libmicrohttpd's response holds another one while the response uses
 * the body. Several calls may hold references to the same metrics page.
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
    /* maximum size in bytes of each buffer that a finished request leaves for the next request */
    SRV_REST_MAX_IDLE_BYTES = 64 << 10,
    /* maximum number of bytes of a large response that a connection sends in a turn */
    SRV_REST_PIECE_BYTES = 32 << 10,
    /* maximum number of metrics pages that are in use without being charged to the budget */
    SRV_REST_FREE_PAGES = 8,
    /* maximum number of bytes read from a refused body so that the connection can stay open */
    SRV_REST_SWALLOW_BYTES = 1 << 20,
};

enum srv_rest_stage {
    STAGE_NEW,     /* libmicrohttpd has not yet called the handler for this request */
    STAGE_READING, /* the handler reads the body as it arrives */
    /* the request is refused; the rest of its body is read before the response is sent */
    STAGE_REFUSED,
    /* the request has arrived; the connection is suspended until a later turn of the I/O loop */
    STAGE_DEFERRED,
    STAGE_WAITING, /* the connection is suspended while a job runs */
    STAGE_SENT,    /* the response has been passed to libmicrohttpd */
    /* the request was refused before its body was complete, and the response has been sent or could
     * not be sent */
    STAGE_OVER,
};

/* A metrics page, plain or compressed, that responses share. The thread that writes it holds a
 * reference, and so does each call that sends it. Any thread may release a reference. */
struct srv_rest_page {
    struct srv_rest *rest;
    _Atomic int refs;
    struct rt_bytes bytes; /* not modified once a call holds a reference */
    bool is_free;          /* whether the page is one of the SRV_REST_FREE_PAGES uncharged pages */
    /* whether the page is one of the SRV_REST_FREE_PAGES pages that are not charged */
    size_t charged;
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
    /* next call in the free list, or in the queue of a background thread */
    struct srv_rest_call *next_free;
    /* number of references. libmicrohttpd's request holds one, and its response holds another one
     * while it uses the body. */
    int refs;
    /* the page that is the body of the response, or NULL if `pub.out` is the body */
    struct srv_rest_page *page;
    enum srv_rest_stage stage;
    void (*describe)(struct srv_rest_request *r); /* argument of srv_rest_describe_in_background */
    bool in_handler, finished, overdue;
    bool close, browser, expects;
    int64_t waiting_since;
    uint64_t swallowed;
    /* whether the client accepts gzip, and whether the response has been compressed */
    bool accepts_gzip, deflated;
    /* the response has an X-Request-Id, because the request had one or because the access log
     * needs one */
    bool sends_id;
    /* Number of handler calls that delivered a part of the body. */
    uint64_t n_pieces;
    uint64_t length; /* value of Content-Length, or UINT64_MAX if the body is chunked */
};

static inline struct srv_rest_call *srv_rest_call_of(struct srv_rest_request *r)
{
    return (struct srv_rest_call *)(void *)((char *)r - offsetof(struct srv_rest_call, pub));
}

/* Returns the body of the response, which must be set. */
static inline const struct rt_bytes *srv_rest_body(const struct srv_rest_call *req)
{
    return req->page ? &req->page->bytes : &req->pub.out;
}

/* ---- rest_calls.c ---- */

/* Returns a call from the free list or a new one, or NULL if memory runs out. */
struct srv_rest_call *srv_rest_new_call(struct srv_rest_loop *l);
/* Releases a reference to the call. When the last reference is released, the call is put into the
 * loop's free list or freed. A call that holds much memory is freed on a background thread. */
void srv_rest_unref(struct srv_rest_call *req);
/* Frees a call to which no references are left, and then releases the bytes that it has charged to
 * the budget. May be called on any thread. */
void srv_rest_free_call(struct srv_rest_call *req);
/* Frees the part of the body that has been read, on a background thread if it is large, and
 * releases the bytes that the request has charged to the budget. */
void srv_rest_drop_body(struct srv_rest_call *req);
/* Frees the calls in the free list of an I/O loop. */
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

/* Begins a request. Called when libmicrohttpd calls the handler for the request for the first time,
 * after the headers have been read. Returns true if the response is set and must be sent without
 * reading the body. */
bool srv_rest_open(struct srv_rest_call *req, const char *method);
/* Returns whether the connection's stream refused this request. If it did, sets the response. */
bool srv_rest_is_refused(struct srv_rest_call *req);
enum MHD_Result srv_rest_take_body(struct srv_rest_call *req, const char *data, size_t n);
/* ---- rest_refuse.c ---- */

/* Called in the handler before the body is complete. Sends the response, which must be set. For a
 * limited time, bytes that still arrive are dropped, so that the client can read the response. */
enum MHD_Result srv_rest_refuse_now(struct srv_rest_call *req);

/* ---- rest_response.c ---- */

/* Sets the error response for `code`, but with the HTTP status `http`. */
void srv_rest_refuse(struct srv_rest_call *req, enum rt_status code, int http);
/* Passes the response to libmicrohttpd, which sends it. */
enum MHD_Result srv_rest_send(struct srv_rest_call *req);

/* ---- rest_page.c ---- */

/* Releases a reference to a page. May be called on any thread. `page` may be NULL. */
void srv_rest_page_unref(struct srv_rest_page *page);

/* ---- rest_outcome.c ---- */

/* Records the finished response in the metrics and the access log, and releases the version of the
 * request. */
void srv_rest_count(struct srv_rest_call *req);
/* Calls `add` for each header of a finished response except Content-Length. Returns false if any of
 * these calls fails. */
typedef bool srv_rest_add_header(void *arg, const char *name, const char *value);
bool srv_rest_headers(const struct srv_rest_call *req, srv_rest_add_header *add, void *arg);

/* ---- rest_gzip.c ---- */

/* Compresses the response if the client accepts gzip and the body becomes smaller. May be called on
 * any thread once the response is set. */
void srv_rest_deflate(struct srv_rest_call *req);
/* Returns whether srv_rest_deflate would compress the response if its body were `body`. */
bool srv_rest_takes_gzip(const struct srv_rest_call *req, const struct rt_bytes *body);
/* Appends the compressed body to `out`. If `out` cannot hold the compressed body, or if the
 * compression is cancelled, returns false, and the contents of `out` are unusable. */
bool srv_rest_compress(struct rt_bytes *out, const struct rt_bytes *body,
                       struct srv_cancellation *cancellation);

#endif
