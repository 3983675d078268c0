#include "kernels/cuda/driver/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_OK = 0, TEMPERATURE_OF_GPU = 0 };

struct nvmlDevice_st;
/* The percentages of the last sampling period during which a kernel ran (`gpu`) and during which
 * the GPU's memory was read or written (`memory`). */
struct utilisation {
    unsigned gpu, memory;
};

struct cuda_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*handle_by_uuid)(const char *uuid, struct nvmlDevice_st **device);
    int (*utilisation)(struct nvmlDevice_st *device, struct utilisation *out);
    int (*temperature)(struct nvmlDevice_st *device, int sensor, unsigned *out);
};

/* dlsym returns functions as void *, which cannot be converted to a function pointer in ISO C. */
static bool find(const struct cuda_nvml *n, const char *name, void *function)
{
    void *found = dlsym(n->library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

struct cuda_nvml *cuda_nvml_open(void)
{
    struct cuda_nvml *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (n->library && find(n, "nvmlInit_v2", &n->init) && find(n, "nvmlShutdown", &n->shutdown) &&
        find(n, "nvmlDeviceGetHandleByUUID", &n->handle_by_uuid) &&
        find(n, "nvmlDeviceGetUtilizationRates", &n->utilisation) &&
        find(n, "nvmlDeviceGetTemperature", &n->temperature) && n->init() == NVML_OK)
        return n;
    if (n->library)
        dlclose(n->library);
    free(n);
    return NULL;
}

void cuda_nvml_close(struct cuda_nvml *n)
{
    if (!n)
        return;
    n->shutdown();
    dlclose(n->library);
    free(n);
}

void cuda_nvml_sense(struct cuda_nvml *n, const char *uuid, struct rt_device_sensors *out)
{
    struct nvmlDevice_st *device;
    struct utilisation used;
    unsigned degrees;
    out->utilisation_percent = out->temperature_celsius = -1;
    if (!n || n->handle_by_uuid(uuid, &device) != NVML_OK)
        return;
    if (n->utilisation(device, &used) == NVML_OK)
        out->utilisation_percent = (int)used.gpu;
    if (n->temperature(device, TEMPERATURE_OF_GPU, &degrees) == NVML_OK)
        out->temperature_celsius = (int)degrees;
}
