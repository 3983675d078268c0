/* Tests when the budget of bytes in flight grants bytes to a request, and how it refuses them. */
#include "tests/support/test.h"

#include "server/base/budget.h"

static void what_fits_is_given_and_can_be_given_back(void **state)
{
    (void)state;
    struct srv_budget b = {.limit = 1000};
    size_t a = 0, other = 0;
    assert_int_equal(srv_budget_left(&b), 1000);
    assert_true(srv_budget_take(&b, &a, 600));
    assert_true(srv_budget_take(&b, &other, 400));
    assert_int_equal(srv_budget_left(&b), 0);
    assert_false(srv_budget_take(&b, &other, 1));
    assert_int_equal(other, 400);
    assert_true(srv_budget_take(&b, &other, 0));
    srv_budget_give(&b, &a, 100);
    assert_int_equal(a, 500);
    assert_int_equal(srv_budget_left(&b), 100);
    srv_budget_give(&b, &a, a);
    srv_budget_give(&b, &other, other);
    assert_int_equal(srv_budget_left(&b), 1000);
}

static void what_does_not_fit_beside_others_may_be_asked_again(void **state)
{
    (void)state;
    struct srv_budget b = {.limit = 1000};
    struct rt_error err = {0};
    size_t other = 0, own = 0;
    assert_true(srv_budget_take(&b, &other, 500));
    assert_true(srv_budget_take(&b, &own, 100));
    assert_false(srv_budget_take(&b, &own, 900));
    assert_fails(srv_budget_refused(&b, own, 900, "the request", &err), RT_UNAVAILABLE, &err,
                 "the request does not fit beside the requests in flight, 1000 bytes by "
                 "--max_bytes_in_flight");
}

static void an_allowance_is_charged_in_steps_and_then_for_what_is_in_use(void **state)
{
    (void)state;
    enum { MEBI = 1 << 20, SHORT = 40, N = 100000 };
    struct srv_budget b = {.limit = 64 * MEBI};
    struct rt_error err = {0};
    size_t own = 100;
    int64_t charges = 0, held;
    struct srv_allowance allowance = {
        .left = 512 * MEBI, .budget = &b, .own = &own, .what = "the request as tensors"};
    atomic_init(&b.held, 100);
    for (int i = 1; i <= N; i++) {
        held = atomic_load(&b.held);
        assert_ok(srv_allowance_take(&allowance, SHORT, &err), &err);
        charges += atomic_load(&b.held) != held;
        assert_int_equal(allowance.taken, SHORT * i);
        assert_true(own >= 100 + allowance.taken && own <= 100 + 2 * allowance.taken &&
                    own <= 100 + allowance.taken + SRV_SMALL_BYTES);
        assert_int_equal(atomic_load(&b.held), own);
    }
    assert_true(charges < N / 1000);
    srv_allowance_give(&allowance, SHORT);
    assert_int_equal(allowance.left, 512 * MEBI - SHORT * (N - 1));
    /* The bytes in use may be fewer or more than the decoders took. */
    assert_ok(srv_allowance_settle(&allowance, 1000, &err), &err);
    assert_int_equal(own, 1100);
    assert_int_equal(atomic_load(&b.held), 1100);
    assert_ok(srv_allowance_settle(&allowance, 3000, &err), &err);
    assert_int_equal(own, 3100);
    assert_fails(srv_allowance_settle(&allowance, 65 * MEBI, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "the request as tensors is larger than --max_bytes_in_flight");
    assert_fails(srv_allowance_take(&allowance, 500 * MEBI, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "the request as tensors is larger than --max_bytes_in_flight");
    assert_int_equal(own, 3100);
    /* When the budget has too few bytes for a whole step, the bytes that are needed still fit. */
    struct srv_budget small = {.limit = 10000};
    size_t other = 0, few = 0;
    struct srv_allowance last = {
        .left = 9000, .budget = &small, .own = &few, .what = "the response"};
    assert_true(srv_budget_take(&small, &other, 5000));
    assert_ok(srv_allowance_take(&last, 3000, &err), &err);
    assert_ok(srv_allowance_take(&last, 2000, &err), &err);
    assert_fails(srv_allowance_take(&last, 1, &err), RT_UNAVAILABLE, &err, "does not fit beside");
    assert_int_equal(few, 5000);
}

static void large_requests_leave_a_reserve_to_small_ones(void **state)
{
    (void)state;
    enum { MEBI = 1 << 20 };
    struct srv_budget b = {.limit = 64 * MEBI};
    struct rt_error err = {0};
    size_t large = 0, other = 0, small = 0;
    assert_int_equal(srv_budget_left(&b), 60 * MEBI);
    assert_true(srv_budget_take(&b, &large, 60 * MEBI));
    assert_int_equal(srv_budget_left(&b), SRV_SMALL_BYTES);
    assert_false(srv_budget_take(&b, &large, 1));
    assert_int_equal(srv_budget_code(&b, large, 1), RT_RESOURCE_EXHAUSTED);
    assert_false(srv_budget_take(&b, &other, SRV_SMALL_BYTES + 1));
    assert_fails(srv_budget_refused(&b, other, SRV_SMALL_BYTES + 1, "the request", &err),
                 RT_UNAVAILABLE, &err, "the request does not fit beside the requests in flight");
    assert_true(srv_budget_take(&b, &small, SRV_SMALL_BYTES));
    assert_false(srv_budget_take(&b, &small, 1));
    size_t rest = 0;
    for (int i = 1; i < 64; i++, rest = 0)
        assert_true(srv_budget_take(&b, &rest, SRV_SMALL_BYTES));
    assert_int_equal(srv_budget_left(&b), 0);
    assert_false(srv_budget_take(&b, &rest, 1));
}

static void what_never_fits_is_told_the_flag(void **state)
{
    (void)state;
    struct srv_budget b = {.limit = 1000};
    struct rt_error err = {0};
    size_t own = 0;
    const size_t huge[] = {1001, SIZE_MAX, INT64_MAX, (size_t)INT64_MAX + 1};
    for (int i = 0; i < 4; i++) {
        assert_false(srv_budget_take(&b, &own, huge[i]));
        assert_int_equal(srv_budget_left(&b), 1000);
        assert_int_equal(srv_budget_code(&b, own, huge[i]), RT_RESOURCE_EXHAUSTED);
    }
    assert_true(srv_budget_take(&b, &own, 1000));
    assert_fails(
        srv_budget_refused(&b, own, 1, "the response", &err), RT_RESOURCE_EXHAUSTED, &err,
        "the response is larger than --max_bytes_in_flight, 1000 bytes, allows: it takes at "
        "least 1001 with what the request holds");
    /* A decoder needs more than the rest of the budget. No other request is in flight, so the
     * budget cannot grow. */
    srv_budget_give(&b, &own, 400);
    assert_int_equal(srv_budget_code(&b, own, srv_budget_left(&b) + 1), RT_RESOURCE_EXHAUSTED);
    size_t other = 0;
    assert_true(srv_budget_take(&b, &other, 1));
    assert_int_equal(srv_budget_code(&b, own, srv_budget_left(&b) + 1), RT_UNAVAILABLE);
}

static void a_full_arena_is_told_with_its_limit(void **state)
{
    (void)state;
    struct rt_arena *a = rt_arena_new(2 << 20);
    struct rt_error err = {0};
    assert_non_null(a);
    rt_fail_memory(&err, "a request", 1);
    assert_int_equal(srv_name_arena_limit(a, 2 << 20, "a call", RT_RESOURCE_EXHAUSTED, &err),
                     RT_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "out of memory: 1 bytes for a request");
    assert_null(rt_arena_alloc(a, 3 << 20));
    assert_int_equal(srv_name_arena_limit(a, 2 << 20, "a call", RT_NOT_FOUND, &err), RT_NOT_FOUND);
    assert_string_equal(err.msg, "out of memory: 1 bytes for a request");
    srv_name_arena_limit(a, 2 << 20, "a call", RT_RESOURCE_EXHAUSTED, &err);
    assert_string_equal(err.msg, "the request takes more memory beside its tensors, for names and "
                                 "other fields, than the 2 MiB that a call may take");
    rt_arena_free(a);
}

static void a_response_is_counted_but_for_its_first_bytes(void **state)
{
    (void)state;
    struct srv_budget b = {.limit = 10000};
    struct rt_error err = {0};
    size_t own = 0;
    struct srv_growth g = {&b, &own, {.deadline_ns = RT_NEVER}};
    assert_ok(srv_growth_take(&g, SRV_FREE_BYTES, &err), &err);
    assert_int_equal(own, 0);
    assert_ok(srv_growth_take(&g, SRV_FREE_BYTES + 100, &err), &err);
    assert_int_equal(own, 100);
    assert_fails(srv_growth_take(&g, SRV_FREE_BYTES + 9901, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "the response is larger than --max_bytes_in_flight, 10000 bytes, allows: it takes "
                 "at least 10001 with what the request holds");
    assert_int_equal(own, 100);
    size_t other = 0;
    assert_true(srv_budget_take(&b, &other, 1));
    assert_int_equal(srv_growth_take(&g, SRV_FREE_BYTES + 9900, &err), RT_UNAVAILABLE);
    assert_int_equal(srv_growth_failed(&g, 7, &err), RT_RESOURCE_EXHAUSTED);
    assert_null(strstr(rt_error_text(&err), "--max_bytes_in_flight"));
    assert_int_equal(srv_growth_failed(NULL, 7, &err), RT_RESOURCE_EXHAUSTED);
}

static void a_response_beyond_protobufs_limit_is_refused_before_it_is_written(void **state)
{
    (void)state;
    struct srv_budget b = {.limit = INT64_MAX};
    struct rt_error err = {0};
    size_t own = 0;
    struct srv_growth g = {&b, &own, {.deadline_ns = RT_NEVER}};
    assert_fails(srv_growth_take(&g, (size_t)SRV_MESSAGE_MOST + 1, &err), RT_RESOURCE_EXHAUSTED,
                 &err, "the response takes more than 2147483647 bytes, the most that a protobuf");
    assert_fails(srv_growth_take(NULL, (size_t)SRV_MESSAGE_MOST + 1, &err), RT_RESOURCE_EXHAUSTED,
                 &err, "the response takes more than 2147483647 bytes");
    assert_ok(srv_growth_take(&g, SRV_MESSAGE_MOST, &err), &err);
}

static void a_response_is_wanted_until_its_deadline_or_its_clients_going(void **state)
{
    (void)state;
    struct srv_budget b = {.limit = INT64_MAX};
    struct rt_error err = {0};
    _Atomic bool gone = false;
    size_t own = 0;
    struct srv_growth g = {&b, &own, {.deadline_ns = 1, .cancelled = &gone}};
    struct srv_cancellation *w = srv_growth_cancellation(&g);
    assert_true(srv_should_continue(w, SRV_CANCELLATION_CHECK_BYTES - 1));
    assert_ok(srv_growth_take(&g, 1, &err), &err);
    assert_false(srv_should_continue(w, 1));
    assert_false(srv_should_continue(w, 0));
    assert_fails(srv_growth_take(&g, 1, &err), RT_DEADLINE_EXCEEDED, &err,
                 "the deadline passed while the request was read or its answer written");
    assert_int_equal(srv_growth_failed(&g, 1, &err), RT_DEADLINE_EXCEEDED);
    *w = (struct srv_cancellation){.deadline_ns = RT_NEVER, .cancelled = &gone};
    assert_true(srv_should_continue(w, SRV_CANCELLATION_CHECK_BYTES));
    gone = true;
    assert_true(srv_should_continue(w, 1));
    assert_false(srv_should_continue(w, SRV_CANCELLATION_CHECK_BYTES));
    assert_int_equal(srv_growth_failed(&g, 1, &err), RT_CANCELLED);
    assert_true(srv_should_continue(NULL, SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_given_and_can_be_given_back),
        cmocka_unit_test(what_does_not_fit_beside_others_may_be_asked_again),
        cmocka_unit_test(an_allowance_is_charged_in_steps_and_then_for_what_is_in_use),
        cmocka_unit_test(large_requests_leave_a_reserve_to_small_ones),
        cmocka_unit_test(a_full_arena_is_told_with_its_limit),
        cmocka_unit_test(what_never_fits_is_told_the_flag),
        cmocka_unit_test(a_response_is_counted_but_for_its_first_bytes),
        cmocka_unit_test(a_response_beyond_protobufs_limit_is_refused_before_it_is_written),
        cmocka_unit_test(a_response_is_wanted_until_its_deadline_or_its_clients_going),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
