/*
 * A libnvidia-ml.so.1 for tests. It knows the GPUs of the fake driver by their UUIDs. GPU k is busy
 * for 25 (k + 1) percent of the time, and its temperature is 40 + k degrees Celsius.
 */
#include <stdint.h>
#include <string.h>

enum { OK = 0, NOT_FOUND = 6, N_DEVICES = 4 };

struct nvmlDevice_st;
struct utilisation {
    unsigned gpu, memory;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, struct nvmlDevice_st **device);
int nvmlDeviceGetUtilizationRates(struct nvmlDevice_st *device, struct utilisation *out);
int nvmlDeviceGetTemperature(struct nvmlDevice_st *device, int sensor, unsigned *out);

int nvmlInit_v2(void)
{
    return OK;
}

int nvmlShutdown(void)
{
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct nvmlDevice_st **device)
{
    if (strncmp(uuid, "GPU-", 4) != 0 || uuid[4] < '1' || uuid[4] > '0' + N_DEVICES)
        return NOT_FOUND;
    *device = (struct nvmlDevice_st *)(uintptr_t)(uuid[4] - '0'); // NOLINT: a handle
    return OK;
}

int nvmlDeviceGetUtilizationRates(struct nvmlDevice_st *device, struct utilisation *out)
{
    out->gpu = 25 * (unsigned)(uintptr_t)device;
    out->memory = 1;
    return OK;
}

int nvmlDeviceGetTemperature(struct nvmlDevice_st *device, int sensor, unsigned *out)
{
    *out = 39 + (unsigned)(uintptr_t)device;
    return sensor ? NOT_FOUND : OK;
}
