/*
 * The part of the CUDA driver API that Slipway calls, declared here so that Slipway can be built
 * without the CUDA toolkit. The functions are loaded from libcuda.so.1 at run time (driver.h).
 *
 * The names of the functions, the types and the values are those of NVIDIA's cuda.h. Where cuda.h
 * is found, tests/gpu/check_api.c compiles a call of each function with the arguments declared
 * here, and compares the constants.
 */
#ifndef KC_API_H
#define KC_API_H

#include <stddef.h>

/* Slipway uses version 13.0 of the driver API. The number is 1000 times the major version plus 10
 * times the minor version. Drivers of series 580 and later support this version. */
#define CUDA_API_VERSION 13000

struct CUctx_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUmod_st;
struct CUstream_st;

/* an address in device memory */
typedef unsigned long long cuda_address;
struct cuda_uuid {
    char bytes[16];
};

/* The result codes that Slipway handles. Every function returns CUDA_OK or another result code, for
 * which GetErrorName and GetErrorString return the name and a description. */
enum cuda_result {
    CUDA_OK = 0,
    CUDA_NO_MEMORY = 2,
    CUDA_NOT_READY = 600, /* the stream has work to do */
    CUDA_IS_STUB = 34, /* the library is the toolkit's stub, which only serves to link programs */
    CUDA_UNAVAILABLE = 46,     /* another process has the device in exclusive mode */
    CUDA_NO_DEVICE = 100,      /* the machine has no device, or none is visible */
    CUDA_NO_IMAGE = 209,       /* the module has no code for this device */
    CUDA_OTHER_DRIVER = 803,   /* libcuda.so.1 and the kernel module have different versions */
    CUDA_NOT_COMPATIBLE = 804, /* forward-compatibility libcuda.so.1 does not support the device */
    CUDA_NO_MPS = 805,         /* the Multi-Process Service does not accept connections */
    /* After these errors, the process cannot use the device any more. For most of them, cuda.h
     * requires that the process be terminated. */
    CUDA_ECC_UNCORRECTABLE = 214,
    CUDA_NVLINK_UNCORRECTABLE = 220,
    CUDA_CONTAINED = 226,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_LAUNCH_TIMEOUT = 702,
    CUDA_ASSERT = 710,
    CUDA_HARDWARE_STACK_ERROR = 714,
    CUDA_ILLEGAL_INSTRUCTION = 715,
    CUDA_MISALIGNED_ADDRESS = 716,
    CUDA_INVALID_ADDRESS_SPACE = 717,
    CUDA_INVALID_PC = 718,
    CUDA_LAUNCH_FAILED = 719,
    CUDA_TENSOR_MEMORY_LEAK = 721,
    CUDA_EXTERNAL_DEVICE = 911,
};

enum cuda_attribute {
    CUDA_ATTRIBUTE_COMPUTE_MODE = 20,
    CUDA_ATTRIBUTE_CAPABILITY_MAJOR = 75,
    CUDA_ATTRIBUTE_CAPABILITY_MINOR = 76,
};

enum {
    CUDA_MODE_PROHIBITED = 2,     /* the value of COMPUTE_MODE if no process may use the device */
    CUDA_STREAM_NON_BLOCKING = 1, /* the stream does not synchronise with the default stream */
    CUDA_PIN_PORTABLE = 1,        /* the pages are locked for all contexts */
    /* While a stream is captured, other threads may call functions that a capture forbids. */
    CUDA_CAPTURE_THREAD_LOCAL = 1,
};

/* X(name without "cu", parameters, arguments) for each function of the API. */
#define CUDA_FUNCTIONS(X)                                                                          \
    X(Init, (unsigned flags), (flags))                                                             \
    X(GetErrorName, (int result, const char **name), (result, name))                               \
    X(GetErrorString, (int result, const char **text), (result, text))                             \
    X(DeviceGetCount, (int *n), (n))                                                               \
    X(DeviceGet, (int *device, int ordinal), (device, ordinal))                                    \
    X(DeviceGetName, (char *name, int size, int device), (name, size, device))                     \
    X(DeviceGetUuid, (struct cuda_uuid * uuid, int device), (uuid, device))                        \
    X(DeviceTotalMem, (size_t * bytes, int device), (bytes, device))                               \
    X(DeviceGetAttribute, (int *value, int attribute, int device), (value, attribute, device))     \
    X(DevicePrimaryCtxRetain, (struct CUctx_st * *context, int device), (context, device))         \
    X(DevicePrimaryCtxRelease, (int device), (device))                                             \
    X(CtxSetCurrent, (struct CUctx_st * context), (context))                                       \
    X(MemGetInfo, (size_t * free_bytes, size_t * total_bytes), (free_bytes, total_bytes))          \
    X(MemAlloc, (cuda_address * address, size_t bytes), (address, bytes))                          \
    X(MemFree, (cuda_address address), (address))                                                  \
    X(MemHostRegister, (void *host, size_t bytes, unsigned flags), (host, bytes, flags))           \
    X(MemHostUnregister, (void *host), (host))                                                     \
    X(MemcpyHtoD, (cuda_address to, const void *host, size_t bytes), (to, host, bytes))            \
    X(MemcpyDtoH, (void *host, cuda_address from, size_t bytes), (host, from, bytes))              \
    X(MemcpyHtoDAsync,                                                                             \
      (cuda_address to, const void *host, size_t bytes, struct CUstream_st *stream),               \
      (to, host, bytes, stream))                                                                   \
    X(MemcpyDtoHAsync, (void *host, cuda_address from, size_t bytes, struct CUstream_st *stream),  \
      (host, from, bytes, stream))                                                                 \
    X(MemcpyDtoDAsync,                                                                             \
      (cuda_address to, cuda_address from, size_t bytes, struct CUstream_st * stream),             \
      (to, from, bytes, stream))                                                                   \
    X(StreamCreate, (struct CUstream_st * *stream, unsigned flags), (stream, flags))               \
    X(StreamDestroy, (struct CUstream_st * stream), (stream))                                      \
    X(StreamQuery, (struct CUstream_st * stream), (stream))                                        \
    X(StreamSynchronize, (struct CUstream_st * stream), (stream))                                  \
    X(StreamBeginCapture, (struct CUstream_st * stream, int mode), (stream, mode))                 \
    X(StreamEndCapture, (struct CUstream_st * stream, struct CUgraph_st * *graph),                 \
      (stream, graph))                                                                             \
    X(GraphInstantiateWithFlags,                                                                   \
      (struct CUgraphExec_st * *exec, struct CUgraph_st * graph, unsigned long long flags),        \
      (exec, graph, flags))                                                                        \
    X(GraphDestroy, (struct CUgraph_st * graph), (graph))                                          \
    X(GraphLaunch, (struct CUgraphExec_st * exec, struct CUstream_st * stream), (exec, stream))    \
    X(GraphExecDestroy, (struct CUgraphExec_st * exec), (exec))                                    \
    X(ModuleLoadData, (struct CUmod_st * *module, const void *image), (module, image))             \
    X(ModuleUnload, (struct CUmod_st * module), (module))                                          \
    X(ModuleGetFunction,                                                                           \
      (struct CUfunc_st * *function, struct CUmod_st * module, const char *name),                  \
      (function, module, name))                                                                    \
    X(LaunchKernel,                                                                                \
      (struct CUfunc_st * function, unsigned grid_x, unsigned grid_y, unsigned grid_z,             \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,                \
       struct CUstream_st *stream, void **params, void **extra),                                   \
      (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,  \
       extra))

/* The type of cuGetProcAddress_v2. The library also exports cuDriverGetVersion(int *version).
 *
 * cuGetProcAddress_v2 sets *function to the address of the function `name`. The parameter `result`,
 * which cuda.h declares as a pointer to an enumeration, may be NULL. */
typedef int cuda_get_proc_address(const char *name, void **function, int version,
                                  unsigned long long flags, void *result);

#endif
