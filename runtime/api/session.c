/*
 * Makes and frees sessions. This file may call every layer whose data a session owns.
 */
#include "runtime/session/session.h"

#include <stdlib.h>
#include <sys/random.h>

#include "runtime/files/checkpoint_v1.h"
#include "runtime/files/import.h"
#include "runtime/api/callable.h"
#include "runtime/plan/specialisation.h"
#include "runtime/session/account.h"
#include "runtime/select/choose.h"
#include "runtime/select/prepared.h"
#include "runtime/select/upload.h"
#include "runtime/session/session_internal.h"
#include "runtime/session/compiler.h"
#include "runtime/session/state.h"

/* maximum memory, in bytes, of the constants that folding adds to the plans of a session */
enum { FOLDED_BYTES = 1 << 30 };
#define FOLDS_NS (3 * INT64_C(1000000000))

/* Limits the state of a session during loading to the larger of run_memory_limit and
 * state_memory_limit. Loading is one run, and every value that it restores remains as state. If
 * run_memory_limit or state_memory_limit is 0, the state is not limited in this way. The session's
 * account limits the state too. */
static bool init_state(struct rt_state *state, const struct rt_session_options *o)
{
    const size_t a = o->run_memory_limit, b = o->state_memory_limit, most = a > b ? a : b;
    const size_t limit = a && b ? most : 0;
    const size_t left = o->account ? rt_account_limit(o->account) : SIZE_MAX;
    const bool is_less = left < (limit ? limit : SIZE_MAX);
    return rt_state_init(state, is_less ? left : limit,
                         is_less ? "--total_model_memory_limit_bytes"
                         : a > b ? "--run_memory_limit_bytes"
                                 : "--state_memory_limit_bytes") &&
           rt_state_init_weights(state, limit,
                                 a > b ? "the checkpoint's size and --run_memory_limit_bytes"
                                       : "the checkpoint's size and --state_memory_limit_bytes");
}

/* If folding returns a weight unchanged, the weight is counted in state.weights. */
static bool init_folded(struct rt_state *folded, const struct rt_session *s)
{
    const size_t limit = s->options.run_memory_limit;
    if (!rt_state_init(folded, limit && limit < FOLDED_BYTES ? limit : FOLDED_BYTES,
                       "folded constants"))
        return false;
    folded->weights = rt_pool_ref(s->state.weights);
    return true;
}

enum rt_status rt_session_new(struct rt_session **out, struct rt_library *library,
                              const struct rt_session_options *options, struct rt_error *err)
{
    struct rt_session *s = calloc(1, sizeof *s);
    if (!s)
        return rt_fail_memory(err, "a session", sizeof *s);
    s->options = *options;
    s->chooser = pl_chooser_new();
    const bool has_state = init_state(&s->state, options) && init_folded(&s->folded, s);
    s->idle_cache = options->idle_cache ? options->idle_cache
                                        : rt_idle_cache_new(RT_IDLE_CACHE_BYTES,
                                                            RT_IDLE_CACHE_SPECIALISATION_BYTES);
    if (!s->chooser || !s->idle_cache || !has_state) {
        pl_chooser_free(s->chooser);
        rt_state_clear(&s->state);
        rt_state_clear(&s->folded);
        if (!options->idle_cache)
            rt_idle_cache_free(s->idle_cache);
        free(s);
        return rt_fail_memory(err, "a session", sizeof *s);
    }
    s->library = library;
    rt_library_set_check(library, rt_session_as_check(s));
    rt_mutex_init(&s->mu);
    rt_mutex_init(&s->spec_mu);
    s->pending_end = &s->pending;
    s->is_loading = options->compiles_inline;
    atomic_init(&s->fold_ns, FOLDS_NS);
    s->compile = rt_session_compile;
    rt_session_pools_begin(s);
    if (getrandom(&s->entropy, sizeof s->entropy, GRND_NONBLOCK) != sizeof s->entropy)
        s->entropy = (uint64_t)(uintptr_t)s;
    *out = s;
    return RT_OK;
}

void rt_session_free(struct rt_session *s)
{
    if (!s)
        return;
    rt_session_end(s);
    rt_checkpoint_v1_forget();
    if (s->options.compiler)
        rt_compiler_leave(s->options.compiler, s);
    rt_pending_compilations_free(s);
    for (size_t i = 0; i < s->callables.n; i++)
        rt_callable_free(s->callables.entry[i].value);
    rt_map_clear(&s->callables);
    pl_chooser_free(s->chooser);
    rt_packs_clear(s);
    rt_uploads_clear(s);
    for (size_t i = 0; i < s->slots.n; i++)
        rt_object_unref(s->slots.entry[i].value);
    rt_map_clear(&s->slots);
    rt_session_free_states(&s->node_states);
    rt_session_free_states(&s->aside);
    rt_state_clear(&s->state);
    rt_state_clear(&s->folded);
    rt_session_pools_end(s);
    if (!s->options.idle_cache)
        rt_idle_cache_free(s->idle_cache);
    rt_library_free(s->library);
    rt_mutex_clear(&s->mu);
    rt_mutex_clear(&s->spec_mu);
    free(s);
}

void rt_session_stats(struct rt_session *s, struct rt_session_stats *out)
{
    rt_mutex_lock(&s->spec_mu);
    const int n_specialisations = s->n_specialisations;
    const size_t specialisation_bytes = atomic_load(&s->specialisation_bytes);
    rt_mutex_unlock(&s->spec_mu);
    *out = (struct rt_session_stats){.held_bytes = rt_session_held(s),
                                     .packed_bytes = atomic_load(&s->packed_bytes),
                                     .n_specialisations = n_specialisations,
                                     .specialisation_bytes = specialisation_bytes,
                                     .idle_bytes =
                                         rt_idle_cache_bytes_of(s->idle_cache, &s->cache_owner),
                                     .state_bytes = rt_pool_in_use(s->state.pool),
                                     .runs = atomic_load(&s->runs),
                                     .nodes_run = atomic_load(&s->nodes_run),
                                     .bf16 = s->options.tuning.bf16};
    for (int k = 0; k < s->options.accelerators.n; k++)
        out->accelerator_bytes[k] = atomic_load(&s->accelerator_bytes[k]);
}
