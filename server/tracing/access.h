/*
 * The outcome of an answered request, for the access log (server/telemetry/access_log.h), the
 * tracer and the profiles of requests.
 */
#ifndef SRV_ACCESS_H
#define SRV_ACCESS_H

#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

struct srv_request_span;
struct srv_version;

/* The rt_spans contain text from the client. They, `span` and `version` need only be valid during
 * the call that gets the outcome. */
struct srv_access {
    const char *entry;     /* entrypoint of the request, "REST" or "GRPC" */
    const char *api;       /* name of the API (srv_api_name) */
    struct rt_span method; /* HTTP method; p is NULL for a gRPC request */
    struct rt_span path;
    int http; /* HTTP status, or 0 for a gRPC request */
    enum rt_status code;
    /*
     * Sizes in bytes without headers and framing, for the access log only.
     * bytes_in: over REST, the part of the body that was kept: inflated unless the request was
     * refused before that, and 0 if the body was refused or cannot be inflated. Over gRPC, the
     * message before it was inflated; for a stream, the sum of its messages. bytes_out: over REST,
     * the body as it is sent, compressed or not. Over gRPC, the message before the core may
     * compress it, and 0 for an error; for a stream, the sum of its messages.
     */
    size_t bytes_in, bytes_out;
    int64_t begin_ns, end_ns; /* times on CLOCK_MONOTONIC */
    struct rt_span id;        /* the client's X-Request-Id, or a generated one */
    const struct srv_request_span *span;
    struct rt_span client; /* srv_quota_shown of the client of an inference */
    struct rt_span peer;   /* the peer's address; p is NULL over REST and for parts of streams */
    struct rt_span model;  /* the requested model name; logged only if `version` is NULL */
    /* the version that was found for the request, or NULL */
    const struct srv_version *version;
};

#endif
