/* Tests how a thread paces its wait for a GPU (kernels/cuda/driver/pacing.h), on a simulated clock.
 */
#include "tests/support/test.h"

#include "kernels/cuda/driver/pacing.h"

enum { QUESTION_NS = 1000, US = 1000, MS = 1000 * US };

/* What a wait costs: how long the thread used a core, and how late it found the work done. */
struct cost {
    int64_t spun_ns, late_ns;
};

/* Waits for work of `work_ns` as cuda_await does. A sleep takes 50 us more than it should. */
static struct cost wait(struct cuda_pacing *p, int64_t work_ns)
{
    int64_t now = 0, busy_ns = 0;
    struct cost cost = {0};
    while (now < work_ns) {
        busy_ns = now;
        const int64_t ns = cuda_pacing_sleep(p, now);
        assert_in_range(ns, 0, 10 * MS);
        cost.spun_ns += QUESTION_NS;
        now += QUESTION_NS + (ns ? ns + 50 * US : 0);
    }
    if (p)
        cuda_pacing_add(p, busy_ns);
    cost.late_ns = now - work_ns;
    return cost;
}

static struct cost wait_often(struct cuda_pacing *p, int64_t work_ns)
{
    struct cost cost = {0};
    for (int k = 0; k < 3 * PACING_RUNS; k++)
        cost = wait(p, work_ns);
    return cost;
}

static void a_long_region_does_not_occupy_a_core(void **state)
{
    (void)state;
    for (int64_t work_ns = MS / 2; work_ns < 1000 * MS; work_ns += work_ns / 3) {
        struct cuda_pacing p = {0};
        const struct cost first = wait(&p, work_ns), later = wait_often(&p, work_ns);
        assert_true(first.spun_ns <= 500 * US);
        assert_true(later.spun_ns <= 300 * US);
        assert_true(later.late_ns <= 60 * US + work_ns / 64);
    }
}

static void a_short_region_is_found_at_once(void **state)
{
    (void)state;
    for (int64_t work_ns = US; work_ns < 1500 * US; work_ns += work_ns / 3 + US) {
        struct cuda_pacing p = {0};
        assert_true(wait_often(&p, work_ns).late_ns <= QUESTION_NS);
    }
}

/* A region that becomes shorter, because the GPU is no longer shared, is found late at most once.
 */
static void a_region_that_becomes_shorter_is_found_late_once(void **state)
{
    (void)state;
    struct cuda_pacing p = {0};
    wait_often(&p, 8 * MS);
    assert_true(wait(&p, 4 * MS).late_ns <= 4 * MS);
    for (int k = 0; k < 10; k++)
        assert_true(wait(&p, 4 * MS).late_ns <= 60 * US + 4 * MS / 64);
}

static void unknown_work_is_asked_for_less_and_less_often(void **state)
{
    (void)state;
    assert_int_equal(cuda_pacing_sleep(NULL, PACING_SPIN_NS - 1), 0);
    assert_int_equal(cuda_pacing_sleep(NULL, 64 * MS), MS);
    assert_int_equal(cuda_pacing_sleep(NULL, 64000LL * MS), 10 * MS);
    assert_true(wait(NULL, 100 * MS).spun_ns <= MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_region_does_not_occupy_a_core),
        cmocka_unit_test(a_short_region_is_found_at_once),
        cmocka_unit_test(a_region_that_becomes_shorter_is_found_late_once),
        cmocka_unit_test(unknown_work_is_asked_for_less_and_less_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
