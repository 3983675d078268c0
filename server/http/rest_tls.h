/*
 * Credentials of the REST port: none, or TLS by --rest_tls_cert_file. The files are read and
 * tested when the server starts, so that errors in them are reported then.
 */
#ifndef SRV_REST_TLS_H
#define SRV_REST_TLS_H

#include "server/config/options.h"

struct srv_rest_tls { /* PEM texts; all NULL: no TLS */
    char *cert, *key, *client_ca;
};

/* An error, INVALID_ARGUMENT or another, names the flag and the file. Clear `out` in any case. */
enum rt_status srv_rest_tls_read(struct srv_rest_tls *out, const struct srv_options *o,
                                 struct rt_error *err);
void srv_rest_tls_clear(struct srv_rest_tls *tls);

/* For the gnutls_session_t of a new connection: the handshake fails without a certificate signed
 * by client_ca. */
void srv_rest_tls_request_client_cert(void *session);

#endif
