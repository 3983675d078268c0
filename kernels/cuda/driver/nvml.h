/*
 * Reads the utilisation and temperature of GPUs from NVIDIA's management library (NVML), which
 * comes with the driver. Functions, types and values are declared as in NVML's documentation.
 *
 * Owner: gpus.c. Threads: any.
 */
#ifndef KC_NVML_H
#define KC_NVML_H

#include "runtime/core/device.h"

struct cuda_nvml;

/* Loads libnvidia-ml.so.1. Returns NULL if the library is missing or cannot be used. */
struct cuda_nvml *cuda_nvml_open(void);
void cuda_nvml_close(struct cuda_nvml *n); /* does nothing if `n` is NULL */
/* Sets the utilisation and the temperature of the GPU with this UUID ("GPU-..."). A value that is
 * not known is set to -1. `n` may be NULL. */
void cuda_nvml_sense(struct cuda_nvml *n, const char *uuid, struct rt_device_sensors *out);

#endif
