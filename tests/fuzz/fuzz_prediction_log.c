/*
 * Reads arbitrary bytes as a PredictionLog. Compares the log's response with itself by the rules of
 * each API. Then compares the log's response with the log's request, parsed as a response.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "proto/prediction_log.h"
#include "server/replay/golden_compare.h"
#include "tests/fuzz/cost.h"

/* A few bytes may encode a large tensor of equal elements. A comparison decodes two tensors, each
 * of which takes at most 256 MB (MIN_BUDGET of golden_compare.c). */
const struct fuzz_cost fuzz_cost = {
    .free_bytes = 544 << 20, .growth = 512, .free_s = 20, .us_per_byte = 100};

void fuzz_one(const uint8_t *data, size_t size)
{
    struct pb_prediction_log log;

    if (!pb_prediction_log_read(rt_span_of(data, size), &log))
        return;
    for (int api = SRV_PREDICT; api <= SRV_SESSION_RUN; api++) {
        struct rt_error err = {0};
        enum rt_status st =
            srv_golden_compare((enum srv_api)api, log.response, log.response, 0, NULL, &err);
        /* Duplicate keys in a map may have different values, so the comparison of a response with
         * itself may fail. */
        if (st == RT_FAILED_PRECONDITION && api != SRV_PREDICT && api != SRV_SESSION_RUN)
            abort();
        srv_golden_compare((enum srv_api)api, log.response, log.request, 1e-4, NULL, &err);
    }
}
