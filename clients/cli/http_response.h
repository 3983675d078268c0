/*
 * Incremental parser of an HTTP/1.1 response: status line, headers and body. The body has a
 * Content-Length, is chunked, or ends when the connection ends. Interim responses (1xx) are
 * skipped.
 *
 * The parser uses no sockets. Threads: used by one thread at a time.
 */
#ifndef CL_HTTP_RESPONSE_H
#define CL_HTTP_RESPONSE_H

#include "runtime/base/bytes.h"

enum cl_http_stage {
    CL_HTTP_STATUS_LINE,
    CL_HTTP_HEADERS,
    /* reading a body, of which `left` bytes remain unless it ends when the connection ends */
    CL_HTTP_BODY,
    CL_HTTP_SIZE,     /* reading the line with a chunk's size */
    CL_HTTP_CHUNK,    /* reading a chunk of which `left` bytes remain */
    CL_HTTP_CRLF,     /* reading the line end after a chunk */
    CL_HTTP_TRAILERS, /* reading the trailers after the last chunk */
    CL_HTTP_DONE,
};

struct cl_http_response {
    enum cl_http_stage stage;
    int status;
    bool is_head;    /* the request method was HEAD, so the response has no body */
    bool keep_alive; /* whether the connection can be used for another request */
    bool has_length, is_chunked;
    uint64_t left;
    struct rt_bytes line; /* part of the current line that has been received */
    struct rt_bytes body;
    int n_headers;
};

/* Initialises a parser that refuses a body of more than `max_body` bytes. cl_http_response_clear
 * frees the parser's memory. */
void cl_http_response_init(struct cl_http_response *a, size_t max_body);
void cl_http_response_clear(struct cl_http_response *a);

/* Consumes the n bytes at p up to the end of the response. *used receives the number of bytes that
 * were consumed. Returns DATA_LOSS if the bytes are not HTTP, and RESOURCE_EXHAUSTED if the
 * response is too large. */
enum rt_status cl_http_response_feed(struct cl_http_response *a, const char *p, size_t n,
                                     size_t *used, struct rt_error *err);
/* Reports to the parser that the connection has ended. A body without a known length is then
 * complete. For any other incomplete response, returns UNAVAILABLE. */
enum rt_status cl_http_response_end(struct cl_http_response *a, struct rt_error *err);

#endif
