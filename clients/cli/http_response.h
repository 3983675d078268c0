/*
 * Incremental parser of an HTTP/1.1 response: status line, headers, then a body with a length, in
 * chunks, or up to the end of the connection. Interim responses (1xx) are skipped.
 *
 * Pure: no sockets. Threads: used by one thread at a time.
 */
#ifndef CL_HTTP_RESPONSE_H
#define CL_HTTP_RESPONSE_H

#include "runtime/base/bytes.h"

enum cl_http_stage {
    CL_HTTP_STATUS_LINE,
    CL_HTTP_HEADERS,
    CL_HTTP_BODY,     /* `left` bytes of the body, or all bytes to the end if it has no length */
    CL_HTTP_SIZE,     /* the size line of a chunk */
    CL_HTTP_CHUNK,    /* `left` bytes of a chunk */
    CL_HTTP_CRLF,     /* the line end behind a chunk */
    CL_HTTP_TRAILERS, /* the trailers behind the last chunk */
    CL_HTTP_DONE,
};

struct cl_http_response {
    enum cl_http_stage stage;
    int status;
    bool is_head;    /* the request was HEAD: the response has no body */
    bool keep_alive; /* the connection can be used for another request */
    bool has_length, is_chunked;
    uint64_t left;
    struct rt_bytes line; /* the line that is being read */
    struct rt_bytes body;
    int n_headers;
};

/* A body longer than `max_body` is refused. cl_http_response_clear frees the memory. */
void cl_http_response_init(struct cl_http_response *a, size_t max_body);
void cl_http_response_clear(struct cl_http_response *a);

/* Consumes all n bytes, or those up to the end of the response. *used: bytes consumed. DATA_LOSS:
 * not HTTP; RESOURCE_EXHAUSTED: too large. */
enum rt_status cl_http_response_feed(struct cl_http_response *a, const char *p, size_t n,
                                     size_t *used, struct rt_error *err);
/* Called when the connection has ended. A body without a length is then complete; any other
 * response that is unfinished is cut off (UNAVAILABLE). */
enum rt_status cl_http_response_end(struct cl_http_response *a, struct rt_error *err);

#endif
