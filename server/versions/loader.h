/*
 * Loads versions on low-priority threads. A load checks that the version is complete, admits it if
 * memory permits, loads it, and checks whether its files changed meanwhile. The functions that
 * load, validate and free a version are in a table, so that tests need no models.
 *
 * load_queue.h decides which load begins next, and which one must make way for others. The used
 * time of a load is the processor time of its thread, and the time for which the thread was blocked
 * while other loads waited. A run of a load that begins to wait says so (rt_wait_hook). Time for
 * which the thread waited for a processor does not count. A load that makes way is stopped and
 * begins again later. The manager and the users do not notice the interruption. The stopped load
 * loses its slot at once. The load still occupies its thread until it ends. A load may take long to
 * end if a disk hangs.
 *
 * Memory: all models share the budget srv_server.model_memory. An estimate decides whether a load
 * is admitted. The load may then take all memory that is left in the budget
 * (runtime/session/account.h).
 *
 * Threads: all functions must be called on the manager's thread. `done` is called on a load thread.
 * For a load that ends before it has begun, `done` is called on the manager's thread.
 */
#ifndef SRV_LOADER_H
#define SRV_LOADER_H

#include "runtime/core/run.h"
#include "server/server.h"
#include "server/config/config.h"
#include "server/versions/load_queue.h"
#include "server/versions/source.h"

/* Logged when precision bf16 is requested on a machine without bfloat16 instructions. */
#define SRV_NO_BF16                                                                                \
    "precision bf16: this processor has no bfloat16 instructions; only very large matrices are "   \
    "kept in it, all sums and the other weights stay float32"

struct srv_model_calls {
    enum rt_status (*is_complete)(const char *dir, const char *const *tags, int n_tags,
                                  const struct rt_check *check, int64_t *weight_bytes,
                                  struct rt_error *err);
    enum rt_status (*load)(struct rt_model **out, const char *dir,
                           const struct rt_model_options *options, struct rt_error *err);
    /* Returns whether the version has a warm-up file. If has_warmup is NULL, no version has a
     * warm-up file. */
    bool (*has_warmup)(const char *dir);
    /* Reads the version's batching parameters into v->batching, and replays the version's warm-up
     * and goldens before the version is published. If `validate` is NULL, does neither. If
     * *cancelled becomes true, the replay ends early. The function `load` ends early if its option
     * session.cancelled becomes true. */
    enum rt_status (*validate)(struct srv_server *s, struct srv_version *v, const char *dir,
                               const _Atomic bool *cancelled, struct rt_error *err);
    void (*free)(struct rt_model *model);
    /* Ends the requests of a version that is being unloaded, so that its handles are released. */
    void (*end)(struct rt_model *model);
    /* `attach` creates a version's model queue and metrics before the version is published. It
     * reads no files, because it is called on the manager's thread, which serves all models.
     * `retire` is called when the version has left the map, and no new requests will find it.
     * `detach` frees what `attach` made after the version's last handle has been released. */
    enum rt_status (*attach)(struct srv_server *s, struct srv_version *v, struct rt_error *err);
    void (*retire)(struct srv_server *s, struct srv_version *v);
    void (*detach)(struct srv_server *s, struct srv_version *v);
    /* Called when a new model configuration takes effect. May be NULL. */
    void (*configure)(struct srv_server *s, const struct srv_config *config);
    /* count_load counts the end of a load, and count_event counts a rare event. */
    void (*count_load)(struct srv_server *s, const char *model, const char *dir, bool ok,
                       int64_t ns);
    void (*count_event)(struct srv_server *s, const char *name);
    /* Called when a model is no longer configured and all its versions have ended. */
    void (*model_gone)(struct srv_server *s, const char *model);
    int64_t (*free_memory)(void); /* returns the machine's free memory in bytes */
};
/* The server's own table of functions (model_calls.c). */
extern const struct srv_model_calls srv_model_calls;

struct srv_load_thread;

/* One load. Before srv_loader_submit, the manager allocates it, zeroes it, and sets `queued.rounds`
 * and the members up to `before`. */
struct srv_load {
    struct srv_queued_load queued; /* position in the queue; guarded by the loader's lock */
    void *owner;
    const char *model; /* must outlive the load */
    int64_t version;
    char *dir;                     /* path of the version's directory, allocated by malloc */
    enum srv_maybe bf16;           /* whether the model's own configuration selects bf16 */
    struct srv_gpu_use gpu_config; /* what the server's configuration says about GPUs */
    /* The load's number, which no other load has. The versions that the load replaces have promised
     * it their memory on GPUs. */
    uint64_t number;
    struct srv_fingerprint before; /* fingerprint of the directory when it was found stable */
    /* ---- set by the loader ---- */
    /* set by the manager to end the load early with RT_CANCELLED */
    _Atomic bool cancelled;
    bool unwanted; /* whether srv_loader_cancel was called; guarded by the loader's lock */
    /* whether the load must stop now and begin again later; guarded by the loader's lock */
    bool stopped;
    struct srv_loader *loader;
    struct srv_load_thread *thread; /* guarded by the loader's lock */
    struct rt_wait_hook on_wait;    /* calls the loader when a run of the load begins to wait */
    /* Monotonic time, and processor time of the thread, when a run last began to wait. Guarded by
     * the loader's lock. */
    int64_t wait_ns, wait_cpu_ns;
    struct srv_load *next; /* used by the manager after `done` was called */
    /* Monotonic time, and processor time of the thread, at which the load last began. Guarded by
     * the loader's lock. */
    int64_t begun_ns, begun_cpu_ns;
    int64_t blocked_ns; /* see loader.c; guarded by the loader's lock */
    enum rt_status status;
    struct rt_error err;
    bool changed; /* whether `status` is RT_ABORTED because the files changed during the load */
    /* fingerprint of the directory after the load; set only if `changed` is true */
    struct srv_fingerprint after;
    /* Whether `status` is RT_RESOURCE_EXHAUSTED because the model needs more memory than the
     * machine has free or than --total_model_memory_limit_bytes leaves. */
    bool over_memory_limit;
    struct rt_model *loaded;
    /* The model's account in the memory budget, or NULL if the load was refused. It must be freed
     * after `loaded`. */
    struct rt_account *account;
    /* The model's config.pbtxt, or NULL (server/triton/triton.h). Freed with `account`. */
    struct srv_triton *triton;
    struct srv_gpu_use gpu;              /* `gpu_config` with what config.pbtxt adds */
    const struct srv_batching *batching; /* as in srv_version */
    int64_t ns;
};

struct srv_loader;
/* `n_slots` is the number of slots of each level of the load queue. */
struct srv_loader *srv_loader_new(struct srv_server *server, const struct srv_model_calls *calls,
                                  int n_slots, const char *const *tags, int n_tags,
                                  void (*done)(void *arg, struct srv_load *load), void *arg);
void srv_loader_submit(struct srv_loader *l, struct srv_load *load);
/* Ends the load soon with RT_CANCELLED. If the load has already ended, only sets `unwanted`. */
void srv_loader_cancel(struct srv_loader *l, struct srv_load *load);
/* Stops running loads that have used their slices if other loads wait, and begins loads that have
 * slots. Returns the time at which the caller must call this function again, or RT_NEVER if no
 * call is needed before a load is submitted or ends. */
int64_t srv_loader_advance(struct srv_loader *l, int64_t now_ns);
/* Ends all loads, including those that have not begun, and frees the loader. The caller should
 * cancel the running loads first. */
void srv_loader_free(struct srv_loader *l);

/* Returns the estimated peak memory in bytes of a load whose weights take `weight_bytes` bytes. */
int64_t srv_loader_estimate(int64_t weight_bytes);

#endif
