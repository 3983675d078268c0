/*
 * The background compiler is one low-priority thread. For any number of sessions, it makes
 * specialisations (runtime/plan/specialisation.h) of plans for shapes that recur. No run waits for
 * it. A session names its compiler in rt_session_options.compiler.
 *
 * Owner: the caller of rt_compiler_new. A compiler outlives the sessions that name it. Threads:
 * every function may be called on any thread, except rt_compiler_free, which must be the last call
 * and must not overlap another call. Callers must hold no lock of a session.
 */
#ifndef RT_COMPILER_H
#define RT_COMPILER_H

struct rt_compiler;
struct rt_session;

/* Makes a compiler. Returns NULL if memory runs out or the thread cannot be started. */
struct rt_compiler *rt_compiler_new(void);
void rt_compiler_free(struct rt_compiler *c); /* does nothing if `c` is NULL */
/* Waits until the queue is empty and nothing is being compiled. */
void rt_compiler_wait(struct rt_compiler *c);

/* Adds session `s`, which has pending compilations, to the queue. Does nothing if the queue already
 * contains it. */
void rt_compiler_enqueue(struct rt_compiler *c, struct rt_session *s);
/* Removes session `s` from the queue, and waits until no compilation of `s` is running. The
 * compiler does not access `s` again before the next rt_compiler_enqueue. */
void rt_compiler_leave(struct rt_compiler *c, struct rt_session *s);

#endif
