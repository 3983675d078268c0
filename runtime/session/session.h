/*
 * A session is a graph with its resources (variables, tables and others) and its callables, one for
 * each set of feeds and fetches. A callable runs a plan (runtime/plan/plan.h).
 *
 * Owner: callables belong to their session and are freed with it. Tensors that a run returns hold
 * references to their memory and may outlive the session. Threads: any number of threads may
 * prepare and run callables at the same time. rt_session_free may be called only if no run is
 * active and none will follow.
 */
#ifndef RT_SESSION_H
#define RT_SESSION_H

#include "runtime/core/graph.h"
#include "runtime/core/registry.h"
#include "runtime/core/tuning.h"
#include "runtime/files/file_access.h"
#include "runtime/session/accelerators.h"

struct rt_account;
struct rt_compiler;
struct rt_session;
struct rt_callable;
struct rt_parallel;
struct rt_autotune;
struct rt_idle_cache;

/* The function by which a tool receives the compiler's graph as text (runtime/ir/dump.h), after
 * every pass or after the pass `pass`. `put` is called on the thread that makes a plan; several
 * threads may call it at the same time. */
struct rt_pass_dump {
    void (*put)(void *arg, const char *text, size_t n);
    void *arg;
    /* a name that rt_pass_name returns, or NULL for every pass */
    const char *pass;
};
/* Returns the name of pass i in the table of passes, or NULL if the table has no pass i. */
const char *rt_pass_name(int i);

struct rt_session_options {
    const struct rt_registry *registry; /* op registry, which must outlive the session */
    /* maximum number of bytes that one run may hold, or 0 for no limit */
    size_t run_memory_limit;
    /* number of bytes that runs may leave in variables and tables, or 0 for no limit */
    size_t state_memory_limit;
    /* Budget for the memory of all runs of all sessions that share it, or NULL for no limit. */
    struct rt_budget *budget;
    /* The account (runtime/session/account.h) to which the session reports the number of bytes that
     * it holds, or NULL for none. The account must outlive the session. */
    struct rt_account *account;
    /* The idle cache, which limits idle memory (runtime/session/idle_cache.h). The cache must
     * outlive the session. If NULL, the session has its own idle cache. */
    struct rt_idle_cache *idle_cache;
    /* The cores that a run may use besides the core of its own thread (runtime/exec/parallel.h).
     * Sessions may share the rt_parallel, which must outlive them. If NULL, every run stays on its
     * thread. */
    struct rt_parallel *parallel;
    bool log_device_placement;
    struct rt_file_access files; /* the files that ops may read and write */
    struct rt_tuning tuning;
    struct rt_compiler *compiler; /* NULL if specialisations are made only by rt_session_compile */
    /* For tools and tests: whether the thread of a run makes the specialisation for new shapes. */
    bool compiles_inline;
    /* Cache of autotuning results, or NULL for no cache. The cache must outlive the session. */
    struct rt_autotune *autotune;
    struct rt_session_accelerators accelerators;
    /* If the flag is true, loading, compiling and runs end with RT_CANCELLED. rt_session_loading
     * replaces the pointer. The pointer may be NULL. */
    const _Atomic bool *cancelled;
    /* Receiver of dumps, or NULL for no dumps. The receiver must outlive the session. */
    const struct rt_pass_dump *pass_dump;
};

/* Makes a session, which owns the library on success. */
enum rt_status rt_session_new(struct rt_session **out, struct rt_library *library,
                              const struct rt_session_options *options, struct rt_error *err);
void rt_session_free(struct rt_session *s); /* `s` may be NULL */
/* Ends the session before it is freed. Runs then end with RT_UNAVAILABLE, and loading and compiling
 * end with RT_CANCELLED. May be called on any thread. */
void rt_session_end(struct rt_session *s);
const struct rt_graph *rt_session_graph(const struct rt_session *s);
/*
 * Returns the number of bytes that the session holds while no run is active. Included are the
 * imported graph with its constants, plans, packed weights, specialisations, the values of
 * variables and tables, and the bytes added by rt_session_add_model_bytes. Excluded are idle
 * contexts and pools, which have a separate limit, and variables that have not been read from their
 * files.
 */
size_t rt_session_held(const struct rt_session *s);
/* Adds `bytes` to the number that rt_session_held returns. The session's owner holds these bytes
 * while the session exists. */
void rt_session_add_model_bytes(struct rt_session *s, size_t bytes);
/* Returns RT_CANCELLED if options.cancelled is true or the session is about to be freed. Returns
 * RT_RESOURCE_EXHAUSTED if options.account refuses the bytes that the session holds. Code that
 * loads or compiles calls this function between passes, between prepared nodes, and between the
 * constants (or parts of them) that it reads. */
enum rt_status rt_session_check(const struct rt_session *s, struct rt_error *err);

/*
 * What a callable computes. Feeds and fetches name any tensors of the graph ("x:0", "x"). Targets
 * are nodes that run for their effect. A feed replaces a tensor; nodes that are needed only to
 * compute this tensor are not run. rt_session_prepare makes the plan immediately. It returns
 * RT_RESOURCE_EXHAUSTED if the session already has callables for too many different specs.
 */
struct rt_call_spec {
    const char *const *feeds;
    const char *const *fetches;
    const char *const *targets;
    int n_feeds, n_fetches, n_targets;
    /* Whether the callable runs restore or init ops. Variables that it writes do not become
     * mutable, so they may still be constants of plans. */
    bool is_load;
    /* Whether a client, rather than a signature, has named the tensors and nodes. This matters only
     * for the limits on dynamic callables (saved_model.h). */
    bool is_client_named;
};
enum rt_status rt_session_prepare(struct rt_session *s, const struct rt_call_spec *spec,
                                  struct rt_callable **out, struct rt_error *err);

struct rt_wait_hook;
struct rt_run_options {
    int64_t deadline_ns; /* deadline on CLOCK_MONOTONIC in ns, or 0 or RT_NEVER for no deadline */
    /* The run ends with RT_CANCELLED if this flag becomes true. If the pointer is NULL, the
     * session's flag applies. */
    const _Atomic bool *cancelled;
    /* Cancellation flags of the requests that share a merged run. The run ends with RT_CANCELLED
     * when all of them are true. An empty array has no effect. */
    const _Atomic bool *const *all_cancelled;
    int n_all_cancelled;
    /* trace that the run records (runtime/exec/trace.h), or NULL for none */
    struct rt_trace *trace;
    const struct rt_wait_hook *on_wait; /* called before the run's first wait; may be NULL */
    int accelerator;                    /* index in options.accelerators, if there are any */
    /* Whether the feeds hold the rows of several calls, merged because rt_callable_is_rowwise
     * allowed it. The plan may have been rebuilt since then, so the run fails if row-wise analysis
     * does not succeed for the current plan and the lengths of the feeds. The status is
     * RT_UNAVAILABLE if the analysis might succeed for other lengths or with more memory, and
     * otherwise RT_ABORTED. */
    bool is_merged;
};
/* Returns RT_CANCELLED if the run has been cancelled, and RT_DEADLINE_EXCEEDED if its deadline has
 * passed. Called by code that prepares the feeds of a run (runtime/exec/run_options.c). */
enum rt_status rt_run_options_check(const struct rt_run_options *options, struct rt_error *err);

/*
 * Runs the callable's plan. `feeds` has one tensor per feed, in the order of the spec, and is
 * borrowed for the call. A feed whose dtype differs from that of its placeholder is refused.
 * `fetches` is filled in the order of the spec, and the caller clears its tensors. On failure, all
 * tensors of `fetches` are zero. The error messages are those of TensorFlow.
 */
enum rt_status rt_callable_run(struct rt_callable *c, const struct rt_tensor *feeds,
                               struct rt_tensor *fetches, const struct rt_run_options *options,
                               struct rt_error *err);

/*
 * Compilation for exact shapes. Plans are specialised for shapes that recur; until a specialisation
 * exists, a run computes the same results more slowly. Runs queue shapes that recur, and
 * rt_callable_request_compilation queues shapes that are expected (all dimensions known). Pending
 * compilations are taken from the queue by one of these threads:
 *
 *   while a version is being loaded    the loader's thread, which calls rt_session_compile
 *   while the version is served        the thread of the background compiler (compiler.h)
 *   with options.compiles_inline       the thread of the run
 */
void rt_callable_request_compilation(struct rt_callable *c, const struct rt_shape *shapes);
/* Performs the pending compilations and returns their number. The call is slow, and runs may
 * continue in the meantime. */
int rt_session_compile(struct rt_session *s);
/* The loader calls this function with `yes` set to true before warm-up runs, and with `yes` set to
 * false after them. Between these calls, shapes are queued for compilation when they first occur,
 * the background compiler does not compile for the session, and nothing else uses the session.
 * `cancelled` replaces options.cancelled. `cancelled` may be NULL in the first call, and must be
 * NULL in the second. */
void rt_session_loading(struct rt_session *s, bool yes, const _Atomic bool *cancelled);
/* Repeats the compilations that wait for memory of an accelerator. Called when some was freed. */
void rt_session_memory_freed(struct rt_session *s);
/* Returns whether the plan, or at least its first segment, is compiled for some feeds with `rows`
 * rows, on the CPU or any accelerator. Ignores other dimensions. The result may be out of date. */
bool rt_callable_is_compiled(const struct rt_callable *c, int64_t rows);
/* Returns whether the callable changes state or may block, and therefore runs alone. */
bool rt_callable_writes(const struct rt_callable *c);
bool rt_callable_draws(const struct rt_callable *c); /* whether a run draws random numbers */
enum rt_dtype rt_callable_feed_dtype(const struct rt_callable *c, int feed);
/* Performs the first check of a run: whether each feed has the dtype of its placeholder. If not,
 * returns RT_INVALID_ARGUMENT with TensorFlow's message. May be called on any thread. */
enum rt_status rt_callable_check_feeds(const struct rt_callable *c, const struct rt_tensor *feeds,
                                       struct rt_error *err);
enum rt_dtype rt_callable_fetch_dtype(const struct rt_callable *c, int fetch);

/*
 * Returns whether requests may be merged along dimension 0 of every feed. They may be if row-wise
 * analysis proves that each output row depends only on the input rows with the same index. `shapes`
 * has the signature's shapes, one per feed. The analysis tries only some lengths of unknown inner
 * dimensions, so a merged run is analysed again for its own lengths (rt_run_options.is_merged). The
 * result holds for the current values of the variables. If the result is false, `why` names the
 * node and the op that prevent merging. If the analysis ran out of memory and might succeed later,
 * why->code is RT_RESOURCE_EXHAUSTED.
 */
bool rt_callable_is_rowwise(struct rt_callable *c, const struct rt_shape *shapes,
                            struct rt_error *why);

/* Raises the limit on restored weights so that a checkpoint with `bytes` bytes of weights can be
 * loaded (runtime/session/state.h). Called once, before the first run. */
void rt_session_admit_weights(struct rt_session *s, int64_t bytes);
/*
 * Changes the session from loading to serving, after restore and init. Every callable prepared
 * before the call, except those with is_load, has marked the variables that it writes as mutable.
 * After the call all other variables are constants of plans, and existing plans are rebuilt at
 * their next use.
 */
void rt_session_serve(struct rt_session *s);
/*
 * The loader calls this function before and after runs that must not affect later results. If `yes`
 * is true, saves the states of nodes, such as random generators; runs then make new states. If
 * `yes` is false, frees the new states and restores the saved states. No run may be active during
 * either call.
 */
void rt_session_set_aside(struct rt_session *s, bool yes);

/*
 * Ends loading, and reads the constants of all `callables` into memory. With `load_all`, also reads
 * the variables that none of the callables uses. Without `load_all`, a callable that is made later
 * reads the variables that it uses from the files, and verifies their checksums.
 */
enum rt_status rt_session_seal(struct rt_session *s, struct rt_callable *const *callables, int n,
                               bool load_all, struct rt_error *err);

/* A node that cannot run because of its op, a dtype or an attribute. */
struct rt_missing {
    const char *node, *op, *reason; /* strings in the arena passed to rt_session_missing */
};
/* Lists the nodes that `spec` needs and that cannot run, including nodes of called functions. Sets
 * *out to an array of *n entries in `arena`. */
enum rt_status rt_session_missing(struct rt_session *s, const struct rt_call_spec *spec,
                                  struct rt_arena *arena, struct rt_missing **out, int *n,
                                  struct rt_error *err);

struct rt_session_stats {
    size_t held_bytes;    /* result of rt_session_held */
    int64_t packed_bytes; /* total size of the constants that kernels have packed, in bytes */
    int64_t runs, nodes_run;
    int n_specialisations;
    size_t specialisation_bytes;
    size_t idle_bytes;  /* total size of idle contexts and pools, in bytes */
    size_t state_bytes; /* bytes in resources, except weights from files (state.h) */
    int64_t accelerator_bytes[RT_MAX_ACCELERATORS]; /* bytes of the constants on each */
    bool bf16;                                      /* rt_tuning.bf16 */
};
void rt_session_stats(struct rt_session *s, struct rt_session_stats *out);

#endif
