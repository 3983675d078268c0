/*
 * Runs one graph in two sessions. One session runs the graph node by node, and the other
 * specialises it in the first run with each shape. The outputs must have the same bits, and the
 * errors must be the same. cmocka calls tiers_set_up and tiers_tear_down for each test.
 */
#ifndef TESTS_SUPPORT_TIERS_H
#define TESTS_SUPPORT_TIERS_H

#include "tests/support/test.h"

#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

enum { TIERS_FETCHES = 8 }; /* maximum number of fetches of a graph */

struct tiers {
    struct rt_bytes g;
    struct rt_registry *ops;
    struct rt_session *tier[2]; /* tier[0] runs node by node, and tier[1] runs compiled plans */
    struct rt_callable *call[2];
    int n_fetches;
    bool no_fusion;
    struct rt_error err;
};

int tiers_set_up(void **state);
int tiers_tear_down(void **state);

/* Opens both sessions on the nodes that have been added so far. If `feed` is NULL, nothing is
 * fed. */
void tiers_open(struct tiers *x, const char *feed, const char *const *fetches, int n);
/* Asserts that `a` and `b` have the same type, shape and bits. */
void tiers_same(const struct rt_tensor *a, const struct rt_tensor *b);
/* Runs both sessions on the feed, the compiled one three times, and compares the results. */
void tiers_compare(struct tiers *x, const struct rt_tensor *feed);
/* Returns the number of specialisations that the compiled session holds. */
int tiers_specialisations(const struct tiers *x);

#endif
