/*
 * What a session holds, for the layers of the runtime above it: slots, pools between runs, packed
 * constants, and what is to be compiled. What these layers put into it is opaque here.
 *
 * A session calls nothing that stands above it but `compile`, which rt_session_new (runtime/api)
 * sets: the compiler's thread, and runs of a session that compiles inline, compile by it.
 *
 * Owner: as in session.h. Threads: each member says what guards it.
 */
#ifndef RT_SESSION_INTERNAL_H
#define RT_SESSION_INTERNAL_H

#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/session/idle_cache.h"
#include "runtime/session/session.h"
#include "runtime/session/state.h"

struct pl_chooser;
struct rt_specialisation;
struct rt_pending_compilation;

enum { RT_SESSION_SPECIALISATIONS = 256 }; /* that a session keeps at most */

struct rt_session {
    struct rt_session_options options;
    struct rt_library *library;
    struct rt_device *const *devices; /* [0] is the CPU */
    int n_devices;
    struct rt_mutex mu;
    struct rt_map slots;       /* key -> struct rt_object; guarded by mu */
    struct rt_map node_states; /* guarded by mu */
    struct rt_map aside;       /* node_states that rt_session_set_aside keeps; guarded by mu */
    struct rt_map packs;       /* key -> struct rt_pack; guarded by mu */
    struct rt_map callables;   /* key -> struct rt_callable; guarded by mu */
    bool serving;              /* guarded by mu, changed while nothing else runs */
    _Atomic int generation;    /* raised when a frozen variable was written */
    _Atomic int64_t runs, nodes_run, packed_bytes;
    atomic_size_t prepared_bytes; /* of what nodes keep for tier 0 */
    struct pl_chooser *chooser;
    struct rt_idle_cache *idle_cache; /* options.keep, or its own */
    struct rt_mutex pool_mu;
    struct rt_pool *pools[64]; /* idle ones; guarded by pool_mu */
    int n_pools;
    struct rt_cache_owner cache_owner; /* of them */
    struct rt_state state;             /* what runs left in `slots` */
    struct rt_state folded;            /* what folding left in plans */
    _Atomic int64_t fold_ns;           /* what is left of the time for all folds */
    uint64_t entropy;
    /* Compiles what waits, as rt_session_compile, which stands above: rt_session_new sets it. */
    int (*compile)(struct rt_session *s);
    struct rt_mutex spec_mu; /* guards what follows, and every segment of every plan */
    struct rt_specialisation *spec[RT_SESSION_SPECIALISATIONS];
    int n_specialisations;
    size_t specialisation_bytes;
    struct rt_pending_compilation *pending, **pending_end;
    int n_pending;                   /* in the list, or about to be put there */
    bool is_loading;                 /* rt_session_loading, or compiles_inline */
    atomic_bool ends;                /* nothing more is worth compiling */
    struct rt_session *next_pending; /* of the compiler, as what follows */
    bool is_enqueued;
    atomic_int retirements; /* of layouts: contexts drop theirs when it has changed */
};

/* A pool for one run, and back. NULL: out of memory. */
struct rt_pool *rt_session_pool(struct rt_session *s);
void rt_session_pool_back(struct rt_session *s, struct rt_pool *p);
/* The pools of a new session, and of one that ends. */
void rt_session_pools_begin(struct rt_session *s);
void rt_session_pools_end(struct rt_session *s);
void rt_session_free_states(struct rt_map *states); /* of nodes; the map is empty then */

/* The resource of a handle-making node, made on first use from its inputs; *out gets a reference.
 */
enum rt_status rt_session_slot(struct rt_session *s, const struct rt_node *n,
                               const struct rt_tensor *in, struct rt_object **out,
                               struct rt_error *err);

#endif
