/*
 * What the gRPC port proves and asks of its clients: nothing, TLS by --ssl_config_file, or Google's
 * ALTS.
 *
 * The file is a text tensorflow.serving.SSLConfig: the key, the certificate chain and the CA are
 * PEM contents, not paths.
 */
#ifndef SRV_GRPC_TLS_H
#define SRV_GRPC_TLS_H

#include <grpc/grpc_security.h>

#include "server/config/options.h"

/* Refused with a sentence that names the file and the field, never its contents. *out: to be
 * released, also after a refusal if it is not NULL. */
enum rt_status srv_grpc_credentials(const struct srv_options *o, grpc_server_credentials **out,
                                    struct rt_error *err);
bool srv_grpc_is_secure(const struct srv_options *o);

/* The bytes hold a block "-----BEGIN ... `what`-----" that ends. Pure. */
bool srv_is_pem(const char *text, const char *what);

#endif
