/*
 * Incremental parser of an HTTP/1.1 response: status line, headers and body. The body has a
 * Content-Length, is chunked, or ends with the connection. Interim responses (1xx) are skipped.
 *
 * The parser uses no sockets. Threads: only one thread at a time may use a parser.
 */
#ifndef CL_HTTP_RESPONSE_H
#define CL_HTTP_RESPONSE_H

#include "runtime/base/bytes.h"

enum cl_http_stage {
    CL_HTTP_STATUS_LINE,
    CL_HTTP_HEADERS,
    /* a body with `left` more bytes, or up to the end of the connection */
    CL_HTTP_BODY,
    CL_HTTP_SIZE,     /* the line with a chunk's size */
    CL_HTTP_CHUNK,    /* a chunk with `left` more bytes */
    CL_HTTP_CRLF,     /* the line end after a chunk */
    CL_HTTP_TRAILERS, /* the trailers after the last chunk */
    CL_HTTP_DONE,
};

struct cl_http_response {
    enum cl_http_stage stage;
    int status;
    bool is_head;    /* whether the request method was HEAD, so that the response has no body */
    bool keep_alive; /* whether the connection can be used for another request */
    bool has_length, is_chunked;
    uint64_t left;
    struct rt_bytes line; /* received part of the current line */
    struct rt_bytes body;
    int n_headers;
};

/* Initialises a parser that refuses a body of more than `max_body` bytes. cl_http_response_clear
 * must be called later. */
void cl_http_response_init(struct cl_http_response *a, size_t max_body);
void cl_http_response_clear(struct cl_http_response *a);

/* Consumes the n bytes at p up to the end of the response. Sets *used to the number of consumed
 * bytes. Fails with DATA_LOSS if the bytes are not HTTP, and with RESOURCE_EXHAUSTED if the
 * response is too large. */
enum rt_status cl_http_response_feed(struct cl_http_response *a, const char *p, size_t n,
                                     size_t *used, struct rt_error *err);
/* Tells the parser that the connection has ended. A body of unknown length is then complete. Any
 * other incomplete response fails with UNAVAILABLE. */
enum rt_status cl_http_response_end(struct cl_http_response *a, struct rt_error *err);

#endif
