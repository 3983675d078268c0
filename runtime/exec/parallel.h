/*
 * The cores that runs share, and the helper threads through which a run uses more than one core.
 * One pool per process is shared by all sessions whose options name it (rt_session_options).
 *
 * Tokens represent cores. A run takes one token when it begins, even if no token is free. A
 * parallel section of the run takes all tokens that are free when the section starts, and a helper
 * thread for each, but never waits for tokens. Thus many concurrent runs have one core each, and a
 * single run has all cores. When a new run needs a helper's core, the helper leaves the section
 * after its current shard.
 *
 * A helper without work spins for about 100 microseconds, because a run's next section usually
 * follows immediately. The helper then sleeps, so that a process without runs uses no processor
 * time.
 *
 * Owner: the caller of rt_parallel_new, which frees the pool after the last session that uses it.
 * Threads: all functions may be called on any thread. Only rt_parallel_new allocates.
 */
#ifndef RT_PARALLEL_H
#define RT_PARALLEL_H

#include "runtime/core/kernel.h"

struct rt_parallel;

/* Makes a pool. `cores` is the number of cores that all runs share, and `width` is the maximum
 * number of cores that one run may use. Both must be at least 1. Returns NULL if memory runs out or
 * a thread cannot be started. */
struct rt_parallel *rt_parallel_new(int cores, int width);
void rt_parallel_free(struct rt_parallel *p); /* does nothing if `p` is NULL */

/* Returns the maximum number of shards of one section that run at the same time, including the
 * shard of the calling thread. If `p` is NULL, returns 1. */
int rt_parallel_width(const struct rt_parallel *p);
/* Returns an estimate of the number of shards that would run at the same time in a section that
 * starts now. Returns 1 inside a shard. */
int rt_parallel_free_width(struct rt_parallel *p);

/* rt_parallel_enter takes a core token for the run of the calling thread; rt_parallel_leave returns
 * the token. If `p` is NULL, they do nothing. */
void rt_parallel_enter(struct rt_parallel *p);
void rt_parallel_leave(struct rt_parallel *p);

/*
 * Calls shard(arg, i) for each i below n, in any order, on this thread and on helpers. Returns when
 * all calls have returned; the caller then sees everything that the shards wrote. Inside a shard,
 * or if p is NULL, the calls run one after the other on this thread.
 */
void rt_parallel_run(struct rt_parallel *p, int64_t n, void (*shard)(void *arg, int64_t i),
                     void *arg);

/* Returns the width of the session's pool (rt_parallel_width), for a kernel's `prepare`. */
int rt_prep_width(const struct rt_prep *p);

#endif
