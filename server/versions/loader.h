/*
 * Loads versions on threads of low priority: completeness, admission by memory, the load itself,
 * and a look whether the files changed meanwhile. What a load, a version's parts and their end
 * mean comes in as a table of calls, so that tests do without models.
 *
 * A load may take long without end of its own: a model's init op or warm-up that loops, files on a
 * disk that hangs. When one waits and none has begun for SRV_LOAD_PATIENCE_NS, the oldest of those
 * that go on leaves its place: it goes on, and does not count among `n_threads` any more.
 *
 * Threads: submit, relieve and free from the manager's thread; `done` is called on a load thread.
 */
#ifndef SRV_LOADER_H
#define SRV_LOADER_H

#include "server/server.h"
#include "server/config/config.h"
#include "server/versions/source.h"

/* What is said where bfloat16 is asked for. */
#define SRV_NO_BF16                                                                                \
    "precision bf16: this processor has no bfloat16 instructions; only very large matrices are "   \
    "kept in it, all sums and the other weights stay float32"

struct srv_model_calls {
    enum rt_status (*is_complete)(const char *dir, const char *const *tags, int n_tags,
                                  int64_t *weight_bytes, struct rt_error *err);
    enum rt_status (*load)(struct rt_model **out, const char *dir,
                           const struct rt_model_options *options, struct rt_error *err);
    /* Whether the version brings requests to be warmed up with. NULL: no version does. */
    bool (*has_warmup)(const char *dir);
    /* Before anybody may see it: its warm-up and its goldens. NULL: neither. True in *cancelled
     * is to end it, as in options.session.cancelled of `load`. */
    enum rt_status (*validate)(struct srv_server *s, struct srv_version *v, const char *dir,
                               const _Atomic bool *cancelled, struct rt_error *err);
    void (*free)(struct rt_model *model);
    /* Makes lane and metrics of a version before it is published; undoes it after its last handle
     * is gone. */
    enum rt_status (*attach)(struct srv_server *s, struct srv_version *v, struct rt_error *err);
    void (*detach)(struct srv_server *s, struct srv_version *v);
    /* Another configuration of models holds from now on. NULL: nobody asks. */
    void (*configure)(struct srv_server *s, const struct srv_config *config);
    /* For the metrics: a load has ended; something rare has happened. */
    void (*count_load)(struct srv_server *s, const char *model, const char *dir, bool ok,
                       int64_t ns);
    void (*count_event)(struct srv_server *s, const char *name);
    int64_t (*free_memory)(void); /* rt_machine_free_memory */
};
/* The real ones. */
extern const struct srv_model_calls srv_model_calls;

#define SRV_LOAD_PATIENCE_NS INT64_C(10000000000)

/* One load. Made by the manager: it sets what is above the line before submit, and `cancelled` at
 * any time. */
struct srv_load {
    struct srv_load *next;
    void *owner;
    const char *model; /* must outlive the load */
    int64_t version;
    char *dir;                     /* for free() */
    enum srv_maybe bf16;           /* the model's own wish */
    struct srv_fingerprint before; /* as when it was found stable */
    _Atomic bool cancelled;        /* it ends soon, with RT_CANCELLED; why, the manager knows */
    /* ---- */
    enum rt_status status;
    struct rt_error err;
    bool left_place;        /* the loader's: others may go on in its place */
    bool changed;           /* status is RT_ABORTED: the files changed while they were read */
    bool over_memory_limit; /* status is RT_RESOURCE_EXHAUSTED: refused before anything was read */
    struct rt_model *loaded;
    int64_t held; /* of the limit on all models; to be given back when `loaded` is freed */
    int64_t ns;
};

struct srv_loader;
struct srv_loader *srv_loader_new(struct srv_server *server, const struct srv_model_calls *calls,
                                  int n_threads, const char *const *tags, int n_tags,
                                  void (*done)(void *arg, struct srv_load *load), void *arg);
void srv_loader_submit(struct srv_loader *l, struct srv_load *load);
/* Has a load that goes on leave its place when it is time for that; returns when to ask again,
 * RT_NEVER: not before the next submit. */
int64_t srv_loader_relieve(struct srv_loader *l, int64_t now_ns);
/* A model of that srv_load.held has been freed. Any thread. */
void srv_loader_release(struct srv_loader *l, int64_t held);
/* Waits for all loads, those too that have not begun: they should be cancelled before. */
void srv_loader_free(struct srv_loader *l);

/* What loading that many bytes of weights is taken to need at its peak. */
int64_t srv_loader_estimate(int64_t weight_bytes);

#endif
