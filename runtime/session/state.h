/*
 * State: the memory that runs leave in the resources of a session, its variables and tables. The
 * session has a pool in which this memory counts. A buffer that a run leaves behind moves there
 * from the run's pool, so that it never counts twice, and counts there until it is freed, also
 * while others hold it. Weights, which are restored from files, count in a second pool.
 *
 * While a session is loaded, its state has the limit that the session was made with. rt_state_serve
 * sets the limit to the bytes in use at that time plus an allowance. Weights have the session's
 * limit beyond the bytes of rt_state_admit_weights, for the life of the session, because a lazy
 * weight may be read at any time.
 *
 * Threads: any, except for rt_state_serve. A state belongs to its session; a resource that may
 * outlive the session holds a reference to the state's pool.
 */
#ifndef RT_STATE_H
#define RT_STATE_H

#include "runtime/core/tensor.h"

struct rt_state {
    struct rt_pool *pool;
    struct rt_pool *weights; /* NULL: the state holds no restored weights */
    bool is_serving;         /* changed while no run is going on */
};

bool rt_state_init(struct rt_state *s, size_t limit_bytes, const char *flag);
/* Gives the weights a limit of limit_bytes beyond those admitted. False: out of memory. */
bool rt_state_init_weights(struct rt_state *s, size_t limit_bytes, const char *flag);
/* Raises the limit of weights so that a checkpoint with `bytes` of them can be loaded once. */
void rt_state_admit_weights(struct rt_state *s, int64_t bytes);
void rt_state_clear(struct rt_state *s);
/* The session is loaded: from now on runs may leave `more` bytes (0: no limit). */
void rt_state_serve(struct rt_state *s, size_t more);

/*
 * Of all functions below: a NULL state, or pool, counts nothing. `old` (NULL: nothing) is what the
 * caller frees as soon as the call has succeeded: the limit may be exceeded by those of its bytes
 * that nothing else holds. RT_RESOURCE_EXHAUSTED: err names the flag and the sizes; memory that had
 * moved into the state by then stays counted there until it is freed.
 */

/* *out: a reference to `t`, whose memory moves into the state; or a copy, if `t` is not memory of a
 * run (borrowed, foreign, lazy, a constant) or is a small part of its buffer. While a session is
 * loaded, memory that belongs to the model is shared and does not move. RT_UNIMPLEMENTED: `t` holds
 * objects (see state.c). */
enum rt_status rt_state_keep(const struct rt_state *s, struct rt_tensor *out,
                             const struct rt_tensor *t, const struct rt_tensor *old,
                             struct rt_error *err);
/* Moves the texts of n strings into the state's pool. `old`: n strings that they replace. `credit`:
 * further bytes by which the limit may be exceeded, because the caller frees them later. */
enum rt_status rt_state_keep_strings(struct rt_pool *pool, const struct rt_str *str, int64_t n,
                                     const struct rt_str *old, size_t credit, struct rt_error *err);
/* The bytes that clearing these n strings would free in the state: those of texts that no other
 * string holds. */
size_t rt_state_strings(const struct rt_pool *pool, const struct rt_str *str, int64_t n);
/* `old` was replaced in a variable, and its last reference is about to be dropped. If it is a lazy
 * weight of a file, which does not count in the state, the state's limit rises by its bytes. A new
 * value as large as the restored one is therefore never refused. */
void rt_state_replaced(const struct rt_state *s, const struct rt_tensor *old);

#endif
