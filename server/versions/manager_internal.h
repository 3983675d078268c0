/*
 * Shared by the manager's files: its tables, and the functions that each file provides for the
 * others. Only those files include this header.
 *
 *   | file            | does                                                            |
 *   |-----------------|-----------------------------------------------------------------|
 *   | manager.c       | the loop; start and stop                                        |
 *   | manager_table.c | models and versions, their states                               |
 *   | manager_watch.c | scans of base paths, fingerprints, wanted and new versions      |
 *   | manager_load.c  | begin and end of a load                                         |
 *   | manager_map.c   | publishes serving maps, retires versions                        |
 *   | manager_unload.c| frees a retired version's memory, on threads of its own         |
 *   | manager_config.c| config file, folder of models, labels, reload requests          |
 *   | status.c        | queries by other threads                                        |
 *
 * Threads: everything here belongs to the manager's thread, except where a lock is named.
 */
#ifndef SRV_MANAGER_INTERNAL_H
#define SRV_MANAGER_INTERNAL_H

#include "runtime/base/thread.h"
#include "server/config/config.h"
#include "server/versions/loader.h"
#include "server/versions/manager.h"
#include "server/batching/io_loop.h"

enum {
    MAX_ENDED = 100,        /* ended versions that a model's status still lists */
    MAX_GONE_MODELS = 1000, /* models without a configuration that are still listed */
    MAX_TAGS = 16,
    RECHECK_MS = 200, /* pause between two looks at a version that is not stable yet */
    /* After a listing of a version's directory, the next one waits this many times the processor
     * time that the listing took: LOOK_SHARE_NEW for a version about to be loaded, LOOK_SHARE for
     * others. A listing of 50,000 files takes 0.1 s. */
    LOOK_SHARE_NEW = 10,
    LOOK_SHARE = 100,
    LOOK_MAX_S = 60,  /* longest pause between two listings */
    UNREST_LOG_S = 5, /* a version whose files change for longer is logged */
    /* interval of the log line that names the models for which the ports stay closed */
    AWAITED_LOG_EVERY_S = 10,
    TRIM_EVERY_MS = 2000,
    AGAIN_MS = 100,          /* pause before a step that ran out of memory is tried again */
    TRIM_AFTER_CLOSED = 256, /* closed connections after which the heap is trimmed */
    TRIM_AFTER_FREED = 512,  /* freed gRPC calls after which the heap is trimmed */
};
#define SECOND  INT64_C(1000000000)
#define MILLION 1000000

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
    struct srv_fingerprint seen; /* while START: the last fingerprint */
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
    struct srv_load *load;    /* set while LOADING */
    struct srv_version *live; /* with LOADING: loaded, and AVAILABLE with the next serving map */
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

struct srv_published {
    struct srv_map map;
    struct rt_arena *arena;
};

/* A grace period after a serving map was published: it holds the previous map and the version that
 * left, until every I/O loop has confirmed that it uses neither. */
struct srv_grace {
    struct srv_grace *next;
    struct srv_manager *manager;
    const struct srv_published *before;
    struct srv_managed *model; /* NULL: only a map is replaced, no version leaves */
    struct srv_managed_version *entry;
    struct srv_version *version;
    atomic_int pending;
    struct srv_retirement retirements[];
};

/* A reload request, from its arrival until its new models are settled. It owns copies of their
 * names, because the config may have been replaced by then. */
struct srv_reload {
    struct srv_reload *next;
    struct srv_config *config;     /* NULL: the manager has taken it */
    const _Atomic bool *cancelled; /* set by the requester to cancel; NULL: never */
    void (*done)(void *arg, enum rt_status status, const struct rt_error *err);
    void *arg;
    struct rt_arena *arena;
    int n_new;
    const char **new_models; /* allocated in `arena` */
};

struct srv_manager {
    struct srv_server *server;
    const struct srv_model_calls *calls;
    struct srv_loader *loader;
    struct srv_unloader *unloader;
    const char *tags[MAX_TAGS];
    char *tags_text;
    int n_tags;
    bool unload_before_load; /* an old version is unloaded before the new one is loaded */
    pthread_t thread;
    int event_fd, inotify_fd; /* inotify_fd is -1 when inotify is not available */
    int folder_watch;

    struct rt_mutex mu;
    struct rt_cond changed;  /* signalled when a state changes, for srv_manager_wait_initial */
    struct srv_load *loaded; /* guarded by mu: loads that have ended, from the load threads */
    /* guarded by mu: grace periods that all I/O loops have confirmed */
    struct srv_grace *confirmed;
    struct srv_grace *freed;        /* guarded by mu: versions that the unload threads have freed */
    struct srv_reload *new_reloads; /* guarded by mu */
    bool stopping;                  /* guarded by mu */
    bool reread;                    /* guarded by mu: the config file is to be read again */
    /* only the manager's thread writes it, under mu; other threads read it under mu */
    int n_models;
    struct srv_managed **models; /* sorted by name; guarded like n_models */
    bool first_poll_done;        /* guarded by mu */

    /* Belongs to the manager's thread: */
    /* the configuration in force: of flags or config file, and of --models */
    struct srv_config *base, *folder;
    struct srv_reload *reload; /* the reload that waits for its new models */
    const struct srv_published *published;
    struct srv_version *by_slot[SRV_MAX_VERSIONS];
    int n_loading, n_graces, n_freeing;
    int64_t next_poll, next_config, next_trim;
    /* Time of another attempt after a step ran out of memory; until then the models' table and the
     * published map lag behind the configuration and the loaded versions. RT_NEVER: nothing
     * lags. */
    int64_t again_at;
    bool trim_pending;
    int64_t next_count, n_accepted, n_closed; /* connections, see count_closed */
    int n_open, n_inherited; /* connections at the last count; sockets that the process inherited */
    int64_t n_calls_freed;   /* freed gRPC calls when the heap was last trimmed */
    size_t n_bursts;         /* rt_heap_bursts() at the last look */
    /* there were bursts at the last look: the heap is trimmed once no more come */
    bool bursts_wait;
    char *folder_trouble, *config_trouble;
};

/* A model is settled once one of its versions serves, or all wanted versions have failed, or the
 * wait for a version to appear or to become stable has ended. With `final`, failures that will be
 * retried do not count as failures. */
enum srv_settled { SRV_WAITING, SRV_SERVES, SRV_FAILED, SRV_MISSING };

/* A list of models for a text: those of "N model(s) did not become available: {...}", or those that
 * the start waits for. */
struct srv_unavailable {
    int n;
    char text[4096]; /* a list that does not fit is truncated */
};

/* ---- manager_table.c ---- */
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

/* ---- manager_map.c ---- */
/* A step of the manager ran out of memory: the loop repeats it soon. */
void srv_mgr_try_again(struct srv_manager *m);
void srv_mgr_free_published(const struct srv_published *p);
struct srv_grace *srv_mgr_grace_new(struct srv_manager *m);
void srv_mgr_swap_map(struct srv_manager *m, struct srv_grace *g, const struct srv_published *p);
bool srv_mgr_publish(struct srv_manager *m, struct srv_managed *model,
                     struct srv_managed_version *entry);
void srv_mgr_end_grace(struct srv_manager *m, struct srv_grace *g);
/* False: out of memory, and the version still serves. */
bool srv_mgr_unload(struct srv_manager *m, struct srv_managed *model,
                    struct srv_managed_version *e);

/* ---- manager_unload.c ---- */
struct srv_unloader *srv_mgr_unloader_new(struct srv_manager *m, int n_threads);
/* call when nothing is being freed; NULL is allowed */
void srv_mgr_unloader_free(struct srv_unloader *u);
void srv_mgr_free_later(struct srv_manager *m, struct srv_grace *g);
void srv_mgr_end_unload(struct srv_manager *m, struct srv_grace *g);

/* ---- manager_load.c ---- */
void srv_mgr_load_done(void *arg, struct srv_load *load);
void srv_mgr_start_load(struct srv_manager *m, struct srv_managed *model,
                        struct srv_managed_version *e);
void srv_mgr_end_load(struct srv_manager *m, struct srv_load *load);

/* ---- manager_watch.c ---- */
/* Resets a failed or ended version to START. */
void srv_mgr_restart(struct srv_manager *m, struct srv_managed_version *e);
void srv_mgr_look_at_entry(struct srv_manager *m, struct srv_managed *model,
                           struct srv_managed_version *e, int64_t now);
void srv_mgr_watch_folder(struct srv_manager *m, const char *path, int *watch);
void srv_mgr_scan_model(struct srv_manager *m, struct srv_managed *model);

/* ---- manager_config.c ---- */
/* Points each model's table entry at its configuration; repeated after a lack of memory. */
void srv_mgr_point_models(struct srv_manager *m);
void srv_mgr_take_configs(struct srv_manager *m, struct srv_config *base,
                          struct srv_config *folder);
enum rt_status srv_mgr_check_labels(const struct srv_manager *m, const struct srv_config *config,
                                    struct rt_error *err);
void srv_mgr_log_config(const struct srv_config *config);
void srv_mgr_poll_config_file(struct srv_manager *m);
void srv_mgr_poll_folder(struct srv_manager *m);
void srv_mgr_check_reload(struct srv_manager *m);
void srv_mgr_end_reload(struct srv_reload *r, enum rt_status status, const struct rt_error *err);
void srv_mgr_take_reload(struct srv_manager *m);

/* ---- status.c ---- */
enum srv_settled srv_mgr_settled(const struct srv_manager *m, const struct srv_managed *model,
                                 bool final, const struct srv_managed_version **why);
/* Appends "MODEL (reason for the wait)". */
void srv_mgr_add_awaited(struct srv_unavailable *list, const struct srv_managed *model);

#endif
