/*
 * Provides the contents of status responses: every version that is or was wanted, with its state
 * and error.
 *
 * Threads: the manager writes the states under a lock. Any thread may copy them.
 */
#ifndef SRV_STATUS_H
#define SRV_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

enum srv_state { /* the values are those of the states in TensorFlow Serving's API */
                 SRV_STATE_UNKNOWN = 0,
                 SRV_START = 10,
                 SRV_LOADING = 20,
                 SRV_AVAILABLE = 30,
                 SRV_UNLOADING = 40,
                 SRV_END = 50,
};
/* returns the name of a state, for example "AVAILABLE" */
const char *srv_state_name(enum srv_state s);

struct srv_version_status {
    int64_t version;
    enum srv_state state;
    enum rt_status code;
    /* Error message. With RT_OK, it is "" or describes a problem with the model's base path or the
     * version's directories that does not prevent the version from serving. */
    const char *message;
};

struct srv_manager;
/*
 * Copies the states of a model's versions into `arena`, highest version first. If has_version is
 * set, copies only the state of `version`. Fails with NOT_FOUND and the message "Could not find any
 * versions of model m" or "Could not find version 5 of model m". If the model's base path has a
 * problem, ": " and a description of the problem follow. Many versions are copied in slices,
 * between which their states may change.
 */
enum rt_status srv_status_of(struct srv_manager *m, struct rt_span model, bool has_version,
                             int64_t version, struct rt_arena *arena,
                             struct srv_version_status **out, int *n, struct rt_error *err);
/* Copies the state of `version`, or of the highest version if has_version is not set. Fails as
 * srv_status_of does. */
enum rt_status srv_status_one(struct srv_manager *m, struct rt_span model, bool has_version,
                              int64_t version, struct rt_arena *arena,
                              struct srv_version_status *out, struct rt_error *err);
/* Returns the number of a model's versions, which is 0 for an unknown model. */
int srv_status_size(struct srv_manager *m, struct rt_span model);
/* Returns the number of all models and all their versions together. */
int srv_status_size_of_all(struct srv_manager *m);
/* Returns the number of all AVAILABLE versions. */
int srv_status_size_of_available(struct srv_manager *m);
/* Returns the approximate size in bytes of a response with these versions. */
size_t srv_status_bytes(const struct srv_version_status *versions, int n);
/* Copies the description of a problem with the model's base path into `arena`. Sets *out to NULL if
 * there is no problem. */
enum rt_status srv_status_problem(struct srv_manager *m, struct rt_span model,
                                  struct rt_arena *arena, const char **out);
enum { SRV_MAX_CONFIG_PROBLEMS = 2 };
/* Copies the descriptions of the problems with --model_config_file and --models into `arena`, for
 * example that a config file that was read again is ignored. */
enum rt_status srv_status_config_problems(struct srv_manager *m, struct rt_arena *arena,
                                          const char *out[SRV_MAX_CONFIG_PROBLEMS], int *n);
/* Copies the names of all models, in ascending order, or only of those with an AVAILABLE version,
 * into `arena`. Many names are copied in slices, between which models may come and go. */
enum rt_status srv_status_models(struct srv_manager *m, bool only_available, struct rt_arena *arena,
                                 const char *const **out, int *n);

/* Returns whether the server is ready. The server is ready when each initial model is AVAILABLE,
 * has failed or has timed out. In addition, at least one model must serve, unless none is
 * configured. A server that is draining or stopping is not ready, nor is one without a manager (`m`
 * is NULL). */
bool srv_is_ready(struct srv_manager *m);
/* Fails with UNAVAILABLE. The message says how many models keep the server from being ready. */
enum rt_status srv_fail_not_ready(struct srv_manager *m, struct rt_error *err);
/* Returns whether srv_status_models would list the model. */
bool srv_has_model(struct srv_manager *m, struct rt_span model);
/* Returns whether a version of the model is AVAILABLE and the server is not draining. */
bool srv_model_is_ready(struct srv_manager *m, struct rt_span model);

#endif
