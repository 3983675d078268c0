/* Tests that kernels divide the work on long tensors into parts, and that a cancelled run ends
 * after the current part. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/op.h"

static float value_of(int64_t i)
{
    return (float)((i * 7919) % 251) / 16 - 7;
}

static struct rt_tensor numbers(int rank, const int64_t *dim)
{
    struct rt_error err = {0};
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++)
        ((float *)t.data)[i] = value_of(i);
    return t;
}

#define DIM(...) ((const int64_t[]){__VA_ARGS__})

static const float *floats(const struct rt_tensor *t)
{
    return t->data;
}

/* Counts the mismatches and asserts once that there are none. An assertion per element would take
 * longer than the kernels. */
static void expect(const struct rt_tensor *t, int64_t n, float (*want)(int64_t i))
{
    int64_t bad = 0;
    assert_int_equal(rt_tensor_count(t), n);
    for (int64_t i = 0; i < n; i++)
        bad += floats(t)[i] != want(i);
    assert_int_equal(bad, 0);
}

enum { LONG = 1200000 + 77 };

static float negative(int64_t i)
{
    return -value_of(i);
}
static float twice(int64_t i)
{
    return 2 * value_of(i);
}
static float with_columns(int64_t i)
{
    return value_of(i) + value_of(i % 7);
}
static float with_half(int64_t i)
{
    return value_of(i) + 0.5f;
}

static void long_rows_are_mapped_whole(void **state)
{
    (void)state;
    struct op_call c = {.op = "Neg", .attrs = "T=float", .n_in = 1, .n_out = 1};
    c.in[0] = numbers(1, DIM(LONG));
    assert_ok(op_run(&c), &c.err);
    expect(&c.out[0], LONG, negative);
    op_clear(&c);
}

static void long_rows_are_joined_whole(void **state)
{
    (void)state;
    struct op_call c = {.op = "AddV2", .attrs = "T=float", .n_in = 2, .n_out = 1};
    c.in[0] = numbers(1, DIM(LONG));
    c.in[1] = numbers(1, DIM(LONG));
    assert_ok(op_run(&c), &c.err);
    expect(&c.out[0], LONG, twice);
    op_clear(&c);
    c.in[0] = numbers(2, DIM(LONG / 7, 7));
    c.in[1] = numbers(1, DIM(7));
    assert_ok(op_run(&c), &c.err);
    expect(&c.out[0], LONG / 7 * 7, with_columns);
    op_clear(&c);
    c.in[0] = numbers(1, DIM(LONG));
    c.in[1] = op_floats(1, (float[]){0.5f});
    assert_ok(op_run(&c), &c.err);
    expect(&c.out[0], LONG, with_half);
    op_clear(&c);
}

static void long_sums_hold_every_number(void **state)
{
    (void)state;
    enum { N = (1 << 22) * 2 + 1001 };
    struct op_call c = {.op = "Max", .attrs = "T=float", .n_in = 2, .n_out = 1};
    c.in[0] = numbers(1, DIM(N));
    ((float *)c.in[0].data)[N - 1] = 1000;
    c.in[1] = op_ints(1, (int32_t[]){0});
    assert_ok(op_run(&c), &c.err);
    assert_float_equal(floats(&c.out[0])[0], 1000, 0);
    op_clear(&c);
    c.op = "Sum";
    c.in[0] = numbers(1, DIM(N));
    for (int64_t i = 0; i < N; i++)
        ((float *)c.in[0].data)[i] = 0.5f;
    c.in[1] = op_ints(1, (int32_t[]){0});
    assert_ok(op_run(&c), &c.err);
    assert_float_equal(floats(&c.out[0])[0], 0.5 * N, 1);
    op_clear(&c);
    c.op = "Max";
    c.in[0] = numbers(2, DIM(N / 3, 3));
    ((float *)c.in[0].data)[N / 3 * 3 - 2] = 2000;
    ((float *)c.in[0].data)[N / 6 * 3] = 3000;
    c.in[1] = op_ints(1, (int32_t[]){0});
    assert_ok(op_run(&c), &c.err);
    assert_float_equal(floats(&c.out[0])[0], 3000, 0);
    assert_float_equal(floats(&c.out[0])[1], 2000, 0);
    op_clear(&c);
}

static void large_matrices_are_transposed_whole(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1100, 1300}, {3, 1200001}, {1200001, 3}, {70000, 33}};
    for (size_t s = 0; s < 4; s++) {
        const int64_t n = shapes[s][0], m = shapes[s][1];
        struct op_call c = {
            .op = "Transpose", .attrs = "T=float Tperm=int32", .n_in = 2, .n_out = 1};
        c.in[0] = numbers(2, shapes[s]);
        c.in[1] = op_ints(2, (int32_t[]){1, 0});
        assert_ok(op_run(&c), &c.err);
        int64_t bad = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < m; j++)
                bad += floats(&c.out[0])[j * n + i] != value_of(i * m + j);
        assert_int_equal(bad, 0);
        op_clear(&c);
    }
}

static float one_of_three(int64_t i)
{
    return value_of(i % 3);
}

static void long_copies_are_whole(void **state)
{
    (void)state;
    struct op_call c = {.op = "Tile", .attrs = "T=float Tmultiples=int32", .n_in = 2, .n_out = 1};
    c.in[0] = numbers(1, DIM(3));
    c.in[1] = op_ints(1, (int32_t[]){LONG});
    assert_ok(op_run(&c), &c.err);
    expect(&c.out[0], 3 * (int64_t)LONG, one_of_three);
    op_clear(&c);
    struct op_call k = {.op = "ConcatV2", .attrs = "T=float Tidx=int32 N=2", .n_in = 3, .n_out = 1};
    k.in[0] = numbers(2, DIM(1, LONG));
    k.in[1] = numbers(2, DIM(1, LONG));
    k.in[2] = op_int(1);
    assert_ok(op_run(&k), &k.err);
    int64_t bad = 0;
    for (int64_t i = 0; i < 2 * (int64_t)LONG; i++)
        bad += floats(&k.out[0])[i] != value_of(i % LONG);
    assert_int_equal(bad, 0);
    op_clear(&k);
}

/* ---- texts of several chunks ---- */

enum { CHUNK = 1 << 20, TEXT = 3 * CHUNK + 77 };

static struct rt_tensor texts(int n, const struct rt_span *text)
{
    struct rt_error err = {0};
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, RT_STRING, 1, DIM(n), &err), &err);
    for (int i = 0; i < n; i++)
        assert_true(rt_str_set((struct rt_str *)t.data + i, NULL, text[i].p, text[i].n, &err));
    return t;
}

static char *some_text(void)
{
    char *p = malloc(TEXT);
    assert_non_null(p);
    for (int i = 0; i < TEXT; i++)
        p[i] = (char)(i * INT64_C(7919) % 251);
    return p;
}

/* The expected values were computed by TensorFlow 2.21. */
static void long_texts_are_hashed_and_counted_whole(void **state)
{
    static const struct {
        const char *op, *attrs;
        int64_t want;
    } cases[] = {
        {"StringToHashBucketFast", "num_buckets=1000000007", 311066466},
        {"StringToHashBucket", "num_buckets=1000000007", 572020470},
        {"StringToHashBucketStrong", "num_buckets=1000000007 key=[1,2]", 503202230},
        {"StringLength", "unit='UTF8_CHAR'", 2343687},
    };
    char *p = some_text();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct op_call c = {.op = cases[i].op, .attrs = cases[i].attrs, .n_in = 1, .n_out = 1};
        c.in[0] = texts(1, (struct rt_span[]){rt_span_of(p, TEXT)});
        assert_ok(op_run(&c), &c.err);
        assert_int_equal(c.out[0].dtype == RT_I64 ? *(int64_t *)c.out[0].data
                                                  : *(int32_t *)c.out[0].data,
                         cases[i].want);
        op_clear(&c);
    }
    free(p);
}

/* The separators straddle the boundaries between chunks. */
static void long_texts_are_split_and_stripped_whole(void **state)
{
    static const int at[] = {CHUNK - 1, 2 * CHUNK - 2, TEXT - 2};
    char *p = malloc(TEXT);
    assert_non_null(p);
    (void)state;
    memset(p, 'a', TEXT);
    for (int i = 0; i < 3; i++)
        memcpy(p + at[i], "<>", 2);
    struct op_call c = {.op = "StringSplitV2", .attrs = "maxsplit=-1", .n_in = 2, .n_out = 3};
    c.in[0] = texts(1, (struct rt_span[]){rt_span_of(p, TEXT)});
    c.in[1] = texts(1, (struct rt_span[]){rt_span_of("<>", 2)});
    c.in[1].rank = 0;
    assert_ok(op_run(&c), &c.err);
    assert_int_equal(rt_tensor_count(&c.out[1]), 4);
    assert_int_equal(rt_strs(&c.out[1])[0].n, CHUNK - 1);
    assert_int_equal(rt_strs(&c.out[1])[1].n, CHUNK - 3);
    assert_int_equal(rt_strs(&c.out[1])[2].n, TEXT - 2 * CHUNK - 2);
    assert_int_equal(rt_strs(&c.out[1])[3].n, 0);
    op_clear(&c);
    memset(p, ' ', TEXT);
    memcpy(p + CHUNK, "a b", 3);
    struct op_call s = {.op = "StringStrip", .attrs = "", .n_in = 1, .n_out = 1};
    s.in[0] = texts(1, (struct rt_span[]){rt_span_of(p, TEXT)});
    assert_ok(op_run(&s), &s.err);
    assert_int_equal(rt_strs(&s.out[0])[0].n, 3);
    assert_memory_equal(rt_str_data(rt_strs(&s.out[0])), "a b", 3);
    op_clear(&s);
    free(p);
}

/* The separator is longer than a chunk. Its beginning also occurs where the complete separator does
 * not. */
static void long_separators_are_found(void **state)
{
    enum { SEPARATOR = CHUNK + 5 };
    char *p = malloc(TEXT);
    assert_non_null(p);
    (void)state;
    memset(p, 'a', TEXT);
    memset(p + 1000 + SEPARATOR - 1, 'b', 1);
    struct op_call c = {.op = "StringSplitV2", .attrs = "maxsplit=-1", .n_in = 2, .n_out = 3};
    c.in[0] = texts(1, (struct rt_span[]){rt_span_of(p, TEXT)});
    c.in[1] = texts(1, (struct rt_span[]){rt_span_of(p + 1000, SEPARATOR)});
    c.in[1].rank = 0;
    assert_ok(op_run(&c), &c.err);
    assert_int_equal(rt_tensor_count(&c.out[1]), 2);
    assert_int_equal(rt_strs(&c.out[1])[0].n, 1000);
    assert_int_equal(rt_strs(&c.out[1])[1].n, TEXT - 1000 - SEPARATOR);
    op_clear(&c);
    free(p);
}

static void long_texts_are_compared_whole(void **state)
{
    char *p = some_text(), *q = some_text();
    q[TEXT - 1] ^= 1;
    (void)state;
    const struct rt_span all[] = {rt_span_of(p, TEXT), rt_span_of(p, TEXT), rt_span_of(q, TEXT)};
    struct op_call c = {.op = "Unique", .attrs = "T=string out_idx=int32", .n_in = 1, .n_out = 2};
    c.in[0] = texts(3, all);
    assert_ok(op_run(&c), &c.err);
    assert_memory_equal(c.out[1].data, ((int32_t[]){0, 0, 1}), 12);
    op_clear(&c);
    struct op_call e = {.op = "Equal", .attrs = "T=string", .n_in = 2, .n_out = 1};
    e.in[0] = texts(3, all);
    e.in[1] = texts(1, all);
    assert_ok(op_run(&e), &e.err);
    assert_memory_equal(e.out[0].data, ((bool[]){true, true, false}), 3);
    op_clear(&e);
    free(p);
    free(q);
}

static void large_products_agree_with_single_sums(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        {1100, 1000, 1000}, {64, 13000, 1000}, {200001, 64, 72}, {200, 210, 60000}};
    for (int transposed = 0; transposed < 4; transposed++)
        for (size_t s = 0; s < 4; s++) {
            const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
            const bool ta = transposed & 1, tb = transposed & 2;
            char attrs[80];
            snprintf(attrs, sizeof attrs, "T=float transpose_a=%s transpose_b=%s",
                     ta ? "true" : "false", tb ? "true" : "false");
            struct op_call c = {.op = "MatMul", .attrs = attrs, .n_in = 2, .n_out = 1};
            c.in[0] = numbers(2, ta ? DIM(k, m) : DIM(m, k));
            c.in[1] = numbers(2, tb ? DIM(n, k) : DIM(k, n));
            assert_ok(op_run(&c), &c.err);
            for (int64_t at = 0; at < m * n; at += m * n / 997 + 1) {
                const int64_t i = at / n, j = at % n;
                double sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum += (double)value_of(ta ? l * m + i : i * k + l) *
                           (double)value_of(tb ? j * k + l : l * n + j);
                assert_float_equal(floats(&c.out[0])[at], sum, 1e-4 * fabs(sum) + 0.5);
            }
            op_clear(&c);
        }
}

/* Blocks of integer matrices may have any number of rows. */
static void large_integer_products_agree_with_single_sums(void **state)
{
    (void)state;
    const int64_t m = 101, n = 403, k = 9000;
    struct rt_error err = {0};
    for (int transposed = 0; transposed < 4; transposed++) {
        const bool ta = transposed & 1, tb = transposed & 2;
        char attrs[80];
        snprintf(attrs, sizeof attrs, "T=int32 transpose_a=%s transpose_b=%s",
                 ta ? "true" : "false", tb ? "true" : "false");
        struct op_call c = {.op = "MatMul", .attrs = attrs, .n_in = 2, .n_out = 1};
        assert_ok(rt_tensor_new(&c.in[0], NULL, RT_I32, 2, ta ? DIM(k, m) : DIM(m, k), &err), &err);
        assert_ok(rt_tensor_new(&c.in[1], NULL, RT_I32, 2, tb ? DIM(n, k) : DIM(k, n), &err), &err);
        int32_t *a = c.in[0].data, *b = c.in[1].data;
        for (int64_t i = 0; i < m * k; i++)
            a[i] = (int32_t)(i * 7919 % 251);
        for (int64_t i = 0; i < n * k; i++)
            b[i] = (int32_t)(i * 7907 % 257) - 100;
        assert_ok(op_run(&c), &c.err);
        int64_t bad = 0;
        for (int64_t at = 0; at < m * n; at += 17) {
            const int64_t i = at / n, j = at % n;
            int32_t sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += a[ta ? l * m + i : i * k + l] * b[tb ? j * k + l : l * n + j];
            bad += ((const int32_t *)c.out[0].data)[at] != sum;
        }
        assert_int_equal(bad, 0);
        op_clear(&c);
    }
}

static void rows_of_softmax_and_scans_in_parts_are_those_of_one(void **state)
{
    (void)state;
    const int64_t rows = 90001, n = 7;
    struct op_call c = {.op = "Softmax", .attrs = "T=float", .n_in = 1, .n_out = 1};
    c.in[0] = numbers(2, DIM(rows, n));
    assert_ok(op_run(&c), &c.err);
    for (int64_t i = 0; i < rows; i += 97) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += exp((double)value_of(i * n + j));
        assert_float_equal(floats(&c.out[0])[i * n + 3], exp((double)value_of(i * n + 3)) / sum,
                           1e-5);
    }
    op_clear(&c);
    struct op_call k = {.op = "Cumsum", .attrs = "T=float Tidx=int32", .n_in = 2, .n_out = 1};
    k.in[0] = numbers(2, DIM(rows, n));
    k.in[1] = op_int(1);
    assert_ok(op_run(&k), &k.err);
    for (int64_t i = 0; i < rows; i += 97) {
        float sum = 0;
        for (int64_t j = 0; j < n; j++) {
            sum += value_of(i * n + j);
            assert_float_equal(floats(&k.out[0])[i * n + j], sum, 1e-4);
        }
    }
    op_clear(&k);
}

static void long_selections_and_ranges_are_whole(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct op_call c = {.op = "SelectV2", .attrs = "T=float", .n_in = 3, .n_out = 1};
    assert_ok(rt_tensor_new(&c.in[0], NULL, RT_BOOL, 1, DIM(LONG), &err), &err);
    for (int64_t i = 0; i < LONG; i++)
        ((bool *)c.in[0].data)[i] = i % 3 == 0;
    c.in[1] = numbers(1, DIM(LONG));
    c.in[2] = op_floats(1, (float[]){99});
    assert_ok(op_run(&c), &c.err);
    int64_t bad = 0;
    for (int64_t i = 0; i < LONG; i++)
        bad += floats(&c.out[0])[i] != (i % 3 ? 99 : value_of(i));
    assert_int_equal(bad, 0);
    op_clear(&c);
    struct op_call k = {.op = "Range", .attrs = "Tidx=int32", .n_in = 3, .n_out = 1};
    k.in[0] = op_int(5);
    k.in[1] = op_int(5 + 3 * LONG);
    k.in[2] = op_int(3);
    assert_ok(op_run(&k), &k.err);
    bad = 0;
    for (int64_t i = 0; i < LONG; i++)
        bad += ((const int32_t *)k.out[0].data)[i] != 5 + 3 * (int32_t)i;
    assert_int_equal(bad, 0);
    op_clear(&k);
}

/* A large batch is convolved in several parts. Except for rounding, the result of each image must
 * be the result of convolving the image alone. */
static void images_of_a_large_batch_are_those_of_small_ones(void **state)
{
    (void)state;
    const int64_t images = 23, side = 56, channels = 32;
    const char *attrs = "T=float strides=[1,2,2,1] padding='VALID'";
    struct op_call all = {.op = "Conv2D", .attrs = attrs, .n_in = 2, .n_out = 1};
    all.in[0] = numbers(4, DIM(images, side, side, channels));
    all.in[1] = numbers(4, DIM(7, 7, channels, 64));
    assert_ok(op_run(&all), &all.err);
    const int64_t size = side * side * channels, out = rt_tensor_count(&all.out[0]) / images;
    for (int64_t i = 0; i < images; i += 11) {
        struct op_call one = {.op = "Conv2D", .attrs = attrs, .n_in = 2, .n_out = 1};
        one.in[0] = numbers(4, DIM(1, side, side, channels));
        memcpy(one.in[0].data, floats(&all.in[0]) + i * size, (size_t)size * sizeof(float));
        one.in[1] = numbers(4, DIM(7, 7, channels, 64));
        assert_ok(op_run(&one), &one.err);
        for (int64_t j = 0; j < out; j += 101)
            assert_float_equal(floats(&all.out[0])[i * out + j], floats(&one.out[0])[j], 0.05);
        op_clear(&one);
    }
    op_clear(&all);
}

/* If there are few channels, the size of a part depends on the bytes read and written, not on the
 * multiplications. */
static void small_images_of_a_large_batch_are_those_of_one(void **state)
{
    (void)state;
    const int64_t images = 60000, in = 3 * 3 * 3, out = 9 * 9 * 4;
    const char *attrs = "T=float strides=[1,3,3,1] padding='SAME'";
    struct op_call all = {.op = "Conv2DBackpropInput", .attrs = attrs, .n_in = 3, .n_out = 1};
    int64_t bad = 0;

    all.in[0] = op_ints(4, (int32_t[]){(int32_t)images, 9, 9, 4});
    all.in[1] = numbers(4, DIM(2, 2, 4, 3));
    all.in[2] = numbers(4, DIM(images, 3, 3, 3));
    assert_ok(op_run(&all), &all.err);
    for (int64_t i = 0; i < images; i += i < images - 2 ? images / 3 - 1 : 1) {
        struct op_call one = {.op = all.op, .attrs = attrs, .n_in = 3, .n_out = 1};
        one.in[0] = op_ints(4, (int32_t[]){1, 9, 9, 4});
        one.in[1] = numbers(4, DIM(2, 2, 4, 3));
        one.in[2] = numbers(4, DIM(1, 3, 3, 3));
        memcpy(one.in[2].data, floats(&all.in[2]) + i * in, (size_t)in * sizeof(float));
        assert_ok(op_run(&one), &one.err);
        for (int64_t j = 0; j < out; j++)
            bad += fabsf(floats(&all.out[0])[i * out + j] - floats(&one.out[0])[j]) > 1e-3f;
        op_clear(&one);
    }
    assert_int_equal(bad, 0);
    op_clear(&all);
}

/* An image that is too large to be convolved in one part is split by output rows. */
static void a_large_image_is_convolved_whole(void **state)
{
    (void)state;
    static const struct {
        int64_t h, w, ci, co, size, stride;
        const char *padding;
    } cases[] = {{131, 128, 32, 64, 5, 1, "SAME"},
                 {130, 129, 32, 64, 5, 1, "VALID"},
                 {211, 140, 48, 96, 5, 2, "SAME"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const int64_t h = cases[k].h, w = cases[k].w, ci = cases[k].ci, co = cases[k].co;
        const int64_t size = cases[k].size, stride = cases[k].stride;
        char attrs[100];
        snprintf(attrs, sizeof attrs, "T=float strides=[1,%d,%d,1] padding='%s'", (int)stride,
                 (int)stride, cases[k].padding);
        struct op_call c = {.op = "Conv2D", .attrs = attrs, .n_in = 2, .n_out = 1};
        c.in[0] = numbers(4, DIM(2, h, w, ci));
        c.in[1] = numbers(4, DIM(size, size, ci, co));
        assert_ok(op_run(&c), &c.err);
        const int64_t oh = c.out[0].dim[1], ow = c.out[0].dim[2];
        const int64_t pad_h = (oh - 1) * stride + size - h, pad_w = (ow - 1) * stride + size - w;
        const int64_t top = pad_h > 0 ? pad_h / 2 : 0, left = pad_w > 0 ? pad_w / 2 : 0;
        for (int64_t at = 0; at < 2 * oh * ow; at += 37) {
            const int64_t n = at / (oh * ow), y = at / ow % oh, x = at % ow, o = at % co;
            double sum = 0;
            for (int64_t i = 0; i < size; i++)
                for (int64_t j = 0; j < size; j++) {
                    const int64_t sy = y * stride + i - top, sx = x * stride + j - left;
                    if (sy < 0 || sy >= h || sx < 0 || sx >= w)
                        continue;
                    for (int64_t q = 0; q < ci; q++)
                        sum += (double)value_of(((n * h + sy) * w + sx) * ci + q) *
                               (double)value_of(((i * size + j) * ci + q) * co + o);
                }
            assert_float_equal(floats(&c.out[0])[at * co + o], sum, 1e-4 * fabs(sum) + 0.1);
        }
        op_clear(&c);
    }
}

/* There are more channels than a pooling kernel accumulates at a time. Of the two pixels, the
 * second is larger in every fifth channel. */
enum { CHANNELS = 3 * 65000 };

static float pixel_of(int64_t i)
{
    return i < CHANNELS ? value_of(i) : value_of(i - CHANNELS) + (i % 5 ? -1.0f : 1.0f);
}

static struct rt_tensor two_pixels(void)
{
    struct rt_tensor t = numbers(4, DIM(1, 1, 2, CHANNELS));
    for (int64_t i = 0; i < 2 * CHANNELS; i++)
        ((float *)t.data)[i] = pixel_of(i);
    return t;
}

static void pools_of_many_channels_are_whole(void **state)
{
    (void)state;
    struct rt_error err = {0};
    int64_t bad = 0;
    struct op_call c = {.op = "MaxPoolWithArgmax",
                        .attrs = "T=float Targmax=int32 ksize=[1,1,2,1] strides=[1,1,2,1] "
                                 "padding='VALID'",
                        .n_in = 1,
                        .n_out = 2};
    c.in[0] = two_pixels();
    assert_ok(op_run(&c), &c.err);
    assert_int_equal(rt_tensor_count(&c.out[0]), CHANNELS);
    for (int64_t i = 0; i < CHANNELS; i++) {
        const int64_t best = pixel_of(i + CHANNELS) > pixel_of(i) ? i + CHANNELS : i;
        bad += floats(&c.out[0])[i] != pixel_of(best);
        bad += ((const int32_t *)c.out[1].data)[i] != best;
    }
    assert_int_equal(bad, 0);
    op_clear(&c);
    struct op_call d = {.op = "MaxPool",
                        .attrs = "T=float ksize=[1,1,1,3] strides=[1,1,1,3] padding='VALID'",
                        .n_in = 1,
                        .n_out = 1};
    d.in[0] = two_pixels();
    assert_ok(op_run(&d), &d.err);
    assert_int_equal(rt_tensor_count(&d.out[0]), 2 * CHANNELS / 3);
    for (int64_t i = 0; i < 2 * CHANNELS / 3; i++)
        bad += floats(&d.out[0])[i] !=
               fmaxf(pixel_of(3 * i), fmaxf(pixel_of(3 * i + 1), pixel_of(3 * i + 2)));
    assert_int_equal(bad, 0);
    op_clear(&d);
    struct op_call a = {.op = "AvgPool",
                        .attrs = "T=double ksize=[1,1,2,1] strides=[1,1,2,1] padding='VALID'",
                        .n_in = 1,
                        .n_out = 1};
    assert_ok(rt_tensor_new(&a.in[0], NULL, RT_F64, 4, DIM(1, 1, 2, CHANNELS), &err), &err);
    for (int64_t i = 0; i < 2 * CHANNELS; i++)
        ((double *)a.in[0].data)[i] = (double)pixel_of(i);
    assert_ok(op_run(&a), &a.err);
    for (int64_t i = 0; i < CHANNELS; i++)
        bad += ((const double *)a.out[0].data)[i] !=
               ((double)pixel_of(i) + (double)pixel_of(i + CHANNELS)) / 2;
    assert_int_equal(bad, 0);
    op_clear(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_rows_are_mapped_whole),
        cmocka_unit_test(long_rows_are_joined_whole),
        cmocka_unit_test(long_sums_hold_every_number),
        cmocka_unit_test(large_matrices_are_transposed_whole),
        cmocka_unit_test(long_copies_are_whole),
        cmocka_unit_test(long_texts_are_hashed_and_counted_whole),
        cmocka_unit_test(long_texts_are_split_and_stripped_whole),
        cmocka_unit_test(long_separators_are_found),
        cmocka_unit_test(long_texts_are_compared_whole),
        cmocka_unit_test(large_products_agree_with_single_sums),
        cmocka_unit_test(large_integer_products_agree_with_single_sums),
        cmocka_unit_test(rows_of_softmax_and_scans_in_parts_are_those_of_one),
        cmocka_unit_test(long_selections_and_ranges_are_whole),
        cmocka_unit_test(images_of_a_large_batch_are_those_of_small_ones),
        cmocka_unit_test(small_images_of_a_large_batch_are_those_of_one),
        cmocka_unit_test(a_large_image_is_convolved_whole),
        cmocka_unit_test(pools_of_many_channels_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
