/*
 * The background compiler: one thread of low priority that makes specialisations
 * (runtime/plan/specialisation.h) of the plans of any number of sessions, for the shapes that
 * recur. No run waits for it. A session names its compiler in rt_session_options.compiler.
 *
 * Owner: the caller of rt_compiler_new. A compiler outlives the sessions that name it.
 * Threads: every function may be called on any thread; rt_compiler_free only when no other call is
 * going on or will follow. A caller holds no lock of a session.
 */
#ifndef RT_COMPILER_H
#define RT_COMPILER_H

struct rt_compiler;
struct rt_session;

struct rt_compiler *rt_compiler_new(void); /* NULL: out of memory, or the thread does not start */
void rt_compiler_free(struct rt_compiler *c); /* NULL is fine */
/* Returns when the queue is empty and nothing is being compiled. */
void rt_compiler_wait(struct rt_compiler *c);

/* Puts session `s`, which has pending compilations, into the queue. Nothing happens if it is there
 * already. */
void rt_compiler_enqueue(struct rt_compiler *c, struct rt_session *s);
/* Takes session `s` out of the queue, and waits for a compilation of `s` that is under way. The
 * compiler does not touch `s` again before the next rt_compiler_enqueue. */
void rt_compiler_leave(struct rt_compiler *c, struct rt_session *s);

#endif
