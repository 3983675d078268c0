/* Parses arbitrary bytes as the values of the headers traceparent and tracestate. A valid
 * traceparent of version 00 must be written as it was read. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/tracing/trace_context.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct srv_trace_context c;
    char text[SRV_TRACEPARENT_TEXT];
    unsigned char *value = malloc(size ? size : 1);

    if (!value)
        return;
    if (size)
        memcpy(value, data, size);
    const struct rt_span span = rt_span_of(value, size);
    if (srv_traceparent_parse(span, &c)) {
        srv_traceparent_write(&c, text);
        assert(memcmp(text + 2, value + 2, sizeof text - 3) == 0);
    }
    srv_tracestate_is_valid(span);
    free(value);
}
