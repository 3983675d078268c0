/*
 * Declares the members of a session for the higher layers of the runtime, which use its slots, idle
 * pools, packed constants, specialisations and pending compilations. The types of the objects that
 * those layers store in a session are opaque here.
 *
 * This folder calls a higher layer only through the member `compile`, which rt_session_new
 * (runtime/api) sets. The background compiler calls `compile`, and so do runs of a session that
 * compiles inline.
 *
 * Owner: as in session.h. Threads: the comment on each member names the lock that guards it.
 */
#ifndef RT_SESSION_INTERNAL_H
#define RT_SESSION_INTERNAL_H

#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/core/device/device_ledger.h"
#include "runtime/session/idle_cache.h"
#include "runtime/session/session.h"
#include "runtime/session/state.h"

struct pl_chooser;
struct rt_specialisation;
struct rt_pending_compilation;

/* Maximum number of specialisations of a session. */
enum { RT_SESSION_SPECIALISATIONS = 256 };

struct rt_session {
    struct rt_session_options options;
    struct rt_library *library;
    struct rt_mutex mu;
    struct rt_map slots;       /* maps keys to struct rt_object; guarded by mu */
    struct rt_map node_states; /* the states that rt_run_node_state returns; guarded by mu */
    struct rt_map aside;       /* node_states saved by rt_session_set_aside; guarded by mu */
    struct rt_map packs;       /* maps keys to struct rt_pack; guarded by mu */
    /* maps keys to memory of the accelerators (runtime/select/upload.h); guarded by mu */
    struct rt_map uploads;
    struct rt_map callables; /* maps keys to struct rt_callable; guarded by mu */
    /* Whether the session has changed from loading to serving. Guarded by mu, and changed only
     * while nothing else runs. */
    bool serving;
    /* Generation of the plans. A write to a frozen variable increments it. */
    _Atomic int generation;
    _Atomic int64_t runs, nodes_run, packed_bytes;
    _Atomic int64_t accelerator_bytes[RT_MAX_ACCELERATORS];
    struct rt_device_claim claim[RT_MAX_ACCELERATORS];
    /* bytes admitted by rt_activations_admit (runtime/select/upload.h) */
    _Atomic int64_t activation_bytes[RT_MAX_ACCELERATORS];
    /* total size of the prepared kernels that nodes cache for tier 0, in bytes */
    atomic_size_t prepared_bytes;
    atomic_size_t plan_bytes; /* total size of plans in bytes, not counting their constants */
    atomic_size_t model_bytes;
    struct pl_chooser *chooser;
    /* the cache of options.idle_cache, or the session's own cache */
    struct rt_idle_cache *idle_cache;
    struct rt_mutex pool_mu;
    struct rt_pool *pools[64]; /* the idle pools; guarded by pool_mu */
    int n_pools;
    /* whether the session's runs count as a load's (rt_pool_count_as_load); guarded by pool_mu */
    bool counts_as_load;
    struct rt_cache_owner cache_owner; /* owner of `pools` in the idle cache */
    struct rt_state state;             /* charged for the memory that runs leave in `slots` */
    struct rt_state folded;            /* charged for the memory of constants created by folding */
    /* time in ns that the session may still spend on folding constants */
    _Atomic int64_t fold_ns;
    uint64_t entropy;
    /* rt_session_compile, which runtime/compile defines. rt_session_new sets this pointer. */
    int (*compile)(struct rt_session *s);
    /* Guards the members from `spec` to `is_loading`, and the segments of all plans. */
    struct rt_mutex spec_mu;
    struct rt_specialisation *spec[RT_SESSION_SPECIALISATIONS];
    int n_specialisations;
    atomic_size_t specialisation_bytes; /* changed only under spec_mu */
    struct rt_pending_compilation *pending, **pending_end;
    /* number of compilations in the list `pending` or about to be added to it */
    int n_pending;
    /* Compilations that wait for an accelerator's memory, their number, and the number of calls of
     * rt_session_memory_freed. */
    struct rt_pending_compilation *waiting;
    int n_waiting, memory_freed;
    /* True between the two calls of rt_session_loading, and always if options.compiles_inline is
     * set. */
    bool is_loading;
    atomic_bool ends; /* set when the session is about to be freed; compiling then stops */
    /* Links of the compiler's queue; guarded by the compiler's mu. */
    struct rt_session *next_pending;
    bool is_enqueued;
    /* Number of retired specialisations. When this number has changed, a context drops its
     * execution instances of retired specialisations. */
    atomic_int retirements;
};

/* rt_session_pool returns an idle pool or a new pool for a run. It returns NULL if memory runs out.
 * After the run, rt_session_pool_back returns the pool to the session. */
struct rt_pool *rt_session_pool(struct rt_session *s);
void rt_session_pool_back(struct rt_session *s, struct rt_pool *p);
/* rt_session_pools_begin sets up the list of idle pools of a new session, and rt_session_pools_end
 * frees the pools. */
void rt_session_pools_begin(struct rt_session *s);
void rt_session_pools_end(struct rt_session *s);
/* Counts the session's runs from now on, and its idle memory, as a load's or as those of requests.
 * A new session counts as those of requests. */
void rt_session_count_as_load(struct rt_session *s, bool yes);
/* Makes a pool share the session's budget. */
void rt_session_share_budget(struct rt_session *s, struct rt_pool *p);
/* Reports the bytes that the session holds to options.account. Fails only during loading, with
 * RT_RESOURCE_EXHAUSTED if the account refuses the bytes. */
enum rt_status rt_session_follow(const struct rt_session *s, struct rt_error *err);
/* Returns a check (runtime/base/check.h) that calls rt_session_check. */
struct rt_check rt_session_as_check(struct rt_session *s);
/* Loads a tensor with the session's check (rt_tensor_load_checked). Code that loads or compiles
 * calls this function for each tensor that may be lazy, so that the loading of several gigabytes
 * can be cancelled. */
enum rt_status rt_session_load_tensor(struct rt_session *s, struct rt_tensor *t,
                                      struct rt_error *err);
/* Makes an arena for a plan. plan_bytes counts the arena's bytes until the arena is freed. Returns
 * NULL if memory runs out. */
struct rt_arena *rt_session_plan_arena(struct rt_session *s);
/* frees the states of nodes and empties the map */
void rt_session_free_states(struct rt_map *states);

/* Sets *out to a reference to the resource of node `n`, whose op must have a `make` function. Makes
 * the resource from the node's inputs `in` if it does not exist yet. */
enum rt_status rt_session_slot(struct rt_session *s, const struct rt_node *n,
                               const struct rt_tensor *in, struct rt_object **out,
                               struct rt_error *err);
/* What a resource's key has beside its kind. */
enum rt_resource_key {
    RT_KEY_NAME, /* the node's attributes `container` and `shared_name`, or the node's name */
    RT_KEY_NODE, /* the node itself, because the graphs of two functions may have equal names */
    RT_KEY_NONE, /* nothing: all nodes share the resource */
};
/* Sets *out to a reference to the resource with a key. `make` makes the resource if it does not
 * exist yet. Several threads may make it at the same time, without the session's lock; the session
 * keeps the first one. */
struct rt_make;
typedef enum rt_status rt_resource_make(const struct rt_make *make, struct rt_object **out);
enum rt_status rt_session_resource(struct rt_session *s, const struct rt_node *n, const char *kind,
                                   enum rt_resource_key by, rt_resource_make *make,
                                   struct rt_object **out, struct rt_error *err);

#endif
