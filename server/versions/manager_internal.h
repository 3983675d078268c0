/*
 * What the manager's files share: its tables, and what each file does for the others. Nobody else
 * includes this.
 *
 * | file            | does                                                            |
 * |-----------------|-----------------------------------------------------------------|
 * | manager.c       | the loop; start and stop                                        |
 * | manager_table.c | models and versions, their states                               |
 * | manager_watch.c | scans of base paths, fingerprints: what is wanted, what is new  |
 * | manager_load.c  | what happens when a load begins and ends                        |
 * | manager_map.c   | publishes maps, retires versions                                |
 * | manager_unload.c| gives a retired version's memory back, on threads of its own    |
 * | manager_config.c| config file, folder of models, labels, reload requests          |
 * | status.c        | what others may ask                                             |
 *
 * Threads: everything here is the manager's thread's, except where a lock is named.
 */
#ifndef SRV_MANAGER_INTERNAL_H
#define SRV_MANAGER_INTERNAL_H

#include "runtime/base/thread.h"
#include "server/config/config.h"
#include "server/versions/loader.h"
#include "server/versions/manager.h"
#include "server/batching/io_loop.h"

enum {
    MAX_ENDED = 100,        /* ended versions that a model's status goes on listing */
    MAX_GONE_MODELS = 1000, /* models without a configuration that are still listed */
    MAX_TAGS = 16,
    RECHECK_MS = 200, /* how often a version that is not stable yet is looked at */
    /* A version's directory is listed again only after so many times the processor time that it
     * took: one that is to be loaded, and others (a listing of 50,000 files takes 0.1 s). */
    LOOK_SHARE_NEW = 10,
    LOOK_SHARE = 100,
    LOOK_MAX_S = 60,          /* but after this at the latest */
    UNREST_LOG_S = 5,         /* a version that has been changing for so long is told in the log */
    AWAITED_LOG_EVERY_S = 10, /* what keeps the ports closed */
    TRIM_EVERY_MS = 2000,
    AGAIN_MS = 100,          /* after a step that had no memory */
    TRIM_AFTER_CLOSED = 256, /* connections */
    TRIM_AFTER_FREED = 512,  /* calls of gRPC */
};
#define SECOND  INT64_C(1000000000)
#define MILLION 1000000

/* One version of a model that was ever wanted. */
struct srv_managed_version {
    int64_t version;
    /* Written by the manager under its lock, read by anybody under it: */
    enum srv_state state;
    enum rt_status code;
    char *message; /* NULL: "", or there was no memory for it */
    bool no_message;
    bool wanted; /* by the model's version policy */
    bool final;  /* failed, and only a change of its files leads to another try */

    /* The manager's alone: */
    char *dir;
    struct srv_fingerprint seen; /* while START: what was seen last, */
    int64_t seen_since;          /* and since when; 0: not seen yet */
    bool stable;
    int64_t look_at;       /* not before this is the directory listed again */
    int64_t start_since;   /* in START since; 0: not seen there yet */
    int64_t missing_since; /* its directory could not be found since; 0: it is there */
    bool unrest_logged;
    struct srv_fingerprint at_load; /* of what serves, or of what failed */
    bool overwritten;               /* was told already */
    int n_failures;
    int64_t retry_at;
    struct srv_load *load;    /* while LOADING */
    struct srv_version *live; /* with LOADING: complete, and AVAILABLE with the next map */
};

struct srv_managed {
    char *name;
    const struct srv_model_config *config; /* NULL: not configured any more */
    int n_entries, capacity;
    struct srv_managed_version **entries; /* highest first; the array is guarded by the lock */
    bool is_initial;
    int64_t since; /* when it was configured */
    bool empty_logged;
    char *trouble; /* the last problem with its base path, told once */
    int watch;     /* inotify's, -1: none */
};

struct srv_published {
    struct srv_map map;
    struct rt_arena *arena;
};

/* After a map was published: the one before it, and the version that left, until all nets have
 * answered. */
struct srv_grace {
    struct srv_grace *next;
    struct srv_manager *manager;
    const struct srv_published *before;
    struct srv_managed *model; /* NULL: only the map */
    struct srv_managed_version *entry;
    struct srv_version *version;
    atomic_int pending;
    struct srv_retirement retirements[];
};

/* A reload request: until it is taken, then until its new models are settled. Its names are its
 * own, for the config may have been replaced by then. */
struct srv_reload {
    struct srv_reload *next;
    struct srv_config *config;     /* NULL: the manager has it */
    const _Atomic bool *cancelled; /* by who asked for it; NULL: never */
    void (*done)(void *arg, enum rt_status status, const struct rt_error *err);
    void *arg;
    struct rt_arena *arena;
    int n_new;
    const char **new_models; /* in `arena` */
};

struct srv_manager {
    struct srv_server *server;
    const struct srv_model_calls *calls;
    struct srv_loader *loader;
    struct srv_unloader *unloader;
    const char *tags[MAX_TAGS];
    char *tags_text;
    int n_tags;
    bool unload_before_load; /* an old version goes before the new one is loaded */
    pthread_t thread;
    int event_fd, inotify_fd; /* inotify may be -1 */
    int folder_watch;

    struct rt_mutex mu;
    struct rt_cond changed;         /* a state changed, for wait_initial */
    struct srv_load *loaded;        /* guarded by mu: what the load threads have done */
    struct srv_grace *confirmed;    /* guarded by mu: what all nets have answered */
    struct srv_grace *freed;        /* guarded by mu: what the unload threads have done */
    struct srv_reload *new_reloads; /* guarded by mu */
    bool stopping;                  /* guarded by mu */
    bool reread;                    /* guarded by mu: the config file is to be read again */
    int n_models;                   /* guarded by mu for readers, written by the manager's thread */
    struct srv_managed **models;    /* sorted by name; likewise */
    bool first_poll_done;           /* guarded by mu */

    /* The manager's thread alone: */
    struct srv_config *base, *folder; /* what is wanted now */
    struct srv_reload *reload;        /* waiting for its new models */
    const struct srv_published *published;
    struct srv_version *by_slot[SRV_MAX_VERSIONS];
    int n_loading, n_graces, n_freeing;
    int64_t next_poll, next_config, next_trim;
    /* When what had no memory is tried again: the models' table and the published map are behind
     * the configuration and the loaded versions until then. RT_NEVER: they are not. */
    int64_t again_at;
    bool trim_pending;
    int64_t next_count, n_accepted, n_closed; /* connections, see count_closed */
    int n_open, n_inherited; /* connections as of the last look; sockets that never were ours */
    int64_t n_calls_freed;   /* when the heap was trimmed */
    size_t n_bursts;         /* of the runs, as of the last look */
    bool bursts_wait;        /* some have been: the heap is trimmed once none comes any more */
    char *folder_trouble, *config_trouble;
};

/* A model has been settled once one of its versions serves, or all that are wanted have failed, or
 * none came in time, or came to rest. `final`: failures that will be tried again by themselves do
 * not count. */
enum srv_settled { SRV_WAITING, SRV_SERVES, SRV_FAILED, SRV_MISSING };

/* The models of "N model(s) did not become available: {...}", or those that are waited for. */
struct srv_unavailable {
    int n;
    char text[4096]; /* cut at its end */
};

/* ---- manager_table.c ---- */
/* `why` NULL: `text` is the reason. */
void srv_mgr_add_unavailable(struct srv_unavailable *list, const char *model,
                             const struct srv_managed_version *why, const char *text);
void srv_mgr_wake(struct srv_manager *m);
void srv_mgr_log_once(char **last, const char *text);
const char *srv_mgr_state_text(const struct srv_managed_version *e);
/* A move that policy.h's table allows, or END once more for another reason. */
void srv_mgr_set_state(struct srv_manager *m, struct srv_managed_version *e, enum srv_state to,
                       enum rt_status code, const char *text);
struct srv_managed *srv_mgr_find_model(const struct srv_manager *m, const char *name, size_t n);
/* Lists the models of `config` (NULL: none) that are not listed yet, without a configuration.
 * Only the manager's thread changes the table, so that thread merges the two sorted lists without
 * the lock; readers wait only for the exchange of the array. False: out of memory, and the table
 * is unchanged. */
bool srv_mgr_add_models(struct srv_manager *m, const struct srv_config *config);
void srv_mgr_free_model(struct srv_managed *model);
struct srv_managed_version *srv_mgr_find_entry(const struct srv_managed *model, int64_t version);
struct srv_managed_version *srv_mgr_add_entry(struct srv_manager *m, struct srv_managed *model,
                                              int64_t version);
void srv_mgr_forget_old_entries(struct srv_manager *m, struct srv_managed *model);
void srv_mgr_forget_gone_models(struct srv_manager *m);

/* ---- manager_map.c ---- */
/* A step of the manager had no memory: the loop takes it again soon. */
void srv_mgr_try_again(struct srv_manager *m);
void srv_mgr_free_published(const struct srv_published *p);
struct srv_grace *srv_mgr_grace_new(struct srv_manager *m);
void srv_mgr_swap_map(struct srv_manager *m, struct srv_grace *g, const struct srv_published *p);
bool srv_mgr_publish(struct srv_manager *m, struct srv_managed *model,
                     struct srv_managed_version *entry);
void srv_mgr_end_grace(struct srv_manager *m, struct srv_grace *g);
/* False: out of memory, the version still serves. */
bool srv_mgr_unload(struct srv_manager *m, struct srv_managed *model,
                    struct srv_managed_version *e);

/* ---- manager_unload.c ---- */
struct srv_unloader *srv_mgr_unloader_new(struct srv_manager *m, int n_threads);
void srv_mgr_unloader_free(struct srv_unloader *u); /* when nothing is being freed; NULL is fine */
void srv_mgr_free_later(struct srv_manager *m, struct srv_grace *g);
void srv_mgr_end_unload(struct srv_manager *m, struct srv_grace *g);

/* ---- manager_load.c ---- */
void srv_mgr_load_done(void *arg, struct srv_load *load);
void srv_mgr_start_load(struct srv_manager *m, struct srv_managed *model,
                        struct srv_managed_version *e);
void srv_mgr_end_load(struct srv_manager *m, struct srv_load *load);

/* ---- manager_watch.c ---- */
/* A failed or ended version gets another chance. */
void srv_mgr_restart(struct srv_manager *m, struct srv_managed_version *e);
void srv_mgr_look_at_entry(struct srv_manager *m, struct srv_managed *model,
                           struct srv_managed_version *e, int64_t now);
void srv_mgr_watch_folder(struct srv_manager *m, const char *path, int *watch);
void srv_mgr_scan_model(struct srv_manager *m, struct srv_managed *model);

/* ---- manager_config.c ---- */
/* Each model's table entry gets what is configured for it; again after a lack of memory. */
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
/* Adds "MODEL (what it waits for)". */
void srv_mgr_add_awaited(struct srv_unavailable *list, const struct srv_managed *model);

#endif
