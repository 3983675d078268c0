#include "clients/http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clients/http/http_response.h"
#include "runtime/base/clock.h"

enum { BLOCK = 64 << 10, SMALL_BODY = 64 << 10 };

struct cl_http {
    char *host, *port, *name, *token, *content_type, *header_lines;
    int cancel_fd;
    SSL_CTX *tls; /* NULL without TLS */
    size_t max_body;
    int fd; /* -1 while not connected */
    SSL *ssl;
    char *block;
};

/* ---- TLS ---- */

static enum rt_status tls_failed(struct rt_error *err, enum rt_status code, const char *what)
{
    char text[256];
    unsigned long e = ERR_get_error();
    ERR_error_string_n(e, text, sizeof text);
    ERR_clear_error();
    return rt_fail(err, code, "%s%s%s", what, e ? ": " : "", e ? text : "");
}

static BIO *memory(const char *text)
{
    return BIO_new_mem_buf(text, -1);
}

static bool trust(SSL_CTX *ctx, const char *ca)
{
    if (!ca)
        return SSL_CTX_set_default_verify_paths(ctx) == 1;
    BIO *bio = memory(ca);
    X509 *cert;
    int n = 0;
    while (bio && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        n += X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert);
        X509_free(cert);
    }
    BIO_free(bio);
    if (n)
        ERR_clear_error(); /* the end of the PEM text leaves an error in OpenSSL's queue */
    return n > 0;
}

/* Gives OpenSSL no passphrase, for which it would otherwise ask on the terminal. */
static int no_passphrase(char *out, int size, int is_written, void *arg)
{
    (void)out;
    (void)size;
    (void)is_written;
    (void)arg;
    return -1;
}

static bool identify(SSL_CTX *ctx, const char *cert, const char *key)
{
    BIO *c = memory(cert), *k = memory(key);
    X509 *x = c ? PEM_read_bio_X509(c, NULL, NULL, NULL) : NULL, *more;
    EVP_PKEY *pkey = k ? PEM_read_bio_PrivateKey(k, NULL, no_passphrase, NULL) : NULL;
    bool ok = x && pkey && SSL_CTX_use_certificate(ctx, x) == 1;
    while (ok && (more = PEM_read_bio_X509(c, NULL, NULL, NULL))) {
        ok = SSL_CTX_add1_chain_cert(ctx, more) == 1;
        X509_free(more);
    }
    if (ok)
        ERR_clear_error();
    ok = ok && SSL_CTX_use_PrivateKey(ctx, pkey) == 1 && SSL_CTX_check_private_key(ctx) == 1;
    X509_free(x);
    EVP_PKEY_free(pkey);
    BIO_free(c);
    BIO_free(k);
    return ok;
}

static enum rt_status tls_new(struct cl_http *h, const struct cl_http_options *o,
                              struct rt_error *err)
{
    /* OpenSSL writes to sockets without MSG_NOSIGNAL, so a write may raise SIGPIPE */
    signal(SIGPIPE, SIG_IGN);
    h->tls = SSL_CTX_new(TLS_client_method());
    if (!h->tls)
        return tls_failed(err, RT_INTERNAL, "TLS cannot be set up");
    SSL_CTX_set_min_proto_version(h->tls, TLS1_2_VERSION);
    SSL_CTX_set_verify(h->tls, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(h->tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (!trust(h->tls, o->ca))
        return tls_failed(err, RT_INVALID_ARGUMENT, "the CA's certificates cannot be used");
    if (o->cert && !identify(h->tls, o->cert, o->key ? o->key : ""))
        return tls_failed(err, RT_INVALID_ARGUMENT, "the client's certificate cannot be used");
    return RT_OK;
}

/* ---- the connection ---- */

struct cl_http *cl_http_new(const struct cl_http_options *o, struct rt_error *err)
{
    struct cl_http *h = calloc(1, sizeof *h);
    if (h) {
        h->fd = -1;
        h->max_body = o->max_body;
        h->host = strdup(o->host);
        h->port = strdup(o->port);
        h->name = strdup(o->server_name ? o->server_name : o->host);
        h->token = o->token ? strdup(o->token) : NULL;
        h->content_type = strdup(o->content_type ? o->content_type : "application/json");
        h->header_lines = strdup(o->header_lines ? o->header_lines : "");
        h->cancel_fd = o->cancel_fd > 0 ? o->cancel_fd : -1;
        h->block = malloc(BLOCK);
    }
    if (!h || !h->host || !h->port || !h->name || !h->block || !h->content_type ||
        !h->header_lines || (o->token && !h->token))
        rt_fail_memory(err, "a connection", BLOCK);
    else if (!o->tls || tls_new(h, o, err) == RT_OK)
        return h;
    cl_http_free(h);
    return NULL;
}

static void hang_up(struct cl_http *h)
{
    SSL_free(h->ssl);
    h->ssl = NULL;
    if (h->fd >= 0)
        close(h->fd);
    h->fd = -1;
}

void cl_http_free(struct cl_http *h)
{
    if (!h)
        return;
    hang_up(h);
    SSL_CTX_free(h->tls);
    free(h->host);
    free(h->port);
    free(h->name);
    free(h->token);
    free(h->content_type);
    free(h->header_lines);
    free(h->block);
    free(h);
}

static enum rt_status fail_late(const struct cl_http *h, struct rt_error *err)
{
    return rt_fail(err, RT_DEADLINE_EXCEEDED, "no answer of %s:%s within the time given", h->host,
                   h->port);
}

/* Waits until the connection's socket is ready for the poll events `events`. */
static enum rt_status wait_for(const struct cl_http *h, short events, int64_t deadline_ns,
                               struct rt_error *err)
{
    for (;;) {
        int64_t left = deadline_ns == RT_NEVER ? -1 : deadline_ns - rt_now_ns();
        if (deadline_ns != RT_NEVER && left <= 0)
            return fail_late(h, err);
        int64_t ms = left < 0 ? -1 : left / 1000000 + 1;
        /* poll ignores a negative descriptor */
        struct pollfd p[2] = {{.fd = h->fd, .events = events},
                              {.fd = h->cancel_fd, .events = POLLIN}};
        int n = poll(p, 2, ms > INT32_MAX ? INT32_MAX : (int)ms);
        if (n > 0)
            return p[1].revents ? rt_fail(err, RT_CANCELLED, "the request was cancelled") : RT_OK;
        if (n < 0 && errno != EINTR)
            return rt_fail(err, RT_INTERNAL, "poll: %s", strerror(errno));
    }
}

static enum rt_status connect_to(struct cl_http *h, const struct addrinfo *a, int64_t deadline_ns,
                                 struct rt_error *err)
{
    int yes = 1, error = 0;
    socklen_t n = sizeof error;
    h->fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (h->fd < 0)
        return rt_fail(err, RT_UNAVAILABLE, "socket: %s", strerror(errno));
    setsockopt(h->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(h->fd, a->ai_addr, a->ai_addrlen) == 0)
        return RT_OK;
    if (errno == EINPROGRESS) {
        enum rt_status st = wait_for(h, POLLOUT, deadline_ns, err);
        if (st)
            return st;
        getsockopt(h->fd, SOL_SOCKET, SO_ERROR, &error, &n);
    } else
        error = errno;
    return error ? rt_fail(err, RT_UNAVAILABLE, "%s:%s: %s", h->host, h->port, strerror(error))
                 : RT_OK;
}

/* Waits until a failed SSL call can be retried. Returns an error if a retry is not possible. */
static enum rt_status tls_wants(struct cl_http *h, int result, int64_t deadline_ns,
                                const char *what, struct rt_error *err)
{
    switch (SSL_get_error(h->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return wait_for(h, POLLIN, deadline_ns, err);
    case SSL_ERROR_WANT_WRITE:
        return wait_for(h, POLLOUT, deadline_ns, err);
    default: {
        long verdict = SSL_get_verify_result(h->ssl);
        if (verdict != X509_V_OK) {
            ERR_clear_error();
            return rt_fail(err, RT_UNAVAILABLE, "%s:%s: the server's certificate: %s", h->host,
                           h->port, X509_verify_cert_error_string(verdict));
        }
        return tls_failed(err, RT_UNAVAILABLE, what);
    }
    }
}

static bool is_address(const char *host)
{
    return strchr(host, ':') || strspn(host, "0123456789.") == strlen(host);
}

static enum rt_status shake_hands(struct cl_http *h, int64_t deadline_ns, struct rt_error *err)
{
    h->ssl = SSL_new(h->tls);
    if (!h->ssl || SSL_set_fd(h->ssl, h->fd) != 1)
        return tls_failed(err, RT_INTERNAL, "TLS cannot be set up");
    X509_VERIFY_PARAM *verify = SSL_get0_param(h->ssl);
    if (is_address(h->name))
        X509_VERIFY_PARAM_set1_ip_asc(verify, h->name);
    else {
        X509_VERIFY_PARAM_set1_host(verify, h->name, 0);
        SSL_set_tlsext_host_name(h->ssl, h->name);
    }
    int n;
    enum rt_status st = RT_OK;
    while (!st && (n = SSL_connect(h->ssl)) != 1)
        st = tls_wants(h, n, deadline_ns, "the TLS handshake failed", err);
    return st;
}

static enum rt_status dial(struct cl_http *h, int64_t deadline_ns, struct rt_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    int e = getaddrinfo(h->host, h->port, &hints, &all);
    if (e)
        return rt_fail(err, RT_UNAVAILABLE, "%s:%s: %s", h->host, h->port, gai_strerror(e));
    enum rt_status st = RT_UNAVAILABLE;
    for (const struct addrinfo *a = all; a && st; a = a->ai_next) {
        hang_up(h);
        st = connect_to(h, a, deadline_ns, err);
    }
    freeaddrinfo(all);
    if (!st && h->tls)
        st = shake_hands(h, deadline_ns, err);
    if (st)
        hang_up(h);
    return st;
}

/* ---- bytes ---- */

static enum rt_status put(struct cl_http *h, struct rt_span bytes, int64_t deadline_ns,
                          struct rt_error *err)
{
    enum rt_status st = RT_OK;
    while (!st && bytes.n) {
        ssize_t n;
        if (h->ssl) {
            int r = SSL_write(h->ssl, bytes.p, bytes.n > 1 << 30 ? 1 << 30 : (int)bytes.n);
            n = r > 0 ? r : 0;
            if (r <= 0)
                st = tls_wants(h, r, deadline_ns, "the connection broke", err);
        } else {
            n = send(h->fd, bytes.p, bytes.n, MSG_NOSIGNAL);
            if (n < 0) {
                int e = errno;
                n = 0;
                if (e == EAGAIN)
                    st = wait_for(h, POLLOUT, deadline_ns, err);
                else if (e != EINTR)
                    st = rt_fail(err, RT_UNAVAILABLE, "%s:%s: %s", h->host, h->port, strerror(e));
            }
        }
        bytes.p += n;
        bytes.n -= (size_t)n;
    }
    return st;
}

/* Receives up to BLOCK bytes into h->block. Sets *n to the number of received bytes, or to 0 if the
 * server has closed the connection. */
static enum rt_status get(struct cl_http *h, size_t *n, int64_t deadline_ns, struct rt_error *err)
{
    for (;;) {
        enum rt_status st;
        if (h->ssl) {
            int r = SSL_read(h->ssl, h->block, BLOCK);
            if (r > 0) {
                *n = (size_t)r;
                return RT_OK;
            }
            if (SSL_get_error(h->ssl, r) == SSL_ERROR_ZERO_RETURN) {
                *n = 0;
                return RT_OK;
            }
            st = tls_wants(h, r, deadline_ns, "the connection broke", err);
        } else {
            ssize_t r = recv(h->fd, h->block, BLOCK, 0);
            if (r >= 0) {
                *n = (size_t)r;
                return RT_OK;
            }
            if (errno == EINTR)
                continue;
            st = errno == EAGAIN
                     ? wait_for(h, POLLIN, deadline_ns, err)
                     : rt_fail(err, RT_UNAVAILABLE, "%s:%s: %s", h->host, h->port, strerror(errno));
        }
        if (st)
            return st;
    }
}

/* Sends a request and receives the response. Sets *nothing if the connection was closed before the
 * first byte of the response. */
static enum rt_status exchange(struct cl_http *h, struct rt_span head, struct rt_span body,
                               int64_t deadline_ns, struct cl_http_response *a, bool *nothing,
                               struct rt_error *err)
{
    struct rt_error put_err = {0};
    size_t n, used;
    /* A server may reject a request before reading the entire body. Its response takes precedence
     * over the sending error. */
    enum rt_status sent = put(h, head, deadline_ns, &put_err), st = RT_OK;
    if (!sent)
        sent = put(h, body, deadline_ns, &put_err);
    *nothing = true;
    if (sent == RT_DEADLINE_EXCEEDED) {
        rt_error_copy(err, &put_err);
        return sent;
    }
    while (!st && a->stage != CL_HTTP_DONE) {
        /* A server that sends without a pause never makes `get` wait. */
        if (deadline_ns != RT_NEVER && rt_now_ns() >= deadline_ns)
            return fail_late(h, err);
        st = get(h, &n, deadline_ns, err);
        if (!st && !n) {
            st = cl_http_response_end(a, err);
            break;
        }
        if (st)
            break;
        *nothing = false;
        st = cl_http_response_feed(a, h->block, n, &used, err);
        if (!st && used < n)
            a->keep_alive = false; /* the server sent more bytes than belong to the response */
    }
    if (st && sent) {
        rt_error_copy(err, &put_err);
        return sent;
    }
    if (sent)
        a->keep_alive = false;
    return st;
}

enum rt_status cl_http_request(struct cl_http *h, const char *method, const char *path,
                               struct rt_span body, int64_t deadline_ns, int *status,
                               struct rt_bytes *response, struct rt_error *err)
{
    struct rt_bytes head;
    struct cl_http_response a;
    bool nothing = false, is_v6 = strchr(h->host, ':') != NULL;
    enum rt_status st;
    rt_bytes_init(&head, 1 << 20);
    rt_bytes_addf(&head, "%s %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: slipway/%s\r\n", method,
                  path, is_v6 ? "[" : "", h->host, is_v6 ? "]" : "", h->port, SLIPWAY_VERSION);
    if (h->token)
        rt_bytes_addf(&head, "Authorization: Bearer %s\r\n", h->token);
    if (body.n || strcmp(method, "POST") == 0)
        rt_bytes_addf(&head, "Content-Type: %s\r\nContent-Length: %zu\r\n", h->content_type,
                      body.n);
    rt_bytes_addf(&head, "%s\r\n", h->header_lines);
    /* sends a small body together with the request's head */
    if (body.n && body.n <= SMALL_BODY) {
        rt_bytes_add(&head, body.p, body.n);
        body.n = 0;
    }
    if (head.failed) {
        rt_bytes_clear(&head);
        return rt_fail_memory(err, "a request", head.n);
    }
    for (int try = 0;; try++) {
        bool is_old = h->fd >= 0;
        cl_http_response_init(&a, h->max_body);
        a.is_head = strcmp(method, "HEAD") == 0;
        st = is_old ? RT_OK : dial(h, deadline_ns, err);
        nothing = false;
        if (!st)
            st = exchange(h, rt_span_of(head.p, head.n), body, deadline_ns, &a, &nothing, err);
        if (st || !a.keep_alive)
            hang_up(h);
        /* A server may close an idle connection at any time. The request is then retried once on a
         * new connection. */
        if (!(st == RT_UNAVAILABLE && is_old && nothing && try == 0))
            break;
        cl_http_response_clear(&a);
    }
    rt_bytes_clear(&head);
    rt_bytes_clear(response);
    if (!st) {
        *status = a.status;
        *response = a.body;
        rt_bytes_init(&a.body, 0);
    }
    cl_http_response_clear(&a);
    return st;
}
