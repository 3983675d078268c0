#include "tests/support/test.h"

#include "proto/descriptors.h"
#include "server/reflection/reflection.h"

static struct rt_span set(void)
{
    return rt_span_of(pb_descriptors, pb_descriptors_size);
}

static bool has_symbol(const char *name)
{
    return srv_reflection_symbol(set(), rt_span_str(name)).p != NULL;
}

static void every_kind_of_symbol_is_found(void **state)
{
    (void)state;
    static const char *const there[] = {"tensorflow.serving.PredictionService",
                                        "tensorflow.serving.PredictRequest",
                                        "tensorflow.serving.PredictionService.Predict",
                                        "tensorflow.serving.PredictRequest.inputs",
                                        "tensorflow.serving.PredictRequest.InputsEntry.key",
                                        "tensorflow.serving.ModelVersionStatus.State",
                                        "tensorflow.serving.ModelVersionStatus.AVAILABLE",
                                        "tensorflow.serving.ModelSpec.version_choice",
                                        "tensorflow.DataType",
                                        "tensorflow.DT_FLOAT",
                                        "google.protobuf.Any"};
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++)
        if (!has_symbol(there[i]))
            fail_msg("%s was not found", there[i]);
}

static void a_package_a_part_or_more_than_a_name_is_no_symbol(void **state)
{
    (void)state;
    static const char *const absent[] = {"",
                                         ".",
                                         "tensorflow",
                                         "tensorflow.",
                                         "tensorflow.serving",
                                         "tensorflow.serving.PredictReques",
                                         "tensorflow.serving.PredictRequest.",
                                         "tensorflow.serving.PredictRequest.inputs.x",
                                         "tensorflow.DataType.DT_FLOAT",
                                         ".tensorflow.DataType",
                                         "PredictRequest"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        if (has_symbol(absent[i]))
            fail_msg("%s was found", absent[i]);
}

static void files_are_found_by_their_whole_names(void **state)
{
    (void)state;
    assert_non_null(
        srv_reflection_file(set(), rt_span_str("tensorflow_serving/apis/predict.proto")).p);
    assert_non_null(srv_reflection_file(set(), rt_span_str("grpc/health/v1/health.proto")).p);
    assert_null(srv_reflection_file(set(), rt_span_str("predict.proto")).p);
    assert_null(srv_reflection_file(set(), rt_span_str("")).p);
}

static enum rt_status respond(const char *bytes, size_t n, struct rt_bytes *out,
                              struct rt_arena *arena, struct rt_error *err)
{
    struct rt_span service = rt_span_str("a.B"), request = rt_span_of(bytes, n);
    rt_bytes_init(out, 1 << 20);
    return srv_reflection_respond(set(), &service, 1, srv_cursor_of(&request, n), out, arena, err);
}

static void the_last_question_of_a_request_counts_and_is_given_back(void **state)
{
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_error err = {0};
    struct rt_bytes out;
    (void)state;
    /* a request with host "h", file_by_filename "x" and list_services "" */
    assert_ok(respond("\x0a\x01h\x1a\x01x\x3a\x00", 8, &out, arena, &err), &err);
    assert_int_equal(out.n, 3 + 2 + 8 + 2 + 2 + 2 + 3);
    assert_memory_equal(out.p,
                        "\x0a\x01h\x12\x08\x0a\x01h\x1a\x01x\x3a\x00\x32\x07\x0a\x05\x0a\x03"
                        "a.B",
                        out.n);
    rt_bytes_clear(&out);
    rt_arena_free(arena);
}

static void what_is_no_message_is_refused(void **state)
{
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_error err = {0};
    struct rt_bytes out;
    static char large[SRV_REFLECTION_MAX_REQUEST + 1];
    (void)state;
    assert_fails(respond("\x1a\x05x", 3, &out, arena, &err), RT_INVALID_ARGUMENT, &err,
                 "well formed");
    rt_bytes_clear(&out);
    assert_fails(respond(large, sizeof large, &out, arena, &err), RT_INVALID_ARGUMENT, &err,
                 "at most 16384");
    rt_bytes_clear(&out);
    rt_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_symbol_is_found),
        cmocka_unit_test(a_package_a_part_or_more_than_a_name_is_no_symbol),
        cmocka_unit_test(files_are_found_by_their_whole_names),
        cmocka_unit_test(the_last_question_of_a_request_counts_and_is_given_back),
        cmocka_unit_test(what_is_no_message_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
