/*
 * Graphs with one input and one output for tests of the row analysis (runtime/passes/rows.c). The
 * graphs are written as tables of nodes. Requests run on each graph both merged and alone.
 *
 * "x" has shape [n, 3, 4], unless a test gives another shape; "n" and "d" are the first two
 * dimensions of "x" as scalars. row_graph.c defines more constants and tensors for all graphs. The
 * session also has a callable that writes the variable from which "got" gathers. The variable is
 * therefore not frozen, and its shape is unknown.
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
 * Either `lines` or `more` must add "k", an int32 scalar. */
void rg_open(struct rg_graph *g, const struct gd_line *lines, const struct gd_line *more);
/* Opens a session as rg_open does, but returns false if the nodes are refused. */
bool rg_try_open(struct rg_graph *g, const struct gd_line *lines, const struct gd_line *more);
void rg_close(struct rg_graph *g);

/* Returns rows [from, from + n) of an input of unlimited length. The input is the same for every
 * call. `row` is the shape of one row, without dimension 0. */
struct rt_tensor rg_rows(const struct rt_shape *row, int64_t from, int64_t n);
enum rt_status rg_run(struct rg_graph *g, const struct rt_shape *row, int64_t from, int64_t n,
                      struct rt_tensor *out, struct rt_error *err);
/* Runs pairs of requests of several sizes, first each request alone and then the pair merged.
 * Merged requests must fail exactly when one of them fails alone, and otherwise give the same bits
 * as when they run alone. A failure's message contains `what` and `which`. Returns the number of
 * pairs that gave outputs. */
int rg_check_merged(struct rg_graph *g, const struct rt_shape *row, const char *what,
                    const char *which);

#endif
