/*
 * Decodes the body of a classify or regress request within a budget. The number of decoded Examples
 * must equal the number in the JSON, and the decoder of the wire format must accept each Example.
 */
#include <stdint.h>
#include <stdlib.h>

#include "runtime/base/arena.h"
#include "server/protocol/tfs/json_examples.h"
#include "server/protocol/tfs/wire.h"
#include "tests/fuzz/cost.h"

enum { BUDGET = 1 << 20 };

static void walk(struct srv_cursor c, int depth)
{
    struct srv_field f;
    int got;
    while ((got = srv_field_next(&c, &f)) > 0)
        if (depth && f.type == SRV_BYTES)
            walk(f.body, depth - 1);
    if (got < 0)
        abort();
}

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_error err = {.arena = arena};
    struct srv_json_doc doc;
    struct rt_tensor t = {0};

    if (srv_json_check(&doc, rt_span_of(data, size), NULL, &err) == RT_OK &&
        srv_json_decode_examples(&doc, &(struct srv_allowance){.left = BUDGET}, &t, &err) ==
            RT_OK) {
        if (rt_tensor_count(&t) != srv_json_count(doc.examples))
            abort();
        for (int64_t i = 0; i < rt_tensor_count(&t); i++) {
            struct rt_span s = rt_span_of(rt_str_data(&rt_strs(&t)[i]), rt_strs(&t)[i].n);
            walk(srv_cursor_of(&s, s.n), 1);
        }
    }
    rt_tensor_clear(&t);
    rt_arena_free(arena);
}
