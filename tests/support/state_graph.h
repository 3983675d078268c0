/*
 * One graph with every kind of state that a run can write: variables of both kinds, their shapes
 * and existence, and a table. Its nodes read and write them directly, in functions, in branches and
 * in loops. The feed "p" is a float scalar, and each kind of state stands for one number, which is
 * STATE_FIRST when a session is opened (1 for whether the variable "d" exists):
 *
 *   r, w, k   TensorFlow 1's references: a scalar, a matrix of 64 x 64 equal numbers, an integer
 *   v, u      resource variables: a scalar, a vector of one element
 *   n         a resource variable whose number of elements is the number
 *   d         a resource variable that may be destroyed
 *   t         a table whose value for the key 1, or whose size, is the number
 *
 * A node is named by what it touches and what it does: "r_add" adds p to r, and "r_add_read" reads
 * r behind that.
 */
#ifndef TESTS_SUPPORT_STATE_GRAPH_H
#define TESTS_SUPPORT_STATE_GRAPH_H

#include "tests/support/test.h"

#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

enum { STATE_FIRST = 40 };

enum state_mode {
    STATE_NODE_BY_NODE,
    STATE_COMPILED, /* when a shape first runs */
    /* Compiled, and the test prepares the writer after the reader has run, as SessionRun may. */
    STATE_WRITER_COMES_LATE,
    STATE_N_MODES,
};

/* Set up and torn down once for a group of tests, by cmocka. A test's own set-up may add nodes. */
extern struct rt_bytes state_graph;
int state_set_up(void **state);
int state_tear_down(void **state);

/* A session whose state is initialised. The caller frees it. */
struct rt_session *state_open(enum state_mode mode);
/* The callable that fetches "NODE:OUTPUT", or that runs "NODE" and fetches nothing. */
struct rt_callable *state_prepare(struct rt_session *s, const char *what);
/* Runs with p and returns state_sum of the output, 0 without one. A failure names `what`. */
double state_run(struct rt_callable *c, double p, const char *what);
/* The sum of the elements. */
double state_sum(const struct rt_tensor *t);

#endif
