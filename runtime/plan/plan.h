/*
 * Plans, inside the runtime. A plan computes one set of fetches from one set of feeds: steps in
 * topological order, values by index, constants in place. The table of passes in passes/pipeline.c
 * makes a plan out of a compiler graph (ir/ir.h). exec/run_plan.c runs a plan, either node by node
 * (exec/exec_node.c, with the kernels of select/prepared.c and select/choose.c) or by
 * specialisations for exact shapes (specialisation.h).
 *
 * Owner: who builds a plan frees it (rt_plan_free), or holds its rt_plan_box. Threads: a plan is
 * immutable and shared by any number of contexts, except its caches of prepared kernels
 * (select/prepared.c) and of idle contexts, which have locks.
 */
#ifndef RT_PLAN_H
#define RT_PLAN_H

#include "runtime/base/arena.h"
#include "runtime/core/op.h"
#include "runtime/exec/alias.h"
#include "runtime/plan/row_analyses.h"
#include "runtime/session/session_internal.h"

struct rt_plan;

/* The kinds of nodes of the compiler's graph (ir/ir.h) and of steps of a plan. */
enum pl_kind {
    PL_GONE, /* removed by a pass; makes no step */
    PL_OP,
    PL_CONST, /* a constant: `value` */
    PL_FEED,  /* output 0 is feed number `feed` */
    PL_CALL,  /* calls a function that is too large to inline: sub[0] */
    PL_IF,    /* sub[0] when true, sub[1] when false; input 0 is the condition */
    PL_CASE,  /* sub[input 0], the last one when the index is out of range */
    PL_WHILE, /* sub[0] is the condition, sub[1] the body */
    PL_COPY,  /* copies input 0 to another device */
};

/* An output of a node of a graph, or of a step of a plan. */
struct pl_edge {
    int node, out; /* node -1: no edge */
};

/* A condition's truth as TensorFlow sees it: scalars by value, strings and other tensors by whether
 * they have any content. Returns false for a type that has no truth. `t` must be loaded. */
bool pl_truth(const struct rt_tensor *t, bool *truth);
/* The node is a Switch, Merge, Enter, Exit, NextIteration or LoopCond, or its Ref form. */
bool pl_is_token(const struct rt_node *n);
/* Input k of `n` needs the value that a ref points to, when the input is given a ref. */
static inline bool pl_follows_refs(const struct rt_node *n, int k)
{
    return n->in_dtype[k] != RT_RESOURCE && !(k < 64 && (n->in_ref >> k & 1));
}
/* Input k of `n`, a tensor of type `dtype`, is the handle of a variable whose value `n` reads when
 * it runs. Neither the value nor its shape is known before the run, so nothing that outlives a run
 * may hold either. */
static inline bool pl_reads_variable(const struct rt_node *n, int k, uint8_t dtype)
{
    return dtype == RT_RESOURCE && pl_follows_refs(n, k);
}
/* Input k of `n` may be a variable's value instead of its handle; pl_freeze puts the value
 * there. */
static inline bool pl_takes_value(const struct rt_node *n, int k)
{
    return k == 0 && (strcmp(n->schema->name, "ResourceGather") == 0 ||
                      strcmp(n->schema->name, "ResourceGatherNd") == 0);
}

/* ---- the plan ---- */

/*
 * One step of a plan: a node of the compiler's graph, in its place in the topological order, with
 * the kernels that may run it. A step is immutable, except `prepared`, which has a lock.
 */
struct rt_plan_step {
    uint8_t kind;    /* enum pl_kind */
    uint8_t effect;  /* enum rt_effect of the op */
    uint8_t effects; /* of a step with sub-plans: bit k is set if an op of effect k is inside */
    uint8_t device;  /* index into the session's devices; 0 is the CPU */
    bool was_switch; /* a PL_IF or PL_WHILE that was functionalised from Switch or loop nodes */
    const struct rt_node *def; /* attributes and types; NULL for PL_COPY and for steps without an op
                                  that only order others */
    const char *name;          /* prefixed by the names of the calls around the node */
    int n_in, n_out, n_ctrl;
    struct pl_edge *in; /* outputs of other steps */
    int *ctrl;          /* indexes of the steps that must run before this one */
    int call_skip;      /* PL_CALL: the inputs from this index on are the function's arguments */
    struct rt_tensor value; /* of a PL_CONST */
    int feed;               /* of a PL_FEED */
    struct rt_plan **sub;
    int n_sub;
    int first_value;   /* the value index of output 0 */
    int *in_value;     /* the value index of each input */
    uint64_t last_use; /* bit k: no later step reads input k (order executor) */
    int n_release;     /* number of values that no step reads after this one */
    int *release;
    const struct rt_kernel **kernels; /* candidates for the step's device and types */
    int n_kernels;
    bool lazy; /* every candidate accepts lazy inputs without loading them */
    /* Bit k: input k is the same in every run. It is a PL_CONST, and not the handle of a variable
     * that the step reads. */
    uint64_t const_in;
    struct rt_prepared_cache *prepared;
};

struct rt_plan {
    struct rt_session *session;
    struct rt_arena *arena;
    int n_nodes; /* in topological order (token plans: in any order) */
    struct rt_plan_step *node;
    int n_values;
    const struct rt_tensor **constant; /* per value: its constant tensor, or NULL */
    int n_feeds, n_fetches;
    int *feed_value;  /* value index of each feed; -1: no step reads the feed */
    int *fetch_value; /* value index of each fetch */
    uint8_t *feed_dtype, *fetch_dtype;
    uint8_t effects; /* bit k: a step of enum rt_effect k is inside */
    bool tokens;     /* has Switch, Merge, Enter, Exit or NextIteration: exec_token.c runs it */
    struct rt_token_plan *token; /* of exec_token.c, when `tokens` */
    int max_in, max_out;
    /* Per node, and one more: the segment that begins at the node, if one does
     * (exec/specialisation_cache.c). The array is NULL when no segment of this plan is ever
     * compiled. Each pointer is set once, atomically; the session's spec_mu guards the segment that
     * it points to. */
    _Atomic(struct rt_segment *) *segment;
    _Atomic uint64_t *compiled; /* of a callable's plan: one bit per number of rows of its feeds */
    bool loops;                 /* a PL_WHILE is inside */
    bool writes_fed;            /* this field and the next two are copied from pl_graph */
    struct rt_variable **handed_out;
    int n_handed_out;
    struct rt_mutex mu;
    struct rt_context *idle;           /* the most recently used first; guarded by mu */
    struct rt_cache_owner cache_owner; /* owns the idle contexts in the session's idle cache */
};

/* A plan in use. It is freed when it is retired and no run uses it any more. */
struct rt_plan_box {
    struct rt_plan *plan;
    int generation;
    /* The callable's mu guards both fields. */
    struct rt_row_analyses row_analyses;
    /* The earliest time of the next row-wise analysis, after one that failed for lack of memory; 0:
     * an analysis may begin at once. */
    int64_t analyse_again_ns;
    atomic_int refs;
};
struct rt_plan_box *rt_plan_box_ref(struct rt_plan_box *b);
void rt_plan_box_unref(struct rt_plan_box *b); /* NULL is fine */

void rt_plan_free(struct rt_plan *p);

/* ---- running ---- */

/* The state that all contexts of one request share. */
struct rt_run_shared {
    struct rt_session *session;
    struct rt_plan_box *box; /* of the outermost plan; NULL: the run requests no compilation */
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
    struct rt_context *next;      /* in the plan's list of idle contexts */
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
    struct rt_stream **stream; /* one per device of the session; entries may be NULL */
};

/* A plan's idle contexts (exec/context.c). rt_contexts_begin is called before the plan's first run
 * and rt_contexts_end after its last. rt_contexts_take_retired is called under spec_mu when
 * specialisations are retired: it moves their execution instances out of the idle contexts to
 * *list. */
void rt_contexts_begin(struct rt_plan *p);
void rt_contexts_end(struct rt_plan *p);
void rt_contexts_take_retired(struct rt_plan *p, struct rt_instance **list);
/* Grows a buffer of the context: *p, which has *capacity bytes, becomes a buffer of at least
 * `bytes`. The old contents are lost. The memory is charged to the run's pool, like a tensor. */
enum rt_status rt_context_scratch(struct rt_context *c, void **p, size_t *capacity, size_t bytes,
                                  const char *what, struct rt_error *err);
void rt_context_drop_scratch(struct rt_context *c); /* frees all scratch buffers */
size_t rt_context_held(const struct rt_context *c); /* bytes of all scratch buffers */
/* Memory for free(), 64-byte aligned. A large allocation is mapped in huge pages, if the system has
 * them. */
void *rt_large_alloc(size_t bytes);
/*
 * Takes a context for several successive runs of one plan, as the iterations of a loop. NULL: out
 * of memory. rt_context_give lets other runs use it.
 */
struct rt_context *rt_context_take(struct rt_plan *p, struct rt_run_shared *shared);
void rt_context_give(struct rt_context *c);
enum rt_status rt_context_run(struct rt_context *c, const struct rt_tensor *feeds,
                              struct rt_tensor *fetches, struct rt_error *err);
/* `feeds` and `fetches` are as in rt_callable_run. */
enum rt_status rt_plan_run(struct rt_plan *p, struct rt_run_shared *shared,
                           const struct rt_tensor *feeds, struct rt_tensor *fetches,
                           struct rt_error *err);
/* Runs a plan whose feeds already stand in the context's values. */
enum rt_status rt_exec_order(struct rt_context *c, struct rt_error *err);
/* As rt_exec_order, for a plan with tokens: the fetches stand in the context's values afterwards. A
 * dead fetch is refused. */
enum rt_status rt_exec_token(struct rt_context *c, struct rt_error *err);
/* Called once, when the plan is made. */
enum rt_status rt_token_prepare(struct rt_plan *p, struct rt_error *err);
/*
 * Runs node i on `in`, its n_in inputs. Refs are still handles where deref says so. An input is
 * borrowed unless its bit in last_use is set; then the node may take it and leaves the struct
 * zeroed. `out` has n_out zeroed tensors, which are filled. Errors end in " [[{{node NAME}}]]".
 */
enum rt_status rt_exec_node(struct rt_context *c, int i, struct rt_tensor *in, uint64_t last_use,
                            struct rt_tensor *out, struct rt_error *err);

/* As rt_exec_node, for a step that has an op and kernels. A context without a plan (exec/fold.c)
 * supports no other rt_exec_ function. */
enum rt_status rt_exec_op(struct rt_context *c, struct rt_plan_step *n, struct rt_tensor *in,
                          uint64_t last_use, struct rt_tensor *out, struct rt_error *err);
/* As rt_exec_node on the context's values: inputs come from the values, outputs are put there. */
enum rt_status rt_exec_in_place(struct rt_context *c, int i, uint64_t last_use,
                                struct rt_error *err);
/* Appends " [[{{node NAME}}]]" to the error unless the error has a node's name already. */
enum rt_status rt_exec_fail_at(const struct rt_plan_step *n, struct rt_error *err);

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
/*
 * TensorFlow computes with subnormal numbers flushed to zero, as results and as operands, and
 * Slipway does the same: some loops are ten times slower on subnormals. The mode is set only for
 * the time of a run.
 */
unsigned rt_flush_subnormals(void);
void rt_restore_subnormals(unsigned before);
/* Makes a tensor in the memory of device `d`, which is not the host. */
enum rt_status rt_device_tensor(struct rt_device *d, struct rt_stream *s, struct rt_tensor *t,
                                enum rt_dtype dtype, int rank, const int64_t *dim,
                                struct rt_error *err);

/* ---- prepared kernels of a node (select/prepared.c) ---- */

struct rt_prepared {
    struct rt_prepared *next;
    const struct rt_kernel *kernel;
    void *state;
    void (*release)(void *state);
    size_t scratch_bytes;
    uint64_t packed; /* bit k: input k is used in packed form; its plain bytes are not needed */
    const char *why; /* the reason for choosing this kernel */
    /* Not NULL: prepared for a benchmark, with made-up packed constants. */
    struct pl_benchmark *benchmark;
    size_t packed_bytes;
    int n_key;
    int64_t *key;
    bool is_cached;
    int8_t *alias;
    int8_t *rank; /* per output; -1: known only when the node has run */
    int64_t (*dim)[RT_MAX_RANK];
    void *blocks; /* memory of rt_prep_alloc, a linked list */
    size_t bytes; /* bytes of `blocks` */
    struct rt_session *session;
    struct rt_plan_step *node;
};
/* Finds the candidate kernels of a node with an op and makes its empty cache of prepared kernels,
 * in `arena`. Sets kernels, n_kernels, lazy and prepared, which must be zero. UNIMPLEMENTED: no
 * kernel can run the node. */
enum rt_status pl_find_kernels(const struct rt_session *s, struct rt_arena *arena,
                               struct rt_plan_step *n, struct rt_error *err);
struct rt_prepared_cache;
struct rt_prepared_cache *rt_prepared_cache_new(struct rt_arena *arena);
void rt_prepared_cache_clear(struct rt_prepared_cache *c);
/* Finds or makes the prepared kernel for these inputs. The caller frees one that is not is_cached
 * by rt_prepared_free. */
enum rt_status rt_prepared_get(struct rt_context *c, struct rt_plan_step *n,
                               const struct rt_tensor *in, struct rt_prepared **out,
                               struct rt_error *err);
void rt_prepared_free(struct rt_prepared *p);
/* The bytes of output o, whose shape is known. Returns false if the size overflows. */
bool rt_prepared_bytes(const struct rt_prepared *p, int o, size_t *bytes);
/* Calls the infer function that the op must have. The inferred shapes must pass rt_shape_check, as
 * far as their dimensions are known, so that the infer function of the next op may multiply
 * them. */
enum rt_status rt_infer_shapes(struct rt_infer *x);
/*
 * Preparing a kernel in two halves, from what is known of the inputs: first the shapes, then the
 * kernel. `info` has n_in inputs, with the values that rt_infer may see (for the second half:
 * rt_prep), and behind them n_out outputs, which are filled in.
 */
enum rt_status rt_prepared_infer(struct rt_session *session, struct rt_plan_step *n, int n_key,
                                 const int64_t *key, struct rt_info *info, struct rt_prepared **out,
                                 struct rt_error *err);
enum rt_status rt_prepared_choose(struct rt_prepared *p, const struct rt_info *info,
                                  struct rt_error *err);
/* Chooses among the candidates and prepares the chosen kernel: sets kernel, state, release and
 * scratch_bytes of prep->self (select/choose.c). */
enum rt_status rt_choose_kernel(struct rt_prep *prep, const struct rt_kernel *const *kernels,
                                int n);
struct pl_chooser;                       /* the state that all choices of a session share */
struct pl_chooser *pl_chooser_new(void); /* NULL: out of memory */
void pl_chooser_free(struct pl_chooser *c);
void pl_chooser_seal(struct rt_session *s); /* later choices follow the rules or earlier choices */
bool rt_prepared_uses_pack(struct rt_prepared_cache *c, int input);
/* The prepared kernel that was made last; NULL: there is none. */
const struct rt_prepared *rt_prepared_last(const struct rt_prepared_cache *c);

/* ---- specialisations (specialisation.h), as far as sessions and plans see them ---- */

enum { RT_COMPILED_ROWS = 1024 }; /* larger numbers of rows are not reported */
/* rt_callable_request_compilation for a plan: requests a specialisation of its first segment. */
void rt_segment_request(struct rt_plan_box *b, const struct rt_shape *shapes);
void rt_segments_free(struct rt_plan *p);
void rt_pending_compilations_free(struct rt_session *s);
/* ---- benchmarks of kernels (select/benchmark.c) ---- */

struct rt_pack {
    void *data;
    size_t bytes;
    struct rt_pack *next; /* the next pack of a benchmark */
};
/*
 * Benchmarks the kernels of a node and returns the index of the best. The first kernel is the one
 * that the rule chose. -1: the node cannot be benchmarked. The time used is subtracted from
 * *left_ns. `ns` gets the time of each kernel for the batch given, or -1 for a kernel that did not
 * run. *packs holds the made-up constants, NULL at first, which later benchmarks reuse.
 */
int pl_benchmark(const struct rt_prep *prep, const struct rt_kernel *const *kernels, int n,
                 struct rt_pack **packs, int64_t *left_ns, int64_t *ns);
void pl_benchmark_packs_free(struct rt_pack *packs); /* NULL is fine */
/* rt_prep_pack for a kernel that is prepared for a benchmark. */
enum rt_status pl_benchmark_pack(struct rt_prep *p, int input, size_t bytes,
                                 const struct rt_pack **out);
void rt_packs_clear(struct rt_map *packs);

void rt_callable_free(struct rt_callable *c); /* freed with its session */

/* Registers the ops that the runtime itself runs: calls, branches, loops, placeholders, constants
 * (core/control.c). */
bool rt_register_control(struct rt_registry *r);

#endif
