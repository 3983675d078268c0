/* Runs the signature of `slipway run` and `slipway inspect --plan` once, within the time limit. */
#include "server/commands/command_run.h"

enum rt_status srv_run_call(const struct srv_run *r, struct rt_callable *call,
                            struct rt_tensor *fetches, struct rt_trace *trace, int64_t now_ns,
                            struct rt_error *err)
{
    struct rt_run_options options = {.trace = trace};
    if (r->timeout_ms)
        options.deadline_ns = r->plan ? r->end_ns : now_ns + r->timeout_ms * 1000000;
    const enum rt_status st = rt_callable_run(call, r->feeds, fetches, &options, err);
    if (st != RT_DEADLINE_EXCEEDED)
        return st;
    return rt_fail(err, st, "a run of the signature did not end within %g s (--timeout)",
                   (double)r->timeout_ms / 1000);
}
