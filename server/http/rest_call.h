/*
 * A call: one HTTP request and its response, from the first line to the end of sending. The files
 * of the REST transport share this header (rest_loop.h lists them).
 *
 * Owner: the I/O loop, which keeps unused calls for later requests. libmicrohttpd's request holds a
 * reference, and so does its response while it uses the body.
 * Threads: the loop's, except where a function says otherwise.
 */
#ifndef SRV_REST_CALL_H
#define SRV_REST_CALL_H

#include <microhttpd.h>

#include "server/base/list.h"
#include "server/batching/io_loop.h"
#include "server/http/rest_request.h"

struct srv_rest_conn;
struct srv_rest_loop;

enum {
    SRV_REST_MAX_IDLE_BYTES = 64 << 10, /* buffers of a finished request kept for the next one */
    SRV_REST_SWALLOW_BYTES = 1 << 20,   /* bytes of a refused body read to keep the connection */
};

enum srv_rest_stage {
    STAGE_NEW,     /* the handler was not called yet */
    STAGE_READING, /* reads the body */
    STAGE_REFUSED, /* refused: the rest of the body is read before the response is sent */
    STAGE_WAITING, /* suspended, waits for a job */
    STAGE_SENT,    /* libmicrohttpd has the response */
    STAGE_OVER,    /* refused before the body was whole; the response was sent or failed */
};

struct srv_rest_call {
    struct srv_link link; /* link in loop->waiting or loop->overdue */
    struct srv_rest_request pub;
    struct srv_message message;
    struct srv_rest_loop *loop;
    struct srv_rest_conn *conn;
    struct MHD_Connection *mhd;
    struct srv_rest_call *next_free;
    int refs; /* libmicrohttpd's request, and its response while it uses `pub.out` */
    enum srv_rest_stage stage;
    bool in_handler, finished, overdue;
    bool close, browser, expects;
    int64_t waiting_since;
    uint64_t swallowed;
    bool accepts_gzip, deflated; /* the client accepts gzip; the response is compressed */
    bool sends_id;     /* the response has X-Request-Id: by request, or for the access log */
    uint64_t n_pieces; /* pieces in which the body arrived */
    uint64_t length;   /* Content-Length; UINT64_MAX: chunked */
};

/* ---- rest_handler.c ---- */

void srv_rest_unref(struct srv_rest_call *req);
void srv_rest_free_calls(struct srv_rest_loop *l); /* frees the unused requests of the free list */
/* Resumes the connection, so that the handler is called again and sends the response. */
void srv_rest_resume(struct srv_rest_call *req);
/* The callbacks of libmicrohttpd; `arg` is the I/O loop. */
void *srv_rest_on_uri(void *arg, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result srv_rest_on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n_data, void **state);
void srv_rest_on_completed(void *arg, struct MHD_Connection *mhd, void **state,
                           enum MHD_RequestTerminationCode why);

/* ---- rest_read.c ---- */

/* The handler's first call, with the headers only. True: the response is set and no body is read.
 */
bool srv_rest_open(struct srv_rest_call *req, const char *method);
/* Whether the connection's stream refused this request; if so, the response is set. */
bool srv_rest_is_refused(struct srv_rest_call *req);
enum MHD_Result srv_rest_take_body(struct srv_rest_call *req, const char *data, size_t n);
/* ---- rest_refuse.c ---- */

/* In the handler, before the whole body has arrived: sends the response that is set, and for a
 * while drops what still arrives, so that the client can read the response. */
enum MHD_Result srv_rest_refuse_now(struct srv_rest_call *req);

/* ---- rest_response.c ---- */

/* The may_grow callback of a request's `out`; arg: the srv_rest_request. */
bool srv_rest_may_grow(void *arg, size_t capacity, size_t wanted);
/* Gives back everything that srv_rest_charge took. */
void srv_rest_discharge(struct srv_rest_request *r);
/* Sets a response whose HTTP status differs from that of `code`. */
void srv_rest_refuse(struct srv_rest_call *req, enum rt_status code, int http);
/* Passes the response to libmicrohttpd. */
enum MHD_Result srv_rest_send(struct srv_rest_call *req);

/* ---- rest_outcome.c ---- */

/* Reports a finished response to metrics and access log, and releases the version. */
void srv_rest_count(struct srv_rest_call *req);
/* Calls `add` for each header of a finished response, except its length. False: `add` failed for
 * one of them. */
typedef bool srv_rest_add_header(void *arg, const char *name, const char *value);
bool srv_rest_headers(const struct srv_rest_call *req, srv_rest_add_header *add, void *arg);

/* ---- rest_gzip.c ---- */

/* Any thread, once the response is set: compresses it if the client accepts that and it gets
 * smaller. */
void srv_rest_deflate(struct srv_rest_call *req);

#endif
