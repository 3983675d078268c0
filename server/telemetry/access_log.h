/*
 * The access log (--access_log): one record per answered REST or gRPC request, in the log's own
 * format. With --log_format=json every part is a field of its own.
 *
 * Threads: any.
 */
#ifndef SRV_ACCESS_LOG_H
#define SRV_ACCESS_LOG_H

#include "runtime/base/span.h"
#include "server/batching/job.h"

/* One record. Spans hold text from the client: control characters and blanks are replaced and long
 * text is cut before it is logged. */
struct srv_access {
    const char *entry; /* "REST" or "GRPC" */
    enum srv_api api;
    struct rt_span method; /* HTTP method; a span with p NULL is left out */
    struct rt_span path;   /* HTTP path, or path of the gRPC method */
    int http;              /* HTTP status; 0: none */
    enum rt_status code;
    size_t bytes_in, bytes_out; /* message bytes */
    int64_t ns;
    struct rt_span id; /* the client's X-Request-Id, or a generated one */
    struct rt_span peer;
    struct rt_span model;              /* the requested name, used when `version` is NULL */
    const struct srv_version *version; /* NULL: the request was not assigned a version */
};
void srv_access_log(const struct srv_access *a);

#endif
