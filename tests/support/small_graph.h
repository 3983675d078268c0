/*
 * Small graphs for tests of plans: made node by node, run on one number "x", looked at for what is
 * left of them.
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

int sg_set_up(void **state); /* cmocka's */
int sg_set_up_unfused(void **state);
int sg_tear_down(void **state);

void sg_node(struct small_graph *x, const char *name, const char *op, const char *inputs,
             const char *attrs);
/* A float scalar; `ctrl`: its control inputs. */
void sg_constant(struct small_graph *x, const char *name, const char *ctrl, const char *value);
/* From the first of these on no node is added. `fetch` or `target` may be NULL. */
struct rt_callable *sg_prepare(struct small_graph *x, const char *fetch, const char *target);
/* Also when it cannot be prepared it is the status that tells. */
enum rt_status sg_run(struct small_graph *x, float feed, const char *fetch, struct rt_tensor *out);
/* The float or int32 scalar that is fetched. */
float sg_number(struct small_graph *x, float feed, const char *fetch, const char *target);
/* How many nodes of the plan are of this op. */
int sg_count(struct small_graph *x, const char *fetch, const char *target, const char *op);

#endif
