/*
 * Small graphs for tests of the compiler. A test adds nodes, runs the graph with the float scalar
 * "x" as its feed, and counts the nodes that are left in the plan. cmocka calls sg_set_up and
 * sg_tear_down for each test.
 */
#ifndef TESTS_SUPPORT_SMALL_GRAPH_H
#define TESTS_SUPPORT_SMALL_GRAPH_H

#include "tests/support/test.h"

#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

struct small_graph {
    struct rt_bytes g;
    struct rt_registry *registry;
    struct rt_session *session;
    bool no_fusion;
    struct rt_error err;
};

int sg_set_up(void **state);
int sg_set_up_unfused(void **state);
int sg_tear_down(void **state);

void sg_node(struct small_graph *x, const char *name, const char *op, const char *inputs,
             const char *attrs);
/* Adds a Const that is a float scalar. `ctrl` holds its control inputs, or is "". */
void sg_constant(struct small_graph *x, const char *name, const char *ctrl, const char *value);
/* Adds the float scalar variable "v", and the node "init", which assigns the value of node "x" to
 * it. */
void sg_variable(struct small_graph *x);
/* Adds the float scalar "r", a TensorFlow 1 reference variable, and the node "init" for it. */
void sg_ref_variable(struct small_graph *x);

/* Prepares a callable. The first call to sg_prepare, sg_run, sg_number or sg_count opens the
 * session, so the session lacks nodes that are added later. NULL as `fetch` or `target` means no
 * fetch or no target. */
struct rt_callable *sg_prepare(struct small_graph *x, const char *fetch, const char *target);
/* Runs the graph. Returns the status of making the plan if that step fails, otherwise the status of
 * the run. */
enum rt_status sg_run(struct small_graph *x, float feed, const char *fetch, struct rt_tensor *out);
/* Runs the graph and returns the float or int32 scalar that is fetched, or 0 if nothing is
 * fetched. */
float sg_number(struct small_graph *x, float feed, const char *fetch, const char *target);
/* Returns the number of nodes with the op `op` in the plan. */
int sg_count(struct small_graph *x, const char *fetch, const char *target, const char *op);

#endif
