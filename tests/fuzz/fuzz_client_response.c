/*
 * Reads arbitrary bytes as a server's response. The first byte selects the type of the message. A
 * tensor that can be read is also written as an input and read again. Writing may exceed the size
 * limit, because the last string of the tensor may be repeated many times.
 */
#include <stdint.h>
#include <stdlib.h>

#include "clients/c/message.h"
#include "clients/cli/classify.h"
#include "clients/cli/json.h"
#include "proto/wire.h"
#include "tests/fuzz/cost.h"

static void tensor(struct rt_span bytes, struct rt_arena *arena)
{
    const struct slipway_model model = {.name = "m"};
    struct slipway_tensor first = {0}, again = {0};
    struct rt_span name, value;
    struct rt_error err = {0};
    struct rt_bytes out;
    size_t budget = 1 << 20;
    if (cl_read_tensor(bytes, arena, &budget, &first, &err))
        return;
    first.name = "t";
    rt_bytes_init(&out, 1 << 22);
    if (cl_write_predict(&out, &model, &first, 1, NULL, 0, &err) == RT_OK && !out.failed) {
        struct rt_span rest = rt_span_of(out.p, out.n);
        budget = (1 << 20) + out.n;
        if (pb_entry_next(&rest, 2, &name, &value) != 1 || !rt_span_is(name, "t") ||
            cl_read_tensor(value, arena, &budget, &again, &err) || again.dtype != first.dtype ||
            slipway_count(&again) != slipway_count(&first))
            abort();
    }
    rt_bytes_clear(&out);
}

/* Shows a response as JSON, which must be valid. */
static void show_results(enum pb_log_type type, struct rt_span bytes)
{
    struct rt_error err = {0};
    struct rt_bytes out;
    json_t *v = NULL;
    rt_bytes_init(&out, 1 << 24);
    if (cl_json_results(&out, type, bytes, &err) == RT_OK && !out.failed &&
        cl_json_load(rt_span_of(out.p, out.n), &v, &err) != RT_OK)
        abort();
    json_decref(v);
    rt_bytes_clear(&out);
}

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct slipway_answer response;
    struct slipway_status status;
    struct slipway_metadata metadata;
    struct rt_error err = {0};
    size_t budget = 1 << 20;
    if (!size)
        return;
    struct rt_arena *arena = rt_arena_new(1 << 24);
    struct rt_span bytes = rt_span_of(data + 1, size - 1);
    switch (arena ? *data % 5 : 5) {
    case 0:
        (void)cl_read_predict(bytes, arena, &budget, &response, &err);
        show_results(PB_LOG_CLASSIFY, bytes);
        show_results(PB_LOG_REGRESS, bytes);
        break;
    case 1:
        (void)cl_read_status(bytes, arena, &status, &err);
        break;
    case 2:
        (void)cl_read_metadata(bytes, arena, &metadata, &err);
        break;
    case 3:
        (void)cl_read_reload(bytes, &err);
        break;
    case 4:
        tensor(bytes, arena);
        break;
    default:
        break;
    }
    rt_arena_free(arena);
}
