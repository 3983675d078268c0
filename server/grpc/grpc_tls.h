/*
 * Creates the credentials of the gRPC port: none, TLS according to --ssl_config_file, or Google's
 * ALTS.
 *
 * The file is a tensorflow.serving.SSLConfig in protobuf's text format. The fields for the key, the
 * certificate chain and the CA contain PEM text, not paths.
 */
#ifndef SRV_GRPC_TLS_H
#define SRV_GRPC_TLS_H

#include <grpc/grpc_security.h>

#include "server/config/options.h"

/* Creates the credentials that the options select. Errors name the file and the field, but never
 * show the contents. If *out is not NULL, the caller must release it, even after an error. */
enum rt_status srv_grpc_credentials(const struct srv_options *o, grpc_server_credentials **out,
                                    struct rt_error *err);
bool srv_grpc_is_secure(const struct srv_options *o);

#endif
