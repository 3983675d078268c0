/* The names of precisions in flags, configurations, metrics and output. */
#ifndef SRV_PRECISION_H
#define SRV_PRECISION_H

#include <stdbool.h>

/* Returns the precision of computations on the CPU. */
static inline const char *srv_cpu_precision(bool bf16)
{
    return bf16 ? "bf16" : "float32";
}

/* Returns the precision of matrix products and convolutions on a GPU. */
static inline const char *srv_gpu_precision(bool is_full)
{
    return is_full ? "float32" : "tf32";
}

#endif
