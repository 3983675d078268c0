/* Tests the configuration of models in Triton's repositories. */
#include "server/triton/triton_labels.h"

#include <stdlib.h>
#include <string.h>

#include "server/batching/scheduler_core.h"
#include "server/versions/source.h"
#include "tests/support/folder.h"
#include "tests/support/test.h"

static struct rt_error err;
static struct srv_triton *t;

static int setup(void **state)
{
    (void)state;
    folder_new();
    err = (struct rt_error){0};
    t = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    srv_triton_free(t);
    folder_remove();
    return 0;
}

static void parse(const char *text)
{
    srv_triton_free(t);
    t = NULL;
    assert_ok(srv_triton_parse(rt_span_str(text), "dir/config.pbtxt", &t, &err), &err);
}

static void refuse(const char *text, const char *words)
{
    assert_int_equal(srv_triton_parse(rt_span_str(text), "dir/config.pbtxt", &t, &err),
                     RT_INVALID_ARGUMENT);
    assert_null(t);
    assert_string_equal(rt_error_text(&err), words);
}

static struct srv_batching batching(enum srv_batching_mode mode)
{
    struct srv_batching b = {.mode = mode,
                             .max_batch_size = 100,
                             .max_execution_batch_size = 100,
                             .max_enqueued_batches = 10,
                             .n_sizes = 1,
                             .sizes = {100}};
    srv_triton_batching(t, &b);
    return b;
}

static void a_configuration_without_max_batch_size_leaves_the_batching_alone(void **state)
{
    (void)state;
    parse("dynamic_batching { max_queue_delay_microseconds: 5 }");
    assert_string_equal(t->ignored, "dynamic_batching without max_batch_size (line 1)");
    const struct srv_batching b = batching(SRV_BATCHING_ALL);
    assert_int_equal(b.max_batch_size, 100);
    assert_int_equal(b.n_sizes, 1);
    assert_false(b.limits_rows);
    assert_true(srv_batching_is_for_all(&b, "any"));
}

static void max_batch_size_limits_requests_and_keeps_how_they_are_merged(void **state)
{
    (void)state;
    parse("max_batch_size: 8");
    const struct srv_batching b = batching(SRV_BATCHING_ROW_WISE);
    assert_int_equal(b.mode, SRV_BATCHING_ROW_WISE);
    assert_int_equal(b.max_batch_size, 8);
    assert_true(b.limits_rows);
    assert_int_equal(b.n_sizes, 0);
    assert_string_equal(b.signature, "serving_default");
    assert_true(srv_batching_merges(&b, "serving_default", true));
    assert_false(srv_batching_merges(&b, "serving_default", false));
}

static void dynamic_batching_merges_the_model_s_signature_alone(void **state)
{
    (void)state;
    parse("max_batch_size: 8 dynamic_batching { preferred_batch_size: [8, 2] "
          "max_queue_delay_microseconds: 18446744073709551615 }"
          "parameters { key: \"TF_SIGNATURE_DEF\" value { string_value: \"s\" } }");
    struct srv_core_policy policy;
    struct srv_batching b = batching(SRV_BATCHING_ROW_WISE);
    assert_true(srv_batching_merges(&b, "s", false));
    assert_false(srv_batching_merges(&b, "other", false));
    assert_true(srv_batching_merges(&b, "other", true));
    srv_core_policy_of(&b, &policy);
    assert_true(policy.fixed);
    assert_true(policy.timeout_ns == INT64_MAX);
    assert_int_equal(policy.max_queue_batches, 0);
    assert_int_equal(policy.n_preferred, 2);
    assert_int_equal(policy.preferred[0], 2);
    assert_int_equal(policy.preferred[1], 8);
    b = batching(SRV_BATCHING_OFF);
    assert_false(srv_batching_merges(&b, "s", true));
    assert_true(b.limits_rows);
}

static struct srv_triton_gpus gpus_of(const char *text, int n_gpus)
{
    struct srv_triton_gpus gpus;
    parse(text);
    assert_ok(srv_triton_gpus(t, n_gpus, &gpus, &err), &err);
    return gpus;
}

static void instance_groups_choose_gpus(void **state)
{
    (void)state;
    assert_false(gpus_of("", 4).is_set);
    struct srv_triton_gpus g =
        gpus_of("instance_group { kind: KIND_GPU count: 2 gpus: [ 0, 2 ] }", 4);
    assert_true(g.is_set && g.needs_gpu && !g.has_cpu && !g.is_uneven);
    assert_int_equal(g.allowed, 1 << 0 | 1 << 2);
    assert_int_equal(g.instances, 2); /* on each GPU */
    /* The counts of groups are added, those of passive groups are not. */
    g = gpus_of("instance_group { count: 1 gpus: 1 } instance_group { count: 2 gpus: [ 1, 3 ] }"
                "instance_group { count: 9 gpus: 0 passive: true }"
                "instance_group { count: 9 kind: KIND_CPU }",
                4);
    assert_true(g.is_set && g.needs_gpu && g.has_cpu && g.is_uneven);
    assert_int_equal(g.allowed, 1 << 1 | 1 << 3);
    assert_int_equal(g.instances, 3);
    /* A group without GPUs uses all, and one without a count sets no limit. */
    g = gpus_of("instance_group { kind: KIND_GPU }", 3);
    assert_true(g.needs_gpu && !g.is_uneven);
    assert_int_equal(g.allowed, 7);
    assert_int_equal(g.instances, 0);
    g = gpus_of("instance_group { count: 2 }", 2);
    assert_true(g.is_set && !g.needs_gpu);
    assert_int_equal(g.instances, 2);
    g = gpus_of("instance_group { kind: KIND_CPU count: 2 }", 2);
    assert_true(g.is_set && g.has_cpu);
    assert_int_equal(g.allowed, 0);
    /* Without GPUs, the CPU serves the model. */
    g = gpus_of("instance_group { kind: KIND_GPU gpus: 5 }", 0);
    assert_true(g.is_set && g.needs_gpu);
    assert_int_equal(g.allowed, 0);
    parse("instance_group { gpus: 0 }\ninstance_group { gpus: [ 1, 2 ] }");
    assert_int_equal(srv_triton_gpus(t, 2, &g, &err), RT_INVALID_ARGUMENT);
    assert_string_equal(rt_error_text(&err), "dir/config.pbtxt:2:18: gpus: the server uses no GPU "
                                             "2; it uses 2 GPUs, numbered from 0");
    err = (struct rt_error){0};
    parse("instance_group { gpus: -1 }");
    assert_int_equal(srv_triton_gpus(t, 2, &g, &err), RT_INVALID_ARGUMENT);
    srv_triton_free(t);
    t = NULL;
    err = (struct rt_error){0};
    refuse("instance_group { kind: KIND_CPU gpus: 0 }",
           "dir/config.pbtxt:1:33: gpus: only groups of KIND_GPU or KIND_AUTO have GPUs");
}

static void the_queue_and_the_instances_have_limits(void **state)
{
    (void)state;
    parse("max_batch_size: 1 dynamic_batching { priority_levels: 5 default_priority_level: 4 "
          "default_queue_policy { default_timeout_microseconds: 7 max_queue_size: 3 } }"
          "instance_group { count: 2 } instance_group { count: 3 passive: true }"
          "instance_group { count: 1 kind: KIND_CPU }");
    struct srv_core_policy policy;
    const struct srv_batching b = batching(SRV_BATCHING_ROW_WISE);
    srv_core_policy_of(&b, &policy);
    assert_int_equal(b.n_levels, 5);
    assert_int_equal(policy.level, 4);
    assert_int_equal(policy.max_queued_ns, 7000);
    assert_int_equal(policy.max_jobs, 3);
    assert_int_equal(policy.max_running, 3);
    assert_false(t->on_cpu);
    parse("instance_group { kind: KIND_CPU }");
    assert_true(t->on_cpu);
    assert_int_equal(t->n_instances, 0);
    parse("max_batch_size: 1 dynamic_batching {\n default_queue_policy {\n timeout_action: DELAY\n"
          " default_timeout_microseconds: 7 } }");
    assert_int_equal(batching(SRV_BATCHING_ROW_WISE).max_queue_micros, 0);
    assert_string_equal(t->ignored, "timeout_action: DELAY (line 3)");
}

static void the_version_policy_replaces_that_of_the_model(void **state)
{
    (void)state;
    struct srv_model_config m = {.policy = SRV_POLICY_LATEST, .n_latest = 1};
    parse("max_batch_size: 1 version_policy { }");
    srv_triton_policy(t, &m);
    assert_int_equal(m.policy, SRV_POLICY_LATEST);
    assert_int_equal(m.n_latest, 1);
    parse("version_policy { latest { num_versions: 4294967295 } }");
    srv_triton_policy(t, &m);
    assert_int_equal(m.n_latest, UINT32_MAX);
    parse("version_policy { specific { versions: [5, 3] } }");
    srv_triton_policy(t, &m);
    assert_int_equal(m.policy, SRV_POLICY_SPECIFIC);
    assert_int_equal(m.n_specific, 2);
    assert_int_equal(m.specific[1], 3);
    parse("version_policy { all { } }");
    srv_triton_policy(t, &m);
    assert_int_equal(m.policy, SRV_POLICY_ALL);
}

static void a_refusal_names_the_file_the_position_and_the_field(void **state)
{
    (void)state;
    refuse("\n\n  sequence_batching { what: ever",
           "dir/config.pbtxt:3:3: sequence_batching: this server has no sequences");
    refuse("max_batch_size: 2\nplatform: \"onnxruntime_onnx\"",
           "dir/config.pbtxt:2:1: platform: this server serves tensorflow_savedmodel, not "
           "onnxruntime_onnx");
    refuse("parameters [\n { key: \"TF_INIT_OPS_FILE\" value { string_value: \"f\" } } ]",
           "dir/config.pbtxt:1:1: parameters: TF_INIT_OPS_FILE: only the SavedModel's own init op "
           "runs");
    refuse("no_field: 1", "dir/config.pbtxt:1:9: Message type \"inference.ModelConfig\" has no "
                          "field named \"no_field\".");
}

static void a_configuration_belongs_to_versions_in_model_savedmodel(void **state)
{
    (void)state;
    assert_int_equal(srv_triton_base_length("/r/m/1/model.savedmodel"), 4);
    assert_int_equal(srv_triton_base_length("/r/m/1"), 0);
    assert_int_equal(srv_triton_base_length("/model.savedmodel"), 0);
    assert_int_equal(srv_triton_base_length("model.savedmodel"), 0);
    folder_write("m/config.pbtxt", "max_batch_size: 3");
    folder_make("m/1/model.savedmodel");
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/1/model.savedmodel", folder_path("m"));
    assert_ok(srv_triton_read_for(dir, &t, &err), &err);
    assert_int_equal(batching(SRV_BATCHING_ROW_WISE).max_batch_size, 3);
    srv_triton_free(t);
    assert_ok(srv_triton_read_for(folder_path("m"), &t, &err), &err);
    assert_null(t);
    snprintf(dir, sizeof dir, "%s/none", folder_path("m"));
    assert_ok(srv_triton_read(dir, &t, &err), &err);
    assert_null(t);
}

static void a_fingerprint_contains_the_configuration(void **state)
{
    (void)state;
    struct srv_fingerprint before, after;
    char nested[4096], plain[4096];
    folder_make("m/1/model.savedmodel");
    folder_make("m/2");
    snprintf(nested, sizeof nested, "%s/1/model.savedmodel", folder_path("m"));
    snprintf(plain, sizeof plain, "%s/2", folder_path("m"));
    int64_t bytes;
    assert_true(srv_source_triton_hash(folder_path("m"), &bytes) == 0);
    assert_int_equal(bytes, 0);
    assert_ok(srv_source_fingerprint(nested, NULL, &before, &err), &err);
    folder_write("m/config.pbtxt", "max_batch_size: 3");
    const uint64_t hash = srv_source_triton_hash(folder_path("m"), &bytes);
    assert_true(hash != 0);
    assert_int_equal(bytes, 17);
    assert_ok(srv_source_fingerprint(nested, NULL, &after, &err), &err);
    assert_false(srv_fingerprint_eq(&before, &after));
    assert_ok(srv_source_fingerprint(plain, NULL, &before, &err), &err);
    folder_write("m/config.pbtxt", "max_batch_size: 33");
    assert_true(srv_source_triton_hash(folder_path("m"), &bytes) != hash);
    assert_ok(srv_source_fingerprint(plain, NULL, &after, &err), &err);
    assert_true(srv_fingerprint_eq(&before, &after));
}

static void labels_are_the_lines_of_a_file(void **state)
{
    (void)state;
    struct srv_triton_labels l = {.n = 0};
    static const struct {
        const char *text;
        int n;
        const char *label[3];
    } cases[] = {{"", 0, {NULL}},
                 {"\n", 1, {""}},
                 {"a\r\n\nb: c", 3, {"a", "", "b: c"}},
                 {"a\n", 1, {"a"}},
                 {"\r", 1, {""}}};
    parse("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(srv_triton_parse_labels(rt_span_str(cases[i].text), t->arena, &l, &err), &err);
        assert_int_equal(l.n, cases[i].n);
        for (int k = 0; k < l.n; k++)
            assert_true(rt_span_is(srv_triton_label(&l, k), cases[i].label[k]));
        assert_int_equal(srv_triton_label(&l, l.n).n, 0);
    }
    assert_int_equal(srv_triton_label(NULL, 0).n, 0);
    static char many[2 << 20];
    memset(many, 'x', 1026);
    assert_int_equal(srv_triton_parse_labels(rt_span_of(many, 1025), t->arena, &l, &err),
                     RT_INVALID_ARGUMENT);
    assert_string_equal(rt_error_text(&err), "line 1 has more than 1024 bytes");
    memset(many, '\n', sizeof many);
    assert_int_equal(srv_triton_parse_labels(rt_span_of(many, sizeof many), t->arena, &l, &err),
                     RT_INVALID_ARGUMENT);
    assert_string_equal(rt_error_text(&err), "the file has more than 1048576 lines");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_configuration_without_max_batch_size_leaves_the_batching_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(
            max_batch_size_limits_requests_and_keeps_how_they_are_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(dynamic_batching_merges_the_model_s_signature_alone, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(instance_groups_choose_gpus, setup, teardown),
        cmocka_unit_test_setup_teardown(the_queue_and_the_instances_have_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(the_version_policy_replaces_that_of_the_model, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_refusal_names_the_file_the_position_and_the_field, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_fingerprint_contains_the_configuration, setup, teardown),
        cmocka_unit_test_setup_teardown(a_configuration_belongs_to_versions_in_model_savedmodel,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(labels_are_the_lines_of_a_file, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
