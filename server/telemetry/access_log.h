/*
 * The access log (--access_log): one record per answered request, REST or gRPC, in the log's own
 * format; with --log_format=json every part is a field of its own.
 *
 * Threads: any.
 */
#ifndef SRV_ACCESS_LOG_H
#define SRV_ACCESS_LOG_H

#include "runtime/base/span.h"
#include "server/batching/job.h"

/* Spans are the client's words: control characters, blanks and what is too long never get out. */
struct srv_access {
    const char *entry; /* "REST" or "GRPC" */
    enum srv_api api;
    struct rt_span method; /* of HTTP; p NULL: left out, as every other span */
    struct rt_span path;   /* of gRPC: the method's */
    int http;              /* 0: none */
    enum rt_status code;
    size_t bytes_in, bytes_out; /* of messages */
    int64_t ns;
    struct rt_span id; /* the client's X-Request-Id, or the one made for it */
    struct rt_span peer;
    struct rt_span model;              /* as asked for, when there is no version */
    const struct srv_version *version; /* NULL: it never had one */
};
void srv_access_log(const struct srv_access *a);

#endif
