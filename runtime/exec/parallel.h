/*
 * Cores, and the threads that lend a run more than one of them. One pool per process, shared by
 * all sessions that are given it (rt_session_options).
 *
 * Cores are tokens. A run takes one when it begins, whether or not one is free; a parallel section
 * of it takes those that are free at its start, each with a helper thread, and waits for none. So
 * many runs have a core each, and one that is alone has all of them. A helper whose core a new run
 * wants leaves after the part that it is at.
 *
 * A helper that has ended its parts looks for the next section for some ten microseconds, since a
 * run is mostly one section after the other, and then sleeps: a process without runs does nothing.
 *
 * Owner: whoever made it; free it after the last session that uses it.
 * Threads: all of it from any thread. Nothing here allocates but rt_parallel_new.
 */
#ifndef RT_PARALLEL_H
#define RT_PARALLEL_H

#include "runtime/core/op.h"

struct rt_parallel;

/* cores: that all runs together may use; width: of them, one run. Both at least 1. NULL: out of
 * memory or threads. */
struct rt_parallel *rt_parallel_new(int cores, int width);
void rt_parallel_free(struct rt_parallel *p); /* NULL is fine */

/* The most parts at a time of one section, this thread's among them. NULL: 1. */
int rt_parallel_width(const struct rt_parallel *p);
/* How many there would be now, about. 1 inside a part. */
int rt_parallel_free_width(struct rt_parallel *p);

/* The calling thread's run takes a core, and gives it back. NULL is fine. */
void rt_parallel_enter(struct rt_parallel *p);
void rt_parallel_leave(struct rt_parallel *p);

/*
 * part(arg, i) for each i below n, in any order, on this thread and on helpers; returns when all
 * have ended. What parts wrote is seen by the caller. Inside a part, or with p NULL: one after the
 * other, here.
 */
void rt_parallel_run(struct rt_parallel *p, int64_t n, void (*shard)(void *arg, int64_t i),
                     void *arg);

/* For prepare: rt_parallel_width of the session's pool. */
int rt_prep_width(const struct rt_prep *p);

#endif
