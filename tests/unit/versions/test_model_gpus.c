/* Tests what a configuration says about GPUs (server/versions/model_gpus.h). */
#include "tests/support/test.h"

#include "runtime/core/device/device_memory.h"
#include "server/versions/model_gpus.h"

static void *device_alloc(struct rt_device *d, size_t bytes)
{
    (void)d;
    return malloc(bytes);
}

static void device_free(struct rt_device *d, void *p)
{
    (void)d;
    free(p);
}

static void no_query(struct rt_device *d, struct rt_device_sensors *out)
{
    (void)d;
    (void)out;
    fail_msg("a configuration is checked without asking the driver");
}

static void a_configuration_is_checked_without_the_driver(void **state)
{
    (void)state;
    struct rt_device d = {.type = "GPU",
                          .n_streams = 1,
                          .total_bytes = 50,
                          .alloc = device_alloc,
                          .free = device_free,
                          .sense = no_query};
    struct srv_model_config m = {.name = "m", .gpu.memory_bytes = 50};
    const struct srv_config config = {.models = &m, .n_models = 1};
    struct srv_server *s = calloc(1, sizeof *s);
    struct rt_error err = {0};
    assert_non_null(s);
    assert_true(rt_device_begin(&d, 100));
    s->gpus.device[0] = &d;
    s->gpus.n = 1;
    assert_ok(srv_model_gpus_check(s, &config, &err), &err);
    m.gpu.memory_bytes = 51;
    assert_int_equal(srv_model_gpus_check(s, &config, &err), RT_INVALID_ARGUMENT);
    assert_non_null(strstr(rt_error_text(&err), "the server may use 50 bytes of GPU 0"));
    rt_device_end(&d);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_configuration_is_checked_without_the_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
