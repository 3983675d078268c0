/*
 * Checks certificates and keys in PEM format before a TLS library reads them. The error message can
 * thus name the flag and the kind of PEM block. Error messages never show the contents of a block.
 *
 * Threads: the functions are pure, so any thread may call them.
 */
#ifndef SRV_PEM_H
#define SRV_PEM_H

#include "runtime/base/status.h"

/* Checks that the text contains a complete, unencrypted PEM block "-----BEGIN ... `what`-----",
 * where `what` is, for example, "CERTIFICATE" or "PRIVATE KEY". `name` identifies the text in
 * error messages, for example "--rest_tls_key_file=server.key". */
enum rt_status srv_pem_check(const char *text, const char *what, const char *name,
                             struct rt_error *err);

#endif
