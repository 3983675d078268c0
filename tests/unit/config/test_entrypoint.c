#include "tests/support/test.h"

#include "server/config/entrypoint.h"

static bool there(const char *path)
{
    (void)path;
    return true;
}

static bool not_there(const char *path)
{
    (void)path;
    return false;
}

static char *line_of(const struct srv_entrypoint *e, struct rt_arena *arena)
{
    char *line = rt_arena_strdup(arena, e->as_tensorflow ? "theirs" : "own");
    for (int i = 1; i < e->argc; i++)
        line = rt_arena_printf(arena, "%s %s", line, e->argv[i]);
    return line;
}

static void the_environment_names_the_model(void **state)
{
    (void)state;
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    const char *const none[] = {"tf_serving_entrypoint.sh"};
    const char *const more[] = {"tf_serving_entrypoint.sh", "--rest_api_port=9", "--x"};
    struct srv_entrypoint e;

    assert_true(srv_entrypoint(&e, 1, none, "m", NULL, not_there, arena));
    assert_string_equal(line_of(&e, arena), "theirs --port=8500 --rest_api_port=8501 "
                                            "--model_name=m --model_base_path=/models/m");
    assert_true(srv_entrypoint(&e, 3, more, "", "/srv", not_there, arena));
    assert_string_equal(line_of(&e, arena),
                        "theirs --port=8500 --rest_api_port=8501 --model_name=model "
                        "--model_base_path=/srv/model --rest_api_port=9 --x");
    rt_arena_free(arena);
}

static void without_a_model_all_directories_are_served(void **state)
{
    (void)state;
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    const char *const none[] = {"e"};
    const char *const config[] = {"e", "--model_config_file=/models/c"};
    struct srv_entrypoint e;

    assert_true(srv_entrypoint(&e, 1, none, NULL, NULL, not_there, arena));
    assert_string_equal(line_of(&e, arena), "own --port=8500 --rest_api_port=8501 "
                                            "--bind_address=0.0.0.0 --models=/models");
    assert_true(srv_entrypoint(&e, 1, none, NULL, NULL, there, arena));
    assert_true(e.as_tensorflow);
    assert_true(srv_entrypoint(&e, 2, config, NULL, NULL, not_there, arena));
    assert_true(e.as_tensorflow);
    rt_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_names_the_model),
        cmocka_unit_test(without_a_model_all_directories_are_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
