/*
 * An HTTP/1.1 answer, read piece by piece as it comes: status line, headers, then a body with a
 * length, in chunks, or up to the connection's end. Interim answers (100) are skipped.
 *
 * Pure: no sockets. Threads: whoever holds it.
 */
#ifndef CL_HTTP_RESPONSE_H
#define CL_HTTP_RESPONSE_H

#include "runtime/base/bytes.h"

enum cl_http_stage {
    CL_HTTP_STATUS_LINE,
    CL_HTTP_HEADERS,
    CL_HTTP_BODY,     /* `left` bytes of it, or all to the end when there is no length */
    CL_HTTP_SIZE,     /* of a chunk */
    CL_HTTP_CHUNK,    /* `left` bytes of it */
    CL_HTTP_CRLF,     /* behind a chunk */
    CL_HTTP_TRAILERS, /* behind the last one */
    CL_HTTP_DONE,
};

struct cl_http_response {
    enum cl_http_stage stage;
    int status;
    bool is_head;    /* the request was HEAD: no body comes */
    bool keep_alive; /* the connection may be used again */
    bool has_length, is_chunked;
    uint64_t left;
    struct rt_bytes line; /* the one under way */
    struct rt_bytes body;
    int n_headers;
};

/* `max_body`: a longer one is refused. Cleared by cl_http_response_clear. */
void cl_http_response_init(struct cl_http_response *a, size_t max_body);
void cl_http_response_clear(struct cl_http_response *a);

/* Takes all n bytes, or those up to the answer's end. *used: how many. DATA_LOSS: not HTTP;
 * RESOURCE_EXHAUSTED: too large. */
enum rt_status cl_http_response_feed(struct cl_http_response *a, const char *p, size_t n,
                                     size_t *used, struct rt_error *err);
/* The connection has ended: the answer may be whole by that, or is cut (UNAVAILABLE). */
enum rt_status cl_http_response_end(struct cl_http_response *a, struct rt_error *err);

#endif
