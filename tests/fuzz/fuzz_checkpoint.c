/* Reads arbitrary bytes as a checkpoint's index. The reader may refuse the bytes. The tensors'
 * files do not exist. */
#include <stddef.h>
#include <stdint.h>

#include "runtime/files/checkpoint.h"
#include "runtime/files/sstable.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_error err = {0};
    const struct rt_sstable_source index = {.size = size, .p = data};
    struct rt_checkpoint *c;

    if (rt_checkpoint_open_index(&c, "/nonexistent/x", &index, &err))
        return;
    for (int i = 0; i < rt_checkpoint_count(c); i++) {
        struct rt_tensor t;
        const char *name = rt_checkpoint_at(c, i)->name;
        rt_checkpoint_tensor(c, name, rt_span_of(NULL, 0), RT_NO_DTYPE, NULL, &t, &err);
        rt_tensor_clear(&t);
        rt_checkpoint_tensor(c, name, rt_span_str("5 8 0,2:1,3"), RT_NO_DTYPE, NULL, &t, &err);
        rt_tensor_clear(&t);
    }
    rt_checkpoint_unref(c);
}
