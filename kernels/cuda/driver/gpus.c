#include "kernels/cuda/driver/gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/driver/nvml.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/driver/watchdog.h"
#include "runtime/base/log.h"
#include "runtime/core/device/device_list.h"
#include "runtime/core/pinned.h"

struct gpus {
    struct cuda_driver driver;
    struct cuda_nvml *nvml;         /* NULL if NVML is not available */
    struct cuda_watchdog *watchdog; /* NULL if no time limit was given */
    int n;
    struct cuda_gpu *gpu[RT_MAX_ACCELERATORS];
    struct gpus *next;
};

/* The objects of GPUs that were closed after a failure. Threads that hang in the driver may still
 * use them, so they are never freed. */
static struct gpus *kept;

static void close_gpus(struct rt_accelerators *a)
{
    struct gpus *all = a->state;
    bool has_failed = false;
    for (int k = 0; k < all->n; k++)
        rt_pinned_end(&all->gpu[k]->device);
    cuda_watchdog_stop(all->watchdog);
    for (int k = 0; k < all->n; k++)
        has_failed |= !cuda_gpu_close(all->gpu[k]);
    /* The driver's threads may still use the library after a GPU has failed. */
    if (has_failed) {
        all->next = kept;
        kept = all;
    } else {
        cuda_nvml_close(all->nvml);
        cuda_driver_close(&all->driver);
        free(all);
    }
    *a = (struct rt_accelerators){0};
}

/* ---- which GPUs ---- */

/* Writes the GPU's UUID ("GPU-...") to `text`, or an empty string if the driver does not provide
 * it. */
static void uuid_text(const struct cuda_driver *d, int ordinal, char text[CUDA_UUID_TEXT])
{
    struct cuda_uuid u;
    *text = '\0';
    if (d->DeviceGetUuid(&u, ordinal) != CUDA_OK)
        return;
    int at = snprintf(text, CUDA_UUID_TEXT, "GPU-");
    for (int k = 0; k < 16; k++)
        at += snprintf(text + at, (size_t)(CUDA_UUID_TEXT - at), "%s%02x",
                       k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", (unsigned char)u.bytes[k]);
}

/* Returns the ordinal of the only GPU whose UUID begins with that of the item, -1 if there is none,
 * or -2 if there are several. */
static int find_uuid(const struct cuda_driver *d, int n_visible, const char *item)
{
    int found = -1;
    char text[CUDA_UUID_TEXT];
    for (int k = 0; k < n_visible; k++) {
        uuid_text(d, k, text);
        if (rt_device_item_matches(item, text))
            found = found == -1 ? k : -2;
    }
    return found;
}

/* Reads one item of a list of GPUs. Fails if the item names no visible GPU. */
static enum rt_status read_item(const struct cuda_driver *d, int n_visible, const char *item,
                                int *ordinal, struct rt_error *err)
{
    const int length = (int)rt_device_item_length(item), number = rt_device_item_number(item);
    *ordinal = number < 0 ? find_uuid(d, n_visible, item) : number < n_visible ? number : -1;
    if (*ordinal == -2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "several GPUs have a UUID that begins with %.*s",
                       length, item);
    if (*ordinal < 0)
        return rt_fail(err, RT_NOT_FOUND, "there is no GPU %.*s; %d %s visible", length, item,
                       n_visible, n_visible == 1 ? "GPU is" : "GPUs are");
    return RT_OK;
}

static bool is_all(const char *which)
{
    return strcmp(which, "auto") == 0 || strcmp(which, "all") == 0;
}

/* Sets *n to the number of GPUs that `which` names, and ordinal[0] to ordinal[*n - 1] to their
 * ordinals. A list has passed rt_device_list_check, so it has at most RT_MAX_ACCELERATORS items. */
static enum rt_status choose(const struct cuda_driver *d, const char *which, int n_visible,
                             int *ordinal, int *n, struct rt_error *err)
{
    const bool all = is_all(which);
    for (*n = 0; all && *n < n_visible && *n < RT_MAX_ACCELERATORS; ++*n)
        ordinal[*n] = *n;
    for (const char *at = which; !all && at; at = rt_device_item_next(at)) {
        int found;
        const enum rt_status st = read_item(d, n_visible, at, &found, err);
        if (st)
            return st;
        for (int k = 0; k < *n; k++)
            if (ordinal[k] == found)
                return rt_fail(err, RT_INVALID_ARGUMENT, "'%s' names GPU %d twice", which, found);
        ordinal[(*n)++] = found;
    }
    return RT_OK;
}

/* ---- opening ---- */

static void name_gpu(struct cuda_gpu *g)
{
    g->driver->DeviceGetName(g->model, sizeof g->model, g->ordinal);
    uuid_text(g->driver, g->ordinal, g->uuid);
    g->device.model = g->model;
    g->device.uuid = g->uuid;
}

static void log_gpu(const struct cuda_gpu *g)
{
    const struct cuda_driver *d = g->driver;
    int major = 0, minor = 0;
    size_t free_bytes = 0, total = 0;
    d->DeviceGetAttribute(&major, CUDA_ATTRIBUTE_CAPABILITY_MAJOR, g->ordinal);
    d->DeviceGetAttribute(&minor, CUDA_ATTRIBUTE_CAPABILITY_MINOR, g->ordinal);
    d->MemGetInfo(&free_bytes, &total);
    RT_LOG(RT_LOG_INFO,
           "GPU %d: %s (%s), compute capability %d.%d, %zu MiB of memory, %zu MiB free; driver %s, "
           "CUDA %d.%d",
           g->device.index, g->model, g->uuid, major, minor, total >> 20, free_bytes >> 20, d->path,
           d->version / 1000, d->version % 1000 / 10);
}

/* Opens the chosen GPUs. If `skips` is set, a GPU that cannot be used is logged and skipped. */
static enum rt_status open_all(struct gpus *all, const struct rt_accelerator_options *options,
                               bool skips, struct rt_error *err)
{
    const struct cuda_driver *d = &all->driver;
    int n_visible = 0, n = 0, ordinal[RT_MAX_ACCELERATORS];
    const int result = d->DeviceGetCount(&n_visible);
    if (result)
        return cuda_fail(d, result, "cuDeviceGetCount", err);
    if (!n_visible)
        return rt_fail(err, RT_NOT_FOUND, "the driver %s shows no GPU", d->path);
    enum rt_status st = choose(d, options->which, n_visible, ordinal, &n, err);
    for (int k = 0; k < n && !st; k++) {
        struct cuda_gpu *g;
        int device;
        st = d->DeviceGet(&device, ordinal[k]) ? RT_INTERNAL : RT_OK;
        if (st)
            return rt_fail(err, st, "cuDeviceGet failed for GPU %d", ordinal[k]);
        st = cuda_gpu_open(&g, d, device, all->n, options, err);
        if (!st) {
            all->gpu[all->n++] = g;
            g->nvml = all->nvml;
            name_gpu(g);
            log_gpu(g);
        } else if (skips) {
            RT_LOG(RT_LOG_WARNING, "GPU %d is not used: %s", ordinal[k], rt_error_text(err));
            st = RT_OK;
        } else {
            rt_fail_prefix(err, "GPU %d: ", ordinal[k]);
        }
    }
    return st;
}

enum rt_status cuda_gpus_open(struct rt_accelerators *out,
                              const struct rt_accelerator_options *options, struct rt_error *err)
{
    const char *which = options->which;
    const bool is_auto = strcmp(which, "auto") == 0;
    *out = (struct rt_accelerators){0};
    if (strcmp(which, "none") == 0)
        return RT_OK;
    if (!is_all(which) && rt_device_list_check(which, err))
        return rt_fail_prefix(err, "neither none, auto, all, nor a list of GPUs: ");
    struct gpus *all = calloc(1, sizeof *all);
    if (!all)
        return rt_fail_memory(err, "the GPUs", sizeof *all);
    enum rt_status st = cuda_driver_open(&all->driver, err);
    all->nvml = st ? NULL : cuda_nvml_open();
    if (!st)
        st = open_all(all, options, is_auto, err);
    if (!st && all->n && options->hang_ns) {
        all->watchdog = cuda_watchdog_start(all->gpu, all->n, options->hang_ns);
        if (!all->watchdog)
            st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "the GPUs' watchdog could not be started");
    }
    if (!st && all->n)
        rt_pinned_begin(&all->gpu[0]->device, options->pinned_bytes);
    *out = (struct rt_accelerators){.n = all->n, .state = all, .close = close_gpus};
    for (int k = 0; k < all->n; k++)
        out->device[k] = &all->gpu[k]->device;
    if (st || !all->n)
        close_gpus(out);
    if (st && is_auto) {
        RT_LOG(st == RT_NOT_FOUND ? RT_LOG_INFO : RT_LOG_WARNING, "no GPU is used: %s",
               rt_error_text(err));
        st = RT_OK;
    }
    return st;
}

bool cuda_register(struct rt_registry *r)
{
    int n;
    const struct rt_kernel *k = kc_kernels(&n);
    for (int i = 0; i < n; i++)
        if (!rt_registry_add_kernel(r, &k[i]))
            return false;
    rt_registry_set_accelerators(r, cuda_gpus_open);
    return true;
}
