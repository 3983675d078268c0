/*
 * The executors: running a plan (run_plan.c), in the order of its steps (run_plan.c) or by tokens
 * (exec_token.c), and running one step (exec_node.c).
 *
 * Owner: fetches and outputs belong to the caller.
 * Threads: the one that uses the context.
 */
#ifndef RT_EXECUTOR_H
#define RT_EXECUTOR_H

#include "runtime/exec/context.h"

/* ---- plans ---- */

enum rt_status rt_context_run(struct rt_context *c, const struct rt_tensor *feeds,
                              struct rt_tensor *fetches, struct rt_error *err);
/* `feeds` and `fetches` are as in rt_callable_run. */
enum rt_status rt_plan_run(struct rt_plan *p, struct rt_run_shared *shared,
                           const struct rt_tensor *feeds, struct rt_tensor *fetches,
                           struct rt_error *err);
/* Runs a plan whose feeds already stand in the context's values. */
enum rt_status rt_exec_order(struct rt_context *c, struct rt_error *err);
/* As rt_exec_order, for a plan with tokens: the fetches stand in the context's values afterwards. A
 * dead fetch is refused. */
enum rt_status rt_exec_token(struct rt_context *c, struct rt_error *err);
/* Called once, when the plan is made. */
enum rt_status rt_token_prepare(struct rt_plan *p, struct rt_error *err);
/*
 * Runs node i on `in`, its n_in inputs. Refs are still handles where deref says so. An input is
 * borrowed unless its bit in last_use is set; then the node may take it and leaves the struct
 * zeroed. `out` has n_out zeroed tensors, which are filled. Errors end in " [[{{node NAME}}]]".
 */
enum rt_status rt_exec_node(struct rt_context *c, int i, struct rt_tensor *in, uint64_t last_use,
                            struct rt_tensor *out, struct rt_error *err);

/* As rt_exec_node, for a step that has an op and kernels. A context without a plan (exec/fold.c)
 * supports no other rt_exec_ function. */
enum rt_status rt_exec_op(struct rt_context *c, struct rt_plan_step *n, struct rt_tensor *in,
                          uint64_t last_use, struct rt_tensor *out, struct rt_error *err);
/* As rt_exec_node on the context's values: inputs come from the values, outputs are put there. */
enum rt_status rt_exec_in_place(struct rt_context *c, int i, uint64_t last_use,
                                struct rt_error *err);
/* Appends " [[{{node NAME}}]]" to the error unless the error has a node's name already. */
enum rt_status rt_exec_fail_at(const struct rt_plan_step *n, struct rt_error *err);

#endif
