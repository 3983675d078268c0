/*
 * A context holds the memory for one run of one plan. This header also declares the state that all
 * contexts of one request share. An idle context stays with its plan for the next run
 * (exec/context.c). The scratch memory of a context grows as runs need more
 * (runtime/plan/scratch.c).
 *
 * Owner: a run owns the contexts that it takes; the plan owns idle contexts. Threads: a context is
 * used by one thread at a time. The plan's lock guards the list of idle contexts.
 */
#ifndef RT_CONTEXT_H
#define RT_CONTEXT_H

#include "runtime/session/run_end.h"
#include "runtime/exec/alias.h"
#include "runtime/plan/plan.h"

struct rt_instance;
struct rt_session;
struct rt_trace;
struct rt_wait_hook;

/* The state that all contexts of one request share. */
struct rt_run_shared {
    struct rt_session *session;
    /* reference to the outermost plan, or NULL if the run requests no compilation */
    struct rt_plan_box *box;
    struct rt_pool *pool;
    int64_t deadline_ns;
    /* The run's deadline in CPU time of its thread (rt_thread_cpu_ns), or 0 if there is none. Set
     * only if `alone` is set. */
    int64_t cpu_end_ns;
    const _Atomic bool *cancelled;
    /* cancellation flags of a merged run (rt_run_options) */
    const _Atomic bool *const *all_cancelled;
    int n_all_cancelled;
    int depth;
    bool alone;
    /* whether the plan that runs next takes over the caller's references to its feeds */
    bool moving;
    int64_t nodes_run;
    struct rt_aliases aliases;
    struct rt_trace *trace;             /* trace that the run records, or NULL if it records none */
    const struct rt_wait_hook *on_wait; /* called before the run's first wait, then set to NULL */
    _Atomic int64_t *computes_since_ns; /* as in the hook, or NULL before it was called */
    int accelerator;                    /* index of the session's accelerator that the run uses */
    struct rt_run_end *ends;            /* set by rt_run_at_end */
};

struct rt_context {
    struct rt_context *next;      /* next context in the plan's list of idle contexts */
    const struct rt_plan *plan;   /* the context's plan, or NULL for a single kernel */
    struct rt_run_shared *shared; /* state of the current request, or NULL if the context is idle */
    size_t reserved;
    struct rt_tensor *value; /* the plan's values, an array of n_values tensors */
    struct rt_tensor *in, *out;
    /* While a node runs, `handle[k]` is the handle of the variable whose value is in `in[k]`. */
    struct rt_tensor *handle;
    int64_t *key;
    int key_capacity;
    void *scratch;
    size_t scratch_capacity;
    void *extra; /* memory that rt_scratch returns */
    size_t extra_capacity;
    /* The activation buffer, shared by the context's execution instances. Its contents are valid
     * while one segment runs. */
    void *activations;
    size_t activation_capacity;
    struct rt_instance *instances;
    size_t instance_bytes;
    /* value of the session's `retirements` when this context last dropped retired instances */
    int retirements;
    /* A loop's values before and after an iteration, or the feeds and results of a PL_MAP or
     * PL_BATCH: `2 * max_in + max_out` tensors. NULL if the plan has no such step. */
    struct rt_tensor *loop;
};

/* Returns the accelerator that the context's run uses, or NULL if its session has none. */
struct rt_device *rt_context_accelerator(const struct rt_context *c);

/* ---- contexts of a plan ---- */

/* The idle contexts of a plan (exec/context.c). rt_contexts_begin must be called before the plan's
 * first run, and rt_contexts_end after the plan's last run. rt_contexts_take_retired is called
 * under spec_mu when specialisations are retired, and moves their execution instances out of the
 * idle contexts to *list. */
void rt_contexts_begin(struct rt_plan *p);
void rt_contexts_end(struct rt_plan *p);
void rt_contexts_take_retired(struct rt_plan *p, struct rt_instance **list);
/*
 * Takes a context for several successive runs of one plan, such as the iterations of a loop.
 * Returns NULL if out of memory. rt_context_give returns the context to the plan, so that other
 * runs can use it.
 */
struct rt_context *rt_context_take(struct rt_plan *p, struct rt_run_shared *shared);
void rt_context_give(struct rt_context *c);

/* ---- scratch memory ---- */

/* Makes sure that buffer *p of the context, which has *capacity bytes, has at least `bytes` bytes.
 * A buffer that grows loses its contents. The memory is charged to the run's pool, like the memory
 * of a tensor. */
enum rt_status rt_context_scratch(struct rt_context *c, void **p, size_t *capacity, size_t bytes,
                                  const char *what, struct rt_error *err);
void rt_context_drop_scratch(struct rt_context *c);
size_t rt_context_held(const struct rt_context *c);
/* Allocates memory aligned to 64 bytes. The caller frees the memory with free(). A large allocation
 * is mapped in huge pages, if the system has them. */
void *rt_large_alloc(size_t bytes);

/* Ends what nodes have left to the end of the run (rt_run_at_end). */
void rt_run_shared_end(struct rt_run_shared *s, bool has_succeeded);

/* ---- loading and allocating, while the run may continue ---- */

enum rt_status rt_run_shared_check(const struct rt_run_shared *s, struct rt_error *err);
enum rt_status rt_context_check(const struct rt_context *c, struct rt_error *err);
/* rt_run_shared_load and rt_context_load load a tensor as rt_tensor_load does, but fail when the
 * run is cancelled or past its deadline (rt_context_check). */
enum rt_status rt_run_shared_load(struct rt_run_shared *s, struct rt_tensor *t,
                                  struct rt_error *err);
enum rt_status rt_context_load(struct rt_context *c, struct rt_tensor *t, struct rt_error *err);
/* Returns rt_context_check as a check for functions that do not know contexts. */
struct rt_check rt_context_as_check(const struct rt_context *c);
/* Makes a tensor in the run's pool. Fails, even while a large tensor is being zeroed, once
 * rt_context_check fails. */
enum rt_status rt_context_tensor(struct rt_context *c, struct rt_tensor *t, enum rt_dtype dtype,
                                 int rank, const int64_t *dim, struct rt_error *err);

/* ---- the processor's mode ---- */

/*
 * rt_flush_subnormals makes the processor flush subnormal operands and results to zero, as
 * TensorFlow does, because some loops are ten times slower on subnormals. It returns the previous
 * mode, which rt_restore_subnormals sets again at the end of the run.
 */
unsigned rt_flush_subnormals(void);
void rt_restore_subnormals(unsigned before);

#endif
