/*
 * What a connection sends, before libmicrohttpd sees it: bytes in, bytes out. Requests come out
 * only if they are well formed and can be read in one way only; of their headers those that this
 * server reads, of a chunked body the chunks without extensions and trailers. So two readers never
 * cut one message differently, and libmicrohttpd, whose own refusals are odd and whose reader of
 * chunks can be made to spin, never finds anything to refuse.
 *
 * What is refused comes out as a request in its own place: a canned one if its head was refused,
 * else the one under way with the rest of its body left out. `refused` says which it is, the
 * handler answers it with `http` and `why`, and nothing that comes behind it comes out.
 *
 * Owner: a connection. Threads: none of these calls lock.
 */
#ifndef SRV_HTTP_STREAM_H
#define SRV_HTTP_STREAM_H

#include "runtime/base/bytes.h"

enum srv_http_stage {
    SRV_HTTP_HEAD,
    SRV_HTTP_BODY,       /* of an announced length */
    SRV_HTTP_CHUNK_LINE, /* a chunk's size */
    SRV_HTTP_CHUNK,
    SRV_HTTP_CHUNK_END, /* the line's end behind it */
    SRV_HTTP_TRAILERS,
    SRV_HTTP_OVER, /* something was refused */
};

struct srv_http_stream {
    enum srv_http_stage stage;
    uint64_t left;        /* bytes of the body, or of the chunk */
    struct rt_bytes held; /* of a head, a chunk's line or trailers, until it is whole */
    size_t looked;        /* so much of `held` holds no line's end that was not looked at */
    size_t line;          /* where in `held` the line begins */
    int n_empty;          /* lines before the request that comes next */
    uint64_t n_requests;  /* that came out, this one included */
    uint64_t refused;     /* the number of the one that was; 0: none */
    int http;             /* its status */
    const char *why;      /* static */
};

/* `max_head`: bytes of a request line with its headers, or of trailers. */
void srv_http_stream_init(struct srv_http_stream *s, size_t max_head);
void srv_http_stream_clear(struct srv_http_stream *s);

/* Reads n bytes; what comes out is appended to *out, whose limit must allow max_head and some 100
 * bytes more than n. False: no memory; the connection is of no use any more. */
bool srv_http_stream_feed(struct srv_http_stream *s, const char *p, size_t n, struct rt_bytes *out);

/* Bytes of a body that come next, whatever they are: they may go past the stream, which is then
 * told how many did. */
static inline uint64_t srv_http_stream_body(const struct srv_http_stream *s)
{
    return s->stage == SRV_HTTP_BODY || s->stage == SRV_HTTP_CHUNK ? s->left : 0;
}
void srv_http_stream_passed(struct srv_http_stream *s, uint64_t n);

/* A request has begun to come, and its head is not whole. */
static inline bool srv_http_stream_is_inside(const struct srv_http_stream *s)
{
    return s->stage == SRV_HTTP_HEAD && s->held.n;
}

#endif
