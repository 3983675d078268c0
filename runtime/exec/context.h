/*
 * Contexts: the memory of one run of one plan, and what all contexts of one request share. An idle
 * context stays with its plan for the next run (exec/context.c), and its scratch memory grows as
 * runs need more (runtime/plan/scratch.c, which benchmarks of kernels use without an executor).
 *
 * Owner: a run owns the contexts that it takes; the plan owns idle ones.
 * Threads: a context is used by one thread at a time. The lists of idle contexts have the plan's
 * lock.
 */
#ifndef RT_CONTEXT_H
#define RT_CONTEXT_H

#include "runtime/exec/alias.h"
#include "runtime/plan/plan.h"

struct rt_instance;
struct rt_session;
struct rt_trace;

/* The state that all contexts of one request share. */
struct rt_run_shared {
    struct rt_session *session;
    /* the box of the outermost plan; NULL: the run requests no compilation */
    struct rt_plan_box *box;
    struct rt_pool *pool;
    int64_t deadline_ns;
    /* The deadline in the time of rt_thread_cpu_ns, for a run that is `alone`; 0: there is none. */
    int64_t cpu_end_ns;
    const _Atomic bool *cancelled;
    const _Atomic bool *const *all_cancelled; /* as in rt_run_options */
    int n_all_cancelled;
    int depth;   /* nesting depth of sub-plan calls */
    bool alone;  /* the run stays on its thread */
    bool moving; /* the feeds of the next plan are held by its caller alone, and the plan may take
                    them */
    int64_t nodes_run;
    struct rt_aliases aliases;
    struct rt_trace *trace; /* NULL: nobody reads the times of nodes */
};

/* The memory of one run of one plan. One thread uses it at a time. */
struct rt_context {
    struct rt_context *next;      /* next context in the plan's list of idle contexts */
    const struct rt_plan *plan;   /* NULL: the context runs a single kernel */
    struct rt_run_shared *shared; /* NULL: the context is idle */
    size_t reserved;              /* bytes reserved in the session's idle cache */
    struct rt_tensor *value;      /* n_values tensors */
    struct rt_tensor *in, *out;
    struct rt_tensor *temp; /* dereferenced and loaded inputs, dropped after the node */
    int64_t *key;
    int key_capacity;
    void *scratch;
    size_t scratch_capacity;
    void *extra; /* memory of rt_scratch */
    size_t extra_capacity;
    void *activations; /* the activation buffer of all execution instances; its contents live for
                          one segment of one run */
    size_t activation_capacity;
    struct rt_instance *instances; /* the most recently used first */
    size_t instance_bytes;         /* bytes of all execution instances */
    int retirements; /* the session's count of retirements when this context last dropped retired
                        instances */
    struct rt_tensor *loop;    /* 2 * max_in tensors, when the plan has a loop */
    struct rt_stream **stream; /* a stream per device of the session; entries may be NULL */
};

/* ---- contexts of a plan ---- */

/* A plan's idle contexts (exec/context.c). rt_contexts_begin is called before the plan's first run
 * and rt_contexts_end after its last. rt_contexts_take_retired is called under spec_mu when
 * specialisations are retired: it moves their execution instances out of the idle contexts to
 * *list. */
void rt_contexts_begin(struct rt_plan *p);
void rt_contexts_end(struct rt_plan *p);
void rt_contexts_take_retired(struct rt_plan *p, struct rt_instance **list);
/*
 * Takes a context for several successive runs of one plan, as the iterations of a loop. NULL: out
 * of memory. rt_context_give lets other runs use it.
 */
struct rt_context *rt_context_take(struct rt_plan *p, struct rt_run_shared *shared);
void rt_context_give(struct rt_context *c);

/* ---- scratch memory ---- */

/* Grows a buffer of the context: *p, which has *capacity bytes, becomes a buffer of at least
 * `bytes`. The old contents are lost. The memory is charged to the run's pool, like a tensor. */
enum rt_status rt_context_scratch(struct rt_context *c, void **p, size_t *capacity, size_t bytes,
                                  const char *what, struct rt_error *err);
void rt_context_drop_scratch(struct rt_context *c); /* frees all scratch buffers */
size_t rt_context_held(const struct rt_context *c); /* bytes of all scratch buffers */
/* Memory for free(), 64-byte aligned. A large allocation is mapped in huge pages, if the system has
 * them. */
void *rt_large_alloc(size_t bytes);

/* ---- loading and allocating, as long as the run may go on ---- */

enum rt_status rt_run_shared_check(const struct rt_run_shared *s, struct rt_error *err);
enum rt_status rt_context_check(const struct rt_context *c, struct rt_error *err);
/* As rt_tensor_load, but ends early when the run is cancelled or past its deadline
 * (rt_context_check). */
enum rt_status rt_run_shared_load(struct rt_run_shared *s, struct rt_tensor *t,
                                  struct rt_error *err);
enum rt_status rt_context_load(struct rt_context *c, struct rt_tensor *t, struct rt_error *err);
/* Makes a tensor in the run's pool. Zeroing a large tensor ends early when rt_context_check
 * fails. */
enum rt_status rt_context_tensor(struct rt_context *c, struct rt_tensor *t, enum rt_dtype dtype,
                                 int rank, const int64_t *dim, struct rt_error *err);

/* ---- the processor's mode ---- */

/*
 * TensorFlow computes with subnormal numbers flushed to zero, as results and as operands, and
 * Slipway does the same: some loops are ten times slower on subnormals. The mode is set only for
 * the time of a run.
 */
unsigned rt_flush_subnormals(void);
void rt_restore_subnormals(unsigned before);

#endif
