/* Tests the Open Inference Protocol: its paths, names of models and data types, parameters, raw
 * tensors, and inferences on half_plus_two as JSON and as messages. */
#include "tests/support/test.h"

#include "kernels/kernels.h"
#include "runtime/base/arena.h"
#include "server/inference/inference.h"
#include "server/protocol/oip/oip.h"
#include "server/protocol/route.h"

/* ---- paths ---- */

struct asked {
    struct srv_route to;
    struct rt_arena *arena;
    struct rt_error err;
};

static enum rt_status ask(struct asked *a, const char *method, const char *uri)
{
    memset(a, 0, sizeof *a);
    a->arena = rt_arena_new(SIZE_MAX);
    assert_non_null(a->arena);
    a->err.arena = a->arena;
    return srv_oip.route(&a->to, method, rt_span_str(uri), a->arena, &a->err);
}

static void each_path_has_its_call(void **state)
{
    (void)state;
    const struct {
        const char *method, *uri, *call;
    } cases[] = {
        {"GET", "/v2", "ServerMetadata"},
        {"GET", "/v2/", "ServerMetadata"},
        {"GET", "/v2/health/live", "ServerLive"},
        {"GET", "/v2/health/ready?x=1", "ServerReady"},
        {"GET", "/v2/models/m", "ModelMetadata"},
        {"GET", "/v2/models/m/ready", "ModelReady"},
        {"GET", "/v2/models/m/config", "ModelConfig"},
        {"GET", "/v2/models/m/stats", "ModelStatistics"},
        {"GET", "/v2/models/stats", "ModelStatistics"},
        {"POST", "/v2/models/m/infer", "ModelInfer"},
        {"POST", "/v2/models/m/versions/3/infer", "ModelInfer"},
        {"POST", "/v2/repository/index", "RepositoryIndex"},
        {"POST", "/v2/repository/models/m/load", "RepositoryModelLoad"},
        {"POST", "/v2/repository/models/m/unload", "RepositoryModelUnload"},
        {"GET", "/v2/logging", "LogSettings"},
        {"GET", "/v2/trace/setting", "TraceSetting"},
        {"POST", "/v2/models/m/trace/setting", "TraceSetting"},
        {"GET", "/v2/systemsharedmemory/status", "SystemSharedMemoryStatus"},
        {"POST", "/v2/systemsharedmemory/region/r/register", "SystemSharedMemoryRegister"},
        {"POST", "/v2/systemsharedmemory/region/r/unregister", "SystemSharedMemoryUnregister"},
        {"POST", "/v2/systemsharedmemory/unregister", "SystemSharedMemoryUnregister"},
        {"POST", "/v2/cudasharedmemory/region/r/register", "CudaSharedMemoryStatus"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked a;
        assert_ok(ask(&a, cases[i].method, cases[i].uri), &a.err);
        assert_non_null(a.to.endpoint);
        assert_string_equal(strrchr(a.to.endpoint->grpc_path, '/') + 1, cases[i].call);
        rt_arena_free(a.arena);
    }
}

static void other_paths_and_methods_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *method, *uri;
        enum rt_status code;
        const char *words;
    } cases[] = {
        {"GET", "/v2/nothing", RT_NOT_FOUND, "nothing is served at /v2/nothing"},
        {"GET", "/v2/models/", RT_NOT_FOUND, "nothing is served"},
        {"POST", "/v2/models/m/infer/x", RT_NOT_FOUND, "nothing is served"},
        {"POST", "/v2/systemsharedmemory/register", RT_NOT_FOUND, "nothing is served"},
        {"GET", "/v2/models/m/infer", RT_INVALID_ARGUMENT, "takes the method POST, not GET"},
        {"POST", "/v2/models/m", RT_INVALID_ARGUMENT, "takes the method GET, not POST"},
        {"GET", "/v2/repository/index", RT_INVALID_ARGUMENT, "takes the method POST"},
        {"GET", "/v2/models/m/versions/x/ready", RT_INVALID_ARGUMENT, "\"x\" is no number"},
        {"GET", "/v2/models/@s/ready", RT_INVALID_ARGUMENT, "names no model"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked a;
        assert_fails(ask(&a, cases[i].method, cases[i].uri), cases[i].code, &a.err, cases[i].words);
        rt_arena_free(a.arena);
    }
}

static void names_in_paths_are_decoded(void **state)
{
    (void)state;
    struct asked a;

    assert_ok(ask(&a, "GET", "/v2/models/a%2Fb@s%20t/versions/7/ready"), &a.err);
    assert_true(rt_span_is(a.to.spec.name, "a/b"));
    assert_true(rt_span_is(a.to.spec.signature, "s t"));
    assert_true(a.to.spec.has_version);
    assert_int_equal(a.to.spec.version, 7);
    rt_arena_free(a.arena);
    /* The name of a region is not split at an '@'. */
    assert_ok(ask(&a, "POST", "/v2/systemsharedmemory/region/a@b/register"), &a.err);
    assert_true(rt_span_is(a.to.spec.name, "a@b"));
    rt_arena_free(a.arena);
}

/* ---- names and parameters ---- */

static void the_signature_follows_the_last_at_sign(void **state)
{
    (void)state;
    struct srv_model_spec spec;
    struct rt_error err = {0};

    assert_ok(srv_oip_read_spec(rt_span_str("a@b@c"), rt_span_of(NULL, 0), &spec, &err), &err);
    assert_true(rt_span_is(spec.name, "a@b"));
    assert_true(rt_span_is(spec.signature, "c"));
    assert_false(spec.has_version);
    assert_true(rt_span_is(srv_oip_full_name(&spec), "a@b@c"));
    assert_ok(srv_oip_read_spec(rt_span_str("a"), rt_span_str("12"), &spec, &err), &err);
    assert_null(spec.signature.p);
    assert_true(spec.has_version);
    assert_int_equal(spec.version, 12);
    assert_true(rt_span_is(srv_oip_full_name(&spec), "a"));
    const char *const bad[] = {"x", "1x", "-1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(srv_oip_read_spec(rt_span_str("a"), rt_span_str(bad[i]), &spec, &err),
                     RT_INVALID_ARGUMENT, &err, "is no number");
}

static void data_types_have_the_names_of_the_protocol(void **state)
{
    (void)state;
    const struct {
        const char *name;
        enum rt_dtype dtype;
    } cases[] = {
        {"BOOL", RT_BOOL},  {"UINT8", RT_U8},     {"UINT16", RT_U16}, {"UINT32", RT_U32},
        {"UINT64", RT_U64}, {"INT8", RT_I8},      {"INT16", RT_I16},  {"INT32", RT_I32},
        {"INT64", RT_I64},  {"FP16", RT_F16},     {"FP32", RT_F32},   {"FP64", RT_F64},
        {"BF16", RT_BF16},  {"BYTES", RT_STRING},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(srv_oip_dtype(rt_span_str(cases[i].name)), cases[i].dtype);
        assert_string_equal(srv_oip_dtype_name(cases[i].dtype), cases[i].name);
    }
    assert_int_equal(srv_oip_dtype(rt_span_str("fp32")), RT_NO_DTYPE);
    assert_int_equal(srv_oip_dtype(rt_span_str("FP3")), RT_NO_DTYPE);
    assert_null(srv_oip_dtype_name(RT_C64));
    assert_null(srv_oip_dtype_name(RT_NO_DTYPE));
}

static void parameters_are_applied_or_refused(void **state)
{
    (void)state;
    struct srv_job job = {0};
    struct srv_inference inf = {.job = &job};
    struct rt_error err = {0};
    struct srv_oip_value v = {.is_number = true, .is_set = true, .number = 1500};
    const struct rt_span timeout = rt_span_str("timeout"), priority = rt_span_str("priority");

    assert_ok(srv_oip_request_parameter(&inf, timeout, &v, &err), &err);
    assert_int_equal(inf.timeout_us, 1500);
    assert_int_equal(job.level, 0);
    assert_ok(srv_oip_request_parameter(&inf, priority, &v, &err), &err);
    assert_int_equal(job.level, 1500);
    v.number = INT64_C(1) << 40;
    assert_ok(srv_oip_request_parameter(&inf, priority, &v, &err), &err);
    assert_int_equal(job.level, UINT32_MAX);
    v.number = UINT64_MAX;
    assert_fails(srv_oip_request_parameter(&inf, timeout, &v, &err), RT_INVALID_ARGUMENT, &err,
                 "timeout is no integer of at least 0");
    v = (struct srv_oip_value){.is_text = true, .is_set = true, .text = rt_span_str("1")};
    assert_fails(srv_oip_request_parameter(&inf, priority, &v, &err), RT_INVALID_ARGUMENT, &err,
                 "priority is no integer");
    assert_fails(srv_oip_request_parameter(&inf, rt_span_str("sequence_id"), &v, &err),
                 RT_UNIMPLEMENTED, &err, "\"sequence_id\" asks for sequences");
    v.is_set = false;
    assert_ok(srv_oip_request_parameter(&inf, rt_span_str("sequence_id"), &v, &err), &err);
    v.is_set = true;
    assert_ok(srv_oip_request_parameter(&inf, rt_span_str("my own"), &v, &err), &err);
}

/* ---- raw tensors ---- */

static enum rt_status read_raw(enum rt_dtype dtype, int64_t count, const void *bytes, size_t n,
                               struct rt_tensor *out, struct rt_error *err)
{
    const struct rt_span span = rt_span_of(bytes, n);
    struct srv_allowance allowance = {.left = 1 << 16};
    const struct srv_oip_input in = {.name = rt_span_str("x"),
                                     .dtype = dtype,
                                     .rank = 1,
                                     .dim = {count},
                                     .is_raw = true,
                                     .values = srv_cursor_of(&span, n)};
    return srv_oip_tensor_read(&in, out, &allowance, err);
}

static void raw_bytes_become_tensors_and_raw_bytes_again(void **state)
{
    (void)state;
    const struct {
        enum rt_dtype dtype;
        int64_t count;
        const char *bytes;
        size_t n;
    } cases[] = {
        {RT_F32, 2, "\0\0\x80\x3f\0\0\0\x40", 8},
        {RT_U8, 3, "\1\2\xff", 3},
        {RT_I64, 1, "\1\2\3\4\5\6\7\x80", 8},
        {RT_BOOL, 2, "\1\0", 2},
        {RT_STRING, 3, "\1\0\0\0a\0\0\0\0\3\0\0\0b\0c", 16},
        {RT_F32, 0, "", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_tensor t = {0};
        struct rt_error err = {0};
        struct rt_bytes out;
        size_t n = 0;
        assert_ok(read_raw(cases[i].dtype, cases[i].count, cases[i].bytes, cases[i].n, &t, &err),
                  &err);
        assert_int_equal(t.dim[0], cases[i].count);
        assert_int_equal(srv_oip_raw_bytes(&t), cases[i].n);
        rt_bytes_init(&out, 100);
        srv_oip_write_raw(&out, &t, NULL);
        char *p = rt_bytes_take(&out, &n);
        assert_int_equal(n, cases[i].n);
        if (n)
            assert_memory_equal(p, cases[i].bytes, n);
        free(p);
        rt_tensor_clear(&t);
    }
}

static void raw_bytes_of_another_size_are_refused(void **state)
{
    (void)state;
    const struct {
        enum rt_dtype dtype;
        int64_t count;
        const char *bytes;
        size_t n;
        const char *words;
    } cases[] = {
        {RT_F32, 2, "\0\0\0\0", 4, "input \"x\" has 4 bytes of binary data, which is not the size"},
        {RT_F32, 1, "\0\0\0\0\0", 5, "has 5 bytes"},
        {RT_STRING, 1, "\5\0\0\0abcd", 8, "an element of 5 bytes, but only 4 bytes"},
        {RT_STRING, 1, "\1\0\0\0ab", 6, "has 6 bytes"},
        {RT_STRING, 2, "\4\0\0\0abcd", 8, "has 8 bytes"},
        {RT_STRING, 1, "\xff\xff\xff\xff", 4, "an element of 4294967295 bytes"},
        {RT_F32, -1, "", 0, "has a shape that is refused"},
        {RT_STRING, INT64_C(1) << 40, "", 0, "input \"x\" has"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_tensor t = {0};
        struct rt_error err = {0};
        assert_fails(read_raw(cases[i].dtype, cases[i].count, cases[i].bytes, cases[i].n, &t, &err),
                     RT_INVALID_ARGUMENT, &err, cases[i].words);
        assert_null(t.data);
    }
}

static void a_boolean_is_0_or_1_and_memory_is_counted(void **state)
{
    (void)state;
    struct rt_tensor t = {0};
    struct rt_error err = {0};
    struct srv_allowance allowance = {.left = 10};

    assert_ok(read_raw(RT_BOOL, 2, "\x80\0", 2, &t, &err), &err);
    assert_memory_equal(t.data, "\1\0", 2);
    rt_tensor_clear(&t);
    assert_ok(srv_oip_take(&allowance, 7, rt_span_str("x"), &err), &err);
    assert_int_equal(allowance.left, 3);
    assert_fails(srv_oip_take(&allowance, 4, rt_span_str("x"), &err), RT_RESOURCE_EXHAUSTED, &err,
                 "input \"x\" needs more than the 3 bytes that are left");
}

static void dimensions_are_packed_varints(void **state)
{
    (void)state;
    struct rt_bytes out;
    size_t n;

    rt_bytes_init(&out, 100);
    srv_oip_put_dims(&out, 3, (int64_t[]){1, 300, -1});
    char *p = rt_bytes_take(&out, &n);
    assert_int_equal(n, 13);
    assert_memory_equal(p, "\1\xac\2\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 13);
    free(p);
    rt_bytes_init(&out, 100);
    srv_oip_put_shape(&out, &(struct rt_shape){.rank = -1});
    p = rt_bytes_take(&out, &n);
    assert_int_equal(n, 10);
    assert_memory_equal(p, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 10);
    free(p);
}

/* ---- inferences ---- */

struct world {
    struct rt_registry *ops;
    struct srv_version version;
    struct srv_options options;
    struct rt_arena *arena;
    struct srv_job job;
    struct srv_inference inf;
    struct rt_error err;
    char *response;
    size_t n_response;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->ops = rt_registry_new();
    assert_true(w->ops && kn_register(w->ops));
    const struct rt_model_options options = {.session = {.registry = w->ops}};
    assert_ok(rt_model_load(&w->version.loaded, "models/half_plus_two/2", &options, &w->err),
              &w->err);
    w->version.model = "half_plus_two";
    w->version.version = 2;
    w->options.max_body_bytes = 1 << 20;
    w->arena = rt_arena_new(1 << 20);
    assert_non_null(w->arena);
    w->err.arena = w->arena;
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    rt_model_free(w->version.loaded);
    rt_registry_free(w->ops);
    rt_arena_free(w->arena);
    free(w->response);
    free(w);
    return 0;
}

/* Performs a request. If json_length is not NULL, it is the value of the header that says where the
 * binary data begin. */
static enum rt_status infer(struct world *w, const struct srv_inference_steps *steps,
                            const char *json_length, const void *request, size_t n)
{
    struct rt_span *s = rt_arena_alloc(w->arena, sizeof *s);
    struct rt_bytes out;

    assert_non_null(s);
    *s = rt_span_of(request, n);
    w->err.code = RT_OK;
    srv_inference_init(&w->inf, steps, &w->options, w->arena, &w->job);
    w->inf.spec.name = rt_span_str("half_plus_two"); /* over REST, the path names the model */
    w->inf.has_spec = true;
    w->inf.allowance.left = 1 << 20;
    if (json_length)
        w->inf.json_length = rt_span_str(json_length);
    enum rt_status st = srv_inference_decode(&w->inf, srv_cursor_of(s, n), &w->version, &w->err);
    if (!st)
        st = srv_inference_run(&w->inf, NULL, &w->err);
    if (!st)
        st = srv_inference_finish(&w->inf, &w->err);
    free(w->response);
    w->response = NULL;
    w->n_response = 0;
    rt_bytes_init(&out, 1 << 20);
    if (!st)
        st = srv_inference_encode(&w->inf, &out, &w->err);
    if (!st)
        w->response = rt_bytes_take(&out, &w->n_response);
    rt_bytes_clear(&out);
    srv_inference_clear(&w->inf);
    return st;
}

static enum rt_status infer_json(struct world *w, const char *request)
{
    return infer(w, &srv_oip_infer_json, NULL, request, strlen(request));
}

static bool response_has(const struct world *w, const char *bytes, size_t n)
{
    return w->n_response >= n && memmem(w->response, w->n_response, bytes, n) != NULL;
}

static void json_is_answered_as_json(void **state)
{
    struct world *w = *state;
    assert_ok(infer_json(w, "{\"id\":\"i \\\"1\\\"\",\"inputs\":[{\"name\":\"x\",\"shape\":[2,1],"
                            "\"datatype\":\"FP32\",\"data\":[1,5]}]}"),
              &w->err);
    const char data[] = "\"data\":[2.5, 4.5]", id[] = "\"id\":\"i \\\"1\\\"\"";
    assert_true(response_has(w, data, strlen(data)));
    assert_true(response_has(w, id, strlen(id)));
    assert_int_equal(w->inf.json_bytes, 0);
}

static void binary_data_follow_the_json_both_ways(void **state)
{
    struct world *w = *state;
    const char json[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,1],\"datatype\":\"FP32\","
                        "\"parameters\":{\"binary_data_size\":4}}],\"outputs\":[{\"name\":\"y\","
                        "\"parameters\":{\"binary_data\":true}}]}";
    char request[sizeof json + 4], length[16];

    memcpy(request, json, sizeof json - 1);
    memcpy(request + sizeof json - 1, "\0\0\x80\x3f", 4);
    snprintf(length, sizeof length, "%zu", sizeof json - 1);
    assert_ok(infer(w, &srv_oip_infer_json, length, request, sizeof json - 1 + 4), &w->err);
    assert_true(w->inf.json_bytes > 0);
    assert_int_equal(w->n_response, w->inf.json_bytes + 4);
    assert_memory_equal(w->response + w->inf.json_bytes, "\0\0\x20\x40", 4); /* 2.5 */
    /* The header says more than the body has. */
    assert_true(infer(w, &srv_oip_infer_json, "100000", request, sizeof json - 1 + 4) != RT_OK);
    assert_true(infer(w, &srv_oip_infer_json, "-1", request, sizeof json - 1 + 4) != RT_OK);
    /* One byte of the input is missing. */
    assert_fails(infer(w, &srv_oip_infer_json, length, request, sizeof json - 1 + 3),
                 RT_INVALID_ARGUMENT, &w->err, "x");
}

static void requests_that_the_signature_does_not_fit_are_refused(void **state)
{
    struct world *w = *state;
    const struct {
        const char *request, *words;
    } cases[] = {
        {"{\"inputs\":[]}", "input \"x\" is missing"},
        {"{\"inputs\":[{\"name\":\"z\",\"shape\":[1,1],\"datatype\":\"FP32\",\"data\":[1]}]}",
         "input \"z\" is none of the signature"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,1],\"datatype\":\"FP64\",\"data\":[1]}]}",
         "has the datatype FP64, but the model takes FP32"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,1],\"datatype\":\"FP32\",\"data\":[1]},"
         "{\"name\":\"x\",\"shape\":[1,1],\"datatype\":\"FP32\",\"data\":[1]}]}",
         "input \"x\" is given twice"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[3,1],\"datatype\":\"FP32\",\"data\":[1,2]}]}",
         "input \"x\""},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,1],\"datatype\":\"FP32\",\"data\":[1]}],"
         "\"outputs\":[{\"name\":\"y\"},{\"name\":\"y\"}]}",
         "output \"y\" is requested twice"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,1],\"datatype\":\"FP32\",\"data\":[1]}],"
         "\"outputs\":[{\"name\":\"q\"}]}",
         "output \"q\" is none of the signature \"serving_default\"; it has \"y\""},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,2],\"datatype\":\"FP32\",\"data\":[1,2]}]}",
         "unexpected shape for input 'x' for model 'half_plus_two'. Expected [-1,1], got [1,2]"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(infer_json(w, cases[i].request), RT_INVALID_ARGUMENT, &w->err, cases[i].words);
}

static void messages_are_answered_in_the_form_of_the_request(void **state)
{
    struct world *w = *state;
    const char raw[] = "\x0a\x0dhalf_plus_two\x2a\x0d\x0a\1x\x12\4FP32\x1a\2\1\1\x3a\4\0\0\x80\x3f";
    const char contents[] =
        "\x0a\x0dhalf_plus_two\x2a\x15\x0a\1x\x12\4FP32\x1a\2\1\1\x2a\6\x32\4\0\0\x80\x3f";

    assert_ok(infer(w, &srv_oip_infer, NULL, raw, sizeof raw - 1), &w->err);
    assert_true(rt_span_is(w->inf.spec.name, "half_plus_two"));
    assert_true(response_has(w, "\x32\4\0\0\x20\x40", 6)); /* raw_output_contents: 2.5 */
    assert_ok(infer(w, &srv_oip_infer, NULL, contents, sizeof contents - 1), &w->err);
    assert_true(response_has(w, "\0\0\x20\x40", 4));
    assert_false(response_has(w, "\x32\4\0\0\x20\x40\0", 7));
    for (size_t n = 0; n < sizeof raw - 1; n++)
        assert_true(infer(w, &srv_oip_infer, NULL, raw, n) != RT_OK);
}

static void an_unknown_signature_is_named_with_those_there_are(void **state)
{
    struct world *w = *state;
    assert_fails(srv_oip_fail_signature(&w->version, rt_span_str("absent"), &w->err), RT_NOT_FOUND,
                 &w->err, "the model has no signature \"absent\"; it has \"");
    assert_non_null(strstr(rt_error_text(&w->err), "\"serving_default\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_path_has_its_call),
        cmocka_unit_test(other_paths_and_methods_are_refused),
        cmocka_unit_test(names_in_paths_are_decoded),
        cmocka_unit_test(the_signature_follows_the_last_at_sign),
        cmocka_unit_test(data_types_have_the_names_of_the_protocol),
        cmocka_unit_test(parameters_are_applied_or_refused),
        cmocka_unit_test(raw_bytes_become_tensors_and_raw_bytes_again),
        cmocka_unit_test(raw_bytes_of_another_size_are_refused),
        cmocka_unit_test(a_boolean_is_0_or_1_and_memory_is_counted),
        cmocka_unit_test(dimensions_are_packed_varints),
        cmocka_unit_test_setup_teardown(json_is_answered_as_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(binary_data_follow_the_json_both_ways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(requests_that_the_signature_does_not_fit_are_refused,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages_are_answered_in_the_form_of_the_request, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_unknown_signature_is_named_with_those_there_are, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
