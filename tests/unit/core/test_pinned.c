/* Tests page-locked memory (runtime/core/pinned.h) on a device that counts the locked
 * regions. */
#include "tests/support/test.h"

#include <unistd.h>

#include "runtime/base/thread.h"
#include "runtime/core/buffer.h"
#include "runtime/core/pinned.h"
#include "runtime/core/pool.h"

enum { MIB = 1 << 20 };

static atomic_int n_pins, n_unpins;
static bool fails;
/* time in milliseconds after which `pin` returns, unless `may_return` is set before */
static atomic_int pin_ms;
static atomic_bool is_pinning, may_return;

static bool pin(struct rt_device *d, void *p, size_t bytes)
{
    (void)d, (void)bytes;
    assert_int_equal((uintptr_t)p % 4096, 0);
    atomic_store(&is_pinning, true);
    for (int ms = 0; ms < atomic_load(&pin_ms) && !atomic_load(&may_return); ms++)
        usleep(1000);
    atomic_store(&is_pinning, false);
    n_pins += !fails;
    return !fails;
}

static void unpin(struct rt_device *d, void *p)
{
    (void)d, (void)p;
    n_unpins++;
}

static struct rt_device device = {.pin = pin, .unpin = unpin};

static int begin(void **state)
{
    (void)state;
    n_pins = n_unpins = 0;
    fails = false;
    pin_ms = 0;
    is_pinning = may_return = false;
    atomic_store(&device.has_failed, false);
    rt_pinned_begin(&device, 8 * MIB);
    return 0;
}

static int end(void **state)
{
    (void)state;
    rt_pinned_end(&device);
    return 0;
}

static void a_freed_region_is_used_again(void **state)
{
    (void)state;
    void *a = rt_pinned_alloc(3 * MIB), *b = rt_pinned_alloc(3 * MIB);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    assert_true(rt_pinned_free(a));
    /* A region that is up to a quarter larger may be taken. */
    assert_ptr_equal(rt_pinned_alloc(3 * MIB - MIB / 2), a);
    assert_int_equal(n_pins, 2);
    assert_true(rt_pinned_free(a));
    assert_true(rt_pinned_free(b));
    rt_pinned_end(&device);
    assert_int_equal(n_unpins, 2);
}

static void the_limit_counts_unused_regions_only_if_there_is_room(void **state)
{
    (void)state;
    void *a = rt_pinned_alloc(5 * MIB);
    assert_null(rt_pinned_alloc(4 * MIB));
    assert_null(rt_pinned_alloc(SIZE_MAX));
    assert_true(rt_pinned_free(a));
    void *b = rt_pinned_alloc(8 * MIB);
    assert_non_null(b);
    assert_int_equal(n_unpins, 1);
    assert_true(rt_pinned_free(b));
}

static void memory_of_others_is_not_freed(void **state)
{
    (void)state;
    int here;
    void *a = rt_pinned_alloc(MIB);
    assert_false(rt_pinned_free(&here));
    assert_true(rt_pinned_free(a));
}

static void a_region_outlives_the_device(void **state)
{
    (void)state;
    char *a = rt_pinned_alloc(MIB);
    rt_pinned_end(&device);
    assert_int_equal(n_unpins, 1);
    assert_null(rt_pinned_alloc(MIB));
    a[MIB - 1] = 1;
    assert_true(rt_pinned_free(a));
    assert_int_equal(n_unpins, 1);
}

static void a_device_that_has_failed_is_not_called(void **state)
{
    (void)state;
    void *a = rt_pinned_alloc(MIB);
    atomic_store(&device.has_failed, true);
    assert_null(rt_pinned_alloc(2 * MIB));
    assert_true(rt_pinned_free(a));
    rt_pinned_end(&device);
    assert_int_equal(n_unpins, 0);
}

static void *alloc_region(void *arg)
{
    (void)arg;
    return rt_pinned_alloc(2 * MIB);
}

/* Starts a thread that allocates a region, and waits until the device locks its pages. */
static pthread_t begin_to_pin(int ms)
{
    pthread_t thread;
    atomic_store(&pin_ms, ms);
    assert_int_equal(rt_thread_start(&thread, "pin", alloc_region, NULL), 0);
    while (!atomic_load(&is_pinning))
        usleep(100);
    return thread;
}

static void no_thread_waits_while_another_locks_pages(void **state)
{
    (void)state;
    void *a = rt_pinned_alloc(MIB), *b;
    pthread_t thread = begin_to_pin(20000);
    assert_true(rt_pinned_free(a));
    assert_ptr_equal(rt_pinned_alloc(MIB), a);
    assert_null(rt_pinned_alloc(6 * MIB)); /* the region that is being made counts */
    assert_true(atomic_load(&is_pinning));
    atomic_store(&may_return, true);
    assert_int_equal(pthread_join(thread, &b), 0);
    assert_non_null(b);
    assert_true(rt_pinned_free(a));
    assert_true(rt_pinned_free(b));
    assert_int_equal(n_pins, 2);
}

static void the_end_waits_until_pages_are_locked(void **state)
{
    (void)state;
    void *a;
    pthread_t thread = begin_to_pin(50);
    rt_pinned_end(&device);
    assert_int_equal(n_unpins, 1);
    assert_int_equal(pthread_join(thread, &a), 0);
    assert_true(rt_pinned_free(a));
    assert_int_equal(n_unpins, 1);
}

static void pages_that_cannot_be_locked_are_left_to_malloc(void **state)
{
    (void)state;
    struct rt_error err = {0};
    fails = true;
    assert_null(rt_pinned_alloc(MIB));
    struct rt_buffer *b = rt_buffer_new(NULL, RT_F32, 2 * MIB, &err);
    assert_non_null(b);
    rt_buffer_unref(b);
    assert_int_equal(n_pins + n_unpins, 0);
}

static void large_blocks_of_pools_are_locked(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_pool *p = rt_pool_new_plain(0, "--limit");
    for (int i = 0; i < 3; i++) {
        struct rt_buffer *small = rt_buffer_new(p, RT_F32, MIB / 2, &err);
        struct rt_buffer *large = rt_buffer_new(p, RT_F32, 2 * MIB, &err);
        assert_non_null(small);
        assert_non_null(large);
        rt_buffer_unref(small);
        rt_buffer_unref(large);
    }
    rt_pool_unref(p);
    assert_int_equal(n_pins, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_freed_region_is_used_again, begin, end),
        cmocka_unit_test_setup_teardown(the_limit_counts_unused_regions_only_if_there_is_room,
                                        begin, end),
        cmocka_unit_test_setup_teardown(memory_of_others_is_not_freed, begin, end),
        cmocka_unit_test_setup_teardown(a_region_outlives_the_device, begin, end),
        cmocka_unit_test_setup_teardown(a_device_that_has_failed_is_not_called, begin, end),
        cmocka_unit_test_setup_teardown(no_thread_waits_while_another_locks_pages, begin, end),
        cmocka_unit_test_setup_teardown(the_end_waits_until_pages_are_locked, begin, end),
        cmocka_unit_test_setup_teardown(pages_that_cannot_be_locked_are_left_to_malloc, begin, end),
        cmocka_unit_test_setup_teardown(large_blocks_of_pools_are_locked, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
