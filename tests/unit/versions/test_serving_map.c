/* Tests how a request's model, version and label select a version of the serving map. */
#include "tests/support/test.h"

#include "server/base/serving_map.h"
#include "server/protocol/tfs/model_spec.h"

static struct srv_model_spec named(const char *name)
{
    return (struct srv_model_spec){.name = rt_span_str(name)};
}

static void the_map_finds_by_name_version_and_label(void **state)
{
    (void)state;
    struct srv_version v3 = {.version = 3}, v1 = {.version = 1}, *found;
    struct srv_version *const both[] = {&v3, &v1};
    const struct srv_label labels[] = {{"stable", 1}, {"gone", 2}};
    const struct srv_map_model models[] = {
        {.name = "a"},
        {.name = "half", .n_versions = 2, .versions = both, .n_labels = 2, .labels = labels},
        {.name = "halves"},
    };
    const struct srv_map map = {3, models};
    struct rt_error err = {0};
    struct srv_model_spec spec = named("half");

    assert_ok(srv_map_find(&map, &spec, &found, &err), &err);
    assert_ptr_equal(found, &v3);
    spec.has_version = true;
    spec.version = 1;
    assert_ok(srv_map_find(&map, &spec, &found, &err), &err);
    assert_ptr_equal(found, &v1);
    spec.version = 5;
    assert_fails(srv_map_find(&map, &spec, &found, &err), RT_NOT_FOUND, &err,
                 "Servable not found for request: Specific(half, 5)");
    spec = named("half");
    spec.label = rt_span_str("stable");
    assert_ok(srv_map_find(&map, &spec, &found, &err), &err);
    assert_ptr_equal(found, &v1);
    spec.label = rt_span_str("gone");
    assert_fails(srv_map_find(&map, &spec, &found, &err), RT_NOT_FOUND, &err, "Specific(half, 2)");
    spec.label = rt_span_str("canary");
    assert_fails(srv_map_find(&map, &spec, &found, &err), RT_INVALID_ARGUMENT, &err,
                 "Unrecognized servable version label: canary");
    spec = named("hal");
    assert_fails(srv_map_find(&map, &spec, &found, &err), RT_NOT_FOUND, &err,
                 "Servable not found for request: Latest(hal)");
    spec.name = rt_span_of("half\0", 5);
    assert_fails(srv_map_find(&map, &spec, &found, &err), RT_NOT_FOUND, &err, "Latest(half");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_finds_by_name_version_and_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
