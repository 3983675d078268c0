/* Tests the functions that the protocols' steps share: sorted lists of names, signatures by name,
 * and dynamic callables. */
#include "tests/support/test.h"

#include "kernels/kernels.h"
#include "runtime/base/arena.h"
#include "server/inference/steps.h"

struct world {
    struct rt_registry *ops;
    struct srv_version version;
    struct rt_arena *arena;
    struct srv_job job;
    struct srv_inference inf;
    struct rt_error err;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->ops = rt_registry_new();
    assert_true(w->ops && kn_register(w->ops));
    const struct rt_model_options options = {.session = {.registry = w->ops}};
    assert_ok(rt_model_load(&w->version.loaded, "models/half_plus_two/2", &options, &w->err),
              &w->err);
    w->arena = rt_arena_new(1 << 20);
    assert_non_null(w->arena);
    w->err.arena = w->arena;
    w->job = (struct srv_job){.version = &w->version, .arena = w->arena};
    w->inf = (struct srv_inference){.arena = w->arena, .job = &w->job};
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    rt_model_free(w->version.loaded);
    rt_registry_free(w->ops);
    rt_arena_free(w->arena);
    free(w);
    return 0;
}

/* ---- lists of names ---- */

static void names_are_sorted_and_kept_once(void **state)
{
    (void)state;
    const char *names[] = {"b", "a:1", "b", "", "a", "a:1", "b"};
    const char *const want[] = {"", "a", "a:1", "b"};

    assert_int_equal(srv_sort_names(names, 7), 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(names[i], want[i]);
    assert_int_equal(srv_sort_names(NULL, 0), 0);
}

static void places_in_a_sorted_list_are_found(void **state)
{
    (void)state;
    const char *const sorted[] = {"a", "b", "c", "d"};

    for (int i = 0; i < 4; i++)
        assert_int_equal(srv_place_of(sorted, 4, sorted[i]), i);
    assert_int_equal(srv_place_of(sorted, 4, ""), -1);
    assert_int_equal(srv_place_of(sorted, 4, "bb"), -1);
    assert_int_equal(srv_place_of(sorted, 4, "e"), -1);
    assert_int_equal(srv_place_of(sorted, 3, "d"), -1);
    assert_int_equal(srv_place_of(sorted, 0, "a"), -1);
}

/* ---- signatures ---- */

static void signatures_are_found_by_name(void **state)
{
    struct world *w = *state;
    const struct rt_model_signature *sig = NULL;

    assert_ok(srv_inference_signature(&w->inf, rt_span_of(NULL, 0), &sig, RT_INVALID_ARGUMENT, "%s",
                                      &w->err),
              &w->err);
    assert_string_equal(sig->def->name, "serving_default");
    assert_fails(srv_inference_signature(&w->inf, rt_span_str("absent"), &sig, RT_NOT_FOUND,
                                         "there is no %s", &w->err),
                 RT_NOT_FOUND, &w->err, "there is no absent");
}

/* ---- dynamic callables ---- */

static void a_dynamic_callable_is_prepared_once(void **state)
{
    struct world *w = *state;
    const struct rt_model_signature *sig;
    assert_ok(srv_inference_signature(&w->inf, rt_span_of(NULL, 0), &sig, RT_INVALID_ARGUMENT, "%s",
                                      &w->err),
              &w->err);
    const char *const feeds[] = {sig->def->inputs[0].name};
    const char *const fetches[] = {sig->def->outputs[0].name};
    const struct rt_call_spec spec = {
        .feeds = feeds, .fetches = fetches, .n_feeds = 1, .n_fetches = 1, .is_client_named = true};

    assert_ok(srv_inference_dynamic(&w->inf, &spec, NULL, &w->err), &w->err);
    assert_non_null(w->job.prepare);
    assert_true(w->job.signature->is_dynamic);
    assert_int_equal(w->job.signature->def->n_inputs, 1);
    assert_int_equal(w->job.signature->def->n_outputs, 1);
    assert_null(w->job.signature->call);
    assert_ok(w->job.prepare(&w->job), &w->job.err);
    assert_non_null(w->job.signature->call);

    /* The next request for the same tensors finds the callable. */
    const struct rt_model_signature *first = w->job.signature;
    w->job.signature = NULL;
    w->job.prepare = NULL;
    assert_ok(srv_inference_dynamic(&w->inf, &spec, NULL, &w->err), &w->err);
    assert_ptr_equal(w->job.signature, first);
    assert_null(w->job.prepare);
}

static void a_dynamic_callable_that_fails_is_still_to_be_prepared(void **state)
{
    struct world *w = *state;
    const char *const fetches[] = {"no such node:0"};
    const struct rt_call_spec spec = {.fetches = fetches, .n_fetches = 1, .is_client_named = true};

    assert_ok(srv_inference_dynamic(&w->inf, &spec, NULL, &w->err), &w->err);
    assert_non_null(w->job.prepare);
    w->job.err.arena = w->arena;
    assert_true(w->job.prepare(&w->job) != RT_OK);
    assert_non_null(strstr(rt_error_text(&w->job.err), "no such node"));
    assert_non_null(w->job.prepare);
    assert_ok(srv_inference_dynamic(&w->inf, &spec, NULL, &w->err), &w->err);
    assert_non_null(w->job.prepare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_sorted_and_kept_once),
        cmocka_unit_test(places_in_a_sorted_list_are_found),
        cmocka_unit_test_setup_teardown(signatures_are_found_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dynamic_callable_is_prepared_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dynamic_callable_that_fails_is_still_to_be_prepared,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
