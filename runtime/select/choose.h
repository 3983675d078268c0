/*
 * Kernel selection for a step: finds the kernels that can run the step (select/candidates.c) and
 * chooses one of them by rule, by an earlier choice or by timing (select/choose.c).
 *
 * Owner: a session owns its chooser. Threads: any; the chooser has a lock.
 */
#ifndef RT_CHOOSE_H
#define RT_CHOOSE_H

#include "runtime/core/kernel.h"
#include "runtime/plan/plan.h"

struct rt_session;

/* Finds the candidate kernels of step `n`, which has an op, and allocates the step's empty cache of
 * prepared kernels in `arena`. Sets `kernels`, `n_kernels`, `device_kernels`, `n_device_kernels`,
 * `lazy` and `prepared`, which must be zero before the call. Clears on_accelerator if the
 * accelerator has no kernel for the step. Returns RT_UNIMPLEMENTED if no kernel on the CPU can run
 * the step. */
enum rt_status pl_find_kernels(const struct rt_session *s, struct rt_arena *arena,
                               struct rt_plan_step *n, struct rt_error *err);
/* Chooses among the n candidates and prepares the chosen kernel. Sets kernel, state, release and
 * scratch_bytes of prep->self (select/choose.c). */
enum rt_status rt_choose_kernel(struct rt_prep *prep, const struct rt_kernel *const *kernels,
                                int n);

/* The state shared by all kernel choices of a session. */
struct pl_chooser;
struct pl_chooser *pl_chooser_new(void); /* makes a chooser, or returns NULL if memory runs out */
void pl_chooser_free(struct pl_chooser *c);
/* After this call, every choice repeats the earlier choice for the same constant. If there is no
 * earlier choice, the rule chooses. */
void pl_chooser_seal(struct rt_session *s);

#endif
