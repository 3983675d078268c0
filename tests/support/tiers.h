/*
 * One graph in two sessions, node by node and compiled at the first sight of a shape, whose answers
 * must be the same bits and the same errors.
 */
#ifndef TESTS_SUPPORT_TIERS_H
#define TESTS_SUPPORT_TIERS_H

#include "tests/support/test.h"

#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

enum { TIERS_FETCHES = 8 }; /* at the most */

struct tiers {
    struct rt_bytes g;
    struct rt_registry *ops;
    struct rt_session *tier[2]; /* node by node, compiled */
    struct rt_callable *call[2];
    int n_fetches;
    bool no_fusion;
    struct rt_error err;
};

int tiers_set_up(void **state); /* cmocka's */
int tiers_tear_down(void **state);

/* From here on no node is added. `feed` may be NULL. */
void tiers_open(struct tiers *x, const char *feed, const char *const *fetches, int n);
void tiers_same(const struct rt_tensor *a, const struct rt_tensor *b);
/* Both on the same feed, the compiled one more than once. */
void tiers_compare(struct tiers *x, const struct rt_tensor *feed);
/* How many the compiled one keeps. */
int tiers_specialisations(const struct tiers *x);

#endif
