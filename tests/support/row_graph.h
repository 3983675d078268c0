/*
 * Graphs with one input and one output for tests of the row analysis (runtime/passes/rows.c),
 * written as tables of nodes, and requests that run merged and alone.
 *
 * "x" has shape [n, 3, 4], unless a test gives another shape; "n" and "d" are the first two
 * dimensions of "x" as scalars. row_graph.c defines additional constants and values. The session
 * also has a callable that writes the variable from which "got" gathers, so that this variable is
 * not frozen and its shape is unknown.
 */
#ifndef TESTS_SUPPORT_ROW_GRAPH_H
#define TESTS_SUPPORT_ROW_GRAPH_H

#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

enum { RG_MOST_LINES = 12 };
#define RG_INT(name_, value)                                                                       \
    {                                                                                              \
        name_, "Const", "", "dtype=int32 value=int32" value                                        \
    }

struct rg_graph {
    struct rt_bytes bytes;
    struct rt_registry *registry;
    struct rt_session *session;
    struct rt_callable *callable; /* the callable feeds "x" and fetches "out" */
};
/* Opens a session on three groups of nodes: the nodes that all graphs have, `lines` and `more`.
 * Either `lines` or `more` adds "k", an int32 scalar. */
void rg_open(struct rg_graph *g, const struct gd_line *lines, const struct gd_line *more);
/* Opens a session as rg_open does, but returns false if the nodes are refused. */
bool rg_try_open(struct rg_graph *g, const struct gd_line *lines, const struct gd_line *more);
void rg_close(struct rg_graph *g);

/* Returns rows [from, from + n) of an input of unlimited length. The input is the same for every
 * call. `row` is the shape of one row, without dimension 0. */
struct rt_tensor rg_rows(const struct rt_shape *row, int64_t from, int64_t n);
enum rt_status rg_run(struct rg_graph *g, const struct rt_shape *row, int64_t from, int64_t n,
                      struct rt_tensor *out, struct rt_error *err);
/*
 * Runs pairs of requests of several sizes, alone and merged. Merged requests must give the same
 * bits as when they run alone, or fail exactly when one of them fails alone. Otherwise the test
 * fails with a message that holds `what` and the texts after it. Returns how many pairs gave
 * outputs.
 */
int rg_check_merged(struct rg_graph *g, const struct rt_shape *row, const char *what,
                    const char *which);

#endif
