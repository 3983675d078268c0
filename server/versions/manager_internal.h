/*
 * Shared by the manager's files: the manager itself, and the functions that each file provides for
 * the others. Only those files include this header. The manager's table of models is in
 * manager_table.h.
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
#include "server/versions/manager_table.h"
#include "server/batching/io_loop.h"

enum {
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
