#include "tests/support/test.h"

#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "server/config/config.h"
#include "tensorflow_serving/config/model_server_config.pb-c.h"
#include "tests/support/folder.h"

static struct srv_config *config;
static struct rt_error err;

static enum rt_status parse(const char *text)
{
    srv_config_free(config);
    config = NULL;
    err = (struct rt_error){0};
    return srv_config_from_text(rt_span_str(text), "models.config", &config, &err);
}

#define MODEL(name, rest)                                                                          \
    "config { name: '" name "' base_path: '/m' model_platform: 'tensorflow' " rest " } "
#define LIST(models) "model_config_list { " models " }"

static void a_list_of_models_is_read(void **state)
{
    (void)state;
    assert_ok(parse("model_config_list: {\n"
                    "  config: { name: \"b\", base_path: '/b///'; model_platform: 'tensorflow',\n"
                    "    model_version_policy { specific { versions: 42 versions: 7 } }\n"
                    "    version_labels { key: 'stable' value: 7 }\n"
                    "    version_labels { key: 'canary' value: 42 } }\n"
                    "  config { name: 'a' base_path: 'file:///a' model_type: TENSORFLOW\n"
                    "    model_version_policy: { latest { num_versions: 3 } } }\n"
                    "  config { name: 'c' base_path: '/c' model_platform: 'tensorflow'\n"
                    "    model_version_policy { all {} } }\n"
                    "}\n"),
              &err);
    assert_int_equal(config->n_models, 3);
    const struct srv_model_config *a = &config->models[0], *b = &config->models[1];
    assert_string_equal(a->name, "a");
    assert_string_equal(a->base_path, "/a");
    assert_int_equal(a->policy, SRV_POLICY_LATEST);
    assert_int_equal(a->n_latest, 3);
    assert_string_equal(b->base_path, "/b");
    assert_int_equal(b->policy, SRV_POLICY_SPECIFIC);
    assert_int_equal(b->n_specific, 2);
    assert_int_equal(b->specific[1], 7);
    assert_int_equal(b->n_labels, 2);
    assert_string_equal(b->labels[1].label, "canary");
    assert_int_equal(b->labels[1].version, 42);
    assert_int_equal(config->models[2].policy, SRV_POLICY_ALL);
}

static void the_last_of_labels_with_one_name_holds(void **state)
{
    (void)state;
    assert_ok(parse(LIST(MODEL("m", "version_labels { key: 'b' value: 1 }"
                                    "version_labels { key: 'a' value: 2 }"
                                    "version_labels { key: 'b' value: 3 }"
                                    "version_labels { value: 4 } version_labels { value: 5 }"))),
              &err);
    const struct srv_model_config *m = &config->models[0];
    assert_int_equal(m->n_labels, 3);
    assert_string_equal(m->labels[0].label, "b");
    assert_int_equal(m->labels[0].version, 3);
    assert_string_equal(m->labels[1].label, "a");
    assert_int_equal(m->labels[1].version, 2);
    assert_string_equal(m->labels[2].label, "");
    assert_int_equal(m->labels[2].version, 5);
}

static void many_labels_and_versions_are_read_soon_or_refused(void **state)
{
    (void)state;
    enum { MODELS = 10, LABELS = 10000 };
    struct rt_bytes text;

    rt_bytes_init(&text, 64 << 20);
    rt_bytes_adds(&text, "model_config_list {");
    for (int i = 0; i < MODELS; i++) {
        rt_bytes_addf(&text, "config { name: 'm%d' base_path: '/m' model_platform: 'tensorflow' ",
                      i);
        for (int k = 0; k < LABELS; k++)
            rt_bytes_addf(&text, "version_labels { key: 'l%d' value: %d }", k, k);
        rt_bytes_adds(&text, "}");
    }
    rt_bytes_addc(&text, '}');
    rt_bytes_addc(&text, '\0');
    assert_false(text.failed);
    const int64_t start = rt_thread_cpu_ns();
    assert_ok(parse(text.p), &err);
    const double seconds = (double)(rt_thread_cpu_ns() - start) / 1e9;
    print_message("%d labels: %.2f s\n", MODELS * LABELS, seconds);
    assert_true(seconds < 1.5);
    assert_int_equal(config->models[MODELS - 1].n_labels, LABELS);

    text.n = 0;
    rt_bytes_adds(&text, "model_config_list { config { name: 'm' base_path: '/m' model_platform: "
                         "'tensorflow' model_version_policy { specific { ");
    for (int k = 0; k < 100001; k++)
        rt_bytes_adds(&text, "versions: 1 ");
    rt_bytes_adds(&text, "} } } }");
    rt_bytes_addc(&text, '\0');
    assert_false(text.failed);
    assert_fails(parse(text.p), RT_INVALID_ARGUMENT, &err,
                 "model m: 100001 specific versions, at most 100000");
    rt_bytes_clear(&text);
}

static void a_model_name_of_more_than_4096_bytes_is_refused(void **state)
{
    (void)state;
    char name[4098] = "", text[5000];

    memset(name, 'n', 4096);
    snprintf(text, sizeof text, LIST(MODEL("%s", "")), name);
    assert_ok(parse(text), &err);
    assert_int_equal(strlen(config->models[0].name), 4096);
    name[4096] = 'n';
    snprintf(text, sizeof text, LIST(MODEL("%s", "")), name);
    assert_fails(parse(text), RT_INVALID_ARGUMENT, &err, "has 4097 bytes, at most 4096");
    assert_true(strlen(rt_error_text(&err)) < 200);
}

static void without_a_policy_the_latest_version_is_wanted(void **state)
{
    (void)state;
    assert_ok(parse(LIST(MODEL("m", ""))), &err);
    assert_int_equal(config->models[0].policy, SRV_POLICY_LATEST);
    assert_int_equal(config->models[0].n_latest, 1);
    assert_ok(parse(LIST(MODEL("m", "model_version_policy { latest {} }"))), &err);
    assert_int_equal(config->models[0].n_latest, 1);
}

static void a_model_may_have_a_precision_of_its_own(void **state)
{
    (void)state;
    assert_ok(parse(LIST(MODEL("a", "precision: 'bf16'") MODEL("b", "precision: 'float32'")
                             MODEL("c", ""))),
              &err);
    assert_int_equal(config->models[0].bf16, SRV_YES);
    assert_int_equal(config->models[1].bf16, SRV_NO);
    assert_int_equal(config->models[2].bf16, SRV_UNSET);
    assert_fails(parse(LIST(MODEL("a", "precision: 'int8'"))), RT_INVALID_ARGUMENT, &err,
                 "model a: precision is \"float32\" or \"bf16\", not \"int8\"");
}

static void a_model_may_have_gpu_settings_of_its_own(void **state)
{
    (void)state;
    assert_ok(parse(LIST(MODEL("a", "gpus: '0,2' gpu_precision: 'float32' gpu_memory_bytes: 4096 "
                                    "gpu_instances: 3") MODEL("b", "gpu_precision: 'tf32'")
                             MODEL("c", "gpus: ''"))),
              &err);
    const struct srv_gpu_config *a = &config->models[0].gpu, *c = &config->models[2].gpu;
    assert_string_equal(a->gpus, "0,2");
    assert_int_equal(a->full_precision, SRV_YES);
    assert_int_equal(a->memory_bytes, 4096);
    assert_int_equal(a->instances, 3);
    assert_int_equal(config->models[1].gpu.full_precision, SRV_NO);
    assert_null(c->gpus);
    assert_int_equal(c->full_precision, SRV_UNSET);
    static const char *const wrong[][2] = {
        {"0,", "'0,' has an empty item"},
        {",0", "',0' has an empty item"},
        {"0,,1", "'0,,1' has an empty item"},
        {"-1", "'-1' is neither the number nor the UUID"},
        {"first", "'first' is neither"},
        {"1,GPU", "'GPU' is neither"},
        {"0 1", "'0 1' is neither"},
        {"all,0", "'all' is neither"},
        {"0,2,0", "names GPU 0 twice"},
        {"GPU-aB,0,gpu-Ab", "names GPU gpu-Ab twice"},
        {"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "names more than 16 GPUs"}};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        char text[300];
        snprintf(text, sizeof text, LIST(MODEL("a", "gpus: '%s'")), wrong[k][0]);
        assert_fails(parse(text), RT_INVALID_ARGUMENT, &err,
                     "but must be none, all, or the numbers");
        assert_non_null(strstr(err.msg, wrong[k][1]));
    }
    assert_fails(parse(LIST(MODEL("a", "gpu_precision: 'fp16'"))), RT_INVALID_ARGUMENT, &err,
                 "model a: gpu_precision is \"tf32\" or \"float32\", not \"fp16\"");
    assert_fails(parse(LIST(MODEL("a", "gpu_memory_bytes: -1"))), RT_INVALID_ARGUMENT, &err,
                 "model a: gpu_memory_bytes is -1, but must be at least 0");
    assert_fails(parse(LIST(MODEL("a", "gpu_instances: 9"))), RT_INVALID_ARGUMENT, &err,
                 "model a: gpu_instances is 9, but must be between 0 and 8");
}

static void an_empty_file_is_a_server_without_models(void **state)
{
    (void)state;
    assert_ok(parse(""), &err);
    assert_int_equal(config->n_models, 0);
    assert_ok(parse("# nothing\nmodel_config_list {}"), &err);
    assert_int_equal(config->n_models, 0);
}

static void what_tensorflow_serving_refuses_is_refused(void **state)
{
    (void)state;
    assert_fails(parse(LIST(MODEL("m", "") MODEL("m", ""))), RT_INVALID_ARGUMENT, &err,
                 "Illegal to list model m multiple times in config list");
    assert_fails(parse(LIST("config { name: 'm' base_path: 'x' model_platform: 'tensorflow' }")),
                 RT_INVALID_ARGUMENT, &err,
                 "Expected model m to have an absolute path or URI; got base_path()=x");
    assert_fails(parse(LIST("config { name: 'm' base_path: '/m' }")), RT_INVALID_ARGUMENT, &err,
                 "Illegal setting neither ModelServerConfig::model_type (deprecated) nor "
                 "ModelServerConfig::model_platform");
    assert_fails(parse(LIST(MODEL("m", "model_type: TENSORFLOW"))), RT_INVALID_ARGUMENT, &err,
                 "Illegal setting both");
    assert_fails(parse(LIST("config { name: 'm' base_path: '/m' model_type: OTHER }")),
                 RT_INVALID_ARGUMENT, &err,
                 "ModelServerConfig::model_type choice 2 not supported.");
    assert_fails(parse("custom_model_config { type_url: 'a/b' }"), RT_INVALID_ARGUMENT, &err,
                 "Only ModelConfigList is currently supported");
    assert_fails(parse(LIST(MODEL("m", "logging_config { sampling_config { sampling_rate: 2 } }"))),
                 RT_INVALID_ARGUMENT, &err, "sampling_rate 2 is not between 0 and 1");
    assert_fails(parse(LIST("config { base_path: '/m' model_platform: 'tensorflow' }")),
                 RT_INVALID_ARGUMENT, &err, "has no name");
    assert_fails(parse("model_config_list { confg {} }"), RT_INVALID_ARGUMENT, &err,
                 "Invalid protobuf file: 'models.config': 1:27: Message type");
    assert_fails(parse(LIST("config { name: 'm' base_path: '/m' } " MODEL("m", ""))),
                 RT_INVALID_ARGUMENT, &err, "Illegal to list model m multiple times");
}

static void a_platform_must_be_tensorflow_and_stay_it(void **state)
{
    (void)state;
    assert_ok(parse(LIST("config { name: 'm' base_path: '/m' model_platform: 'caffe' }")), &err);
    assert_fails(srv_config_check_platforms(NULL, config, &err), RT_INVALID_ARGUMENT, &err,
                 "Model m requests unsupported platform caffe");
    struct srv_config *caffe = config;
    config = NULL;
    assert_ok(parse(LIST(MODEL("m", ""))), &err);
    assert_ok(srv_config_check_platforms(NULL, config, &err), &err);
    assert_ok(srv_config_check_platforms(config, config, &err), &err);
    assert_fails(srv_config_check_platforms(config, caffe, &err), RT_INVALID_ARGUMENT, &err,
                 "Illegal to change a model's platform. For model m platform was tensorflow and "
                 "new platform requested is caffe");
    srv_config_free(caffe);
}

static void an_error_ends_in_its_place_in_the_file(void **state)
{
    (void)state;
    assert_fails(parse("model_config_list {\n  config { name: 'm' base_path: '/m' model_platform: "
                       "'tensorflow' }\n  config { name: 'n' base_path: 'n' } }"),
                 RT_INVALID_ARGUMENT, &err, "got base_path()=n (models.config:3:10)");
    assert_fails(parse("model_config_list {\n config { name: 'm' base_path: '/m' model_platform: "
                       "'tensorflow' }\n config: < name: 'm' base_path: '/m' > }"),
                 RT_INVALID_ARGUMENT, &err,
                 "Illegal to list model m multiple times in config list (models.config:3:10)");
    assert_fails(parse(LIST("config { name: 'm' base_path: '/m' }")), RT_INVALID_ARGUMENT, &err,
                 "ModelServerConfig::model_platform. (models.config:1:28)");
    assert_ok(parse(LIST(MODEL("m", "")) " # x"), &err);
}

static void an_empty_file_may_not_follow_a_list(void **state)
{
    (void)state;
    assert_ok(parse(""), &err);
    struct srv_config *nothing = config;
    assert_false(nothing->is_list);
    config = NULL;
    assert_ok(parse(LIST(MODEL("m", ""))), &err);
    assert_ok(srv_config_check_transition(nothing, config, &err), &err);
    assert_ok(srv_config_check_transition(nothing, nothing, &err), &err);
    assert_fails(srv_config_check_transition(config, nothing, &err), RT_FAILED_PRECONDITION, &err,
                 "Cannot transition to requested config. It is only legal to transition from one "
                 "ModelConfigList to another.");
    struct srv_config *list = config;
    config = NULL;
    assert_ok(parse("model_config_list {}"), &err);
    assert_ok(srv_config_check_transition(list, config, &err), &err);
    srv_config_free(list);
    srv_config_free(nothing);
}

static void logging_is_kept(void **state)
{
    (void)state;
    assert_ok(parse(LIST(MODEL("m", "logging_config { log_collector_config { type: 'x' "
                                    "filename_prefix: '/log/m' } sampling_config { "
                                    "sampling_rate: 0.25 } }") MODEL("n", "logging_config {}")
                             MODEL("o", ""))),
              &err);
    const struct srv_logging_config *l = config->models[0].logging;
    assert_string_equal(l->type, "x");
    assert_string_equal(l->filename_prefix, "/log/m");
    assert_true(l->sampling_rate == 0.25);
    assert_string_equal(config->models[1].logging->filename_prefix, "");
    assert_null(config->models[2].logging);
}

/* Each configuration except the first differs from the first in one respect. */
static void configs_are_the_same_when_they_say_the_same(void **state)
{
    (void)state;
    static const char *const texts[] = {
        LIST(MODEL("m", "version_labels { key: 'a' value: 1 }")),
        "model_config_list {}",
        "",
        LIST(MODEL("n", "version_labels { key: 'a' value: 1 }")),
        LIST(MODEL("m", "")),
        LIST(MODEL("m", "version_labels { key: 'a' value: 2 }")),
        LIST(MODEL("m", "version_labels { key: 'b' value: 1 }")),
        LIST(MODEL("m", "version_labels { key: 'a' value: 1 } model_version_policy { all {} }")),
        LIST(MODEL("m", "version_labels { key: 'a' value: 1 } logging_config {}")),
        LIST("config { name: 'm' base_path: '/n' model_platform: 'tensorflow' version_labels { "
             "key: 'a' value: 1 } }")};
    struct srv_config *first = NULL;
    assert_ok(parse(texts[0]), &err);
    first = config;
    config = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof(texts[0]); i++) {
        assert_ok(parse(texts[i]), &err);
        assert_int_equal(srv_config_eq(first, config), i == 0);
    }
    assert_int_equal(srv_config_find(first, "m")->labels[0].version, 1);
    assert_null(srv_config_find(first, "l"));
    srv_config_free(first);
}

static void file_systems_that_are_not_local_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const paths[] = {"s3://b/m", "gs://b/m", "hdfs://h/m"};
    for (int i = 0; i < 3; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 LIST("config { name: 'm' base_path: '%s' model_platform: 'tensorflow' }"),
                 paths[i]);
        assert_fails(parse(text), RT_UNIMPLEMENTED, &err, paths[i]);
    }
}

/* The text form refuses such a name itself, but a reload request may hold one. */
static void a_name_that_is_not_utf8_is_refused(void **state)
{
    (void)state;
    Tensorflow__Serving__ModelConfig model;
    Tensorflow__Serving__ModelConfig *models[] = {&model};
    Tensorflow__Serving__ModelConfigList list = TENSORFLOW__SERVING__MODEL_CONFIG_LIST__INIT;
    Tensorflow__Serving__ModelServerConfig message = TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__INIT;
    struct srv_config *none = NULL;
    tensorflow__serving__model_config__init(&model);
    char bad[] = "half\xff", good[] = "half\xc3\xa9", path[] = "/models/half";
    char platform[] = "tensorflow";
    model.name = bad;
    model.base_path = path;
    model.model_platform = platform;
    list.n_config = 1;
    list.config = models;
    message.config_case = TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG_MODEL_CONFIG_LIST;
    message.model_config_list = &list;
    assert_fails(srv_config_from_message(&message, &none, &err), RT_INVALID_ARGUMENT, &err,
                 "is not UTF-8");
    model.name = good;
    assert_ok(srv_config_from_message(&message, &none, &err), &err);
    srv_config_free(none);
}

static void every_directory_of_a_folder_is_a_model_but_hidden_ones(void **state)
{
    (void)state;
    folder_new();
    folder_make("models/b/1");
    folder_make("models/a");
    folder_make("models/.git");
    folder_make("models/two\nlines");
    folder_make("models/\xff\xfe");
    folder_write("models/make_a.py", "");
    srv_config_free(config);
    config = NULL;
    assert_ok(srv_config_from_folder(folder_path("models"), &config, &err), &err);
    assert_int_equal(config->n_models, 2);
    assert_string_equal(config->models[0].name, "a");
    assert_string_equal(config->models[1].name, "b");
    assert_int_equal(config->models[1].base_path[0], '/');
    assert_non_null(strstr(config->warning, "no models, for their names are not UTF-8: "));
    assert_non_null(strstr(config->warning, "models/\xff\xfe"));
    struct srv_config *none = NULL;
    assert_fails(srv_config_from_folder(folder_path("nothing"), &none, &err), RT_NOT_FOUND, &err,
                 "nothing");
    folder_remove();
}

static void links_to_nothing_in_a_folder_are_named(void **state)
{
    (void)state;
    char words[256];
    folder_new();
    folder_make("models/b/1");
    assert_int_equal(symlink("b", folder_path("models/c")), 0);
    srv_config_free(config);
    config = NULL;
    assert_ok(srv_config_from_folder(folder_path("models"), &config, &err), &err);
    assert_int_equal(config->n_models, 2);
    assert_null(config->warning);
    assert_int_equal(symlink("nowhere", folder_path("models/z")), 0);
    assert_int_equal(symlink("nowhere/at/all", folder_path("models/a")), 0);
    assert_int_equal(symlink("nowhere", folder_path("models/.d")), 0);
    srv_config_free(config);
    config = NULL;
    assert_ok(srv_config_from_folder(folder_path("models"), &config, &err), &err);
    assert_int_equal(config->n_models, 2);
    snprintf(words, sizeof words, ": %s, %s", folder_path("models/a"), folder_path("models/z"));
    assert_non_null(config->warning);
    assert_non_null(strstr(config->warning, words));
    assert_null(strstr(config->warning, ".d"));
    for (int i = 0; i < 100; i++) {
        snprintf(words, sizeof words, "models/n%060d", i);
        assert_int_equal(symlink("nowhere", folder_path(words)), 0);
    }
    srv_config_free(config);
    config = NULL;
    assert_ok(srv_config_from_folder(folder_path("models"), &config, &err), &err);
    assert_non_null(strstr(config->warning, "0013, "));
    assert_non_null(strstr(config->warning, " more"));
    folder_remove();
}

/* A model directory that can be listed but not searched is treated as a model. Otherwise a mistaken
 * chmod would unload the model. */
static void a_model_that_may_not_be_looked_at_stays_one(void **state)
{
    (void)state;
    folder_new();
    folder_make("models/a/1");
    folder_write("models/make_a.py", "");
    folder_close("models");
    srv_config_free(config);
    config = NULL;
    enum rt_status st = srv_config_from_folder(folder_path("models"), &config, &err);
    folder_open_again("models");
    assert_ok(st, &err);
    assert_int_equal(config->n_models, 1);
    assert_string_equal(config->models[0].name, "a");
    folder_remove();
}

static int clean(void **state)
{
    (void)state;
    srv_config_free(config);
    config = NULL;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_models_is_read),
        cmocka_unit_test(the_last_of_labels_with_one_name_holds),
        cmocka_unit_test(many_labels_and_versions_are_read_soon_or_refused),
        cmocka_unit_test(a_model_name_of_more_than_4096_bytes_is_refused),
        cmocka_unit_test(without_a_policy_the_latest_version_is_wanted),
        cmocka_unit_test(a_model_may_have_a_precision_of_its_own),
        cmocka_unit_test(a_model_may_have_gpu_settings_of_its_own),
        cmocka_unit_test(an_empty_file_is_a_server_without_models),
        cmocka_unit_test(what_tensorflow_serving_refuses_is_refused),
        cmocka_unit_test(a_platform_must_be_tensorflow_and_stay_it),
        cmocka_unit_test(an_error_ends_in_its_place_in_the_file),
        cmocka_unit_test(an_empty_file_may_not_follow_a_list),
        cmocka_unit_test(logging_is_kept),
        cmocka_unit_test(configs_are_the_same_when_they_say_the_same),
        cmocka_unit_test(file_systems_that_are_not_local_are_refused_by_name),
        cmocka_unit_test(a_name_that_is_not_utf8_is_refused),
        cmocka_unit_test(every_directory_of_a_folder_is_a_model_but_hidden_ones),
        cmocka_unit_test(links_to_nothing_in_a_folder_are_named),
        cmocka_unit_test(a_model_that_may_not_be_looked_at_stays_one),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
