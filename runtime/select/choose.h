/*
 * Choosing the kernel of a step: which kernels can run it at all (select/candidates.c), and which
 * of them is prepared, by rule, by an earlier choice or by timing (select/choose.c).
 *
 * Owner: the session owns its chooser.
 * Threads: any; the chooser has a lock.
 */
#ifndef RT_CHOOSE_H
#define RT_CHOOSE_H

#include "runtime/core/kernel.h"
#include "runtime/plan/plan.h"

struct rt_session;

/* Finds the candidate kernels of a node with an op and makes its empty cache of prepared kernels,
 * in `arena`. Sets kernels, n_kernels, lazy and prepared, which must be zero. UNIMPLEMENTED: no
 * kernel can run the node. */
enum rt_status pl_find_kernels(const struct rt_session *s, struct rt_arena *arena,
                               struct rt_plan_step *n, struct rt_error *err);
/* Chooses among the candidates and prepares the chosen kernel: sets kernel, state, release and
 * scratch_bytes of prep->self (select/choose.c). */
enum rt_status rt_choose_kernel(struct rt_prep *prep, const struct rt_kernel *const *kernels,
                                int n);

/* The state that all choices of a session share. */
struct pl_chooser;
struct pl_chooser *pl_chooser_new(void); /* NULL: out of memory */
void pl_chooser_free(struct pl_chooser *c);
void pl_chooser_seal(struct rt_session *s); /* later choices follow the rules or earlier choices */

#endif
