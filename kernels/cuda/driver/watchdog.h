/*
 * Finds GPUs that hang. A thread checks once per second how long other threads have waited for each
 * stream. It marks a GPU as failed and hung if a wait takes too long
 * (rt_accelerator_options.hang_ns).
 *
 * Owner: gpus.c. Threads: cuda_watch_begin and cuda_watch_end are called by the thread that waits.
 */
#ifndef KC_WATCHDOG_H
#define KC_WATCHDOG_H

#include "kernels/cuda/driver/gpu.h"

struct cuda_watchdog;

/* Starts the thread, which watches the n GPUs until cuda_watchdog_stop is called. Returns NULL if
 * the thread cannot be started. */
struct cuda_watchdog *cuda_watchdog_start(struct cuda_gpu *const *gpu, int n, int64_t hang_ns);
void cuda_watchdog_stop(struct cuda_watchdog *w); /* does nothing if `w` is NULL */

/* Records that a wait for the stream begins or ends. */
void cuda_watch_begin(struct cuda_stream *s);
void cuda_watch_end(struct cuda_stream *s);

#endif
