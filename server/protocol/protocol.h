/*
 * A protocol is a way to ask the server for inferences and for information about models, over HTTP
 * and gRPC. It is a table of calls, each with functions that decode its requests, encode its
 * responses and choose its errors. The transports (server/http, server/grpc) handle bytes,
 * deadlines, the budget of bytes in flight, and compression. They treat all protocols alike.
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
 * A request for information about the server or a model. The transport calls `find` on the I/O
 * loop, and then `gather` and `write`. If the response lists many items or is large, the transport
 * calls them on a background thread, which handles one request at a time, and charges `bytes` to
 * the budget before `write`. Short responses have a thread of their own, so that they do not wait
 * for long ones.
 */
struct srv_description {
    struct srv_server *server;
    const struct srv_map *map;
    /* The request's arena. In `gather` and `write` on a background thread, an arena that is freed
     * after `write`. */
    struct rt_arena *arena;
    struct rt_error *err;
    struct srv_cursor message; /* the request message or body, valid only in `find` */
    /* The requested model. HTTP routing sets it from the path; over gRPC, `find` sets it. */
    struct srv_model_spec spec;
    /* Set by `find`: the version to describe, or NULL. The transport holds a reference to it until
     * the response is sent. */
    struct srv_version *version;
    /* set by `find`: the approximate numbers of models and versions that `gather` examines, and
     * that the response lists */
    int n_items, n_listed;
    struct srv_version_status *versions; /* set by `gather`: the `n` versions to list */
    int n;
    bool only_ready; /* set by `find` for `gather`: whether to list only what is AVAILABLE */
    size_t bytes;    /* set by `find` or `gather`: approximate size of the response */
    /* private data that `find` or `gather` passes to `write`, allocated in `arena` */
    const void *state;
};

/* The I/O loop itself writes a response if srv_description.bytes is at most this, unless the
 * response was gathered on a background thread. Such a small response is not charged to the budget,
 * so that it can be sent even while memory is short. */
enum { SRV_DESCRIBE_ON_LOOP_BYTES = 16 << 10 };
/* The I/O loop itself calls `gather` if srv_description.n_items is at most this. */
enum { SRV_GATHER_ON_LOOP_ITEMS = 64 };
/* maximum size of the arena of `gather` on a background thread */
enum { SRV_GATHER_BYTES = 512 << 20 };
/* A response is short if it lists at most so many models and versions, and `bytes` is at most this
 * after `find`. A short response takes up to 6 ms. */
enum { SRV_SHORT_ITEMS = 1024, SRV_SHORT_BYTES = 256 << 10 };
static inline bool srv_description_is_short(const struct srv_description *d)
{
    return d->n_listed <= SRV_SHORT_ITEMS && d->bytes <= SRV_SHORT_BYTES;
}

struct srv_description_steps {
    enum rt_status (*find)(struct srv_description *d);
    void (*write)(const struct srv_description *d, struct rt_bytes *out);
    /* Copies what the response lists. NULL if `find` does so. */
    enum rt_status (*gather)(struct srv_description *d);
};

/*
 * A request that changes something in the server. The transport calls `perform` on a background
 * thread.
 */
struct srv_action {
    struct srv_server *server;
    struct rt_arena *arena;
    struct rt_error *err;
    struct srv_cursor message; /* the request message or body, valid until `done` is called */
    /* over HTTP, the model or shared memory region that the path names */
    struct srv_model_spec spec;
    const _Atomic bool *cancelled; /* whether the client has disconnected */
    struct rt_bytes *out;          /* the body or message of the response */
    /* The transport sets `check` and `done`. Unless the steps have `is_admin` set, `perform` calls
     * `check` before it changes anything. If the argument `is_admin` is true, `check` requires the
     * permission to perform admin actions (admin.h). Otherwise it only refuses requests from web
     * pages of another origin. */
    enum rt_status (*check)(struct srv_action *a, bool is_admin);
    /* The action calls `done` once, on any thread, and then no longer uses the struct. If `st` is
     * an error, `err` contains the error message. */
    void (*done)(struct srv_action *a, enum rt_status st);
};

struct srv_action_steps {
    void (*perform)(struct srv_action *a);
    /* Set if every request requires the permission to perform admin actions. The transport then
     * calls `check` before it inflates the message, and `perform` need not call it. */
    bool is_admin;
};

/* How a call is decoded and encoded over one transport. One pointer is set. If the call
 * does not exist over the transport, all pointers are NULL. */
struct srv_codec {
    const struct srv_inference_steps *infer;
    const struct srv_description_steps *describe;
    const struct srv_action_steps *act;
};

/* The parts of the messages of a gRPC stream of inferences. A message of the stream contains either
 * the response to an inference or an error. */
struct srv_stream_steps {
    /* Appends the bytes of the message that precede the response. The response has `n` bytes. */
    void (*write_head)(const struct srv_inference *inf, struct rt_bytes *out, size_t n);
    /* Appends the message for an inference that failed. inf->request is NULL if no memory was left
     * for the parsed request. */
    void (*write_error)(const struct srv_inference *inf, const char *text, struct rt_bytes *out);
    /* Reads what write_error needs from a request that is refused before it is read. `message` may
     * be only the beginning of the request. */
    void (*identify)(struct srv_inference *inf, struct srv_cursor message);
};

enum { SRV_NOT_COUNTED = -1 };

struct srv_endpoint {
    int api; /* value of enum srv_api under which the metrics count the call, or SRV_NOT_COUNTED */
    struct srv_codec rest, grpc;
    /* Set if the gRPC method is a stream of inferences. grpc.infer decodes and encodes the
     * inferences, and the metrics count them under stream_api. */
    const struct srv_stream_steps *stream;
    int stream_api;
    const char *grpc_path; /* "/package.Service/Method", or NULL if the call is not a gRPC method */
    /* whether --page_address serves the call over REST too, beside the web page */
    bool is_at_page_address;
    /* whether the call is frequent, so that the gRPC core should match its path */
    bool is_frequent;
    /* If the options disable the gRPC method, returns the reason. Otherwise returns NULL. The
     * pointer `off` is NULL if no option can disable the method. */
    const char *(*off)(const struct srv_options *o);
};

struct srv_protocol {
    /* The beginning of the paths of the protocol's REST calls, compared regardless of case. If
     * `root` ends in '/', the path must continue after it. NULL if there are no REST calls; the
     * members about REST are then not used. */
    const char *root;
    const struct srv_endpoint *const *endpoints;
    int n_endpoints;
    /* Finds the call that a REST request names, and sets out->endpoint and out->spec. `uri` begins
     * with `root` and includes the query. */
    enum rt_status (*route)(struct srv_route *out, const char *method, struct rt_span uri,
                            struct rt_arena *arena, struct rt_error *err);
    /* Appends the body of a REST response that reports an error. */
    void (*write_error)(struct rt_bytes *out, const char *text);
    /* The name of the header that states the length of the JSON in a body with binary data. NULL if
     * the protocol has no bodies with binary data. */
    const char *json_length_header;
    /* Further names by which grpc.health.v1 knows the protocol's gRPC services: a list that ends
     * with NULL, or NULL. */
    const char *const *health_names;
    /* Returns why the gRPC method `path`, which is not in the table, does not exist, or NULL if the
     * protocol has nothing to say about it. The pointer may be NULL. */
    const char *(*why_unknown)(struct rt_span path);
    /* Whether a REST request with an unknown Content-Encoding, or with a body that does not
     * inflate, is refused. Otherwise such a body is read as TensorFlow Serving reads it. */
    bool checks_coding;
};

/* The table of all protocols. Requests that match no protocol get errors in the format of the first
 * row. The transports use the table in struct srv_server, so that they do not depend on any
 * protocol. */
struct srv_protocols {
    const struct srv_protocol *const *row;
    int n;
};
extern const struct srv_protocols srv_protocols; /* defined in server/protocols.c */

#endif
