/*
 * Credentials of the gRPC port: none, TLS by --ssl_config_file, or Google's ALTS.
 *
 * The file is a tensorflow.serving.SSLConfig in protobuf's text format. Its key, certificate chain
 * and CA are the contents of PEM files, not paths.
 */
#ifndef SRV_GRPC_TLS_H
#define SRV_GRPC_TLS_H

#include <grpc/grpc_security.h>

#include "server/config/options.h"

/* An error names the file and the field, and never shows contents. The caller releases *out if it
 * is not NULL, also after an error. */
enum rt_status srv_grpc_credentials(const struct srv_options *o, grpc_server_credentials **out,
                                    struct rt_error *err);
bool srv_grpc_is_secure(const struct srv_options *o);

/* Whether the text holds a complete PEM block "-----BEGIN ... `what`-----". Pure. */
bool srv_is_pem(const char *text, const char *what);

#endif
