/*
 * The contract of ops and kernels. An op is described in three parts:
 *
 *   schema  (schema.h) names and types, generated from TensorFlow's registry
 *   op      struct rt_op: the device-independent part: effect, check, infer, row rule
 *   kernel  struct rt_kernel: prepare and run, for one device and a set of types
 *
 * An op and its kernels stand in one file under kernels/, listed by one row in kernels/table.inc.
 *
 * Threads: check, infer, rows, can and prepare are pure functions. run may be called in many
 * contexts at the same time with one state, and starts no threads.
 */
#ifndef RT_OP_H
#define RT_OP_H

#include "runtime/core/device.h"
#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

/* ---- what is known of a tensor at compile time ---- */

struct rt_info {
    enum rt_dtype dtype;
    struct rt_shape shape; /* rank -1, dim -1: unknown */
    /* The value, in host memory, of a constant or of a small tensor that the compiler evaluated.
     * NULL: not known. Not lazy where infer gets it for an input in shape_in. */
    const struct rt_tensor *value;
};

/* ---- op ---- */

enum rt_effect {
    RT_PURE,   /* outputs depend on the inputs alone: folded, merged, dropped if unused */
    RT_READS,  /* reads a resource: dropped if unused, merged if no write is in between */
    RT_WRITES, /* changes a resource: always run, in order; its signatures run alone */
    RT_RANDOM, /* draws random numbers: never folded or merged, dropped if unused */
    RT_BLOCKS, /* may wait for another run (queues): run by the token executor, alone */
    RT_IO,     /* reads files, asserts, prints: never folded, merged or dropped */
};

/*
 * Row-wise analysis, for batching: how a tensor depends on the rows of the batch. The analysis
 * (runtime/passes/rows.c) runs `infer` with several batch sizes and applies each op's row rule.
 */
enum rt_dep_kind {
    RT_DEP_NONE,  /* independent of the batch */
    RT_DEP_SIZE,  /* integers, each of which is a + b * n, n being the number of rows */
    RT_DEP_ROWS,  /* n slices along `axis`; slice i depends on row i alone, equally for all n */
    RT_DEP_MIXED, /* rows are mixed, or nothing is proved */
};
struct rt_dep {
    enum rt_dep_kind kind;
    int axis;
};
struct rt_rows {
    const struct rt_node *node;
    int64_t n_rows; /* the batch size for which the shapes are inferred */
    int n_in, n_out;
    const struct rt_info *in, *out; /* shapes are exact where `infer` knows them */
    const struct rt_dep *in_dep;
    struct rt_dep *out_dep; /* preset to RT_DEP_MIXED */
};
/*
 * Row rules that many ops share (row_rules.c). The outputs of an op without a rule are
 * RT_DEP_MIXED. A rule must give the same answer for every batch size. A rule sees an input of kind
 * RT_DEP_SIZE only if infer reads its value (shape_in) and each element is a constant or n itself.
 */
void rt_rows_each(struct rt_rows *r);    /* element-wise with broadcasting, any number of inputs */
void rt_rows_first(struct rt_rows *r);   /* output row i depends on row i (axis 0) of input 0; other
                                            inputs must not depend on the batch */
void rt_rows_same(struct rt_rows *r);    /* element k of every output depends on element k of input
                                            0, of the same shape: the axis passes through */
void rt_rows_reshape(struct rt_rows *r); /* row-major view of input 0: the axis is kept if its
                                            length and the dimensions' product before it are */
void rt_rows_shape(struct rt_rows *r);   /* depends on inputs' shapes only (Shape, Size, Rank) */

struct rt_infer {
    const struct rt_node *node;
    int n_in, n_out;
    const struct rt_info *in;
    struct rt_info *out; /* preset: the node's dtypes, unknown shapes */
    int8_t *alias;       /* per output, preset to -1: memory of its own. k >= 0: the output may be
                            written over input k if this is the input's last use and their bytes
                            are equal; run must then work with out.data == in[k].data */
    struct rt_error *err;
};

struct rt_op {
    const char *name;
    enum rt_effect effect;
    uint64_t shape_in; /* bit k: infer reads the value of input k (small integers in host memory) */
    /* Refuses, at import, combinations of attributes that no run accepts. May be NULL. */
    enum rt_status (*check)(const struct rt_node *n, struct rt_error *err);
    /*
     * Shape inference: output shapes from input shapes and known values. Dimensions that cannot be
     * inferred stay unknown. NULL: no output shape is known before the node has run. Refuses only
     * inputs that every run would refuse, with TensorFlow's text. infer is called with exact shapes
     * before the first run with these shapes; run must allocate outputs whose shapes are still
     * unknown then (rt_out).
     */
    enum rt_status (*infer)(struct rt_infer *x);
    void (*rows)(struct rt_rows *r); /* row rule; NULL: outputs are RT_DEP_MIXED */
    /*
     * For ops whose CPU kernels take an epilogue: element-wise steps on output 0, done while it is
     * in the cache (runtime/fusion/epilogue.h). Returns the length of the output's last axis, and
     * in *rank the output's rank, if this node takes an epilogue; otherwise 0. Only constants in
     * `in` have a shape. NULL: no node of the op takes an epilogue.
     */
    int64_t (*epilogue)(const struct rt_node *n, const struct rt_info *in, int *rank);
    /*
     * For ops that make the handle of a session's resource (VarHandleOp, HashTableV2, VariableV2).
     * The session calls `make` once for each key (slot_kind, container, shared_name or node name),
     * and the compiler folds the handle to a constant. Such ops have no kernel. The caller of
     * `make` gets the reference of *out; `in`: the node's inputs, which must be loaded constants.
     */
    const char *slot_kind;
    enum rt_status (*make)(const struct rt_node *n, const struct rt_tensor *in,
                           struct rt_object **out, struct rt_error *err);
    /* infer also reads the value of the last input, whose index varies (ConcatV2's axis). */
    bool shape_in_last;
    /* Output 0 always has input 0's bytes, with a shape that infer knows from exact inputs
     * (Reshape, Identity, Squeeze). A specialisation does not run such a node at all. */
    bool is_view;
    /* The schema of an internal op, whose name begins with '_' and which no file may name; made by
     * RT_FUSED_OP (fused_op.h). NULL: the schema is TensorFlow's. */
    const struct rt_schema *own;
};
/* Whether infer reads the value of input k, by shape_in or shape_in_last. Use this, not the
 * members. */
static inline bool rt_op_reads_value(const struct rt_op *op, int k, int n_in)
{
    return (k < 64 && (op->shape_in >> k & 1)) || (op->shape_in_last && k == n_in - 1);
}

/* ---- kernel ---- */

struct rt_pack;
struct rt_context;

/* Optimisations of a session; each member named no_ switches one off. All zero: the defaults, which
 * suit every user. */
struct rt_tuning {
    bool no_fusion;     /* no nodes are fused */
    bool no_winograd;   /* convolutions do not use Winograd's transforms */
    bool no_autotune;   /* kernels are chosen by rule, never by timing */
    bool no_specialise; /* nothing is compiled for exact shapes: runs go node by node */
    bool bf16; /* constant matrices and filters may be packed as bfloat16; sums stay float32 */
};

struct rt_prep {
    const struct rt_node *node;
    int n_in, n_out;
    /* Every input has an exact shape. An input has a `value` if it is a constant of the plan, which
     * may be lazy (then only rt_prep_pack may read it), or if it is in shape_in. A state may depend
     * on the values of inputs in shape_in: states are kept by shapes and these values. */
    const struct rt_info *in, *out; /* out: the result of infer */
    size_t scratch_bytes;           /* set by prepare: size of run's scratch memory */
    void (*release)(void *state);   /* set by prepare if *state owns more than memory of
                                       rt_prep_alloc; called after a failure of prepare too */
    const struct rt_tuning *tuning;
    struct rt_prepared *self; /* for the runtime only */
    struct rt_error *err;
};
/* n zeroed bytes that live as long as the state. NULL: out of memory, and *p->err is filled. */
void *rt_prep_alloc(struct rt_prep *p, size_t n);
/*
 * Packing: *out is the packed form of constant input `input`. It is made once per session and
 * shared by all plans that use one constant with equal format bytes (`fmt`). `fill` writes `bytes`
 * bytes from the plain row-major tensor, which is loaded for the call and dropped afterwards unless
 * others hold it. *out lives as long as the state. RT_OK with *out == NULL: the input is not a
 * constant.
 */
enum rt_status rt_prep_pack(struct rt_prep *p, int input, const void *fmt, size_t fmt_len,
                            size_t bytes,
                            enum rt_status (*fill)(const struct rt_tensor *src, void *dst,
                                                   const void *fmt, struct rt_error *err),
                            const struct rt_pack **out);
const void *rt_pack_data(const struct rt_pack *k); /* 64-byte aligned */

struct rt_run {
    const struct rt_node *node;
    void *state; /* what prepare made; read only. NULL without prepare */
    int n_in, n_out;
    /* Loaded, unless the kernel has RT_K_LAZY. A ref is replaced by the variable's value, unless
     * the node's in_ref asks for the ref. */
    const struct rt_tensor *in;
    /* Allocated if infer knew the shape and the kernel lacks RT_K_VIEWS: strings are empty, objects
     * NULL, plain bytes not cleared. Otherwise zero, and run must call one of rt_out*. */
    struct rt_tensor *out;
    void *scratch;            /* rt_prep.scratch_bytes, 64-byte aligned */
    struct rt_stream *stream; /* CPU: NULL. RT_OK of an asynchronous kernel means enqueued */
    struct rt_context *ctx;
    struct rt_error *err;
    uint64_t last_use; /* for the executor; bit k: this node is the last reader of input k */
    int64_t left;      /* countdown of rt_run_spend, for functions called once per item */
};

/* Allocates output k with this shape and the node's dtype. NULL: a memory limit is reached, or the
 * run should end; err is filled, and run returns r->err->code. For an output without elements the
 * pointer is not NULL and must not be read. */
void *rt_out(struct rt_run *r, int k, int rank, const int64_t *dim);
/* Output k becomes a view of input `in`, with another shape of equally many elements. */
enum rt_status rt_out_view(struct rt_run *r, int k, int in, int rank, const int64_t *dim);
/* Output k becomes a reference to `t`. The caller keeps its own reference. */
void rt_out_tensor(struct rt_run *r, int k, const struct rt_tensor *t);
/* Output k becomes a scalar handle; takes the caller's reference to o. */
enum rt_status rt_out_object(struct rt_run *r, int k, struct rt_object *o);
/* Takes over input k if nothing else holds its bytes. True: *out holds the only reference, so the
 * kernel may change the bytes. */
bool rt_take(struct rt_run *r, int k, struct rt_tensor *out);
/* Scratch memory whose size prepare did not know; freed after run. NULL: a limit; err is filled. */
void *rt_scratch(struct rt_run *r, size_t bytes);
/* Zeroed memory, for a kernel that needs several pieces or keeps them after run, which rt_scratch
 * does not allow. It counts in the run's pool until rt_pool_free. NULL: a limit; err is filled. */
void *rt_run_alloc(struct rt_run *r, size_t bytes);
/* As rt_tensor_load; loading ends when the run should end. */
enum rt_status rt_run_load(struct rt_run *r, struct rt_tensor *t);
struct rt_pool *rt_run_pool(struct rt_run *r); /* for tensors that run stores elsewhere */
/* The state in which tensors count that run stores in a resource (runtime/session/state.h). */
struct rt_state;
const struct rt_state *rt_run_state(struct rt_run *r);
/* RT_CANCELLED or RT_DEADLINE_EXCEEDED once the run should end. Long loops call it regularly. */
enum rt_status rt_run_check(struct rt_run *r);
/*
 * A cheap rt_run_check for loops over much data. `work` is the work since the last call, in
 * elements read or written once; an arithmetic step counts as one element too. rt_run_check is
 * called after every RT_WORK elements. RT_WORK elements take about 1 ms, or 10 ms if all are in
 * fresh memory: 16 MB of eight-byte elements are 4,096 page faults, each some microseconds on a
 * virtual machine. *left: the countdown, RT_WORK at first. A function that a kernel calls for each
 * of many items uses &r->left: a countdown of its own would restart at every item and, with small
 * items, never end.
 */
enum { RT_WORK = 1 << 21 };
static inline enum rt_status rt_run_spend(struct rt_run *r, int64_t *left, int64_t work)
{
    if (work < RT_WORK && (*left -= work + 1) > 0) /* + 1: items without elements count too */
        return RT_OK;
    *left = RT_WORK;
    return rt_run_check(r);
}
/* For a loop with a small body: calls rt_run_check at every 16,384th index. */
static inline enum rt_status rt_run_tick(struct rt_run *r, int64_t i)
{
    return (i & 0x3fff) == 0x3fff ? rt_run_check(r) : RT_OK;
}
/* 64 random bits for an op whose seeds are both 0. The session draws new ones at every start. */
uint64_t rt_run_entropy(struct rt_run *r);
/*
 * Calls shard(arg, i) for each i below n, in any order, on this thread and on idle cores that the
 * session may use; returns when all calls have returned. Shards must not depend on each other, nor
 * call rt_run_parallel. rt_run_width: the most shards that run at the same time (1: do not shard).
 */
void rt_run_parallel(struct rt_run *r, int64_t n, void (*shard)(void *arg, int64_t i), void *arg);
int rt_run_width(const struct rt_run *r);
/*
 * State of this node that lives as long as the session, as a random generator's: `bytes` bytes,
 * which `init` fills at first use. All runs of the node share the state, so the kernel locks it.
 * NULL: out of memory; err is filled.
 */
void *rt_run_node_state(struct rt_run *r, size_t bytes,
                        void (*init)(void *state, const struct rt_node *n, uint64_t entropy));

enum {
    RT_K_LAZY = 1,  /* the kernel accepts lazy inputs (assignments, Identity) */
    RT_K_VIEWS = 2, /* run makes the outputs, mostly views of inputs: none are allocated before */
    RT_K_TIMED = 4, /* of the kernels of an op that have this flag and can run a node, timing may
                       choose (runtime/select/choose.c); all others are chosen by `can` */
};

struct rt_kernel {
    const char *op, *device, *name; /* name: "conv2d.onednn", for logs and tests that force it */
    const char *type_attr;          /* the type attribute that `types` restricts; NULL: "T" */
    uint64_t types;                 /* accepted types of that attribute; 0: any */
    /* A second restricted attribute, for a kernel that accepts only some pairs of types. */
    const char *and_type_attr;
    uint64_t and_types;
    /* Whether the kernel accepts the node's types, where two attributes do not suffice to say. May
     * be NULL. */
    bool (*takes)(const struct rt_node *n);
    uint64_t host_in, host_out; /* bit k: input or output k stays in host memory */
    unsigned flags;
    /* The kernel's rank for this node: the highest is tried first; 0: it cannot run the node. NULL:
     * 1. If prepare returns RT_FAILED_PRECONDITION, the next kernel is tried. */
    int (*can)(const struct rt_prep *p);
    enum rt_status (*prepare)(struct rt_prep *p, void **state); /* may be NULL */
    enum rt_status (*run)(struct rt_run *r);
};

/* ---- registry of ops and kernels ---- */

struct rt_registry;
struct rt_registry *rt_registry_new(void);
void rt_registry_free(struct rt_registry *r);
/* False: out of memory, the name is registered already, or `own` is the schema of another name. The
 * structs must outlive the registry. */
bool rt_registry_add_op(struct rt_registry *r, const struct rt_op *op);
bool rt_registry_add_kernel(struct rt_registry *r, const struct rt_kernel *k);
const struct rt_op *rt_registry_op(const struct rt_registry *r, const char *name);
/* All *n kernels of an op. */
const struct rt_kernel *const *rt_registry_kernels(const struct rt_registry *r, const char *op,
                                                   int *n);
/* Whether the kernel accepts the node's types. */
bool rt_kernel_takes(const struct rt_kernel *k, const struct rt_node *n);
/* RT_OK: a kernel on `device` accepts the node's types. RT_UNIMPLEMENTED: err says whether the op,
 * a kernel for the types, or only one on the device is missing. */
enum rt_status rt_registry_can_run(const struct rt_registry *r, const struct rt_node *n,
                                   const char *device, struct rt_error *err);

#endif
