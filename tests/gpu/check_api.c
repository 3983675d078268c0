/*
 * Compares the declarations of kernels/cuda/driver/api.h with NVIDIA's cuda.h. Compiling this file
 * is the test. The calls below compile only if each function of cuda.h accepts arguments of the
 * types that api.h declares.
 */
#include <cuda.h>

#include "kernels/cuda/driver/api.h"

/* The structure in cuda.h has the same members but a different name. */
_Static_assert(sizeof(struct cuda_uuid) == sizeof(CUuuid), "UUID");
_Static_assert(sizeof(cuda_address) == sizeof(CUdeviceptr), "address");
_Static_assert(sizeof(CUdevice) == sizeof(int) && sizeof(CUresult) == sizeof(int), "int");

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(CUDA_OK, CUDA_SUCCESS);
SAME(CUDA_NO_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CUDA_IS_STUB, CUDA_ERROR_STUB_LIBRARY);
SAME(CUDA_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CUDA_NO_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(CUDA_OTHER_DRIVER, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(CUDA_NOT_COMPATIBLE, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME(CUDA_NO_MPS, CUDA_ERROR_MPS_CONNECTION_FAILED);
SAME(CUDA_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(CUDA_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(CUDA_CONTAINED, CUDA_ERROR_CONTAINED);
SAME(CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(CUDA_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(CUDA_ASSERT, CUDA_ERROR_ASSERT);
SAME(CUDA_HARDWARE_STACK_ERROR, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(CUDA_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(CUDA_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(CUDA_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(CUDA_INVALID_PC, CUDA_ERROR_INVALID_PC);
SAME(CUDA_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(CUDA_TENSOR_MEMORY_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK);
SAME(CUDA_EXTERNAL_DEVICE, CUDA_ERROR_EXTERNAL_DEVICE);
SAME(CUDA_ATTRIBUTE_COMPUTE_MODE, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME(CUDA_ATTRIBUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CUDA_ATTRIBUTE_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CUDA_MODE_PROHIBITED, CU_COMPUTEMODE_PROHIBITED);
SAME(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(CUDA_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);

static CUuuid *vendors_uuid(struct cuda_uuid *uuid)
{
    return (CUuuid *)(void *)uuid;
}
#define cuDeviceGetUuid_v2(uuid, device) cuDeviceGetUuid_v2(vendors_uuid(uuid), device)
#define cuDeviceGetAttribute(value, at, device)                                                    \
    cuDeviceGetAttribute(value, (CUdevice_attribute)(at), device)
#define cuStreamBeginCapture_v2(stream, mode)                                                      \
    cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)(mode))
#define cuGetErrorName(result, name)   cuGetErrorName((CUresult)(result), name)
#define cuGetErrorString(result, text) cuGetErrorString((CUresult)(result), text)

#define X(name, params, args)                                                                      \
    int call_##name params;                                                                        \
    int call_##name params                                                                         \
    {                                                                                              \
        return (int)cu##name args;                                                                 \
    }
CUDA_FUNCTIONS(X)
#undef X
