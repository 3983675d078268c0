#include "tests/support/test.h"

#include "server/batching/scheduler_core.h"
#include "server/config/batching.h"
#include "tests/support/folder.h"

static struct srv_batching b;
static struct rt_error err;

static enum rt_status parse(const char *text)
{
    err = (struct rt_error){0};
    return srv_batching_parse(&b, rt_span_str(text), "batching.txt", &err);
}

static void expect_refused(const char *text, const char *reason)
{
    assert_int_equal(parse(text), RT_INVALID_ARGUMENT);
    assert_string_equal(rt_error_text(&err), reason);
}

static void an_empty_file_means_tensorflow_servings_defaults(void **state)
{
    (void)state;
    assert_ok(parse(""), &err);
    assert_int_equal(b.mode, SRV_BATCHING_ALL);
    assert_int_equal(b.max_batch_size, 1000);
    assert_int_equal(b.batch_timeout_micros, 0);
    assert_int_equal(b.max_enqueued_batches, 10);
    assert_int_equal(b.num_batch_threads, 0);
    assert_int_equal(b.n_sizes, 0);
    assert_false(b.pads);
    assert_false(b.splits_large);
    assert_int_equal(b.max_execution_batch_size, 1000);
}

static void every_parameter_is_read(void **state)
{
    (void)state;
    assert_ok(parse("max_batch_size { value: 128 }\n"
                    "batch_timeout_micros { value: 2000 }\n"
                    "max_enqueued_batches: { value: 100 }\n"
                    "num_batch_threads { value: 8 }\n"
                    "thread_pool_name { value: 'pool' }\n"
                    "allowed_batch_sizes: 8 allowed_batch_sizes: [32, 128]\n"
                    "pad_variable_length_inputs: true\n"
                    "enable_large_batch_splitting { value: true }\n"
                    "max_execution_batch_size { value: 64 }\n"),
              &err);
    assert_int_equal(b.max_batch_size, 128);
    assert_int_equal(b.batch_timeout_micros, 2000);
    assert_int_equal(b.max_enqueued_batches, 100);
    assert_int_equal(b.num_batch_threads, 8);
    assert_int_equal(b.n_sizes, 3);
    assert_int_equal(b.sizes[1], 32);
    assert_true(b.pads);
    assert_true(b.splits_large);
    assert_int_equal(b.max_execution_batch_size, 64);
    static struct srv_core_policy p;
    srv_core_policy_of(&b, &p);
    assert_int_equal(p.max_rows, 64);
    assert_int_equal(p.timeout_ns, 2000000);
    assert_int_equal(p.max_queue_batches, 100);
    assert_true(p.fixed);
    assert_int_equal(p.sizes[2], 128);
}

static void what_is_not_a_parameter_is_told_with_its_place(void **state)
{
    (void)state;
    assert_int_equal(parse("max_batch_size { value: 128 }\nmax_batch: 3\n"), RT_INVALID_ARGUMENT);
    assert_non_null(strstr(rt_error_text(&err), "Invalid protobuf file: 'batching.txt': 2:"));
    assert_non_null(strstr(rt_error_text(&err), "max_batch"));
    assert_int_equal(parse("max_batch_size: 128"), RT_INVALID_ARGUMENT);
}

static void parameters_that_cannot_be_are_refused_with_tensorflow_servings_texts(void **state)
{
    (void)state;
    expect_refused("allowed_batch_sizes: 2 allowed_batch_sizes: 4 max_batch_size { value: 8 }",
                   "Last entry in allowed_batch_sizes must match max_batch_size; last entry was "
                   "4; expected 8");
    expect_refused("allowed_batch_sizes: 4",
                   "Last entry in allowed_batch_sizes must match max_batch_size; last entry was "
                   "4; expected 1000");
    expect_refused("allowed_batch_sizes: [4, 4, 8] max_batch_size { value: 8 }",
                   "allowed_batch_sizes entries must be monotonically increasing");
    expect_refused("allowed_batch_sizes: [8, 1073741824] max_batch_size { value: 1073741824 }",
                   "allowed_batch_sizes has an entry of 1073741824, at most 1048576 is taken: a "
                   "batch is padded to it");
    assert_ok(parse("allowed_batch_sizes: [8, 1048576] max_batch_size { value: 1048576 }"), &err);
    assert_ok(parse("max_batch_size { value: 1073741824 }"), &err);
    expect_refused("batch_timeout_micros { value: -1 }",
                   "batch_timeout_micros must be non-negative; was -1");
    expect_refused("max_enqueued_batches { value: -1 }",
                   "max_enqueued_batches must be non-negative; was -1");
    expect_refused("num_batch_threads { value: 0 }", "num_batch_threads must be positive; was 0");
    expect_refused("max_batch_size { value: 0 }", "max_batch_size must be positive; was 0");
    assert_int_equal(
        parse("enable_large_batch_splitting { value: true } max_batch_size { value: 4 } "
              "max_execution_batch_size { value: 8 }"),
        RT_INVALID_ARGUMENT);
}

static void one_batch_may_always_wait(void **state)
{
    (void)state;
    assert_ok(parse("max_enqueued_batches { value: 0 }"), &err);
    assert_int_equal(b.max_enqueued_batches, 1);
}

static void the_flag_has_three_meanings(void **state)
{
    (void)state;
    struct srv_options o = {.max_batch_rows = 64};
    static struct srv_core_policy p;
    assert_ok(srv_batching_of_server(&b, &o, &err), &err);
    assert_int_equal(b.mode, SRV_BATCHING_ROW_WISE);
    srv_core_policy_of(&b, &p);
    assert_int_equal(p.max_rows, 64);
    assert_false(p.fixed);
    assert_int_equal(p.max_queue_batches, 0);
    o.enable_batching = SRV_NO;
    assert_ok(srv_batching_of_server(&b, &o, &err), &err);
    assert_int_equal(b.mode, SRV_BATCHING_OFF);
    o.enable_batching = SRV_YES;
    assert_ok(srv_batching_of_server(&b, &o, &err), &err);
    assert_int_equal(b.mode, SRV_BATCHING_ALL);
    assert_int_equal(b.max_batch_size, 1000);
    o.batching_parameters_file = "/nowhere/at/all";
    assert_int_equal(srv_batching_of_server(&b, &o, &err), RT_NOT_FOUND);
    assert_string_equal(rt_error_text(&err),
                        "--batching_parameters_file: /nowhere/at/all; No such file or directory");
}

static void a_version_may_bring_parameters_of_its_own(void **state)
{
    (void)state;
    static struct srv_batching server, own;
    struct srv_options o = {.enable_batching = SRV_YES};
    const char *dir = folder_new();
    assert_ok(parse("max_batch_size { value: 4 } num_batch_threads { value: 3 }"), &err);
    server = b;
    folder_write("batching_params.pbtxt",
                 "max_batch_size { value: 10 } num_batch_threads { value: 7 }");
    assert_ok(srv_batching_of_version(&own, &server, &o, dir, &err), &err);
    assert_int_equal(own.max_batch_size, 4); /* --enable_per_model_batching_parameters is off */
    o.enable_per_model_batching_parameters = true;
    assert_ok(srv_batching_of_version(&own, &server, &o, dir, &err), &err);
    assert_int_equal(own.mode, SRV_BATCHING_ALL);
    assert_int_equal(own.max_batch_size, 10);
    /* num_batch_threads keeps the server's value, because all versions share the batch threads. */
    assert_int_equal(own.num_batch_threads, 3);
    assert_ok(srv_batching_of_version(&own, &server, &o, "/nowhere", &err), &err);
    assert_int_equal(own.mode, SRV_BATCHING_OFF);
    folder_write("batching_params.pbtxt", "max_batch_size { value: -10 }");
    assert_int_equal(srv_batching_of_version(&own, &server, &o, dir, &err), RT_INVALID_ARGUMENT);
    folder_remove();
}

/* If an unreadable parameters file were treated as absent, batching would silently be off for a
 * version that requests it. */
static void parameters_that_may_not_be_looked_at_are_not_absent(void **state)
{
    (void)state;
    static struct srv_batching server, own;
    struct srv_options o = {.enable_batching = SRV_YES,
                            .enable_per_model_batching_parameters = true};
    folder_new();
    folder_write("1/batching_params.pbtxt", "max_batch_size { value: 10 }");
    assert_ok(parse("max_batch_size { value: 4 }"), &err);
    server = b;
    folder_close("1");
    enum rt_status st = srv_batching_of_version(&own, &server, &o, folder_path("1"), &err);
    folder_open_again("1");
    assert_int_equal(st, RT_PERMISSION_DENIED);
    assert_non_null(strstr(rt_error_text(&err), "batching_params.pbtxt; Permission denied"));
    folder_remove();
}

static void a_large_parameters_file_of_a_version_is_refused(void **state)
{
    (void)state;
    static struct srv_batching server, own;
    static char text[(64 << 10) + 2];
    struct srv_options o = {.enable_batching = SRV_YES,
                            .enable_per_model_batching_parameters = true};
    const char *dir = folder_new();
    assert_ok(parse("max_batch_size { value: 4 }"), &err);
    server = b;
    memset(text, '\n', sizeof text - 1);
    memcpy(text, "max_batch_size { value: 10 }", 28);
    text[64 << 10] = 0;
    folder_write("batching_params.pbtxt", text);
    assert_ok(srv_batching_of_version(&own, &server, &o, dir, &err), &err);
    assert_int_equal(own.max_batch_size, 10);
    text[64 << 10] = '\n';
    folder_write("batching_params.pbtxt", text);
    assert_fails(srv_batching_of_version(&own, &server, &o, dir, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "batching_params.pbtxt has 65537 bytes, more than the limit of 65536");
    folder_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_means_tensorflow_servings_defaults),
        cmocka_unit_test(every_parameter_is_read),
        cmocka_unit_test(what_is_not_a_parameter_is_told_with_its_place),
        cmocka_unit_test(parameters_that_cannot_be_are_refused_with_tensorflow_servings_texts),
        cmocka_unit_test(one_batch_may_always_wait),
        cmocka_unit_test(the_flag_has_three_meanings),
        cmocka_unit_test(a_version_may_bring_parameters_of_its_own),
        cmocka_unit_test(parameters_that_may_not_be_looked_at_are_not_absent),
        cmocka_unit_test(a_large_parameters_file_of_a_version_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
