/* Tests the order in which the loader begins the loads that wait, and how a load ends. */
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

enum { CHEAP = 1000000, WAIT_US = 1000 };
#define COSTLY (10 * SRV_LOAD_CHEAP_NS)

static struct srv_server server;
static struct srv_loader *loader;
static struct srv_fingerprint seen;
static atomic_bool held;           /* while true, loads wait until they are cancelled */
static atomic_int n_begun, n_done; /* numbers of loads that have begun and ended */
static char order[512];            /* first letter of each load's directory, in load order */
static atomic_int n_named;         /* number of letters in `order` */
/* The histories of the models "a", "b" and "c", and of several models with one of these names. They
 * outlive the loads, which may run until the tear-down. */
static struct srv_load_history a, b, c, many[SRV_LOAD_MAX_RUNNING];

static enum rt_status is_complete(const char *dir, const char *const *tags, int n_tags,
                                  const struct rt_check *check, int64_t *weight_bytes,
                                  struct rt_error *err)
{
    (void)tags, (void)n_tags;
    order[atomic_fetch_add(&n_named, 1)] = strrchr(dir, '/')[1];
    atomic_fetch_add(&n_begun, 1);
    while (atomic_load(&held) && !check->check(check->arg, err))
        usleep(WAIT_US);
    *weight_bytes = 0;
    return rt_fail(err, RT_UNIMPLEMENTED, "this test needs no model");
}

static const struct srv_model_calls calls = {.is_complete = is_complete};

/* The calls of a model that loads at once and leaves no descriptor to the process. */
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

/* The error of the load that ended first, whether its files changed, and the first letter of its
 * model's name. */
static struct rt_error first_err;
static bool first_changed;
static char first_model;
static atomic_bool has_first;

static void done(void *arg, struct srv_load *load)
{
    (void)arg;
    if (!atomic_exchange(&has_first, true)) {
        first_err = load->err;
        first_changed = load->changed;
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

static void submit(const char *model, struct srv_load_history *history, int64_t list_cost_ns)
{
    struct srv_load *load = calloc(1, sizeof *load);
    load->model = model;
    load->dir = strdup(folder_path(model));
    load->before = seen;
    load->bf16 = SRV_NO;
    load->list_cost_ns = list_cost_ns;
    load->history = history;
    srv_loader_submit(loader, load);
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
    submit("a", &a, CHEAP);
    wait_for(&n_begun, 1);
    for (int i = 0; i < 4; i++)
        submit("a", &a, CHEAP);
    for (int i = 0; i < 3; i++)
        submit("b", &b, CHEAP);
    atomic_store(&held, false);
    wait_for(&n_done, 8);
    assert_string_equal(order, "abababaa");
}

static void costly_loads_of_many_models_come_after_a_cheap_one(void **state)
{
    (void)state;
    begin(1);
    submit("a", &many[0], COSTLY);
    wait_for(&n_begun, 1);
    for (int i = 1; i < 6; i++)
        submit("a", &many[i], COSTLY);
    submit("b", &b, CHEAP);
    atomic_store(&held, false);
    wait_for(&n_done, 7);
    assert_string_equal(order, "abaaaaa");
}

/* The costly load's interval ends just before that of the tenth load of "a", which is submitted
 * later. */
static void a_costly_load_has_its_turn(void **state)
{
    (void)state;
    a.cost_ns = b.cost_ns = 1;
    begin(1);
    submit("a", &a, CHEAP);
    wait_for(&n_begun, 1);
    submit("b", &b, 10 * CHEAP);
    for (int i = 0; i < 20; i++)
        submit("a", &a, CHEAP);
    atomic_store(&held, false);
    wait_for(&n_done, 22);
    assert_int_equal(strchr(order, 'b') - order, 9);
}

static void costly_loads_leave_a_slot_to_cheap_ones(void **state)
{
    (void)state;
    begin(2);
    for (int i = 0; i < 3; i++)
        submit("a", &a, COSTLY);
    wait_for(&n_begun, 1);
    submit("b", &b, CHEAP);
    wait_for(&n_begun, 2);
    assert_string_equal(order, "ab");
}

/* A costly load that does not end gives up its slot to another costly load, although a slot is
 * free. */
static void a_costly_load_that_never_ends_gives_way(void **state)
{
    (void)state;
    begin(2);
    submit("a", &a, COSTLY);
    wait_for(&n_begun, 1);
    assert_true(srv_loader_relieve(loader, rt_now_ns()) == RT_NEVER);
    submit("c", &c, COSTLY);
    const int64_t due_ns = srv_loader_relieve(loader, rt_now_ns());
    assert_true(due_ns < RT_NEVER);
    srv_loader_relieve(loader, due_ns);
    wait_for(&n_begun, 2);
    assert_string_equal(order, "ac");
}

/* The cost of a model's first load is unknown, and that of its next load is the cost of the first.
 */
static void a_model_that_loads_quickly_comes_before_new_ones(void **state)
{
    (void)state;
    begin(1);
    atomic_store(&held, false);
    submit("b", &b, CHEAP);
    wait_for(&n_done, 1);
    atomic_store(&held, true);
    for (int i = 0; i < 4; i++)
        submit("a", &many[i], CHEAP);
    wait_for(&n_begun, 2);
    submit("b", &b, CHEAP);
    atomic_store(&held, false);
    wait_for(&n_done, 6);
    assert_string_equal(order, "babaaa");
}

/* A load that has given up its slot is assumed to be slow when its model is loaded again. */
static void a_model_that_never_ends_comes_after_new_ones(void **state)
{
    (void)state;
    a.cost_ns = 1;
    begin(1);
    submit("a", &a, CHEAP);
    wait_for(&n_begun, 1);
    submit("b", &b, CHEAP);
    srv_loader_relieve(loader, srv_loader_relieve(loader, 0));
    wait_for(&n_begun, 2);
    submit("a", &a, CHEAP);
    for (int i = 0; i < 3; i++)
        submit("c", &many[i], CHEAP);
    atomic_store(&held, false);
    wait_for(&n_done, 6);
    assert_string_equal(order, "abccca");
}

/* As many loads as possible run, none of them ends, and another one waits. The load that began
 * first of the model with the most loads is stopped. */
static void a_load_that_never_ends_is_stopped(void **state)
{
    (void)state;
    begin(1);
    for (int i = 0; i < SRV_LOAD_MAX_RUNNING; i++) {
        const bool is_a = i == 1 || i == SRV_LOAD_MAX_RUNNING - 1;
        submit(is_a ? "a" : "c", is_a ? &a : &many[i], CHEAP);
        for (; atomic_load(&n_begun) <= i; usleep(WAIT_US))
            srv_loader_relieve(loader, rt_now_ns() + 2 * SRV_LOAD_PATIENCE_NS);
    }
    submit("b", &b, CHEAP);
    assert_int_equal(atomic_load(&n_done), 0);
    srv_loader_relieve(loader, rt_now_ns() + 2 * SRV_LOAD_PATIENCE_NS);
    wait_for(&n_done, 1);
    wait_for(&n_begun, SRV_LOAD_MAX_RUNNING + 1);
    assert_int_equal(order[SRV_LOAD_MAX_RUNNING], 'b');
    assert_int_equal(first_model, 'a');
    assert_fails(first_err.code, RT_RESOURCE_EXHAUSTED, &first_err, "the load was stopped after ");
    assert_int_equal(a.n_running, 1);
}

/* A directory that cannot be listed after the load is not reported as changed. */
static void a_load_that_cannot_be_checked_says_why(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    begin_with(&greedy_calls, 1);
    submit("a", &a, CHEAP);
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
        TEST(costly_loads_of_many_models_come_after_a_cheap_one),
        TEST(a_costly_load_has_its_turn),
        TEST(costly_loads_leave_a_slot_to_cheap_ones),
        TEST(a_costly_load_that_never_ends_gives_way),
        TEST(a_model_that_loads_quickly_comes_before_new_ones),
        TEST(a_model_that_never_ends_comes_after_new_ones),
        TEST(a_load_that_never_ends_is_stopped),
        TEST(a_load_that_cannot_be_checked_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
