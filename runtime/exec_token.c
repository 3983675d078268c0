#include "runtime/plan.h"

enum rt_status rt_exec_token(struct rt_context *c, const struct rt_tensor *feeds,
                             struct rt_tensor *fetches, struct rt_error *err)
{
    (void)c;
    (void)feeds;
    (void)fetches;
    return rt_fail(err, RT_UNIMPLEMENTED, "TensorFlow 1 control flow is not executed yet");
}
