/*
 * Declarations that the source files of the fake CUDA driver share.
 *
 * Owner: the library. Threads: any.
 */
#ifndef TESTS_GPU_FAKE_INTERNAL_H
#define TESTS_GPU_FAKE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/gpu/fake_driver.h"

enum call {
#define X(name, params, args) CALL_##name,
    CUDA_FUNCTIONS(X) N_CALLS
#undef X
};

/* Counts a call. Returns the result that FAKE_CUDA_FAIL sets for this call. Otherwise returns
 * CUDA_OK, FAKE_NOT_INITIALIZED if the call requires that the driver has been initialised, or
 * FAKE_CAPTURE_UNSUPPORTED if the thread captures a stream and the call is forbidden then. */
int fake_count(enum call call);

/* Counts a piece of work. Returns whether it is the one that FAKE_CUDA_HANG stops. */
bool fake_hangs(void);

/* The capture of a stream. A forbidden call makes the capture invalid. */
struct fake_capture {
    bool is_invalid;
};
/* the capture that the calling thread has begun, or NULL if there is none */
extern _Thread_local struct fake_capture *fake_capture;

/* Returns the device of this thread's context, or NULL. */
struct device *fake_current_device(void);
/* Returns the address at which the host can access device memory. */
char *fake_on_host(cuda_address address);
/* Returns whether the n bytes at `address` belong to one allocation. */
bool fake_is_allocated(cuda_address address, size_t n);

#endif
