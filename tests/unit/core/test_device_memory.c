/*
 * Tests the accounts and the cache of an accelerator's memory
 * (runtime/core/device/device_memory.h), and the tensors in this memory
 * (runtime/core/device/device_tensor.h).
 */
#include "tests/support/test.h"

#include "runtime/core/device/device_memory.h"
#include "runtime/core/device/device_tensor.h"
#include "tests/support/test_device.h"

enum { MIB = 1 << 20 };

static int set_up(void **state)
{
    *state = test_device_new(2);
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    return test_device_free(*state) ? 0 : -1;
}

static struct rt_device_memory alloc(struct rt_device *d, enum rt_device_use use, size_t bytes)
{
    struct rt_error err = {0};
    struct rt_device_memory m;
    assert_ok(rt_device_alloc(d, use, bytes, "a test", &m, &err), &err);
    assert_true(m.bytes >= bytes);
    return m;
}

static void each_use_is_counted(void **state)
{
    struct rt_device *d = *state;
    struct rt_device_memory weights = alloc(d, RT_DEVICE_WEIGHTS, 1000);
    struct rt_device_memory block = alloc(d, RT_DEVICE_BLOCKS, 2000);
    struct rt_device_memory nothing = alloc(d, RT_DEVICE_WEIGHTS, 0);
    struct rt_device_counts counts = rt_device_counts(d);
    assert_int_equal(counts.used[RT_DEVICE_WEIGHTS], 1001);
    assert_int_equal(counts.used[RT_DEVICE_BLOCKS], 2000);
    assert_int_equal(counts.used[RT_DEVICE_TENSORS], 0);
    rt_device_free(d, RT_DEVICE_WEIGHTS, &weights);
    rt_device_free(d, RT_DEVICE_WEIGHTS, &nothing);
    rt_device_free(d, RT_DEVICE_BLOCKS, &block);
    rt_device_free(d, RT_DEVICE_BLOCKS, &block); /* does nothing */
    counts = rt_device_counts(d);
    assert_int_equal(counts.used[RT_DEVICE_WEIGHTS] + counts.used[RT_DEVICE_BLOCKS], 0);
    assert_int_equal(test_device_counts(d).bytes, 0);
}

/* The size of a tensor's memory is rounded up by at most a quarter. Freed memory goes to the
 * cache. */
static void memory_of_tensors_is_used_again(void **state)
{
    struct rt_device *d = *state;
    for (size_t bytes = 1; bytes < 3 * MIB; bytes = bytes * 5 / 3 + 1) {
        struct rt_device_memory m = alloc(d, RT_DEVICE_TENSORS, bytes);
        assert_true(m.bytes <= 512 || m.bytes <= bytes + bytes / 4);
        const void *address = m.address;
        const size_t counted = m.bytes;
        rt_device_free(d, RT_DEVICE_TENSORS, &m);
        assert_null(m.address);
        m = alloc(d, RT_DEVICE_TENSORS, counted);
        assert_ptr_equal(m.address, address);
        assert_int_equal(rt_device_counts(d).used[RT_DEVICE_TENSORS], (int64_t)counted);
        rt_device_free(d, RT_DEVICE_TENSORS, &m);
    }
    assert_true(rt_device_counts(d).cached > 3 * MIB);
    assert_true(test_device_counts(d).bytes > 3 * MIB);
    rt_device_trim(d);
    assert_int_equal(rt_device_counts(d).cached, 0);
    assert_int_equal(test_device_counts(d).bytes, 0);
}

static void the_cache_is_bounded(void **state)
{
    struct rt_device *d = *state;
    struct rt_device_memory m[10];
    for (int k = 0; k < 10; k++)
        m[k] = alloc(d, RT_DEVICE_TENSORS, 10 * MIB);
    for (int k = 0; k < 10; k++)
        rt_device_free(d, RT_DEVICE_TENSORS, &m[k]);
    const struct rt_device_counts counts = rt_device_counts(d);
    assert_int_equal(counts.cached, 60 * MIB);
    assert_int_equal(counts.used[RT_DEVICE_TENSORS], 0);
}

/* The cache frees its memory when another allocation needs that memory. */
static void the_cache_yields_to_other_uses(void **state)
{
    struct rt_device *d = *state;
    struct rt_device_memory m = alloc(d, RT_DEVICE_TENSORS, 40 * MIB);
    test_device_limit(d, 50 * MIB);
    rt_device_free(d, RT_DEVICE_TENSORS, &m);
    m = alloc(d, RT_DEVICE_WEIGHTS, 30 * MIB);
    assert_int_equal(rt_device_counts(d).cached, 0);
    rt_device_free(d, RT_DEVICE_WEIGHTS, &m);
}

static void what_does_not_fit_is_refused_with_both_numbers(void **state)
{
    struct rt_device *d = *state;
    struct rt_error err = {0};
    struct rt_device_memory m, more;
    rt_device_end(d);
    assert_true(rt_device_begin(d, 1000));
    m = alloc(d, RT_DEVICE_WEIGHTS, 600);
    assert_int_equal(rt_device_alloc(d, RT_DEVICE_BLOCKS, 401, "activations", &more, &err),
                     RT_RESOURCE_EXHAUSTED);
    assert_string_equal(rt_error_text(&err), "TEST:0 has no memory for 401 bytes of activations; "
                                             "600 of 1000 bytes are in use");
    more = alloc(d, RT_DEVICE_BLOCKS, 400);
    rt_device_free(d, RT_DEVICE_BLOCKS, &more);
    rt_device_free(d, RT_DEVICE_WEIGHTS, &m);
    assert_int_equal(rt_device_alloc(d, RT_DEVICE_TENSORS, SIZE_MAX, "a tensor", &m, &err),
                     RT_RESOURCE_EXHAUSTED);
    assert_int_equal(rt_device_alloc(d, RT_DEVICE_TENSORS, INT64_MAX / 2, "a tensor", &m, &err),
                     RT_RESOURCE_EXHAUSTED);
}

/* A tensor is copied once, either when the host reads its bytes or as part of a stream's work. */
static void a_tensor_is_copied_to_the_host_once(void **state)
{
    struct rt_device *d = *state;
    struct rt_error err = {0};
    struct rt_tensor t;
    const int32_t sent[3] = {5, 6, 7};
    const struct rt_region_step *failed = NULL;
    for (int is_enqueued = 0; is_enqueued < 2; is_enqueued++) {
        assert_ok(rt_device_tensor(d, NULL, &t, RT_I32, 1, (int64_t[]){3}, &err), &err);
        void *address = rt_device_address(d, &t);
        assert_null(t.data);
        assert_ok(d->copy(d, RT_COPY_IN, address, sent, sizeof sent, &err), &err);
        if (is_enqueued) {
            assert_ok(rt_device_tensor_enqueue_load(&t, 1, address, &err), &err);
            assert_ok(d->wait(d, 1, &failed, &err), &err);
            rt_device_tensor_loaded(&t);
        }
        for (int again = 0; again < 2; again++)
            assert_ok(rt_tensor_load(&t, &err), &err);
        assert_memory_equal(t.data, sent, sizeof sent);
        assert_int_equal(test_device_counts(d).copies_out, is_enqueued + 1);
        assert_ptr_equal(rt_device_address(d, &t), address);
        rt_tensor_clear(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        T(each_use_is_counted),
        T(memory_of_tensors_is_used_again),
        T(the_cache_is_bounded),
        T(the_cache_yields_to_other_uses),
        T(what_does_not_fit_is_refused_with_both_numbers),
        T(a_tensor_is_copied_to_the_host_once),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
