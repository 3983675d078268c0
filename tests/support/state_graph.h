/*
 * A graph with every kind of state that a run can write: variables of both kinds, their shapes and
 * existence, and a table. Its nodes read and write the state directly, in functions, in branches
 * and in loops. The feed "p" is a float scalar. Each state holds one number, which is STATE_FIRST
 * when a session is opened (1 for "d"):
 *
 *   r, w, k   TensorFlow 1 reference variables: a scalar, 64 x 64 equal numbers, an integer
 *   v, u      resource variables: a scalar, a vector of one element
 *   n         a resource variable; the number is the number of its elements
 *   d         a resource variable that may be destroyed; the number is 1 if it exists, otherwise 0
 *   t         a table; the number is the value for the key 1, or the size of the table
 *
 * The name of a node gives its state and its action: "r_add" adds p to r, and "r_add_read" reads r
 * after "r_add".
 */
#ifndef TESTS_SUPPORT_STATE_GRAPH_H
#define TESTS_SUPPORT_STATE_GRAPH_H

#include "tests/support/test.h"

#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

enum { STATE_FIRST = 40 };

enum state_mode {
    STATE_NODE_BY_NODE,
    STATE_COMPILED, /* each shape is specialised in its first run */
    /* Like STATE_COMPILED, but the test prepares the writer's callable after the reader has run, as
     * SessionRun may. */
    STATE_WRITER_COMES_LATE,
    STATE_N_MODES,
};

/* cmocka calls these functions once for a group of tests. A test's own set-up may add nodes to
 * state_graph. */
extern struct rt_bytes state_graph;
int state_set_up(void **state);
int state_tear_down(void **state);

/* Opens a session and initialises its state. The caller frees the session. */
struct rt_session *state_open(enum state_mode mode);
/* Returns a callable. If `what` is "NODE:OUTPUT", the callable fetches that tensor. Otherwise the
 * callable runs the node `what` and fetches nothing. */
struct rt_callable *state_prepare(struct rt_session *s, const char *what);
/* Runs the callable with the feed p and returns state_sum of the output, or 0 if the callable has
 * no output. A failure's message contains `what`. */
double state_run(struct rt_callable *c, double p, const char *what);
double state_sum(const struct rt_tensor *t);

#endif
