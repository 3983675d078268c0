/* Tests how loads begin, make way for other loads, and end. test_load_queue.c tests the order of
 * loads. */
#include "tests/support/test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "server/versions/loader.h"
#include "tests/support/folder.h"

enum { WAIT_US = 1000, N_MANY = 30 };
/* A time so late that each running load has used its slice. */
#define LATE_NS (RT_NEVER / 2)

static struct srv_server server;
static struct srv_loader *loader;
static struct srv_fingerprint seen;
static atomic_bool held;           /* while true, loads wait until they are cancelled */
static atomic_int n_begun, n_done; /* numbers of loads that have begun and ended */
static char order[512];            /* first letter of each load's directory, in load order */
static atomic_int n_named;         /* number of letters in `order` */
static atomic_int n_begun_of[128]; /* number of begun loads, by the directory's first letter */
/* The rounds of the models "a", "b" and "c". Each element of `many` stands for a separate model
 * with the directory "a". All rounds outlive the loads, which may run until the tear-down. */
static struct srv_load_rounds a, b, c, many[N_MANY];

static enum rt_status is_complete(const char *dir, const char *const *tags, int n_tags,
                                  const struct rt_check *check, int64_t *weight_bytes,
                                  struct rt_error *err)
{
    (void)tags, (void)n_tags;
    const char letter = strrchr(dir, '/')[1];
    const int at = atomic_fetch_add(&n_named, 1);
    if (at < (int)sizeof order - 1)
        order[at] = letter;
    atomic_fetch_add(&n_begun_of[(int)letter], 1);
    atomic_fetch_add(&n_begun, 1);
    while (atomic_load(&held) && !check->check(check->arg, err))
        usleep(WAIT_US);
    *weight_bytes = 0;
    return rt_fail(err, RT_UNIMPLEMENTED, "this test needs no model");
}

static const struct srv_model_calls calls = {.is_complete = is_complete};

/* The following functions implement a model that loads immediately and uses up the process's
 * descriptors. */
static enum rt_status is_always_complete(const char *dir, const char *const *tags, int n_tags,
                                         const struct rt_check *check, int64_t *weight_bytes,
                                         struct rt_error *err)
{
    (void)dir, (void)tags, (void)n_tags, (void)check, (void)err;
    *weight_bytes = 0;
    return RT_OK;
}

static int64_t free_memory(void)
{
    return INT64_MAX;
}

static enum rt_status take_descriptors(struct rt_model **out, const char *dir,
                                       const struct rt_model_options *options, struct rt_error *err)
{
    struct rlimit none;
    (void)dir, (void)options, (void)err;
    getrlimit(RLIMIT_NOFILE, &none);
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    *out = calloc(1, sizeof **out);
    return *out ? RT_OK : RT_RESOURCE_EXHAUSTED;
}

static void free_model(struct rt_model *model)
{
    free(model);
}

static const struct srv_model_calls greedy_calls = {.is_complete = is_always_complete,
                                                    .free_memory = free_memory,
                                                    .load = take_descriptors,
                                                    .free = free_model};

/* A load whose run waits until it is cancelled. */
static enum rt_status wait_in_a_run(struct rt_model **out, const char *dir,
                                    const struct rt_model_options *options, struct rt_error *err)
{
    (void)out, (void)dir;
    atomic_fetch_add(&n_begun, 1);
    const enum rt_status st = options->on_wait->begin(options->on_wait->arg, err);
    while (!st && !atomic_load(options->session.cancelled))
        usleep(WAIT_US);
    return st ? st : rt_fail(err, RT_CANCELLED, "cancelled");
}

static const struct srv_model_calls waiting_calls = {.is_complete = is_always_complete,
                                                     .free_memory = free_memory,
                                                     .load = wait_in_a_run,
                                                     .free = free_model};

/* The error and status of the load that ended first, whether its files changed, and the first
 * letter of its model's name. */
static struct rt_error first_err;
static bool first_changed;
static enum rt_status first_status;
static char first_model;
static atomic_bool has_first;

static void done(void *arg, struct srv_load *load)
{
    (void)arg;
    if (!atomic_exchange(&has_first, true)) {
        first_err = load->err;
        first_changed = load->changed;
        first_status = load->status;
        first_model = load->model[0];
    }
    free(load->dir);
    free(load);
    atomic_fetch_add(&n_done, 1);
}

static void begin_with(const struct srv_model_calls *with, int n_threads)
{
    struct rt_error err = {0};
    folder_make("a");
    folder_make("b");
    folder_make("c");
    assert_ok(srv_source_fingerprint(folder_path("a"), NULL, &seen, &err), &err);
    atomic_store(&held, true);
    loader = srv_loader_new(&server, with, n_threads, NULL, 0, done, NULL);
    assert_non_null(loader);
}

static void begin(int n_threads)
{
    begin_with(&calls, n_threads);
}

static struct srv_load *submit(const char *model, struct srv_load_rounds *rounds)
{
    struct srv_load *load = calloc(1, sizeof *load);
    load->model = model;
    load->dir = strdup(folder_path(model));
    load->before = seen;
    load->bf16 = SRV_NO;
    load->queued.rounds = rounds;
    srv_loader_submit(loader, load);
    return load;
}

static void wait_for(atomic_int *n, int value)
{
    while (atomic_load(n) < value)
        usleep(WAIT_US);
}

static int set_up(void **state)
{
    (void)state;
    folder_new();
    atomic_store(&rt_log_level, -1);
    memset(order, 0, sizeof order);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    memset(&c, 0, sizeof c);
    memset(many, 0, sizeof many);
    atomic_store(&n_named, 0);
    atomic_store(&has_first, false);
    atomic_store(&n_begun, 0);
    memset(n_begun_of, 0, sizeof n_begun_of);
    atomic_store(&n_done, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    atomic_store(&held, false);
    srv_loader_free(loader);
    folder_remove();
    return 0;
}

static void the_loads_of_two_models_take_turns(void **state)
{
    (void)state;
    begin(1);
    submit("a", &a);
    wait_for(&n_begun, 1);
    for (int i = 0; i < 4; i++)
        submit("a", &a);
    for (int i = 0; i < 3; i++)
        submit("b", &b);
    atomic_store(&held, false);
    wait_for(&n_done, 8);
    assert_string_equal(order, "abaababa"); /* the first load of b begins out of its turn */
}

/* Every earlier load needs a slot of a higher level, and no load ends. */
static void loads_that_never_end_keep_no_other_waiting(void **state)
{
    (void)state;
    begin(1);
    for (int i = 0; i < N_MANY; i++) {
        submit("a", &many[i]);
        srv_loader_advance(loader, LATE_NS);
    }
    submit("b", &b);
    for (; !atomic_load(&n_begun_of['b']); usleep(WAIT_US))
        assert_true(srv_loader_advance(loader, LATE_NS) < RT_NEVER);
    assert_int_equal(atomic_load(&n_done), 0);
}

/* Each level has one slot, and more loads are submitted than there are slots. One load is therefore
 * stopped, and begins again. */
static void a_stopped_load_begins_again(void **state)
{
    (void)state;
    begin(1);
    for (int i = 0; i <= SRV_LOAD_LEVELS; i++) {
        submit("a", &many[i]);
        for (; atomic_load(&n_begun) <= i; usleep(WAIT_US))
            srv_loader_advance(loader, LATE_NS);
    }
    for (; atomic_load(&n_begun) < 3 * SRV_LOAD_LEVELS; usleep(WAIT_US))
        srv_loader_advance(loader, LATE_NS);
    assert_int_equal(atomic_load(&n_done), 0);
    atomic_store(&held, false);
    wait_for(&n_done, SRV_LOAD_LEVELS + 1);
    assert_fails(first_err.code, RT_UNIMPLEMENTED, &first_err, "this test needs no model");
}

/* The loads of the fixture use no processor time. The time since a load began also counts against
 * its slice. */
static void a_load_makes_way_only_after_its_slice(void **state)
{
    (void)state;
    begin(1);
    submit("a", &a);
    wait_for(&n_begun, 1);
    assert_true(srv_loader_advance(loader, LATE_NS) == RT_NEVER);
    submit("b", &b);
    const int64_t now = rt_now_ns(), due = srv_loader_advance(loader, now);
    assert_true(due > now && due <= now + SRV_LOAD_SLICE_NS);
    assert_int_equal(atomic_load(&n_begun), 1);
    assert_true(srv_loader_advance(loader, LATE_NS) == RT_NEVER);
    wait_for(&n_begun, 2);
}

/* Each blocked load makes way after 20 ms, although it uses no processor time. If only 1/50 of its
 * time counted, "b" would begin after N_MANY seconds. */
static void blocked_loads_make_way_after_their_slices(void **state)
{
    (void)state;
    begin(1);
    for (int i = 0; i < N_MANY; i++)
        submit("a", &many[i]);
    submit("b", &b);
    const int64_t begin_ns = rt_now_ns();
    for (; !atomic_load(&n_begun_of['b']); usleep(WAIT_US))
        srv_loader_advance(loader, rt_now_ns());
    assert_true(rt_now_ns() - begin_ns < N_MANY * INT64_C(1000000000) / 2);
}

/* A load whose run says that it waits lets the next load begin at once, without the manager. */
static void loads_whose_runs_wait_give_up_their_slots(void **state)
{
    (void)state;
    struct srv_load *loads[N_MANY];
    begin_with(&waiting_calls, 1);
    for (int i = 0; i < N_MANY; i++)
        loads[i] = submit("a", &many[i]);
    wait_for(&n_begun, 1 + SRV_LOAD_MAX_ASIDE);
    /* When their slices have been used, others take their places. */
    for (; atomic_load(&n_begun) < N_MANY; usleep(WAIT_US))
        srv_loader_advance(loader, rt_now_ns());
    for (int i = 0; i < N_MANY; i++)
        srv_loader_cancel(loader, loads[i]);
    wait_for(&n_done, N_MANY);
    assert_int_equal(first_status, RT_CANCELLED);
}

static void a_load_that_waits_ends_as_soon_as_it_is_cancelled(void **state)
{
    (void)state;
    begin(1);
    submit("a", &a);
    wait_for(&n_begun, 1);
    struct srv_load *waits = submit("b", &b);
    srv_loader_cancel(loader, waits);
    assert_int_equal(atomic_load(&n_done), 1);
    assert_int_equal(first_model, 'b');
    assert_int_equal(first_status, RT_CANCELLED);
}

static void a_load_that_runs_ends_when_it_is_cancelled(void **state)
{
    (void)state;
    begin(1);
    struct srv_load *runs = submit("a", &a);
    wait_for(&n_begun, 1);
    srv_loader_cancel(loader, runs);
    wait_for(&n_done, 1);
    assert_int_equal(first_status, RT_CANCELLED);
}

/* A directory that cannot be listed after the load is not reported as changed. */
static void a_load_that_cannot_be_checked_says_why(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    begin_with(&greedy_calls, 1);
    submit("a", &a);
    wait_for(&n_done, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(first_changed);
    assert_fails(first_err.code, RT_UNAVAILABLE, &first_err, "/a: Too many open files");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_loads_of_two_models_take_turns),
        TEST(loads_that_never_end_keep_no_other_waiting),
        TEST(a_stopped_load_begins_again),
        TEST(a_load_makes_way_only_after_its_slice),
        TEST(blocked_loads_make_way_after_their_slices),
        TEST(loads_whose_runs_wait_give_up_their_slots),
        TEST(a_load_that_waits_ends_as_soon_as_it_is_cancelled),
        TEST(a_load_that_runs_ends_when_it_is_cancelled),
        TEST(a_load_that_cannot_be_checked_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
