/*
 * Validates the bytes of a connection before libmicrohttpd reads them. A stream consumes the
 * received bytes and outputs the bytes for libmicrohttpd. It passes only requests that are well
 * formed and have one interpretation. It drops headers that this server does not use, and the
 * extensions and trailers of chunked bodies. All readers therefore agree on where a message ends,
 * and requests cannot be smuggled. Malformed requests are withheld from libmicrohttpd for two
 * reasons: libmicrohttpd refuses requests in unusual ways, and a malformed chunk can make its chunk
 * reader loop.
 *
 * In the output, a canned request replaces a request whose head is refused. If a request is refused
 * later, the rest of its body is missing from the output. `refused` is the number of the refused
 * request in the output. The handler responds to this request with the status `http` and the reason
 * `why`. The stream outputs no bytes after this request.
 *
 * Owner: a connection. Threads: these functions do not lock.
 */
#ifndef SRV_HTTP_STREAM_H
#define SRV_HTTP_STREAM_H

#include "runtime/base/bytes.h"

enum srv_http_stage {
    SRV_HTTP_HEAD,       /* reading a request line and its headers */
    SRV_HTTP_BODY,       /* reading a body with a Content-Length */
    SRV_HTTP_CHUNK_LINE, /* reading the line with a chunk's size */
    SRV_HTTP_CHUNK,      /* reading the bytes of a chunk */
    SRV_HTTP_CHUNK_END,  /* reading the CR LF after a chunk */
    SRV_HTTP_TRAILERS,   /* reading the header lines after the last chunk */
    SRV_HTTP_OVER,       /* a request was refused; all further bytes are ignored */
};

struct srv_http_stream {
    enum srv_http_stage stage;
    uint64_t left;        /* number of bytes of the body or chunk that have not been read yet */
    struct rt_bytes held; /* received part of an incomplete head, chunk line or trailers */
    size_t looked;        /* number of bytes of `held` that were searched for ends of lines */
    size_t line;          /* offset in `held` at which the current line begins */
    int n_empty;          /* number of empty lines before the next request */
    uint64_t n_requests;  /* number of requests in the output, including the current one */
    uint64_t refused;     /* number of the refused request, or 0 if no request was refused */
    int http;
    const char *why; /* reason for the refusal, a string literal */
    /* Names of further headers that libmicrohttpd receives: a list that ends with NULL. Empty
     * unless the caller sets it. */
    const char *const *also_kept;
};

/* Initialises a stream. `max_head` is the maximum size in bytes of a request line with its headers,
 * and also of the trailers of a body. */
void srv_http_stream_init(struct srv_http_stream *s, size_t max_head);
void srv_http_stream_clear(struct srv_http_stream *s);

/* Reads n bytes and appends the output to *out, whose limit must be at least n + max_head + 100
 * bytes. If memory runs out, returns false. The connection is then unusable. */
bool srv_http_stream_feed(struct srv_http_stream *s, const char *p, size_t n, struct rt_bytes *out);

/* Returns how many of the next bytes belong to a body and need no validation. The caller may pass
 * these bytes on without srv_http_stream_feed. It must then call srv_http_stream_passed with their
 * number. */
static inline uint64_t srv_http_stream_body(const struct srv_http_stream *s)
{
    return s->stage == SRV_HTTP_BODY || s->stage == SRV_HTTP_CHUNK ? s->left : 0;
}
void srv_http_stream_passed(struct srv_http_stream *s, uint64_t n);

/* Returns whether a request's head has arrived in part. */
static inline bool srv_http_stream_is_inside(const struct srv_http_stream *s)
{
    return s->stage == SRV_HTTP_HEAD && s->held.n;
}

#endif
