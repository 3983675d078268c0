/* Tests that the work of a kernel is bounded by the number of elements that exist. Neither the
 * other dimensions of an empty tensor, nor a count larger than the number of elements that follow,
 * may increase the work. A long-running kernel must end soon after its deadline. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/array/hash_set.h"
#include "runtime/base/bytes.h"
#include "tests/support/cpu_time.h"
#include "tests/support/op.h"

#define HUGE_DIM (INT64_C(1) << 40)
#define DIM(...) ((const int64_t[]){__VA_ARGS__})
#define LONGS(...)                                                                                 \
    op_tensor(RT_I64, 1, DIM(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})

static struct rt_tensor empty(enum rt_dtype dtype, int rank, const int64_t *dim)
{
    return op_tensor(dtype, rank, dim, NULL);
}

static struct rt_tensor text(const char *s)
{
    struct rt_tensor t = op_tensor(RT_STRING, 0, NULL, NULL);
    assert_true(rt_str_set(t.data, NULL, s, strlen(s), NULL));
    return t;
}

static struct rt_tensor words(int64_t n)
{
    struct rt_tensor t = op_tensor(RT_STRING, 1, &n, NULL);
    for (int64_t i = 0; i < n; i++)
        assert_true(rt_str_set((struct rt_str *)t.data + i, NULL, "word", 4, NULL));
    return t;
}

/* Asserts that the op returns or is refused long before its deadline passes. */
static void at_once(struct op_call c)
{
    c.deadline_ms = 3000;
    /* This limit lets StringFormat make a string from a tensor without elements. */
    c.run_memory_limit = 8 << 20;
    const enum rt_status st = op_run(&c);
    if (st == RT_DEADLINE_EXCEEDED)
        fail_msg("%s walks what is not there", c.op);
    op_clear(&c);
}

static void dimensions_beside_one_of_0_cost_nothing(void **state)
{
    (void)state;
    static const char *const scans[] = {"Cumsum", "Cumprod"};
    for (int k = 0; k < 2; k++)
        for (int axis = 0; axis < 3; axis++)
            at_once((struct op_call){.op = scans[k],
                                     .attrs = "T=float Tidx=int32",
                                     .n_in = 2,
                                     .n_out = 1,
                                     .in = {empty(RT_F32, 3, DIM(HUGE_DIM, 0, 3)), op_int(axis)}});
    at_once(
        (struct op_call){.op = "AddV2",
                         .attrs = "T=float",
                         .n_in = 2,
                         .n_out = 1,
                         .in = {empty(RT_F32, 2, DIM(HUGE_DIM, 0)), op_floats(1, (float[]){1})}});
    at_once((struct op_call){
        .op = "Dilation2D",
        .attrs = "T=float strides=[1,1,1,1] rates=[1,1,1,1] padding='SAME'",
        .n_in = 2,
        .n_out = 1,
        .in = {empty(RT_F32, 4, DIM(HUGE_DIM, 0, 3, 1)), empty(RT_F32, 3, DIM(2, 2, 1))}});
    at_once((struct op_call){.op = "SparseReshape",
                             .attrs = "",
                             .n_in = 3,
                             .n_out = 2,
                             .in = {empty(RT_I64, 2, DIM(HUGE_DIM, 0)), empty(RT_I64, 1, DIM(0)),
                                    empty(RT_I64, 1, DIM(0))}});
    for (int all = 0; all < 2; all++)
        at_once(
            (struct op_call){.op = "StringFormat",
                             .attrs = all ? "T=[float] template='{}' placeholder='{}' summarize=-1"
                                          : "T=[float] template='{}' placeholder='{}' summarize=3",
                             .n_in = 1,
                             .n_out = 1,
                             .in = {empty(RT_F32, 3, DIM(8, HUGE_DIM, 0))}});
}

static void rows_that_are_only_announced_cost_nothing(void **state)
{
    (void)state;
    struct op_call c = {
        .op = "SparseCrossV2",
        .attrs = "N=1 sparse_types=[string] dense_types=[]",
        .n_in = 4,
        .n_out = 3,
        .in = {LONGS(0, 0, HUGE_DIM - 5, 0), words(2), LONGS(HUGE_DIM, 1), text("_")},
        .deadline_ms = 3000};
    c.in[0].rank = 2;
    c.in[0].dim[0] = c.in[0].dim[1] = 2;
    assert_ok(op_run(&c), &c.err);
    assert_int_equal(c.out[0].dim[0], 2);
    assert_int_equal(((const int64_t *)c.out[0].data)[2], HUGE_DIM - 5);
    op_clear(&c);
    at_once((struct op_call){
        .op = "StringNGrams",
        .attrs = "separator='' ngram_widths=[1000000,3000000] left_pad='' right_pad='' "
                 "pad_width=-1 preserve_short_sequences=true Tsplits=int64",
        .n_in = 2,
        .n_out = 2,
        .in = {words(2), LONGS(0, 2)}});
    at_once((struct op_call){.op = "TensorListReserve",
                             .attrs = "element_dtype=float shape_type=int32",
                             .n_in = 2,
                             .n_out = 1,
                             .in = {op_int(-1), op_int(1 << 24)}});
}

/* A NaN equals nothing, not even itself, so each NaN is a new element of a set. If all NaNs, or all
 * complex numbers with a NaN, had the same hash, each would be compared with all earlier elements,
 * in quadratic time. */
static void items_do_not_crowd_in_one_slot(void **state)
{
    (void)state;
    enum { N = 1 << 18 };
    static const struct {
        enum rt_dtype dtype;
        const char *attrs;
    } kinds[] = {{RT_F32, "T=float out_idx=int32"},
                 {RT_F64, "T=double out_idx=int32"},
                 {RT_BF16, "T=bfloat16 out_idx=int32"},
                 {RT_C64, "T=complex64 out_idx=int32"},
                 {RT_C128, "T=complex128 out_idx=int32"}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct rt_tensor t = empty(kinds[k].dtype, 1, DIM(N));
        const bool is_complex = kinds[k].dtype == RT_C64 || kinds[k].dtype == RT_C128;
        /* In every type in `kinds`, an element whose bits are all set is a NaN. */
        memset(t.data, 0xff, rt_tensor_bytes(&t));
        for (int64_t i = 0; is_complex && i < 2 * N; i++)
            if (kinds[k].dtype == RT_C64)
                ((float *)t.data)[i] = (float)i;
            else
                ((double *)t.data)[i] = (double)i;
        struct op_call c = {.op = "Unique",
                            .attrs = kinds[k].attrs,
                            .n_in = 1,
                            .n_out = 2,
                            .in = {t},
                            .deadline_ms = 5000};
        assert_ok(op_run(&c), &c.err);
        assert_int_equal(c.out[0].dim[0], N);
        op_clear(&c);
    }
}

/* Asserts that the op ends with DEADLINE_EXCEEDED within a few seconds of its work. */
static void ends_soon(struct op_call c)
{
    enum { LATE_S = 4 };
    c.deadline_ms = 100;
    const int64_t before = cpu_now_ns();
    assert_int_equal(op_run(&c), RT_DEADLINE_EXCEEDED);
    if ((cpu_now_ns() - before) / 1000000000 > LATE_S)
        fail_msg("%s does not look at its deadline", c.op);
    op_clear(&c);
}

/* Returns n integers that an attacker who knew this process's hash key could choose. All hashes
 * fall into one 64th of a table of n_slots slots, so each integer is compared with nearly all
 * earlier integers. */
static struct rt_tensor crowd(int64_t n, uint64_t n_slots)
{
    struct rt_tensor t = empty(RT_I64, 1, DIM(n));
    int64_t *v = t.data;
    for (int64_t x = 0, found = 0; found < n; x++)
        if ((kn_hash_elements(RT_I64, &x, 1, NULL) & (n_slots - 1)) < n_slots / 64)
            v[found++] = x;
    return t;
}

static void a_crowd_in_one_slot_ends_soon_after_its_deadline(void **state)
{
    (void)state;
    enum { N = 1 << 18 };
    ends_soon((struct op_call){.op = "Unique",
                               .attrs = "T=int64 out_idx=int32",
                               .n_in = 1,
                               .n_out = 2,
                               .in = {crowd(N, 2 * N)}});
    ends_soon((struct op_call){.op = "ListDiff",
                               .attrs = "T=int64 out_idx=int32",
                               .n_in = 2,
                               .n_out = 2,
                               .in = {LONGS(1), crowd(N, 2 * N)}});
}

/* Returns the integer whose hash is v, by inverting a public hash function of integers. The
 * function has no key, so an attacker can invert it for any table. */
static uint64_t unhashed(uint64_t v)
{
    /* The multiplicative inverse of 0xd6e8feb86659fd93 modulo 2^64. */
    const uint64_t inverse = UINT64_C(0xcfee444d8b59a89b);
    uint64_t x = v ^ v >> 29 ^ v >> 58;
    x ^= x >> 32;
    x *= inverse;
    x ^= x >> 32;
    x *= inverse;
    return x ^ x >> 32;
}

static void items_that_collide_in_a_hash_without_a_key_do_not_here(void **state)
{
    (void)state;
    enum { N = 1 << 18 };
    struct rt_tensor t = empty(RT_I64, 1, DIM(N));
    for (int64_t i = 0; i < N; i++)
        ((uint64_t *)t.data)[i] = unhashed((uint64_t)i << 32);
    struct op_call c = {.op = "Unique",
                        .attrs = "T=int64 out_idx=int32",
                        .n_in = 1,
                        .n_out = 2,
                        .in = {t},
                        .deadline_ms = 5000};
    assert_ok(op_run(&c), &c.err);
    assert_int_equal(c.out[0].dim[0], N);
    op_clear(&c);
}

static void long_work_ends_soon_after_its_deadline(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    struct rt_tensor index = empty(RT_I32, 1, DIM(N)), ids = empty(RT_I32, 1, DIM(N));
    memset(index.data, 0, rt_tensor_bytes(&index));
    memset(ids.data, 0, rt_tensor_bytes(&ids));
    struct rt_tensor row = empty(RT_F32, 2, DIM(1, N));
    memset(row.data, 0, rt_tensor_bytes(&row));
    ends_soon((struct op_call){.op = "SparseSegmentSum",
                               .attrs = "T=float Tidx=int32 Tsegmentids=int32",
                               .n_in = 3,
                               .n_out = 1,
                               .in = {row, index, ids}});
    /* SparseTensorDenseMatMul makes 2^36 multiplications. */
    struct rt_tensor at = empty(RT_I64, 2, DIM(N, 2)), values = empty(RT_F32, 1, DIM(N));
    struct rt_tensor b = empty(RT_F32, 2, DIM(1, 1 << 16));
    memset(at.data, 0, rt_tensor_bytes(&at));
    memset(values.data, 0, rt_tensor_bytes(&values));
    memset(b.data, 0, rt_tensor_bytes(&b));
    ends_soon((struct op_call){.op = "SparseTensorDenseMatMul",
                               .attrs = "T=float Tindices=int64 adjoint_a=false adjoint_b=false",
                               .n_in = 4,
                               .n_out = 1,
                               .in = {at, values, LONGS(1, 1), b}});
    struct rt_tensor channels = empty(RT_F32, 4, DIM(1, 1, 1, N));
    memset(channels.data, 0, rt_tensor_bytes(&channels));
    ends_soon((struct op_call){.op = "LRN",
                               .attrs = "T=float depth_radius=2000000",
                               .n_in = 1,
                               .n_out = 1,
                               .in = {channels}});
    struct rt_tensor picture = empty(RT_F32, 4, DIM(1, 1, 1, 1));
    *(float *)picture.data = 1;
    ends_soon((struct op_call){.op = "ResizeBicubic",
                               .attrs = "T=float align_corners=false half_pixel_centers=false",
                               .n_in = 2,
                               .n_out = 1,
                               .in = {picture, op_ints(2, (int32_t[]){30000, 20000})}});
}

/* One op sums four million rows of 4,096 numbers, where each row takes little time. Another op
 * makes a list whose items take a gigabyte of memory. */
static void many_small_steps_end_soon_after_their_deadline(void **state)
{
    (void)state;
    enum { N = 1 << 22, ROW = 1 << 12 };
    struct rt_tensor data = empty(RT_F32, 2, DIM(1, ROW));
    struct rt_tensor index = empty(RT_I32, 1, DIM(N)), ids = empty(RT_I32, 1, DIM(N));
    memset(data.data, 0, rt_tensor_bytes(&data));
    memset(index.data, 0, rt_tensor_bytes(&index));
    memset(ids.data, 0, rt_tensor_bytes(&ids));
    ends_soon((struct op_call){.op = "SparseSegmentMean",
                               .attrs = "T=float Tidx=int32 Tsegmentids=int32",
                               .n_in = 3,
                               .n_out = 1,
                               .in = {data, index, ids}});
    struct op_call list = {.op = "TensorListReserve",
                           .attrs = "element_dtype=float shape_type=int32",
                           .n_in = 2,
                           .n_out = 1,
                           .in = {op_int(-1), op_int(1 << 24)},
                           .deadline_ms = 1};
    const int64_t before = cpu_now_ns();
    /* The op checks its deadline at intervals while it clears the items of the list. */
    assert_int_equal(op_run(&list), RT_DEADLINE_EXCEEDED);
    assert_true(cpu_now_ns() - before < INT64_C(2000000000));
    op_clear(&list);
}

/* A message is one group without an end, so that a run that did not check its deadline in the group
 * would fail with DATA_LOSS. */
static void a_long_group_ends_soon_after_its_deadline(void **state)
{
    (void)state;
    enum { N = 128 << 20, START_OF_GROUP_1000 = 0x3ec3, VARINT_1 = 0x08 };
    char *message = malloc(N);
    assert_non_null(message);
    memset(message, VARINT_1, N); /* fields of number 1 with the value 8 */
    message[0] = (char)(START_OF_GROUP_1000 & 0xff);
    message[1] = START_OF_GROUP_1000 >> 8;
    struct rt_tensor t = op_tensor(RT_STRING, 0, NULL, NULL);
    assert_true(rt_str_set(t.data, NULL, message, N, NULL));
    free(message);
    ends_soon((struct op_call){.op = "DecodeProtoV2",
                               .attrs = "message_type='tensorflow.NodeDef' field_names=['name'] "
                                        "output_types=[string] descriptor_source='local://' "
                                        "message_format='binary' sanitize=false",
                               .n_in = 1,
                               .n_out = 2,
                               .in = {t}});
}

/* Appends a field of a message with its tag and length. */
static void put_field(struct rt_bytes *b, char tag, const void *p, size_t n)
{
    rt_bytes_add(b, &tag, 1);
    rt_bytes_add_varint(b, n);
    rt_bytes_add(b, p, n);
}

/* A node names the last field of a message type 1,000 times. To find it each time, a hundred
 * megabytes of its descriptor would be read. */
static void the_fields_of_a_node_cost_a_bounded_time(void **state)
{
    (void)state;
    enum { NAMES = 1000, FIELDS = 20000, FILE = 0x0a, MESSAGE = 0x22 };
    static const char other[] = "\x12\x03\x0a\x01z"; /* a field with the name "z" */
    static const char last[] = "\x12\x09\x0a\x01y\x18\x01\x20\x01\x28\x09"; /* string y = 1 */
    struct rt_bytes message, file, set, attrs;
    rt_bytes_init(&message, (size_t)1 << 20);
    rt_bytes_init(&file, (size_t)1 << 20);
    rt_bytes_init(&set, (size_t)1 << 20);
    rt_bytes_init(&attrs, (size_t)1 << 20);
    rt_bytes_add(&message, "\x0a\x01M", 3);
    for (int i = 0; i < FIELDS; i++)
        rt_bytes_add(&message, other, sizeof other - 1);
    rt_bytes_add(&message, last, sizeof last - 1);
    put_field(&file, MESSAGE, message.p, message.n);
    put_field(&set, FILE, file.p, file.n);
    /* The notation of attributes ends a string at these bytes. */
    assert_null(memchr(set.p, '\'', set.n));
    assert_null(memchr(set.p, '\0', set.n));
    rt_bytes_addf(&attrs, "message_type='M' message_format='binary' sanitize=false "
                          "field_names=['y'");
    for (int i = 1; i < NAMES; i++)
        rt_bytes_addf(&attrs, ",'y'");
    rt_bytes_addf(&attrs, "] output_types=[string");
    for (int i = 1; i < NAMES; i++)
        rt_bytes_addf(&attrs, ",string");
    /* The last attribute, because the notation counts the parentheses in a string. */
    rt_bytes_addf(&attrs, "] descriptor_source='bytes://");
    rt_bytes_add(&attrs, set.p, set.n);
    rt_bytes_add(&attrs, "'", 2);
    assert_false(attrs.failed);
    struct op_call c = {.op = "DecodeProtoV2",
                        .attrs = (const char *)attrs.p,
                        .n_in = 1,
                        .n_out = 2,
                        .in = {text("")}};
    if (op_run(&c) != RT_RESOURCE_EXHAUSTED || !strstr(c.err.msg, "To find 1000 fields"))
        fail_msg("%s", c.err.msg);
    op_clear(&c);
    rt_bytes_clear(&message);
    rt_bytes_clear(&file);
    rt_bytes_clear(&set);
    rt_bytes_clear(&attrs);
}

/* Saves one tensor of 1 MB under `n` names, with a limit of 2 MB for the memory of the run. */
static enum rt_status save_under_names(int n, const char *prefix, struct op_call *c)
{
    enum { BYTES = 1 << 20 };
    static const char *const attrs[] = {"dtypes=[float]", "dtypes=[float,float]", NULL, NULL,
                                        "dtypes=[float,float,float,float,float]"};
    struct rt_tensor shared = op_tensor(RT_F32, 1, DIM(BYTES / 4), NULL);
    *c = (struct op_call){
        .op = "SaveV2", .attrs = attrs[n - 1], .n_in = 3 + n, .run_memory_limit = 2 * BYTES};
    c->in[0] = text(prefix);
    c->in[1] = op_tensor(RT_STRING, 1, DIM(n), NULL);
    c->in[2] = op_tensor(RT_STRING, 1, DIM(n), NULL);
    for (int i = 0; i < n; i++) {
        assert_true(rt_str_set((struct rt_str *)c->in[1].data + i, NULL, &"abcde"[i], 1, NULL));
        rt_tensor_ref(&c->in[3 + i], &shared);
    }
    rt_tensor_clear(&shared);
    return op_run(c);
}

static void a_save_that_repeats_a_tensor_has_a_limit(void **state)
{
    char dir[] = "/tmp/slipway_saveXXXXXX", prefix[64];
    struct op_call c;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(prefix, sizeof prefix, "%s/ck", dir);
    assert_int_equal(save_under_names(5, prefix, &c), RT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(c.err.msg, "4194304 bytes"));
    assert_non_null(strstr(c.err.msg, "2097152"));
    op_clear(&c);
    assert_int_equal(rmdir(dir), 0); /* nothing was written */
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(prefix, sizeof prefix, "%s/ck", dir);
    assert_ok(save_under_names(2, prefix, &c), &c.err);
    op_clear(&c);
    for (int i = 0; i < 2; i++) {
        snprintf(prefix, sizeof prefix, "%s/ck%s", dir, i ? ".index" : ".data-00000-of-00001");
        assert_int_equal(unlink(prefix), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dimensions_beside_one_of_0_cost_nothing),
        cmocka_unit_test(rows_that_are_only_announced_cost_nothing),
        cmocka_unit_test(items_do_not_crowd_in_one_slot),
        cmocka_unit_test(a_crowd_in_one_slot_ends_soon_after_its_deadline),
        cmocka_unit_test(items_that_collide_in_a_hash_without_a_key_do_not_here),
        cmocka_unit_test(long_work_ends_soon_after_its_deadline),
        cmocka_unit_test(a_long_group_ends_soon_after_its_deadline),
        cmocka_unit_test(the_fields_of_a_node_cost_a_bounded_time),
        cmocka_unit_test(a_save_that_repeats_a_tensor_has_a_limit),
        cmocka_unit_test(many_small_steps_end_soon_after_their_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
