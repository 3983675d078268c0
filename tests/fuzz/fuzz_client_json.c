/*
 * Reads JSON as the tensors of a request, and as the tensors of a response. The JSON that the
 * client writes from these tensors must be valid. Also reads the JSON as examples. The request that
 * the client writes from them must be valid.
 */
#include <stdint.h>
#include <stdlib.h>

#include "clients/cli/classify.h"
#include "clients/cli/json.h"
#include "proto/unpack.h"
#include "tensorflow_serving/apis/classification.pb-c.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

static void write_examples(const json_t *body)
{
    const struct slipway_model model = {.name = "m"};
    struct rt_error err = {0};
    struct rt_bytes out;
    rt_bytes_init(&out, 1 << 22);
    if (cl_write_examples(&out, &model, body, &err) == RT_OK && !out.failed) {
        Tensorflow__Serving__ClassificationRequest *m =
            pb_unpack(&tensorflow__serving__classification_request__descriptor,
                      rt_span_of(out.p, out.n), "x", &err);
        if (!m || !m->input || !m->input->kind_case)
            abort();
        pb_free(m);
    }
    rt_bytes_clear(&out);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static const int types[] = {SLIPWAY_FLOAT, SLIPWAY_DOUBLE, SLIPWAY_INT32, SLIPWAY_UINT8,
                                SLIPWAY_INT64, SLIPWAY_BOOL,   SLIPWAY_HALF,  SLIPWAY_BFLOAT16};
    struct slipway_input specs[2] = {{.name = "a"}, {.name = "s", .dtype = SLIPWAY_STRING}};
    struct slipway_tensor *tensors;
    struct rt_error err = {0};
    struct rt_bytes out;
    json_t *v = NULL, *w = NULL;
    bool is_row;
    int n;
    specs[0].dtype = types[size % (sizeof types / sizeof *types)];
    struct rt_arena *arena = rt_arena_new(1 << 22);
    rt_bytes_init(&out, 1 << 22);
    if (arena && cl_json_load(rt_span_of(data, size), &v, &err) == RT_OK &&
        cl_json_tensors(v, "instances", "inputs", specs, size & 8 ? 1 : 2, arena, &tensors, &n,
                        &is_row, &err) == RT_OK) {
        cl_json_response(&out, tensors, n, is_row);
        if (!out.failed && cl_json_load(rt_span_of(out.p, out.n), &w, &err) != RT_OK)
            abort();
    }
    if (json_is_object(v))
        write_examples(v);
    json_decref(v);
    json_decref(w);
    rt_bytes_clear(&out);
    rt_arena_free(arena);
}
