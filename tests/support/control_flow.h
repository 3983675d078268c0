/*
 * Branches by Switch and Merge and loops by frames, as TensorFlow 1 writes them, for small graphs.
 * Each call adds the nodes that its comment names.
 */
#ifndef TESTS_SUPPORT_CONTROL_FLOW_H
#define TESTS_SUPPORT_CONTROL_FLOW_H

#include "tests/support/small_graph.h"

/*
 * "merge" = x > 0 ? -x : x + 10, in the nodes of tf.cond: the feed "x", the constant "zero", the
 * predicate "greater" and its Identity "pred", the pivots "pivot_t" and "pivot_f" of the two sides,
 * the "switch" of x, "then" and "else" in front of the Merge, and the index "which" of the side
 * that was taken: 0 for "else".
 */
void cf_cond(struct small_graph *x);
/* The same with a predicate that is known when the plan is made: cf_flag. */
void cf_cond_of_flag(struct small_graph *x, bool value);
/* "flag": a PlaceholderWithDefault of this value, which nobody feeds. */
void cf_flag(struct small_graph *x, bool value);

/*
 * While the value is below `limit`, beginning with `start`: value = `next`, a tensor of the body.
 * The frame's name stands before the names of the nodes. FRAME/y is the value in the body, and
 * constants of the body wait for it; FRAME/merge is the value in the condition, FRAME/cond the
 * condition, FRAME/exit the value that ended the loop.
 */
void cf_loop(struct small_graph *x, const char *frame, const char *start, const char *limit,
             const char *next);
/* One more value of the loop, whose condition is `cond`: NAME_switch:1 in the body, NAME_exit. */
void cf_loop_variable(struct small_graph *x, const char *frame, const char *name, const char *start,
                      const char *cond, const char *next);
/*
 * For y = start, 2 * start, ... while y < 10: z, which begins with 0, grows by 3 until it is 10 * y
 * or more. The outer loop is "w" and the inner one "in"; "w/exit" and "z_exit" are y and z in the
 * end.
 */
void cf_nested_loops(struct small_graph *x, const char *start);

/* The plan has no Switch, Merge or LoopCond left, and n nodes of `op`, which is "If" or "While". */
void cf_assert_functionalised(struct small_graph *x, const char *fetch, const char *op, int n);

#endif
