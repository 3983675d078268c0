/*
 * Copies of a GPU outside regions, such as those of constants, which are complete when the function
 * returns. The driver's own function for this may never return if the GPU hangs. These copies go
 * through page-locked buffers on streams of their own, so the thread can wait for them as for a
 * region, and give up. A few threads can copy at the same time; others wait for them.
 *
 * Owner: the GPU. Threads: any.
 */
#ifndef KC_COPIER_H
#define KC_COPIER_H

#include "kernels/cuda/driver/gpu.h"

/* Prepares the GPU's copiers. The GPU's context must be current. */
enum rt_status cuda_copiers_begin(struct cuda_gpu *g, struct rt_error *err);
void cuda_copiers_end(struct cuda_gpu *g);
/* Implements rt_device.copy. Fails with RT_UNAVAILABLE if the GPU hangs. */
enum rt_status cuda_copy(struct rt_device *d, enum rt_copy_kind kind, void *to, const void *from,
                         size_t bytes, struct rt_error *err);

#endif
