/*
 * Reads arbitrary bytes as a request of an API other than Predict. The first byte selects the API
 * and the size of the slices that store the other bytes. If the request can be read, its tensors
 * are decoded within a memory budget and written as a new request, which must be readable.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime/base/arena.h"
#include "server/protocol/tfs/classify_proto.h"
#include "server/protocol/tfs/session_proto.h"
#include "tests/fuzz/cost.h"

enum { BUDGET = 1 << 20 };

static void try_examples(struct srv_cursor c, bool is_multi, struct rt_arena *a)
{
    const struct srv_model_echo echo = {"m", "s", 1};
    struct rt_error err = {.arena = a};
    struct srv_examples_request r;
    struct rt_tensor t;
    struct rt_bytes out;

    if (srv_examples_read(c, is_multi, &r, a, &err) ||
        srv_examples_bind(r.input, &(struct srv_allowance){.left = BUDGET}, &t, &err))
        return;
    rt_bytes_init(&out, 4 * BUDGET);
    srv_examples_write_request(&echo, &t, &out);
    int64_t n = rt_tensor_count(&t);
    rt_tensor_clear(&t);
    const struct rt_span again = rt_span_of(out.p, out.n);
    if (!out.failed) {
        enum rt_status st = srv_examples_read(srv_cursor_of(&again, again.n), false, &r, a, &err);
        if (!st)
            st = srv_examples_bind(r.input, &(struct srv_allowance){.left = 4 * BUDGET}, &t, &err);
        if (st ? st != RT_RESOURCE_EXHAUSTED : rt_tensor_count(&t) != n)
            abort();
        if (!st)
            rt_tensor_clear(&t);
    }
    rt_bytes_clear(&out);
}

static void try_session(struct srv_cursor c, struct rt_arena *a)
{
    const struct srv_model_echo echo = {"m", "", 1};
    struct rt_error err = {.arena = a};
    struct srv_session_request r;
    struct srv_allowance allowance = {.left = BUDGET};
    int n = 0;

    if (srv_session_read(c, &r, a, &err))
        return;
    struct rt_tensor *t = rt_arena_array(a, (size_t)r.n_feeds + 1, sizeof *t);
    const struct rt_tensor **at = rt_arena_array(a, (size_t)r.n_feeds + 1, sizeof *at);
    while (t && at && n < r.n_feeds &&
           !srv_tensor_read(r.feeds[n].tensor, RT_NO_DTYPE, &t[n], &allowance, &err)) {
        at[n] = &t[n];
        n++;
    }
    if (n == r.n_feeds && t && at) {
        struct rt_bytes out;
        rt_bytes_init(&out, 16 * BUDGET);
        srv_session_write_request(&r, &echo, at, &out);
        const struct rt_span again = rt_span_of(out.p, out.n);
        struct srv_session_request second;
        if (!out.failed && srv_session_read(srv_cursor_of(&again, again.n), &second, a, &err) &&
            err.code != RT_RESOURCE_EXHAUSTED)
            abort();
        rt_bytes_clear(&out);
    }
    for (int i = 0; i < n; i++)
        rt_tensor_clear(&t[i]);
}

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_arena *a = rt_arena_new(16 << 20);

    if (!a || size < 1) {
        rt_arena_free(a);
        return;
    }
    size_t step = data[0] / 4 + 1, n = size - 1;
    struct rt_span *slices = rt_arena_array(a, n / step + 2, sizeof *slices);
    if (!slices) {
        rt_arena_free(a);
        return;
    }
    for (size_t at = 0, k = 0; at < n; at += step)
        slices[k++] = rt_span_of(data + 1 + at, n - at < step ? n - at : step);
    struct srv_cursor c = srv_cursor_of(slices, n);
    if (data[0] % 4 < 2)
        try_examples(c, data[0] % 4 == 1, a);
    else
        try_session(c, a);
    rt_arena_free(a);
}
