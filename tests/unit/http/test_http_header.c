/* Tests which values of the Accept, Accept-Encoding and Content-Length headers are accepted and
 * which are refused. */
#include "tests/support/test.h"

#include "server/http/http_header.h"

static void gzip_is_accepted_by_name_or_by_star(void **state)
{
    (void)state;
    static const char *const yes[] = {
        "gzip",           "GZip",           "x-gzip",       "*",
        "br, gzip",       "gzip;q=0.5",     "gzip ; q=1.0", ",,gzip,",
        "*;q=0, gzip",    "gzip;q=0.001",   "gzip;x=0",     "gzip;",
        "deflate\t,gzip", "*;q=0.1,br;q=0", "gzip;q=",      "gzip;q=00x"};
    static const char *const no[] = {
        "",          ",",     "br",         "gzip;q=0",   "gzip;q=0.", "gzip;q=0.000",
        "GZIP; Q=0", "*;q=0", "gzip;q=0,*", "*,gzip;q=0", "gzipped",   "identity, deflate",
        ";q=1",      "gzi p"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!srv_http_accepts_gzip(yes[i]))
            fail_msg("\"%s\" accepts gzip", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (srv_http_accepts_gzip(no[i]))
            fail_msg("\"%s\" does not accept gzip", no[i]);
}

static void a_coding_is_one_that_the_server_knows(void **state)
{
    const struct {
        const char *value;
        bool is_known, is_compressed;
    } cases[] = {
        {"gzip", true, true},         {"X-GZIP", true, true},     {"Deflate", true, true},
        {"identity", true, false},    {"", true, false},          {"br", false, false},
        {"gzip, gzip", false, false}, {"gzip;q=1", false, false}, {"gzi", false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool is_compressed = false;
        assert_int_equal(srv_http_coding(cases[i].value, &is_compressed), cases[i].is_known);
        assert_int_equal(is_compressed, cases[i].is_compressed);
    }
}

static void openmetrics_must_be_named_and_not_weigh_less_than_text(void **state)
{
    (void)state;
#define OPEN "application/openmetrics-text"
    static const char *const yes[] = {
        OPEN,
        "Application/OpenMetrics-Text; Version=1.0.0",
        OPEN ";version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
             "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        OPEN ";version=1.0.0;escaping=allow-utf-8;q=0.5," OPEN
             ";version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
             "text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
        "*/*, " OPEN,
        "text/plain;q=0.2,*/*, " OPEN " ; q=0.2",
        OPEN ";q=0.001"};
    static const char *const no[] = {"",
                                     "*/*",
                                     "text/plain",
                                     OPEN ";q=0",
                                     OPEN ";q=0.000",
                                     OPEN ";version=2.0.0",
                                     "text/plain," OPEN ";q=0.9",
                                     "text/*;q=0.7," OPEN ";q=0.699",
                                     "*/*;q=0.2," OPEN ";q=0.1",
                                     "x" OPEN,
                                     OPEN "s",
                                     ";" OPEN,
                                     "application/json"};
#undef OPEN
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!srv_http_prefers_openmetrics(yes[i]))
            fail_msg("\"%s\" does not prefer OpenMetrics", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (srv_http_prefers_openmetrics(no[i]))
            fail_msg("\"%s\" prefers OpenMetrics", no[i]);
}

static void a_length_is_digits_that_fit(void **state)
{
    (void)state;
    uint64_t n = 7;
    assert_true(srv_http_length("0", &n) && n == 0);
    assert_true(srv_http_length("00013", &n) && n == 13);
    assert_true(srv_http_length("18446744073709551615", &n) && n == UINT64_MAX);
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1,1",
                                      "0x1",
                                      "18446744073709551616",
                                      "99999999999999999999999"};
    n = 7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(srv_http_length(bad[i], &n));
    assert_int_equal(n, 7);
}

static void a_type_is_named_by_itself_only(void **state)
{
    (void)state;
#define EVENTS "text/event-stream"
    static const char *const yes[] = {EVENTS,           "Text/Event-Stream",
                                      EVENTS ";q=0.1",  "image/*, " EVENTS ", */*",
                                      ",," EVENTS ",,", EVENTS ";charset=utf-8"};
    static const char *const no[] = {"",
                                     "*/*",
                                     "text/*",
                                     EVENTS ";q=0",
                                     EVENTS "s",
                                     "x" EVENTS,
                                     "image/png;x=" EVENTS,
                                     "image/avif,image/webp,image/svg+xml,image/*,*/*;q=0.8",
                                     "text/html,application/xml;q=0.9,*/*;q=0.8"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!srv_http_names_type(yes[i], EVENTS))
            fail_msg("\"%s\" names the type", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (srv_http_names_type(no[i], EVENTS))
            fail_msg("\"%s\" does not name the type", no[i]);
#undef EVENTS
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gzip_is_accepted_by_name_or_by_star),
        cmocka_unit_test(a_coding_is_one_that_the_server_knows),
        cmocka_unit_test(openmetrics_must_be_named_and_not_weigh_less_than_text),
        cmocka_unit_test(a_type_is_named_by_itself_only),
        cmocka_unit_test(a_length_is_digits_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
