/* Tests which bytes of a client's stream are passed on to libmicrohttpd. */
#include "tests/support/test.h"

#include <string.h>

#include "server/http/http_stream.h"

enum { MAX_HEAD = 400 };
static const char canned[] = "GET / HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n";

/* Feeds the text `step` bytes at a time. The caller clears the stream and the output. */
static struct srv_http_stream feed(const char *text, size_t n, size_t step, struct rt_bytes *out)
{
    struct srv_http_stream s;
    srv_http_stream_init(&s, MAX_HEAD);
    rt_bytes_init(out, 1 << 16);
    for (size_t at = 0; at < n; at += step)
        assert_true(srv_http_stream_feed(&s, text + at, step < n - at ? step : n - at, out));
    return s;
}

static void comes_out(const char *in, size_t n, const char *want, int http)
{
    for (size_t step = 1; step <= n; step = step < 8 ? step + 1 : step * 3) {
        struct rt_bytes out;
        struct srv_http_stream s = feed(in, n, step, &out);
        rt_bytes_addc(&out, '\0');
        if (strcmp(out.p, want) != 0)
            fail_msg("in steps of %zu \"%s\" came out as \"%s\"", step, in, out.p);
        assert_int_equal(s.http, http);
        assert_int_equal(s.refused, http ? s.n_requests : 0);
        srv_http_stream_clear(&s);
        rt_bytes_clear(&out);
    }
}
#define COMES_OUT(in, want)       comes_out(in, sizeof in - 1, want, 0)
#define IS_REFUSED(in, want, why) comes_out(in, sizeof in - 1, want, why)

#define TOP "POST /a HTTP/1.1\r\nHost: h\r\n"

static void headers_that_are_read_come_out_and_no_others(void **state)
{
    (void)state;
    COMES_OUT("GET /x?a=b HTTP/1.1\r\nUser-Agent: z\r\nHost: h\r\nCookie: c=d\r\nACCEPT-ENCODING: "
              "gzip\r\n\r\n",
              "GET /x?a=b HTTP/1.1\r\nHost: h\r\nACCEPT-ENCODING: gzip\r\n\r\n");
    COMES_OUT("\r\n\r\nGET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\n\r\n");
}

static void further_headers_come_out_if_the_caller_lists_them(void **state)
{
    static const char in[] = TOP "Cookie: a\r\nX-Client: b\r\nJSON-Length: 3\r\n\r\n";
    static const char *const listed[] = {"json-length", "x-client", NULL};
    struct srv_http_stream s;
    struct rt_bytes out;

    (void)state;
    COMES_OUT(in, TOP "\r\n");
    srv_http_stream_init(&s, MAX_HEAD);
    s.also_kept = listed;
    rt_bytes_init(&out, 1 << 16);
    assert_true(srv_http_stream_feed(&s, in, sizeof in - 1, &out));
    rt_bytes_addc(&out, '\0');
    assert_string_equal(out.p, TOP "X-Client: b\r\nJSON-Length: 3\r\n\r\n");
    srv_http_stream_clear(&s);
    rt_bytes_clear(&out);
}

static void empty_lines_before_a_request_are_let_pass_but_not_for_ever(void **state)
{
    (void)state;
#define FOUR "\r\n\r\n\r\n\r\n"
#define GET  "GET / HTTP/1.0\r\n\r\n"
    COMES_OUT(FOUR FOUR FOUR FOUR GET FOUR FOUR FOUR FOUR GET, GET GET);
    IS_REFUSED(FOUR FOUR FOUR FOUR "\r\n" GET, canned, 400);
}

static void blanks_around_a_value_are_none_of_it(void **state)
{
    (void)state;
    COMES_OUT("GET / HTTP/1.1\r\nHost: \t h \t \r\nExpect: 100-continue\t\r\nOrigin: o\r\n\r\n",
              "GET / HTTP/1.1\r\nHost: \t h\r\nExpect: 100-continue\r\nOrigin: o\r\n\r\n");
    COMES_OUT(TOP "Content-Length: 2 \r\nCookie: c \r\n\r\nab", TOP "Content-Length: 2\r\n\r\nab");
    COMES_OUT(TOP "Transfer-Encoding: chunked \r\n\r\n1\r\na\r\n0\r\n\r\n",
              TOP "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n");
}

static void requests_follow_each_other(void **state)
{
    (void)state;
    COMES_OUT(
        TOP "Content-Length: 3\r\n\r\nab\n" TOP "Content-Length: 0\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        TOP "Content-Length: 3\r\n\r\nab\n" TOP "Content-Length: 0\r\n\r\nGET / HTTP/1.0\r\n\r\n");
}

static void chunks_come_out_without_extensions_and_trailers(void **state)
{
    (void)state;
    COMES_OUT(
        TOP
        "Transfer-Encoding: Chunked\r\n\r\n003;x=\"y\"\r\na\r\n\r\nA\r\n0123456789\r\n0;z\r\nT: "
        "u\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        TOP "Transfer-Encoding: Chunked\r\n\r\n3\r\na\r\n\r\na\r\n0123456789\r\n0\r\n\r\n"
            "GET / HTTP/1.0\r\n\r\n");
}

static void what_can_be_read_in_two_ways_is_refused(void **state)
{
    (void)state;
    IS_REFUSED(TOP "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "Content-Length: +1\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "Content-Length: 1 1\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "Content-Length: 18446744073709551615\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "Content-Length: 00000000000000000000000000001\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "Content-Length:\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "Content-Length : 1\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "Transfer-Encoding: xchunked\r\n\r\n", canned, 501);
    IS_REFUSED(TOP "Transfer-Encoding: chunked, chunked\r\n\r\n", canned, 501);
    IS_REFUSED(TOP "Transfer-Encoding:\v chunked\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "X: a\r\n b\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "X: a\0\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "X: a\r\r\n\r\n", canned, 400);
    IS_REFUSED(TOP "X: a\n\r\n", canned, 400);
    IS_REFUSED("GET  / HTTP/1.1\r\n\r\n", canned, 400);
    IS_REFUSED("GET / HTTP/1.1 \r\n\r\n", canned, 400);
    IS_REFUSED("GET /\0 HTTP/1.1\r\n\r\n", canned, 400);
    IS_REFUSED("GET / HTTP/1.2\r\n\r\n", canned, 505);
    IS_REFUSED("GET / HTTP/1.1\r\n\r\n", canned, 400);
    IS_REFUSED("\nGET / HTTP/1.0\r\n\r\n", canned, 400);
    IS_REFUSED("\x16\x03\x01", canned, 400);
}

static void a_refusal_ends_the_body_that_is_under_way(void **state)
{
    (void)state;
#define CHUNKED TOP "Transfer-Encoding: chunked\r\n\r\n"
    IS_REFUSED(CHUNKED "1\r\nab\r\n", CHUNKED "1\r\na\r\n0\r\n\r\n", 400);
    IS_REFUSED(CHUNKED "1\r\na\n", CHUNKED "1\r\na\r\n0\r\n\r\n", 400);
    IS_REFUSED(CHUNKED "g\r\n", CHUNKED "0\r\n\r\n", 400);
    IS_REFUSED(CHUNKED "1;\0\r\n", CHUNKED "0\r\n\r\n", 400);
    IS_REFUSED(CHUNKED "1;\n", CHUNKED "0\r\n\r\n", 400);
    IS_REFUSED(CHUNKED "8000000000000000\r\n", CHUNKED "0\r\n\r\n", 413);
    IS_REFUSED(CHUNKED "0\r\nX\r\n\r\n", CHUNKED "0\r\n\r\n", 400);
#undef CHUNKED
}

static void heads_chunk_lines_and_trailers_have_a_limit(void **state)
{
    (void)state;
    char text[2000];
    int n = snprintf(text, sizeof text, "GET /%01000d HTTP/1.0\r\n\r\n", 0);
    comes_out(text, (size_t)n, canned, 414);
    n = snprintf(text, sizeof text, "GET / HTTP/1.0\r\nX: %01000d\r\n\r\n", 0);
    comes_out(text, (size_t)n, canned, 431);
    n = snprintf(text, sizeof text, TOP "Transfer-Encoding: chunked\r\n\r\n1;%01000d\r\n", 0);
    comes_out(text, (size_t)n, TOP "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400);
    n = snprintf(text, sizeof text, TOP "Transfer-Encoding: chunked\r\n\r\n0\r\nX: %01000d\r\n", 0);
    comes_out(text, (size_t)n, TOP "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 431);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_that_are_read_come_out_and_no_others),
        cmocka_unit_test(further_headers_come_out_if_the_caller_lists_them),
        cmocka_unit_test(empty_lines_before_a_request_are_let_pass_but_not_for_ever),
        cmocka_unit_test(blanks_around_a_value_are_none_of_it),
        cmocka_unit_test(requests_follow_each_other),
        cmocka_unit_test(chunks_come_out_without_extensions_and_trailers),
        cmocka_unit_test(what_can_be_read_in_two_ways_is_refused),
        cmocka_unit_test(a_refusal_ends_the_body_that_is_under_way),
        cmocka_unit_test(heads_chunk_lines_and_trailers_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
