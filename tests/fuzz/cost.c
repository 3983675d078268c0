#include "tests/fuzz/cost.h"

#include <sanitizer/allocator_interface.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static atomic_llong held, peak;

static void on_malloc(const volatile void *p, size_t n)
{
    (void)p;
    const long long now = atomic_fetch_add(&held, (long long)n) + (long long)n;
    long long most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now))
        ;
}

static void on_free(const volatile void *p)
{
    if (p)
        atomic_fetch_sub(&held, (long long)__sanitizer_get_allocated_size(p));
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_warm;
    if (!is_warm) {
        fuzz_one(data, 0);
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
        is_warm = true;
    }
    const long long before = atomic_load(&held);
    atomic_store(&peak, before);
    const double start = cpu_seconds();
    fuzz_one(data, size);
    const double seconds = cpu_seconds() - start;
    const double bytes = (double)(atomic_load(&peak) - before);
    const double max_bytes = (double)fuzz_cost.free_bytes + (double)fuzz_cost.growth * (double)size;
    const double max_seconds = fuzz_cost.free_s + fuzz_cost.us_per_byte * (double)size / 1e6;
    if (bytes > max_bytes || seconds > max_seconds) {
        fprintf(stderr,
                "ERROR: %zu bytes of input took %.0f bytes of memory (at most %.0f) and %.2f s (at "
                "most %.2f)\n",
                size, bytes, max_bytes, seconds, max_seconds);
        abort();
    }
    return 0;
}
