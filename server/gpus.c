/* Implements the opening of GPUs and the reaction to their failures (gpus.h). */
#include "server/gpus.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/log.h"

static void gpu_failed(struct rt_device *d, const char *reason, void *arg)
{
    struct srv_server *s = arg;
    const bool exits = strcmp(s->options.gpu_on_fault, "exit") == 0;
    RT_LOG(RT_LOG_ERROR, "GPU:%d has failed: %s; %s (--gpu_on_fault=%s)", d->index, reason,
           exits ? "the process ends" : "other GPUs and the processor run its models",
           s->options.gpu_on_fault);
    if (!exits || atomic_exchange(&s->gpu_failed, true))
        return;
    /* The load balancer sees at once that the server is not ready. The main thread drains as after
     * a SIGTERM. */
    atomic_store(&s->draining, true);
    kill(getpid(), SIGTERM);
}

enum rt_status srv_gpus_open(struct srv_server *s, struct rt_error *err)
{
    const struct srv_options *o = &s->options;
    const struct rt_accelerator_options options = {.which = o->gpus,
                                                   .n_streams = (int)o->gpu_slots,
                                                   .memory_fraction = o->gpu_memory_fraction,
                                                   .pinned_bytes = (size_t)o->gpu_pinned_bytes,
                                                   .hang_ns = o->gpu_hang_ms * 1000000,
                                                   .on_failure = gpu_failed,
                                                   .on_failure_arg = s};
    /* without GPUs, the fraction has no effect, so any number is accepted as in TensorFlow Serving
     */
    if (strcmp(o->gpus, "none") != 0 &&
        !(o->gpu_memory_fraction >= 0 && o->gpu_memory_fraction <= 1))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--per_process_gpu_memory_fraction is %g, but must be between 0 and 1",
                       o->gpu_memory_fraction);
    return rt_registry_open_accelerators(s->registry, &s->gpus, &options, err);
}

void srv_gpus_close(struct srv_server *s)
{
    if (s->gpus.close)
        s->gpus.close(&s->gpus);
}
