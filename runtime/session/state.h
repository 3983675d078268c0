/*
 * State: the memory of what runs leave behind in the resources of a session, in variables and
 * tables. It counts in a pool of the session's own. What a run hands over moves there from the
 * run's pool, so that nothing counts twice, and counts there until it is freed, whoever holds it by
 * then. Weights, which a load restores from files, count in a pool of their own.
 *
 * While a session is loaded, its state has the limit that the session was made with. From
 * rt_state_serve on the limit is what it held then and so much more. The weights have the session's
 * limit beyond what rt_state_admit_weights says, for good: a lazy one may be read at any time.
 *
 * Threads: any, except for rt_state_serve. A state belongs to its session; a resource that may
 * outlive the session holds a reference to the state's pool.
 */
#ifndef RT_STATE_H
#define RT_STATE_H

#include "runtime/core/tensor.h"

struct rt_state {
    struct rt_pool *pool;
    struct rt_pool *weights; /* NULL: the session of this state restores nothing */
    bool is_serving;         /* changed while nothing runs */
};

bool rt_state_init(struct rt_state *s, size_t limit_bytes, const char *flag);
/* Weights have a limit of as many bytes, beyond those admitted. False: out of memory. */
bool rt_state_init_weights(struct rt_state *s, size_t limit_bytes, const char *flag);
/* The checkpoint has so many bytes of weights: they are loaded in any case, once. */
void rt_state_admit_weights(struct rt_state *s, int64_t bytes);
void rt_state_clear(struct rt_state *s);
/* The session is loaded: runs may leave `more` bytes (0: without limit). */
void rt_state_serve(struct rt_state *s, size_t more);

/*
 * In all that follows a NULL state counts nothing, and `old` (NULL: nothing) is what the caller
 * frees as soon as the call has succeeded: as far as nobody else holds it, its bytes may be
 * exceeded. RT_RESOURCE_EXHAUSTED: err names the flag and the sizes; what had been moved until then
 * stays counted in the state until it is freed.
 */

/* *out: a reference to `t`, counted in the state, or a copy where `t` is not memory of a run
 * (borrowed, foreign, lazy, a constant) or is a small part of its buffer. While a session is loaded
 * what belongs to the model stays shared. UNIMPLEMENTED: `t` holds objects (see state.c). */
enum rt_status rt_state_keep(const struct rt_state *s, struct rt_tensor *out,
                             const struct rt_tensor *t, const struct rt_tensor *old,
                             struct rt_error *err);
/* The texts of n strings count in the state; `old`: n strings that they replace. `credit`: further
 * bytes by which the limit may be exceeded, of what is freed later. */
enum rt_status rt_state_keep_strings(struct rt_pool *pool, const struct rt_str *str, int64_t n,
                                     const struct rt_str *old, size_t credit, struct rt_error *err);
/* The bytes that would be free in the state if these n strings were cleared: of texts that nobody
 * else holds. */
size_t rt_state_strings(const struct rt_pool *pool, const struct rt_str *str, int64_t n);
/* `old` was replaced, and its last reference is about to go: if it was weights from a file, which
 * do not count, the limit rises by its bytes. A variable that is as large as its weights were is
 * never refused, therefore. */
void rt_state_replaced(const struct rt_state *s, const struct rt_tensor *old);

#endif
