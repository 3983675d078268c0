/* Makes a registry with all of Slipway's kernels for a group of tests. */
#ifndef TESTS_SUPPORT_REGISTRY_H
#define TESTS_SUPPORT_REGISTRY_H

#include "runtime/core/op.h"

extern struct rt_registry *test_registry;
/* Set-up and tear-down functions of a cmocka group. They make and free the registry. */
int test_registry_make(void **state);
int test_registry_drop(void **state);

#endif
