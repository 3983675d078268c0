/*
 * Work on the streams of a GPU: copies, kernel launches and regions. The steps of a region are
 * launched one by one when they run for the first time. When they run again, they are recorded as a
 * CUDA graph, which later runs launch as a whole.
 *
 * Owner: the GPU. Threads: as in runtime/core/device.h. Each function makes the GPU's primary
 * context current on the calling thread.
 */
#ifndef KC_STREAM_H
#define KC_STREAM_H

#include "kernels/cuda/driver/gpu.h"

/* Makes the GPU's context current on the calling thread. Fails with RT_UNAVAILABLE if the GPU has
 * failed. */
enum rt_status cuda_enter(struct cuda_gpu *g, struct rt_error *err);
/* Creates g->device.n_streams streams. The GPU's context must be current. */
enum rt_status cuda_streams_begin(struct cuda_gpu *g, struct rt_error *err);
void cuda_streams_end(struct cuda_gpu *g);
/* Enqueues a copy. The host's memory must stay valid until the stream has done it. */
enum rt_status cuda_enqueue_copy(struct cuda_stream *s, enum rt_copy_kind kind, void *to,
                                 const void *from, size_t bytes, struct rt_error *err);
/* Waits until the stream has done all enqueued work. `what` names the work in the error message if
 * it has failed. Fails with RT_UNAVAILABLE if the GPU hangs; the work may then not have ended. */
enum rt_status cuda_finish(struct cuda_stream *s, const char *what, struct rt_error *err);
/* Sets the functions of `d` that copy data, enqueue work, and wait for work. */
void cuda_stream_functions(struct rt_device *d);

#endif
