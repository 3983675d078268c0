/*
 * Constant evaluation: folding while a plan is built, and small values while it is specialised.
 * Each evaluation has a time limit, and all evaluations of a session together have another
 * (constant_evaluation.c).
 *
 * Owner: results are the caller's. Threads: any; a fold stays on its thread. Errors: a failure is
 * no fault of the model; the node is left to the runs.
 */
#ifndef RT_CONSTANT_EVALUATION_H
#define RT_CONSTANT_EVALUATION_H

#include "runtime/ir/ir.h"

/*
 * Computes output k_out of a node from constants, while a plan is built. `in` is borrowed. A
 * failure is no fault of the model: the node is left to the runs. DEADLINE_EXCEEDED: the fold, or
 * all folds of the session together, took too long (constant_evaluation.c). CANCELLED: as by
 * rt_session_check.
 */
enum rt_status rt_plan_fold(struct rt_session *s, const struct pl_node *n,
                            const struct rt_tensor *in, int k_out, struct rt_tensor *out,
                            struct rt_error *err);

/* The tensor's type, shape and value. */
void rt_info_of(struct rt_info *x, const struct rt_tensor *t);
bool rt_shape_is_exact(const struct rt_shape *s);
/* Evaluates a pure step of one small plain output, if its inputs are constant or only their shapes
 * matter. *no_memory is set, never cleared, where memory was refused: then the value stays
 * unknown. */
bool rt_plan_evaluate(struct rt_session *s, const struct rt_plan_step *n, const struct rt_info *in,
                      const struct rt_info *out, struct rt_tensor *result, bool *no_memory);

#endif
