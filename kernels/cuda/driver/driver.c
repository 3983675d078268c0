#include "kernels/cuda/driver/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

static int major_of(int version)
{
    return version / 1000;
}

static int minor_of(int version)
{
    return version % 1000 / 10;
}

/* dlsym and cuGetProcAddress return functions as void *, which cannot be converted to a function
 * pointer in ISO C. */
static void set_function(void *to, void *function)
{
    memcpy(to, &function, sizeof function);
}

/* Checks the driver's version before any function is loaded, because an old driver lacks newer
 * functions. */
static enum rt_status check_version(struct cuda_driver *d, struct rt_error *err)
{
    int (*get_version)(int *version);
    void *found = dlsym(d->library, "cuDriverGetVersion");
    if (found)
        set_function(&get_version, found);
    if (!found || get_version(&d->version) != CUDA_OK)
        return rt_fail(err, RT_FAILED_PRECONDITION, "%s does not tell its version", d->path);
    if (d->version < CUDA_API_VERSION)
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "%s supports CUDA %d.%d, but CUDA %d.%d (driver series 580 or later) is "
                       "needed",
                       d->path, major_of(d->version), minor_of(d->version),
                       major_of(CUDA_API_VERSION), minor_of(CUDA_API_VERSION));
    return RT_OK;
}

/* Loads all functions of the API. Fails if one is missing. */
static enum rt_status load_functions(struct cuda_driver *d, struct rt_error *err)
{
    cuda_get_proc_address *get;
    void *found = dlsym(d->library, "cuGetProcAddress_v2");
    if (!found)
        return rt_fail(err, RT_FAILED_PRECONDITION, "%s has no cuGetProcAddress_v2", d->path);
    set_function(&get, found);
#define X(name, params, args)                                                                      \
    found = NULL;                                                                                  \
    if (get("cu" #name, &found, CUDA_API_VERSION, 0, NULL) != CUDA_OK || !found)                   \
        return rt_fail(err, RT_FAILED_PRECONDITION, "%s has no cu" #name, d->path);                \
    set_function(&d->name, found);
    CUDA_FUNCTIONS(X)
#undef X
    return RT_OK;
}

static enum rt_status initialise(struct cuda_driver *d, struct rt_error *err)
{
    const int result = d->Init(0);
    switch (result) {
    case CUDA_OK:
        return RT_OK;
    case CUDA_NO_DEVICE:
        return rt_fail(err, RT_NOT_FOUND,
                       "the driver %s finds no GPU; CUDA_VISIBLE_DEVICES may hide those that the "
                       "machine has",
                       d->path);
    case CUDA_IS_STUB:
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "%s is the stub of the CUDA toolkit; the library of the NVIDIA driver must "
                       "come before it on the library path",
                       d->path);
    case CUDA_OTHER_DRIVER:
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "%s and the NVIDIA kernel module have different versions; restart the "
                       "machine after a driver update",
                       d->path);
    case CUDA_NOT_COMPATIBLE:
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "%s (a forward-compatibility library) does not support this machine's GPU",
                       d->path);
    case CUDA_NO_MPS:
        return rt_fail(err, RT_FAILED_PRECONDITION,
                       "the CUDA Multi-Process Service does not accept connections; is "
                       "nvidia-cuda-mps-control running as the same user?");
    default:
        return cuda_fail(d, result, "cuInit", err);
    }
}

enum rt_status cuda_driver_open(struct cuda_driver *d, struct rt_error *err)
{
    *d = (struct cuda_driver){.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), .path = LIBRARY};
    if (!d->library) {
        const char *reason = dlerror();
        return strstr(reason, "No such file")
                   ? rt_fail(err, RT_NOT_FOUND, "the NVIDIA driver is not there: %s", reason)
                   : rt_fail(err, RT_FAILED_PRECONDITION, "the NVIDIA driver cannot be loaded: %s",
                             reason);
    }
    struct link_map *map;
    if (dlinfo(d->library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name && map->l_name[0])
        d->path = map->l_name;
    enum rt_status st = check_version(d, err);
    if (!st)
        st = load_functions(d, err);
    if (!st)
        st = initialise(d, err);
    if (st)
        cuda_driver_close(d);
    return st;
}

void cuda_driver_close(struct cuda_driver *d)
{
    if (d->library)
        dlclose(d->library);
    *d = (struct cuda_driver){0};
}

enum rt_status cuda_fail(const struct cuda_driver *d, int result, const char *what,
                         struct rt_error *err)
{
    const char *name = NULL, *text = NULL;
    if (d->GetErrorName(result, &name) != CUDA_OK || !name)
        name = "unknown error";
    if (d->GetErrorString(result, &text) != CUDA_OK || !text)
        text = "no description";
    return rt_fail(err, result == CUDA_NO_MEMORY ? RT_RESOURCE_EXHAUSTED : RT_INTERNAL,
                   "%s: %s (%d): %s", what, name, result, text);
}
