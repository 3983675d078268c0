/* Tests the choice of GPUs for loads (server/versions/model_gpus.h). */
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

/* Chooses GPUs for weights of `bytes` bytes, and returns whether the only GPU was chosen. */
static bool is_chosen(struct srv_server *s, int64_t bytes, struct rt_session_accelerators *out)
{
    const struct srv_gpu_use use = {.allowed = 1};
    const int64_t leaving[RT_MAX_ACCELERATORS] = {0};
    srv_model_gpus_choose(s, "m", &use, bytes, leaving, out);
    return out->n == 1;
}

/* Weights that a load has uploaded count once, not as used and as reserved. */
static void a_load_reserves_what_it_has_not_uploaded(void **state)
{
    (void)state;
    struct rt_session_accelerators first, second, other;
    struct rt_device d = {
        .type = "GPU", .n_streams = 1, .alloc = device_alloc, .free = device_free};
    struct srv_server *s = calloc(1, sizeof *s);
    struct rt_device_memory weights;
    struct rt_error err = {0};
    assert_non_null(s);
    assert_true(rt_device_begin(&d, 100));
    s->gpus.device[0] = &d;
    s->gpus.n = 1;
    assert_true(is_chosen(s, 40, &first));
    assert_false(is_chosen(s, 61, &other));
    assert_ok(rt_device_alloc(&d, RT_DEVICE_WEIGHTS, 30, "weights", &weights, &err), &err);
    assert_false(is_chosen(s, 61, &other));
    assert_true(is_chosen(s, 50, &second));
    srv_model_gpus_end_load(s, &first, 40);
    assert_false(is_chosen(s, 21, &other));
    assert_true(is_chosen(s, 20, &other));
    srv_model_gpus_end_load(s, &other, 20);
    srv_model_gpus_end_load(s, &second, 50);
    assert_true(is_chosen(s, 70, &other));
    srv_model_gpus_end_load(s, &other, 70);
    rt_device_free(&d, RT_DEVICE_WEIGHTS, &weights);
    rt_device_end(&d);
    free(s);
}

/* A GPU is also chosen if it has room once the versions that the load replaces have left. */
static void a_load_waits_for_what_it_replaces(void **state)
{
    (void)state;
    const struct srv_gpu_use use = {.allowed = 1};
    struct rt_session_accelerators out, other;
    struct rt_device d = {
        .type = "GPU", .n_streams = 1, .alloc = device_alloc, .free = device_free};
    struct srv_server *s = calloc(1, sizeof *s);
    struct rt_device_memory weights;
    struct rt_error err = {0};
    assert_non_null(s);
    assert_true(rt_device_begin(&d, 100));
    s->gpus.device[0] = &d;
    s->gpus.n = 1;
    assert_ok(rt_device_alloc(&d, RT_DEVICE_WEIGHTS, 60, "weights", &weights, &err), &err);
    const int64_t leaving[RT_MAX_ACCELERATORS] = {60};
    srv_model_gpus_choose(s, "m", &use, 101, leaving, &out);
    assert_int_equal(out.n, 0);
    srv_model_gpus_choose(s, "m", &use, 60, leaving, &out);
    assert_int_equal(out.n, 1);
    assert_int_equal(out.waits, 1);
    assert_int_equal(out.constant_bytes, 60);
    /* Nothing is reserved, and nothing is given back. */
    assert_true(is_chosen(s, 40, &other));
    srv_model_gpus_end_load(s, &other, 40);
    srv_model_gpus_end_load(s, &out, 60);
    assert_true(is_chosen(s, 40, &other));
    assert_int_equal(other.waits, 0);
    srv_model_gpus_end_load(s, &other, 40);
    rt_device_free(&d, RT_DEVICE_WEIGHTS, &weights);
    rt_device_end(&d);
    free(s);
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
        cmocka_unit_test(a_load_reserves_what_it_has_not_uploaded),
        cmocka_unit_test(a_load_waits_for_what_it_replaces),
        cmocka_unit_test(a_configuration_is_checked_without_the_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
