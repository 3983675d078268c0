/*
 * What an op is. Three parts, three places:
 *
 *   schema  (schema.h) names and types, generated from TensorFlow's registry
 *   op      struct rt_op: what holds on every device: effect, check, infer, row rule
 *   kernel  struct rt_kernel: prepare and run for one device and a set of types
 *
 * An op and its kernels stand in one file under kernels/, listed by one row in kernels/table.inc.
 *
 * Threads: check, infer, rows, can and prepare are pure; run may be called from many contexts at
 * once with the same state, and never starts threads.
 */
#ifndef RT_OP_H
#define RT_OP_H

#include "runtime/core/device.h"
#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

/* ---- what is known of a tensor before it exists ---- */

struct rt_info {
    enum rt_dtype dtype;
    struct rt_shape shape; /* rank -1, dim -1: unknown */
    /* Known bytes, in host memory: constants, and small values that were evaluated on the way.
     * NULL: not known. Never lazy when infer sees it for an input named in shape_in. */
    const struct rt_tensor *value;
};

/* ---- op ---- */

enum rt_effect {
    RT_PURE,   /* same inputs, same outputs: folded, merged, dropped when unused */
    RT_READS,  /* reads a resource: dropped when unused, merged when no write lies between */
    RT_WRITES, /* changes a resource: always run, in order, by signatures that run alone */
    RT_RANDOM, /* draws from a generator: never folded or merged, dropped when unused */
    RT_BLOCKS, /* may wait for another run (queues): token executor, runs alone */
    RT_IO,     /* reads files, asserts, prints: never folded, merged or dropped */
};

/*
 * Row dependence, for batching: how a tensor depends on the rows of the batch.
 * The proof (rows.c) runs `infer` with several batch sizes and asks each op's rule.
 */
enum rt_dep_kind {
    RT_DEP_NONE, /* the same whatever the batch holds */
    RT_DEP_SIZE, /* integers that follow the number of rows n: each of them is a + b * n */
    RT_DEP_ROWS, /* n slices along `axis`, slice i made of row i alone, in the same way for all n */
    RT_DEP_MIXED, /* not proved */
};
struct rt_dep {
    enum rt_dep_kind kind;
    int axis;
};
struct rt_rows {
    const struct rt_node *node;
    int64_t n_rows; /* the batch size of these shapes */
    int n_in, n_out;
    const struct rt_info *in, *out; /* shapes exact where `infer` knows them */
    const struct rt_dep *in_dep;
    struct rt_dep *out_dep; /* preset to RT_DEP_MIXED */
};
/*
 * Stock rules (row_rules.c); an op without a rule is not proved. A rule's answer has to be the same
 * for every batch size. Among inputs that depend on the size only, a rule sees those that infer
 * reads (shape_in), and only if each element is a constant or n itself.
 */
void rt_rows_each(struct rt_rows *r);    /* element-wise with broadcasting, any number of inputs */
void rt_rows_first(struct rt_rows *r);   /* out row i from row i (axis 0) of input 0; other inputs
                                            must not depend on the batch */
void rt_rows_same(struct rt_rows *r);    /* element k of every output from element k of input 0,
                                            same shape: any axis passes through */
void rt_rows_reshape(struct rt_rows *r); /* row-major view of input 0: axis kept when what lies
                                            before it and its length are kept */
void rt_rows_shape(struct rt_rows *r);   /* depends on shapes of inputs only (Shape, Size, Rank) */

struct rt_infer {
    const struct rt_node *node;
    int n_in, n_out;
    const struct rt_info *in;
    struct rt_info *out; /* preset: dtype from the node, shape unknown */
    int8_t *alias;       /* per output, preset -1 ("own memory"); set to k >= 0: may be written over
                            input k when that is its last use and bytes are equal; run must cope
                            with out.data == in[k].data */
    struct rt_error *err;
};

struct rt_op {
    const char *name;
    enum rt_effect effect;
    uint64_t shape_in; /* bit k: infer reads the VALUE of input k (host memory, small integers) */
    /* May be NULL. Attribute combinations that no run accepts: refused when imported. */
    enum rt_status (*check)(const struct rt_node *n, struct rt_error *err);
    /*
     * Output shapes from input shapes and known values; what cannot be said stays unknown. May be
     * NULL: never known before it has run. Refuses only what every run would refuse, with
     * TensorFlow's text. Called with exact shapes before each first run of a shape; then outputs
     * left unknown must be allocated by run (rt_out).
     */
    enum rt_status (*infer)(struct rt_infer *x);
    void (*rows)(struct rt_rows *r); /* NULL: not proved */
    /*
     * Ops whose CPU kernels take a tail: element-wise steps on output 0, done while it is in the
     * cache (runtime/fusion/epilogue.h). Returns how long the output's last axis is, and the
     * output's rank, if this node takes a tail, else 0. Of `in` only constants have a shape. NULL:
     * never.
     */
    int64_t (*epilogue)(const struct rt_node *n, const struct rt_info *in, int *rank);
    /*
     * Ops that make the handle of a session's resource (VarHandleOp, HashTableV2, VariableV2):
     * the plan asks once per key (slot_kind, container, shared_name or node name) and folds the
     * handle to a constant. They have no kernel. `make` returns an object of the caller's; `in`:
     * the node's inputs, which have to be constants, loaded.
     */
    const char *slot_kind;
    enum rt_status (*make)(const struct rt_node *n, const struct rt_tensor *in,
                           struct rt_object **out, struct rt_error *err);
    /* infer also reads the value of the last input, whatever its index (ConcatV2's axis). */
    bool shape_in_last;
    /* Output 0 always is input 0's bytes under another shape that infer knows from exact inputs
     * (Reshape, Identity, Squeeze): a compiled plan does not run it at all. */
    bool is_view;
    /* Of an op that no file may name, whose name begins with '_': the schema that RT_FUSED_OP has
     * made (fused_op.h). NULL: the schema is TensorFlow's. */
    const struct rt_schema *own;
};
/* Whether infer reads the value of input k: shape_in and shape_in_last together. Ask this. */
static inline bool rt_op_reads_value(const struct rt_op *op, int k, int n_in)
{
    return (k < 64 && (op->shape_in >> k & 1)) || (op->shape_in_last && k == n_in - 1);
}

/* ---- kernel ---- */

struct rt_pack;
struct rt_context;

/* What may be done beside running each node as it is, by name what is left out: of a session. All
 * zero: everything that is right for every user. */
struct rt_tuning {
    bool no_fusion;     /* nodes stay as the graph has them */
    bool no_winograd;   /* convolutions sum their products one by one */
    bool no_autotune;   /* among several kernels the choice is by rule, never by timing */
    bool no_specialise; /* every run goes node by node */
    bool bf16; /* constant matrices and filters may be kept in bfloat16; sums stay float32 */
};

struct rt_prep {
    const struct rt_node *node;
    int n_in, n_out;
    /* Every input's shape is exact; `value` only for constants of the plan (they may be lazy:
     * only rt_prep_pack may look at those) and, for inputs in shape_in, their value now. A state
     * may depend on values of shape_in inputs: it is kept per shapes and those values. */
    const struct rt_info *in, *out; /* out: as infer left it */
    size_t scratch_bytes;           /* set: given to run, 64-byte aligned */
    void (*release)(void *state);   /* if *state has more than rt_prep_alloc's; at failures too */
    const struct rt_tuning *tuning;
    struct rt_prepared *self; /* the runtime's */
    struct rt_error *err;
};
/* Zeroed; lives as long as the state. NULL: out of memory (and *p->err is filled). */
void *rt_prep_alloc(struct rt_prep *p, size_t n);
/*
 * The packed form of constant input `input`, made once per session and shared by every plan that
 * asks with the same constant and format bytes. `fill` writes it from the plain row-major tensor
 * (loaded; after the call the plain bytes are dropped again unless others hold them).
 * *out lives as long as the state. RT_OK with *out == NULL: input is no constant.
 */
enum rt_status rt_prep_pack(struct rt_prep *p, int input, const void *fmt, size_t fmt_len,
                            size_t bytes,
                            enum rt_status (*fill)(const struct rt_tensor *src, void *dst,
                                                   const void *fmt, struct rt_error *err),
                            const struct rt_pack **out);
const void *rt_pack_data(const struct rt_pack *k); /* 64-byte aligned */

struct rt_run {
    const struct rt_node *node;
    void *state; /* what prepare left: read only (NULL without prepare) */
    int n_in, n_out;
    /* Loaded unless the kernel is RT_K_LAZY; refs already followed unless in_ref says so. */
    const struct rt_tensor *in;
    /* Allocated when infer knew the shape (strings empty, objects NULL) and the kernel is not
     * RT_K_VIEWS; otherwise zero, and run must call one of rt_out*. Plain memory is not cleared. */
    struct rt_tensor *out;
    void *scratch;
    struct rt_stream *stream; /* CPU: NULL. RT_OK from an asynchronous kernel means enqueued */
    struct rt_context *ctx;
    struct rt_error *err;
    uint64_t last_use; /* the executor's: bit k: nobody reads input k after this node */
    int64_t left;      /* of rt_run_spend, for what is called once per item of many */
};

/* Allocates output k with this shape and the node's type. NULL: the limit, or the run should end;
 * err is filled and the status to return is r->err->code. No elements: a non-NULL pointer that must
 * not be read. */
void *rt_out(struct rt_run *r, int k, int rank, const int64_t *dim);
/* Output k is input `in` under another shape of as many elements (a view, nothing copied). */
enum rt_status rt_out_view(struct rt_run *r, int k, int in, int rank, const int64_t *dim);
/* Output k becomes a reference to `t` (which stays the caller's). */
void rt_out_tensor(struct rt_run *r, int k, const struct rt_tensor *t);
/* Output k becomes a scalar handle; takes the caller's reference to o. */
enum rt_status rt_out_object(struct rt_run *r, int k, struct rt_object *o);
/* True: input k's bytes are now ours alone and *out holds the reference; they may be changed. */
bool rt_take(struct rt_run *r, int k, struct rt_tensor *out);
/* Scratch of a size known only now; freed after run. NULL: limit, err is filled. */
void *rt_scratch(struct rt_run *r, size_t bytes);
/* Zeroed, for what rt_scratch cannot be (one is not enough, or it outlives run): counts as the
 * run's until rt_pool_free. NULL: limit, err is filled. */
void *rt_run_alloc(struct rt_run *r, size_t bytes);
/* rt_tensor_load, which ends with the run. */
enum rt_status rt_run_load(struct rt_run *r, struct rt_tensor *t);
struct rt_pool *rt_run_pool(struct rt_run *r); /* for tensors that run keeps elsewhere */
/* What run leaves in a resource counts there (runtime/session/state.h). */
struct rt_state;
const struct rt_state *rt_run_state(struct rt_run *r);
/* RT_CANCELLED or RT_DEADLINE_EXCEEDED once the run should end; long loops ask now and then. */
enum rt_status rt_run_check(struct rt_run *r);
/*
 * The same for loops over much data, at next to no cost: `work` is what was done since the last
 * call, in elements read or written once (an arithmetic step more costs as much); every RT_WORK of
 * them it asks rt_run_check. They take a millisecond, or ten where all of them are in fresh memory:
 * 16 MB of eight-byte elements are 4,096 page faults, each some microseconds on a virtual machine.
 * *left: RT_WORK at first. A function that a kernel calls for each of many items takes &r->left: a
 * countdown of its own would begin anew at every item and, if all are small, never end.
 */
enum { RT_WORK = 1 << 21 };
static inline enum rt_status rt_run_spend(struct rt_run *r, int64_t *left, int64_t work)
{
    if (work < RT_WORK && (*left -= work + 1) > 0) /* also loops over what has no elements end */
        return RT_OK;
    *left = RT_WORK;
    return rt_run_check(r);
}
/* For a loop that does something small for each index: asks at every 16,384th. */
static inline enum rt_status rt_run_tick(struct rt_run *r, int64_t i)
{
    return (i & 0x3fff) == 0x3fff ? rt_run_check(r) : RT_OK;
}
/* 64 random bits for op seeds that are both 0, from the session (fresh at every start). */
uint64_t rt_run_entropy(struct rt_run *r);
/*
 * part(arg, i) for each i below n, in any order, on this thread and on idle cores that the server
 * may use; returns when all have ended. Parts must not depend on each other, nor call this.
 * rt_run_width: how many may be at work at a time (1: do not cut).
 */
void rt_run_parallel(struct rt_run *r, int64_t n, void (*shard)(void *arg, int64_t i), void *arg);
int rt_run_width(const struct rt_run *r);
/*
 * State of this node that lives as long as the session (random generators), made on first use;
 * `make` returns bytes for free(). The same node always gets the same state: lock it yourself.
 */
void *rt_run_node_state(struct rt_run *r, size_t bytes,
                        void (*init)(void *state, const struct rt_node *n, uint64_t entropy));

enum {
    RT_K_LAZY = 1,  /* takes lazy inputs as they are (assignments, Identity) */
    RT_K_VIEWS = 2, /* makes its own outputs, mostly views of inputs: none are allocated for it */
    RT_K_TIMED = 4, /* right for the same nodes as others with this flag: which of them is used is
                       found by timing (choose.c); without it, by `can` */
};

struct rt_kernel {
    const char *op, *device, *name; /* name: "conv2d.onednn", for logs and tests that force it */
    const char *type_attr;          /* which attribute `types` speaks of; NULL: "T" */
    uint64_t types;                 /* types of that attribute that it takes; 0: any */
    /* The same of a second attribute, for a kernel that takes only some pairs of types. */
    const char *and_type_attr;
    uint64_t and_types;
    /* NULL, or whether it takes the node's types, where rows of two attributes do not say it. */
    bool (*takes)(const struct rt_node *n);
    uint64_t host_in, host_out; /* args that stay in host memory on this device */
    unsigned flags;
    /* NULL: 1. Highest first; 0: never. After prepare's FAILED_PRECONDITION the next is asked. */
    int (*can)(const struct rt_prep *p);
    enum rt_status (*prepare)(struct rt_prep *p, void **state); /* may be NULL */
    enum rt_status (*run)(struct rt_run *r);
};

/* ---- registry: which ops and kernels there are ---- */

struct rt_registry;
struct rt_registry *rt_registry_new(void);
void rt_registry_free(struct rt_registry *r);
/* False: out of memory, a second op of that name, or one with the schema of another. The structs
 * must outlive the registry. */
bool rt_registry_add_op(struct rt_registry *r, const struct rt_op *op);
bool rt_registry_add_kernel(struct rt_registry *r, const struct rt_kernel *k);
const struct rt_op *rt_registry_op(const struct rt_registry *r, const char *name);
/* All kernels of an op; *n of them. */
const struct rt_kernel *const *rt_registry_kernels(const struct rt_registry *r, const char *op,
                                                   int *n);
/* Whether this kernel's row takes the node's types. */
bool rt_kernel_takes(const struct rt_kernel *k, const struct rt_node *n);
/* Whether some kernel on `device` takes this node's types; else a sentence that says whether the
 * op, the type or only the device is missing (UNIMPLEMENTED). */
enum rt_status rt_registry_can_run(const struct rt_registry *r, const struct rt_node *n,
                                   const char *device, struct rt_error *err);

#endif
