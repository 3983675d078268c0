/*
 * The run of a kernel: inputs, outputs, scratch memory, and the functions that `run` may call to
 * make outputs, to take memory that counts, to shard its work and to learn that it should end.
 *
 * Owner: the executor makes the struct. Inputs belong to it, and outputs once `run` has returned.
 * Threads: the one that runs the kernel. The shards of rt_run_parallel may call rt_run_check from
 * others.
 */
#ifndef RT_RUN_H
#define RT_RUN_H

#include "runtime/core/device.h"
#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

struct rt_context;

struct rt_run {
    const struct rt_node *node;
    void *state; /* the state that prepare made; read only; NULL without prepare */
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
struct rt_pool *rt_run_pool(struct rt_run *r); /* the pool for tensors that run stores elsewhere */
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
    /* + 1, so that items without elements count too */
    if (work < RT_WORK && (*left -= work + 1) > 0)
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

#endif
