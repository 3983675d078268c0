/*
 * Loads versions on threads of low priority: completeness check, admission by memory, the load
 * itself, and a check whether the files changed meanwhile. The functions that load, validate and
 * free a version are passed in as a table, so that tests need no models.
 *
 * A load may never end by itself: a model's init op or warm-up may loop, a disk may hang. The
 * loader has places for `n_threads` loads. When a load waits and none has begun for
 * SRV_LOAD_PATIENCE_NS, the oldest running load gives up its place: it goes on, but no longer
 * counts among `n_threads`.
 *
 * Threads: submit, relieve and free belong to the manager's thread; `done` is called on a load
 * thread.
 */
#ifndef SRV_LOADER_H
#define SRV_LOADER_H

#include "server/server.h"
#include "server/config/config.h"
#include "server/versions/source.h"

/* Log text for a machine without bfloat16 instructions where precision bf16 is requested. */
#define SRV_NO_BF16                                                                                \
    "precision bf16: this processor has no bfloat16 instructions; only very large matrices are "   \
    "kept in it, all sums and the other weights stay float32"

struct srv_model_calls {
    enum rt_status (*is_complete)(const char *dir, const char *const *tags, int n_tags,
                                  int64_t *weight_bytes, struct rt_error *err);
    enum rt_status (*load)(struct rt_model **out, const char *dir,
                           const struct rt_model_options *options, struct rt_error *err);
    /* Returns whether the version has a warm-up file. NULL: no version has one. */
    bool (*has_warmup)(const char *dir);
    /* Plays the version's warm-up and goldens before the version is published. NULL: neither
     * is played. Setting *cancelled ends it, as options.session.cancelled ends `load`. */
    enum rt_status (*validate)(struct srv_server *s, struct srv_version *v, const char *dir,
                               const _Atomic bool *cancelled, struct rt_error *err);
    void (*free)(struct rt_model *model);
    /* `attach` makes the model queue and the metrics of a version before it is published. `detach`
     * frees them after the version's last handle is gone. */
    enum rt_status (*attach)(struct srv_server *s, struct srv_version *v, struct rt_error *err);
    void (*detach)(struct srv_server *s, struct srv_version *v);
    /* Called when a new model configuration takes effect. NULL: not called. */
    void (*configure)(struct srv_server *s, const struct srv_config *config);
    /* Metrics: `count_load` counts the end of a load, `count_event` a rare event. */
    void (*count_load)(struct srv_server *s, const char *model, const char *dir, bool ok,
                       int64_t ns);
    void (*count_event)(struct srv_server *s, const char *name);
    int64_t (*free_memory)(void); /* rt_machine_free_memory */
};
/* The functions of the real server (model_calls.c). */
extern const struct srv_model_calls srv_model_calls;

#define SRV_LOAD_PATIENCE_NS INT64_C(10000000000)

/* One load. The manager makes it and sets the members above the line before srv_loader_submit; it
 * may set `cancelled` at any time. */
struct srv_load {
    struct srv_load *next;
    void *owner;
    const char *model; /* must outlive the load */
    int64_t version;
    char *dir;                     /* for free() */
    enum srv_maybe bf16;           /* the precision from the model's own configuration */
    struct srv_fingerprint before; /* fingerprint with which the directory was found stable */
    _Atomic bool cancelled; /* the load ends soon with RT_CANCELLED; the manager knows the reason */
    /* ---- set by the loader ---- */
    enum rt_status status;
    struct rt_error err;
    bool left_place;        /* the load gave up its place to another one */
    bool changed;           /* status is RT_ABORTED because the files changed during the load */
    bool over_memory_limit; /* status is RT_RESOURCE_EXHAUSTED, refused before anything was read */
    struct rt_model *loaded;
    /* bytes counted against the limit on all models; returned by srv_loader_release once `loaded`
     * is freed */
    int64_t held;
    int64_t ns;
};

struct srv_loader;
struct srv_loader *srv_loader_new(struct srv_server *server, const struct srv_model_calls *calls,
                                  int n_threads, const char *const *tags, int n_tags,
                                  void (*done)(void *arg, struct srv_load *load), void *arg);
void srv_loader_submit(struct srv_loader *l, struct srv_load *load);
/* Makes a long load give up its place when that is due. Returns the time for the next call;
 * RT_NEVER: not before the next submit. */
int64_t srv_loader_relieve(struct srv_loader *l, int64_t now_ns);
/* Returns the bytes of a freed model, its srv_load.held, to the limit. Any thread. */
void srv_loader_release(struct srv_loader *l, int64_t held);
/* Waits for all loads, including those that have not begun; the caller should cancel them
 * before. */
void srv_loader_free(struct srv_loader *l);

/* Returns the memory that a load of `weight_bytes` of weights is expected to need at its peak. */
int64_t srv_loader_estimate(int64_t weight_bytes);

#endif
