#include "tests/support/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "server/versions/model_root.h"

static char dir[] = "/tmp/slipway-root-XXXXXX";
static struct rt_error err;

static enum rt_status check(const char *root, const char *path)
{
    char full_root[256], full_path[512];
    struct srv_model_config model = {.name = "m", .base_path = full_path};
    struct srv_config config = {.n_models = 1, .models = &model};
    err = (struct rt_error){.arena = NULL};
    snprintf(full_root, sizeof full_root, "%s%s", dir, root);
    snprintf(full_path, sizeof full_path, "%s%s", dir, path);
    return srv_model_root_check(full_root, &config, &err);
}

static void make(const char *name, const char *link_to)
{
    char path[256], target[256];
    snprintf(path, sizeof path, "%s%s", dir, name);
    snprintf(target, sizeof target, "%s%s", dir, link_to ? link_to : "");
    assert_int_equal(link_to ? symlink(target, path) : mkdir(path, 0700), 0);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    make("/base", NULL);
    make("/base/m", NULL);
    make("/baseed", NULL);
    make("/out", NULL);
    make("/base/leads_out", "/out");
    make("/base/leads_in", "/base/m");
    make("/base/dangles", "/out/none");
    make("/alias", "/base");
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"/alias",          "/base/dangles", "/base/leads_in",
                                        "/base/leads_out", "/out",          "/baseed",
                                        "/base/m",         "/base",         ""};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s%s", dir, names[i]);
        remove(path);
    }
    return 0;
}

static void what_lies_below_is_allowed(void **state)
{
    (void)state;
    assert_ok(check("/base", "/base/m"), &err);
    assert_ok(check("/base", "/base"), &err);
    assert_ok(check("/base/", "/base/m"), &err);
    assert_ok(check("/alias", "/base/m"), &err);
    assert_ok(check("/base", "/alias/m"), &err);
    assert_ok(check("/base", "/base/leads_in"), &err);
    assert_ok(check("/base", "/base/not/yet"), &err);
    struct srv_model_config model = {.name = "m", .base_path = "/anything"};
    struct srv_config config = {.n_models = 1, .models = &model};
    assert_ok(srv_model_root_check("", &config, &err), &err);
    assert_ok(srv_model_root_check("/", &config, &err), &err);
}

static void what_leads_out_is_refused_by_name(void **state)
{
    (void)state;
    const char *const bad[] = {"/out",
                               "/baseed",
                               "/base/../out",
                               "/base/leads_out",
                               "/base/leads_out/x",
                               "/base/dangles",
                               "/base/none/../../out",
                               "/base/none/..",
                               ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(check("/base", bad[i]), RT_PERMISSION_DENIED, &err, "model m: base path");
    assert_fails(check("/none", "/base/m"), RT_PERMISSION_DENIED, &err, "--model_root");
}

static void a_log_of_requests_must_lie_below_too(void **state)
{
    char prefix[256];
    struct srv_logging_config logging = {.filename_prefix = prefix};
    struct srv_model_config model = {.name = "m", .base_path = dir, .logging = &logging};
    struct srv_config config = {.n_models = 1, .models = &model};
    (void)state;
    err = (struct rt_error){.arena = NULL};
    snprintf(prefix, sizeof prefix, "%s/logs/requests", dir);
    assert_ok(srv_model_root_check(dir, &config, &err), &err);
    snprintf(prefix, sizeof prefix, "relative");
    assert_fails(srv_model_root_check(dir, &config, &err), RT_PERMISSION_DENIED, &err, "log");
    snprintf(prefix, sizeof prefix, "%s/../elsewhere", dir);
    assert_fails(srv_model_root_check(dir, &config, &err), RT_PERMISSION_DENIED, &err, "log");
}

static void without_a_root_only_logs_of_the_operator_are_taken(void **state)
{
    struct srv_logging_config logging[] = {{.filename_prefix = "/a"}, {.filename_prefix = "/b"}};
    struct srv_model_config model[] = {{.name = "a", .base_path = dir, .logging = &logging[0]},
                                       {.name = "b", .base_path = dir, .logging = &logging[1]}};
    struct srv_config both = {.n_models = 2, .models = model};
    struct srv_config a = {.n_models = 1, .models = model};
    struct srv_config b = {.n_models = 1, .models = model + 1};
    (void)state;
    err = (struct rt_error){.arena = NULL};
    assert_ok(srv_model_root_check_logs("", &both, NULL, &both, &err), &err);
    assert_ok(srv_model_root_check_logs("", &a, &b, &both, &err), &err);
    assert_ok(srv_model_root_check_logs("/root", NULL, NULL, &both, &err), &err);
    assert_fails(srv_model_root_check_logs("", &a, NULL, &both, &err), RT_PERMISSION_DENIED, &err,
                 "model b: a reload may name a new log of requests (/b)");
}

static void the_root_must_be_a_directory(void **state)
{
    (void)state;
    err = (struct rt_error){.arena = NULL};
    assert_ok(srv_model_root_exists("", &err), &err);
    assert_ok(srv_model_root_exists(dir, &err), &err);
    assert_fails(srv_model_root_exists("/dev/null", &err), RT_INVALID_ARGUMENT, &err,
                 "not a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_below_is_allowed),
        cmocka_unit_test(what_leads_out_is_refused_by_name),
        cmocka_unit_test(a_log_of_requests_must_lie_below_too),
        cmocka_unit_test(without_a_root_only_logs_of_the_operator_are_taken),
        cmocka_unit_test(the_root_must_be_a_directory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
