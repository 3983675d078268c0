/*
 * Graphs of one input and one output for tests of the proof of the rows (runtime/passes/rows.c),
 * line by line, and what requests of them get together and alone.
 *
 * "x" has shape [n, 3, 4]; "n" and "d" are its first two dimensions as scalars. "put" is served
 * too: the variable that "got" gathers from is not frozen, and of no known shape.
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
    struct rt_callable *callable; /* from "x" to "out" */
};
/* The lines that all graphs have, and these; one of them is "k", an int32. */
void rg_open(struct rg_graph *g, const struct gd_line *lines, const struct gd_line *more);
/* The same for lines that may be no graph: then false, and the test goes on. */
bool rg_try_open(struct rg_graph *g, const struct gd_line *lines, const struct gd_line *more);
void rg_close(struct rg_graph *g);

/* Rows [from, from + n) of what is the same for every call, each as `row` without dimension 0. */
struct rt_tensor rg_rows(const struct rt_shape *row, int64_t from, int64_t n);
enum rt_status rg_run(struct rg_graph *g, const struct rt_shape *row, int64_t from, int64_t n,
                      struct rt_tensor *out, struct rt_error *err);
/*
 * Runs requests of several sizes alone and two together, which must get the same bits, or fail when
 * one of them fails alone; the test fails, with these texts, otherwise. Returns how many pairs got
 * answers.
 */
int rg_check_merged(struct rg_graph *g, const struct rt_shape *row, const char *what,
                    const char *which);

#endif
