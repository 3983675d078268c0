/*
 * Reads arbitrary bytes as a PredictRequest. The first byte selects the size of the slices that
 * store the other bytes. If the request can be read, its tensors are bound to the signature's
 * inputs and written as a response. The tensors must not take more memory than their budget.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime/base/arena.h"
#include "server/protocol/tfs/predict_proto.h"
#include "tests/fuzz/cost.h"

enum { N = 2, BUDGET = 1 << 20 };

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    static const struct rt_tensor_spec specs[N] = {{.alias = "x", .name = "x:0"},
                                                   {.alias = "y", .name = "y:0"}};
    const struct rt_signature sig = {
        .name = "s", .n_inputs = 1, .n_outputs = 1, .inputs = specs, .outputs = specs + 1};
    struct rt_arena *a = rt_arena_new(16 << 20);
    struct rt_error err = {.arena = a};
    struct srv_predict_request r;
    struct rt_tensor t = {0};
    bool wanted[N];

    if (!a || size < 1) {
        rt_arena_free(a);
        return;
    }
    size_t step = data[0] % 32 + 1, n = size - 1;
    struct rt_span *slices = rt_arena_array(a, n / step + 2, sizeof *slices);
    if (!slices) {
        rt_arena_free(a);
        return;
    }
    for (size_t at = 0, k = 0; at < n; at += step)
        slices[k++] = rt_span_of(data + 1 + at, n - at < step ? n - at : step);
    if (!srv_predict_read(srv_cursor_of(slices, n), &r, a, &err) &&
        !srv_predict_bind(&r, &sig, NULL, &(struct srv_allowance){.left = BUDGET}, &t, wanted,
                          &err)) {
        if (rt_tensor_bytes(&t) > BUDGET)
            abort();
        for (int as_content = 0; as_content < 2; as_content++) {
            struct srv_predict_response out = {.echo = {"m", "s", 1},
                                               .sig = &sig,
                                               .fetches = &t,
                                               .wanted = wanted,
                                               .as_content = as_content};
            unsigned char *p;
            size_t written;
            if (!srv_predict_write(&out, &p, &written, &err))
                free(p);
        }
    }
    rt_tensor_clear(&t);
    rt_arena_free(a);
}
