/*
 * Loads the CUDA driver library at run time. The binary is not linked with the library, so it also
 * runs on machines without a GPU or driver.
 *
 * Owner: the caller of cuda_driver_open. Threads: the functions of the driver may be called on any
 * thread. A function that uses a context needs a context that is current on the calling thread
 * (gpu.c).
 */
#ifndef KC_DRIVER_H
#define KC_DRIVER_H

#include "kernels/cuda/driver/api.h"
#include "runtime/base/status.h"

struct cuda_driver {
    void *library;
    const char *path; /* path of the loaded library; valid until cuda_driver_close */
    int version;      /* version of the API that the driver supports, as in CUDA_API_VERSION */
#define X(name, params, args) int(*name) params;
    CUDA_FUNCTIONS(X)
#undef X
};

/* Loads libcuda.so.1 and initialises the driver. Fails with RT_NOT_FOUND if the library or a device
 * is missing, and with RT_FAILED_PRECONDITION if the driver cannot be used. The error message
 * names what was found and what is needed. */
enum rt_status cuda_driver_open(struct cuda_driver *d, struct rt_error *err);
/* Unloads the library. Does nothing if `d` was never opened. */
void cuda_driver_close(struct cuda_driver *d);

/* Sets err to "`what`: NAME: TEXT". NAME is the driver's name for `result`, and TEXT is its
 * description. Returns RT_RESOURCE_EXHAUSTED if the driver ran out of memory, and otherwise
 * RT_INTERNAL. */
enum rt_status cuda_fail(const struct cuda_driver *d, int result, const char *what,
                         struct rt_error *err);

#endif
