/* Reads arbitrary bytes as a table of checkpoint format 1. Its tensors are read or refused. */
#include <stddef.h>
#include <stdint.h>

#include "runtime/files/checkpoint_v1.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    const struct rt_sstable_source from = {.size = size, .p = data};
    struct rt_error err = {0};
    struct rt_checkpoint_v1 *c;

    if (rt_checkpoint_v1_over(&c, "x", &from, &err))
        return;
    for (int i = 0; i < rt_checkpoint_v1_count(c) && i < 20; i++) {
        struct rt_tensor t;
        const char *name = rt_checkpoint_v1_name(c, i);
        rt_checkpoint_v1_tensor(c, name, rt_span_of(NULL, 0), RT_NO_DTYPE, NULL, &t, &err);
        rt_tensor_clear(&t);
        rt_checkpoint_v1_tensor(c, name, rt_span_str("5 8 0,2:1,3"), RT_NO_DTYPE, NULL, &t, &err);
        rt_tensor_clear(&t);
    }
    rt_checkpoint_v1_close(c);
}
