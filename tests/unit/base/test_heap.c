#include "tests/support/test.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/heap.h"
#include "runtime/base/machine.h"
#include "runtime/base/sanitizer.h"

enum { MIB = 1 << 20 };
static struct rt_heap_trims trims;

/* Frees all idle blocks. */
static int setup(void **state)
{
    (void)state;
    rt_heap_trim(&trims, false);
    rt_heap_trim(&trims, false);
    return rt_heap_idle() ? -1 : 0;
}

#if !RT_HAS_ASAN /* under AddressSanitizer, no block is kept */
static void a_freed_block_is_the_next_one(void **state)
{
    (void)state;
    void *p = rt_heap_alloc(MIB);
    assert_non_null(p);
    rt_heap_free(p);
    assert_in_range(rt_heap_idle(), MIB, MIB + 65536);
    void *q = rt_heap_alloc(MIB - 100000);
    assert_ptr_equal(q, p);
    assert_int_equal(rt_heap_idle(), 0);
    rt_heap_free(q);
}

static void a_block_is_not_taken_for_a_much_smaller_or_a_larger_one(void **state)
{
    (void)state;
    static const size_t others[] = {1, RT_HEAP_LARGE, MIB / 2, MIB * 5 / 4, 2 * MIB, 100 * MIB};
    void *p = rt_heap_alloc(MIB);
    rt_heap_free(p);
    const size_t idle = rt_heap_idle();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        void *q = rt_heap_alloc(others[i]);
        assert_non_null(q);
        assert_int_equal(rt_heap_idle(), idle);
        free(q);
    }
}

static void blocks_are_idle_for_at_most_two_periods(void **state)
{
    (void)state;
    void *old = rt_heap_alloc(MIB), *young = rt_heap_alloc(3 * MIB);
    rt_heap_free(old);
    rt_heap_trim(&trims, false);
    rt_heap_free(young);
    assert_in_range(rt_heap_idle(), 4 * MIB, 4 * MIB + 131072);
    rt_heap_trim(&trims, false);
    assert_in_range(rt_heap_idle(), 3 * MIB, 3 * MIB + 65536);
    rt_heap_trim(&trims, false);
    assert_int_equal(rt_heap_idle(), 0);
}

#endif

static void only_large_blocks_are_kept_and_not_more_than_the_limit(void **state)
{
    (void)state;
    void *p[12];
    rt_heap_free(NULL);
    rt_heap_free(rt_heap_alloc(1000));
    rt_heap_free(rt_heap_alloc(32 * MIB));
    assert_int_equal(rt_heap_idle(), 0);
    for (int i = 0; i < 12; i++)
        assert_non_null(p[i] = rt_heap_alloc(10 * MIB));
    for (int i = 0; i < 12; i++)
        rt_heap_free(p[i]);
    assert_in_range(rt_heap_idle(), RT_HAS_ASAN ? 0 : RT_HEAP_IDLE_MOST - 11 * MIB,
                    RT_HEAP_IDLE_MOST);
}

static void a_block_grows_with_its_contents(void **state)
{
    (void)state;
    char *p = NULL;
    size_t used = 0;
    for (size_t n = 1000; n < 20 * MIB; n *= 2) {
        rt_heap_free(rt_heap_alloc(n + n / 10)); /* the block to which p moves */
        assert_non_null(p = rt_heap_resize(p, used, n));
        for (size_t i = 0; i < used; i += 997)
            assert_int_equal((unsigned char)p[i], i % 251);
        for (size_t i = 0; i < n; i++)
            p[i] = (char)(i % 251);
        used = n;
    }
    rt_heap_free(p);
}

static void *allocate_and_free(void *arg)
{
    const size_t n = *(const size_t *)arg;
    struct rt_heap_trims own = {0}; /* which one thread may use at a time */
    for (int i = 0; i < 2000; i++) {
        unsigned char *p = rt_heap_alloc(n);
        if (!p)
            return arg;
        p[0] = p[n - 1] = (unsigned char)i;
        if (i % 100 == 0)
            rt_heap_trim(&own, false);
        if (p[0] != (unsigned char)i || p[n - 1] != (unsigned char)i)
            return arg;
        rt_heap_free(p);
    }
    return NULL;
}

static void threads_share_the_idle_blocks(void **state)
{
    (void)state;
    static size_t sizes[4] = {RT_HEAP_LARGE, RT_HEAP_LARGE + 5000, 3 * RT_HEAP_LARGE, 200000};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free, &sizes[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

#if !RT_HAS_ASAN && !RT_HAS_TSAN /* the sanitizers' allocators keep freed memory */
enum { PIECE = 1000, PIECES = 64 * MIB / PIECE, HELD_EVERY = 1000 };

/* Allocates and frees 64 MiB in small pieces. Every thousandth piece remains allocated, so that
 * malloc cannot return the end of its memory. Returns the resident bytes after that. */
static int64_t fragment(void **pieces)
{
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = malloc(PIECE);
        assert_non_null(pieces[i]);
        memset(pieces[i], 1, PIECE);
    }
    for (size_t i = 0; i < PIECES; i++)
        if (i % HELD_EVERY != HELD_EVERY - 1)
            free(pieces[i]);
    return rt_machine_resident();
}

static void free_held(void **pieces)
{
    for (size_t i = HELD_EVERY - 1; i < PIECES; i += HELD_EVERY)
        free(pieces[i]);
}

/* Sleeps until the process has used less than a tenth of a core since the last call of
 * rt_heap_trim. */
static void be_quiet(void)
{
    do
        usleep(20000);
    while ((rt_process_cpu_ns() - trims.cpu_ns) * 12 > rt_now_ns() - trims.at);
}

/* Uses the processor for more than a tenth of the time since the last call of rt_heap_trim. On a
 * loaded machine, the process may get less than half of a core. */
static void be_busy(void)
{
    while ((rt_process_cpu_ns() - trims.cpu_ns) * 8 < rt_now_ns() - trims.at)
        continue;
}

static void a_quiet_process_returns_the_memory_of_small_blocks(void **state)
{
    static void *pieces[PIECES];
    (void)state;
    rt_heap_trim(&trims, true);
    const int64_t before = rt_machine_resident();
    assert_true(fragment(pieces) > before + 60 * MIB);
    be_busy();
    rt_heap_trim(&trims, false);
    assert_true(rt_machine_resident() > before + 60 * MIB);
    be_quiet();
    rt_heap_trim(&trims, false);
    assert_true(rt_machine_resident() < before + 8 * MIB);
    free_held(pieces);
}

static void a_busy_process_returns_memory_every_ten_seconds(void **state)
{
    static void *pieces[PIECES];
    (void)state;
    rt_heap_trim(&trims, true);
    const int64_t before = rt_machine_resident();
    fragment(pieces);
    trims.returned_at -= INT64_C(10000000000);
    be_busy();
    rt_heap_trim(&trims, false);
    assert_true(rt_machine_resident() < before + 8 * MIB);
    free_held(pieces);
}

/* A process that first uses memory and later frees it grows no more when it frees it. */
static void memory_that_was_in_use_at_the_last_return_is_returned(void **state)
{
    static void *pieces[PIECES];
    (void)state;
    rt_heap_trim(&trims, true);
    const int64_t before = rt_machine_resident();
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = malloc(PIECE);
        assert_non_null(pieces[i]);
        memset(pieces[i], 1, PIECE);
    }
    rt_heap_trim(&trims, true);
    assert_true(rt_machine_resident() > before + 60 * MIB);
    for (size_t i = 0; i < PIECES; i++)
        if (i % HELD_EVERY != HELD_EVERY - 1)
            free(pieces[i]);
    be_quiet();
    rt_heap_trim(&trims, false);
    assert_true(rt_machine_resident() < before + 8 * MIB);
    free_held(pieces);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if !RT_HAS_ASAN
        cmocka_unit_test_setup(a_freed_block_is_the_next_one, setup),
        cmocka_unit_test_setup(a_block_is_not_taken_for_a_much_smaller_or_a_larger_one, setup),
        cmocka_unit_test_setup(blocks_are_idle_for_at_most_two_periods, setup),
#endif
        cmocka_unit_test_setup(only_large_blocks_are_kept_and_not_more_than_the_limit, setup),
        cmocka_unit_test_setup(a_block_grows_with_its_contents, setup),
        cmocka_unit_test_setup(threads_share_the_idle_blocks, setup),
#if !RT_HAS_ASAN && !RT_HAS_TSAN
        cmocka_unit_test(a_quiet_process_returns_the_memory_of_small_blocks),
        cmocka_unit_test(a_busy_process_returns_memory_every_ten_seconds),
        cmocka_unit_test(memory_that_was_in_use_at_the_last_return_is_returned),
#endif
    };
    rt_heap_set_policy();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
