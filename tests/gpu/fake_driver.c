/* Implements the fake CUDA driver (fake_driver.h). */
#include "tests/gpu/fake_driver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/gpu/emulation.h"
#include "tests/gpu/fake_internal.h"

#define DEVICE_RANGE ((size_t)16 << 30) /* size in bytes of each device's address range */
enum { MOST_DEVICES = 4, PAGE = 4096, ALIGNMENT = 256, POISON = 0xdb };
enum { LAST_RESULT = 999 }; /* the largest result code of the driver (CUDA_ERROR_UNKNOWN) */

/* ---- calls: counting and injected failures ---- */

struct CUctx_st {
    int n_retained;
    int sticky; /* fatal error after which every call that needs the context fails, or CUDA_OK */
};

static _Thread_local struct CUctx_st *current;

static const char *const call_name[N_CALLS] = {
#define X(name, params, args) #name,
    CUDA_FUNCTIONS(X)
#undef X
};

_Thread_local struct fake_capture *fake_capture;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards all state below */
static long long n_calls[N_CALLS];
static bool is_initialised;

static long long setting(const char *name, long long otherwise)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 0) : otherwise;
}

/* Returns whether a thread must not make the call while it captures a stream. */
static bool is_unsafe(enum call call)
{
    switch (call) {
    case CALL_MemAlloc:
    case CALL_MemFree:
    case CALL_MemHostRegister:
    case CALL_MemHostUnregister:
    case CALL_MemcpyHtoD:
    case CALL_MemcpyDtoH:
    case CALL_ModuleLoadData:
    case CALL_ModuleUnload:
    case CALL_StreamQuery:
    case CALL_StreamSynchronize:
        return true;
    default:
        return false;
    }
}

/* Returns whether the context cannot be used any more after the error. */
static bool is_fatal(int result)
{
    return result == CUDA_ILLEGAL_ADDRESS || result == CUDA_LAUNCH_FAILED;
}

static bool needs_context(enum call call)
{
    return call != CALL_GetErrorName && call != CALL_GetErrorString && call != CALL_CtxSetCurrent &&
           call != CALL_DeviceGetCount;
}

int fake_count(enum call call)
{
    char name[64];
    long long nth;
    int result;
    const char *fail = getenv("FAKE_CUDA_FAIL");
    pthread_mutex_lock(&mu);
    const long long n = ++n_calls[call];
    const bool needs_init =
        call != CALL_Init && call != CALL_GetErrorName && call != CALL_GetErrorString;
    const bool refused = needs_init && !is_initialised;
    pthread_mutex_unlock(&mu);
    if (fail && sscanf(fail, "%63[^:]:%lld:%d", name, &nth, &result) == 3 && n == nth &&
        strcmp(name, call_name[call]) == 0) {
        if (current && is_fatal(result))
            current->sticky = result;
        return result;
    }
    if (current && current->sticky && needs_context(call))
        return current->sticky;
    if (fake_capture && is_unsafe(call)) {
        fake_capture->is_invalid = true;
        return FAKE_CAPTURE_UNSUPPORTED;
    }
    return refused ? FAKE_NOT_INITIALIZED : CUDA_OK;
}

/* ---- devices ---- */

struct block {
    struct block *next;
    size_t first_page, n_pages; /* n_pages includes the guard page at the end */
    cuda_address address;
    size_t bytes;
};

struct device {
    struct CUctx_st context;
    struct block *blocks; /* sorted by first_page */
    size_t bytes;         /* number of bytes in use, with each block rounded up to whole pages */
};

static struct device devices[MOST_DEVICES];
static char *hidden; /* the inaccessible mapping; programs receive addresses in it */

static int n_devices(void)
{
    const long long n = setting("FAKE_CUDA_DEVICES", 1);
    return n < 0 ? 0 : n > MOST_DEVICES ? MOST_DEVICES : (int)n;
}

static bool is_device(int device)
{
    return device >= 0 && device < n_devices();
}

struct device *fake_current_device(void)
{
    for (int k = 0; k < MOST_DEVICES; k++)
        if (current == &devices[k].context && current->n_retained)
            return &devices[k];
    return NULL;
}

static int map_memory(void)
{
    const size_t bytes = DEVICE_RANGE * MOST_DEVICES;
    const int fd = memfd_create("fake-cuda", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return CUDA_NO_MEMORY;
    hidden = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    char *shown = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    close(fd);
    if (hidden == MAP_FAILED || shown == MAP_FAILED)
        return CUDA_NO_MEMORY;
    emulated_distance = shown - hidden;
    return CUDA_OK;
}

char *fake_on_host(cuda_address address)
{
    return (char *)(uintptr_t)address + emulated_distance;
}

/* Returns the block that contains the n bytes at `address`, or NULL. Called under mu. */
static struct block *block_of(cuda_address address, size_t n)
{
    for (int k = 0; k < MOST_DEVICES; k++)
        for (struct block *b = devices[k].blocks; b; b = b->next)
            if (address >= b->address && n <= b->bytes && address - b->address <= b->bytes - n)
                return b;
    return NULL;
}

bool fake_is_allocated(cuda_address address, size_t n)
{
    pthread_mutex_lock(&mu);
    const bool found = block_of(address, n) != NULL;
    pthread_mutex_unlock(&mu);
    return found;
}

int cuInit(unsigned flags)
{
    const int result = fake_count(CALL_Init);
    if (result || flags)
        return result ? result : FAKE_INVALID_VALUE;
    if (!n_devices())
        return CUDA_NO_DEVICE;
    pthread_mutex_lock(&mu);
    const int mapped = is_initialised ? CUDA_OK : map_memory();
    is_initialised = !mapped;
    pthread_mutex_unlock(&mu);
    return mapped;
}

int cuDriverGetVersion(int *version)
{
    *version = (int)setting("FAKE_CUDA_VERSION", CUDA_API_VERSION);
    return CUDA_OK;
}

/* Returns whether the driver knows the result code. */
static bool is_known(int result)
{
    return result >= CUDA_OK && result <= LAST_RESULT;
}

int cuGetErrorName(int result, const char **name)
{
    const int counted = fake_count(CALL_GetErrorName);
    *name = result == CUDA_NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == CUDA_OK      ? "CUDA_SUCCESS"
            : is_known(result)       ? "CUDA_ERROR_FAKE"
                                     : NULL;
    return counted || *name ? counted : FAKE_INVALID_VALUE;
}

int cuGetErrorString(int result, const char **text)
{
    const int counted = fake_count(CALL_GetErrorString);
    *text = result == CUDA_NO_MEMORY ? "out of memory"
            : is_known(result)       ? "an error of the fake driver"
                                     : NULL;
    return counted || *text ? counted : FAKE_INVALID_VALUE;
}

int cuDeviceGetCount(int *n)
{
    *n = n_devices();
    return fake_count(CALL_DeviceGetCount);
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    const int result = fake_count(CALL_DeviceGet);
    return result ? result : is_device(ordinal) ? CUDA_OK : FAKE_INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int size, int device)
{
    const int result = fake_count(CALL_DeviceGetName);
    snprintf(name, (size_t)size, "Fake GPU");
    return result ? result : is_device(device) ? CUDA_OK : FAKE_INVALID_DEVICE;
}

int cuDeviceGetUuid(struct cuda_uuid *uuid, int device)
{
    const int result = fake_count(CALL_DeviceGetUuid);
    memset(uuid->bytes, 0x10 * (device + 1), sizeof uuid->bytes);
    return result ? result : is_device(device) ? CUDA_OK : FAKE_INVALID_DEVICE;
}

int cuDeviceTotalMem(size_t *bytes, int device)
{
    const int result = fake_count(CALL_DeviceTotalMem);
    *bytes = (size_t)setting("FAKE_CUDA_BYTES", 256 << 20);
    return result ? result : is_device(device) ? CUDA_OK : FAKE_INVALID_DEVICE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const int capability = (int)setting("FAKE_CUDA_CAPABILITY", 90);
    const int result = fake_count(CALL_DeviceGetAttribute);
    if (result || !is_device(device))
        return result ? result : FAKE_INVALID_DEVICE;
    switch (attribute) {
    case CUDA_ATTRIBUTE_CAPABILITY_MAJOR:
        *value = capability / 10;
        return CUDA_OK;
    case CUDA_ATTRIBUTE_CAPABILITY_MINOR:
        *value = capability % 10;
        return CUDA_OK;
    case CUDA_ATTRIBUTE_COMPUTE_MODE:
        *value = (int)setting("FAKE_CUDA_MODE", 0);
        return CUDA_OK;
    default:
        return FAKE_INVALID_VALUE;
    }
}

int cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
    const int result = fake_count(CALL_DevicePrimaryCtxRetain);
    if (result || !is_device(device))
        return result ? result : FAKE_INVALID_DEVICE;
    pthread_mutex_lock(&mu);
    *context = &devices[device].context;
    (*context)->n_retained++;
    pthread_mutex_unlock(&mu);
    return CUDA_OK;
}

int cuDevicePrimaryCtxRelease(int device)
{
    const int result = fake_count(CALL_DevicePrimaryCtxRelease);
    if (result || !is_device(device))
        return result ? result : FAKE_INVALID_DEVICE;
    pthread_mutex_lock(&mu);
    const int left = devices[device].context.n_retained--;
    pthread_mutex_unlock(&mu);
    return left > 0 ? CUDA_OK : FAKE_INVALID_CONTEXT;
}

int cuCtxSetCurrent(struct CUctx_st *context)
{
    const int result = fake_count(CALL_CtxSetCurrent);
    if (!result)
        current = context;
    return result;
}

/* ---- memory ---- */

static size_t limit(void)
{
    return (size_t)setting("FAKE_CUDA_BYTES", 256 << 20);
}

int cuMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    const int result = fake_count(CALL_MemGetInfo);
    struct device *d = fake_current_device();
    if (result || !d)
        return result ? result : FAKE_INVALID_CONTEXT;
    *total_bytes = limit();
    *free_bytes = limit() - d->bytes;
    return CUDA_OK;
}

/* Pages are not locked. The host's memory only has to be accessible. */
int cuMemHostRegister(void *host, size_t bytes, unsigned flags)
{
    const int result = fake_count(CALL_MemHostRegister);
    if (result || !fake_current_device())
        return result ? result : FAKE_INVALID_CONTEXT;
    return host && bytes && flags == CUDA_PIN_PORTABLE ? CUDA_OK : FAKE_INVALID_VALUE;
}

int cuMemHostUnregister(void *host)
{
    const int result = fake_count(CALL_MemHostUnregister);
    if (result || !fake_current_device())
        return result ? result : FAKE_INVALID_CONTEXT;
    return host ? CUDA_OK : FAKE_INVALID_VALUE;
}

/* Allocates pages for `bytes` bytes and a guard page. The bytes end at the guard page. */
static int allocate(struct device *d, size_t bytes, cuda_address *address)
{
    const size_t aligned = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    const size_t n_data = (aligned + PAGE - 1) / PAGE, n_pages = n_data + 1;
    struct block **at = &d->blocks;
    size_t first = 0;
    if (bytes > limit() || d->bytes + n_data * PAGE > limit())
        return CUDA_NO_MEMORY;
    for (; *at && (*at)->first_page - first < n_pages; at = &(*at)->next)
        first = (*at)->first_page + (*at)->n_pages;
    if ((first + n_pages) * PAGE > DEVICE_RANGE)
        return CUDA_NO_MEMORY;
    struct block *b = malloc(sizeof *b);
    if (!b)
        return CUDA_NO_MEMORY;
    char *data = hidden + (size_t)(d - devices) * DEVICE_RANGE + first * PAGE;
    if (mprotect(data + emulated_distance, n_data * PAGE, PROT_READ | PROT_WRITE) != 0) {
        free(b);
        return CUDA_NO_MEMORY;
    }
    *address = (cuda_address)(uintptr_t)(data + n_data * PAGE - aligned);
    *b = (struct block){*at, first, n_pages, *address, bytes};
    *at = b;
    d->bytes += n_data * PAGE;
    memset(data + emulated_distance, POISON, n_data * PAGE);
    return CUDA_OK;
}

int cuMemAlloc(cuda_address *address, size_t bytes)
{
    const int result = fake_count(CALL_MemAlloc);
    struct device *d = fake_current_device();
    if (result || !d || !bytes)
        return result ? result : d ? FAKE_INVALID_VALUE : FAKE_INVALID_CONTEXT;
    pthread_mutex_lock(&mu);
    const int allocated = allocate(d, bytes, address);
    pthread_mutex_unlock(&mu);
    return allocated;
}

/* Frees the block at `address`: its pages become inaccessible and are returned to the system. */
static int release(struct device *d, cuda_address address)
{
    struct block **at = &d->blocks;
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    struct block *b = *at;
    if (!b)
        return FAKE_INVALID_VALUE;
    const size_t bytes = (b->n_pages - 1) * PAGE;
    char *data = hidden + (size_t)(d - devices) * DEVICE_RANGE + b->first_page * PAGE;
    madvise(data + emulated_distance, bytes, MADV_REMOVE);
    mprotect(data + emulated_distance, bytes, PROT_NONE);
    d->bytes -= bytes;
    *at = b->next;
    free(b);
    return CUDA_OK;
}

int cuMemFree(cuda_address address)
{
    const int result = fake_count(CALL_MemFree);
    struct device *d = fake_current_device();
    if (result || !d)
        return result ? result : FAKE_INVALID_CONTEXT;
    pthread_mutex_lock(&mu);
    const int released = release(d, address);
    pthread_mutex_unlock(&mu);
    return released;
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (fake_hangs())
        for (;;)
            pause();
    memcpy(to, from, bytes);
}

int cuMemcpyHtoD(cuda_address to, const void *host, size_t bytes)
{
    const int result = fake_count(CALL_MemcpyHtoD);
    if (result || !fake_current_device())
        return result ? result : FAKE_INVALID_CONTEXT;
    if (!fake_is_allocated(to, bytes))
        return FAKE_INVALID_VALUE;
    copy(fake_on_host(to), host, bytes);
    return CUDA_OK;
}

int cuMemcpyDtoH(void *host, cuda_address from, size_t bytes)
{
    const int result = fake_count(CALL_MemcpyDtoH);
    if (result || !fake_current_device())
        return result ? result : FAKE_INVALID_CONTEXT;
    if (!fake_is_allocated(from, bytes))
        return FAKE_INVALID_VALUE;
    copy(host, fake_on_host(from), bytes);
    return CUDA_OK;
}

/* ---- the library ---- */

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                        void *result)
{
    static const struct {
        const char *name;
        int (*function)(void);
    } functions[] = {
#define X(name, params, args) {"cu" #name, (int (*)(void))(void (*)(void))cu##name},
        CUDA_FUNCTIONS(X)
#undef X
    };
    *function = NULL;
    if (flags || result || version > (int)setting("FAKE_CUDA_VERSION", CUDA_API_VERSION))
        return FAKE_NOT_FOUND;
    for (int k = 0; k < N_CALLS; k++)
        if (strcmp(functions[k].name, name) == 0) {
            memcpy(function, &functions[k].function, sizeof *function);
            return CUDA_OK;
        }
    return FAKE_NOT_FOUND;
}

__attribute__((destructor)) static void write_counts(void)
{
    const char *path = getenv("FAKE_CUDA_COUNTS");
    FILE *out = path ? fopen(path, "w") : NULL;
    size_t bytes = 0;
    int contexts = 0;
    if (!out)
        return;
    for (int k = 0; k < MOST_DEVICES; k++) {
        bytes += devices[k].bytes;
        contexts += devices[k].context.n_retained;
    }
    fprintf(out, "bytes_in_use %zu\ncontexts_in_use %d\n", bytes, contexts);
    for (int k = 0; k < N_CALLS; k++)
        fprintf(out, "%s %lld\n", call_name[k], n_calls[k]);
    fclose(out);
}
