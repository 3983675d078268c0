/* Tests how request paths are matched with TensorFlow Serving's patterns and with Slipway's own. */
#include "tests/support/test.h"

#include "runtime/base/arena.h"
#include "server/protocol/route.h"

struct asked {
    struct srv_route to;
    struct rt_arena *arena;
    struct rt_error err;
};

static enum srv_route_set set;
static const char *metrics_path = "/monitoring/prometheus/metrics";

static enum rt_status ask(struct asked *a, const char *method, const char *uri)
{
    memset(a, 0, sizeof *a);
    a->arena = rt_arena_new(SIZE_MAX);
    a->err.arena = a->arena;
    return srv_route(&a->to, &srv_protocols, method, rt_span_str(uri), metrics_path, set, a->arena,
                     &a->err);
}

static void names(const char *method, const char *uri, enum srv_api api, const char *name,
                  const char *label, int64_t version)
{
    struct asked a;
    assert_ok(ask(&a, method, uri), &a.err);
    assert_int_equal(a.to.target, SRV_TO_CALL);
    assert_int_equal(srv_route_api(&a.to), (int)api);
    assert_true(rt_span_is(a.to.spec.name, name));
    if (label)
        assert_true(a.to.spec.label.p && rt_span_is(a.to.spec.label, label));
    else
        assert_null(a.to.spec.label.p);
    assert_int_equal(a.to.spec.has_version, version >= 0);
    if (version >= 0)
        assert_int_equal(a.to.spec.version, version);
    rt_arena_free(a.arena);
}

static void refused(const char *method, const char *uri, enum rt_status code, const char *words)
{
    struct asked a;
    assert_fails(ask(&a, method, uri), code, &a.err, words);
    rt_arena_free(a.arena);
}

static void models_are_found_by_name_version_and_label(void **state)
{
    (void)state;
    names("POST", "/v1/models/m:predict", SRV_PREDICT, "m", NULL, -1);
    names("POST", "/V1/Models/m/Versions/7:predict", SRV_PREDICT, "m", NULL, 7);
    names("POST", "/v1/models/m/labels/latest:classify", SRV_CLASSIFY, "m", "latest", -1);
    names("POST", "/v1/models/m:regress", SRV_REGRESS, "m", NULL, -1);
    names("GET", "/v1/models/m", SRV_STATUS, "m", NULL, -1);
    names("GET", "/v1/models/m/versions/99", SRV_STATUS, "m", NULL, 99);
    names("GET", "/v1/models/m/labels/latest", SRV_STATUS, "m", "latest", -1);
    names("GET", "/v1/models/m/metadata", SRV_METADATA, "m", NULL, -1);
    names("GET", "/v1/models/m/labels/latest/metadata", SRV_METADATA, "m", "latest", -1);
    names("GET", "/v1/models/m/versions/9223372036854775807/metadata", SRV_METADATA, "m", NULL,
          INT64_MAX);
}

static void names_are_decoded_after_matching(void **state)
{
    (void)state;
    const char *const want = "modelname!#$%&'()*+,/:;=?@[]";
    const char *const sent = "modelname%21%23%24%25%26%27%28%29%2A%2B%2C%2F%3A%3B%3D%3F%40%5B%5D";
    char uri[300];
    snprintf(uri, sizeof uri, "/v1/models/%s", sent);
    names("GET", uri, SRV_STATUS, want, NULL, -1);
    snprintf(uri, sizeof uri, "/v1/models/m/labels/%s/metadata", sent);
    names("GET", uri, SRV_METADATA, "m", want, -1);
    snprintf(uri, sizeof uri, "/v1/models/%s/labels/%s:predict", sent, sent);
    names("POST", uri, SRV_PREDICT, want, want, -1);
    names("GET", "/v1/models/100%", SRV_STATUS, "100%", NULL, -1);
    names("GET", "/v1/models/a%zz", SRV_STATUS, "a%zz", NULL, -1);
    names("GET", "/v1/models/m?x=1", SRV_STATUS, "m?x=1", NULL, -1);
}

static void a_name_is_tried_before_a_version(void **state)
{
    (void)state;
    names("GET", "/v1/models/metadata", SRV_STATUS, "metadata", NULL, -1);
    names("GET", "/v1/models/metadata/metadata", SRV_METADATA, "metadata", NULL, -1);
    names("GET", "/v1/models/versions/versions/5", SRV_STATUS, "versions", NULL, 5);
    names("GET", "/v1/models/m/METADATA", SRV_STATUS, "m", NULL, -1);
    refused("GET", "/v1/models/versions/5", RT_INVALID_ARGUMENT, "Missing model name in request.");
    refused("GET", "/v1/models", RT_INVALID_ARGUMENT, "Missing model name in request.");
}

static void what_does_not_match_is_malformed(void **state)
{
    (void)state;
    static const char *const both[] = {
        "/v1/foo",
        "/v1/models/foo/version/50:predict",
        "/v1/models/foo/version/50:regress",
    };
    static const char *const post[] = {
        "/v1/models",
        "/v1/models/",
        "/v1/models/foo",
        "/v1/models/foo:PREDICT",
        "/v1/models/foo:predictx",
        "/v1/models/foo/versions/HELLO:regress",
        "/v1/models/foo/metadata",
        "/v1/models/foo/label/some_label:regress",
        "/v1/models/foo/versions/50/labels/some_label:regress",
    };
    static const char *const get[] = {
        "/v1/models/",
        "/v1/models/foo:predict",
        "/v1/models/debug/model_name",
        "/v1/models/m/versions/",
        "/v1/models/m/versions/5x",
        "/v1/models/m/metadata/",
    };
    char words[200];
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        snprintf(words, sizeof words, "Malformed request: GET %s", both[i]);
        refused("GET", both[i], RT_INVALID_ARGUMENT, words);
        snprintf(words, sizeof words, "Malformed request: POST %s", both[i]);
        refused("POST", both[i], RT_INVALID_ARGUMENT, words);
    }
    for (size_t i = 0; i < sizeof post / sizeof *post; i++)
        refused("POST", post[i], RT_INVALID_ARGUMENT, "Malformed request: POST /v1/models");
    for (size_t i = 0; i < sizeof get / sizeof *get; i++)
        refused("GET", get[i], RT_INVALID_ARGUMENT, "Malformed request: GET /v1/models");
    refused("HEAD", "/v1/models/m", RT_INVALID_ARGUMENT, "Malformed request: HEAD /v1/models/m");
    refused("PUT", "/v1/models/m", RT_INVALID_ARGUMENT, "Malformed request: PUT /v1/models/m");
    refused("GET", "/v1/models/m/versions/18446744073709551615", RT_INVALID_ARGUMENT,
            "Failed to convert version: 18446744073709551615 to numeric.");
}

static void our_own_paths_stand_beside(void **state)
{
    (void)state;
    static const struct {
        const char *method, *uri, *name;
        enum srv_target target;
    } cases[] = {
        {"GET", "/healthz", NULL, SRV_TO_HEALTH},
        {"HEAD", "/healthz?x", NULL, SRV_TO_HEALTH},
        {"GET", "/readyz", NULL, SRV_TO_READY},
        {"GET", "/readyz/a%2Fb", "a/b", SRV_TO_READY},
        {"GET", "/monitoring/prometheus/metrics", NULL, SRV_TO_METRICS},
        {"POST", "/monitoring/prometheus/metrics", NULL, SRV_TO_METRICS},
        {"OPTIONS", "/v1/models/m:predict", NULL, SRV_TO_OPTIONS},
        {"GET", "http://host:8501/v1/models/m", "m", SRV_TO_CALL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked a;
        assert_ok(ask(&a, cases[i].method, cases[i].uri), &a.err);
        assert_int_equal(a.to.target, cases[i].target);
        if (cases[i].name)
            assert_true(rt_span_is(a.to.spec.name, cases[i].name));
        else
            assert_null(a.to.spec.name.p);
        rt_arena_free(a.arena);
    }
    refused("GET", "/monitoring/prometheus/metrics?x=1", RT_INVALID_ARGUMENT,
            "Unexpected path: /monitoring/prometheus/metrics?x=1");
    refused("GET", "/", RT_NOT_FOUND, "Nothing is served at /");
    refused("GET", "/v1", RT_NOT_FOUND, "Nothing is served at /v1");
    refused("GET", "", RT_NOT_FOUND, "Nothing is served at ");
    refused("GET", "*", RT_NOT_FOUND, "Nothing is served at *");
    refused("GET", "/readyzz", RT_NOT_FOUND, "/readyzz");
    refused("GET", "http://host", RT_NOT_FOUND, "http://host");
}

static void the_metrics_page_is_where_the_configuration_says(void **state)
{
    (void)state;
    struct asked a;
    metrics_path = "/v1/metrics";
    assert_ok(ask(&a, "GET", "/v1/metrics"), &a.err);
    assert_int_equal(a.to.target, SRV_TO_METRICS);
    rt_arena_free(a.arena);
    assert_int_equal(ask(&a, "GET", "/monitoring/prometheus/metrics"), RT_NOT_FOUND);
    rt_arena_free(a.arena);
    metrics_path = "";
    assert_int_equal(ask(&a, "GET", ""), RT_NOT_FOUND);
    rt_arena_free(a.arena);
    metrics_path = "/monitoring/prometheus/metrics";
}

static void the_web_page_is_found_if_it_is_served(void **state)
{
    static const char *const files[] = {"/", "/?x=1", "/page/page.js", "/page/page.css"};
    struct asked a;
    (void)state;
    set = SRV_ROUTES_WITH_PAGE;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_ok(ask(&a, i % 2 ? "HEAD" : "GET", files[i]), &a.err);
        assert_int_equal(a.to.target, SRV_TO_PAGE_FILE);
        assert_true(srv_route_is_page(&a.to));
        rt_arena_free(a.arena);
    }
    assert_ok(ask(&a, "GET", "/page/events"), &a.err);
    assert_int_equal(a.to.target, SRV_TO_PAGE_EVENTS);
    rt_arena_free(a.arena);
    assert_ok(ask(&a, "GET", "/page/errors/a%2Fb?x"), &a.err);
    assert_int_equal(a.to.target, SRV_TO_PAGE_ERRORS);
    assert_true(srv_route_is_page(&a.to));
    assert_true(rt_span_is(a.to.spec.name, "a/b"));
    rt_arena_free(a.arena);
    assert_ok(ask(&a, "GET", "/page/errors/"), &a.err);
    assert_int_equal(a.to.target, SRV_TO_PAGE_ERRORS);
    assert_int_equal(a.to.spec.name.n, 0);
    rt_arena_free(a.arena);
    assert_ok(ask(&a, "GET", "/page/plan/a%2Fb/c%2F%2Fd"), &a.err);
    assert_int_equal(a.to.target, SRV_TO_PAGE_PLAN);
    assert_true(rt_span_is(a.to.spec.name, "a/b"));
    assert_true(rt_span_is(a.to.spec.signature, "c//d"));
    rt_arena_free(a.arena);
    assert_ok(ask(&a, "POST", "/page/profile/a%2Fb/50"), &a.err);
    assert_int_equal(a.to.target, SRV_TO_PAGE_PROFILE);
    assert_true(rt_span_is(a.to.spec.name, "a/b"));
    assert_int_equal(a.to.n_requests, 50);
    rt_arena_free(a.arena);
    assert_ok(ask(&a, "GET", "/page/profile/m"), &a.err);
    assert_int_equal(a.to.n_requests, 0);
    rt_arena_free(a.arena);
    refused("POST", "/page/profile/m/0", RT_NOT_FOUND, "Nothing is served at /page/profile/m/0");
    refused("POST", "/page/profile/m/x", RT_NOT_FOUND, "Nothing is served at /page/profile/m/x");
    refused("POST", "/page/profile/m/99999999999999999999", RT_NOT_FOUND, "Nothing is served at");
    refused("POST", "/page/profile/m", RT_NOT_FOUND, "Nothing is served at /page/profile/m");
    refused("GET", "/page/profile/m/50", RT_NOT_FOUND, "Nothing is served at /page/profile/m/50");
    refused("HEAD", "/page/profile/m/50", RT_NOT_FOUND, "Nothing is served at /page/profile/m/50");
    refused("POST", "/page/events", RT_NOT_FOUND, "Nothing is served at /page/events");
    refused("GET", "/page/plan//x", RT_NOT_FOUND, "Nothing is served at /page/plan//x");
    refused("GET", "/page/errors", RT_NOT_FOUND, "Nothing is served at /page/errors");
    refused("POST", "/", RT_NOT_FOUND, "Nothing is served at /");
    refused("GET", "/page/", RT_NOT_FOUND, "Nothing is served at /page/");
    refused("GET", "/page/../page/events", RT_NOT_FOUND, "Nothing is served at /page/..");
    set = SRV_ROUTES_WITHOUT_PAGE;
    refused("GET", "/page/events", RT_NOT_FOUND, "Nothing is served at /page/events");
}

static void the_pages_address_has_the_page_and_the_calls_of_its_form(void **state)
{
    static const char *const others[][2] = {{"GET", "/v1/models/m"},
                                            {"POST", "/v1/models/m:classify"},
                                            {"OPTIONS", "/v1/models/m:predict"},
                                            {"GET", "/healthz"},
                                            {"GET", "/readyz"},
                                            {"GET", "/monitoring/prometheus/metrics"},
                                            {"GET", "http://h/v1/models/m"},
                                            {"GET", "/v2"},
                                            {"POST", "/v2/models/m/infer"},
                                            {"POST", "/v2/repository/models/m/unload"}};
    struct asked a;
    (void)state;
    set = SRV_ROUTES_OF_PAGE;
    assert_ok(ask(&a, "GET", "/page/events"), &a.err);
    assert_int_equal(a.to.target, SRV_TO_PAGE_EVENTS);
    rt_arena_free(a.arena);
    names("POST", "/v1/models/m:predict", SRV_PREDICT, "m", NULL, -1);
    names("GET", "/v1/models/m/metadata", SRV_METADATA, "m", NULL, -1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_fails(ask(&a, others[i][0], others[i][1]), RT_NOT_FOUND, &a.err,
                     "is not served at --page_address");
        assert_int_equal(a.to.target, SRV_TO_NOWHERE);
        assert_null(a.to.endpoint);
        rt_arena_free(a.arena);
    }
    refused("GET", "/nothing", RT_NOT_FOUND, "Nothing is served at /nothing: the page is at /");
    refused("POST", "/page/profile/m/0", RT_NOT_FOUND,
            "POST /page/profile/MODEL/N begins a profile");
    set = SRV_ROUTES_WITHOUT_PAGE;
    refused("POST", "/page/profile/m/0", RT_NOT_FOUND, "models are under /v1/models/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_found_by_name_version_and_label),
        cmocka_unit_test(names_are_decoded_after_matching),
        cmocka_unit_test(a_name_is_tried_before_a_version),
        cmocka_unit_test(what_does_not_match_is_malformed),
        cmocka_unit_test(our_own_paths_stand_beside),
        cmocka_unit_test(the_metrics_page_is_where_the_configuration_says),
        cmocka_unit_test(the_web_page_is_found_if_it_is_served),
        cmocka_unit_test(the_pages_address_has_the_page_and_the_calls_of_its_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
