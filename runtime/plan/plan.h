/*
 * Plans, inside the runtime. A plan is how one set of feeds and fetches is computed: nodes in an
 * order that works, values by index, constants in place. The passes make it of a graph (ir/ir.h) by
 * the table of passes/pipeline.c. While it is used run_plan.c runs it, node by node (exec_node.c,
 * with what prepared.c and choose.c know) or as compiled for exact shapes (layout.h).
 *
 * Owner: who built it frees it (rt_plan_free), or holds its box. Threads: a plan is immutable and
 * shared by any number of contexts, but for its cache of prepared kernels (prepared.c) and of idle
 * contexts, which lock.
 */
#ifndef RT_PLAN_H
#define RT_PLAN_H

#include "runtime/base/arena.h"
#include "runtime/core/op.h"
#include "runtime/exec/alias.h"
#include "runtime/plan/row_analyses.h"
#include "runtime/session/session_internal.h"

struct rt_plan;

/* Of nodes of the compiler's graph (ir/ir.h) and of steps of a plan. */
enum pl_kind {
    PL_GONE, /* removed by a pass; no step */
    PL_OP,
    PL_CONST, /* `value` */
    PL_FEED,  /* output 0 is feed number `feed` */
    PL_CALL,  /* a function too large to inline: sub[0] */
    PL_IF,    /* sub[0] when true, sub[1] when false; input 0 is the condition */
    PL_CASE,  /* sub[input 0], the last one when out of range */
    PL_WHILE, /* sub[0] the condition, sub[1] the body */
    PL_COPY,  /* input 0, on another device */
};

/* An output of a node of a graph, or of a step of a plan. */
struct pl_edge {
    int node, out; /* node -1: none */
};

/* A condition's truth as TensorFlow sees it: scalars by value, strings and others by having
 * something in them. False: a type that has none. `t` is loaded. */
bool pl_truth(const struct rt_tensor *t, bool *truth);
/* Switch, Merge, Enter, Exit, NextIteration, LoopCond and their Ref forms. */
bool pl_is_token(const struct rt_node *n);
/* Input k of `n` wants what its ref points to, when it is given a ref. */
static inline bool pl_follows_refs(const struct rt_node *n, int k)
{
    return n->in_dtype[k] != RT_RESOURCE && !(k < 64 && (n->in_ref >> k & 1));
}
/* Input k of `n`, a tensor of type `dtype`, is the handle of a variable whose value `n` reads when
 * it runs. Neither the value nor its shape is known before: nothing that outlives a run may hold
 * it. */
static inline bool pl_reads_variable(const struct rt_node *n, int k, uint8_t dtype)
{
    return dtype == RT_RESOURCE && pl_follows_refs(n, k);
}
/* Input k of `n` may be a variable's value instead of its handle: that is how it is frozen. */
static inline bool pl_takes_value(const struct rt_node *n, int k)
{
    return k == 0 && (strcmp(n->schema->name, "ResourceGather") == 0 ||
                      strcmp(n->schema->name, "ResourceGatherNd") == 0);
}

/* ---- the plan ---- */

/*
 * One step of a plan: a node of the graph that it was made of, in its place in the order, with the
 * kernels that may run it. Immutable, but for `prepared`, which locks.
 */
struct rt_plan_step {
    uint8_t kind;              /* enum pl_kind */
    uint8_t effect;            /* enum rt_effect of the op */
    uint8_t effects;           /* with sub-plans: bit k: an op of effect k is inside */
    uint8_t device;            /* index into the session's devices; 0 is the CPU */
    bool was_switch;           /* a PL_IF or PL_WHILE that was cut out of a graph with tokens */
    const struct rt_node *def; /* attributes and types; NULL for PL_COPY and pivots */
    const char *name;          /* with the names of the calls around it */
    int n_in, n_out, n_ctrl;
    struct pl_edge *in;     /* from steps */
    int *ctrl;              /* steps */
    int call_skip;          /* of a PL_CALL: from this input on they are the function's */
    struct rt_tensor value; /* PL_CONST */
    int feed;               /* PL_FEED */
    struct rt_plan **sub;
    int n_sub;
    int first_value;   /* index of output 0 */
    int *in_value;     /* per input */
    uint64_t last_use; /* bit k: input k is not read later by anybody (order executor) */
    int n_release;     /* values that are not read after this step */
    int *release;
    const struct rt_kernel **kernels; /* candidates for its device and types */
    int n_kernels;
    bool lazy;         /* every candidate takes lazy inputs as they are */
    uint64_t const_in; /* bit k: input k is the same in every run: a PL_CONST, and no variable that
                          the step reads through it */
    struct rt_prepared_cache *prepared;
};

struct rt_plan {
    struct rt_session *session;
    struct rt_arena *arena;
    int n_nodes; /* in order: a node stands after what it reads (token plans: any order) */
    struct rt_plan_step *node;
    int n_values;
    const struct rt_tensor **constant; /* per value: what it always is, else NULL */
    int n_feeds, n_fetches;
    int *feed_value;  /* -1: nobody reads it */
    int *fetch_value; /* index of the value */
    uint8_t *feed_dtype, *fetch_dtype;
    uint8_t effects; /* bit k: a node of enum rt_effect k is inside */
    bool tokens;     /* has Switch, Merge, Enter, Exit or NextIteration: exec_token.c runs it */
    struct rt_token_plan *token; /* exec_token.c's, when `tokens` */
    int max_in, max_out;
    /* Per node, and one more: the segment that begins there, if one does (layout_cache.c); NULL
     * when nothing of this plan is ever compiled. A pointer is set once, atomically; what it points
     * to is guarded by the session's spec_mu. */
    _Atomic(struct rt_segment *) *segment;
    _Atomic uint64_t *compiled; /* of a callable's plan: bit per number of rows of its feeds */
    bool loops;                 /* a PL_WHILE is inside */
    bool writes_fed;            /* as pl_graph's, and so are these */
    struct rt_variable **handed_out;
    int n_handed_out;
    struct rt_mutex mu;
    struct rt_context *idle;           /* the last used first; guarded by mu */
    struct rt_cache_owner cache_owner; /* of them */
};

/* A plan in use: freed when retired and nobody runs it any more. */
struct rt_plan_box {
    struct rt_plan *plan;
    int generation;
    /* Both guarded by the callable's mu. */
    struct rt_row_analyses row_analyses;
    int64_t analyse_again_ns; /* not before: there was no memory for a proof; 0: now */
    atomic_int refs;
};
struct rt_plan_box *rt_plan_box_ref(struct rt_plan_box *b);
void rt_plan_box_unref(struct rt_plan_box *b); /* NULL is fine */

void rt_plan_free(struct rt_plan *p);

/* ---- running ---- */

/* What all contexts of one request share. */
struct rt_run_shared {
    struct rt_session *session;
    struct rt_plan_box *box; /* of the outermost plan; NULL: what runs is not worth compiling */
    struct rt_pool *pool;
    int64_t deadline_ns;
    int64_t cpu_end_ns; /* the same in the time of rt_thread_cpu_ns, of a run that is `alone`; 0:
                           none */
    const _Atomic bool *cancelled;
    const _Atomic bool *const *all_cancelled; /* as in rt_run_options */
    int n_all_cancelled;
    int depth;   /* of sub-plan calls */
    bool alone;  /* stays on its thread */
    bool moving; /* the next plan's feeds are held by its caller alone and may be taken */
    int64_t nodes_run;
    struct rt_aliases aliases;
    struct rt_trace *trace; /* NULL: nobody wants the times of nodes */
};

/* Memory of one run of one plan. One thread at a time. */
struct rt_context {
    struct rt_context *next;      /* while idle */
    const struct rt_plan *plan;   /* NULL: of one kernel alone */
    struct rt_run_shared *shared; /* NULL: idle */
    size_t reserved;              /* bytes that it has room for in the session's keep, idle */
    struct rt_tensor *value;      /* n_values */
    struct rt_tensor *in, *out;
    struct rt_tensor *temp; /* dereferenced and loaded inputs to drop after the node */
    int64_t *key;
    int key_capacity;
    void *scratch;
    size_t scratch_capacity;
    void *extra; /* rt_scratch */
    size_t extra_capacity;
    void *activations; /* of frames: what lies in it lives for one segment of one run */
    size_t activation_capacity;
    struct rt_instance *instances; /* the last used first */
    size_t instance_bytes;         /* of them */
    int retirements;               /* of the session, when frames were last looked through */
    struct rt_tensor *loop;        /* 2 * max_in, when the plan loops */
    struct rt_stream **stream;     /* per device of the session, NULL entries */
};

/* A plan's idle contexts (context.c): before its first run, after its last, and when layouts that
 * their frames may hold were retired (under spec_mu: what was theirs goes to *list). */
void rt_contexts_begin(struct rt_plan *p);
void rt_contexts_end(struct rt_plan *p);
void rt_contexts_take_retired(struct rt_plan *p, struct rt_instance **list);
/* *room bytes at *p, one of the context's, become at least `bytes`; what was there is not kept. It
 * counts as the run's, like a tensor. */
enum rt_status rt_context_scratch(struct rt_context *c, void **p, size_t *capacity, size_t bytes,
                                  const char *what, struct rt_error *err);
void rt_context_drop_scratch(struct rt_context *c); /* all such */
size_t rt_context_held(const struct rt_context *c); /* bytes of all such */
/* For free(): 64-byte aligned; what is large is mapped in large pages, if the system has them. */
void *rt_large_alloc(size_t bytes);
/*
 * A context for several runs of one plan, one after the other: what a loop's iterations are.
 * NULL: no memory. Given back, others may use it.
 */
struct rt_context *rt_context_take(struct rt_plan *p, struct rt_run_shared *shared);
void rt_context_give(struct rt_context *c);
enum rt_status rt_context_run(struct rt_context *c, const struct rt_tensor *feeds,
                              struct rt_tensor *fetches, struct rt_error *err);
/* feeds and fetches as rt_callable_run. */
enum rt_status rt_plan_run(struct rt_plan *p, struct rt_run_shared *shared,
                           const struct rt_tensor *feeds, struct rt_tensor *fetches,
                           struct rt_error *err);
/* The feeds are in their values already. */
enum rt_status rt_exec_order(struct rt_context *c, struct rt_error *err);
/* As rt_exec_order: what is fetched is in its value afterwards. A dead fetch is refused. */
enum rt_status rt_exec_token(struct rt_context *c, struct rt_error *err);
enum rt_status rt_token_prepare(struct rt_plan *p, struct rt_error *err); /* once, when made */
/*
 * Runs node i on `in` (its n_in inputs, refs still handles where deref says so; borrowed unless
 * their bit in last_use is set, when the node may take them and leaves the struct zeroed). `out`:
 * n_out zeroed tensors, filled. Errors carry " [[{{node NAME}}]]".
 */
enum rt_status rt_exec_node(struct rt_context *c, int i, struct rt_tensor *in, uint64_t last_use,
                            struct rt_tensor *out, struct rt_error *err);

/* The same of a node with an op and kernels; only this one of a context without a plan (fold.c). */
enum rt_status rt_exec_op(struct rt_context *c, struct rt_plan_step *n, struct rt_tensor *in,
                          uint64_t last_use, struct rt_tensor *out, struct rt_error *err);
/* The same on the context's values: inputs taken from there, outputs put there. */
enum rt_status rt_exec_in_place(struct rt_context *c, int i, uint64_t last_use,
                                struct rt_error *err);
/* Adds " [[{{node NAME}}]]" if there is none. */
enum rt_status rt_exec_fail_at(const struct rt_plan_step *n, struct rt_error *err);

enum rt_status rt_run_shared_check(const struct rt_run_shared *s, struct rt_error *err);
enum rt_status rt_context_check(const struct rt_context *c, struct rt_error *err);
/* rt_tensor_load, which ends early as rt_context_check says. */
enum rt_status rt_run_shared_load(struct rt_run_shared *s, struct rt_tensor *t,
                                  struct rt_error *err);
enum rt_status rt_context_load(struct rt_context *c, struct rt_tensor *t, struct rt_error *err);
/* A tensor of the run's; ends early, as rt_context_check says, where much is to be zeroed. */
enum rt_status rt_context_tensor(struct rt_context *c, struct rt_tensor *t, enum rt_dtype dtype,
                                 int rank, const int64_t *dim, struct rt_error *err);
/*
 * TensorFlow computes with subnormal numbers flushed to zero (both as results and as operands), and
 * so do we: some loops are ten times slower on them. Only for the time of a run.
 */
unsigned rt_flush_subnormals(void);
void rt_restore_subnormals(unsigned before);
/* A tensor in the memory of device `d`, which is not the host. */
enum rt_status rt_device_tensor(struct rt_device *d, struct rt_stream *s, struct rt_tensor *t,
                                enum rt_dtype dtype, int rank, const int64_t *dim,
                                struct rt_error *err);

/* ---- prepared kernels of a node (prepared.c) ---- */

struct rt_prepared {
    struct rt_prepared *next;
    const struct rt_kernel *kernel;
    void *state;
    void (*release)(void *state);
    size_t scratch_bytes;
    uint64_t packed; /* bit k: input k is used in packed form, its plain bytes are not needed */
    const char *why; /* this kernel */
    struct pl_benchmark *benchmark; /* not NULL: made to be tried, its packed forms are made up */
    size_t packed_bytes;
    int n_key;
    int64_t *key;
    bool is_cached;
    int8_t *alias;
    int8_t *rank; /* per output: -1 not known before the run */
    int64_t (*dim)[RT_MAX_RANK];
    void *blocks; /* memory of rt_prep_alloc, a chain */
    size_t bytes; /* of those */
    struct rt_session *session;
    struct rt_plan_step *node;
};
/* The candidates of a node with an op, and its empty cache of prepared kernels, in `arena`:
 * kernels, n_kernels, lazy and prepared, which were zero. UNIMPLEMENTED: nothing can run it. */
enum rt_status pl_find_kernels(const struct rt_session *s, struct rt_arena *arena,
                               struct rt_plan_step *n, struct rt_error *err);
struct rt_prepared_cache;
struct rt_prepared_cache *rt_prepared_cache_new(struct rt_arena *arena);
void rt_prepared_cache_clear(struct rt_prepared_cache *c);
/* The state for these inputs, made if it is not there. Not is_cached: rt_prepared_free it. */
enum rt_status rt_prepared_get(struct rt_context *c, struct rt_plan_step *n,
                               const struct rt_tensor *in, struct rt_prepared **out,
                               struct rt_error *err);
void rt_prepared_free(struct rt_prepared *p);
/* Bytes of output o, whose shape is known; false: more than there can be. */
bool rt_prepared_bytes(const struct rt_prepared *p, int o, size_t *bytes);
/* The op's infer, which it has; then what it says must be shapes that may exist (rt_shape_check, of
 * the dimensions that are known), so that the next op's infer may multiply them. */
enum rt_status rt_infer_shapes(struct rt_infer *x);
/*
 * In two halves, from what is known of the inputs: the shapes, and then the kernel. `info`: n_in
 * inputs, with values as rt_infer (for the second half: as rt_prep) may see them, then n_out
 * outputs, which are filled in.
 */
enum rt_status rt_prepared_infer(struct rt_session *session, struct rt_plan_step *n, int n_key,
                                 const int64_t *key, struct rt_info *info, struct rt_prepared **out,
                                 struct rt_error *err);
enum rt_status rt_prepared_choose(struct rt_prepared *p, const struct rt_info *info,
                                  struct rt_error *err);
/* Chooses among the candidates and prepares the choice: kernel, state, release and scratch_bytes
 * of prep->self (choose.c). */
enum rt_status rt_choose_kernel(struct rt_prep *prep, const struct rt_kernel *const *kernels,
                                int n);
struct pl_chooser;                       /* what a session's choices share */
struct pl_chooser *pl_chooser_new(void); /* NULL: out of memory */
void pl_chooser_free(struct pl_chooser *c);
void pl_chooser_seal(struct rt_session *s); /* from now on by rule, or as before */
bool rt_prepared_uses_pack(struct rt_prepared_cache *c, int input);
/* The state that was made last; NULL: none was. */
const struct rt_prepared *rt_prepared_last(const struct rt_prepared_cache *c);

/* ---- layouts (layout.h), as far as sessions and plans see them ---- */

enum { RT_COMPILED_ROWS = 1024 }; /* more are not told of */
/* rt_callable_request_compilation of a plan: the layout of its first segment. */
void rt_segment_request(struct rt_plan_box *b, const struct rt_shape *shapes);
void rt_segments_free(struct rt_plan *p);
void rt_pending_compilations_free(struct rt_session *s);
/* ---- trials (trial.c) ---- */

struct rt_pack {
    void *data;
    size_t bytes;
    struct rt_pack *next; /* of a trial */
};
/*
 * The index of the best of a node's kernels, the first of which is the rule's; -1: it cannot be
 * tried. What it takes is taken from *left_ns. ns: what each took, at the batch given; -1: it did
 * not run. *packs: made-up constants, NULL at first, kept from one trial to the next.
 */
int pl_benchmark(const struct rt_prep *prep, const struct rt_kernel *const *kernels, int n,
                 struct rt_pack **packs, int64_t *left_ns, int64_t *ns);
void pl_benchmark_packs_free(struct rt_pack *packs); /* NULL is fine */
/* rt_prep_pack of a trial. */
enum rt_status pl_benchmark_pack(struct rt_prep *p, int input, size_t bytes,
                                 const struct rt_pack **out);
void rt_packs_clear(struct rt_map *packs);

void rt_callable_free(struct rt_callable *c); /* with its session */

/* Ops that the runtime itself runs: calls, branches, loops, placeholders, constants (control.c). */
bool rt_register_control(struct rt_registry *r);

#endif
