/* Makes a registry with all of Slipway's kernels, which a group of tests shares. */
#ifndef TESTS_SUPPORT_REGISTRY_H
#define TESTS_SUPPORT_REGISTRY_H

#include "runtime/core/op.h"

extern struct rt_registry *test_registry;
/* Set-up and tear-down of a cmocka group, which make and free the registry. */
int test_registry_make(void **state);
int test_registry_drop(void **state);

#endif
