/*
 * Loads versions on low-priority threads: checks that a version is complete, admits it if memory
 * permits, loads it, and checks whether its files changed during the load. The functions that load,
 * validate and free a version are passed in as a table, so that tests need no models.
 *
 * The loader has slots for `n_threads` loads. A load may never end, because a model's init op or
 * warm-up may loop, or a disk may hang. Therefore, if a load waits and no load has begun for
 * SRV_LOAD_PATIENCE_NS, the oldest running load gives up its slot and continues without one. While
 * such a load runs, SRV_LOAD_HASTE_NS applies instead, so that the delays caused by many endless
 * loads do not add up. At most SRV_LOAD_MAX_RUNNING loads run at a time. If another load waits
 * longer than the above times permit, a running load without a slot is stopped. It belongs to the
 * model with the most running loads, and among these loads it is the one that began first. A
 * stopped load fails with RESOURCE_EXHAUSTED.
 *
 * The order of waiting loads is that of weighted fair queueing, with equal weights for all models.
 * Therefore the loads of one model delay the loads of other models only a little, however many or
 * costly they are. On a virtual clock, each load takes an interval as long as its estimated cost.
 * The interval begins when that of the model's previous load ends, but not before the start of the
 * latest interval whose load has begun to run. The load whose interval ends first is the first to
 * run. If there are two slots or more, one is kept for loads whose estimated cost is at most
 * SRV_LOAD_CHEAP_NS, so that these loads do not wait until a costly load ends.
 *
 * The estimated cost of a load is the processor time that its model's previous load took, or
 * SRV_LOAD_UNKNOWN_NS if the model has not been loaded before. The estimate is corrected when the
 * load ends, and to SRV_LOAD_PATIENCE_NS when it gives up its slot. Therefore the new versions of
 * models that are known to load quickly come before models that have just appeared, and a model
 * whose load does not end comes after both when it is loaded again.
 *
 * Memory: all models share the budget srv_server.model_memory. An estimate decides whether a load
 * is admitted. The load may then take all memory that is left in the budget
 * (runtime/session/account.h).
 *
 * Threads: submit, relieve and free must be called on the manager's thread; `done` is called on a
 * load thread.
 */
#ifndef SRV_LOADER_H
#define SRV_LOADER_H

#include "server/server.h"
#include "server/config/config.h"
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
    /* Returns the GPU on which the next version is to be loaded, or NULL for the CPU. A NULL
     * pointer means that no version uses a GPU. */
    struct rt_device *(*choose_gpu)(struct srv_server *s);
    /* Returns whether the version has a warm-up file. A NULL pointer means that no version has
     * one. */
    bool (*has_warmup)(const char *dir);
    /* Replays the version's warm-up and goldens before the version is published. A NULL pointer
     * means that neither is replayed. If *cancelled becomes true, the replay ends early. The option
     * session.cancelled ends `load` early in the same way. */
    enum rt_status (*validate)(struct srv_server *s, struct srv_version *v, const char *dir,
                               const _Atomic bool *cancelled, struct rt_error *err);
    void (*free)(struct rt_model *model);
    /* Ends the requests of a version that is being unloaded, so that its last handle is
     * released. */
    void (*end)(struct rt_model *model);
    /* `attach` creates the model queue and the metrics of a version before it is published;
     * `detach` frees both after the version's last handle has been released. */
    enum rt_status (*attach)(struct srv_server *s, struct srv_version *v, struct rt_error *err);
    void (*detach)(struct srv_server *s, struct srv_version *v);
    /* Called when a new model configuration takes effect. The function pointer may be NULL. */
    void (*configure)(struct srv_server *s, const struct srv_config *config);
    /* These functions update metrics: `count_load` counts the end of a load, and `count_event`
     * counts a rare event. */
    void (*count_load)(struct srv_server *s, const char *model, const char *dir, bool ok,
                       int64_t ns);
    void (*count_event)(struct srv_server *s, const char *name);
    /* Called when a model is no longer configured and its last version has ended. */
    void (*model_gone)(struct srv_server *s, const char *model);
    int64_t (*free_memory)(void); /* returns the machine's free memory in bytes */
};
/* The functions that the real server passes to the manager (model_calls.c). */
extern const struct srv_model_calls srv_model_calls;

#define SRV_LOAD_PATIENCE_NS INT64_C(10000000000)
#define SRV_LOAD_HASTE_NS    INT64_C(1000000000)
#define SRV_LOAD_UNKNOWN_NS  INT64_C(1000000000)
#define SRV_LOAD_CHEAP_NS    (SRV_LOAD_UNKNOWN_NS + INT64_C(20000000))
enum { SRV_LOAD_MAX_RUNNING = 256 };

/* What the loader knows about a model. All loads of a model point to the same struct, which the
 * manager allocates, initially zero. Only the loader accesses the members, under its lock. */
struct srv_load_history {
    /* end of the interval of the model's latest load on the loader's virtual clock */
    int64_t turn_end_ns;
    /* Processor time of the model's latest load that ended. SRV_LOAD_PATIENCE_NS if its latest load
     * has given up its slot and not ended, or was stopped. 0 if the model has not been loaded. */
    int64_t cost_ns;
    int n_running; /* number of the model's running loads */
};

/* One load. Before srv_loader_submit the manager allocates it and sets the members up to
 * `cancelled`; the manager may set `cancelled` at any time. */
struct srv_load {
    void *owner;
    const char *model; /* the model's name; must outlive the load */
    int64_t version;
    char *dir;                     /* path of the version's directory, allocated by malloc */
    enum srv_maybe bf16;           /* whether the model's own configuration sets precision bf16 */
    struct srv_fingerprint before; /* fingerprint of the directory when it was found stable */
    int64_t list_cost_ns;          /* processor time of listing the directory once */
    struct srv_load_history *history; /* the model's history; must outlive the load */
    /* set by the manager to end the load early with RT_CANCELLED; the manager itself reports the
     * reason */
    _Atomic bool cancelled;
    /* ---- set by the loader ---- */
    struct srv_load *next, *previous;
    int64_t cost_ns;                    /* estimated processor time of the load */
    int64_t turn_begin_ns, turn_end_ns; /* the load's interval on the virtual clock */
    int64_t begun_ns;                   /* monotonic time when the load began to run */
    enum rt_status status;
    struct rt_error err;
    bool left_place; /* whether the load has given up its slot to another load */
    /* Whether the loader has stopped the load, by setting `cancelled`, because too many loads ran.
     * A load thread reads this member only if `cancelled` is true. */
    bool stopped;
    bool changed; /* whether `status` is RT_ABORTED because the files changed during the load */
    /* fingerprint of the directory after the load; set only if `changed` is true */
    struct srv_fingerprint after;
    /* whether `status` is RT_RESOURCE_EXHAUSTED because the model needs more memory than the
     * machine has free or --total_model_memory_limit_bytes leaves */
    bool over_memory_limit;
    struct rt_model *loaded;
    /* The model's account in the memory budget of all models, or NULL if the load was refused. The
     * account must be freed after `loaded`. */
    struct rt_account *account;
    int64_t ns;
};

struct srv_loader;
struct srv_loader *srv_loader_new(struct srv_server *server, const struct srv_model_calls *calls,
                                  int n_threads, const char *const *tags, int n_tags,
                                  void (*done)(void *arg, struct srv_load *load), void *arg);
void srv_loader_submit(struct srv_loader *l, struct srv_load *load);
/* If another load waits and no load has begun for too long, makes the oldest running load give up
 * its slot, and stops a load if as many as possible run. Returns the time at which to call this
 * function again, or RT_NEVER if no call is needed before the next submit. */
int64_t srv_loader_relieve(struct srv_loader *l, int64_t now_ns);
/* Waits for all loads, including those that have not begun, and frees the loader. The caller
 * should cancel the loads first. */
void srv_loader_free(struct srv_loader *l);

/* Returns the estimated peak memory in bytes of a load whose weights take `weight_bytes` bytes. */
int64_t srv_loader_estimate(int64_t weight_bytes);

#endif
