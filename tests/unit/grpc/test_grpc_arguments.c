#include "tests/support/test.h"

#include "server/grpc/grpc_arguments.h"

static grpc_arg args[4];
static size_t n;
static struct rt_error err;

static enum rt_status parse(struct rt_arena *arena, const char *text)
{
    err = (struct rt_error){.arena = NULL};
    return srv_grpc_parse_arguments(text, arena, args, 4, &n, &err);
}

static void numbers_are_integers_and_the_rest_strings(void **state)
{
    struct rt_arena *arena = rt_arena_new(1 << 16);
    (void)state;
    assert_ok(parse(arena, "a.b=3,c=-1,d=x=y,e=99999999999"), &err);
    assert_int_equal(n, 4);
    assert_int_equal(args[0].type, GRPC_ARG_INTEGER);
    assert_int_equal(args[0].value.integer, 3);
    assert_string_equal(args[0].key, "a.b");
    assert_int_equal(args[1].value.integer, -1);
    assert_int_equal(args[2].type, GRPC_ARG_STRING);
    assert_string_equal(args[2].value.string, "x=y");
    assert_int_equal(args[3].type, GRPC_ARG_STRING);
    assert_ok(parse(arena, ""), &err);
    assert_int_equal(n, 0);
    assert_ok(parse(arena, "a=,"), &err);
    assert_int_equal(n, 1);
    assert_string_equal(args[0].value.string, "");
    rt_arena_free(arena);
}

static void what_is_no_argument_or_too_many_is_refused_by_name(void **state)
{
    struct rt_arena *arena = rt_arena_new(1 << 16);
    (void)state;
    assert_fails(parse(arena, "a=1,b"), RT_INVALID_ARGUMENT, &err, "\"b\"");
    assert_fails(parse(arena, "=1"), RT_INVALID_ARGUMENT, &err, "\"=1\"");
    assert_fails(parse(arena, "a=1,,b=2"), RT_INVALID_ARGUMENT, &err, "\"\"");
    assert_fails(parse(arena, "a=1,a=2,a=3,a=4,a=5"), RT_INVALID_ARGUMENT, &err, "more than 4");
    rt_arena_free(arena);
}

static void those_of_the_flag_come_behind_ours(void **state)
{
    struct rt_arena *arena = rt_arena_new(1 << 16);
    struct srv_options o;
    const char *const argv[] = {"slipway", "--grpc_channel_arguments=grpc.so_reuseport=1",
                                "--max_body_bytes=4G"};
    grpc_channel_args all;
    FILE *out = fopen("/dev/null", "w");
    int before = -1, after = -1, receive = 0;
    (void)state;
    assert_int_equal(srv_options_parse(&o, true, 3, argv, out), SRV_PARSE_RUN);
    fclose(out);
    assert_ok(srv_grpc_arguments(&o, NULL, arena, &all, &err), &err);
    for (int i = 0; i < (int)all.num_args; i++) {
        if (strcmp(all.args[i].key, "grpc.so_reuseport") == 0) {
            if (before < 0)
                before = i;
            after = i;
        }
        if (strcmp(all.args[i].key, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH) == 0)
            receive = all.args[i].value.integer;
    }
    assert_true(before >= 0 && after > before);
    assert_int_equal(all.args[before].value.integer, 0);
    assert_int_equal(all.args[after].value.integer, 1);
    assert_int_equal(receive, INT32_MAX);
    rt_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_integers_and_the_rest_strings),
        cmocka_unit_test(what_is_no_argument_or_too_many_is_refused_by_name),
        cmocka_unit_test(those_of_the_flag_come_behind_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
