/*
 * Opens the GPUs that the process will use, and registers the GPU kernels.
 */
#ifndef KC_GPUS_H
#define KC_GPUS_H

#include "runtime/core/device.h"
#include "runtime/core/registry.h"

/* Registers the GPU kernels and the function that opens GPUs. The ops must already be registered.
 * Returns false if memory runs out. */
bool cuda_register(struct rt_registry *r);

/*
 * Opens GPUs as rt_accelerators_open describes. A list consists of GPU numbers or beginnings of
 * UUIDs ("GPU-5f2a"), separated by commas. GPU numbers start at 0 and count only the GPUs that
 * CUDA_VISIBLE_DEVICES leaves visible.
 */
rt_accelerators_open cuda_gpus_open;

#endif
