/* Tests the web page: its files, the hosts under which it is served, and its events. */
#include "tests/support/test.h"

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "server/base/cancellation.h"
#include "server/json/json.h"
#include "server/page/page.h"
#include "server/telemetry/page_event.h"

enum { MAX_PAGE_BYTES = 150000 };

static bool contains(struct rt_span s, const char *words)
{
    return memmem(s.p, s.n, words, strlen(words)) != NULL;
}

static void files_are_found_by_path(void **state)
{
    size_t all = 0;
    (void)state;
    for (int i = 0; i < SRV_PAGE_FILES; i++) {
        const struct srv_page_file file = srv_page_file(i);
        assert_int_equal(srv_page_find(rt_span_str(file.path)), i);
        assert_true(file.bytes.n > 0);
        all += file.bytes.n;
    }
    assert_true(all < MAX_PAGE_BYTES);
    assert_int_equal(srv_page_find(rt_span_str("")), -1);
    assert_int_equal(srv_page_find(rt_span_str("/page")), -1);
    assert_int_equal(srv_page_find(rt_span_str("/page/page.js/")), -1);
}

static void files_name_nothing_outside_and_no_code_inside(void **state)
{
    (void)state;
    for (int i = 0; i < SRV_PAGE_FILES; i++) {
        const struct rt_span bytes = srv_page_file(i).bytes;
        assert_false(contains(bytes, "https://"));
        assert_false(contains(bytes, "@import"));
        assert_false(contains(bytes, "innerHTML"));
        assert_false(contains(bytes, " style="));
        assert_false(contains(bytes, " onclick="));
    }
    /* The only URL is the name of SVG's namespace, which browsers do not load. */
    assert_false(contains(srv_page_file(0).bytes, "http://"));
}

static void hosts_of_strangers_are_refused(void **state)
{
    static const char *const allowed[] = {
        "",          "127.0.0.1",   "127.0.0.1:8501", "192.168.1.7:80", "[::1]",      "[::1]:8501",
        "localhost", "LOCALHOST:1", "localhost.",     "a.localhost",    "models.lan", "Gpu-1:8501"};
    static const char *const refused[] = {"evil.example",
                                          "evil.example:8501",
                                          "localhost.evil.example",
                                          "127.0.0.1.evil.example",
                                          "notlocalhost",
                                          "127.0.0.1:80x",
                                          "[::1",
                                          "[::1]x",
                                          "[evil.example]",
                                          "::1",
                                          ":8501",
                                          ".",
                                          "models.lan.evil",
                                          "models",
                                          "gpu-1,models.lan",
                                          "127.0.0.1@evil.example",
                                          "[]",
                                          "-"};
    (void)state;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (!srv_page_host_is_allowed(rt_span_str(allowed[i]), "models.lan,gpu-1"))
            fail_msg("%s is refused", allowed[i]);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (srv_page_host_is_allowed(rt_span_str(refused[i]), "models.lan,gpu-1"))
            fail_msg("%s is allowed", refused[i]);
    assert_false(srv_page_host_is_allowed(rt_span_str("models.lan"), ""));
    assert_false(srv_page_host_is_allowed(rt_span_str("a"), ",,"));
}

static void names_that_no_host_can_have_are_found(void **state)
{
    static const char *const bad[][2] = {{"a,b c", "b c"},
                                         {"a, b", " b"},
                                         {",a", ","},
                                         {"a,,b", ","},
                                         {"models.lan:8501", "models.lan:8501"},
                                         {"http://a", "http://a"},
                                         {"[::1]", "[::1]"},
                                         {"a,\xc3\xa4", "\xc3\xa4"}};
    (void)state;
    assert_int_equal(srv_page_bad_host("").n, 0);
    assert_int_equal(srv_page_bad_host("models.lan,gpu-1,A_1").n, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!rt_span_is(srv_page_bad_host(bad[i][0]), bad[i][1]))
            fail_msg("%s", bad[i][0]);
}

static void only_links_of_foreign_pages_are_followed(void **state)
{
    static const struct {
        const char *site, *mode;
        bool is_allowed, is_file_allowed;
    } cases[] = {{"", "", true, true},
                 {"same-origin", "cors", true, true},
                 {"none", "navigate", true, true},
                 {"cross-site", "navigate", false, true},
                 {"cross-site", "no-cors", false, false},
                 {"same-site", "no-cors", false, false},
                 {"cross-site", "", false, false},
                 {"same-origin-not", "cors", false, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rt_span site = rt_span_str(cases[i].site), mode = rt_span_str(cases[i].mode);
        if (srv_page_fetch_is_allowed(site, mode, false) != cases[i].is_allowed ||
            srv_page_fetch_is_allowed(site, mode, true) != cases[i].is_file_allowed)
            fail_msg("%s, %s", cases[i].site, cases[i].mode);
    }
}

static void a_page_is_the_servers_own_under_its_host(void **state)
{
    static const struct {
        const char *origin, *host;
        bool is_own;
    } cases[] = {{"http://127.0.0.1:8501", "127.0.0.1:8501", true},
                 {"https://models.lan", "Models.LAN", true},
                 {"http://[::1]:8501", "[::1]:8501", true},
                 {"http://127.0.0.1:8502", "127.0.0.1:8501", false},
                 {"http://127.0.0.1", "127.0.0.1:8501", false},
                 {"http://evil.example", "127.0.0.1:8501", false},
                 {"ftp://127.0.0.1:8501", "127.0.0.1:8501", false},
                 {"127.0.0.1:8501", "127.0.0.1:8501", false},
                 {"http://", "", false},
                 {"null", "null", false},
                 {"", "", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (srv_page_origin_is_own(rt_span_str(cases[i].origin), rt_span_str(cases[i].host)) !=
            cases[i].is_own)
            fail_msg("%s, %s", cases[i].origin, cases[i].host);
}

/* Checks that `event` is one server-sent event with JSON, and returns the JSON. */
static struct rt_span json_of(const struct rt_bytes *event, struct rt_arena *arena)
{
    static const char begin[] = "retry: 250\ndata: ";
    const size_t n = sizeof begin - 1;
    struct srv_cancellation never = {.deadline_ns = RT_NEVER};
    struct srv_json_doc doc;
    struct rt_error err = {.arena = arena};

    assert_false(event->failed);
    assert_true(event->n > n + 2);
    assert_memory_equal(event->p, begin, n);
    assert_memory_equal(event->p + event->n - 2, "\n\n", 2);
    const struct rt_span json = rt_span_of(event->p + n, event->n - n - 2);
    /* A further line would be a field of its own. */
    assert_null(memchr(json.p, '\n', json.n));
    assert_null(memchr(json.p, '\r', json.n));
    memset(&doc, 0, sizeof doc);
    assert_ok(srv_json_check(&doc, json, &never, &err), &err);
    return json;
}

static void an_event_without_a_manager_is_complete(void **state)
{
    static struct srv_server server;
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct rt_bytes out;
    (void)state;
    atomic_store(&server.rest_requests, 5);
    srv_page_event(&server, 3, &out);
    const struct rt_span json = json_of(&out, arena);
    assert_true(contains(json, "\"ready\":false"));
    assert_true(contains(json, "\"requests_in_flight\":2,"));
    assert_true(contains(json, "\"latency_scale_us\":[10,1.8],\"batch_scale\":[1,2]"));
    assert_true(contains(json, "\"versions\":[],\"left_off\":0,\"troubles\":[]}"));
    rt_bytes_clear(&out);
    rt_arena_free(arena);
}

static void names_and_messages_cannot_leave_their_strings(void **state)
{
    static char message[SRV_PAGE_MESSAGE_BYTES * 2];
    struct srv_figures figures = {.version = INT64_MAX, .n_queued = 4};
    const struct srv_page_totals totals = {.refused = UINT64_MAX, .errors = 5, .cores = 2};
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_version_status status = {INT64_MAX, SRV_AVAILABLE, RT_OK, message};
    struct rt_bytes out;
    (void)state;
    memset(message, '\n', sizeof message - 1);
    figures.statistics.latency[2] = 7;
    figures.statistics.batches[0] = 1;
    figures.stats.bf16 = true;
    rt_bytes_init(&out, SRV_PAGE_MAX_EVENT);
    srv_page_write_begin(&out, &totals);
    srv_page_write_version(&out, true, "a\n\ndata: {}\r\"\\<b>\xff", &status, &figures);
    srv_page_write_no_version(&out, false, "</script>", "gone\nevent: x");
    const char *const problems[] = {"a\n\ndata: \"", "b"};
    srv_page_write_end(&out, 9, 2, problems);
    const struct rt_span json = json_of(&out, arena);
    assert_true(contains(json, "{\"model\":\"a\\n\\ndata: {}\\r\\\"\\\\<b>\xef\xbf\xbd\","));
    assert_true(contains(json, "\"version\":\"9223372036854775807\",\"state\":\"AVAILABLE\""));
    assert_true(contains(json, "\"device\":\"CPU\",\"precision\":\"bf16\""));
    assert_true(contains(json, "\"refused\":18446744073709551615,\"errors\":5,"));
    assert_true(contains(json, "\"queued\":4"));
    assert_true(contains(json, "\"latency\":[0,0,7],\"batches\":[1]}"));
    assert_true(contains(json, ",{\"model\":\"</script>\",\"version\":\"\",\"state\":\"NONE\","
                               "\"message\":\"gone\\nevent: x\"}],\"left_off\":9,"
                               "\"troubles\":[\"a\\n\\ndata: \\\"\",\"b\"]}"));
    assert_true(json.n < 2 * SRV_PAGE_MESSAGE_BYTES + 2000);
    rt_bytes_clear(&out);
    rt_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_found_by_path),
        cmocka_unit_test(files_name_nothing_outside_and_no_code_inside),
        cmocka_unit_test(hosts_of_strangers_are_refused),
        cmocka_unit_test(names_that_no_host_can_have_are_found),
        cmocka_unit_test(only_links_of_foreign_pages_are_followed),
        cmocka_unit_test(a_page_is_the_servers_own_under_its_host),
        cmocka_unit_test(an_event_without_a_manager_is_complete),
        cmocka_unit_test(names_and_messages_cannot_leave_their_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
