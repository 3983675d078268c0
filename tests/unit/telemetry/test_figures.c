/* Tests the figures of the serving versions, which come from a manager that the test replaces. */
#include "tests/support/test.h"

#include "kernels/kernels.h"
#include "server/batching/scheduler.h"
#include "server/metrics/metrics_cells.h"
#include "server/telemetry/figures.h"
#include "server/versions/manager.h"

static struct world {
    struct srv_server server;
    struct rt_registry *ops;
    struct rt_model *loaded;
    int n;
    struct srv_version versions[100];
    char names[100][8];
    int n_looked;
} world;

/* Replaces the function of manager.c. */
bool srv_manager_look(struct srv_manager *m, bool (*look)(void *arg, const struct srv_version *v),
                      void *arg)
{
    assert_ptr_equal(m, &world);
    for (world.n_looked = 0; world.n_looked < world.n;)
        if (look(arg, &world.versions[world.n_looked++]))
            return true;
    return false;
}

/* Replaces the function of the scheduler. */
int srv_model_queue_jobs(struct srv_model_queue *q)
{
    return q == (const void *)&world ? 17 : -1;
}

static int set_up(void **state)
{
    struct rt_error err = {0};
    (void)state;
    memset(&world, 0, sizeof world);
    world.ops = rt_registry_new();
    assert_true(world.ops && kn_register(world.ops));
    const struct rt_model_options options = {.session = {.registry = world.ops}};
    assert_ok(rt_model_load(&world.loaded, "models/half_plus_two/2", &options, &err), &err);
    world.loaded->weight_bytes = 1234;
    world.server.manager = (struct srv_manager *)&world;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < world.n; i++)
        if (world.versions[i].metrics)
            srv_metrics_drop_version(world.server.metrics, world.versions[i].metrics);
    srv_metrics_free(world.server.metrics);
    rt_model_free(world.loaded);
    rt_registry_free(world.ops);
    return 0;
}

static struct srv_version *add(const char *model, int64_t version)
{
    struct srv_version *v = &world.versions[world.n];
    char *name = world.names[world.n++];
    snprintf(name, sizeof world.names[0], "%s", model);
    *v = (struct srv_version){.model = name, .version = version, .loaded = world.loaded};
    return v;
}

static void versions_come_in_their_order_with_what_they_hold(void **state)
{
    (void)state;
    struct srv_all_figures all;
    add("a", 1);
    struct srv_version *queued = add("a", 2);
    queued->model_queue = (struct srv_model_queue *)&world;
    queued->gpu.full_precision = true;
    add("b", 1);
    srv_figures_read(&world.server, false, 100, &all);
    assert_int_equal(all.n, 3);
    assert_int_equal(all.n_models, 2);
    assert_false(all.no_memory);
    assert_string_equal(all.of[0].model, "a");
    assert_string_equal(all.of[1].model, "a");
    assert_string_equal(all.of[2].model, "b");
    assert_int_equal(all.of[0].version, 1);
    assert_int_equal(all.of[1].version, 2);
    assert_int_equal(all.of[0].n_queued, 0);
    assert_int_equal(all.of[1].n_queued, 17);
    assert_int_equal(all.of[1].weight_bytes, 1234);
    assert_false(all.of[0].gpu_full_precision);
    assert_true(all.of[1].gpu_full_precision);
    /* The names are copies, because the versions may be freed. */
    memset(world.names, 'x', sizeof world.names);
    assert_string_equal(all.of[2].model, "b");
    srv_figures_clear(&all);
}

static void no_more_versions_are_read_than_wanted(void **state)
{
    (void)state;
    struct srv_all_figures all;
    for (int i = 0; i < 100; i++)
        add(i < 50 ? "a" : "b", i);
    srv_figures_read(&world.server, false, 70, &all);
    assert_int_equal(all.n, 70);
    assert_int_equal(world.n_looked, 70);
    for (int i = 0; i < 70; i++)
        assert_int_equal(all.of[i].version, i);
    srv_figures_clear(&all);
    srv_figures_read(&world.server, false, 200, &all);
    assert_int_equal(all.n, 100);
    assert_int_equal(all.n_models, 2);
    srv_figures_clear(&all);
}

static void statistics_are_read_only_if_wanted(void **state)
{
    (void)state;
    struct srv_all_figures all;
    const char *const signatures[] = {"serving_default"};
    atomic_size_t bytes = 0;
    struct srv_version *v = add("a", 1);
    world.server.metrics = srv_metrics_new(1, 1);
    assert_non_null(world.server.metrics);
    v->metrics = srv_metrics_version(world.server.metrics, "a", 1, 1, signatures);
    assert_non_null(v->metrics);
    add("b", 1); /* a version without metrics */
    for (int i = 0; i < 3; i++)
        srv_last_errors_add(&v->metrics->model->errors, &bytes, &(struct srv_last_error){0}, "no");
    srv_figures_read(&world.server, false, 100, &all);
    assert_false(all.has_statistics);
    assert_int_equal(all.of[0].n_errors, 0);
    srv_figures_clear(&all);
    srv_figures_read(&world.server, true, 100, &all);
    assert_true(all.has_statistics);
    assert_int_equal(all.of[0].n_errors, 3);
    assert_int_equal(all.of[0].statistics.rows, 0);
    assert_int_equal(all.of[1].n_errors, 0);
    srv_figures_clear(&all);
}

static void without_a_manager_there_are_none(void **state)
{
    (void)state;
    struct srv_all_figures all;
    add("a", 1);
    world.server.manager = NULL;
    srv_figures_read(&world.server, true, 100, &all);
    assert_int_equal(all.n, 0);
    assert_false(all.no_memory);
    srv_figures_clear(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(versions_come_in_their_order_with_what_they_hold, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_more_versions_are_read_than_wanted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(statistics_are_read_only_if_wanted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_manager_there_are_none, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
