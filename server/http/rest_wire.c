/*
 * Reads from connections for libmicrohttpd. All reads of an I/O loop's daemon call srv_rest_read
 * (recv_hook.h). srv_rest_read passes the received bytes through a stream (http_stream.h) before
 * libmicrohttpd sees them.
 *
 * A TLS record takes about 3 us, mostly for two reads from the socket, even if it contains one
 * byte. A buffer of libmicrohttpd has room for the bytes of thousands of such records. Therefore a
 * call of srv_rest_read makes a limited number of small reads for GnuTLS, and the connection
 * continues in the next turn of the I/O loop.
 */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/recv_hook.h"
#include "server/http/rest_connection.h"
#include "server/http/rest_loop.h"

enum {
    PIECE_BYTES = 64 << 10, /* maximum number of bytes per read from a connection */
    /* A body with at least this number of unread bytes is read directly into libmicrohttpd's
     * buffer. */
    PAST_BYTES = 16 << 10,
    /* Maximum number of bytes that are read and dropped after a refused request. Unread bytes would
     * reset the connection. */
    DRAINED_BYTES = 1 << 20,
    /* Maximum number of reads of less than LARGE_READ_BYTES from the socket for GnuTLS, per call of
     * srv_rest_read and per step of a handshake. GnuTLS reads a record's header separately. */
    MAX_SMALL_READS = 32,
    LARGE_READ_BYTES = 1024,
};

/* The source of a connection's bytes: its TLS session, or its socket if `session` is NULL. */
struct source {
    int fd;
    gnutls_session_t session;
};

/* Reads like recv, but returns an error of a TLS session as a negative GnuTLS error code. GnuTLS
 * returns GNUTLS_E_AGAIN not only if the socket is empty, but also after a key update or
 * MAX_SMALL_READS small reads. The socket reports no new event for bytes that have already arrived,
 * so libmicrohttpd would not read them. After GNUTLS_E_INTERRUPTED, libmicrohttpd reads again in
 * the next turn. */
static ssize_t read_source(struct srv_rest_loop *l, const struct source *from, void *p, size_t n)
{
    l->may_have_more = false;
    const ssize_t got = srv_recv_unhooked(from->fd, from->session, p, n);
    return got == GNUTLS_E_AGAIN && l->may_have_more ? GNUTLS_E_INTERRUPTED : got;
}

static ssize_t nothing_yet(const struct source *from)
{
    errno = EAGAIN;
    return from->session ? GNUTLS_E_AGAIN : -1;
}

static ssize_t no_memory(const struct source *from)
{
    errno = ECONNRESET;
    return from->session ? GNUTLS_E_MEMORY_ERROR : -1;
}

/* Reads from a socket for GnuTLS. `transport` contains the descriptor. */
static ssize_t pull(gnutls_transport_ptr_t transport, void *p, size_t n)
{
    struct srv_rest_loop *l = srv_rest_this_loop;

    if (l->n_small_reads == MAX_SMALL_READS) {
        l->may_have_more = true;
        errno = EAGAIN;
        return -1;
    }
    const ssize_t got = srv_recv_unhooked((int)(intptr_t)transport, NULL, p, n);
    l->n_small_reads += got < LARGE_READ_BYTES;
    l->may_have_more = got > 0;
    return got;
}

void srv_rest_wire_add_session(void *session)
{
    gnutls_transport_set_pull_function(session, pull);
}

bool srv_rest_wire_init(struct srv_rest_loop *l)
{
    size_t head = (size_t)l->io_loop.server->options.max_header_bytes;

    l->raw = malloc(PIECE_BYTES);
    rt_bytes_init(&l->clean, head + PIECE_BYTES + 1024);
    return l->raw != NULL;
}

void srv_rest_wire_clear(struct srv_rest_loop *l)
{
    free(l->raw);
    free(l->conns);
    rt_bytes_clear(&l->clean);
    l->raw = NULL;
    l->conns = NULL;
    l->n_conns = 0;
}

bool srv_rest_wire_add(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    if (c->fd >= l->n_conns) {
        int n = c->fd + 256;
        struct srv_rest_conn **conns = realloc(l->conns, (size_t)n * sizeof *conns);
        if (!conns)
            return false;
        memset(conns + l->n_conns, 0, (size_t)(n - l->n_conns) * sizeof *conns);
        l->conns = conns;
        l->n_conns = n;
    }
    l->conns[c->fd] = c;
    size_t head = (size_t)l->io_loop.server->options.max_header_bytes;
    srv_http_stream_init(&c->stream, head);
    c->stream.also_kept = l->rest->also_kept;
    rt_bytes_init(&c->ready, head + PIECE_BYTES + 1024);
    return true;
}

void srv_rest_wire_remove(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    if (c->fd < l->n_conns && l->conns[c->fd] == c)
        l->conns[c->fd] = NULL;
    srv_http_stream_clear(&c->stream);
    rt_bytes_clear(&c->ready);
}

/* Copies bytes from c->ready, the stream's output that did not fit into an earlier buffer of the
 * caller. */
static size_t take_ready(struct srv_rest_conn *c, char *p, size_t capacity)
{
    size_t n = c->ready.n - c->taken < capacity ? c->ready.n - c->taken : capacity;

    if (!n)
        return 0;
    memcpy(p, c->ready.p + c->taken, n);
    c->taken += n;
    if (c->taken == c->ready.n) {
        rt_bytes_clear(&c->ready);
        c->ready.n = c->taken = 0;
    }
    return n;
}

/* Passes n bytes of l->raw through the stream. Copies the output that fits to p, and stores the
 * rest in c->ready. Returns the number of bytes copied, or -1 if memory runs out. */
static ssize_t feed(struct srv_rest_loop *l, struct srv_rest_conn *c, size_t n, char *p,
                    size_t capacity)
{
    l->clean.n = 0;
    if (!srv_http_stream_feed(&c->stream, l->raw, n, &l->clean)) {
        /* all connections of the loop share l->clean, so its `failed` flag must be cleared */
        rt_bytes_clear(&l->clean);
        return -1;
    }
    size_t k = l->clean.n < capacity ? l->clean.n : capacity;
    if (k)
        memcpy(p, l->clean.p, k);
    rt_bytes_add(&c->ready, l->clean.p + k, l->clean.n - k);
    if (srv_http_stream_is_inside(&c->stream) && !c->req)
        srv_rest_begin_reading(l, c);
    return c->ready.failed ? -1 : (ssize_t)k;
}

/* Reads and drops the bytes after a refused request. With unread bytes, the kernel would reset the
 * connection, perhaps before the client has read the response. The bytes of a TLS session are not
 * decrypted, because libmicrohttpd ends the session after the response. */
static void drain(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    ssize_t n = 1;

    while (n > 0 && c->drained < DRAINED_BYTES) {
        n = srv_recv_unhooked(c->fd, NULL, l->raw, PIECE_BYTES);
        c->drained += n > 0 ? (size_t)n : 0;
    }
}

/*
 * Reads until `capacity` bytes have been read or the source is empty. From a shorter read,
 * libmicrohttpd concludes that a socket is empty, but not that a TLS session is empty. A socket is
 * empty if it returns fewer bytes than requested. A TLS session returns at most one record per
 * read, and fails if it has no record left or has made MAX_SMALL_READS small reads.
 */
static ssize_t read_stream(struct srv_rest_loop *l, struct srv_rest_conn *c,
                           const struct source *from, char *p, size_t capacity)
{
    size_t have = take_ready(c, p, capacity);
    ssize_t n = 1;

    while (have < capacity) {
        uint64_t body = srv_http_stream_body(&c->stream);
        size_t to_read = capacity - have;
        bool past = body >= PAST_BYTES;
        if (c->stream.stage == SRV_HTTP_OVER) {
            drain(l, c);
            n = nothing_yet(from);
            break;
        }
        if (past && body < to_read)
            to_read = (size_t)body;
        if (!past && to_read > PIECE_BYTES)
            to_read = PIECE_BYTES;
        n = read_source(l, from, past ? p + have : l->raw, to_read);
        if (n <= 0)
            break;
        bool is_last = !from->session && (size_t)n < to_read;
        if (past)
            srv_http_stream_passed(&c->stream, (uint64_t)n);
        else
            n = feed(l, c, (size_t)n, p + have, capacity - have);
        if (n < 0)
            return no_memory(from);
        have += (size_t)n;
        if (is_last) {
            n = nothing_yet(from);
            break;
        }
    }
    return have ? (ssize_t)have : n;
}

ssize_t srv_rest_read(int fd, void *session, void *p, size_t n)
{
    struct srv_rest_loop *l = srv_rest_this_loop;
    const struct source from = {.fd = fd, .session = session};

    if (fd < 0 || fd >= l->n_conns || !l->conns[fd])
        return no_memory(&from);
    if (l->conns[fd]->is_over)
        return 0;
    l->n_small_reads = 0;
    return read_stream(l, l->conns[fd], &from, p, n);
}
