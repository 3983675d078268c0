/* Tests the reservations of an accelerator's memory (runtime/core/device/device_ledger.h). */
#include "tests/support/test.h"

#include <pthread.h>

#include "runtime/core/device/device_ledger.h"

enum { OLD = 1, NEW = 2, OTHER = 3 }; /* numbers of loads */

/* An accelerator of 100 bytes, and the claims of three sessions. */
struct fixture {
    struct rt_device device;
    int64_t driver_free; /* what the driver says is free, or -1 */
    bool refuses;        /* whether the driver refuses to allocate */
    _Atomic bool was_refused;
    struct rt_device_claim old, new, other;
    struct rt_device_memory memory; /* memory of `old` */
};

static void *device_alloc(struct rt_device *d, size_t bytes)
{
    const struct fixture *x = d->state;
    return x->refuses ? NULL : malloc(bytes);
}

static void device_free(struct rt_device *d, void *p)
{
    (void)d;
    free(p);
}

static void sense(struct rt_device *d, struct rt_device_sensors *out)
{
    const struct fixture *x = d->state;
    out->free_bytes = x->driver_free;
}

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    if (!x)
        return -1;
    x->device = (struct rt_device){.type = "GPU",
                                   .n_streams = 1,
                                   .state = x,
                                   .alloc = device_alloc,
                                   .free = device_free,
                                   .sense = sense};
    x->driver_free = -1;
    *state = x;
    return rt_device_begin(&x->device, 100) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    rt_device_free_constant(&x->device, &x->old, &x->memory);
    rt_device_claim_end(&x->device, &x->old);
    rt_device_claim_end(&x->device, &x->new);
    rt_device_claim_end(&x->device, &x->other);
    rt_device_end(&x->device);
    free(x);
    return 0;
}

enum answer { FITS, WAITS, FAILS };

static enum answer reserve(struct fixture *x, struct rt_device_claim *c, uint64_t load,
                           int64_t bytes)
{
    struct rt_error err = {0};
    bool waits;
    const enum rt_status st = rt_device_reserve(&x->device, c, load, bytes, &waits, &err);
    assert_true(!st || st == RT_RESOURCE_EXHAUSTED);
    return !st ? FITS : waits ? WAITS : FAILS;
}

static void alloc_old(struct fixture *x, size_t bytes)
{
    struct rt_error err = {0};
    assert_ok(rt_device_alloc_constant(&x->device, &x->old, bytes, "constants", &x->memory, &err),
              &err);
}

static void reserved_bytes_that_are_allocated_count_once(void **state)
{
    struct fixture *x = *state;
    assert_int_equal(reserve(x, &x->old, OLD, 40), FITS);
    assert_int_equal(reserve(x, &x->other, OTHER, 61), FAILS);
    alloc_old(x, 30);
    assert_int_equal(reserve(x, &x->other, OTHER, 61), FAILS);
    assert_int_equal(reserve(x, &x->new, NEW, 50), FITS);
    rt_device_release(&x->device, &x->old);
    assert_int_equal(reserve(x, &x->other, OTHER, 21), FAILS);
    assert_int_equal(reserve(x, &x->other, OTHER, 20), FITS);
    rt_device_claim_end(&x->device, &x->other);
    rt_device_claim_end(&x->device, &x->new);
    assert_int_equal(reserve(x, &x->new, NEW, 70), FITS);
}

static void a_refused_allocation_stays_reserved(void **state)
{
    struct fixture *x = *state;
    struct rt_error err = {0};
    assert_int_equal(reserve(x, &x->old, OLD, 40), FITS);
    x->refuses = true;
    assert_int_equal(
        rt_device_alloc_constant(&x->device, &x->old, 40, "constants", &x->memory, &err),
        RT_RESOURCE_EXHAUSTED);
    assert_int_equal(reserve(x, &x->other, OTHER, 61), FAILS);
    assert_int_equal(reserve(x, &x->other, OTHER, 60), FITS);
}

static void what_the_driver_has_free_limits_reservations(void **state)
{
    struct fixture *x = *state;
    x->driver_free = 50;
    assert_int_equal(reserve(x, &x->old, OLD, 30), FITS);
    assert_int_equal(reserve(x, &x->other, OTHER, 21), FAILS);
    assert_int_equal(reserve(x, &x->other, OTHER, 20), FITS);
}

/* The old session holds 60 bytes. The new one needs 80, of which 20 are reserved at once. */
static void freed_memory_goes_to_the_load_to_which_it_is_promised(void **state)
{
    struct fixture *x = *state;
    assert_int_equal(reserve(x, &x->old, OLD, 60), FITS);
    alloc_old(x, 60);
    rt_device_promise(&x->device, &x->old, 60, NEW);
    assert_int_equal(reserve(x, &x->new, NEW, 101), FAILS);
    assert_int_equal(reserve(x, &x->new, NEW, 80), WAITS);
    assert_int_equal(reserve(x, &x->other, OTHER, 21), FAILS);
    assert_false(rt_device_claim_is_complete(&x->device, &x->new));
    rt_device_end_promises(&x->device, NEW); /* does nothing, because the session waits */
    rt_device_release(&x->device, &x->new);  /* likewise */
    rt_device_free_constant(&x->device, &x->old, &x->memory);
    rt_device_claim_end(&x->device, &x->old);
    assert_int_equal(reserve(x, &x->other, OTHER, 21), FAILS);
    assert_true(rt_device_claim_is_complete(&x->device, &x->new));
    assert_int_equal(reserve(x, &x->other, OTHER, 20), FITS);
    rt_device_release(&x->device, &x->new);
    assert_int_equal(reserve(x, &x->old, OLD, 80), FITS);
}

static void a_session_does_not_wait_for_memory_promised_to_another(void **state)
{
    struct fixture *x = *state;
    assert_int_equal(reserve(x, &x->old, OLD, 60), FITS);
    alloc_old(x, 60);
    rt_device_promise(&x->device, &x->old, 60, NEW);
    rt_device_promise(&x->device, &x->old, 60, OTHER);
    assert_int_equal(reserve(x, &x->other, OTHER, 60), FAILS);
    assert_int_equal(reserve(x, &x->new, NEW, 60), WAITS);
    /* When the session that waits has ended, the memory can be promised again. */
    rt_device_end_promises(&x->device, NEW);
    rt_device_claim_end(&x->device, &x->new);
    rt_device_promise(&x->device, &x->old, 60, OTHER);
    assert_int_equal(reserve(x, &x->other, OTHER, 60), WAITS);
}

static void a_load_that_ends_needs_no_promise(void **state)
{
    struct fixture *x = *state;
    assert_int_equal(reserve(x, &x->old, OLD, 60), FITS);
    alloc_old(x, 60);
    rt_device_promise(&x->device, &x->old, 60, NEW);
    assert_int_equal(reserve(x, &x->new, NEW, 40), FITS);
    rt_device_end_promises(&x->device, NEW);
    rt_device_promise(&x->device, &x->old, 60, OTHER);
    assert_int_equal(reserve(x, &x->other, OTHER, 60), WAITS);
}

/* A load that makes way for others ends its session, and begins again later. */
static void a_load_that_begins_again_keeps_its_promise(void **state)
{
    struct fixture *x = *state;
    assert_int_equal(reserve(x, &x->old, OLD, 60), FITS);
    alloc_old(x, 60);
    rt_device_promise(&x->device, &x->old, 60, NEW);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(reserve(x, &x->new, NEW, 80), WAITS);
        rt_device_claim_end(&x->device, &x->new);
        assert_int_equal(reserve(x, &x->new, NEW, 40), FITS);
        rt_device_claim_end(&x->device, &x->new);
    }
    assert_int_equal(reserve(x, &x->new, NEW, 80), WAITS);
}

/* A session that waits may also use memory that others free. */
static void a_session_that_waits_takes_any_free_memory(void **state)
{
    struct fixture *x = *state;
    x->driver_free = 0;
    assert_int_equal(reserve(x, &x->old, OLD, 0), FITS);
    alloc_old(x, 60);
    rt_device_promise(&x->device, &x->old, 60, NEW);
    assert_int_equal(reserve(x, &x->new, NEW, 30), WAITS);
    assert_false(rt_device_claim_is_complete(&x->device, &x->new));
    x->driver_free = 30;
    assert_true(rt_device_claim_is_complete(&x->device, &x->new));
    assert_int_equal(reserve(x, &x->other, OTHER, 1), FAILS);
}

static void *reserve_and_allocate(void *arg)
{
    struct fixture *x = arg;
    struct rt_device *d = &x->device;
    for (int k = 0; k < 300; k++) {
        struct rt_device_claim c = {0};
        struct rt_device_memory m[2] = {{0}};
        struct rt_error err = {0};
        bool waits;
        if (rt_device_reserve(d, &c, 0, 30, &waits, &err))
            continue;
        for (int i = 0; i < 2; i++)
            if (rt_device_alloc_constant(d, &c, 15, "constants", &m[i], &err))
                atomic_store(&x->was_refused, true);
        rt_device_release(d, &c);
        for (int i = 0; i < 2; i++)
            rt_device_free_constant(d, &c, &m[i]);
        rt_device_claim_end(d, &c);
    }
    return NULL;
}

/* Three of five threads have room at a time. */
static void what_is_reserved_can_be_allocated(void **state)
{
    struct fixture *x = *state;
    pthread_t thread[5];
    for (int k = 0; k < 5; k++)
        assert_int_equal(pthread_create(&thread[k], NULL, reserve_and_allocate, x), 0);
    for (int k = 0; k < 5; k++)
        pthread_join(thread[k], NULL);
    assert_false(atomic_load(&x->was_refused));
    assert_int_equal(reserve(x, &x->other, OTHER, 100), FITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        T(reserved_bytes_that_are_allocated_count_once),
        T(a_refused_allocation_stays_reserved),
        T(what_the_driver_has_free_limits_reservations),
        T(freed_memory_goes_to_the_load_to_which_it_is_promised),
        T(a_session_does_not_wait_for_memory_promised_to_another),
        T(a_load_that_ends_needs_no_promise),
        T(a_load_that_begins_again_keeps_its_promise),
        T(a_session_that_waits_takes_any_free_memory),
        T(what_is_reserved_can_be_allocated),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
