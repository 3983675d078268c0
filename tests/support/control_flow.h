/*
 * Adds TensorFlow 1 control flow to small graphs: branches made of Switch and Merge nodes, and
 * loops made of Enter, Exit and NextIteration nodes. The comment on each function names the nodes
 * that the function adds.
 */
#ifndef TESTS_SUPPORT_CONTROL_FLOW_H
#define TESTS_SUPPORT_CONTROL_FLOW_H

#include "tests/support/small_graph.h"

/*
 * Adds the nodes that tf.cond makes for "merge" = `x > 0 ? -x : x + 10`. The feed is "x", and
 * "zero" is a constant. The predicate is "greater", and "pred" is its Identity. The pivots of the
 * two branches are "pivot_t" and "pivot_f", and "switch" is the Switch of x. The Merge reads the
 * results "then" and "else". "which" is the index of the branch that was taken, 0 for "else" and 1
 * for "then".
 */
void cf_cond(struct small_graph *x);
/* Adds the nodes of cf_cond, with the node "flag" of cf_flag as the predicate. The predicate's
 * value is known when the plan is made. */
void cf_cond_of_flag(struct small_graph *x, bool value);
/* Adds "flag", a PlaceholderWithDefault of `value` that is never fed. */
void cf_flag(struct small_graph *x, bool value);

/*
 * Adds a loop with one variable. The variable is initialised from `start` and takes the value of
 * `next`, a tensor of the body, in each iteration. The loop runs while the variable is below
 * `limit`. The names of the nodes begin with the name of the frame. FRAME/merge is the value in the
 * condition, FRAME/cond the condition, FRAME/y the value in the body, and FRAME/exit the value
 * after the loop. Constants of the body have a control edge from FRAME/y.
 */
void cf_loop(struct small_graph *x, const char *frame, const char *start, const char *limit,
             const char *next);
/* Adds another variable to the loop whose condition is `cond`. NAME_switch:1 is the variable's
 * value in the body, and NAME_exit its value after the loop. */
void cf_loop_variable(struct small_graph *x, const char *frame, const char *name, const char *start,
                      const char *cond, const char *next);
/*
 * Adds the loop "w" and, inside it, the loop "in". The outer loop runs while y < 10, for y = start,
 * 2 * start, ... The inner loop adds 3 to z until z is 10 * y or more. z is 0 before the outer
 * loop. "w/exit" and "z_exit" are the final values of y and z.
 */
void cf_nested_loops(struct small_graph *x, const char *start);

/* Asserts that the plan has no Switch, Merge or LoopCond left, and has n nodes with the op `op`,
 * which is "If" or "While". */
void cf_assert_functionalised(struct small_graph *x, const char *fetch, const char *op, int n);

#endif
