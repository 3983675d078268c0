/* A registry with all of our kernels, for the time of a group of tests. */
#ifndef TESTS_SUPPORT_REGISTRY_H
#define TESTS_SUPPORT_REGISTRY_H

#include "runtime/core/op.h"

extern struct rt_registry *test_registry;
/* cmocka's set-up and tear-down of a group. */
int test_registry_make(void **state);
int test_registry_drop(void **state);

#endif
