/*
 * Reads arbitrary bytes as an inference request of the Open Inference Protocol. Bit 0 of the first
 * byte selects protobuf or JSON. If bit 1 is set, the second byte gives the number of bytes of
 * binary data after the JSON. Each tensor that can be read is written as raw bytes, which must be
 * readable as the same tensor. The tensor is also written in a JSON response.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "server/protocol/oip/oip.h"
#include "tests/fuzz/cost.h"

enum { BUDGET = 1 << 20 };

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

/* Aborts unless the raw bytes of the tensor are readable as the same tensor. */
static void check_raw(const struct srv_oip_input *in, const struct rt_tensor *t,
                      struct rt_error *err)
{
    struct srv_oip_input raw = *in;
    struct rt_tensor again;
    struct rt_bytes bytes, second;
    struct srv_allowance allowance = {.left = 8 * BUDGET};

    rt_bytes_init(&bytes, 8 * BUDGET);
    rt_bytes_init(&second, 8 * BUDGET);
    srv_oip_write_raw(&bytes, t, NULL);
    if (bytes.n != srv_oip_raw_bytes(t))
        abort();
    const struct rt_span span = rt_span_of(bytes.p ? bytes.p : "", bytes.n);
    raw.is_raw = true;
    raw.data.p = NULL;
    raw.values = srv_cursor_of(&span, span.n);
    if (srv_oip_tensor_read(&raw, &again, &allowance, err))
        abort();
    srv_oip_write_raw(&second, &again, NULL);
    if (second.n != bytes.n || (bytes.n && memcmp(second.p, bytes.p, bytes.n) != 0))
        abort();
    rt_tensor_clear(&again);
    rt_bytes_clear(&bytes);
    rt_bytes_clear(&second);
}

static void respond(struct srv_inference *inf, const struct rt_tensor *tensors, int n)
{
    struct srv_oip_request *r = inf->request;
    struct rt_tensor_spec *specs = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *specs);
    struct srv_version version = {.model = "m", .version = 1};
    struct rt_signature def = {.name = "s", .n_outputs = n, .outputs = specs};
    const struct rt_model_signature sig = {.def = &def};
    struct rt_error err = {.arena = inf->arena};
    struct rt_bytes out;

    r->order = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *r->order);
    r->order_is_binary = rt_arena_array(inf->arena, (size_t)n + 1, sizeof *r->order_is_binary);
    r->order_output = rt_arena_array(inf->arena, (size_t)n + 1, sizeof(*r->order_output));
    if (!specs || !r->order || !r->order_is_binary || !r->order_output)
        return;
    for (int i = 0; i < n; i++) {
        specs[i] = (struct rt_tensor_spec){.alias = "y", .dtype = (enum rt_dtype)tensors[i].dtype};
        r->order[i] = i;
        r->order_is_binary[i] = i % 2;
    }
    r->n_order = n;
    inf->job->version = &version;
    inf->job->signature = &sig;
    inf->job->fetches = (struct rt_tensor *)(uintptr_t)tensors;
    inf->job->deadline_ns = RT_NEVER;
    rt_bytes_init(&out, 16 * BUDGET);
    srv_inference_encode(inf, &out, &err);
    rt_bytes_clear(&out);
    inf->job->fetches = NULL;
}

static void try_request(struct srv_inference *inf, struct srv_cursor message)
{
    struct rt_error err = {.arena = inf->arena};

    if (srv_inference_read(inf, message, &err))
        return;
    const struct srv_oip_request *r = inf->request;
    struct rt_tensor *tensors =
        rt_arena_array(inf->arena, (size_t)r->n_inputs + 1, sizeof *tensors);
    struct srv_allowance allowance = {.left = BUDGET};
    int n = 0;
    while (tensors && n < r->n_inputs &&
           !srv_oip_tensor_read(&r->inputs[n], &tensors[n], &allowance, &err)) {
        check_raw(&r->inputs[n], &tensors[n], &err);
        n++;
    }
    if (tensors && n == r->n_inputs)
        respond(inf, tensors, n);
    for (int i = 0; i < n; i++)
        rt_tensor_clear(&tensors[i]);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static const struct srv_options options;
    struct rt_arena *a = rt_arena_new(16 << 20);
    struct srv_inference inf;
    struct srv_job job;
    char length[24];

    if (!a || size < 2) {
        rt_arena_free(a);
        return;
    }
    const size_t n = size - 2, step = data[0] & 1 ? (size_t)data[1] + 1 : n + 1;
    struct rt_span *slices = rt_arena_array(a, n / step + 2, sizeof *slices);
    for (size_t at = 0, k = 0; slices && at < n; at += step)
        slices[k++] = rt_span_of(data + 2 + at, n - at < step ? n - at : step);
    srv_inference_init(&inf, data[0] & 1 ? &srv_oip_infer : &srv_oip_infer_json, &options, a, &job);
    inf.spec.name = rt_span_str("m");
    if (data[0] & 2) {
        snprintf(length, sizeof length, "%zu", n - (data[1] < n ? data[1] : n));
        inf.json_length = rt_span_str(length);
    }
    if (slices)
        try_request(&inf, srv_cursor_of(slices, n));
    rt_arena_free(a);
}
