/*
 * The manager's table: the models that are or were configured, their versions, and the states of
 * the versions. Only the manager's files include this header (manager_internal.h lists them).
 *
 * Owner: the manager.
 * Threads: the manager's thread changes the table. If other threads read a member, its comment says
 * so, and the manager's lock guards the member.
 */
#ifndef SRV_MANAGER_TABLE_H
#define SRV_MANAGER_TABLE_H

#include "server/config/config.h"
#include "server/versions/loader.h"
#include "server/versions/manager.h"

/* A problem that lasts. The log tells it when it begins, and again after ever longer pauses while
 * it lasts. */
struct srv_problem {
    /* The problem, or NULL if there is none. The manager's thread writes this member, and other
     * threads read it. A thread that writes or reads it holds the manager's lock. */
    char *text;
    int64_t again_ns; /* earliest time at which the log tells the same problem again */
    int64_t pause_ns;
};

/* A model's version. The version is wanted now or was wanted earlier. */
struct srv_managed_version {
    int64_t version;
    struct srv_managed *model;
    /* The manager's thread writes the members up to `problem`, and other threads read them. A
     * thread that writes or reads them holds the manager's lock. */
    enum srv_state state;
    enum rt_status code;
    /* error message; NULL if there is no error or, with `no_message`, if memory ran out */
    char *message;
    bool no_message;
    bool wanted; /* whether the model's version policy selects the version */
    bool final;  /* whether the version failed and will not be retried until its files change */
    /* warning about the version's directories; a version with a warning may serve */
    struct srv_problem problem;

    /* The members below belong to the manager's thread. */
    char *dir;
    /* the last fingerprint of the directory, used in the state START */
    struct srv_fingerprint seen;
    /* time when the fingerprint `seen` was first taken, or 0 */
    int64_t seen_since;
    bool stable;
    int64_t look_at; /* earliest time at which the directory is listed again */
    bool is_long;    /* whether listing the directory takes longer than LOOK_SHORT_MS */
    /* time when the manager first found the version in the state START, or 0 */
    int64_t start_since;
    /* time when the directory was first found missing, or 0 if the directory exists */
    int64_t missing_since;
    bool unrest_logged;
    /* fingerprint of the served files, or of the files whose load failed */
    struct srv_fingerprint at_load;
    bool overwritten; /* whether the log already reports that the served files have changed */
    int n_failures;
    /* number of loads that ended because the files changed, since the last successful load */
    int n_changed;
    int64_t retry_at;
    struct srv_load *load; /* the running load in the state LOADING, otherwise NULL */
    /* time at which the remaining requests are ended in the state UNLOADING, or RT_NEVER */
    int64_t end_at;
    /* the loaded version in the state LOADING, until the next serving map makes it AVAILABLE */
    struct srv_version *live;
};

/* Numbers of models on which the server's readiness depends, and of AVAILABLE versions. */
struct srv_readiness {
    int n_waiting; /* initial models that may still become AVAILABLE in their time */
    int n_serving, n_wanted;
    int n_available;
};

struct srv_managed {
    char *name;
    /* the model's configuration, or NULL if the model is no longer configured */
    const struct srv_model_config *config;
    int n_entries, capacity;
    /* the versions, highest first; guarded by the manager's lock */
    struct srv_managed_version **entries;
    /* Numbers of versions that are AVAILABLE, that are wanted, and that are wanted but have failed.
     * Guarded by the manager's lock. */
    int n_available, n_wanted, n_failed;
    /* What the model adds to the manager's readiness. Guarded by the manager's lock. */
    struct srv_readiness counted;
    bool is_initial;
    /* Whether the manager's thread has noted that --model_wait_seconds have passed since `since`.
     * Guarded by the manager's lock. */
    bool is_overdue;
    /* Whether the model is no longer configured and all its versions have ended. Set by
     * srv_mgr_note_gone_models, on the manager's thread. */
    bool gone;
    /* Whether a request has unloaded the model. The model then has no versions until another
     * request loads it, or until it is no longer configured. Guarded by the manager's lock. */
    bool is_off;
    int64_t since;    /* time since which the model has been configured */
    bool is_empty;    /* whether the last scan that succeeded found no version in the base path */
    int64_t scan_due; /* time since which a scan of the base path is due, or RT_NEVER */
    /* whether the last scan found more than SMALL_NAMES files and directories in the base path, or
     * a large config.pbtxt that has changed */
    bool is_large;
    /* The problem with the base path. The status of a version that still serves contains it, and so
     * does the error for a model without versions. */
    struct srv_problem problem;
    /* The model's config.pbtxt as it was last read without an error, or NULL, and a hash of the
     * status of the file that was last read, or 0. */
    struct srv_triton *triton;
    uint64_t triton_seen;
    int watch; /* inotify watch descriptor of the base path, or -1 */
    struct srv_load_rounds load_rounds;
};

/* A list of models for a log or error message. It contains either the models that did not become
 * available or the models for which startup waits. */
struct srv_unavailable {
    int n;
    size_t used;
    char text[4096]; /* the list, truncated if it is too long */
};

/* ---- the table ---- */

/* Appends formatted text to the list, up to the list's capacity. */
RT_PRINTF(2, 3) void srv_mgr_add_text(struct srv_unavailable *list, const char *fmt, ...);
/* Appends a model to the list. The reason is the state of `why`, or `text` if `why` is NULL. */
void srv_mgr_add_unavailable(struct srv_unavailable *list, const char *model,
                             const struct srv_managed_version *why, const char *text);
/* Appends "MODEL (reason)" to the list, where the reason states why startup waits for the model. */
void srv_mgr_add_awaited(struct srv_unavailable *list, const struct srv_managed *model);
void srv_mgr_wake(struct srv_manager *m);
/* Stores the problem `text`, and logs it if it is new or the pause since the last log line has
 * ended. If there is no problem, `text` is NULL. */
void srv_mgr_set_problem(struct srv_manager *m, struct srv_problem *problem, const char *text);
const char *srv_mgr_state_text(const struct srv_managed_version *e);
/* Changes a version's state as policy.h's table allows, or replaces the reason for the state START
 * or END. The reason for START is why the version is not loaded yet. */
void srv_mgr_set_state(struct srv_manager *m, struct srv_managed_version *e, enum srv_state to,
                       enum rt_status code, const char *text);
/* Changes whether the model's version policy selects a version. */
void srv_mgr_set_wanted(struct srv_manager *m, struct srv_managed_version *e, bool wanted);
/* Updates the manager's readiness after a change of all models. */
void srv_mgr_count_models(struct srv_manager *m);
/* Updates the manager's readiness if --model_wait_seconds have passed for a model. Returns the time
 * at which to call this function again, or RT_NEVER. */
int64_t srv_mgr_note_overdue(struct srv_manager *m, int64_t now);
/* Must be called under the manager's lock after a change of `first_poll_done` or `stopping`. */
void srv_mgr_note_ready(struct srv_manager *m);
struct srv_managed *srv_mgr_find_model(const struct srv_manager *m, const char *name, size_t n);
/* Adds the models of `config`, which may be NULL, that the table does not contain. Does not set
 * their configurations. Readers of the table wait only while its array is replaced. If memory runs
 * out, returns false and leaves the table unchanged. */
bool srv_mgr_add_models(struct srv_manager *m, const struct srv_config *config);
void srv_mgr_free_model(struct srv_managed *model);
void srv_mgr_set_off(struct srv_manager *m, struct srv_managed *model, bool is_off);
/* Returns the index of the first model whose name is `name` or comes after it. */
int srv_mgr_first_model(const struct srv_manager *m, const char *name, size_t n);
/* Returns the index of the first version that is lower than `version`. */
int srv_mgr_first_below(const struct srv_managed *model, int64_t version);
struct srv_managed_version *srv_mgr_find_entry(const struct srv_managed *model, int64_t version);
struct srv_managed_version *srv_mgr_add_entry(struct srv_manager *m, struct srv_managed *model,
                                              int64_t version);
void srv_mgr_forget_old_entries(struct srv_manager *m, struct srv_managed *model);
/* Calls model_gone once for each model that is no longer configured and whose versions have all
 * ended. Removes some of these models if the table has too many. */
void srv_mgr_note_gone_models(struct srv_manager *m);

#endif
