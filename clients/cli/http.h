/*
 * One HTTP/1.1 connection to one server, plain or TLS, used for one request after another and
 * opened again when the server has ended it.
 *
 * Threads: whoever holds it.
 */
#ifndef CL_HTTP_H
#define CL_HTTP_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

struct cl_http;

struct cl_http_options {
    const char *host, *port;
    bool tls;
    const char *ca, *cert, *key; /* PEM texts, or NULL */
    const char *server_name;     /* TLS: instead of the host */
    const char *token;           /* sent as "Authorization: Bearer TOKEN" */
    size_t max_body;
};

/* Does not connect yet. NULL with *err. Options are copied. */
struct cl_http *cl_http_new(const struct cl_http_options *o, struct rt_error *err);
void cl_http_free(struct cl_http *h); /* NULL is fine */

/*
 * Sends a request and reads its answer: whatever HTTP status it has is RT_OK here. `answer` (made
 * by rt_bytes_init, emptied here) gets the body. `deadline_ns`: of CLOCK_MONOTONIC. UNAVAILABLE:
 * nobody listens, or the connection broke; DEADLINE_EXCEEDED; DATA_LOSS: not HTTP.
 */
enum rt_status cl_http_request(struct cl_http *h, const char *method, const char *path,
                               struct rt_span body, int64_t deadline_ns, int *status,
                               struct rt_bytes *response, struct rt_error *err);

#endif
