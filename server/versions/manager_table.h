/*
 * The manager's table: the models that are or were configured, their versions, and the states of
 * these. Only the manager's files include this header (manager_internal.h lists them).
 *
 * Owner: the manager. Threads: the manager's thread changes the table, under the manager's lock
 * where a member says so; other threads read those members under the lock.
 */
#ifndef SRV_MANAGER_TABLE_H
#define SRV_MANAGER_TABLE_H

#include "server/config/config.h"
#include "server/versions/loader.h"
#include "server/versions/manager.h"

/* One version of a model that is or was wanted. */
struct srv_managed_version {
    int64_t version;
    /* Written by the manager's thread under its lock, read by any thread under the lock: */
    enum srv_state state;
    enum rt_status code;
    char *message; /* NULL: "", or `no_message`: there was no memory for the text */
    bool no_message;
    bool wanted; /* wanted by the model's version policy */
    bool final;  /* failed, and only a change of the files leads to another attempt */

    /* Belongs to the manager's thread: */
    char *dir;
    struct srv_fingerprint seen; /* the last fingerprint; used in the state START */
    int64_t seen_since; /* time since which the fingerprint is `seen`; 0: none was taken yet */
    bool stable;
    int64_t look_at;       /* the directory is not listed again before this time */
    int64_t start_since;   /* time since which the state is START; 0: not seen in START yet */
    int64_t missing_since; /* time since which the directory has been missing; 0: it exists */
    bool unrest_logged;
    struct srv_fingerprint at_load; /* fingerprint of the served files, or of those that failed */
    bool overwritten;               /* the change of the served files was logged */
    int n_failures;
    int64_t retry_at;
    struct srv_load *load; /* set while LOADING */
    /* set in LOADING once the version is loaded; AVAILABLE with the next serving map */
    struct srv_version *live;
};

struct srv_managed {
    char *name;
    const struct srv_model_config *config; /* NULL: not configured any more */
    int n_entries, capacity;
    struct srv_managed_version **entries; /* highest version first; the lock guards the array */
    bool is_initial;
    int64_t since; /* time when the model was configured */
    bool empty_logged;
    char *trouble; /* last problem with the base path, logged once */
    int watch;     /* inotify watch of the base path; -1: none */
};

/* A list of models for a text: those of "N model(s) did not become available: {...}", or those that
 * the start waits for. */
struct srv_unavailable {
    int n;
    char text[4096]; /* a list that does not fit is truncated */
};

/* ---- the table ---- */

/* Appends a model. The reason is the state of `why`, or `text` when `why` is NULL. */
void srv_mgr_add_unavailable(struct srv_unavailable *list, const char *model,
                             const struct srv_managed_version *why, const char *text);
void srv_mgr_wake(struct srv_manager *m);
void srv_mgr_log_once(char **last, const char *text);
const char *srv_mgr_state_text(const struct srv_managed_version *e);
/* Changes the state as policy.h's table allows, or replaces the reason of END. */
void srv_mgr_set_state(struct srv_manager *m, struct srv_managed_version *e, enum srv_state to,
                       enum rt_status code, const char *text);
struct srv_managed *srv_mgr_find_model(const struct srv_manager *m, const char *name, size_t n);
/* Adds the models of `config` (NULL: none) that the table does not list yet, without a
 * configuration. Only the manager's thread changes the table, so that thread merges the two sorted
 * lists without the lock; readers wait only for the exchange of the array. False: out of memory,
 * and the table is unchanged. */
bool srv_mgr_add_models(struct srv_manager *m, const struct srv_config *config);
void srv_mgr_free_model(struct srv_managed *model);
struct srv_managed_version *srv_mgr_find_entry(const struct srv_managed *model, int64_t version);
struct srv_managed_version *srv_mgr_add_entry(struct srv_manager *m, struct srv_managed *model,
                                              int64_t version);
void srv_mgr_forget_old_entries(struct srv_manager *m, struct srv_managed *model);
void srv_mgr_forget_gone_models(struct srv_manager *m);

#endif
