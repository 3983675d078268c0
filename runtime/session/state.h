/*
 * The state of a session is the memory that runs leave in its resources: variables and tables. The
 * session has a pool to which this memory is charged. A buffer that a run leaves in a resource
 * moves from the run's pool to this pool, so that it is never charged twice. The buffer is charged
 * until it is freed, even while others hold references to it. A second pool is charged for weights
 * that are restored from files.
 *
 * While a session is being loaded, its state has the limit with which the session was made.
 * rt_state_serve sets the limit to the bytes in use at that time plus an allowance. Weights have
 * the limit with which the session was made, raised by rt_state_admit_weights. This limit applies
 * for the life of the session, because a lazy weight may be read at any time.
 *
 * Threads: any, except for rt_state_serve. A state belongs to its session; a resource that may
 * outlive the session holds a reference to the state's pool.
 */
#ifndef RT_STATE_H
#define RT_STATE_H

#include "runtime/base/thread.h"
#include "runtime/core/tensor.h"

struct rt_state {
    struct rt_pool *pool;
    struct rt_pool *weights; /* pool of restored weights, or NULL */
    /* Whether the session is no longer being loaded. Changes only while no run is active. */
    bool is_serving;
};

bool rt_state_init(struct rt_state *s, size_t limit_bytes, const char *flag);
/* Makes the pool of weights. Its limit is limit_bytes until rt_state_admit_weights raises it.
 * Returns false if memory runs out. */
bool rt_state_init_weights(struct rt_state *s, size_t limit_bytes, const char *flag);
/* Raises the limit of weights so that a checkpoint with `bytes` bytes of weights can be loaded
 * once. */
void rt_state_admit_weights(struct rt_state *s, int64_t bytes);
void rt_state_clear(struct rt_state *s);
/* Ends loading. Afterwards, runs may leave up to `more` additional bytes in the state, or any
 * number of bytes if `more` is 0. */
void rt_state_serve(struct rt_state *s, size_t more);

/*
 * The functions below charge nothing if the state or the pool is NULL. `old` is the value that the
 * caller frees after the call has succeeded, or NULL. The limit may be exceeded by the bytes that
 * only `old` references. On RT_RESOURCE_EXHAUSTED, the error message names the sizes and the flag
 * that sets the limit. Memory that has moved into the state before a failure stays charged until it
 * is freed.
 */

/* Sets *out to a reference to `t`, and moves the memory of `t` into the state. Sets *out to a copy
 * instead if no run allocated the memory (it is borrowed, foreign, lazy or constant), or if `t` is
 * a small part of its buffer. While a session is being loaded, memory that belongs to the model is
 * shared and does not move. Returns RT_UNIMPLEMENTED if `t` holds objects (see state.c). If `check`
 * fails during a copy, returns its status. `check` may be NULL. */
enum rt_status rt_state_keep(const struct rt_state *s, struct rt_tensor *out,
                             const struct rt_tensor *t, const struct rt_tensor *old,
                             const struct rt_check *check, struct rt_error *err);
/* Moves the contents of n strings into the state's pool. The strings replace the n strings at
 * `old`. The pool's limit may be exceeded by the size of the old strings plus `credit` bytes,
 * because the caller frees both later. */
enum rt_status rt_state_keep_strings(struct rt_pool *pool, const struct rt_str *str, int64_t n,
                                     const struct rt_str *old, size_t credit, struct rt_error *err);
/* Returns the number of bytes that the state would free if these n strings were cleared. Contents
 * that are shared with other strings are not counted. */
size_t rt_state_strings(const struct rt_pool *pool, const struct rt_str *str, int64_t n);
/* Records that `old` was replaced in a variable and will be cleared. A lazy weight is not charged
 * to the state. If `old` holds the last reference to a lazy weight, the state's limit rises by the
 * size of `old`, so that a new value as large as the restored one is never refused. */
void rt_state_replaced(const struct rt_state *s, const struct rt_tensor *old);

/* Locks a mutex that another run may hold for long (rt_mutex_lock_checked). Fails if the run has
 * been cancelled or its deadline has passed. */
struct rt_run;
enum rt_status rt_run_lock(struct rt_run *r, struct rt_mutex *mu) RT_TRY_ACQUIRE(RT_OK, *mu);

#endif
