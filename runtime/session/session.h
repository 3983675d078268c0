/*
 * A session: a graph with its slots (variables, tables and other resources) and its callables, one
 * for each set of feeds and fetches. A callable runs a plan (runtime/plan/plan.h).
 *
 * Owner: callables belong to their session and are freed with it. Tensors that a run returns hold
 * references of their own and may outlive the session.
 * Threads: any number of threads may run callables at the same time. rt_session_prepare locks.
 * rt_session_free is called when no run is going on or will follow.
 */
#ifndef RT_SESSION_H
#define RT_SESSION_H

#include "runtime/core/graph.h"
#include "runtime/core/registry.h"
#include "runtime/core/tuning.h"

struct rt_compiler;
struct rt_session;
struct rt_callable;
struct rt_parallel;
struct rt_autotune;
struct rt_idle_cache;

/* For tools: receives the compiler's graph as text (runtime/ir/dump.h) after each pass, or after
 * the passes of one name (rt_pass_name). `put` is called on the thread that makes a plan; several
 * threads may call it at the same time. */
struct rt_pass_dump {
    void (*put)(void *arg, const char *text, size_t n);
    void *arg;
    const char *pass; /* NULL: all passes */
};
const char *rt_pass_name(int i); /* name of the i-th pass; NULL: i is past the last */

struct rt_session_options {
    const struct rt_registry *registry; /* must outlive the session */
    size_t run_memory_limit;            /* bytes that one run may hold at any time; 0: no limit */
    size_t state_memory_limit; /* bytes that runs may leave in variables and tables; 0: no limit */
    struct rt_budget *budget;  /* bound on all runs of all sessions that share it; NULL: none */
    /* The bound on idle memory (runtime/session/idle_cache.h). It must outlive the session. NULL:
     * the session has one of its own. */
    struct rt_idle_cache *idle_cache;
    /* The cores that a run may use beside its own thread's (runtime/exec/parallel.h). May be shared
     * by sessions; must outlive them. NULL: every run stays on its thread. */
    struct rt_parallel *parallel;
    bool log_device_placement;
    struct rt_tuning tuning;
    struct rt_compiler *compiler; /* NULL: only rt_session_compile compiles */
    bool compiles_inline;         /* a run compiles its shapes at their first occurrence, on its own
                                     thread: for tools and tests */
    struct rt_autotune *autotune; /* results of autotuning; must outlive the session; NULL: none */
    struct rt_device *const *devices; /* all devices but the CPU; must outlive the session */
    int n_devices;
    /* True ends loading, compiling and runs with RT_CANCELLED. rt_session_loading replaces it. May
     * be NULL. */
    const _Atomic bool *cancelled;
    const struct rt_pass_dump *pass_dump; /* must outlive the session; NULL: none */
};

/* The session takes ownership of the library on success. */
enum rt_status rt_session_new(struct rt_session **out, struct rt_library *library,
                              const struct rt_session_options *options, struct rt_error *err);
void rt_session_free(struct rt_session *s); /* NULL is fine */
const struct rt_graph *rt_session_graph(const struct rt_session *s);
/* Code that loads or compiles calls this between its steps: between passes, between the nodes that
 * it prepares, and between constants, or pieces of them, that it reads. RT_CANCELLED:
 * options.cancelled is true, or the session is about to be freed. */
enum rt_status rt_session_check(const struct rt_session *s, struct rt_error *err);

/*
 * What a callable computes. Feeds and fetches are names of any tensors of the graph ("x:0", "x");
 * targets are nodes that run for their effect. A feed cuts the graph: nodes that only the fed
 * tensor needs are not run. rt_session_prepare makes the plan at once and keeps it, for a bounded
 * number of different specs (RT_RESOURCE_EXHAUSTED beyond it).
 */
struct rt_call_spec {
    const char *const *feeds;
    const char *const *fetches;
    const char *const *targets;
    int n_feeds, n_fetches, n_targets;
    /* True for restore and init ops: variables that this callable writes do not become mutable by
     * it, so they may still be constants of plans. */
    bool is_load;
};
enum rt_status rt_session_prepare(struct rt_session *s, const struct rt_call_spec *spec,
                                  struct rt_callable **out, struct rt_error *err);

struct rt_trace;
struct rt_run_options {
    int64_t deadline_ns;           /* CLOCK_MONOTONIC; 0 or RT_NEVER: none */
    const _Atomic bool *cancelled; /* true ends the run with RT_CANCELLED; NULL: the session's */
    /* Flags of the requests that share a merged run. The run ends with RT_CANCELLED when all of
     * them are true. Empty: no effect. */
    const _Atomic bool *const *all_cancelled;
    int n_all_cancelled;
    struct rt_trace *trace; /* NULL: none (runtime/exec/trace.h) */
    /* The feeds hold the rows of several calls, which were merged because rt_callable_is_rowwise
     * allowed it. The present plan, which may have been made again after a variable was assigned,
     * must pass row-wise analysis for the feeds' lengths. If it does not, nothing runs and the
     * status is RT_ABORTED, or RT_UNAVAILABLE if a later run may pass: with other lengths, or when
     * there is memory for the analysis. */
    bool is_merged;
};
/* RT_CANCELLED or RT_DEADLINE_EXCEEDED once a run with these options should end. For code that
 * prepares the feeds of a run (runtime/exec/run_options.c). */
enum rt_status rt_run_options_check(const struct rt_run_options *options, struct rt_error *err);

/*
 * Runs the callable's plan. feeds: one tensor per feed, in the order of the spec; borrowed for the
 * call. A feed whose dtype is not the placeholder's is refused. fetches: filled in the order of the
 * spec; the caller clears them; all zero on failure. Errors carry TensorFlow's text.
 */
enum rt_status rt_callable_run(struct rt_callable *c, const struct rt_tensor *feeds,
                               struct rt_tensor *fetches, const struct rt_run_options *options,
                               struct rt_error *err);

/*
 * Compilation for exact shapes. Plans are specialised for shapes that recur; until a specialisation
 * exists, a run computes the same answer more slowly. Every run queues its shapes, and
 * rt_callable_request_compilation queues shapes that are expected (all dimensions known). A thread
 * takes pending compilations from the queue:
 *
 *   while a version is loaded    the loader's thread, by rt_session_compile between its runs
 *   while it is served           the background compiler's (compiler.h), which the queue wakes
 *   options.compiles_inline      the thread that runs
 */
void rt_callable_request_compilation(struct rt_callable *c, const struct rt_shape *shapes);
/* Compiles what is pending and returns the number of compilations. Slow; runs may go on. */
int rt_session_compile(struct rt_session *s);
/* For the loader: between a call with `yes` and one without, the background compiler leaves the
 * session alone, and a shape is compiled at its first occurrence. `cancelled` replaces
 * options.cancelled; it may be NULL, and is NULL in the second call. Nothing else uses the session
 * while it is loaded. */
void rt_session_loading(struct rt_session *s, bool yes, const _Atomic bool *cancelled);
/* Whether feeds with `rows` rows, of any inner shape, are compiled, for the first segment of the
 * plan at least. Never waits; the answer may be out of date. */
bool rt_callable_is_compiled(const struct rt_callable *c, int64_t rows);

/* Whether it changes state or may block, and so runs alone. */
bool rt_callable_writes(const struct rt_callable *c);
enum rt_dtype rt_callable_feed_dtype(const struct rt_callable *c, int feed);
/* The check that a run makes first: RT_INVALID_ARGUMENT, with TensorFlow's text, unless each feed
 * has its placeholder's dtype. Any thread. */
enum rt_status rt_callable_check_feeds(const struct rt_callable *c, const struct rt_tensor *feeds,
                                       struct rt_error *err);
enum rt_dtype rt_callable_fetch_dtype(const struct rt_callable *c, int fetch);

/*
 * Row-wise analysis: whether requests may be merged along dimension 0 of every feed, because each
 * output row is proved to depend on the input rows of the same index alone. `shapes`: the
 * signature's, one per feed. Unknown dimensions other than 0 are tried with some lengths; for other
 * lengths the answer is a guess, and a merged run is analysed for its own lengths
 * (rt_run_options.is_merged). False: `why` names the node and the op that prevent merging; or its
 * code is RT_RESOURCE_EXHAUSTED, if there was no memory for the analysis, which might succeed. The
 * answer holds for the present values of the variables.
 */
bool rt_callable_is_rowwise(struct rt_callable *c, const struct rt_shape *shapes,
                            struct rt_error *why);

/* Admits the weights of a checkpoint that holds `bytes` of them: the limit of restored weights is
 * state_memory_limit beyond these bytes (runtime/session/state.h). Called once, before the first
 * run. */
void rt_session_admit_weights(struct rt_session *s, int64_t bytes);
/*
 * Changes the session from loading to serving, after restore and init. Every callable prepared so
 * far, except those with is_load, has marked the variables that it writes as mutable. From now on
 * all other variables are constants of plans, and existing plans are made again at their next use.
 */
void rt_session_serve(struct rt_session *s);
/*
 * For runs of the loader that must leave no trace in later answers. With `yes` the states of nodes
 * (random generators) are set aside, and runs make new states. Without `yes` the new states are
 * dropped and the old ones restored. No run is going on during either call.
 */
void rt_session_set_aside(struct rt_session *s, bool yes);

/*
 * Ends loading: reads the constants of all `callables` into memory. Variables that no callable
 * reaches are read only with `load_all`; otherwise a callable that is made later reads them from
 * the files, and verifies their checksums.
 */
enum rt_status rt_session_seal(struct rt_session *s, struct rt_callable *const *callables, int n,
                               bool load_all, struct rt_error *err);

/* An op, dtype or attribute of a node that cannot be run. */
struct rt_missing {
    const char *node, *op, *reason; /* texts in the arena of rt_session_missing */
};
/* Lists the nodes that the plan for `spec` would need and that cannot be run, also those in
 * functions. *out: an array of *n in `arena`. */
enum rt_status rt_session_missing(struct rt_session *s, const struct rt_call_spec *spec,
                                  struct rt_arena *arena, struct rt_missing **out, int *n,
                                  struct rt_error *err);

struct rt_session_stats {
    int64_t packed_bytes; /* constants that kernels have packed */
    int64_t runs, nodes_run;
    int n_specialisations;
    size_t specialisation_bytes;
    size_t idle_bytes;  /* bytes of idle contexts and pools */
    size_t state_bytes; /* in variables and tables, without weights from files
                           (runtime/session/state.h) */
};
void rt_session_stats(struct rt_session *s, struct rt_session_stats *out);

#endif
