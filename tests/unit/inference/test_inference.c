/* Tests inference through every API on a version that no server has published, as in warm-up.
 * String literals contain the serialized requests and responses. */
#include "tests/support/test.h"

#include "kernels/kernels.h"
#include "runtime/base/arena.h"
#include "server/inference/inference.h"
#include "server/protocol/tfs/tfs.h"

struct world {
    struct rt_registry *ops;
    struct srv_version version;
    struct srv_options options;
    struct rt_arena *arena;
    struct srv_job job;
    struct srv_inference inf;
    struct rt_error err;
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
    free(w);
    return 0;
}

static enum rt_status perform(struct world *w, enum srv_api api, const void *request, size_t n,
                              unsigned char **out, size_t *n_out)
{
    struct rt_span *s = rt_arena_alloc(w->arena, sizeof *s);
    assert_non_null(s);
    *s = rt_span_of(request, n);
    srv_inference_init(&w->inf, srv_tfs_steps(api), &w->options, w->arena, &w->job);
    w->inf.allowance.left = 1 << 20;
    enum rt_status st = srv_inference_decode(&w->inf, srv_cursor_of(s, n), &w->version, &w->err);
    if (!st)
        st = srv_inference_run(&w->inf, NULL, &w->err);
    if (!st)
        st = srv_inference_finish(&w->inf, &w->err);
    struct rt_bytes response;
    rt_bytes_init(&response, 1 << 20);
    if (!st)
        st = srv_inference_encode(&w->inf, &response, &w->err);
    *out = st ? NULL : (unsigned char *)rt_bytes_take(&response, n_out);
    rt_bytes_clear(&response);
    return st;
}

/* Asserts that the response to the request consists of the bytes `want`, and that decoding and
 * re-encoding the request gives the bytes `again`. The response to `again` must also be `want`. */
static void answers(struct world *w, enum srv_api api, const char *request, size_t n,
                    const char *want, size_t n_want, const char *again, size_t n_again)
{
    unsigned char *got;
    size_t n_got;
    struct rt_bytes made;

    assert_ok(perform(w, api, request, n, &got, &n_got), &w->err);
    assert_int_equal(n_got, n_want);
    assert_memory_equal(got, want, n_want);
    free(got);
    rt_bytes_init(&made, 1 << 20);
    srv_inference_log_request(&w->inf, &made);
    srv_inference_clear(&w->inf);
    assert_false(made.failed);
    assert_int_equal(made.n, n_again);
    assert_memory_equal(made.p, again, n_again);
    assert_ok(perform(w, api, made.p, made.n, &got, &n_got), &w->err);
    assert_int_equal(n_got, n_want);
    assert_memory_equal(got, want, n_want);
    free(got);
    srv_inference_clear(&w->inf);
    rt_bytes_clear(&made);
}
#define ANSWERS(w, api, request, want, again)                                                      \
    answers(w, api, request, sizeof(request) - 1, want, sizeof(want) - 1, again, sizeof(again) - 1)

#define NAME         "\x0a\x0dhalf_plus_two"
#define VERSION      "\x12\x02\x08\x02"
#define SPEC(n, sig) n NAME VERSION "\x1a" sig
#define TWO          "\x00\x00\x00\x40"
#define THREE        "\x00\x00\x40\x40"
/* a TensorProto of float [1] */
#define TENSOR(value) "\x08\x01\x12\x04\x12\x02\x08\x01\x2a\x04" value
/* an Example with x = 2 */
#define X "\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04" TWO

static void predict_is_answered_without_a_server(void **state)
{
    /* The version number in the request is ignored. */
    ANSWERS(*state, SRV_PREDICT,
            "\x0a\x08\x0a\x01m\x12\x03\x08\xe7\x07\x12\x13\x0a\x01x\x12\x0e" TENSOR(TWO),
            "\x0a\x13\x0a\x01y\x12\x0e" TENSOR(THREE) SPEC("\x12\x24", "\x0fserving_default"),
            SPEC("\x0a\x24", "\x0fserving_default") "\x12\x13\x0a\x01x\x12\x0e" TENSOR(TWO));
}

static void classify_and_regress_are_answered(void **state)
{
    ANSWERS(*state, SRV_REGRESS,
            "\x0a\x13\x0a\x01m\x1a\x0eregress_x_to_y\x12\x15\x0a\x13\x0a\x11" X,
            "\x0a\x07\x0a\x05\x0d" THREE SPEC("\x12\x23", "\x0eregress_x_to_y"),
            SPEC("\x0a\x23", "\x0eregress_x_to_y") "\x12\x15\x0a\x13\x0a\x11" X);
    /* The context contains x, and the example is empty. When the request is serialized again, x is
     * in the example. */
    ANSWERS(*state, SRV_CLASSIFY,
            "\x0a\x14\x0a\x01m\x1a\x0f"
            "classify_x_to_y\x12\x17\x12\x15\x0a\x00\x12\x11" X,
            "\x0a\x09\x0a\x07\x0a\x05\x15" THREE SPEC("\x12\x24", "\x0f"
                                                                  "classify_x_to_y"),
            SPEC("\x0a\x24", "\x0f"
                             "classify_x_to_y") "\x12\x15\x0a\x13\x0a\x11" X);
}

static void several_at_once_are_answered(void **state)
{
#define CLASSIFY_METHOD "\x12\x1btensorflow/serving/classify"
#define REGRESS_METHOD  "\x12\x1atensorflow/serving/regress"
    ANSWERS(*state, SRV_MULTI_INFERENCE,
            "\x0a\x31\x0a\x13\x0a\x01m\x1a\x0eregress_x_to_y" REGRESS_METHOD
            "\x0a\x33\x0a\x14\x0a\x01m\x1a\x0f"
            "classify_x_to_y" CLASSIFY_METHOD "\x12\x15\x0a\x13\x0a\x11" X,
            "\x0a\x2e" SPEC(
                "\x0a\x23",
                "\x0eregress_x_to_y") "\x1a\x07\x0a\x05\x0d" THREE
                                      "\x0a\x31" SPEC(
                                          "\x0a\x24",
                                          "\x0f"
                                          "classify_x_to_y") "\x12\x09\x0a\x07\x0a\x05\x15" THREE,
            "\x0a\x41" SPEC("\x0a\x23", "\x0eregress_x_to_y") REGRESS_METHOD
            "\x0a\x43" SPEC("\x0a\x24", "\x0f"
                                        "classify_x_to_y") CLASSIFY_METHOD
            "\x12\x15\x0a\x13\x0a\x11" X);
}

static void a_session_run_is_answered(void **state)
{
    ANSWERS(*state, SRV_SESSION_RUN,
            "\x0a\x03\x0a\x01m\x12\x15\x0a\x03x:0\x12\x0e" TENSOR(TWO) "\x1a\x01y",
            "\x0a\x13\x0a\x01y\x12\x0e" TENSOR(THREE) "\x1a\x13" NAME VERSION,
            "\x0a\x13" NAME VERSION "\x12\x15\x0a\x03x:0\x12\x0e" TENSOR(TWO) "\x1a\x01y");
}

static void refused(struct world *w, enum srv_api api, const char *request, size_t n,
                    enum rt_status code, const char *text)
{
    unsigned char *out;
    size_t n_out;

    assert_fails(perform(w, api, request, n, &out, &n_out), code, &w->err, text);
    srv_inference_clear(&w->inf);
}
#define REFUSED(w, api, request, code, text)                                                       \
    refused(w, api, request, sizeof(request) - 1, code, text)

static void what_is_wrong_is_told(void **state)
{
    REFUSED(*state, SRV_PREDICT, "\x0a\x06\x0a\x01m\x1a\x01q", RT_FAILED_PRECONDITION,
            "Serving signature key \"q\" not found.");
    REFUSED(*state, SRV_REGRESS, "\x0a\x06\x0a\x01m\x1a\x01q", RT_INVALID_ARGUMENT,
            "No signature was found with the name: q");
    REFUSED(*state, SRV_REGRESS, "\x0a\x13\x0a\x01m\x1a\x0eregress_x_to_y", RT_INVALID_ARGUMENT,
            "Input is empty.");
    REFUSED(*state, SRV_CLASSIFY, "\x0a\x7f\x0a\x01m", RT_INVALID_ARGUMENT,
            "not well formed protobuf");
    REFUSED(*state, SRV_MULTI_INFERENCE, "\x12\x7f", RT_INVALID_ARGUMENT,
            "not well formed protobuf");
    REFUSED(*state, SRV_SESSION_RUN, "\x0a\x03\x0a\x01m", RT_INVALID_ARGUMENT,
            "Must specify at least one target to fetch or execute.");
    REFUSED(*state, SRV_SESSION_RUN, "\x0a\x03\x0a\x01m\x1a\x01q", RT_INVALID_ARGUMENT,
            "Tensor q:0, specified in either feed_devices or fetch_devices was not found");
    REFUSED(*state, SRV_SESSION_RUN, "\x0a\x03\x0a\x01m\x12\x03\x0a\x01q\x1a\x01y",
            RT_INVALID_ARGUMENT, "tensor parsing error: q");
    /* 2,000 examples, each with a context of 1,000 bytes, expand to twice the size of the largest
     * permitted request body. */
    char big[4 + 4 + 1003 + 4000 + 64];
    size_t n = 0;
    const char spec[] = "\x0a\x13\x0a\x01m\x1a\x0eregress_x_to_y";
    memcpy(big, spec, sizeof spec - 1);
    n = sizeof spec - 1;
    /* The headers of the messages `input`, `list` and `context`, each of which is a tag and a
     * length. */
    memcpy(big + n, "\x12\x8e\x27\x12\x8b\x27\x12\xe8\x07", 9);
    n += 9;
    memset(big + n, 0x78, 1000);
    n += 1000;
    for (int i = 0; i < 2000; i++, n += 2)
        memcpy(big + n, "\x0a\x00", 2);
    struct world *w = *state;
    w->options.max_body_bytes = 1 << 19;
    refused(w, SRV_REGRESS, big, n, RT_RESOURCE_EXHAUSTED, "2000 examples, each with the context");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(predict_is_answered_without_a_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(classify_and_regress_are_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(several_at_once_are_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_session_run_is_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
