/*
 * Decodes the body of a classify or regress request within a budget. The number of decoded Examples
 * must equal the number in the JSON, and the decoder of the wire format must accept each Example.
 * The same bytes are an Example for DecodeJSONExample, whose messages that decoder must accept too.
 */
#include <stdint.h>
#include <stdlib.h>

#include "kernels/parsing/json_example.h"
#include "runtime/base/arena.h"
#include "server/protocol/tfs/json_examples.h"
#include "server/base/wire.h"
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

static void rewrite(const uint8_t *data, size_t size)
{
    struct rt_error err = {0};
    struct rt_bytes out, text, hashes;
    const struct kn_json_buffers b = {&out, &text, &hashes};
    struct rt_bytes *const all[] = {&out, &text, &hashes};

    for (int k = 0; k < 3; k++)
        rt_bytes_init(all[k], 64 * size + 64);
    if (!kn_example_from_json(rt_span_of(data, size), &b, NULL, NULL, &err)) {
        const struct rt_span s = rt_span_of(out.p, out.n);
        walk(srv_cursor_of(&s, s.n), 2);
    } else if (err.code != RT_INVALID_ARGUMENT) {
        abort();
    }
    for (int k = 0; k < 3; k++)
        rt_bytes_clear(all[k]);
}

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_error err = {.arena = arena};
    struct srv_json_doc doc;
    struct rt_tensor t = {0};

    rewrite(data, size);
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
