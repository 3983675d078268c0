#include "tests/support/test.h"

#include "proto/field.h"
#include "proto/pack.h"
#include "proto/unpack.h"
#include "proto/wire.h"
#include "runtime/base/bytes.h"
#include "runtime/files/saved_model.h"
#include "tensorflow/core/example/example.pb-c.h"
#include "tensorflow/core/framework/attr_value.pb-c.h"
#include "tensorflow/core/framework/tensor.pb-c.h"
#include "tensorflow/core/protobuf/meta_graph.pb-c.h"
#include "tensorflow_serving/apis/model_management.pb-c.h"
#include "tests/support/cpu_time.h"

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
    return (double)(cpu_now_ns() - start) / 1e9;
}

/* Appends `field` n times, each time with the contents of `inner`. */
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
    const int64_t start = cpu_now_ns();
    assert_null(pb_unpack(&tensorflow__serving__reload_config_request__descriptor,
                          rt_span_of(request.p, request.n), "the request", &err));
    assert_non_null(strstr(err.msg, "field \"config\" of a ReloadConfigRequest is given in more "
                                    "than 16 pieces"));
    assert_true(seconds_since(start) < 1);

    /* The error names the nested message that has the field, not the outermost message. */
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
    const int64_t start = cpu_now_ns();
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
        const int64_t start = cpu_now_ns();
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

static void a_string_without_end_is_refused(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_bytes b;
    char *name = calloc(1, PB_MAX_STRING + 1);

    assert_non_null(name);
    memset(name, 'n', PB_MAX_STRING + 1);
    for (size_t n = PB_MAX_STRING; n <= PB_MAX_STRING + 1; n++) {
        rt_bytes_init(&b, SIZE_MAX / 2);
        put(&b, 9, name, n); /* AttrValue.placeholder */
        void *m = pb_unpack(&tensorflow__attr_value__descriptor, rt_span_of(b.p, b.n), "x", &err);
        assert_int_equal(m != NULL, n == PB_MAX_STRING);
        pb_free(m);
        rt_bytes_clear(&b);
    }
    assert_string_equal(err.msg,
                        "x: field \"placeholder\" of a AttrValue has more than 16777216 bytes");
    free(name);
}

/* Returns the next number of a fixed pseudo-random sequence. The number is less than n. */
static unsigned any(unsigned n)
{
    static uint64_t x = 1;

    x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(x >> 33) % n;
}

/* Appends fields with arbitrary numbers, wire types and values. About a tenth of the fields are
 * malformed, and many belong to the messages of a model. Sets *repeats if a message has two fields
 * of bytes with the same number. */
static void put_any(struct rt_bytes *b, int depth, bool *repeats)
{
    struct rt_bytes inner;
    uint64_t seen = 0;

    for (unsigned n = any(6); n > 0; n--) {
        const unsigned number = 1 + any(any(8) ? 12 : 40), form = any(20);
        if (form >= 8 && form < 19) {
            *repeats |= seen >> number & 1;
            seen |= UINT64_C(1) << number;
        }
        if (form < 6) {
            put_varint(b, number << 3);
            put_varint(b, any(2) ? any(3) : (size_t)0 - any(1000000));
        } else if (form < 8) {
            put_varint(b, number << 3 | (form == 6 ? 1 : 5));
            for (int i = form == 6 ? 8 : 4; i > 0; i--)
                rt_bytes_addc(b, (char)any(256));
        } else if (form < 14 && depth) {
            rt_bytes_init(&inner, SIZE_MAX / 2);
            put_any(&inner, depth - 1, repeats);
            put(b, number, inner.p, inner.n);
            rt_bytes_clear(&inner);
        } else if (form < 19) {
            char raw[24];
            const unsigned n_raw = any(sizeof raw);
            for (unsigned i = 0; i < n_raw; i++)
                raw[i] = (char)(any(4) ? any(127) + 1 : any(256));
            put(b, number, raw, n_raw);
        } else if (!any(4)) {
            rt_bytes_addc(b, (char)any(256));
        }
    }
}

/* Returns whether pb_pack serializes `m` to the bytes to which protobuf-c serializes `other`. */
static bool is_packed_as(const ProtobufCMessage *m, const ProtobufCMessage *other)
{
    const size_t n = protobuf_c_message_get_packed_size(other);
    uint8_t *q = malloc(n + 1);
    struct rt_error err = {0};
    size_t n_packed = 0, n_counted = 0;
    char *p = NULL;

    assert_non_null(q);
    assert_ok(pb_pack(m, SIZE_MAX, NULL, &p, &n_packed, &err), &err);
    assert_ok(pb_packed_bytes(m, NULL, &n_counted, &err), &err);
    protobuf_c_message_pack(other, q);
    const bool same = n_packed == n && n_counted == n && memcmp(p, q, n) == 0;
    free(p);
    free(q);
    return same;
}

/* Returns whether each field that a message type has is given with the type's wire type. */
static bool has_own_wire_types(const ProtobufCMessageDescriptor *d, struct rt_span rest)
{
    struct pb_field f;
    bool is_right = true;

    while (is_right && pb_field_next(&rest, &f) > 0) {
        const ProtobufCFieldDescriptor *k = protobuf_c_message_descriptor_get_field(d, f.number);
        if (!k)
            continue;
        const size_t fixed = pb_fixed_bytes(k->type);
        const bool is_bytes = k->type == PROTOBUF_C_TYPE_STRING ||
                              k->type == PROTOBUF_C_TYPE_BYTES ||
                              k->type == PROTOBUF_C_TYPE_MESSAGE;
        if (f.type == PB_BYTES && k->type == PROTOBUF_C_TYPE_MESSAGE)
            is_right = has_own_wire_types(k->descriptor, f.bytes);
        else if (f.type == PB_BYTES)
            is_right = is_bytes || k->label == PROTOBUF_C_LABEL_REPEATED;
        else
            is_right = !is_bytes && f.type == (fixed == 8   ? PB_FIXED64
                                               : fixed == 4 ? PB_FIXED32
                                                            : PB_VARINT);
    }
    return is_right;
}

/* Both parsers must read the same message from the same bytes. If pb_unpack refuses a message that
 * protobuf-c accepts, the reason must be one of pb_unpack's limits. Messages in pieces are left
 * out, because protobuf-c loses their unknown fields, and replaces the members of oneofs that it
 * should merge. Messages with other wire types are left out, because protobuf-c refuses them. */
static void a_message_is_read_as_protobuf_c_reads_it(void **state)
{
    (void)state;
    const ProtobufCMessageDescriptor *const types[] = {
        &tensorflow__attr_value__descriptor, &tensorflow__tensor_proto__descriptor,
        &tensorflow__meta_graph_def__descriptor, &tensorflow__example__descriptor,
        &tensorflow__serving__reload_config_request__descriptor};
    int n_read = 0, n_refused = 0;

    for (int i = 0; i < 60000; i++) {
        const ProtobufCMessageDescriptor *d = types[i % 5];
        struct rt_error err = {0};
        struct rt_bytes b;
        rt_bytes_init(&b, SIZE_MAX / 2);
        bool repeats = false;
        put_any(&b, 6, &repeats);
        ProtobufCMessage *ours = pb_unpack(d, rt_span_of(b.p, b.n), "x", &err);
        repeats |= !has_own_wire_types(d, rt_span_of(b.p, b.n));
        if (!repeats && (ours || strstr(err.msg, "not a "))) {
            ProtobufCMessage *theirs =
                protobuf_c_message_unpack(d, NULL, b.n, (const uint8_t *)b.p);
            assert_int_equal(!theirs, !ours);
            assert_true(!ours || is_packed_as(ours, theirs));
            n_read += ours != NULL;
            n_refused += !ours;
            pb_free(theirs);
        }
        pb_free(ours);
        rt_bytes_clear(&b);
    }
    assert_true(n_read > 5000 && n_refused > 1000);
}

/* protobuf takes a field with another wire type for a field that the type does not have. */
static void a_field_of_another_wire_type_is_an_unknown_field(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
    } messages[] = {
        {"\x08\1\x12\2\x18\1\x0a\1x", 9},    /* dtype; then dtype as bytes */
        {"\x18\2\x1d\1\1\1\1", 7},           /* version_number; then as a fixed32 */
        {"\x22\1x\x21\1\1\1\1\1\1\1\1", 12}, /* tensor_content; then as a fixed64 */
        {"\x42\1x\x40\5", 5},                /* a string_val; then a varint */
        {"\x2a\4\1\1\1\1\x28\5", 8},         /* a float_val; then a varint */
    };
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        struct rt_error err = {0};
        char *packed;
        size_t n;
        Tensorflow__TensorProto *m =
            pb_unpack(&tensorflow__tensor_proto__descriptor,
                      rt_span_of(messages[i].bytes, messages[i].n), "x", &err);
        assert_non_null(m);
        assert_int_equal(m->base.n_unknown_fields, 1);
        assert_ok(pb_pack(&m->base, SIZE_MAX, NULL, &packed, &n, &err), &err);
        assert_int_equal(n, messages[i].n);
        assert_memory_equal(packed, messages[i].bytes, n);
        free(packed);
        pb_free(m);
    }
}

static enum rt_status fail_at(void *arg, struct rt_error *why)
{
    return --*(int *)arg ? RT_OK : rt_fail(why, RT_CANCELLED, "cancelled");
}

/* A packed list, a string and an unknown field are read in pieces. */
static void a_check_ends_the_reading_of_a_long_field(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20 };
    static const struct {
        const ProtobufCMessageDescriptor *type;
        unsigned field;
    } cases[] = {{&tensorflow__tensor_proto__descriptor, 5},  /* float_val */
                 {&tensorflow__tensor_proto__descriptor, 7},  /* int_val */
                 {&tensorflow__tensor_proto__descriptor, 4},  /* tensor_content */
                 {&tensorflow__tensor_proto__descriptor, 39}, /* an unknown field */
                 {&tensorflow__attr_value__descriptor, 9}};   /* placeholder */
    char *bytes = malloc(BYTES);

    assert_non_null(bytes);
    memset(bytes, 1, BYTES);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct rt_bytes b;
        struct rt_error err = {0};
        rt_bytes_init(&b, SIZE_MAX / 2);
        put(&b, cases[k].field, bytes, BYTES);
        int left = INT32_MAX;
        const struct rt_check check = {fail_at, &left};
        const struct rt_span all = rt_span_of(b.p, b.n);
        void *m = pb_unpack_checked(cases[k].type, all, "x", &check, &err);
        assert_non_null(m);
        pb_free(m);
        const int n_checks = INT32_MAX - left;
        assert_true(n_checks >= 7);
        for (int at = 1; at <= n_checks; at++) {
            left = at;
            assert_null(pb_unpack_checked(cases[k].type, all, "x", &check, &err));
            assert_int_equal(pb_unpack_failed(&err, RT_DATA_LOSS), RT_CANCELLED);
        }
        rt_bytes_clear(&b);
    }
    free(bytes);
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
    /* The check is called once per 16,384 of the 200,000 fields, and once per 4,096
     * allocations. */
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

/* A list of many strings is nested deeply. Each level of nesting adds a header to the message, but
 * must not add a pass over the strings. */
static void packing_takes_no_longer_for_what_is_nested(void **state)
{
    (void)state;
    enum { LEVELS = 24, STRINGS = 100000 };
    struct rt_error err = {0};
    struct rt_bytes now, next;
    char *packed = NULL;
    size_t n = 0;

    rt_bytes_init(&now, SIZE_MAX / 2);
    rt_bytes_init(&next, SIZE_MAX / 2);
    for (int i = 0; i < STRINGS; i++)
        put(&next, 2, "text", 4);
    put(&now, 1, next.p, next.n);
    for (int i = 0; i < LEVELS; i++) { /* AttrValue {func {attr {value {..}}}} */
        for (int k = 0; k < 3; k++) {
            static const unsigned fields[] = {2, 2, 10};
            next.n = 0;
            put(&next, fields[k], now.p, now.n);
            now.n = 0;
            rt_bytes_add(&now, next.p, next.n);
        }
    }
    int left = INT32_MAX;
    const struct rt_check check = {fail_at, &left};
    void *m = pb_unpack(&tensorflow__attr_value__descriptor, rt_span_of(now.p, now.n), "x", &err);
    assert_non_null(m);
    assert_ok(pb_pack(m, SIZE_MAX, &check, &packed, &n, &err), &err);
    assert_int_equal(n, now.n);
    assert_memory_equal(packed, now.p, n);
    free(packed);
    /* a check for every 16,384 strings in each of the two passes */
    const int n_checks = INT32_MAX - left;
    assert_in_range(n_checks, 2 * (STRINGS / 16384), 2 * (STRINGS / 16384) + 4);
    for (int at = 1; at <= n_checks; at++) {
        left = at;
        assert_int_equal(pb_pack(m, SIZE_MAX, &check, &packed, &n, &err), RT_CANCELLED);
    }
    assert_int_equal(pb_pack(m, now.n - 1, NULL, &packed, &n, &err), RT_RESOURCE_EXHAUSTED);
    pb_free(m);
    rt_bytes_clear(&now);
    rt_bytes_clear(&next);
}

/* The two pieces of a message that is a member of a oneof are merged, as in protobuf. */
static void pieces_of_a_oneof_are_merged(void **state)
{
    (void)state;
    struct rt_error err = {0};
    static const char pieces[] = "\x42\x02\x08\x01\x42\x02\x18\x02"; /* dtype, version_number */
    Tensorflow__AttrValue *m =
        pb_unpack(&tensorflow__attr_value__descriptor, rt_span_str(pieces), "x", &err);

    assert_non_null(m);
    assert_int_equal(m->value_case, TENSORFLOW__ATTR_VALUE__VALUE_TENSOR);
    assert_int_equal(m->tensor->dtype, 1);
    assert_int_equal(m->tensor->version_number, 2);
    pb_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_singular_message_in_many_pieces_is_refused_at_once),
        cmocka_unit_test(pieces_at_every_level_cost_what_the_bytes_do),
        cmocka_unit_test(a_message_does_not_grow_without_limit),
        cmocka_unit_test(a_saved_model_in_many_pieces_is_read_or_refused_at_once),
        cmocka_unit_test(a_string_that_holds_a_nul_is_refused),
        cmocka_unit_test(a_string_without_end_is_refused),
        cmocka_unit_test(a_message_is_read_as_protobuf_c_reads_it),
        cmocka_unit_test(a_field_of_another_wire_type_is_an_unknown_field),
        cmocka_unit_test(a_check_ends_the_reading_of_a_long_field),
        cmocka_unit_test(packing_takes_no_longer_for_what_is_nested),
        cmocka_unit_test(pieces_of_a_oneof_are_merged),
        cmocka_unit_test(a_check_ends_the_unpacking_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
