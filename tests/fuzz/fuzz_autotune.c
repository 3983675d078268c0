/* Reads the input as an autotune cache file. Reading it twice must give the same result. */
#include <stdlib.h>

#include "runtime/select/autotune.h"
#include "runtime/base/log.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

void fuzz_one(const uint8_t *data, size_t size)
{
    char name[RT_AUTOTUNE_NAME];
    int bad = 0, again = 0;

    atomic_store(&rt_log_level, -1);
    struct rt_autotune *a = rt_autotune_new(NULL);
    if (!a)
        return;
    const int taken = rt_autotune_read(a, rt_span_of(data, size), &bad);
    if (taken < 0 || (bad < 0 && taken) ||
        rt_autotune_read(a, rt_span_of(data, size), &again) != taken || again != bad)
        abort();
    rt_autotune_find(a, "key", name);
    rt_autotune_free(a);
}
