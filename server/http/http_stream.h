/*
 * Validates the bytes of a connection before libmicrohttpd sees them. A stream consumes the
 * received bytes and outputs the bytes that libmicrohttpd reads. It passes only requests that are
 * well formed and have one interpretation. Of a request's headers it passes those that this server
 * reads, and of a chunked body the chunks without extensions and trailers. So no two readers
 * disagree about where a message ends, and requests cannot be smuggled. libmicrohttpd also never
 * finds anything to refuse. This matters because libmicrohttpd refuses requests in unusual ways,
 * and its chunk reader can be made to loop.
 *
 * In the output, a refused request is replaced by another one: by a canned request if its head was
 * refused, otherwise by the same request without the rest of its body. `refused` is the number of
 * that request; the handler responds to it with `http` and `why`. The stream outputs no bytes after
 * it.
 *
 * Owner: a connection. Threads: none of these calls lock.
 */
#ifndef SRV_HTTP_STREAM_H
#define SRV_HTTP_STREAM_H

#include "runtime/base/bytes.h"

enum srv_http_stage {
    SRV_HTTP_HEAD,
    SRV_HTTP_BODY,       /* reading a body with a Content-Length */
    SRV_HTTP_CHUNK_LINE, /* reading the line with a chunk's size */
    SRV_HTTP_CHUNK,
    SRV_HTTP_CHUNK_END, /* reading the CR LF after a chunk */
    SRV_HTTP_TRAILERS,
    SRV_HTTP_OVER, /* a request was refused, and no more bytes are read */
};

struct srv_http_stream {
    enum srv_http_stage stage;
    uint64_t left;        /* number of bytes of the body or chunk that are still to come */
    struct rt_bytes held; /* the bytes read so far of an incomplete head, chunk line, or trailers */
    size_t looked;        /* number of bytes of `held` already searched for ends of lines */
    size_t line;          /* offset in `held` at which the current line begins */
    int n_empty;          /* number of empty lines that precede the next request */
    uint64_t n_requests;  /* number of requests in the output, including the current one */
    uint64_t refused;     /* number of the refused request, or 0 if no request was refused */
    int http;             /* HTTP status of the refusal */
    const char *why;      /* reason for the refusal, a string literal */
};

/* Initialises a stream. `max_head` is the maximum number of bytes of a request line with its
 * headers, or of trailers. */
void srv_http_stream_init(struct srv_http_stream *s, size_t max_head);
void srv_http_stream_clear(struct srv_http_stream *s);

/* Reads n bytes and appends the output to *out. The maximum size of *out must exceed n by max_head
 * plus about 100 bytes. If memory runs out, returns false, and the connection is unusable. */
bool srv_http_stream_feed(struct srv_http_stream *s, const char *p, size_t n, struct rt_bytes *out);

/* Returns how many of the next bytes belong to a body and need no validation. The caller may pass
 * them on without srv_http_stream_feed and report their number to srv_http_stream_passed. */
static inline uint64_t srv_http_stream_body(const struct srv_http_stream *s)
{
    return s->stage == SRV_HTTP_BODY || s->stage == SRV_HTTP_CHUNK ? s->left : 0;
}
void srv_http_stream_passed(struct srv_http_stream *s, uint64_t n);

/* Returns whether a request has begun to arrive and its head is incomplete. */
static inline bool srv_http_stream_is_inside(const struct srv_http_stream *s)
{
    return s->stage == SRV_HTTP_HEAD && s->held.n;
}

#endif
