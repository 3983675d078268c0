/* Reads a record of a request log. Compares the recorded response with itself, and with the
 * recorded request's bytes parsed as a response. */
#include <stdint.h>
#include <stdlib.h>

#include "clients/cli/compare.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct rt_error why = {0};
    struct pb_prediction_log log;
    if (!pb_prediction_log_read(rt_span_of(data, size), &log) || !cl_log_method(log.type) ||
        !log.request.p)
        return;
    bool same = cl_same_responses(log.type, log.request, log.response, 1e-4, &why);
    if (!same && !why.code)
        abort(); /* a difference must be reported with a message that describes it */
    if (!cl_same_responses(log.type, log.response, log.response, 0, &why))
        abort();
}
