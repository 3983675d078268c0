/*
 * What the REST port proves and asks of its clients: nothing, or TLS by --rest_tls_cert_file.
 * The files are read and tried when the server starts, so that what is wrong with them is told
 * then.
 */
#ifndef SRV_REST_TLS_H
#define SRV_REST_TLS_H

#include "server/config/options.h"

struct srv_rest_tls { /* PEM texts; all NULL: no TLS */
    char *cert, *key, *client_ca;
};

/* INVALID_ARGUMENT and others name the flag and the file. `out` is to be cleared in any case. */
enum rt_status srv_rest_tls_read(struct srv_rest_tls *out, const struct srv_options *o,
                                 struct rt_error *err);
void srv_rest_tls_clear(struct srv_rest_tls *tls);

/* A new connection's gnutls_session_t: without a certificate of client_ca there is no handshake. */
void srv_rest_tls_request_client_cert(void *session);

#endif
