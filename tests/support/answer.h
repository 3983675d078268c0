/*
 * Runs a graph with and without fusion, for tests of passes that fuse nodes. The graph's output is
 * "y:0", and one more tensor may be fetched. The ops are those of tests/support/registry.h.
 */
#ifndef TESTS_SUPPORT_ANSWER_H
#define TESTS_SUPPORT_ANSWER_H

#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

enum { ANSWER_FEEDS = 4 };

struct question {
    const struct rt_bytes *graph;
    /* Names of the feeds, up to the first NULL. If there are no names, "x:0" is fed. */
    const char *feeds[ANSWER_FEEDS];
    /* A second tensor to fetch, or NULL if only "y:0" is fetched. */
    const char *also;
    bool no_specialise;
    struct rt_parallel *cores; /* NULL if the graph runs on one core */
};
struct answer {
    enum rt_status status;
    char text[400]; /* the message of the error, or "" if the run succeeded */
    struct rt_tensor y;
    int64_t nodes; /* number of nodes that the run executed */
};

/* Opens a session on the graph and returns its callable. The caller frees the session, which owns
 * the callable. */
struct rt_callable *answer_open(const struct question *q, bool no_fusion, struct rt_session **s);
/* Runs the graph once in its own session. The caller clears the output a->y. */
void answer_ask(const struct question *q, const struct rt_tensor *in, bool no_fusion,
                struct answer *a);
/* Runs the graph with and without fusion. Both runs must return the same status and, if they
 * succeed, outputs that pass answer_alike. Returns the number of nodes that ran with fusion, or -1
 * if both runs returned RT_INVALID_ARGUMENT. */
int64_t answer_both(const struct question *q, const struct rt_tensor *in, float tolerance);
/* Fails the test unless `a` and `b` have equal shapes and elements that differ by at most
 * `tolerance` * max(1, m), where m is the largest finite absolute value in `a`. NaN equals NaN, and
 * an infinity equals only itself. */
void answer_alike(const struct rt_tensor *a, const struct rt_tensor *b, float tolerance);
/* Returns whether sessions use a GPU of the fake driver (accelerated.c). Its kernels are slow. */
bool answer_is_emulated(void);

#endif
