/* Tests when a profile of requests begins and ends, which requests belong to it, and the times of
 * nodes in the runs of these requests. */
#include "tests/support/test.h"

#include "runtime/base/arena.h"
#include "runtime/files/saved_model.h"
#include "server/base/serving_map.h"
#include "server/batching/job.h"
#include "server/tracing/access.h"
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

/* ---- the times of nodes ---- */

/* A job of version 3 of the model "m", which belongs to the profile. */
static struct {
    struct srv_version version;
    struct rt_signature def;
    struct rt_model_signature signature;
    struct srv_request_span span;
    struct srv_job job;
} x;

static void make_job(const char *model, const char *signature)
{
    memset(&x, 0, sizeof x);
    x.version.model = model;
    x.version.version = 3;
    x.def.name = signature;
    x.signature.def = &x.def;
    x.job.version = &x.version;
    x.job.signature = &x.signature;
    x.job.span = &x.span;
    srv_profile_begin(profile, &x.span);
}

static void add_node(struct rt_trace *trace, const char *name, int64_t start_ns, int64_t end_ns)
{
    struct rt_trace_node *n = rt_arena_alloc(trace->arena, sizeof *n);
    assert_non_null(n);
    *n = (struct rt_trace_node){.name = name, .start_ns = start_ns, .end_ns = end_ns};
    if (trace->last)
        trace->last->next = n;
    else
        trace->first = n;
    trace->last = n;
    trace->n_nodes++;
}

/* A run of the job: a loop that contains two nodes, and a node after it. */
static void run(bool keep, bool is_truncated)
{
    struct rt_trace trace;
    assert_true(srv_profile_begin_run(profile, &x.job, &trace));
    assert_true(trace.wants_times);
    add_node(&trace, "a", 110, 130);
    add_node(&trace, "b", 130, 135);
    add_node(&trace, "a", 140, 150);
    add_node(&trace, "loop", 100, 160);
    add_node(&trace, "c", 160, 167);
    trace.is_truncated = is_truncated;
    srv_profile_end_run(profile, &x.job, &trace, keep);
}

static int times_of(const char *signature, int64_t ns[5], int64_t *all_ns)
{
    const char *const names[] = {"loop", "a", "b", "c", "none"};
    return srv_profile_node_times(profile, &x.version, signature, 5, names, ns, all_ns);
}

static void runs_of_the_profile_add_the_own_times_of_nodes(void **state)
{
    int64_t ns[5], all_ns;
    (void)state;
    assert_int_equal(start("m", 5, 0), RT_OK);
    make_job("m", "s");
    assert_int_equal(times_of("s", ns, &all_ns), 0);
    run(true, false);
    run(true, false);
    run(false, false);
    run(true, true);
    assert_int_equal(times_of("s", ns, &all_ns), 2);
    const int64_t want[] = {2 * 25, 2 * 30, 2 * 5, 2 * 7, 0};
    for (int i = 0; i < 5; i++)
        assert_int_equal(ns[i], want[i]);
    assert_int_equal(all_ns, 2 * 67);
    assert_int_equal(times_of("other", ns, &all_ns), 0);
    x.version.version = 4;
    assert_int_equal(times_of("s", ns, &all_ns), 0);
    /* The next profile, also of the same model, forgets the times. */
    x.version.version = 3;
    assert_int_equal(start("m", 1, (int64_t)SRV_PROFILE_SECONDS * SECOND), RT_OK);
    assert_int_equal(times_of("s", ns, &all_ns), 0);
}

static void only_runs_of_the_profile_have_a_trace(void **state)
{
    struct rt_trace trace;
    (void)state;
    make_job("m", "s");
    assert_false(srv_profile_begin_run(NULL, &x.job, &trace));
    assert_false(srv_profile_begin_run(profile, &x.job, &trace));
    assert_int_equal(start("m", 1, 0), RT_OK);
    assert_false(srv_profile_begin_run(profile, &x.job, &trace)); /* it arrived before */
    make_job("other", "s");
    assert_false(srv_profile_begin_run(profile, &x.job, &trace));
    make_job("m", "s");
    x.signature.is_dynamic = true;
    assert_false(srv_profile_begin_run(profile, &x.job, &trace));
    x.signature.is_dynamic = false;
    /* One request of a batch suffices. */
    struct srv_job first = x.job;
    first.span = NULL;
    assert_false(srv_profile_begin_run(profile, &first, &trace));
    first.next = &x.job;
    assert_true(srv_profile_begin_run(profile, &first, &trace));
    srv_profile_end_run(profile, &first, &trace, false);
}

static void the_times_are_bounded(void **state)
{
    static char names[SRV_PROFILE_NODES + 10][16];
    int64_t ns[5], all_ns;
    (void)state;
    assert_int_equal(start("m", 5, 0), RT_OK);
    for (int i = 0; i < SRV_PROFILE_SIGNATURES + 1; i++) {
        make_job("m", names[i]);
        snprintf(names[i], sizeof names[i], "s%d", i);
        run(true, false);
    }
    assert_int_equal(times_of("s0", ns, &all_ns), 1);
    assert_int_equal(times_of("s7", ns, &all_ns), 1);
    assert_int_equal(times_of("s8", ns, &all_ns), 0);
    struct rt_trace trace;
    make_job("m", "s0");
    assert_true(srv_profile_begin_run(profile, &x.job, &trace));
    for (int i = 0; i < SRV_PROFILE_NODES + 10; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        add_node(&trace, names[i], i, i + 1);
    }
    srv_profile_end_run(profile, &x.job, &trace, true);
    const char *const ends[] = {"n0", names[SRV_PROFILE_NODES + 9]};
    assert_int_equal(srv_profile_node_times(profile, &x.version, "s0", 2, ends, ns, &all_ns), 2);
    assert_int_equal(ns[0], 1);
    assert_int_equal(ns[1], 0);
    assert_int_equal(all_ns, 67 + SRV_PROFILE_NODES + 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_requests_of_the_model_are_kept, begin, end),
        cmocka_unit_test_setup_teardown(a_profile_ends_by_time, begin, end),
        cmocka_unit_test_setup_teardown(without_a_profile_no_request_is_marked, begin, end),
        cmocka_unit_test_setup_teardown(runs_of_the_profile_add_the_own_times_of_nodes, begin, end),
        cmocka_unit_test_setup_teardown(only_runs_of_the_profile_have_a_trace, begin, end),
        cmocka_unit_test_setup_teardown(the_times_are_bounded, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
