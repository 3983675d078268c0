/*
 * The protobuf messages of SessionRun, whose feeds and fetches are tensors of the graph.
 *
 * Source: tensorflow_serving/apis/session_service.proto, tensorflow/core/protobuf/config.proto
 * (RunOptions, RunMetadata), tensorflow/core/framework/{step_stats,graph,node_def}.proto.
 * Threads: the functions are pure; parsed data is allocated in the caller's arena.
 */
#ifndef SRV_SESSION_PROTO_H
#define SRV_SESSION_PROTO_H

#include "runtime/exec/trace.h"
#include "server/base/budget.h"
#include "server/protocol/tfs/model_spec.h"
#include "server/protocol/tfs/tensor_wire.h"

struct srv_session_feed {
    const char *name;
    struct srv_cursor tensor; /* a serialized TensorProto */
};

struct srv_session_request {
    bool has_spec;
    struct srv_model_spec spec;
    /* the feeds, fetches and targets in the order of the message */
    int n_feeds, n_fetches, n_targets;
    struct srv_session_feed *feeds;
    const char **fetches, **targets;
    /* whether the names are aliases in the signature, instead of names in the graph */
    bool names_are_aliases;
    int64_t timeout_ms; /* timeout from the RunOptions, or 0 if there is none */
    bool wants_times, wants_graph;
};

/* Parses a request; names are copied into `arena`. */
enum rt_status srv_session_read(struct srv_cursor message, struct srv_session_request *out,
                                struct rt_arena *arena, struct rt_error *err);

struct srv_session_response {
    struct srv_model_echo echo;
    int n;
    const char *const *names;
    const struct rt_tensor *const *tensors; /* one fetched tensor per name in `names` */
    /* trace of the run, or NULL if the response contains no RunMetadata */
    const struct rt_trace *trace;
    /* the budget to which the response is charged, or NULL */
    struct srv_growth *growth;
};
/* Writes a response; *out is allocated by malloc. Fails for types that a TensorProto cannot
 * represent. */
enum rt_status srv_session_write(const struct srv_session_response *r, unsigned char **out,
                                 size_t *n, struct rt_error *err);

/* Appends a SessionRunRequest. `tensors` has one entry per feed of `r`. */
void srv_session_write_request(const struct srv_session_request *r,
                               const struct srv_model_echo *echo,
                               const struct rt_tensor *const *tensors, struct rt_bytes *out);

#endif
