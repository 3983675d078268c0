/*
 * The server that a command calls, over REST or gRPC: the flags that all commands share, and the
 * calls. Threads: used by one thread at a time.
 */
#ifndef CL_REMOTE_H
#define CL_REMOTE_H

#include "clients/c/slipway_client.h"
#include "clients/cli/flags.h"
#include "clients/cli/http.h"
#include "clients/cli/json.h"
#include "proto/prediction_log.h"

struct cl_target {
    const char *server; /* the URL */
    const char *ca, *cert, *key, *server_name, *token_file;
    double timeout_s;
};
extern const struct cl_flag cl_target_flags[];
enum { CL_N_TARGET_FLAGS = 7 };
#define CL_TARGET_DEFAULTS                                                                         \
    {                                                                                              \
        .server = "grpc://127.0.0.1:8500", .timeout_s = 30                                         \
    }

/* Flags that select a version and a signature. */
struct cl_version_flags {
    const char *version, *label, *signature;
};
extern const struct cl_flag cl_version_flags[];
enum { CL_N_VERSION_FLAGS = 3 };

struct cl_remote {
    struct slipway_client *grpc; /* NULL: `rest` is used */
    struct cl_http *rest;
    int64_t timeout_ms;
    size_t max_bytes; /* limit of a response */
};

/* Does not connect yet. Reads the files that `t` names; their texts are kept in the arena. */
enum rt_status cl_remote_open(struct cl_remote *r, const struct cl_target *t,
                              struct rt_arena *arena, struct rt_error *err);
void cl_remote_close(struct cl_remote *r);

/* Fills *m from flags. INVALID_ARGUMENT: the version is not a number. */
enum rt_status cl_model_of(struct slipway_model *m, const char *name,
                           const struct cl_version_flags *f, struct rt_error *err);

/* One inference request. */
struct cl_shot {
    enum pb_log_type type;  /* gRPC: selects the call */
    struct rt_span request; /* the serialized message, or the body for REST */
    const char *path;       /* for REST */
    struct rt_span want;    /* the expected response; p NULL: any */
};
/* Sends one shot and receives its response. `response` (made by rt_bytes_init) is cleared first. */
enum rt_status cl_shoot(struct cl_remote *r, const struct cl_shot *shot, struct rt_bytes *response,
                        struct rt_error *err);

/* These calls give the same results over both transports. The results live in the arena. */
enum rt_status cl_remote_status(struct cl_remote *r, const struct slipway_model *m,
                                struct rt_arena *arena, struct slipway_status *out,
                                struct rt_error *err);
enum rt_status cl_remote_metadata(struct cl_remote *r, const struct slipway_model *m,
                                  struct rt_arena *arena, struct slipway_metadata *out,
                                  struct rt_error *err);
/* *out: the signature that `m` names. NOT_FOUND: the model has no such signature. */
enum rt_status cl_remote_signature(struct cl_remote *r, const struct slipway_model *m,
                                   struct rt_arena *arena, const struct slipway_signature **out,
                                   struct rt_error *err);
/* *out: the names of all models of the server, read from its metrics. REST only. */
enum rt_status cl_remote_models(struct cl_remote *r, struct rt_arena *arena, const char ***out,
                                int *n, struct rt_error *err);

/* Prints "slipway COMMAND: CODE: text" and returns CL_EXIT_FAILED. */
int cl_failed(const char *command, const struct rt_error *err);
enum rt_status cl_of_slipway(const struct slipway_error *e, struct rt_error *err);

#endif
