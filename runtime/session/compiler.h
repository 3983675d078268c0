/*
 * A thread of low priority that compiles the plans of any number of sessions for the shapes that
 * recur (runtime/plan/specialisation.h), so that nobody's run waits for it. Sessions name it in
 * their options.
 *
 * Owner: whoever made it; it outlives the sessions. A session that is freed is forgotten.
 * Threads: any; free when nobody calls anything any more. No lock of a session is held while one
 * calls these.
 */
#ifndef RT_COMPILER_H
#define RT_COMPILER_H

struct rt_compiler;
struct rt_session;

struct rt_compiler *rt_compiler_new(void);    /* NULL: no memory, or no thread */
void rt_compiler_free(struct rt_compiler *c); /* NULL is fine */
/* Returns when nothing is wanted any more. */
void rt_compiler_wait(struct rt_compiler *c);

/* For sessions, on whatever thread: this one has something to compile; it is to be left alone until
 * it wants again, which waits for what is under way. */
void rt_compiler_enqueue(struct rt_compiler *c, struct rt_session *s);
void rt_compiler_leave(struct rt_compiler *c, struct rt_session *s);

#endif
