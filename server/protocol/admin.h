/*
 * Checks whether a request may perform admin actions, by --admin_address, --admin_socket and
 * --admin_token_file.
 *
 * Threads: any. The token file is read for each request.
 */
#ifndef SRV_ADMIN_H
#define SRV_ADMIN_H

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "server/config/options.h"

struct srv_admin_request {
    const char *what; /* the method or the path, for error messages */
    /* "metadata" or "header", where the protocol transmits `authorization`; for error messages */
    const char *place;
    struct rt_span authorization; /* the value of `authorization`; p is NULL if there is none */
    /* whether the request arrived at --admin_address or --admin_socket */
    bool is_at_admin_address;
    bool is_from_page; /* whether a web page has sent the request */
};

/* Returns RT_OK, PERMISSION_DENIED, UNAUTHENTICATED, or the error from reading the token file. */
enum rt_status srv_admin_check(const struct srv_options *o, const struct srv_admin_request *r,
                               struct rt_error *err);
/* Returns whether admin actions have an address of their own. */
bool srv_admin_has_address(const struct srv_options *o);
/* Checks that --model_root exists and that --admin_token_file is readable and contains a token. */
enum rt_status srv_admin_check_files(const struct srv_options *o, struct rt_error *err);
/* Logs a warning if every client of the gRPC or REST port may perform admin actions. */
void srv_admin_warn(const struct srv_options *o);

#endif
