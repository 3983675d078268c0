/*
 * Decodes the body of a predict request. The first byte selects the signature, and the other
 * bytes are JSON. A request that can be decoded is encoded again.
 */
#include <stdint.h>
#include <stdlib.h>

#include "runtime/base/arena.h"
#include "server/protocol/tfs/json_tensor.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    static const enum rt_dtype types[] = {RT_F32, RT_I32,  RT_STRING, RT_F64, RT_I64,
                                          RT_U8,  RT_BOOL, RT_U64,    RT_U32, RT_I16,
                                          RT_F16, RT_BF16, RT_U16,    RT_QI8};
    enum { N_TYPES = sizeof types / sizeof *types };
    if (size == 0)
        return;
    struct rt_tensor_spec specs[2] = {{.alias = "a"}, {.alias = "b_bytes"}};
    specs[0].dtype = types[*data % N_TYPES];
    specs[1].dtype = types[*data / N_TYPES % N_TYPES];
    int n = *data < N_TYPES * N_TYPES ? 2 : 1;
    struct rt_signature sig = {.n_inputs = n, .inputs = specs, .n_outputs = n, .outputs = specs};
    struct rt_tensor feeds[2] = {{0}};
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_error err = {.arena = arena};
    struct srv_json_doc doc;
    struct rt_span name;
    struct rt_bytes out;
    enum srv_json_form form;
    rt_bytes_init(&out, 1 << 26);
    if (srv_json_check(&doc, rt_span_of(data + 1, size - 1), NULL, &err) == RT_OK &&
        srv_json_signature(&doc, arena, &name, &err) == RT_OK &&
        srv_json_decode_predict(&doc, &sig, name, &(struct srv_allowance){.left = 1 << 26}, feeds,
                                &form, &err) == RT_OK &&
        srv_json_encode_predict(&out, &sig, feeds, form, NULL, &err) == RT_OK) {
        /* The JSON decoder must accept the encoder's output. */
        struct srv_json_doc again;
        if (srv_json_check(&again, rt_span_of(out.p, out.n), NULL, &err) != RT_OK)
            abort();
    }
    rt_bytes_clear(&out);
    for (int i = 0; i < n; i++)
        rt_tensor_clear(&feeds[i]);
    rt_arena_free(arena);
}
