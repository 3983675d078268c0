/*
 * An HTTP/1.1 connection to one server, with or without TLS. The connection carries one request at
 * a time. After the server has closed the connection, the next request reopens it.
 *
 * Threads: only one thread at a time may use a connection.
 */
#ifndef CL_HTTP_H
#define CL_HTTP_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

struct cl_http;

struct cl_http_options {
    const char *host, *port;
    bool tls;
    /* Contents of PEM files. `ca` contains the CA certificates. If `ca` is NULL, the system's CA
     * certificates are used. `cert` and `key` identify the client, or are both NULL. A key with a
     * passphrase cannot be used. */
    const char *ca, *cert, *key;
    /* Name that the server's TLS certificate must contain. NULL means `host`. */
    const char *server_name;
    const char *token; /* bearer token, sent as "Authorization: Bearer TOKEN" */
    size_t max_body;
    const char *content_type; /* of the body of a POST request; NULL means application/json */
    /* further lines of the request's head, each ended by CR LF, or NULL */
    const char *header_lines;
    /* If this is the descriptor of an eventfd, requests end with CANCELLED as soon as it is
     * readable. Otherwise it is 0. */
    int cancel_fd;
};

/* Creates an unconnected connection object. Copies the options. Returns NULL and fills *err on
 * failure. */
struct cl_http *cl_http_new(const struct cl_http_options *o, struct rt_error *err);
void cl_http_free(struct cl_http *h); /* NULL is fine */

/*
 * Sends a request and reads the response. Returns RT_OK for any HTTP status. `response` must be
 * initialised, and receives the body. `deadline_ns` is a CLOCK_MONOTONIC time in nanoseconds. Fails
 * with UNAVAILABLE if no server listens at the address or the connection is lost, with
 * DEADLINE_EXCEEDED if the deadline passes, and with DATA_LOSS if the response is not HTTP. Looking
 * up the name of the host may take longer than the deadline permits.
 */
enum rt_status cl_http_request(struct cl_http *h, const char *method, const char *path,
                               struct rt_span body, int64_t deadline_ns, int *status,
                               struct rt_bytes *response, struct rt_error *err);

#endif
