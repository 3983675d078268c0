/* Tests which values of the headers traceparent and tracestate are accepted. */
#include "tests/support/test.h"

#include "server/tracing/request_span.h"

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN   "00f067aa0ba902b7"
#define PARENT "00-" TRACE "-" SPAN "-01"

static void a_valid_parent_is_read_and_written(void **state)
{
    (void)state;
    static const char *const good[] = {PARENT, "00-" TRACE "-" SPAN "-00",
                                       "01-" TRACE "-" SPAN "-01", "fe-" TRACE "-" SPAN "-ff-more",
                                       "01-" TRACE "-" SPAN "-01-"};
    struct srv_trace_context c;
    char text[SRV_TRACEPARENT_TEXT], id[SRV_TRACE_ID_TEXT];

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!srv_traceparent_parse(rt_span_str(good[i]), &c))
            fail_msg("\"%s\" is valid", good[i]);
        srv_traceparent_write(&c, text);
        assert_memory_equal(text, "00", 2);
        assert_memory_equal(text + 2, good[i] + 2, sizeof text - 3);
        srv_trace_id_write(&c, id);
        assert_string_equal(id, TRACE);
    }
}

static void an_invalid_parent_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "00",
        "00-" TRACE "-" SPAN,
        "00-" TRACE "-" SPAN "-",
        "00-" TRACE "-" SPAN "-1",
        PARENT "-",
        PARENT "-more",
        PARENT " ",
        " " PARENT,
        "ff-" TRACE "-" SPAN "-01",
        "FE-" TRACE "-" SPAN "-01",
        "0x-" TRACE "-" SPAN "-01",
        "01-" TRACE "-" SPAN "-01.",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
        "00-" TRACE "-00f067aa0ba902bg-01",
        "00-" TRACE "_" SPAN "-01",
        "00-" TRACE "-" SPAN "-0A",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "-" SPAN "\t01",
        "00-" TRACE "-\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff-01"};
    struct srv_trace_context c;

    memset(&c, 0x55, sizeof c);
    const struct srv_trace_context before = c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (srv_traceparent_parse(rt_span_str(bad[i]), &c))
            fail_msg("\"%s\" is invalid", bad[i]);
    assert_false(srv_traceparent_parse(rt_span_of("00-" TRACE "-" SPAN "-0\0", 55), &c));
    assert_false(srv_traceparent_parse(rt_span_of(NULL, 0), &c));
    assert_memory_equal(&c, &before, sizeof c);
}

static void the_members_of_a_state_are_checked(void **state)
{
    (void)state;
    static const char *const good[] = {"a=1",       "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
                                       "a=1,,b=2,", " a=1 ,\tb=2\t",
                                       "a= x",      "0tenant@sys=x",
                                       "a_-*/9=!~", "a@b=c"};
    static const char *const bad[] = {
        "",      ",",    " ",     "a",     "=1",      "a=",
        "A=1",   "9=1",  "a=1=2", "a=\t",  "a=\x7f",  "a=\xc3",
        "a=1\n", "@b=1", "a@=1",  "a@9=1", "a@b@c=1", "a@bcdefghijklmnop=1"};
    char many[SRV_TRACESTATE_MOST + 2];
    size_t n = 0;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!srv_tracestate_is_valid(rt_span_str(good[i])))
            fail_msg("\"%s\" is valid", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (srv_tracestate_is_valid(rt_span_str(bad[i])))
            fail_msg("\"%s\" is invalid", bad[i]);
    for (int i = 0; i < 33; i++, n += 4)
        memcpy(many + n, "a=1,", 4);
    assert_true(srv_tracestate_is_valid(rt_span_of(many, 32 * 4)));
    assert_false(srv_tracestate_is_valid(rt_span_of(many, 33 * 4)));
    memset(many, ' ', sizeof many);
    memcpy(many, "a=1", 3);
    assert_true(srv_tracestate_is_valid(rt_span_of(many, SRV_TRACESTATE_MOST)));
    assert_false(srv_tracestate_is_valid(rt_span_of(many, SRV_TRACESTATE_MOST + 1)));
    assert_false(srv_tracestate_is_valid(rt_span_of("a=\0", 3)));
}

static void repeated_headers_are_ignored(void **state)
{
    (void)state;
    const struct rt_span parent = rt_span_str(PARENT), member = rt_span_str("a=1");
    struct srv_request_span s;
    char text[SRV_TRACEPARENT_TEXT];

    srv_request_span_init(&s);
    assert_false(srv_request_span_response(&s, text));
    srv_request_span_traceparent(&s, parent);
    srv_request_span_tracestate(&s, member);
    assert_true(s.has_trace && s.has_parent && s.tracestate.p == member.p);
    assert_true(srv_request_span_response(&s, text));
    assert_string_equal(text, PARENT);
    srv_request_span_traceparent(&s, parent);
    srv_request_span_tracestate(&s, member);
    assert_false(s.has_trace || s.has_parent || s.tracestate.p);
    srv_request_span_traceparent(&s, parent);
    srv_request_span_tracestate(&s, member);
    assert_false(s.has_trace || s.has_parent || s.tracestate.p);
    srv_request_span_init(&s);
    srv_request_span_traceparent(&s, rt_span_str("bad"));
    srv_request_span_traceparent(&s, parent);
    assert_false(s.has_trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_valid_parent_is_read_and_written),
        cmocka_unit_test(an_invalid_parent_is_refused),
        cmocka_unit_test(the_members_of_a_state_are_checked),
        cmocka_unit_test(repeated_headers_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
