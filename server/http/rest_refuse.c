/*
 * Refuses a body before it has arrived completely. libmicrohttpd accepts no response in the middle
 * of an upload, and many clients do not check for a response while they are sending. Closing the
 * socket while bytes are unread would reset the connection, and the client would lose the response.
 *
 * This module therefore suspends the connection in libmicrohttpd, writes the response itself and
 * shuts down the sending side of the socket. It drops the bytes that still arrive, in the kernel
 * where possible, until the client closes its side or a limit on time or bytes is reached.
 */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/socket.h>

#include "server/http/rest_call.h"
#include "server/http/rest_connection.h"
#include "server/http/rest_loop.h"
#include "server/metrics/metrics.h"

enum {
    /* maximum number of bytes dropped per connection and turn */
    TURN_BYTES = 256 << 10,
    LINGER_BYTES = 64 << 20, /* maximum number of bytes dropped per connection */
};

static bool add_line(void *text, const char *name, const char *value)
{
    rt_bytes_addf(text, "%s: %s\r\n", name, value);
    return true;
}

/* Sends the complete response in one call. The kernel has accepted the previous response,
 * because a connection's next request is not read before that. If the kernel does not accept this
 * response immediately, the client is not reading, and sending fails. */
static bool write_response(const struct srv_rest_conn *c, gnutls_session_t session,
                           const struct rt_bytes *text)
{
    if (!session)
        return send(c->fd, text->p, text->n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)text->n;
    if (gnutls_record_send(session, text->p, text->n) != (ssize_t)text->n)
        return false;
    gnutls_bye(session, GNUTLS_SHUT_WR);
    return true;
}

static bool send_response(struct srv_rest_call *req)
{
    const struct srv_rest_request *r = &req->pub;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    struct rt_bytes text;
    bool good = false;

    rt_bytes_init(&text, r->out.n + SRV_REST_MAX_IDLE_BYTES);
    rt_bytes_addf(&text, "HTTP/1.1 %d %s\r\n", r->http,
                  MHD_get_reason_phrase_for((unsigned)r->http));
    srv_rest_headers(req, add_line, &text);
    rt_bytes_addf(&text, "Content-Length: %zu\r\n\r\n", r->out.n);
    if (strcmp(r->method, "HEAD") != 0)
        rt_bytes_add(&text, r->out.p, r->out.n);
    if (!text.failed && !r->out.failed)
        good = write_response(req->conn, info ? info->tls_session : NULL, &text);
    rt_bytes_clear(&text);
    return good && shutdown(req->conn->fd, SHUT_WR) == 0;
}

enum MHD_Result srv_rest_refuse_now(struct srv_rest_call *req)
{
    srv_rest_count(req);
    req->stage = STAGE_OVER;
    req->conn->is_over = true;
    if (!send_response(req)) {
        srv_metrics_event(req->pub.server->metrics, "refused_body_cut_off");
        return MHD_NO;
    }
    srv_rest_begin_lingering(req->loop, req->conn);
    return MHD_YES;
}

void srv_rest_linger(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    /* With MSG_TRUNC, TCP discards the bytes without copying them. */
    ssize_t n = recv(c->fd, NULL, TURN_BYTES, MSG_TRUNC | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->dropped += n > 0 ? (uint64_t)n : 0;
    if (n > 0 && c->dropped < LINGER_BYTES)
        return;
    if (n > 0)
        srv_metrics_event(l->io_loop.server->metrics, "refused_body_cut_off");
    srv_rest_hang_up(c);
}
