/*
 * The members of a session, for the folders of the runtime above this one: slots, idle pools,
 * packed constants, specialisations and pending compilations. The types of what these folders put
 * into a session are opaque here.
 *
 * The one call from this folder into those above is the member `compile`, which rt_session_new
 * (runtime/api) sets. The background compiler, and runs of a session that compiles inline, call it.
 *
 * Owner: as in session.h. Threads: the comment of each member says what guards it.
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

enum { RT_SESSION_SPECIALISATIONS = 256 }; /* the most that a session keeps */

struct rt_session {
    struct rt_session_options options;
    struct rt_library *library;
    struct rt_device *const *devices; /* [0] is the CPU */
    int n_devices;
    struct rt_mutex mu;
    struct rt_map slots;       /* key -> struct rt_object; guarded by mu */
    struct rt_map node_states; /* the states that rt_run_node_state returns; guarded by mu */
    struct rt_map aside;       /* node_states set aside by rt_session_set_aside; guarded by mu */
    struct rt_map packs;       /* key -> struct rt_pack; guarded by mu */
    struct rt_map callables;   /* key -> struct rt_callable; guarded by mu */
    bool serving;              /* guarded by mu, changed while nothing else runs */
    /* generation of the plans: increased when a frozen variable is written */
    _Atomic int generation;
    _Atomic int64_t runs, nodes_run, packed_bytes;
    atomic_size_t prepared_bytes; /* bytes of the prepared kernels that nodes keep for tier 0 */
    struct pl_chooser *chooser;
    struct rt_idle_cache *idle_cache; /* options.idle_cache, or the session's own */
    struct rt_mutex pool_mu;
    struct rt_pool *pools[64]; /* the idle pools; guarded by pool_mu */
    int n_pools;
    struct rt_cache_owner cache_owner; /* of `pools` */
    struct rt_state state;             /* memory that runs left in `slots` */
    struct rt_state folded;            /* memory of constants that folding made */
    _Atomic int64_t fold_ns;           /* time that is left for all folds together */
    uint64_t entropy;
    /* rt_session_compile, which stands in a folder above: set by rt_session_new. */
    int (*compile)(struct rt_session *s);
    struct rt_mutex spec_mu; /* guards the members down to is_loading, and all segments of plans */
    struct rt_specialisation *spec[RT_SESSION_SPECIALISATIONS];
    int n_specialisations;
    size_t specialisation_bytes;
    struct rt_pending_compilation *pending, **pending_end;
    int n_pending;    /* compilations in the list, or about to be put into it */
    bool is_loading;  /* set by rt_session_loading or options.compiles_inline */
    atomic_bool ends; /* the session is about to be freed: compiling stops */
    /* The compiler's queue; guarded by the compiler's mu. */
    struct rt_session *next_pending;
    bool is_enqueued;
    atomic_int retirements; /* counter of retired specialisations: a context drops its execution
                               instances of them when it has changed */
};

/* Takes a pool for one run, an idle one if there is (NULL: out of memory); gives it back. */
struct rt_pool *rt_session_pool(struct rt_session *s);
void rt_session_pool_back(struct rt_session *s, struct rt_pool *p);
/* Set up the list of idle pools of a new session; free it with its pools. */
void rt_session_pools_begin(struct rt_session *s);
void rt_session_pools_end(struct rt_session *s);
/* frees the states of nodes and empties the map */
void rt_session_free_states(struct rt_map *states);

/* The resource that node `n`, whose op has `make`, creates a handle of. It is made on first use
 * from the node's inputs `in`. *out gets a reference. */
enum rt_status rt_session_slot(struct rt_session *s, const struct rt_node *n,
                               const struct rt_tensor *in, struct rt_object **out,
                               struct rt_error *err);

#endif
