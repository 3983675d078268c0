/*
 * A session: a graph with its slots (variables, tables and other resources). It runs plans, one
 * per set of feeds and fetches; see plan.h for how a plan is made.
 *
 * Owner: callables live as long as their session. Tensors that come out hold references of their
 * own and may outlive everything.
 * Threads: run from as many threads as you like; prepare locks; free when nothing runs any more.
 */
#ifndef RT_SESSION_H
#define RT_SESSION_H

#include "runtime/core/graph.h"
#include "runtime/core/op.h"

struct rt_compiler;
struct rt_session;
struct rt_callable;
struct rt_parallel;
struct rt_autotune;
struct rt_idle_cache;

/* For tools: the compiler's graph as text (runtime/ir/dump.h) behind each pass, or behind those of
 * one name (rt_pass_name). `put` is called on the thread that makes a plan, any at a time. */
struct rt_pass_dump {
    void (*put)(void *arg, const char *text, size_t n);
    void *arg;
    const char *pass; /* NULL: all */
};
const char *rt_pass_name(int i); /* of the passes, in order; NULL: there are no more */

struct rt_session_options {
    const struct rt_registry *registry; /* must outlive the session */
    size_t run_memory_limit;            /* bytes that one run may hold at a time; 0: no limit */
    size_t state_memory_limit; /* bytes that runs may leave in variables and tables; 0: no limit */
    struct rt_budget *budget;  /* of all runs of all sessions that share it; NULL: none */
    struct rt_idle_cache *
        idle_cache; /* runtime/session/idle_cache.h; must outlive; NULL: one of the session's own */
    /* Cores that a run may use besides its own (runtime/exec/parallel.h), likewise shared; must
     * outlive the session. NULL: every run stays on its thread. */
    struct rt_parallel *parallel;
    bool log_device_placement;
    struct rt_tuning tuning;
    struct rt_compiler *compiler; /* NULL: none, and what waits is compiled by whoever says so */
    bool compiles_inline; /* at the first sight, on the thread that runs: for tools and tests */
    struct rt_autotune *autotune; /* what timing found out before; must outlive; NULL: nothing */
    struct rt_device *const *devices; /* besides the CPU; must outlive the session */
    int n_devices;
    /* Until rt_session_loading says otherwise: true ends whatever is being done, with
     * RT_CANCELLED. May be NULL. */
    const _Atomic bool *cancelled;
    const struct rt_pass_dump *pass_dump; /* must outlive the session; NULL: none */
};

/* Takes the library on success. */
enum rt_status rt_session_new(struct rt_session **out, struct rt_library *library,
                              const struct rt_session_options *options, struct rt_error *err);
void rt_session_free(struct rt_session *s); /* NULL is fine */
const struct rt_graph *rt_session_graph(const struct rt_session *s);
/* What loads and compiles asks this between its steps: the passes over a plan, the nodes that are
 * prepared, the constants and pieces of them that are read. RT_CANCELLED: options.cancelled, or the
 * session ends. */
enum rt_status rt_session_check(const struct rt_session *s, struct rt_error *err);

/*
 * Feeds and fetches are tensor names ("x:0", "x"), any tensor of the graph; targets are nodes to
 * run for their effect. The plan is made at once and kept, for a bounded number of different specs
 * (RESOURCE_EXHAUSTED beyond). A feed cuts the graph:
 * what only it needed is not run.
 */
struct rt_call_spec {
    const char *const *feeds;
    const char *const *fetches;
    const char *const *targets;
    int n_feeds, n_fetches, n_targets;
    /* Restore and init: what this writes is not thereby written by what is served, so that those
     * variables may still become constants. */
    bool is_load;
};
enum rt_status rt_session_prepare(struct rt_session *s, const struct rt_call_spec *spec,
                                  struct rt_callable **out, struct rt_error *err);

struct rt_trace;
struct rt_run_options {
    int64_t deadline_ns;           /* CLOCK_MONOTONIC; 0 or RT_NEVER: none */
    const _Atomic bool *cancelled; /* true ends the run with RT_CANCELLED; NULL: the session's */
    /* Of a run for several: it ends so when all of these are true. None: it does not. */
    const _Atomic bool *const *all_cancelled;
    int n_all_cancelled;
    struct rt_trace *trace; /* NULL: none (runtime/exec/trace.h) */
    /* The rows fed are those of several calls, merged because rt_callable_is_rowwise said that they
     * may be. The plan as it is now, perhaps made again because a variable was assigned, must be
     * proved for the feeds' lengths: otherwise nothing runs, and the status is RT_ABORTED, or
     * RT_UNAVAILABLE where a later run may be proved, because it has other lengths or because there
     * is memory for the proof then. */
    bool is_merged;
};
/* RT_CANCELLED or RT_DEADLINE_EXCEEDED once a run with these options should end: for what prepares
 * its feeds. */
enum rt_status rt_run_options_check(const struct rt_run_options *options, struct rt_error *err);

/*
 * feeds: one tensor per feed, in the order of the spec; borrowed for the call. A dtype that is not
 * the placeholder's is refused. fetches: filled in order, to be cleared by the caller; all zero on
 * failure. Errors carry TensorFlow's text.
 */
enum rt_status rt_callable_run(struct rt_callable *c, const struct rt_tensor *feeds,
                               struct rt_tensor *fetches, const struct rt_run_options *options,
                               struct rt_error *err);

/*
 * Plans are compiled for the shapes that recur; they run slower until then, and answer the same.
 * Whoever runs or schedules asks: a run by its shapes, rt_callable_request_compilation by those
 * that will come (all dimensions known). What is asked for waits until some thread compiles:
 *
 *   a version is loaded   the loader's thread, by rt_session_compile between its runs
 *   it is served          the compiler's (compiler.h), woken when something was asked for
 *   options.compiles_inline   the one that runs
 */
void rt_callable_request_compilation(struct rt_callable *c, const struct rt_shape *shapes);
/* Compiles what waits, and returns how many that was. Takes a while; beside runs. */
int rt_session_compile(struct rt_session *s);
/* For the loader: the compiler stays away until `yes` is taken back, a shape recurs when it is seen
 * once, and *cancelled takes the place of options.cancelled. It may be NULL, and is so for `no`:
 * nothing else goes on while a session is loaded. */
void rt_session_loading(struct rt_session *s, bool yes, const _Atomic bool *cancelled);
/* Whether feeds of so many rows (of whatever inner shape) were compiled, for the first part of the
 * plan at least. Never waits; may be out of date. */
bool rt_callable_is_compiled(const struct rt_callable *c, int64_t rows);

bool rt_callable_writes(const struct rt_callable *c); /* changes state or blocks: runs alone */
enum rt_dtype rt_callable_feed_dtype(const struct rt_callable *c, int feed);
/* INVALID_ARGUMENT, in TensorFlow's words, unless each feed is of its type: what a run does first.
 * Any thread. */
enum rt_status rt_callable_check_feeds(const struct rt_callable *c, const struct rt_tensor *feeds,
                                       struct rt_error *err);
enum rt_dtype rt_callable_fetch_dtype(const struct rt_callable *c, int fetch);

/*
 * Whether requests may be merged along dimension 0 of every feed: each output row proved to depend
 * on the same input row alone. `shapes`: the signature's, one per feed. Dimensions other than 0
 * that are unknown are tried with some lengths, so that the answer is a guess for others: a run of
 * merged calls is proved for its own lengths (rt_run_options.is_merged). False: `why` names the
 * node and the op that prevents it, or its code is RT_RESOURCE_EXHAUSTED: there was no memory to
 * find out, and it may be true. The answer is about the variables' values of now.
 */
bool rt_callable_is_rowwise(struct rt_callable *c, const struct rt_shape *shapes,
                            struct rt_error *why);

/* What restores of a load take has a limit, like all that runs of a load leave: it begins behind
 * the bytes of the model's checkpoint. Once, before the first run. */
void rt_session_admit_weights(struct rt_session *s, int64_t bytes);
/*
 * Restore and init have ended. Every callable prepared so far, but for loads, has marked what it
 * writes; from now on the other variables are constants of plans, and plans made so far are made
 * again on next use.
 */
void rt_session_serve(struct rt_session *s);
/*
 * For runs of the loader's own, which no request must notice: with `yes` the states of nodes
 * (random generators) are set aside, and runs make new ones; they are dropped when `yes` is taken
 * back, and those set aside go on where they were. Nothing else runs at both times.
 */
void rt_session_set_aside(struct rt_session *s, bool yes);

/*
 * Ends loading: everything in `callables` has its constants in memory. Unless `load_all`, variables
 * that no callable reaches stay unread; a callable made later reads them from the files then, with
 * their checksums.
 */
enum rt_status rt_session_seal(struct rt_session *s, struct rt_callable *const *callables, int n,
                               bool load_all, struct rt_error *err);

/* One op, dtype or attribute that a plan would meet and cannot run. */
struct rt_missing {
    const char *node, *op, *reason; /* in the arena given */
};
/* What of the plan for `spec` could not run: functions are followed. *out: an array in `arena`. */
enum rt_status rt_session_missing(struct rt_session *s, const struct rt_call_spec *spec,
                                  struct rt_arena *arena, struct rt_missing **out, int *n,
                                  struct rt_error *err);

struct rt_session_stats {
    int64_t packed_bytes; /* constants in the forms that kernels packed them into */
    int64_t runs, nodes_run;
    int n_specialisations; /* compiled for exact shapes */
    size_t specialisation_bytes;
    size_t idle_bytes;  /* that wait for the next runs */
    size_t state_bytes; /* in variables and tables, but for weights in files
                           (runtime/session/state.h) */
};
void rt_session_stats(struct rt_session *s, struct rt_session_stats *out);

#endif
