/*
 * Calls a server over REST or gRPC, and declares the flags of all client commands. Threads: over
 * REST, only one thread at a time may use a cl_remote. Over gRPC, threads may share it.
 */
#ifndef CL_REMOTE_H
#define CL_REMOTE_H

#include "clients/c/slipway_client.h"
#include "clients/cli/flags.h"
#include "clients/http/http.h"
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

/* The flags that select a version and a signature of a model. */
struct cl_version_flags {
    const char *version, *label, *signature;
};
extern const struct cl_flag cl_version_flags[];
enum { CL_N_VERSION_FLAGS = 3 };

struct cl_remote {
    struct slipway_client *grpc; /* gRPC client, or NULL for REST */
    struct cl_http *rest;
    int64_t timeout_ms;
    size_t max_bytes;
};

/* Prepares calls to the server that `t` describes, without connecting. Reads the files that `t`
 * names into the arena. */
enum rt_status cl_remote_open(struct cl_remote *r, const struct cl_target *t,
                              struct rt_arena *arena, struct rt_error *err);
void cl_remote_close(struct cl_remote *r);

/* Fills *m from the flags. Returns INVALID_ARGUMENT if the version is not a number. */
enum rt_status cl_model_of(struct slipway_model *m, const char *name,
                           const struct cl_version_flags *f, struct rt_error *err);

/* One inference request. */
struct cl_shot {
    enum pb_log_type type;  /* type of the PredictionLog record, which determines the gRPC method */
    struct rt_span request; /* the serialized request message, or the request body for REST */
    const char *path;       /* for REST */
    /* the expected response; if p is NULL, the response is not compared */
    struct rt_span want;
};
/* Sends a request and receives its response. `response`, which must be initialised, is cleared
 * first. */
enum rt_status cl_shoot(struct cl_remote *r, const struct cl_shot *shot, struct rt_bytes *response,
                        struct rt_error *err);

/* These functions return the same results over REST as over gRPC. The results are allocated in the
 * arena. */
enum rt_status cl_remote_status(struct cl_remote *r, const struct slipway_model *m,
                                struct rt_arena *arena, struct slipway_status *out,
                                struct rt_error *err);
enum rt_status cl_remote_metadata(struct cl_remote *r, const struct slipway_model *m,
                                  struct rt_arena *arena, struct slipway_metadata *out,
                                  struct rt_error *err);
/* Finds the signature that `m` names. Fails with NOT_FOUND if the model has no such signature. */
enum rt_status cl_remote_signature(struct cl_remote *r, const struct slipway_model *m,
                                   struct rt_arena *arena, const struct slipway_signature **out,
                                   struct rt_error *err);
/* Reads the names of the server's models from the metrics page, which is available only over REST.
 */
enum rt_status cl_remote_models(struct cl_remote *r, struct rt_arena *arena, const char ***out,
                                int *n, struct rt_error *err);

/* Prints a text of the server in one line, escaped as by rt_print, except that a space replaces
 * newlines and tabs with the white space behind them: TensorFlow's errors end in
 * "\n\t [[{{node NAME}}]]". */
void cl_print_line(FILE *out, const char *text);
/* Prints "slipway COMMAND: CODE: text" to standard error and returns CL_EXIT_FAILED. */
int cl_failed(const char *command, const struct rt_error *err);
/* Prints an error that occurred before the first call to the server, as cl_failed does. Returns
 * CL_EXIT_USAGE if the error is INVALID_ARGUMENT, and otherwise CL_EXIT_FAILED. */
int cl_refused(const char *command, const struct rt_error *err);
enum rt_status cl_of_slipway(const struct slipway_error *e, struct rt_error *err);

#endif
