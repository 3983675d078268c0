/*
 * What a graph answers as its plan has it, and node by node: for tests of what joins nodes. A graph
 * makes "y", and perhaps something else that is fetched too.
 */
#ifndef TESTS_SUPPORT_ANSWER_H
#define TESTS_SUPPORT_ANSWER_H

#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

enum { ANSWER_FEEDS = 4 };

struct question {
    const struct rt_bytes *graph;
    const char *feeds[ANSWER_FEEDS]; /* up to the first NULL; none at all: "x:0" */
    const char *also;                /* fetched besides; NULL: nothing */
    bool no_specialise;
    struct rt_parallel *cores; /* NULL: one */
};
struct answer {
    enum rt_status status;
    char text[400]; /* why it was refused */
    struct rt_tensor y;
    int64_t nodes; /* that ran */
};

/* By test_registry. The graph must import and be prepared; the session is the caller's. */
struct rt_callable *answer_open(const struct question *q, bool no_fusion, struct rt_session **s);
/* The caller clears a->y. */
void answer_ask(const struct question *q, const struct rt_tensor *in, bool no_fusion,
                struct answer *a);
/* Both ways, which must come to the same status and the same numbers, but for `tolerance` times the
 * largest of them, 1 at least. Returns the nodes that ran with the graph's nodes joined; -1: both
 * were refused, as an invalid argument. */
int64_t answer_both(const struct question *q, const struct rt_tensor *in, float tolerance);
/* The two are of one shape and agree so far; NaN agrees with NaN. */
void answer_alike(const struct rt_tensor *a, const struct rt_tensor *b, float tolerance);

#endif
