/*
 * Credentials of the REST port, which uses TLS if --rest_tls_cert_file is set. The server reads and
 * validates the files when it starts.
 */
#ifndef SRV_REST_TLS_H
#define SRV_REST_TLS_H

#include "server/config/options.h"

struct srv_rest_tls { /* contents of the PEM files, or NULL without TLS */
    char *cert, *key, *client_ca;
};

/* Reads the credentials. An error message about a file names the file and its flag. The caller must
 * call srv_rest_tls_clear for `out`, even after an error. */
enum rt_status srv_rest_tls_read(struct srv_rest_tls *out, const struct srv_options *o,
                                 struct rt_error *err);
void srv_rest_tls_clear(struct srv_rest_tls *tls);

/* Requires a client certificate on a new connection. The handshake fails unless a CA in client_ca
 * has signed the certificate and the certificate's key is within the limits in rest_tls.c.
 * `session` is the connection's gnutls_session_t. */
void srv_rest_tls_request_client_cert(void *session);

#endif
