/*
 * Runs a graph three ways: node by node, with nodes fused, and specialised for its exact shapes.
 * All three must give the same outputs and the same errors.
 *
 *   fg_feed(x, "x", 2, (int64_t[]){3, 4});
 *   fg_node(x, "y", "Relu", "x", "T=float");
 *   fg_fetch(x, "y");
 *   fg_compare(x, 0, "a Relu");
 *
 * cmocka calls fg_set_up and fg_tear_down for each test. Constants and feeds hold pseudo-random
 * numbers from tests/support/draw.h.
 */
#ifndef TESTS_SUPPORT_FUSED_GRAPH_H
#define TESTS_SUPPORT_FUSED_GRAPH_H

#include "tests/support/test.h"

#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

enum { FG_MOST = 8 }; /* maximum number of feeds, and of fetches, of a graph */

enum fg_way { FG_UNFUSED, FG_FUSED, FG_SPECIALISED, FG_N_WAYS };

struct fused_graph {
    struct rt_bytes g;
    struct rt_registry *ops;
    bool finite_feeds; /* if true, fg_feed stores no NaN, infinity or -0 */
    int n_feeds, n_fetches;
    const char *feed[FG_MOST], *fetch[FG_MOST];
    struct rt_tensor in[FG_MOST];
    struct rt_error err;
};

int fg_set_up(void **state);
int fg_tear_down(void **state);
void fg_clear(struct fused_graph *x);

void fg_node(struct fused_graph *x, const char *name, const char *op, const char *inputs,
             const char *attrs);
/* Adds a Const whose values differ from `middle` by at most 1/2. The shape is given as text such as
 * "3x3x4x8". */
void fg_constant(struct fused_graph *x, const char *name, const char *shape, float middle);
void fg_scalar(struct fused_graph *x, const char *name, double value);
/* Adds a Placeholder of floats, and makes the tensor that every run feeds to it. */
void fg_feed(struct fused_graph *x, const char *name, int rank, const int64_t *dim);
void fg_fetch(struct fused_graph *x, const char *name);

/* Opens a session that runs the graph in the given way. The caller frees the session. */
struct rt_session *fg_open(struct fused_graph *x, enum fg_way way, struct rt_callable **call);
/* Runs the graph once in its own session and sets *nodes to the number of nodes that ran. The
 * caller clears the outputs. */
enum rt_status fg_run(struct fused_graph *x, enum fg_way way, struct rt_tensor *out,
                      int64_t *nodes);
/* Asserts that the shapes are equal and that the elements differ by at most 1e-5 * max(1, m), where
 * m is the largest finite absolute value in `a`. NaN equals NaN, and an infinity equals only
 * itself. */
void fg_assert_near(const struct rt_tensor *a, const struct rt_tensor *b, const char *what);
/* Runs the graph node by node, fused and specialised, and compares the outputs. Fusion must remove
 * at least `saved` nodes. Calls fg_clear at the end. */
void fg_compare(struct fused_graph *x, int saved, const char *what);

#endif
