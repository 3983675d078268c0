#include "kernels/cuda/driver/gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/driver/copier.h"
#include "kernels/cuda/driver/image.h"
#include "kernels/cuda/driver/nvml.h"
#include "kernels/cuda/driver/stream.h"

enum {
    /* The code is compiled for GPUs of compute capability 7.5 and later. */
    LEAST_MAJOR = 7,
    LEAST_MINOR = 5,
    TF32_MAJOR = 8, /* GPUs of compute capability 8.0 and later have TF32 */
    NAME_BYTES = 256,
};

/* ---- memory ---- */

static void *gpu_alloc(struct rt_device *d, size_t bytes)
{
    struct cuda_gpu *g = d->state;
    struct rt_error err = {0};
    cuda_address address = 0;
    if (cuda_enter(g, &err) || g->driver->MemAlloc(&address, bytes ? bytes : 1) != CUDA_OK)
        return NULL;
    return (void *)(uintptr_t)address; // NOLINT: an address in the GPU's memory
}

static void gpu_free(struct rt_device *d, void *p)
{
    struct cuda_gpu *g = d->state;
    struct rt_error err = {0};
    if (!cuda_enter(g, &err))
        g->driver->MemFree((cuda_address)(uintptr_t)p);
}

static bool gpu_pin(struct rt_device *d, void *p, size_t bytes)
{
    struct cuda_gpu *g = d->state;
    struct rt_error err = {0};
    return !cuda_enter(g, &err) &&
           g->driver->MemHostRegister(p, bytes, CUDA_PIN_PORTABLE) == CUDA_OK;
}

static void gpu_unpin(struct rt_device *d, void *p)
{
    struct cuda_gpu *g = d->state;
    struct rt_error err = {0};
    if (!cuda_enter(g, &err))
        g->driver->MemHostUnregister(p);
}

/* ---- sensors ---- */

static void sense(struct rt_device *d, struct rt_device_sensors *out)
{
    struct cuda_gpu *g = d->state;
    struct rt_error err = {0};
    size_t free_bytes, total;
    *out = (struct rt_device_sensors){-1, -1, -1, -1};
    if (cuda_enter(g, &err))
        return;
    if (g->driver->MemGetInfo(&free_bytes, &total) == CUDA_OK) {
        out->free_bytes = (int64_t)free_bytes;
        out->total_bytes = (int64_t)total;
    }
    cuda_nvml_sense(g->nvml, g->uuid, out);
}

/* ---- failures ---- */

static bool is_fatal(int result)
{
    switch (result) {
    case CUDA_ECC_UNCORRECTABLE:
    case CUDA_NVLINK_UNCORRECTABLE:
    case CUDA_CONTAINED:
    case CUDA_ILLEGAL_ADDRESS:
    case CUDA_LAUNCH_TIMEOUT:
    case CUDA_ASSERT:
    case CUDA_HARDWARE_STACK_ERROR:
    case CUDA_ILLEGAL_INSTRUCTION:
    case CUDA_MISALIGNED_ADDRESS:
    case CUDA_INVALID_ADDRESS_SPACE:
    case CUDA_INVALID_PC:
    case CUDA_LAUNCH_FAILED:
    case CUDA_TENSOR_MEMORY_LEAK:
    case CUDA_EXTERNAL_DEVICE:
        return true;
    default:
        return false;
    }
}

enum rt_status cuda_gpu_fail(struct cuda_gpu *g, int result, const char *what, struct rt_error *err)
{
    const enum rt_status st = cuda_fail(g->driver, result, what, err);
    if (!is_fatal(result))
        return st;
    rt_device_fail(&g->device, rt_error_text(err));
    err->code = RT_UNAVAILABLE;
    rt_fail_prefix(err, "GPU:%d has failed: ", g->device.index);
    return RT_UNAVAILABLE;
}

/* ---- opening ---- */

static enum rt_status check_usable(const struct cuda_driver *d, int ordinal, struct rt_error *err)
{
    char name[NAME_BYTES] = "";
    int major = 0, minor = 0, mode = 0;
    int result = d->DeviceGetName(name, sizeof name, ordinal);
    if (!result)
        result = d->DeviceGetAttribute(&major, CUDA_ATTRIBUTE_CAPABILITY_MAJOR, ordinal);
    if (!result)
        result = d->DeviceGetAttribute(&minor, CUDA_ATTRIBUTE_CAPABILITY_MINOR, ordinal);
    if (!result)
        result = d->DeviceGetAttribute(&mode, CUDA_ATTRIBUTE_COMPUTE_MODE, ordinal);
    if (result)
        return cuda_fail(d, result, "the GPU's attributes", err);
    if (major < LEAST_MAJOR || (major == LEAST_MAJOR && minor < LEAST_MINOR))
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "%s has compute capability %d.%d, but %d.%d or later is needed", name, major,
                       minor, LEAST_MAJOR, LEAST_MINOR);
    if (mode == CUDA_MODE_PROHIBITED)
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "the compute mode of %s is 'prohibited' (nvidia-smi -c changes it)", name);
    return RT_OK;
}

static bool has_tf32(const struct cuda_gpu *g)
{
    int major = 0;
    const int result =
        g->driver->DeviceGetAttribute(&major, CUDA_ATTRIBUTE_CAPABILITY_MAJOR, g->ordinal);
    return result == CUDA_OK && major >= TF32_MAJOR;
}

static enum rt_status make_context(struct cuda_gpu *g, struct rt_error *err)
{
    const int result = g->driver->DevicePrimaryCtxRetain(&g->context, g->ordinal);
    if (!result)
        return cuda_enter(g, err);
    g->context = NULL;
    if (result == CUDA_UNAVAILABLE)
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "the GPU is in exclusive mode and another process uses it");
    return cuda_fail(g->driver, result, "cuDevicePrimaryCtxRetain", err);
}

/* Loads the device code. All kernels are looked up here, so that none has to be loaded during a
 * request. */
static enum rt_status load_code(struct cuda_gpu *g, struct rt_error *err)
{
    static const char *const name[KC_N_MODULES] = {
#define X(module, is_cooperative) "kc_" #module,
        KC_MODULES(X)
#undef X
    };
    for (int k = 0; k < KC_N_MODULES; k++) {
        int result = g->driver->ModuleLoadData(&g->module[k], kc_image((enum kc_module)k));
        if (result == CUDA_NO_IMAGE)
            return rt_fail(err, RT_FAILED_PRECONDITION,
                           "this binary has no code for the GPU's architecture");
        if (result)
            return cuda_fail(g->driver, result, "cuModuleLoadData", err);
        result = g->driver->ModuleGetFunction(&g->kernel[k], g->module[k], name[k]);
        if (result)
            return cuda_fail(g->driver, result, "cuModuleGetFunction", err);
    }
    return RT_OK;
}

static enum rt_status find_size(struct cuda_gpu *g, struct rt_error *err)
{
    size_t free_bytes, total;
    const int result = g->driver->MemGetInfo(&free_bytes, &total);
    if (result)
        return cuda_fail(g->driver, result, "cuMemGetInfo", err);
    g->device.total_bytes = (int64_t)total;
    return RT_OK;
}

enum rt_status cuda_gpu_open(struct cuda_gpu **out, const struct cuda_driver *driver, int ordinal,
                             int index, const struct rt_accelerator_options *options,
                             struct rt_error *err)
{
    *out = NULL;
    if (!kc_image((enum kc_module)0))
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "this binary was built without nvcc, so it has no code for GPUs");
    enum rt_status st = check_usable(driver, ordinal, err);
    struct cuda_gpu *g = st ? NULL : calloc(1, sizeof *g);
    if (!g)
        return st ? st : rt_fail_memory(err, "a GPU", sizeof *g);
    kc_libraries_init(&g->libraries);
    g->driver = driver;
    g->ordinal = ordinal;
    g->has_tf32 = has_tf32(g);
    g->device = (struct rt_device){.type = "GPU",
                                   .index = index,
                                   .state = g,
                                   .alloc = gpu_alloc,
                                   .free = gpu_free,
                                   .pin = gpu_pin,
                                   .unpin = gpu_unpin,
                                   .sense = sense};
    cuda_stream_functions(&g->device);
    g->device.n_streams = options->n_streams;
    g->device.on_failure = options->on_failure;
    g->device.on_failure_arg = options->on_failure_arg;
    st = make_context(g, err);
    if (!st)
        st = load_code(g, err);
    if (!st)
        st = cuda_streams_begin(g, err);
    if (!st)
        st = cuda_copiers_begin(g, err);
    if (!st)
        st = find_size(g, err);
    const double size = (double)g->device.total_bytes;
    if (!st && !rt_device_begin(&g->device, (size_t)(size * options->memory_fraction)))
        st = rt_fail_memory(err, "a GPU", 0);
    if (st)
        cuda_gpu_close(g);
    else
        *out = g;
    return st;
}

bool cuda_gpu_close(struct cuda_gpu *g)
{
    struct rt_error err = {0};
    if (atomic_load(&g->device.has_failed))
        return false;
    if (g->context && !cuda_enter(g, &err)) {
        kc_libraries_clear(&g->libraries);
        if (g->device.streams)
            rt_device_end(&g->device);
        cuda_copiers_end(g);
        cuda_streams_end(g);
        for (int k = 0; k < KC_N_MODULES; k++)
            if (g->module[k])
                g->driver->ModuleUnload(g->module[k]);
        g->driver->CtxSetCurrent(NULL);
        g->driver->DevicePrimaryCtxRelease(g->ordinal);
    }
    free(g);
    return true;
}
