/*
 * If the environment variable SLIPWAY_TEST_ACCELERATOR is set, all sessions of a program specialise
 * when a shape first occurs, and get an accelerator, which runs every node that it can run. The
 * values "gpu" and "gpu_tf32" select the first GPU, and other values select the tests' accelerator
 * (test_device.h). The GPU rounds to TF32 only with "gpu_tf32". Programs that are linked with
 * LINKER:--wrap=rt_session_new call __wrap_rt_session_new instead of rt_session_new.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/core/registry.h"
#include "runtime/session/session.h"
#include "tests/support/test_device.h"

enum rt_status __real_rt_session_new(struct rt_session **out, struct rt_library *library,
                                     const struct rt_session_options *options,
                                     struct rt_error *err);
enum rt_status __wrap_rt_session_new(struct rt_session **out, struct rt_library *library,
                                     const struct rt_session_options *options,
                                     struct rt_error *err);

static struct rt_device *accelerator;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

/* Ends the process with an error if sessions have left memory on the accelerator. Memory that is
 * still in use when a test fails is not reported. */
static void check_memory(void)
{
    const struct test_device_counts counts = test_device_counts(accelerator);
    fprintf(stderr,
            "accelerator: %lld regions, %lld kernels, copies: %lld in, %lld out, %lld within\n",
            (long long)counts.runs, (long long)counts.kernels, (long long)counts.copies_in,
            (long long)counts.copies_out, (long long)counts.copies_within);
    if (!test_device_free(accelerator)) {
        fputs("accelerator: memory is still in use\n", stderr);
        _exit(99);
    }
}

static struct rt_accelerators gpus;

static void close_gpus(void)
{
    gpus.close(&gpus);
}

static enum rt_status prepare_gpu(const struct rt_registry *registry, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    pthread_mutex_lock(&mu);
    if (!accelerator) {
        const struct rt_accelerator_options all = {.which = "all", .n_streams = 2};
        st = rt_registry_open_accelerators(registry, &gpus, &all, err);
        if (!st) {
            accelerator = gpus.device[0];
            atexit(close_gpus);
        }
    }
    pthread_mutex_unlock(&mu);
    return st;
}

/* Registers the accelerator's kernels, unless the registry already has them. */
static bool prepare(const struct rt_registry *registry)
{
    struct rt_registry *r = (struct rt_registry *)(uintptr_t)registry;
    pthread_mutex_lock(&mu);
    if (!accelerator && (accelerator = test_device_new(2)))
        atexit(check_memory);
    const bool ok = accelerator && test_device_register(r);
    pthread_mutex_unlock(&mu);
    return ok;
}

enum rt_status __wrap_rt_session_new(struct rt_session **out, struct rt_library *library,
                                     const struct rt_session_options *options, struct rt_error *err)
{
    struct rt_session_options with = *options;
    const char *kind = getenv("SLIPWAY_TEST_ACCELERATOR");
    if (kind && !options->accelerators.n) {
        const bool is_full = strcmp(kind, "gpu") == 0;
        const bool is_gpu = is_full || strcmp(kind, "gpu_tf32") == 0;
        const enum rt_status st = is_gpu ? prepare_gpu(options->registry, err) : RT_OK;
        if (st)
            return st;
        if (!is_gpu && !prepare(options->registry))
            return rt_fail_memory(err, "the tests' accelerator", 0);
        with.accelerators = rt_one_accelerator(accelerator);
        with.compiles_inline = true;
        with.tuning.full_precision = is_full;
        with.tuning.no_specialise = with.tuning.no_specialise && !is_gpu;
    }
    return __real_rt_session_new(out, library, &with, err);
}
