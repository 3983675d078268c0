#include "tests/support/test.h"

#include "proto/unpack.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/files/saved_model.h"
#include "tensorflow/core/framework/attr_value.pb-c.h"
#include "tensorflow/core/protobuf/meta_graph.pb-c.h"
#include "tensorflow_serving/apis/model_management.pb-c.h"

static void put_varint(struct rt_bytes *b, size_t v)
{
    for (; v > 127; v >>= 7)
        rt_bytes_addc(b, (char)(v | 128));
    rt_bytes_addc(b, (char)v);
}

static void put(struct rt_bytes *b, unsigned field, const void *p, size_t n)
{
    put_varint(b, field << 3 | 2);
    put_varint(b, n);
    rt_bytes_add(b, p, n);
}

static double seconds_since(int64_t start)
{
    return (double)(rt_now_ns() - start) / 1e9;
}

/* Appends `field`, whose contents are those of `inner`, n times. */
static void repeat(struct rt_bytes *b, unsigned field, size_t n, const struct rt_bytes *inner)
{
    for (size_t i = 0; i < n; i++)
        put(b, field, inner->p, inner->n);
}

/* The field `config` of a ReloadConfigRequest is repeated many times, each time as `config
 * {model_config_list {config {}}}`. */
static void a_singular_message_in_many_pieces_is_refused_at_once(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_bytes one, list, request;
    rt_bytes_init(&one, 1 << 20);
    rt_bytes_init(&list, 1 << 20);
    rt_bytes_init(&request, 1 << 24);
    put(&one, 1, "", 0);
    put(&list, 1, one.p, one.n);

    repeat(&request, 1, PB_MAX_PIECES, &list);
    Tensorflow__Serving__ReloadConfigRequest *r =
        pb_unpack(&tensorflow__serving__reload_config_request__descriptor,
                  rt_span_of(request.p, request.n), "the request", &err);
    assert_non_null(r);
    assert_non_null(r->config->model_config_list);
    pb_free(r);

    /* In an earlier version, reading this request of 1.2 MB took 50 s. */
    repeat(&request, 1, 200000, &list);
    const int64_t start = rt_now_ns();
    assert_null(pb_unpack(&tensorflow__serving__reload_config_request__descriptor,
                          rt_span_of(request.p, request.n), "the request", &err));
    assert_non_null(strstr(err.msg, "field \"config\" of a ReloadConfigRequest is given in more "
                                    "than 16 pieces"));
    assert_true(seconds_since(start) < 1);

    /* If the message is nested, the error names the nested message that has the field, not the
     * outermost message. */
    rt_bytes_clear(&list);
    rt_bytes_clear(&request);
    repeat(&list, 1, PB_MAX_PIECES + 1, &one);
    put(&request, 1, list.p, list.n);
    assert_null(pb_unpack(&tensorflow__serving__reload_config_request__descriptor,
                          rt_span_of(request.p, request.n), "the request", &err));
    assert_non_null(strstr(err.msg, "field \"model_config_list\" of a ModelServerConfig is given "
                                    "in more than 16 pieces"));
    rt_bytes_clear(&one);
    rt_bytes_clear(&list);
    rt_bytes_clear(&request);
}

/* Every singular field at every level is given several times. The time to read the message must be
 * proportional to its number of bytes. */
static void pieces_at_every_level_cost_what_the_bytes_do(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_bytes now, next, name;
    rt_bytes_init(&now, 1 << 24);
    rt_bytes_init(&next, 1 << 24);
    rt_bytes_init(&name, 1 << 24);
    for (int i = 0; i < 100; i++) /* builds AttrValue {list {s "" ...}} */
        put(&name, 2, "", 0);
    put(&now, 1, name.p, name.n);
    for (int level = 0; level < 4; level++) { /* builds AttrValue {func {attr {value {..} * 16}}} */
        struct rt_bytes entry, func;
        rt_bytes_init(&entry, 1 << 24);
        rt_bytes_init(&func, 1 << 24);
        repeat(&entry, 2, level < 3 ? PB_MAX_PIECES : 1, &now);
        put(&func, 2, entry.p, entry.n);
        rt_bytes_clear(&next);
        put(&next, 10, func.p, func.n);
        rt_bytes_clear(&now);
        rt_bytes_add(&now, next.p, next.n);
        rt_bytes_clear(&entry);
        rt_bytes_clear(&func);
    }
    assert_true(now.n > 500000);
    const int64_t start = rt_now_ns();
    void *m = pb_unpack(&tensorflow__attr_value__descriptor, rt_span_of(now.p, now.n), "it", &err);
    assert_true(seconds_since(start) < 2);
    assert_non_null(m);
    pb_free(m);
    rt_bytes_clear(&now);
    rt_bytes_clear(&next);
    rt_bytes_clear(&name);
}

/* Two bytes of a message may become a struct of hundreds of bytes. The memory for a message is
 * limited to 16 MB plus 64 bytes per byte of the message. */
static void a_message_does_not_grow_without_limit(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_bytes list, value, empty = {0};
    rt_bytes_init(&list, 1 << 24);
    rt_bytes_init(&value, 1 << 24);
    repeat(&list, 8, 1000, &empty); /* builds list {tensor {} ...} */
    put(&value, 1, list.p, list.n);
    void *m =
        pb_unpack(&tensorflow__attr_value__descriptor, rt_span_of(value.p, value.n), "it", &err);
    assert_non_null(m);
    pb_free(m);
    repeat(&list, 8, 1000000, &empty);
    rt_bytes_clear(&value);
    put(&value, 1, list.p, list.n);
    assert_null(
        pb_unpack(&tensorflow__attr_value__descriptor, rt_span_of(value.p, value.n), "it", &err));
    assert_non_null(strstr(err.msg, "would take more than 64 bytes of memory for each of them"));
    rt_bytes_clear(&list);
    rt_bytes_clear(&value);
}

/* Each singular message field of a MetaGraphDef is repeated 100,000 times. The parser accepts only
 * repetitions of the graph. */
static void a_saved_model_in_many_pieces_is_read_or_refused_at_once(void **state)
{
    (void)state;
    const ProtobufCMessageDescriptor *d = &tensorflow__meta_graph_def__descriptor;
    for (unsigned i = 0; i < d->n_fields; i++) {
        struct rt_error err = {0};
        struct rt_saved_model *model = NULL;
        struct rt_bytes graph, file, piece;
        if (d->fields[i].label == PROTOBUF_C_LABEL_REPEATED ||
            d->fields[i].type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        rt_bytes_init(&graph, 1 << 24);
        rt_bytes_init(&file, 1 << 24);
        rt_bytes_init(&piece, 100);
        put(&piece, 15, "", 0); /* no message has a field with the number 15 */
        put(&piece, 1, "", 0);
        repeat(&graph, d->fields[i].id, 100000, &piece);
        put(&file, 2, graph.p, graph.n);
        const int64_t start = rt_now_ns();
        enum rt_status st = rt_saved_model_parse(&model, rt_span_of(file.p, file.n), false, &err);
        if (st)
            assert_non_null(strstr(err.msg, "pieces"));
        else
            rt_saved_model_free(model);
        assert_true(seconds_since(start) < 1);
        rt_bytes_clear(&graph);
        rt_bytes_clear(&file);
        rt_bytes_clear(&piece);
    }
}

static void a_string_that_holds_a_nul_is_refused(void **state)
{
    (void)state;
    struct rt_bytes model, list, config;
    struct rt_error err = {0};
    rt_bytes_init(&model, SIZE_MAX);
    rt_bytes_init(&list, SIZE_MAX);
    rt_bytes_init(&config, SIZE_MAX);
    put(&model, 2, "/safe\0/other", 12);
    put(&list, 1, model.p, model.n);
    put(&config, 1, list.p, list.n);
    assert_null(pb_unpack(&tensorflow__serving__model_server_config__descriptor,
                          rt_span_of(config.p, config.n), "config", &err));
    assert_int_equal(err.code, RT_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "config: field \"base_path\" of a ModelConfig holds a NUL");
    rt_bytes_clear(&model);
    rt_bytes_clear(&list);
    rt_bytes_clear(&config);
}

static enum rt_status fail_at(void *arg, struct rt_error *why)
{
    return --*(int *)arg ? RT_OK : rt_fail(why, RT_CANCELLED, "cancelled");
}

static void a_check_ends_the_unpacking_at_any_time(void **state)
{
    (void)state;
    enum { SIGNATURES = 100000 };
    struct rt_bytes b;
    struct rt_error err = {0};
    const ProtobufCMessageDescriptor *d = &tensorflow__meta_graph_def__descriptor;
    rt_bytes_init(&b, SIZE_MAX / 2);
    for (int i = 0; i < SIGNATURES; i++)
        rt_bytes_addf(&b, "\x2a\x0a\x0a\x08%08d", i);
    int left = INT32_MAX;
    const struct rt_check check = {fail_at, &left};
    void *m = pb_unpack_checked(d, rt_span_of(b.p, b.n), "x", &check, &err);
    assert_non_null(m);
    pb_free(m);
    /* there is a check for every 16,384 of the 200,000 fields, and one for every 4,096
     * allocations */
    const int n_checks = INT32_MAX - left;
    assert_in_range(n_checks, SIGNATURES * 2 / 16384 + SIGNATURES / 4096, 1000);
    for (int at = 1; at <= n_checks; at++) {
        left = at;
        err = (struct rt_error){0};
        assert_null(pb_unpack_checked(d, rt_span_of(b.p, b.n), "x", &check, &err));
        assert_int_equal(left, 0);
        assert_int_equal(pb_unpack_failed(&err, RT_DATA_LOSS), RT_CANCELLED);
    }
    size_t n_bytes = 0;
    left = 1 + SIGNATURES * 2 / 16384;
    assert_ok(pb_unpacked_bytes_checked(d, rt_span_of(b.p, b.n), &check, &n_bytes, &err), &err);
    assert_int_equal(left, 1);
    assert_int_equal(n_bytes, pb_unpacked_bytes(d, rt_span_of(b.p, b.n)));
    assert_int_equal(pb_unpacked_bytes_checked(d, rt_span_of(b.p, b.n), &check, &n_bytes, &err),
                     RT_CANCELLED);
    rt_bytes_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_singular_message_in_many_pieces_is_refused_at_once),
        cmocka_unit_test(pieces_at_every_level_cost_what_the_bytes_do),
        cmocka_unit_test(a_message_does_not_grow_without_limit),
        cmocka_unit_test(a_saved_model_in_many_pieces_is_read_or_refused_at_once),
        cmocka_unit_test(a_string_that_holds_a_nul_is_refused),
        cmocka_unit_test(a_check_ends_the_unpacking_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
