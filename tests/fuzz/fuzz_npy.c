/* Reads a .npy or .npz file. Each array is then written and read again. The number of elements
 * must not change. */
#include <stdint.h>
#include <stdlib.h>

#include "clients/cli/npy.h"
#include "tests/fuzz/cost.h"

static void again(const struct slipway_tensor *t, struct rt_arena *arena)
{
    struct rt_error err = {0};
    struct rt_bytes out;
    struct slipway_tensor read = {0};
    rt_bytes_init(&out, 1 << 22);
    if (cl_npy_write(&out, t, &err) == RT_OK) {
        enum rt_status st = cl_npy_read(rt_span_of(out.p, out.n), arena, &read, &err);
        if (st != RT_RESOURCE_EXHAUSTED && (st || slipway_count(&read) != slipway_count(t)))
            abort();
    }
    rt_bytes_clear(&out);
}

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_error err = {0};
    struct slipway_tensor one = {0}, *all;
    struct rt_arena *arena = rt_arena_new(1 << 22);
    int n = 0;
    if (arena && cl_npy_read(rt_span_of(data, size), arena, &one, &err) == RT_OK)
        again(&one, arena);
    if (arena && cl_npz_read(rt_span_of(data, size), 1 << 20, arena, &all, &n, &err) == RT_OK)
        for (int i = 0; i < n; i++)
            again(&all[i], arena);
    rt_arena_free(arena);
}
