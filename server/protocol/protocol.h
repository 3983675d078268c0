/*
 * A protocol is a way to ask the server for inferences and for information about models, over HTTP
 * and gRPC. It is a table of calls, with the functions that decode their requests, encode their
 * responses and decide the errors. The transports (server/http, server/grpc) know bytes, deadlines,
 * the budget of bytes in flight and compression, and treat all protocols alike.
 *
 * A new protocol is a folder beside this file and one row in srv_protocols.
 *
 * Threads: the tables are constant.
 */
#ifndef SRV_PROTOCOL_H
#define SRV_PROTOCOL_H

#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "server/inference/steps.h"
#include "server/server.h"

struct srv_route;
struct srv_version_status;

/*
 * A request for information about the server or a model. The transport performs `find` on the I/O
 * loop thread, and then `write`. If the response is large, it charges `bytes` to the budget, and
 * `write` runs on a background thread.
 */
struct srv_description {
    struct srv_server *server;
    const struct srv_map *map;
    struct rt_arena *arena;
    struct rt_error *err;
    struct srv_cursor message; /* the request message or body, valid only in `find` */
    /* the requested model: from the path over HTTP, set by `find` over gRPC */
    struct srv_model_spec spec;
    /* The version to describe, or NULL, set by `find`. The transport holds it until the response is
     * sent. */
    struct srv_version *version;
    struct srv_version_status *versions; /* the `n` versions to list, set by `find` */
    int n;
    size_t bytes; /* approximate size of the response in bytes, set by `find` */
    /* what else `find` tells `write`, allocated in `arena` */
    const void *state;
};

struct srv_description_steps {
    enum rt_status (*find)(struct srv_description *d);
    void (*write)(const struct srv_description *d, struct rt_bytes *out);
};

/* How a call is decoded and encoded over one transport. One of the pointers is set, or none if the
 * call does not exist over the transport. */
struct srv_codec {
    const struct srv_inference_steps *infer;
    const struct srv_description_steps *describe;
};

enum { SRV_NOT_COUNTED = -1 };

struct srv_endpoint {
    int api; /* the value of enum srv_api under which metrics count the call, or SRV_NOT_COUNTED */
    struct srv_codec rest, grpc;
    const char *grpc_path; /* "/package.Service/Method", or NULL if the call is not a gRPC method */
    /* whether gRPC calls are frequent, so that the core should match their path */
    bool is_frequent;
    /* Returns why the options disable the gRPC method, or NULL if they do not. The function pointer
     * is NULL if the method is always enabled. */
    const char *(*off)(const struct srv_options *o);
};

struct srv_protocol {
    /* The first segments of the paths of its REST calls, regardless of case. If `root` ends in '/',
     * something must follow it. */
    const char *root;
    const struct srv_endpoint *const *endpoints;
    int n_endpoints;
    /* Finds the call that a REST request names, and sets out->endpoint and out->spec. `uri` begins
     * with `root` and includes the query. */
    enum rt_status (*route)(struct srv_route *out, const char *method, struct rt_span uri,
                            struct rt_arena *arena, struct rt_error *err);
    /* Appends the body of a REST response that reports an error. */
    void (*write_error)(struct rt_bytes *out, const char *text);
    /* The header in which a REST request or response with a body of JSON and binary data has the
     * length of the JSON, or NULL. */
    const char *json_length_header;
};

/* The table of all protocols. The first one also reports the errors of requests that no protocol
 * recognises. The transports find the table in struct srv_server, so that they depend on no
 * protocol. */
struct srv_protocols {
    const struct srv_protocol *const *row;
    int n;
};
extern const struct srv_protocols srv_protocols; /* defined in server/protocols.c */

#endif
