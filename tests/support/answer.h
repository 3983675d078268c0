/*
 * The outputs of a graph with fusion and without, for tests of passes that fuse nodes. The graph's
 * output is "y:0", and one more tensor may be fetched. The ops are those of
 * tests/support/registry.h.
 */
#ifndef TESTS_SUPPORT_ANSWER_H
#define TESTS_SUPPORT_ANSWER_H

#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

enum { ANSWER_FEEDS = 4 };

struct question {
    const struct rt_bytes *graph;
    const char *feeds[ANSWER_FEEDS]; /* up to the first NULL; without any, "x:0" is fed */
    const char *also;                /* one more fetch; NULL: none */
    bool no_specialise;
    struct rt_parallel *cores; /* NULL: one core */
};
struct answer {
    enum rt_status status;
    char text[400]; /* the error's; "" without one */
    struct rt_tensor y;
    int64_t nodes; /* how many nodes ran */
};

/* The caller frees the session, which owns the callable. */
struct rt_callable *answer_open(const struct question *q, bool no_fusion, struct rt_session **s);
/* Runs once in a session of its own. The caller clears a->y. */
void answer_ask(const struct question *q, const struct rt_tensor *in, bool no_fusion,
                struct answer *a);
/* Runs without fusion and with it. Both must return the same status and, without an error, outputs
 * that pass answer_alike. Returns the number of nodes that ran with fusion, or -1 where both runs
 * were refused as an invalid argument. */
int64_t answer_both(const struct question *q, const struct rt_tensor *in, float tolerance);
/* Equal shapes, and elements that differ by at most `tolerance` times the largest finite one of
 * `a`, or times 1. NaN equals NaN. */
void answer_alike(const struct rt_tensor *a, const struct rt_tensor *b, float tolerance);

#endif
