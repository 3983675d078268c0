/*
 * The cores that runs share, and the helper threads that lend a run more than one of them. There is
 * one pool per process, shared by all sessions that are given it (rt_session_options).
 *
 * Cores are tokens. A run takes one token when it begins, whether or not one is free. A parallel
 * section of the run takes the tokens that are free at its start, each with a helper thread, and
 * waits for none. So many concurrent runs have one core each, and a run that is alone has all
 * cores. A helper leaves after its present shard when a new run needs the core.
 *
 * A helper that has no more shards spins for about 100 microseconds in search of the next section,
 * because a run is mostly one section after the other, and then sleeps: a process without runs uses
 * no processor time.
 *
 * Owner: whoever calls rt_parallel_new; the pool is freed after the last session that uses it.
 * Threads: any thread may call any of these. Only rt_parallel_new allocates.
 */
#ifndef RT_PARALLEL_H
#define RT_PARALLEL_H

#include "runtime/core/kernel.h"

struct rt_parallel;

/* `cores` is the number of cores of all runs together, `width` the most that one run may use; both
 * are at least 1. NULL: out of memory or threads. */
struct rt_parallel *rt_parallel_new(int cores, int width);
void rt_parallel_free(struct rt_parallel *p); /* NULL is fine */

/* The most shards of one section that run at a time, the calling thread's included. NULL: 1. */
int rt_parallel_width(const struct rt_parallel *p);
/* About how many shards would run at a time now. 1 inside a shard. */
int rt_parallel_free_width(struct rt_parallel *p);

/* The run of the calling thread takes a core token, or gives it back. NULL is fine. */
void rt_parallel_enter(struct rt_parallel *p);
void rt_parallel_leave(struct rt_parallel *p);

/*
 * Calls shard(arg, i) for each i below n, in any order, on this thread and on helpers, and returns
 * when all calls have returned. The caller sees everything that the shards wrote. Inside a shard,
 * or when p is NULL, the calls run one after the other on this thread.
 */
void rt_parallel_run(struct rt_parallel *p, int64_t n, void (*shard)(void *arg, int64_t i),
                     void *arg);

/* rt_parallel_width of the session's pool, for a kernel's `prepare`. */
int rt_prep_width(const struct rt_prep *p);

#endif
