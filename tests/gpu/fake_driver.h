/*
 * A libcuda.so.1 for tests, which the real programs load when it comes first on the library path.
 * Its kernels are the device code of kernels/cuda, compiled for the host (emulation.h).
 *
 * - The memory of a device is a file mapped twice. Programs get addresses in a mapping that nothing
 *   may access, so code that reads or writes device memory on the host is killed by a signal.
 *   Freed and new memory is poisoned, and every allocation ends at a page that nothing may access.
 * - Each stream is a thread that performs its work in order, so that a program that forgets to wait
 *   reads old bytes.
 * - The fake driver refuses calls on a thread without a context, calls with an address or handle
 *   that does not exist, copies beyond the end of an allocation, and calls that may not be made
 *   while a stream is captured, as the real driver does.
 *
 * Environment variables, with the default values in parentheses:
 *   FAKE_CUDA_DEVICES=N       number of devices (1)
 *   FAKE_CUDA_BYTES=N         bytes of memory of each device (256 MiB)
 *   FAKE_CUDA_CAPABILITY=75   compute capability (90)
 *   FAKE_CUDA_VERSION=12080   version of the API (13000)
 *   FAKE_CUDA_MODE=2          compute mode of the devices (0)
 *   FAKE_CUDA_FAIL=NAME:N:R   the Nth call of cuNAME returns R. If R is 700 or 719, all later calls
 *                             on the same device return R too.
 *   FAKE_CUDA_HANG=N          the Nth piece of work on any stream, or of the copies that are
 *                             complete when the call returns, never ends
 *   FAKE_CUDA_COUNTS=FILE     at the end of the process, the numbers of calls and the bytes in use
 *                             are written to FILE, as lines "NAME N"
 */
#ifndef TESTS_GPU_FAKE_DRIVER_H
#define TESTS_GPU_FAKE_DRIVER_H

#include <stdbool.h>

#include "kernels/cuda/driver/api.h"

/* results of the fake driver that kernels/cuda/driver/api.h does not declare */
enum {
    FAKE_INVALID_VALUE = 1,
    FAKE_NOT_INITIALIZED = 3,
    FAKE_INVALID_DEVICE = 101,
    FAKE_INVALID_CONTEXT = 201,
    FAKE_INVALID_HANDLE = 400,
    FAKE_NOT_FOUND = 500,
    FAKE_CAPTURE_UNSUPPORTED = 900,
    FAKE_CAPTURE_INVALIDATED = 901,
};

/* A kernel. For each thread of the grid, the fake driver calls `call` with the parameter that was
 * given to cuLaunchKernel. A test may define its own kernels and launch them. */
struct CUfunc_st {
    const char *name;
    size_t args_bytes;
    void (*call)(const void *args);
    bool is_cooperative;
};

#define X(name, params, args) int cu##name params;
CUDA_FUNCTIONS(X)
#undef X
int cuDriverGetVersion(int *version);
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                        void *result);

#endif
