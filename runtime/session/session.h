/*
 * A session is a graph with its resources (variables, tables and others) and its callables, one for
 * each set of feeds and fetches. A callable runs a plan (runtime/plan/plan.h).
 *
 * Owner: callables belong to their session and are freed with it. Tensors that a run returns hold
 * references of their own and may outlive the session. Threads: any number of threads may run
 * callables at the same time. rt_session_prepare acquires a lock. rt_session_free may be called
 * only when no run is active or will follow.
 */
#ifndef RT_SESSION_H
#define RT_SESSION_H

#include "runtime/core/graph.h"
#include "runtime/core/registry.h"
#include "runtime/core/tuning.h"

struct rt_account;
struct rt_compiler;
struct rt_session;
struct rt_callable;
struct rt_parallel;
struct rt_autotune;
struct rt_idle_cache;

/* A tool's function that receives the compiler's graph as text (runtime/ir/dump.h) after each pass,
 * or after the passes of one name (rt_pass_name). `put` is called on the thread that makes a plan;
 * several threads may call it at the same time. */
struct rt_pass_dump {
    void (*put)(void *arg, const char *text, size_t n);
    void *arg;
    const char *pass; /* name of the passes to dump, or NULL for all passes */
};
/* Returns the name of the i-th pass, or NULL if i is past the last. */
const char *rt_pass_name(int i);

struct rt_session_options {
    const struct rt_registry *registry; /* op registry, which must outlive the session */
    /* number of bytes that one run may hold at any time, or 0 for no limit */
    size_t run_memory_limit;
    /* number of bytes that runs may leave in variables and tables, or 0 for no limit */
    size_t state_memory_limit;
    /* The memory budget, which bounds the total memory of all runs of all sessions that share it,
     * or NULL for no bound. */
    struct rt_budget *budget;
    /* The account to which the session reports the bytes that it holds (runtime/session/account.h),
     * or NULL. The account must outlive the session. */
    struct rt_account *account;
    /* The bound on idle memory (runtime/session/idle_cache.h). It must outlive the session. If
     * NULL, the session has its own bound. */
    struct rt_idle_cache *idle_cache;
    /* The cores that a run may use besides the core of its own thread (runtime/exec/parallel.h).
     * Sessions may share the rt_parallel, which must outlive them. If NULL, every run stays on its
     * thread. */
    struct rt_parallel *parallel;
    bool log_device_placement;
    struct rt_tuning tuning;
    /* Background compiler, or NULL if only rt_session_compile compiles. */
    struct rt_compiler *compiler;
    /* Whether a run compiles its shapes at their first occurrence, on its own thread. Used by tools
     * and tests. */
    bool compiles_inline;
    /* Cache of autotuning results, or NULL for no cache. The cache must outlive the session. */
    struct rt_autotune *autotune;
    /* all devices except the CPU; the devices must outlive the session */
    struct rt_device *const *devices;
    int n_devices;
    /* When the flag is true, loading, compiling and runs end with RT_CANCELLED. rt_session_loading
     * replaces the flag. The pointer may be NULL. */
    const _Atomic bool *cancelled;
    /* Receiver of dumps, or NULL for no dumps. The receiver must outlive the session. */
    const struct rt_pass_dump *pass_dump;
};

/* Makes a session, which owns the library on success. */
enum rt_status rt_session_new(struct rt_session **out, struct rt_library *library,
                              const struct rt_session_options *options, struct rt_error *err);
void rt_session_free(struct rt_session *s); /* `s` may be NULL */
/* Ends the session before it is freed. Runs in progress and later runs end with RT_UNAVAILABLE, and
 * loading and compiling end with RT_CANCELLED. May be called on any thread. */
void rt_session_end(struct rt_session *s);
const struct rt_graph *rt_session_graph(const struct rt_session *s);
/*
 * Returns the number of bytes that the session holds while no run is active. The number includes
 * the imported graph with its constants, plans, packed weights, specialisations, the values of
 * variables and tables, and the bytes added by rt_session_add_model_bytes. It excludes idle
 * contexts and pools, which have a separate limit, and variables that have not been read from their
 * files.
 */
size_t rt_session_held(const struct rt_session *s);
/* Adds to rt_session_held the bytes that the session's owner holds while the session exists. */
void rt_session_add_model_bytes(struct rt_session *s, size_t bytes);
/* Returns RT_CANCELLED if options.cancelled is true or the session is about to be freed. Returns
 * RT_RESOURCE_EXHAUSTED if options.account refuses the bytes that the session holds. Code that
 * loads or compiles calls this function between passes, between the nodes that it prepares, and
 * between the constants, or chunks of constants, that it reads. */
enum rt_status rt_session_check(const struct rt_session *s, struct rt_error *err);

/*
 * What a callable computes. Feeds and fetches name any tensors of the graph ("x:0", "x"); targets
 * are nodes that run for their effect. A feed cuts the graph: nodes on which only the fed tensor
 * depends are not run. rt_session_prepare makes the plan immediately and keeps it. It returns
 * RT_RESOURCE_EXHAUSTED if the number of different specs exceeds a bound.
 */
struct rt_call_spec {
    const char *const *feeds;
    const char *const *fetches;
    const char *const *targets;
    int n_feeds, n_fetches, n_targets;
    /* True for restore and init ops. Variables that this callable writes do not become mutable, so
     * they may still be constants of plans. */
    bool is_load;
    /* Whether a client, rather than a signature, named the tensors and nodes. The two cases differ
     * only in the limits for dynamic callables (saved_model.h). */
    bool is_client_named;
};
enum rt_status rt_session_prepare(struct rt_session *s, const struct rt_call_spec *spec,
                                  struct rt_callable **out, struct rt_error *err);

struct rt_trace;
struct rt_run_options {
    int64_t deadline_ns; /* deadline by CLOCK_MONOTONIC, or 0 or RT_NEVER for no deadline */
    /* The run ends with RT_CANCELLED when this flag is true. If the pointer is NULL, the session's
     * flag applies. */
    const _Atomic bool *cancelled;
    /* Cancellation flags of the requests that share a merged run. The run ends with RT_CANCELLED
     * when all of them are true. An empty array has no effect. */
    const _Atomic bool *const *all_cancelled;
    int n_all_cancelled;
    /* trace that the run records (runtime/exec/trace.h), or NULL for none */
    struct rt_trace *trace;
    /* The feeds hold the rows of several calls, which were merged because rt_callable_is_rowwise
     * allowed it. The current plan, which may have been rebuilt since, must pass row-wise analysis
     * for the feeds' lengths. Otherwise nothing runs. The status is then RT_UNAVAILABLE if a later
     * run may pass, with other lengths or with more memory for the analysis, and RT_ABORTED if
     * not. */
    bool is_merged;
};
/* Returns RT_CANCELLED or RT_DEADLINE_EXCEEDED if a run with these options should end. Code that
 * prepares the feeds of a run calls this function (runtime/exec/run_options.c). */
enum rt_status rt_run_options_check(const struct rt_run_options *options, struct rt_error *err);

/*
 * Runs the callable's plan. `feeds` has one tensor per feed, in the order of the spec, and is
 * borrowed for the call. A feed whose dtype is not the placeholder's is refused. `fetches` is
 * filled in the order of the spec, and the caller clears its tensors. On failure, all tensors of
 * `fetches` are zero. Errors carry TensorFlow's messages.
 */
enum rt_status rt_callable_run(struct rt_callable *c, const struct rt_tensor *feeds,
                               struct rt_tensor *fetches, const struct rt_run_options *options,
                               struct rt_error *err);

/*
 * Compilation for exact shapes. Plans are specialised for shapes that recur; until a specialisation
 * exists, a run computes the same results more slowly. Every run queues its shapes, and
 * rt_callable_request_compilation queues shapes that are expected (all dimensions known). The
 * thread that takes pending compilations from the queue depends on the phase:
 *
 *   while a version is loaded    the loader's thread, by rt_session_compile between its runs
 *   while it is served           the background compiler's (compiler.h), which the queue wakes
 *   options.compiles_inline      the thread of the run
 */
void rt_callable_request_compilation(struct rt_callable *c, const struct rt_shape *shapes);
/* Compiles the shapes in the queue and returns the number of compilations. The call is slow, and
 * runs may continue in the meantime. */
int rt_session_compile(struct rt_session *s);
/* The loader calls this function with `yes` true before warm-up runs and with `yes` false after
 * them. In between, a shape is compiled at its first occurrence, the background compiler does not
 * compile for the session, and nothing else uses the session. `cancelled` replaces
 * options.cancelled. It may be NULL, and is NULL in the second call. */
void rt_session_loading(struct rt_session *s, bool yes, const _Atomic bool *cancelled);
/* Returns whether the plan, or at least its first segment, is compiled for feeds with `rows` rows,
 * whatever their other dimensions. Never waits, so the result may be out of date. */
bool rt_callable_is_compiled(const struct rt_callable *c, int64_t rows);

/* Returns whether the callable changes state or may block, and therefore runs alone. */
bool rt_callable_writes(const struct rt_callable *c);
enum rt_dtype rt_callable_feed_dtype(const struct rt_callable *c, int feed);
/* Performs the first check of a run. Returns RT_INVALID_ARGUMENT, with TensorFlow's message, unless
 * each feed has its placeholder's dtype. May be called on any thread. */
enum rt_status rt_callable_check_feeds(const struct rt_callable *c, const struct rt_tensor *feeds,
                                       struct rt_error *err);
enum rt_dtype rt_callable_fetch_dtype(const struct rt_callable *c, int fetch);

/*
 * Returns whether requests may be merged along dimension 0 of every feed, because row-wise analysis
 * proves that each output row depends on no input rows but those with its own index. `shapes` has
 * the signature's shapes, one per feed. For unknown dimensions other than 0 the analysis tries only
 * some lengths. For other lengths the result is a guess, so a merged run is analysed for its own
 * lengths (rt_run_options.is_merged). The result holds for the current values of the variables. If
 * the result is false, `why` names the node and the op that prevent merging. If memory ran out, and
 * the analysis might succeed later, why->code is RT_RESOURCE_EXHAUSTED.
 */
bool rt_callable_is_rowwise(struct rt_callable *c, const struct rt_shape *shapes,
                            struct rt_error *why);

/* Admits the weights of a checkpoint that holds `bytes` bytes of weights. Restored weights may then
 * occupy state_memory_limit bytes in addition to `bytes` (runtime/session/state.h). Called once,
 * before the first run. */
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
 * is true, the states of nodes (random generators) are stored, and runs make new states. If `yes`
 * is false, the new states are freed and the stored ones are restored. No run may be active during
 * either call.
 */
void rt_session_set_aside(struct rt_session *s, bool yes);

/*
 * Ends loading, and reads the constants of all `callables` into memory. With `load_all`, also reads
 * the variables that none of the callables uses. Without it, a callable that is made later reads
 * these variables from the files, and verifies their checksums.
 */
enum rt_status rt_session_seal(struct rt_session *s, struct rt_callable *const *callables, int n,
                               bool load_all, struct rt_error *err);

/* A node that cannot be run because of its op, a dtype or an attribute. */
struct rt_missing {
    const char *node, *op, *reason; /* strings in the arena that rt_session_missing was given */
};
/* Lists the nodes that the plan for `spec` would need and that cannot be run, including those in
 * functions. Sets *out to an array of *n entries in `arena`. */
enum rt_status rt_session_missing(struct rt_session *s, const struct rt_call_spec *spec,
                                  struct rt_arena *arena, struct rt_missing **out, int *n,
                                  struct rt_error *err);

struct rt_session_stats {
    size_t held_bytes;    /* result of rt_session_held */
    int64_t packed_bytes; /* total size of the constants that kernels have packed, in bytes */
    int64_t runs, nodes_run;
    int n_specialisations;
    size_t specialisation_bytes;
    size_t idle_bytes; /* total size of idle contexts and pools, in bytes */
    /* Number of bytes in variables and tables, except weights from files
     * (runtime/session/state.h). */
    size_t state_bytes;
};
void rt_session_stats(struct rt_session *s, struct rt_session_stats *out);

#endif
