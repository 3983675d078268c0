/* Tests the compute pool that runs the shards of loops (runtime/exec/parallel.h). */
#include "tests/support/test.h"

#include <stdatomic.h>

#include "runtime/base/thread.h"
#include "runtime/exec/parallel.h"
#include "tests/support/cpu_time.h"

enum { SHARDS = 1000 };

struct counts {
    struct rt_parallel *p;
    /* Deliberately not atomic, so that TSan reports a shard that two cores run. */
    int times[SHARDS];
    atomic_int at_once, most;
};

static void count_shard(void *arg, int64_t i)
{
    struct counts *c = arg;
    const int now = atomic_fetch_add(&c->at_once, 1) + 1;
    int most = atomic_load(&c->most);
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now))
        ;
    c->times[i]++;
    atomic_fetch_sub(&c->at_once, 1);
}

static void assert_all_done(const struct counts *c, int64_t n, int times)
{
    for (int64_t i = 0; i < SHARDS; i++)
        assert_int_equal(c->times[i], i < n ? times : 0);
}

static void every_shard_is_done_once_at_every_width(void **state)
{
    (void)state;
    for (int cores = 1; cores <= 5; cores++) {
        struct rt_parallel *p = rt_parallel_new(cores, cores);
        assert_non_null(p);
        assert_int_equal(rt_parallel_width(p), cores);
        for (int64_t n = 0; n <= SHARDS; n = n * 3 + 1) {
            struct counts c = {.p = p};
            for (int times = 1; times <= 20; times++) {
                rt_parallel_run(p, n, count_shard, &c);
                assert_all_done(&c, n, times);
            }
            assert_true(atomic_load(&c.most) <= cores);
        }
        rt_parallel_free(p);
    }
}

static void without_a_pool_shards_run_here_in_order(void **state)
{
    (void)state;
    struct counts c = {0};
    rt_parallel_enter(NULL);
    rt_parallel_run(NULL, SHARDS, count_shard, &c);
    rt_parallel_leave(NULL);
    assert_all_done(&c, SHARDS, 1);
    assert_int_equal(rt_parallel_width(NULL), 1);
    assert_int_equal(rt_parallel_free_width(NULL), 1);
    rt_parallel_free(NULL);
}

static void a_run_is_no_wider_than_its_width(void **state)
{
    (void)state;
    struct rt_parallel *p = rt_parallel_new(4, 2);
    assert_int_equal(rt_parallel_width(p), 2);
    struct counts c = {.p = p};
    for (int i = 0; i < 50; i++)
        rt_parallel_run(p, SHARDS, count_shard, &c);
    assert_true(atomic_load(&c.most) <= 2);
    rt_parallel_free(p);
    p = rt_parallel_new(2, 9);
    assert_int_equal(rt_parallel_width(p), 2);
    rt_parallel_free(p);
}

/* A loop whose shards end only when two of them run at the same time, so a second core must run
 * one. */
struct meeting {
    atomic_int there;
};
static void meet(void *arg, int64_t i)
{
    struct meeting *m = arg;
    (void)i;
    atomic_fetch_add(&m->there, 1);
    while (atomic_load(&m->there) < 2)
        ;
}
static void a_free_core_helps(void **state)
{
    (void)state;
    struct rt_parallel *p = rt_parallel_new(2, 2);
    rt_parallel_enter(p);
    assert_int_equal(rt_parallel_free_width(p), 2);
    for (int i = 0; i < 20; i++) {
        struct meeting m = {0};
        rt_parallel_run(p, 2, meet, &m);
        assert_int_equal(atomic_load(&m.there), 2);
    }
    rt_parallel_leave(p);
    rt_parallel_free(p);
}

static void no_helper_comes_when_every_core_has_a_run(void **state)
{
    (void)state;
    struct rt_parallel *p = rt_parallel_new(3, 3);
    struct counts c = {.p = p};
    for (int i = 0; i < 4; i++)
        rt_parallel_enter(p);
    assert_int_equal(rt_parallel_free_width(p), 1);
    rt_parallel_run(p, SHARDS, count_shard, &c);
    assert_all_done(&c, SHARDS, 1);
    assert_int_equal(atomic_load(&c.most), 1);
    for (int i = 0; i < 4; i++)
        rt_parallel_leave(p);
    assert_int_equal(rt_parallel_free_width(p), 3);
    rt_parallel_free(p);
}

static void nest(void *arg, int64_t i)
{
    struct counts *c = arg;
    struct counts inner = {0};
    assert_int_equal(rt_parallel_free_width(c->p), 1);
    rt_parallel_run(c->p, 10, count_shard, &inner);
    if (atomic_load(&inner.most) == 1)
        c->times[i]++;
}
static void a_section_inside_a_shard_runs_there(void **state)
{
    (void)state;
    struct rt_parallel *p = rt_parallel_new(3, 3);
    struct counts c = {.p = p};
    rt_parallel_run(p, SHARDS, nest, &c);
    assert_all_done(&c, SHARDS, 1);
    rt_parallel_free(p);
}

struct caller {
    struct rt_parallel *p;
    pthread_t thread;
    int64_t sum;
    bool ok;
};
struct adding {
    int64_t part[16];
};
static void add_shard(void *arg, int64_t i)
{
    struct adding *a = arg;
    for (int64_t k = 0; k < 200 + i; k++)
        a->part[i] += k ^ i;
}
static void *call_often(void *arg)
{
    struct caller *c = arg;
    struct adding expected = {{0}};
    for (int64_t i = 0; i < 16; i++)
        add_shard(&expected, i);
    c->ok = true;
    for (int round = 0; round < 2000; round++) {
        struct adding a = {{0}};
        rt_parallel_enter(c->p);
        for (int k = 0; k < 3; k++) {
            memset(&a, 0, sizeof a);
            rt_parallel_run(c->p, 2 + round % 15, add_shard, &a);
            for (int i = 0; i < 2 + round % 15; i++)
                c->ok &= a.part[i] == expected.part[i];
        }
        rt_parallel_leave(c->p);
    }
    return NULL;
}
static void many_callers_share_the_cores(void **state)
{
    (void)state;
    struct rt_parallel *p = rt_parallel_new(4, 3);
    struct caller c[6];
    for (int i = 0; i < 6; i++) {
        c[i] = (struct caller){.p = p};
        assert_int_equal(rt_thread_start(&c[i].thread, "caller", call_often, &c[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(c[i].thread, NULL);
        assert_true(c[i].ok);
    }
    while (rt_parallel_free_width(p) != 3)
        ; /* waits until every core is free again */
    rt_parallel_free(p);
}

static void a_pool_ends_whether_or_not_it_was_used(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct rt_parallel *p = rt_parallel_new(4, 4);
        struct counts c = {.p = p};
        if (i % 2)
            rt_parallel_run(p, SHARDS, count_shard, &c);
        rt_parallel_free(p);
    }
}

static void nothing(void *arg, int64_t i)
{
    (void)arg;
    (void)i;
}
static void an_idle_pool_uses_no_core(void **state)
{
    (void)state;
    struct rt_parallel *p = rt_parallel_new(4, 4);
    rt_parallel_run(p, 4, nothing, NULL);
    struct timespec pause = {.tv_nsec = 50000000};
    nanosleep(&pause, NULL);
    const int64_t before = cpu_now_ns();
    pause.tv_nsec = 200000000;
    nanosleep(&pause, NULL);
    /* If four cores polled, they would use 800 ms of CPU time. */
    assert_true(cpu_now_ns() - before < 50000000);
    rt_parallel_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shard_is_done_once_at_every_width),
        cmocka_unit_test(without_a_pool_shards_run_here_in_order),
        cmocka_unit_test(a_run_is_no_wider_than_its_width),
        cmocka_unit_test(a_free_core_helps),
        cmocka_unit_test(no_helper_comes_when_every_core_has_a_run),
        cmocka_unit_test(a_section_inside_a_shard_runs_there),
        cmocka_unit_test(many_callers_share_the_cores),
        cmocka_unit_test(a_pool_ends_whether_or_not_it_was_used),
        cmocka_unit_test(an_idle_pool_uses_no_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
