/* A record of a request log, its request standing for the server's answer. */
#include <stdint.h>
#include <stdlib.h>

#include "clients/cli/compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rt_error why = {0};
    struct pb_prediction_log log;
    if (!pb_prediction_log_read(rt_span_of(data, size), &log) || !cl_log_method(log.type) ||
        !log.request.p)
        return 0;
    bool same = cl_same_answers(log.type, log.request, log.response, 1e-4, &why);
    if (!same && !why.code)
        abort(); /* a difference without a word */
    if (!cl_same_answers(log.type, log.response, log.response, 0, &why))
        abort();
    return 0;
}
