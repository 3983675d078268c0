/*
 * The manager's table: the models that are or were configured, their versions, and the states of
 * the versions. Only the manager's files include this header (manager_internal.h lists them).
 *
 * Owner: the manager.
 * Threads: the manager's thread changes the table, under the manager's lock where a member says so;
 * other threads read those members under the lock.
 */
#ifndef SRV_MANAGER_TABLE_H
#define SRV_MANAGER_TABLE_H

#include "server/config/config.h"
#include "server/versions/loader.h"
#include "server/versions/manager.h"

/* One version of a model; the version is wanted now or was wanted earlier. */
struct srv_managed_version {
    int64_t version;
    /* The members up to `trouble` are written by the manager's thread and read by other threads,
     * both under the manager's lock. */
    enum srv_state state;
    enum rt_status code;
    /* error message; NULL if there is no error, or if `no_message` is set because there was no
     * memory for the message */
    char *message;
    bool no_message;
    bool wanted; /* whether the model's version policy selects the version */
    bool final;  /* whether loading failed and will not be retried until the files change */
    /* the most recently logged warning about the version's directories, or NULL; the version can
     * serve in spite of it */
    char *trouble;

    /* The members below belong to the manager's thread. */
    char *dir;
    /* the last fingerprint of the directory, used while the state is START */
    struct srv_fingerprint seen;
    /* time when the fingerprint `seen` was first taken, or 0 if none has been taken yet */
    int64_t seen_since;
    bool stable;
    int64_t look_at; /* earliest time at which the directory is listed again */
    bool is_long;    /* whether listing the directory takes longer than LOOK_SHORT_MS */
    /* time when the manager first found the version in the state START, or 0 if it has not done so
     * yet */
    int64_t start_since;
    /* time when the directory was first found missing, or 0 if it exists */
    int64_t missing_since;
    bool unrest_logged;
    /* fingerprint of the files that are served, or whose load failed */
    struct srv_fingerprint at_load;
    bool overwritten; /* whether the log already reports that the served files have changed */
    int n_failures;
    /* number of loads, since the last successful load, that ended because the files changed */
    int n_changed;
    int64_t retry_at;
    struct srv_load *load; /* the running load while the state is LOADING, otherwise NULL */
    /* in the state UNLOADING, the time at which the remaining requests are ended, or RT_NEVER if
     * they are not ended */
    int64_t end_at;
    /* set in the state LOADING once the version is loaded; the next serving map makes the version
     * AVAILABLE */
    struct srv_version *live;
};

struct srv_managed {
    char *name;
    /* the model's configuration, or NULL if the model is no longer configured */
    const struct srv_model_config *config;
    int n_entries, capacity;
    /* the model's versions, highest first; the manager's lock guards the array */
    struct srv_managed_version **entries;
    bool is_initial;
    /* Whether the model is no longer configured and all its versions have ended, as found by
     * srv_mgr_note_gone_models. Belongs to the manager's thread. */
    bool gone;
    int64_t since; /* time since which the model has been configured */
    bool empty_logged;
    int64_t scan_due; /* time since which a scan of the base path is due, or RT_NEVER */
    /* whether the base path held more than SMALL_NAMES files and directories at the last scan */
    bool is_large;
    /* The most recently logged problem with the base path, or NULL if there is none. Each problem
     * is logged only once. The status of versions that continue to serve in spite of the problem
     * contains it. The manager's thread writes this member under the lock. */
    char *trouble;
    int watch; /* inotify watch descriptor of the base path, or -1 if there is no watch */
    struct srv_load_rounds load_rounds; /* the model's loads point to it */
};

/* A list of models for a log or error message: either the models in "N model(s) did not become
 * available: {...}", or those for which startup waits. */
struct srv_unavailable {
    int n;
    size_t used;     /* length of the text */
    char text[4096]; /* text of the list, truncated if it is too long */
};

/* ---- the table ---- */

/* Appends formatted text to the list, and truncates the text at the list's capacity. */
RT_PRINTF(2, 3) void srv_mgr_add_text(struct srv_unavailable *list, const char *fmt, ...);
/* Appends a model to the list. The reason is the state of `why`, or `text` when `why` is NULL. */
void srv_mgr_add_unavailable(struct srv_unavailable *list, const char *model,
                             const struct srv_managed_version *why, const char *text);
void srv_mgr_wake(struct srv_manager *m);
/* Logs the problem `text`, unless *last is the same text, and stores it in *last under the lock. A
 * `text` of NULL means that the problem no longer exists. */
void srv_mgr_log_once(struct srv_manager *m, char **last, const char *text);
const char *srv_mgr_state_text(const struct srv_managed_version *e);
/* Changes a version's state as policy.h's table allows, or replaces the reason for the state START
 * or END. In the state START the reason states why the version is not loaded yet. */
void srv_mgr_set_state(struct srv_manager *m, struct srv_managed_version *e, enum srv_state to,
                       enum rt_status code, const char *text);
struct srv_managed *srv_mgr_find_model(const struct srv_manager *m, const char *name, size_t n);
/* Adds the models of `config` that the table does not list yet, without their configurations.
 * `config` may be NULL, which adds none. Readers of the table wait only while its array is
 * replaced. Returns false and leaves the table unchanged if memory runs out. */
bool srv_mgr_add_models(struct srv_manager *m, const struct srv_config *config);
void srv_mgr_free_model(struct srv_managed *model);
struct srv_managed_version *srv_mgr_find_entry(const struct srv_managed *model, int64_t version);
struct srv_managed_version *srv_mgr_add_entry(struct srv_manager *m, struct srv_managed *model,
                                              int64_t version);
void srv_mgr_forget_old_entries(struct srv_manager *m, struct srv_managed *model);
/* Calls model_gone once for each model that is no longer configured and whose versions have all
 * ended. If the table has too many such models, removes some of them. */
void srv_mgr_note_gone_models(struct srv_manager *m);

#endif
