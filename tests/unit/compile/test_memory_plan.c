/* Tests memory planning (runtime/compile/memory_plan.c), which computes offsets in the activation
 * buffer for values whose lifetimes are known. */
#include "tests/support/test.h"

#include "runtime/compile/compile.h"

enum { N = 200, STEPS = 60 };

static bool meet(const struct rt_extent *a, const struct rt_extent *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static void check(const struct rt_extent *e, int n, size_t total)
{
    for (int i = 0; i < n; i++) {
        assert_true(e[i].offset % 64 == 0);
        assert_true(e[i].offset + e[i].bytes <= total);
        for (int k = 0; k < i; k++)
            if (meet(&e[i], &e[k]) && e[i].bytes && e[k].bytes)
                assert_true(e[i].offset + e[i].bytes <= e[k].offset ||
                            e[k].offset + e[k].bytes <= e[i].offset);
    }
}

static void what_is_in_use_together_never_overlaps(void **state)
{
    (void)state;
    struct rt_extent e[N];
    unsigned seed = 7;
    for (int round = 0; round < 20; round++) {
        size_t most = 0, sum = 0;
        for (int i = 0; i < N; i++) {
            seed = seed * 1103515245u + 12345u;
            int first = (int)(seed >> 16) % STEPS, length = (int)(seed >> 8) % 9;
            e[i] = (struct rt_extent){
                .bytes = (seed >> 4) % 5000, .first = first, .last = first + length};
        }
        size_t total = rt_memory_plan_place(e, N, false);
        check(e, N, total);
        for (int t = 0; t < STEPS + 9; t++) {
            size_t now = 0;
            for (int i = 0; i < N; i++)
                now += e[i].first <= t && t <= e[i].last ? e[i].bytes : 0;
            most = now > most ? now : most;
        }
        for (int i = 0; i < N; i++)
            sum += e[i].bytes;
        assert_true(total >= most);
        assert_true(total <= most + most / 2);
        assert_true(total < sum / 2);
    }
}

static void a_chain_needs_memory_for_two(void **state)
{
    (void)state;
    struct rt_extent e[50];
    for (int i = 0; i < 50; i++)
        e[i] = (struct rt_extent){.bytes = 1000, .first = i, .last = i + 1};
    assert_int_equal(rt_memory_plan_place(e, 50, false), 2048);
    check(e, 50, 2048);
}

static void nothing_takes_nothing(void **state)
{
    (void)state;
    struct rt_extent e = {.bytes = 0, .first = 0, .last = 1};
    assert_int_equal(rt_memory_plan_place(&e, 0, false), 0);
    assert_int_equal(rt_memory_plan_place(&e, 1, false), 0);
    e.bytes = SIZE_MAX - 10;
    assert_true(rt_memory_plan_place(&e, 1, false) == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_use_together_never_overlaps),
        cmocka_unit_test(a_chain_needs_memory_for_two),
        cmocka_unit_test(nothing_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
