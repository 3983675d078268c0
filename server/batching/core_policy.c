#include <string.h>

#include "server/batching/scheduler_core.h"

void srv_core_policy_of(const struct srv_batching *b, struct srv_core_policy *out)
{
    *out = (struct srv_core_policy){.max_rows = b->max_execution_batch_size,
                                    .n_preferred = b->n_preferred,
                                    .max_jobs = b->max_queue_jobs,
                                    .max_running = b->max_running,
                                    .level = b->default_level,
                                    .max_queued_ns = b->max_queue_micros > INT64_MAX / 1000
                                                         ? INT64_MAX
                                                         : b->max_queue_micros * 1000};
    memcpy(out->preferred, b->preferred, sizeof out->preferred);
    if (b->mode != SRV_BATCHING_ALL)
        return;
    out->fixed = true;
    out->timeout_ns =
        b->batch_timeout_micros > INT64_MAX / 1000 ? INT64_MAX : b->batch_timeout_micros * 1000;
    out->max_queue_batches = b->max_enqueued_batches;
    out->n_sizes = b->n_sizes;
    memcpy(out->sizes, b->sizes, sizeof out->sizes);
}
