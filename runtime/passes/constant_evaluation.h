/*
 * Constant evaluation folds nodes while a plan is built, and evaluates small values while the plan
 * is specialised. Each evaluation has a time limit. A second time limit applies to all evaluations
 * of a session together (constant_evaluation.c).
 *
 * Owner: results belong to the caller. Threads: any; a fold stays on its thread. Errors: a failure
 * does not make the model invalid; the node is evaluated in each run instead.
 */
#ifndef RT_CONSTANT_EVALUATION_H
#define RT_CONSTANT_EVALUATION_H

#include "runtime/ir/ir.h"

/*
 * Computes output k_out of a node from constants while a plan is built. `in` is borrowed. After a
 * failure, the node is computed in each run instead. Returns RT_DEADLINE_EXCEEDED if this
 * evaluation, or all evaluations of the session together, took too long (constant_evaluation.c).
 * Returns RT_CANCELLED if rt_session_check does.
 */
enum rt_status rt_plan_fold(struct rt_session *s, const struct pl_node *n,
                            const struct rt_tensor *in, int k_out, struct rt_tensor *out,
                            struct rt_error *err);

/* Sets *x to the tensor's type, shape and value. */
void rt_info_of(struct rt_info *x, const struct rt_tensor *t);
bool rt_shape_is_exact(const struct rt_shape *s);
/* Evaluates a pure step with one small output. Every input must be constant or, if the step reads
 * only shapes, have a known shape. Returns false if the value stays unknown. Sets *no_memory if an
 * allocation is refused, and never clears it. */
bool rt_plan_evaluate(struct rt_session *s, const struct rt_plan_step *n, const struct rt_info *in,
                      const struct rt_info *out, struct rt_tensor *result, bool *no_memory);

#endif
