#include "tests/support/registry.h"

#include "kernels/kernels.h"

struct rt_registry *test_registry;

int test_registry_make(void **state)
{
    (void)state;
    test_registry = rt_registry_new();
    return test_registry && kn_register(test_registry) ? 0 : -1;
}

int test_registry_drop(void **state)
{
    (void)state;
    rt_registry_free(test_registry);
    test_registry = NULL;
    return 0;
}
