/* Tests kn_sort through SparseReorder, which calls it. */
#include "tests/support/test.h"

#include "kernels/array/sort.h"
#include "runtime/base/sort.h"
#include "runtime/base/clock.h"
#include "tests/support/op.h"

/* Returns a SparseReorder of n rows with one index each. The indices are the numbers 0 to n - 1 in
 * random order, and each value equals its index. */
static struct op_call shuffled(int64_t n)
{
    struct rt_tensor at = op_tensor(RT_I64, 2, (int64_t[]){n, 1}, NULL);
    struct rt_tensor values = op_tensor(RT_I64, 1, &n, NULL);
    uint64_t x = 1;

    for (int64_t i = 0; i < n; i++) { /* a Fisher-Yates shuffle */
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
        const int64_t k = (int64_t)((x >> 33) % (uint64_t)(i + 1));
        ((int64_t *)at.data)[i] = ((int64_t *)at.data)[k];
        ((int64_t *)at.data)[k] = i;
    }
    if (n)
        memcpy(values.data, at.data, (size_t)n * sizeof(int64_t));
    return (struct op_call){.op = "SparseReorder",
                            .attrs = "T=int64",
                            .n_in = 3,
                            .n_out = 2,
                            .in = {at, values, op_tensor(RT_I64, 1, (int64_t[]){1}, &n)}};
}

static void every_number_of_elements_is_sorted(void **state)
{
    (void)state;
    static const int64_t n[] = {0,
                                1,
                                2,
                                RT_SORT_RUN - 1,
                                RT_SORT_RUN,
                                RT_SORT_RUN + 1,
                                2 * RT_SORT_RUN,
                                3 * RT_SORT_RUN - 1,
                                4 * RT_SORT_RUN + 1,
                                7 * RT_SORT_RUN + 100};
    for (size_t k = 0; k < sizeof n / sizeof *n; k++) {
        struct op_call c = shuffled(n[k]);
        assert_ok(op_run(&c), &c.err);
        for (int64_t i = 0; i < n[k]; i++) {
            assert_int_equal(((const int64_t *)c.out[0].data)[i], i);
            assert_int_equal(((const int64_t *)c.out[1].data)[i], i);
        }
        op_clear(&c);
    }
}

static void sorting_counts_what_it_takes(void **state)
{
    (void)state;
    struct op_call c = shuffled(4 * RT_SORT_RUN);
    /* In bytes, the outputs take 64 * RT_SORT_RUN, the sorted order of the rows takes 96 *
     * RT_SORT_RUN, and merging takes another 96 * RT_SORT_RUN. */
    c.run_memory_limit = 200 * RT_SORT_RUN;
    assert_fails(op_run(&c), RT_RESOURCE_EXHAUSTED, &c.err, "out of memory");
    op_clear(&c);
}

static void sorting_ends_soon_after_its_deadline(void **state)
{
    (void)state;
    struct op_call c = shuffled(1 << 20);
    int64_t took = -rt_thread_cpu_ns(), late;
    assert_ok(op_run(&c), &c.err);
    took += rt_thread_cpu_ns();
    c.deadline_ms = took / 4 / 1000000;
    c.err = (struct rt_error){0};
    rt_tensor_clear(&c.out[0]);
    rt_tensor_clear(&c.out[1]);
    late = -rt_thread_cpu_ns();
    assert_fails(op_run(&c), RT_DEADLINE_EXCEEDED, &c.err, "the deadline passed");
    late += rt_thread_cpu_ns();
    assert_true(late < took / 2);
    op_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_elements_is_sorted),
        cmocka_unit_test(sorting_counts_what_it_takes),
        cmocka_unit_test(sorting_ends_soon_after_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
