/*
 * Tests, without a server, which requests are sampled for request logs, and the contents of the log
 * files.
 */
#include "tests/support/test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/tfrecord.h"
#include "server/request_log/request_file.h"
#include "server/request_log/request_log.h"

static void none_all_and_about_a_part_are_chosen(void **state)
{
    (void)state;
    static const double rates[] = {0, 1e-3, 0.1, 0.5, 0.999, 1};
    enum { N = 200000 };
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
        uint64_t threshold = srv_request_log_threshold(rates[k]);
        double chosen = 0;
        for (uint64_t i = 0; i < N; i++)
            chosen += srv_request_log_samples(threshold, 0x7f0012340000u + i * 1000);
        if (rates[k] == 0 || rates[k] == 1)
            assert_true(chosen == rates[k] * N);
        else if (chosen < rates[k] * N * 0.8 - 20 || chosen > rates[k] * N * 1.2 + 20)
            fail_msg("%g of %d at rate %g", chosen, N, rates[k]);
    }
    assert_true(srv_request_log_threshold(-1) == 0);
}

static void a_file_holds_whole_records_under_a_name_of_its_own(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct srv_request_file a, b;
    struct rt_tfrecord *r;
    struct rt_span got;
    char dir[64] = "/tmp/slipway-log-XXXXXX", prefix[128], model[] = "../a/b";

    assert_non_null(mkdtemp(dir));
    snprintf(prefix, sizeof prefix, "%s/new/", dir);
    srv_request_file_init(&a);
    srv_request_file_init(&b);
    assert_ok(srv_request_file_open(&a, prefix, model, &err), &err);
    assert_ok(srv_request_file_open(&b, prefix, model, &err), &err);
    assert_string_not_equal(a.path, b.path);
    assert_non_null(strstr(a.path, "/new/_._a_b-20"));
    assert_ok(srv_request_file_add(&a, rt_span_str("one"), &err), &err);
    assert_ok(srv_request_file_add(&a, rt_span_str(""), &err), &err);
    assert_int_equal(a.size, 3 + 2 * (RT_TFRECORD_HEADER + RT_TFRECORD_FOOTER));
    srv_request_file_close(&a);
    srv_request_file_close(&b);
    assert_ok(rt_tfrecord_open(&r, a.path, 100, &err), &err);
    assert_ok(rt_tfrecord_next(r, &got, &err), &err);
    assert_true(rt_span_is(got, "one"));
    assert_ok(rt_tfrecord_next(r, &got, &err), &err);
    assert_true(rt_span_is(got, ""));
    assert_int_equal(rt_tfrecord_next(r, &got, &err), RT_OUT_OF_RANGE);
    rt_tfrecord_close(r);
    remove(a.path);
    remove(b.path);
    snprintf(prefix, sizeof prefix, "%s/new", dir);
    remove(prefix);
    remove(dir);
}

static void after_trouble_a_file_is_not_tried_again_at_once(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct srv_request_file f;

    srv_request_file_init(&f);
    assert_int_not_equal(srv_request_file_open(&f, "/dev/null/x", "m", &err), RT_OK);
    assert_false(srv_request_file_is_open(&f));
    assert_fails(srv_request_file_open(&f, "/dev/null/x", "m", &err), RT_UNAVAILABLE, &err,
                 "tried again in a moment");
}

static void a_suspended_file_goes_on_unless_it_was_replaced(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct srv_request_file f;
    struct stat s;
    char dir[64] = "/tmp/slipway-log-XXXXXX", prefix[128];
    const int64_t one = 1 + RT_TFRECORD_HEADER + RT_TFRECORD_FOOTER;

    assert_non_null(mkdtemp(dir));
    snprintf(prefix, sizeof prefix, "%s/", dir);
    srv_request_file_init(&f);
    assert_ok(srv_request_file_open(&f, prefix, "m", &err), &err);
    assert_ok(srv_request_file_add(&f, rt_span_str("a"), &err), &err);
    srv_request_file_suspend(&f);
    assert_true(srv_request_file_is_open(&f));
    assert_int_equal(f.fd, -1);
    assert_ok(srv_request_file_resume(&f, &err), &err);
    assert_ok(srv_request_file_resume(&f, &err), &err);
    assert_ok(srv_request_file_add(&f, rt_span_str("b"), &err), &err);
    assert_int_equal(stat(f.path, &s), 0);
    assert_int_equal(s.st_size, 2 * one);

    srv_request_file_suspend(&f);
    remove(f.path);
    assert_int_equal(mkfifo(f.path, 0600), 0);
    assert_int_equal(srv_request_file_resume(&f, &err), RT_NOT_FOUND);
    remove(f.path);
    assert_int_equal(srv_request_file_resume(&f, &err), RT_NOT_FOUND);
    srv_request_file_close(&f);
    assert_false(srv_request_file_is_open(&f));
    remove(dir);
}

/* A limit of the file size fails the first record, as a full disk does. */
static void a_file_whose_first_record_fails_is_removed(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct srv_request_file f;
    struct rlimit limit;
    char dir[64] = "/tmp/slipway-log-XXXXXX", prefix[128];

    assert_non_null(mkdtemp(dir));
    snprintf(prefix, sizeof prefix, "%s/", dir);
    srv_request_file_init(&f);
    assert_ok(srv_request_file_open(&f, prefix, "m", &err), &err);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    void (*const before)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, limit.rlim_max});
    const enum rt_status st = srv_request_file_add(&f, rt_span_str("a"), &err);
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, before);
    assert_int_equal(st, RT_UNAVAILABLE);
    assert_int_equal(access(f.path, F_OK), -1);
    assert_int_equal(rmdir(dir), 0);
}

static void a_log_without_models_begins_and_ends(void **state)
{
    (void)state;
    const struct srv_request_log_limits limits = {1 << 20, 1 << 20, INT64_C(1000000000)};
    struct srv_request_log *l = srv_request_log_new(&limits, NULL);
    assert_non_null(l);
    assert_ptr_equal(srv_request_log_acquire(l, "m"), srv_request_log_acquire(l, "m"));
    assert_ptr_not_equal(srv_request_log_acquire(l, "m"), srv_request_log_acquire(l, "n"));
    srv_request_log_free(l);
    srv_request_log_free(NULL);
    srv_request_log_configure(NULL, NULL);
}

/* Configures `n` models named PREFIX0, PREFIX1 and so on. */
static void configure(struct srv_request_log *l, const char *prefix, int n, const char *logging)
{
    struct srv_config *config = NULL;
    struct rt_error err = {0};
    struct rt_bytes text;

    rt_bytes_init(&text, SIZE_MAX);
    rt_bytes_adds(&text, "model_config_list {\n");
    for (int i = 0; i < n; i++)
        rt_bytes_addf(&text,
                      "config { name: '%s%d' base_path: '/m' model_platform: 'tensorflow' %s }\n",
                      prefix, i, logging);
    rt_bytes_adds(&text, "}\n");
    assert_ok(srv_config_from_text(rt_span_of(text.p, text.n), "config", &config, &err), &err);
    srv_request_log_configure(l, config);
    srv_config_free(config);
    rt_bytes_clear(&text);
}

static void only_models_with_versions_or_logged_requests_have_a_log(void **state)
{
    (void)state;
    const struct srv_request_log_limits limits = {1 << 20, 1 << 20, INT64_C(1000000000)};
    const char on[] = "logging_config { log_collector_config { filename_prefix: '/none/x' } "
                      "sampling_config { sampling_rate: 1 } }";
    struct srv_request_log *l = srv_request_log_new(&limits, NULL);

    assert_non_null(l);
    configure(l, "a", 1000, "");
    assert_int_equal(srv_request_log_models(l), 0);
    struct srv_model_log *log = srv_request_log_acquire(l, "b7");
    for (int k = 0; k < 3; k++) {
        configure(l, "b", 1000, on);
        assert_int_equal(srv_request_log_models(l), 1000);
        assert_ptr_equal(srv_request_log_acquire(l, "b7"), log);
        srv_request_log_release(log);
        configure(l, "c", 10, on);
        assert_int_equal(srv_request_log_models(l), 11);
        configure(l, "c", 10, "");
        assert_int_equal(srv_request_log_models(l), 1);
    }
    srv_request_log_release(log);
    assert_int_equal(srv_request_log_models(l), 0);
    srv_request_log_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_all_and_about_a_part_are_chosen),
        cmocka_unit_test(a_file_holds_whole_records_under_a_name_of_its_own),
        cmocka_unit_test(after_trouble_a_file_is_not_tried_again_at_once),
        cmocka_unit_test(a_suspended_file_goes_on_unless_it_was_replaced),
        cmocka_unit_test(a_file_whose_first_record_fails_is_removed),
        cmocka_unit_test(a_log_without_models_begins_and_ends),
        cmocka_unit_test(only_models_with_versions_or_logged_requests_have_a_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
