/*
 * Executors. The order executor runs a plan in the order of its steps (run_plan.c), the token
 * executor runs a plan by tokens (exec_token.c), and rt_exec_node runs a single step (exec_node.c).
 *
 * Owner: the caller owns fetches and outputs. Threads: the thread that uses the context.
 */
#ifndef RT_EXECUTOR_H
#define RT_EXECUTOR_H

#include "runtime/exec/context.h"

/* ---- plans ---- */

enum rt_status rt_context_run(struct rt_context *c, const struct rt_tensor *feeds,
                              struct rt_tensor *fetches, struct rt_error *err);
/* Runs a plan. `feeds` and `fetches` are as in rt_callable_run. */
enum rt_status rt_plan_run(struct rt_plan *p, struct rt_run_shared *shared,
                           const struct rt_tensor *feeds, struct rt_tensor *fetches,
                           struct rt_error *err);
/* Runs a plan in the order of its steps. The feeds must already be in the context's values. */
enum rt_status rt_exec_order(struct rt_context *c, struct rt_error *err);
/* Runs a plan by tokens. The feeds must already be in the context's values. Stores the fetches in
 * the context's values. Fails if a fetch is dead. */
enum rt_status rt_exec_token(struct rt_context *c, struct rt_error *err);
/* Prepares a plan for rt_exec_token. Called once, when the plan is made. */
enum rt_status rt_token_prepare(struct rt_plan *p, struct rt_error *err);
/*
 * Runs node i on its n_in inputs `in`. An input that is a ref may be a handle; the function
 * replaces it with the value of the variable while the node runs. Bit k of last_use states whether
 * the node may take over input k; taking it over sets the input's `buf` to NULL. All other inputs
 * are borrowed. Fills the n_out tensors `out`, which must be zeroed.
 *
 * Error messages end in " [[{{node NAME}}]]".
 */
enum rt_status rt_exec_node(struct rt_context *c, int i, struct rt_tensor *in, uint64_t last_use,
                            struct rt_tensor *out, struct rt_error *err);

/* Runs a step that has an op and kernels, as rt_exec_node does. The context need not have a plan
 * (exec/fold.c). */
enum rt_status rt_exec_op(struct rt_context *c, struct rt_plan_step *n, struct rt_tensor *in,
                          uint64_t last_use, struct rt_tensor *out, struct rt_error *err);
/* Runs the plan of a context, as rt_context_run does. */
struct rt_exec_runner {
    enum rt_status (*run)(struct rt_context *c, const struct rt_tensor *feeds,
                          struct rt_tensor *results, struct rt_error *err);
};
/* Runs a PL_MAP or a PL_BATCH (exec_rows.c), as rt_exec_node does. The runner runs the sub-plan, so
 * that exec_rows.c does not depend on the executor. */
enum rt_status rt_exec_map(struct rt_context *c, const struct rt_plan_step *n,
                           const struct rt_exec_runner *runner, struct rt_tensor *in,
                           struct rt_tensor *out, struct rt_error *err);
enum rt_status rt_exec_batch(struct rt_context *c, const struct rt_plan_step *n,
                             const struct rt_exec_runner *runner, struct rt_tensor *in,
                             struct rt_tensor *out, struct rt_error *err);
/* Fails if the calls, branches and loops of the run are nested so deeply that a further one must
 * not run. */
enum rt_status rt_exec_check_depth(const struct rt_context *c, struct rt_error *err);
/* Runs node i as rt_exec_node does. Reads the inputs from the context's values and stores the
 * outputs there. */
enum rt_status rt_exec_in_place(struct rt_context *c, int i, uint64_t last_use,
                                struct rt_error *err);
/* Appends " [[{{node NAME}}]]" to the error message, unless the message already names a node. */
enum rt_status rt_exec_fail_at(const struct rt_plan_step *n, struct rt_error *err);

#endif
