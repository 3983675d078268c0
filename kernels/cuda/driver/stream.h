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
/* Sets the functions of `d` that copy data, enqueue work, and wait for work. */
void cuda_stream_functions(struct rt_device *d);

#endif
