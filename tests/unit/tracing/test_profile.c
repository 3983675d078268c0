/* Tests when a profile of requests begins and ends, and which requests belong to it. */
#include "tests/support/test.h"

#include "server/telemetry/access_log.h"
#include "server/tracing/profile.h"

enum { SECOND = 1000000000 };

static struct srv_profile *profile;
static struct srv_profiled got[SRV_PROFILE_MOST];

static int begin(void **state)
{
    (void)state;
    profile = srv_profile_new();
    return !profile;
}

static int end(void **state)
{
    (void)state;
    srv_profile_free(profile);
    return 0;
}

static enum rt_status start(const char *model, int n, int64_t now_ns)
{
    struct rt_error err = {0};
    return srv_profile_start(profile, rt_span_str(model), n, now_ns, &err);
}

/* A request for `model` begins and ends at `now_ns`. */
static void request(const char *model, int64_t now_ns)
{
    struct srv_request_span span = {.read_ns = 7};
    const struct srv_access a = {.entry = "REST",
                                 .api = "predict",
                                 .code = RT_NOT_FOUND,
                                 .begin_ns = now_ns,
                                 .end_ns = now_ns,
                                 .span = &span,
                                 .model = rt_span_str(model)};
    srv_profile_begin(profile, &span);
    assert_true(!span.is_profiled || !span.read_ns);
    srv_profile_request(profile, &a, NULL);
}

static int n_of(const char *model, int64_t now_ns, bool *is_running)
{
    return srv_profile_copy(profile, rt_span_str(model), now_ns, got, is_running);
}

static void the_next_requests_of_the_model_are_kept(void **state)
{
    bool is_running;
    (void)state;
    request("m", 1);
    assert_int_equal(n_of("m", 1, &is_running), 0);
    assert_int_equal(start("m", 2, 2), RT_OK);
    request("m", 3);
    request("mm", 4);
    request("", 5);
    assert_int_equal(n_of("m", 6, &is_running), 1);
    assert_true(is_running);
    assert_int_equal(start("mm", 2, 7), RT_UNAVAILABLE);
    request("m", 8);
    request("m", 9);
    assert_int_equal(n_of("m", 10, &is_running), 2);
    assert_false(is_running);
    assert_int_equal(got[1].times.begin_ns, 8);
    assert_int_equal(got[1].code, RT_NOT_FOUND);
    assert_int_equal(got[1].phase[SRV_PHASE_RUN].end_ns, 0);
    assert_int_equal(n_of("mm", 10, &is_running), 0);
}

static void a_profile_ends_by_time(void **state)
{
    const int64_t late = (int64_t)SRV_PROFILE_SECONDS * SECOND;
    bool is_running;
    (void)state;
    assert_int_equal(start("m", SRV_PROFILE_MOST, 0), RT_OK);
    for (int i = 0; i < SRV_PROFILE_MOST - 1; i++)
        request("m", late - 1);
    request("m", late);
    assert_int_equal(n_of("m", late, &is_running), SRV_PROFILE_MOST - 1);
    assert_false(is_running);
    assert_int_equal(start("mm", 1, late), RT_OK);
    assert_int_equal(n_of("m", late, &is_running), 0);
}

static void without_a_profile_no_request_is_marked(void **state)
{
    struct srv_request_span span = {.is_profiled = true, .read_ns = 7};
    (void)state;
    srv_profile_begin(NULL, &span);
    assert_false(span.is_profiled);
    assert_int_equal(span.read_ns, 7);
    /* A recorded request keeps the times that it has. */
    assert_int_equal(start("m", 1, 0), RT_OK);
    span.is_recorded = true;
    srv_profile_begin(profile, &span);
    assert_true(span.is_profiled);
    assert_int_equal(span.read_ns, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_requests_of_the_model_are_kept, begin, end),
        cmocka_unit_test_setup_teardown(a_profile_ends_by_time, begin, end),
        cmocka_unit_test_setup_teardown(without_a_profile_no_request_is_marked, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
