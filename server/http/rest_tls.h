/*
 * Credentials of the REST port, which uses TLS if --rest_tls_cert_file is set. The files are read
 * and validated when the server starts, so that errors in them are reported at startup.
 */
#ifndef SRV_REST_TLS_H
#define SRV_REST_TLS_H

#include "server/config/options.h"

struct srv_rest_tls { /* contents of the PEM files; without TLS all are NULL */
    char *cert, *key, *client_ca;
};

/* Reads the credentials. The text of every error names the flag and the file. `out` must be
 * cleared even after an error. */
enum rt_status srv_rest_tls_read(struct srv_rest_tls *out, const struct srv_options *o,
                                 struct rt_error *err);
void srv_rest_tls_clear(struct srv_rest_tls *tls);

/* Makes a new connection require a client certificate. The handshake fails unless client_ca has
 * signed the certificate and the key is within the limits of rest_tls.c. `session` is the
 * connection's gnutls_session_t. */
void srv_rest_tls_request_client_cert(void *session);

#endif
