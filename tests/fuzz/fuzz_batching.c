/* Parses the input as a file of batching parameters. */
#include "server/batching/scheduler_core.h"
#include "server/config/batching.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

void fuzz_one(const uint8_t *data, size_t size)
{
    static struct srv_batching b;
    static struct srv_core_policy policy;
    struct rt_error err = {0};
    if (srv_batching_parse(&b, rt_span_of(data, size), "f", &err) == RT_OK) {
        srv_core_policy_of(&b, &policy);
        if (policy.max_rows < 1 || policy.timeout_ns < 0 || policy.max_queue_batches < 1)
            __builtin_trap();
    }
}
