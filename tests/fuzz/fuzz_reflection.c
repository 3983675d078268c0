/* Decodes a ServerReflectionRequest and encodes its response. */
#include "proto/descriptors.h"
#include "server/reflection/reflection.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    /* The input is split into two slices, so that values that span the boundary are copied. */
    struct rt_span service = rt_span_str("a.B");
    struct rt_span pieces[2] = {rt_span_of(data, size / 2),
                                rt_span_of(data + size / 2, size - size / 2)};
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_error err = {0};
    struct rt_bytes out;

    if (!arena)
        return;
    rt_bytes_init(&out, 16 << 20);
    srv_reflection_respond(rt_span_of(pb_descriptors, pb_descriptors_size), &service, 1,
                           srv_cursor_of(pieces, size), &out, arena, &err);
    rt_bytes_clear(&out);
    rt_arena_free(arena);
}
