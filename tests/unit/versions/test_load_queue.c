/*
 * Tests the order of loads and the bounds of their waits. A simulated machine divides the time of
 * N_CORES cores equally among the running loads, so the tests need no clock and no threads.
 */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "server/versions/load_queue.h"

enum { N_CORES = 2, N_SLOTS = 2, MOST = 2000 };
#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)
#define TICK   MS

struct simulated {
    struct srv_queued_load queued;
    int64_t cost_ns;            /* INT64_MAX for a load that never ends */
    int64_t begun_ns, ended_ns; /* when the load first began and ended, or -1 */
    int n_begun;
    bool is_blocked; /* whether a run of the load waits from the beginning, and uses no core */
};

static struct srv_load_queue queue;
static struct simulated loads[MOST];
static struct srv_load_rounds models[MOST];
static int n_loads;
static int64_t now_ns;

static int set_up(void **state)
{
    (void)state;
    memset(&queue, 0, sizeof queue);
    memset(loads, 0, sizeof loads);
    memset(models, 0, sizeof models);
    queue.n_slots = N_SLOTS;
    n_loads = 0;
    now_ns = 0;
    return 0;
}

static struct simulated *submit(int model, int64_t cost_ns)
{
    assert_true(n_loads < MOST && model < MOST);
    struct simulated *load = &loads[n_loads++];
    *load = (struct simulated){{.rounds = &models[model]}, cost_ns, -1, -1, 0, false};
    srv_load_queue_add(&queue, &load->queued);
    return load;
}

static int n_running(void)
{
    int n = 0;
    for (int i = 0; i < SRV_LOAD_LEVELS; i++) {
        assert_in_range(queue.levels[i].n_aside, 0, SRV_LOAD_MAX_ASIDE);
        assert_true(queue.levels[i].n_running - queue.levels[i].n_aside <= N_SLOTS);
    }
    for (int i = 0; i < n_loads; i++)
        n += loads[i].queued.place == SRV_LOAD_RUNS && !loads[i].is_blocked;
    return n;
}

static void end_loads(void)
{
    for (int i = 0; i < n_loads; i++)
        if (loads[i].queued.place == SRV_LOAD_RUNS && loads[i].queued.used_ns >= loads[i].cost_ns) {
            srv_load_queue_remove(&queue, &loads[i].queued);
            loads[i].ended_ns = now_ns;
        }
}

static void begin_loads(void)
{
    for (struct srv_queued_load *q; (q = srv_load_queue_begin(&queue));) {
        struct simulated *load = (struct simulated *)q;
        if (!load->n_begun++)
            load->begun_ns = now_ns;
        srv_load_queue_set_blocked(&queue, q, load->is_blocked);
    }
}

/* Stops the loads that have to make way. The simulated loads end immediately and are queued
 * again. */
static void make_way(void)
{
    struct srv_queued_load *stopped = srv_load_queue_make_way(&queue);
    for (struct srv_queued_load *next; stopped; stopped = next) {
        next = stopped->next;
        stopped->next = NULL;
        srv_load_queue_add(&queue, stopped);
    }
}

/* Simulates one tick. */
static void tick(void)
{
    make_way();
    begin_loads();
    const int n = n_running();
    for (int i = 0; i < n_loads; i++)
        if (loads[i].queued.place == SRV_LOAD_RUNS)
            loads[i].queued.used_ns +=
                n > N_CORES && !loads[i].is_blocked ? TICK * N_CORES / n : TICK;
    now_ns += TICK;
    end_loads();
}

static void run_for(int64_t ns)
{
    for (const int64_t end = now_ns + ns; now_ns < end;)
        tick();
}

/* Runs until the load has ended, and returns how long that took. */
static int64_t run_until_end_of(const struct simulated *load)
{
    const int64_t begin = now_ns;
    while (load->ended_ns < 0 && now_ns - begin < 10000 * SECOND)
        tick();
    assert_true(load->ended_ns >= 0);
    return now_ns - begin;
}

/* Returns the largest factor by which other loads can slow a load down. The factor is reached when
 * all slots of all levels are occupied. */
static int64_t most_slowdown(void)
{
    return SRV_LOAD_LEVELS * N_SLOTS / N_CORES;
}

static void submit_endless(int first_model, int n)
{
    for (int i = 0; i < n; i++)
        submit(first_model + i, INT64_MAX);
}

static void a_short_load_waits_for_one_slice_per_model_and_slot(void **state)
{
    (void)state;
    for (int n = 50; n <= 400; n *= 8) {
        set_up(state);
        submit_endless(0, n);
        const int64_t ns = run_until_end_of(submit(n, 10 * MS));
        assert_true(ns <= (n / N_SLOTS + 2) * (SRV_LOAD_SLICE_NS + TICK) * most_slowdown());
    }
}

static void a_short_load_does_not_wait_for_loads_that_came_long_before(void **state)
{
    (void)state;
    submit_endless(0, 400);
    run_for(100 * SECOND);
    for (int i = 0; i < 10; i++) {
        const struct simulated *load = submit(400 + i, 10 * MS);
        assert_true(run_until_end_of(load) <= (SRV_LOAD_SLICE_NS + 10 * MS) * most_slowdown());
        run_for(100 * SECOND);
    }
}

/* Each of the loads that wait occupies a slot for a slice first, together for 3 s. */
static void a_new_load_does_not_wait_for_all_loads_that_have_not_begun(void **state)
{
    (void)state;
    submit_endless(0, 300);
    run_for(100 * MS);
    assert_true(queue.levels[0].n_waiting > 250);
    for (int i = 0; i < 3; i++)
        assert_true(run_until_end_of(submit(300 + i, 10 * MS)) <=
                    (2 * SRV_LOAD_SLICE_NS + 10 * MS) * most_slowdown());
}

/* The new loads need more than the half of the slots' time that they get before others. */
static void new_loads_do_not_starve_those_that_wait(void **state)
{
    (void)state;
    submit_endless(0, 100);
    const struct simulated *load = submit(100, 10 * MS);
    submit_endless(101, 100);
    for (int i = 201; i < MOST && load->ended_ns < 0; i++) {
        submit(i, 19 * MS);
        run_for(8 * MS);
    }
    assert_int_equal(run_until_end_of(load), 0);
    assert_true(now_ns <= 2 * (100 / N_SLOTS + 2) * (SRV_LOAD_SLICE_NS + TICK) * most_slowdown());
}

/* Loads that wait for something else than a core delay others less, because many of them go on
 * without a slot. */
static void blocked_loads_delay_others_little(void **state)
{
    (void)state;
    enum { N = 300 };
    for (int i = 0; i < N; i++)
        submit(i, INT64_MAX)->is_blocked = true;
    const struct simulated *load = submit(N, 10 * MS);
    assert_true(run_until_end_of(load) <= SECOND / 2); /* 3 s if each needed a slot */
    run_for(100 * SECOND);
    load = submit(N + 1, 10 * MS);
    assert_true(run_until_end_of(load) <= 2 * (SRV_LOAD_SLICE_NS + TICK));
}

/* A load that was set aside counts again when it needs a core. */
static void loads_that_are_not_blocked_any_more_need_slots(void **state)
{
    (void)state;
    for (int i = 0; i < N_SLOTS + SRV_LOAD_MAX_ASIDE; i++)
        submit(i, INT64_MAX)->is_blocked = true;
    tick();
    assert_int_equal(queue.levels[0].n_aside, SRV_LOAD_MAX_ASIDE);
    for (int i = 0; i < n_loads; i++)
        srv_load_queue_set_blocked(&queue, &loads[i].queued, false);
    assert_int_equal(queue.levels[0].n_aside, 0);
    const struct simulated *load = submit(n_loads, 10 * MS);
    make_way();
    begin_loads();
    assert_int_equal(load->n_begun, 0);
    for (int i = 0; i <= SRV_LOAD_MAX_ASIDE; i++)
        srv_load_queue_remove(&queue, &loads[i].queued);
    begin_loads();
    assert_int_equal(load->n_begun, 1);
}

/* The stream of short loads alone needs more time than the cores have. The long load is a new
 * version of a model that was loaded in the first three rounds. */
static void a_stream_of_short_loads_does_not_starve_a_long_one(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        run_until_end_of(submit(0, MS));
    const int64_t begin = now_ns;
    for (int i = 1; i <= 10; i++)
        submit(i, 19 * MS);
    const struct simulated *costly = submit(0, 6 * SECOND);
    for (int i = 11; i < MOST - 4 && costly->ended_ns < 0; i++) {
        submit(i, 19 * MS);
        run_for(8 * MS);
    }
    assert_int_equal(run_until_end_of(costly), 0);
    assert_true(now_ns - begin <= 2 * 6 * SECOND * most_slowdown());
}

/* The loads of 50 models never end. The load of another model takes 1 s. Slices of the first two
 * levels are shorter than this load, and slices of the third level are longer. At each of the three
 * levels, the load waits for one slice of every other model. */
static void a_long_load_waits_for_one_slice_per_model_at_each_level(void **state)
{
    (void)state;
    int64_t slices = 0, slice = SRV_LOAD_SLICE_NS;
    for (int i = 0; i < 3; i++, slice *= SRV_LOAD_SLICE_GROWTH)
        slices += slice;
    submit_endless(0, 50);
    const struct simulated *load = submit(50, SECOND);
    assert_true(run_until_end_of(load) <= (50 / N_SLOTS + 2) * slices * most_slowdown());
}

/* At the highest level, each slice of a load is twice as long as the previous one, so a load of any
 * length ends. */
static void a_load_longer_than_all_slices_ends(void **state)
{
    (void)state;
    const int64_t top = SRV_LOAD_SLICE_NS * 1000;
    const struct simulated *load = submit(20, 3 * top);
    submit_endless(0, 20);
    assert_true(run_until_end_of(load) <= (20 / N_SLOTS + 2) * 8 * top * most_slowdown());
    assert_int_equal(load->queued.level, SRV_LOAD_LEVELS - 1);
    assert_true(load->queued.n_stopped_at_top > 0);
}

static void a_load_is_not_stopped_while_there_are_free_slots(void **state)
{
    (void)state;
    for (int i = 0; i < N_SLOTS * SRV_LOAD_LEVELS; i++) {
        submit(i, 20 * SECOND);
        run_for(10 * SECOND);
    }
    for (int i = 0; i < n_loads; i++)
        run_until_end_of(&loads[i]);
    for (int i = 0; i < n_loads; i++)
        assert_int_equal(loads[i].n_begun, 1);
}

static void a_load_that_nobody_waits_for_stays_at_its_level(void **state)
{
    (void)state;
    submit_endless(0, N_SLOTS);
    run_for(1000 * SECOND);
    for (int i = 0; i < n_loads; i++) {
        assert_int_equal(loads[i].n_begun, 1);
        assert_int_equal(loads[i].queued.level, 0);
    }
    assert_true(srv_load_queue_least_left_ns(&queue) == INT64_MAX);
}

/* A load loses the slices in which it was stopped. Together, these slices are at most a ninth of
 * the slice in which the load ends. */
static void little_time_is_lost(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        submit(i, 19 * SECOND / 10);
    for (int i = 0; i < 100; i++)
        run_until_end_of(&loads[i]);
    assert_true(now_ns * N_CORES <= 100 * 19 * SECOND / 10 * 115 / 100);
}

static void the_models_take_turns(void **state)
{
    (void)state;
    static const int model[] = {0, 0, 0, 0, 1, 1, 2}, first[] = {0, 6, 4, 1, 5, 2, 3};
    queue.n_slots = 1;
    for (size_t i = 0; i < sizeof model / sizeof *model; i++)
        submit(model[i], MS);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        struct srv_queued_load *q = srv_load_queue_begin(&queue);
        assert_ptr_equal(q, &loads[first[i]].queued);
        assert_null(srv_load_queue_begin(&queue));
        srv_load_queue_remove(&queue, q);
    }
    assert_null(srv_load_queue_begin(&queue));
}

/* Model 0 has 1,000 loads. The load of model 1 waits for the load that runs. The load of model 2
 * also waits for the next load of model 0, because the load of model 1 began out of its turn. */
static void a_model_with_many_versions_delays_others_by_two_loads(void **state)
{
    (void)state;
    queue.n_slots = 1;
    for (int i = 0; i < 1000; i++)
        submit(0, MS);
    static const int model[] = {0, 1, 0, 2, 0, 0};
    for (int i = 0; i < 6; i++) {
        struct srv_queued_load *runs = srv_load_queue_begin(&queue);
        assert_ptr_equal(runs->rounds, &models[model[i]]);
        if (i < 2)
            submit(i + 1, MS);
        srv_load_queue_remove(&queue, runs);
    }
}

static void a_load_that_could_not_begin_is_the_next_one(void **state)
{
    (void)state;
    submit_endless(0, 3);
    for (int i = 0; i < 5; i++) {
        assert_ptr_equal(srv_load_queue_begin(&queue), &loads[0].queued);
        srv_load_queue_undo_begin(&queue, &loads[0].queued);
    }
    assert_int_equal(queue.levels[0].n_waiting, 3);
    assert_int_equal(queue.levels[0].n_running, 0);
}

static void waiting_loads_can_be_removed(void **state)
{
    (void)state;
    queue.n_slots = 1;
    submit_endless(0, 4);
    srv_load_queue_remove(&queue, &loads[3].queued);
    srv_load_queue_remove(&queue, &loads[0].queued);
    assert_ptr_equal(srv_load_queue_begin(&queue), &loads[1].queued);
    assert_true(srv_load_queue_least_left_ns(&queue) == SRV_LOAD_SLICE_NS);
    srv_load_queue_remove(&queue, &loads[2].queued);
    assert_true(srv_load_queue_least_left_ns(&queue) == INT64_MAX);
    assert_null(queue.levels[0].first);
    assert_null(queue.levels[0].last);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_short_load_waits_for_one_slice_per_model_and_slot),
        TEST(a_short_load_does_not_wait_for_loads_that_came_long_before),
        TEST(a_new_load_does_not_wait_for_all_loads_that_have_not_begun),
        TEST(new_loads_do_not_starve_those_that_wait),
        TEST(blocked_loads_delay_others_little),
        TEST(loads_that_are_not_blocked_any_more_need_slots),
        TEST(a_stream_of_short_loads_does_not_starve_a_long_one),
        TEST(a_long_load_waits_for_one_slice_per_model_at_each_level),
        TEST(a_load_longer_than_all_slices_ends),
        TEST(a_load_is_not_stopped_while_there_are_free_slots),
        TEST(a_load_that_nobody_waits_for_stays_at_its_level),
        TEST(little_time_is_lost),
        TEST(the_models_take_turns),
        TEST(a_model_with_many_versions_delays_others_by_two_loads),
        TEST(a_load_that_could_not_begin_is_the_next_one),
        TEST(waiting_loads_can_be_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
