/*
 * Declarations shared by the manager's files: the manager struct, and the functions that each file
 * provides to the others. Only those files include this header. The manager's table of models is in
 * manager_table.h.
 *
 *   | file               | purpose                                                             |
 *   |--------------------|---------------------------------------------------------------------|
 *   | manager.c          | runs the loop, and starts and stops the manager                     |
 *   | manager_table.c    | stores the models and versions with their states                    |
 *   | manager_watch.c    | scans base paths, takes fingerprints, finds wanted and new versions |
 *   | manager_load.c     | begins and ends loads                                               |
 *   | manager_map.c      | publishes serving maps and retires versions                         |
 *   | manager_unload.c   | frees the memory of retired versions on its own threads             |
 *   | manager_config.c   | handles the config file, the models' folder, labels and reloads     |
 *   | manager_switch.c   | loads and unloads models by request                                 |
 *   | manager_snapshot.c | writes snapshots of versions on a thread of its own                 |
 *   | status.c           | answers queries by other threads                                    |
 *
 * Threads: everything here belongs to the manager's thread, except where a lock is named.
 */
#ifndef SRV_MANAGER_INTERNAL_H
#define SRV_MANAGER_INTERNAL_H

#include "runtime/base/heap.h"
#include "runtime/base/thread.h"
#include "server/config/config.h"
#include "server/versions/lister.h"
#include "server/versions/loader.h"
#include "server/versions/manager.h"
#include "server/versions/manager_snapshot.h"
#include "server/versions/manager_switch.h"
#include "server/versions/manager_table.h"
#include "server/batching/io_loop.h"

enum {
    MAX_TAGS = 16,
    RECHECK_MS = 200, /* time between two checks of a version that is not stable yet */
    /* The pause between two listings of a version's directory, as a multiple of the processor time
     * of a listing. LOOK_SHARE_NEW applies to a version that is about to be loaded, and LOOK_SHARE
     * applies to all other versions. A listing of 50,000 files takes 0.1 s. */
    LOOK_SHARE_NEW = 10,
    LOOK_SHARE = 100,
    LOOK_MAX_S = 60, /* maximum time between two listings of a version's directory */
    /* The lister (lister.h) performs listings that take longer than LOOK_SHORT_MS. A listing of
     * 1,000 files takes 2 ms. */
    LOOK_SHORT_MS = 2,
    /* A base path with more than SMALL_NAMES files and directories is large. Large base paths are
     * scanned after all others, in the order in which their scans became due, until the scans
     * together have taken SCAN_LARGE_MS. Then no large base path is scanned for SCAN_PAUSE times
     * this duration. A scan of 65,536 names takes about 40 ms. */
    SMALL_NAMES = 256,
    SCAN_LARGE_MS = 100,
    SCAN_PAUSE = 3,
    /* After each pass, the manager's loop pauses for PASS_PAUSE times the duration of the pass, but
     * at most PASS_PAUSE_MAX_MS. A pass examines all versions. Without the pauses, n loads could
     * cause n passes, whose total time is proportional to the square of n. */
    PASS_PAUSE = 3,
    PASS_PAUSE_MAX_MS = 20,
    /* after this time, the log and the status report that a version's files are still changing or
     * being listed */
    UNREST_LOG_S = 5,
    /* A version fails after this number of consecutive loads during which its files changed. After
     * each such load, the manager pauses before it examines the files again. The pause doubles from
     * CHANGED_PAUSE_MS to CHANGED_PAUSE_MAX_MS. */
    CHANGED_LOADS_MAX = 4,
    CHANGED_PAUSE_MS = 500,
    CHANGED_PAUSE_MAX_MS = 60000,
    /* time between two log lines that name the models for which startup waits */
    AWAITED_LOG_EVERY_S = 10,
    TRIM_EVERY_S = 2,
    AGAIN_MS = 100, /* pause before a step that ran out of memory is repeated */
};
#define SECOND  INT64_C(1000000000)
#define MILLION 1000000
struct srv_published {
    struct srv_map map;
    struct rt_arena *arena;
};

/* A grace period begins when a serving map is published. It ends when every I/O loop has confirmed
 * that it no longer uses the previous map (`before`) or a version that the new map does not contain
 * (`version`). Then the previous map or the version may be freed. */
struct srv_grace {
    struct srv_grace *next;
    struct srv_manager *manager;
    const struct srv_published *before; /* the previous map, or NULL */
    /* model of `version`, or NULL if the grace period is that of the map `before` */
    struct srv_managed *model;
    struct srv_managed_version *entry;
    struct srv_version *version;
    atomic_int pending;
    struct srv_retirement retirements[];
};

/* A reload request. It exists until all its new models are settled (srv_mgr_settled). It owns
 * copies of the models' names, because the config may be replaced meanwhile. */
struct srv_reload {
    struct srv_reload *next;
    /* The requested configuration. NULL after the manager has taken ownership of it. */
    struct srv_config *config;
    /* the requester sets this flag to cancel the reload; may be NULL */
    const _Atomic bool *cancelled;
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
    struct srv_lister *lister;
    const char *tags[MAX_TAGS];
    char *tags_text;
    int n_tags;
    /* whether an old version is unloaded before the new version is loaded */
    bool unload_before_load;
    pthread_t thread;
    int event_fd, inotify_fd; /* inotify_fd is -1 when inotify is not available */
    int folder_watch;

    struct rt_mutex mu;
    /* signalled when a version's state changes, for srv_manager_wait_initial */
    struct rt_cond changed;
    struct srv_load *loaded; /* ended loads, posted by the load threads; guarded by mu */
    /* grace periods that all I/O loops have confirmed; guarded by mu */
    struct srv_grace *confirmed;
    /* grace periods whose version the unload threads have freed; guarded by mu */
    struct srv_grace *freed;
    struct srv_reload *new_reloads;  /* guarded by mu */
    struct srv_switch *new_switches; /* guarded by mu */
    atomic_bool stopping; /* written under mu, and read by any thread; ends passes early */
    bool reread;          /* whether the config file must be read again; guarded by mu */
    struct srv_snapshots *snapshots; /* NULL until the first request; guarded by mu */
    /* number of models; written by the manager's thread and read by other threads, both under mu */
    int n_models;
    int n_entries; /* number of versions of all models; accessed under the same rule */
    /* the models, sorted by name; accessed under the same rule as n_models */
    struct srv_managed **models;
    bool first_poll_done; /* guarded by mu */
    /* the sum of the models' `counted`; guarded by mu */
    struct srv_readiness readiness;
    /* Whether the models and the manager are ready. Written under mu, and read by any thread. */
    atomic_bool is_ready;

    /* The members below belong to the manager's thread. */
    /* The current configuration. `base` comes from the flags, the config file or a reload, and
     * `folder` from --models. */
    struct srv_config *base, *folder;
    /* the current reload, until all its new models are settled (srv_mgr_settled) */
    struct srv_reload *reload;
    struct srv_switch *switches; /* requests that wait for their model, oldest first */
    const struct srv_published *published;
    /* Whether a new serving map must be published, because versions have been loaded or must be
     * unloaded. The manager's loop publishes one map for all these changes. */
    bool must_publish;
    /* grace periods of versions that the next map does not contain, linked by `next` */
    struct srv_grace *leaving;
    /* ended grace periods of versions of which a snapshot is being written */
    struct srv_grace *held;
    int n_loading, n_graces, n_freeing;
    uint64_t n_loads; /* number of loads that have begun */
    int64_t next_poll, next_config, next_trim;
    int64_t next_large; /* earliest time at which a large base path is scanned */
    /* Time at which to repeat a step that ran out of memory, or RT_NEVER if no step failed. Until
     * then, the table of models may lag behind the configuration, and the published map may lag
     * behind the loaded versions. */
    int64_t again_at;
    bool frees_itself; /* whether the manager's own thread frees versions */
    bool trim_pending; /* whether a version was freed since the heap was last trimmed */
    struct rt_heap_trims trims;
    struct srv_problem folder_problem, config_problem;
};

/* Returns whether a model is settled. A model is settled when one of its versions serves, all
 * wanted versions have failed, or the wait for a version to appear or to become stable has ended.
 * If `final` is set, failures that will be retried do not count. */
enum srv_settled { SRV_WAITING, SRV_SERVES, SRV_FAILED, SRV_MISSING };

/* ---- manager_map.c ---- */
/* Makes the manager repeat a step that ran out of memory, after a pause. */
void srv_mgr_try_again(struct srv_manager *m);
void srv_mgr_free_published(const struct srv_published *p);
struct srv_grace *srv_mgr_grace_new(struct srv_manager *m);
void srv_mgr_swap_map(struct srv_manager *m, struct srv_grace *g, const struct srv_published *p);
/* Publishes a map of all loaded versions that must not be unloaded, and makes these versions
 * AVAILABLE. If memory runs out, returns false without any change, and the manager's loop tries
 * again. */
bool srv_mgr_publish(struct srv_manager *m);
void srv_mgr_end_grace(struct srv_manager *m, struct srv_grace *g);
/* Begins to unload a version, which the next published map does not contain. If memory runs out,
 * returns false, and the version continues to serve. */
bool srv_mgr_unload(struct srv_manager *m, struct srv_managed *model,
                    struct srv_managed_version *e);

/* Ends the requests of versions that have been UNLOADING for longer than the default deadline.
 * Returns the time at which to call this function again. */
int64_t srv_mgr_end_requests(struct srv_manager *m, int64_t now);

/* ---- manager_unload.c ---- */
struct srv_unloader *srv_mgr_unloader_new(struct srv_manager *m, int n_threads);
/* Stops the unload threads and frees `u`, which may be NULL. No version may be waiting to be
 * freed. */
void srv_mgr_unloader_free(struct srv_unloader *u);
void srv_mgr_free_later(struct srv_manager *m, struct srv_grace *g);
void srv_mgr_end_unload(struct srv_manager *m, struct srv_grace *g);
/* Frees the struct of a version that was never published, or whose model an unload thread has
 * already freed. */
void srv_mgr_free_version(struct srv_version *v);

/* ---- manager_load.c ---- */
void srv_mgr_load_done(void *arg, struct srv_load *load);
void srv_mgr_start_load(struct srv_manager *m, struct srv_managed *model,
                        struct srv_managed_version *e);
void srv_mgr_end_load(struct srv_manager *m, struct srv_load *load);

/* ---- manager_watch.c ---- */
/* Resets a failed or ended version to START. */
void srv_mgr_restart(struct srv_manager *m, struct srv_managed_version *e);
/* Lists the versions' directories whose listings are due, and changes the versions' states. If
 * `only_new` is set, only considers versions that are not stable yet or must be retried. */
void srv_mgr_look_at_entries(struct srv_manager *m, bool only_new, int64_t now);
void srv_mgr_watch_folder(struct srv_manager *m, const char *path, int *watch);
/* Scans the base paths that are due (scan_due), within the limit SCAN_LARGE_MS. Returns the
 * earliest time at which a waiting large base path may be scanned, or RT_NEVER if none waits. */
int64_t srv_mgr_scan_models(struct srv_manager *m, int64_t now);

/* ---- manager_config.c ---- */
/* Sets the configuration of each model in the table. If memory runs out, the manager's loop tries
 * again later. */
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

#endif
