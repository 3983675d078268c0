/*
 * The interface of a kernel's `run`: inputs, outputs and scratch memory, and functions that make
 * outputs, allocate counted memory, shard the work, or check for cancellation and the deadline.
 *
 * Owner: the executor makes the struct and owns the inputs. It owns the outputs once `run` has
 * returned. Threads: only the thread that runs the kernel, except that shards of rt_run_parallel
 * may call rt_run_check on other threads.
 */
#ifndef RT_RUN_H
#define RT_RUN_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

struct rt_context;

struct rt_run {
    const struct rt_node *node;
    /* the read-only state that `prepare` made, or NULL if the kernel has no `prepare` */
    void *state;
    int n_in, n_out;
    /* Inputs are loaded unless the kernel has RT_K_LAZY. If an input is a ref, the kernel receives
     * the variable's value, unless the node's in_ref states that the input must be a ref. */
    const struct rt_tensor *in;
    /* An output is allocated if `infer` determined its shape and the kernel lacks RT_K_VIEWS.
     * Strings are then empty, objects are NULL, and elements of plain types are uninitialised. Any
     * other output is a zeroed struct, and `run` must create it with rt_out, rt_out_view,
     * rt_out_tensor or rt_out_object. */
    struct rt_tensor *out;
    /* scratch memory of rt_prep.scratch_bytes bytes, aligned to 64 bytes */
    void *scratch;
    /* the stream on which a kernel of an accelerator launches its work; otherwise NULL */
    void *stream;
    struct rt_context *ctx;
    struct rt_error *err;
    /* Bit k is set if this node is the last reader of input k. Only the executor uses the bits. */
    uint64_t last_use;
    int64_t left; /* Countdown for rt_run_spend in functions that are called once per item. */
};

/* Allocates output k with this shape and the node's dtype. On failure, returns NULL and sets
 * r->err, and `run` must return r->err->code. The pointer to an output without elements is not
 * NULL, but must not be dereferenced. */
void *rt_out(struct rt_run *r, int k, int rank, const int64_t *dim);
/* Makes output k a view of input `in`. The view has the same number of elements, and may have
 * another shape. */
enum rt_status rt_out_view(struct rt_run *r, int k, int in, int rank, const int64_t *dim);
/* Makes output k a new reference to `t`. The caller keeps its own reference. */
void rt_out_tensor(struct rt_run *r, int k, const struct rt_tensor *t);
/* Makes output k a scalar handle to object `o`. Takes over the caller's reference to `o`. */
enum rt_status rt_out_object(struct rt_run *r, int k, struct rt_object *o);
/* Takes over input k and returns true if nothing else holds a reference to its bytes. The kernel
 * may then change the bytes of *out. */
bool rt_take(struct rt_run *r, int k, struct rt_tensor *out);
/* Returns scratch memory whose size `prepare` could not know. The memory is freed after `run`. If a
 * memory limit is reached, returns NULL, with the reason in r->err. */
void *rt_scratch(struct rt_run *r, size_t bytes);
/* Returns zeroed memory. Unlike rt_scratch, this function may be called several times in a run, and
 * the memory may be used after `run`. The run's pool counts the memory until rt_pool_free. If a
 * memory limit is reached, returns NULL, with the reason in r->err. */
void *rt_run_alloc(struct rt_run *r, size_t bytes);
/* Loads a tensor as rt_tensor_load does, but fails if the run has been cancelled or its deadline
 * has passed. */
enum rt_status rt_run_load(struct rt_run *r, struct rt_tensor *t);
/* returns the pool for tensors that `run` stores outside its outputs */
struct rt_pool *rt_run_pool(struct rt_run *r);
/* Returns the state (runtime/session/state.h) that counts the tensors that `run` stores in
 * resources. */
struct rt_state;
const struct rt_state *rt_run_state(struct rt_run *r);
/* Returns RT_CANCELLED or RT_DEADLINE_EXCEEDED if the run has been cancelled or its deadline has
 * passed, and otherwise RT_OK. Long loops must call this function regularly. */
enum rt_status rt_run_check(struct rt_run *r);
/*
 * A cheap substitute for rt_run_check in loops over large amounts of data. `work` is the work since
 * the last call: the number of elements read or written plus the number of arithmetic operations.
 * rt_run_check is called when the work reaches RT_WORK. RT_WORK takes about 1 ms, or about 10 ms if
 * all elements are in newly allocated memory: 16 MB cause 4,096 page faults of a few microseconds
 * each on a virtual machine. *left is the countdown, initially RT_WORK. A function that a kernel
 * calls for each of many small items passes &r->left, because a countdown that restarted for every
 * item would never reach zero.
 */
enum { RT_WORK = 1 << 21 };
static inline enum rt_status rt_run_spend(struct rt_run *r, int64_t *left, int64_t work)
{
    /* The added 1 makes even items without elements count. */
    if (work < RT_WORK && (*left -= work + 1) > 0)
        return RT_OK;
    *left = RT_WORK;
    return rt_run_check(r);
}
/* Calls rt_run_check at every 16,384th index of a loop with a small body. */
static inline enum rt_status rt_run_tick(struct rt_run *r, int64_t i)
{
    return (i & 0x3fff) == 0x3fff ? rt_run_check(r) : RT_OK;
}
/* Returns 64 random bits, for an op whose seed attributes are both 0. Every session draws a new
 * seed when it is made. */
uint64_t rt_run_entropy(struct rt_run *r);
/* Returns whether the caller of the run fetches output k itself, not only values computed from it.
 * Returns false in the body of a function, a branch or a loop. */
bool rt_run_is_fetched(const struct rt_run *r, int k);
/*
 * Calls shard(arg, i) for each i below n, in any order, on this thread and on idle cores that the
 * session may use. Returns when all calls have returned. A shard must not depend on another shard
 * or call rt_run_parallel. rt_run_width returns how many shards can run at the same time; if it is
 * 1, the work should not be sharded.
 */
void rt_run_parallel(struct rt_run *r, int64_t n, void (*shard)(void *arg, int64_t i), void *arg);
int rt_run_width(const struct rt_run *r);
/*
 * Waits until `c` is signalled, but at most 50 ms. The caller must hold `mu`, which guards the
 * condition, and must test the condition again after each call. Fails with RT_CANCELLED or
 * RT_DEADLINE_EXCEEDED if the run has been cancelled or its deadline has passed, and with
 * RT_RESOURCE_EXHAUSTED if too many runs wait (rt_run_options.on_wait). `mu` may be released and
 * locked again even if the call fails. Only ops with the effect RT_BLOCKS may wait.
 */
struct rt_cond;
struct rt_make;
struct rt_mutex;
enum rt_status rt_run_wait(struct rt_run *r, struct rt_cond *c, struct rt_mutex *mu);
struct rt_wait_hook {
    /* Called before the first wait of a run, on the run's thread, with no lock held. The caller of
     * the run then no longer counts a core for this run. If the hook fails, the run ends. */
    enum rt_status (*begin)(void *arg, struct rt_error *err);
    void *arg;
    /* If not NULL, the run sets this to the CPU time of its thread (rt_thread_cpu_ns) at the end of
     * each wait, from which on it computes, and to 0 while it waits. */
    _Atomic int64_t *computes_since_ns;
};
/*
 * Sets *out to a new reference to a resource of the session. The node's attributes give its key
 * (kind, container, shared_name or node name). Calls `make`, which is as in struct rt_op but gets
 * no inputs, if there is no resource with this key. Used by ops that name their resource instead of
 * taking a handle (Stage).
 */
enum rt_status rt_run_resource(struct rt_run *r, const char *kind,
                               enum rt_status (*make)(const struct rt_make *make,
                                                      struct rt_object **out),
                               struct rt_object **out);
/*
 * Returns the node's state, such as that of a random generator. It has `bytes` bytes and lives as
 * long as the session. `init` fills the bytes at first use. All runs of the node share the state,
 * so the kernel must lock it. Returns NULL if out of memory, with the reason in r->err.
 */
void *rt_run_node_state(struct rt_run *r, size_t bytes,
                        void (*init)(void *state, const struct rt_node *n, uint64_t entropy));

#endif
