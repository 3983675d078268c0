/* Tests the formats that the client commands read and write: JSON, .npy and HTTP responses. */
#include "tests/support/test.h"

#include <math.h>

#include "clients/cli/convert.h"
#include "clients/http/http_response.h"
#include "clients/cli/json.h"
#include "clients/cli/npy.h"

static struct rt_error err;
static struct rt_arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = rt_arena_new(1 << 22);
    return arena ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    rt_arena_free(arena);
    return 0;
}

/* ---- numbers ---- */

static void halves_are_rounded_to_the_nearest_even(void **state)
{
    (void)state;
    static const struct {
        double v;
        uint16_t half, bfloat;
    } all[] = {
        {0, 0, 0},
        {1, 0x3c00, 0x3f80},
        {-2, 0xc000, 0xc000},
        {65504, 0x7bff, 0x4780},
        {65520, 0x7c00, 0x4780},
        {0x1p-24, 1, 0x3380},
        {0x1p-25, 0, 0x3300},
        {0x1.8p-24, 2, 0x33c0},
        {1 + 0x1p-11, 0x3c00, 0x3f80},
        {1 + 0x3p-11, 0x3c02, 0x3f80},
        {(double)INFINITY, 0x7c00, 0x7f80},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint16_t bits;
        assert_true(cl_set_real(SLIPWAY_HALF, &bits, all[i].v));
        assert_int_equal(bits, all[i].half);
        assert_true(cl_set_real(SLIPWAY_BFLOAT16, &bits, all[i].v));
        assert_int_equal(bits, all[i].bfloat);
    }
    for (unsigned h = 0; h < 65536; h++) {
        uint16_t bits = (uint16_t)h, back;
        double v = cl_get_real(SLIPWAY_HALF, &bits);
        assert_true(cl_set_real(SLIPWAY_HALF, &back, v));
        assert_true(isnan(v) || back == bits);
    }
}

static void halves_are_rounded_once(void **state)
{
    (void)state;
    uint16_t bits;
    /* If a number were rounded to a float first, it would lie halfway between two 16-bit numbers
     * and be rounded down. */
    assert_true(cl_set_real(SLIPWAY_BFLOAT16, &bits, 1 + 0x1p-8 + 0x1p-30));
    assert_int_equal(bits, 0x3f81);
    assert_true(cl_set_real(SLIPWAY_HALF, &bits, 1 + 0x1p-11 + 0x1p-30));
    assert_int_equal(bits, 0x3c01);
}

static void a_value_without_a_form_in_the_type_is_named(void **state)
{
    (void)state;
    const double x[] = {1, 2.5};
    const int64_t big[] = {1, 300};
    struct slipway_tensor t = {
        .name = "x", .dtype = SLIPWAY_DOUBLE, .rank = 1, .dim = {2}, .data = x};
    assert_fails(cl_convert(&t, SLIPWAY_INT32, arena, &err), RT_INVALID_ARGUMENT, &err,
                 "\"x\": element 1, 2.5, is no DT_INT32");
    assert_ok(cl_convert(&t, SLIPWAY_FLOAT, arena, &err), &err);
    assert_true(((const float *)t.data)[1] == 2.5f);
    t = (struct slipway_tensor){
        .name = "n", .dtype = SLIPWAY_INT64, .rank = 1, .dim = {2}, .data = big};
    assert_fails(cl_convert(&t, SLIPWAY_UINT8, arena, &err), RT_INVALID_ARGUMENT, &err,
                 "element 1, 300, is no DT_UINT8");
    assert_ok(cl_convert(&t, SLIPWAY_INT16, arena, &err), &err);
    assert_int_equal(((const int16_t *)t.data)[1], 300);
}

/* ---- .npy ---- */

static void what_is_written_as_npy_is_read_again(void **state)
{
    (void)state;
    const int32_t x[] = {1, -2, 3, 4, 5, 6};
    const struct slipway_tensor t = {.dtype = SLIPWAY_INT32, .rank = 2, .dim = {2, 3}, .data = x};
    struct rt_bytes out;
    struct slipway_tensor back = {0};
    rt_bytes_init(&out, 1 << 16);
    assert_ok(cl_npy_write(&out, &t, &err), &err);
    assert_int_equal((out.n - 24) % 64, 0);
    assert_ok(cl_npy_read(rt_span_of(out.p, out.n), arena, &back, &err), &err);
    assert_int_equal(back.dtype, SLIPWAY_INT32);
    assert_int_equal(back.rank, 2);
    assert_memory_equal(back.data, x, sizeof x);
    assert_fails(cl_npy_read(rt_span_of(out.p, out.n - 1), arena, &back, &err), RT_INVALID_ARGUMENT,
                 &err, "too few bytes");
    rt_bytes_clear(&out);
}

static void npy(struct rt_bytes *out, const char *header, const void *data, size_t n)
{
    const char head[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, (char)strlen(header), 0};
    rt_bytes_add(out, head, sizeof head);
    rt_bytes_adds(out, header);
    if (n)
        rt_bytes_add(out, data, n);
}

static void other_orders_of_bytes_and_dimensions_are_put_right(void **state)
{
    (void)state;
    const unsigned char big[] = {0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6};
    const int16_t want[] = {1, 2, 3, 4, 5, 6};
    struct rt_bytes out;
    struct slipway_tensor t = {0};
    rt_bytes_init(&out, 1 << 16);
    npy(&out, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", big, sizeof big);
    assert_ok(cl_npy_read(rt_span_of(out.p, out.n), arena, &t, &err), &err);
    assert_memory_equal(t.data, want, sizeof want);
    rt_bytes_clear(&out);
    npy(&out, "{'descr': '<U2', 'fortran_order': False, 'shape': (), }", "\xe9\0\0\0\0\0\0\0", 8);
    assert_ok(cl_npy_read(rt_span_of(out.p, out.n), arena, &t, &err), &err);
    const struct slipway_string *s = t.data;
    assert_int_equal(t.rank, 0);
    assert_string_equal(s->p, "\xc3\xa9");
    rt_bytes_clear(&out);
    npy(&out, "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "x", 1);
    assert_fails(cl_npy_read(rt_span_of(out.p, out.n), arena, &t, &err), RT_INVALID_ARGUMENT, &err,
                 "not of one plain type");
    rt_bytes_clear(&out);
    npy(&out, "{'descr': '|S0', 'fortran_order': False, 'shape': (50000000,), }", NULL, 0);
    assert_fails(cl_npy_read(rt_span_of(out.p, out.n), arena, &t, &err), RT_INVALID_ARGUMENT, &err,
                 "too few bytes");
    rt_bytes_clear(&out);
}

/* ---- JSON ---- */

static const struct slipway_input specs[] = {{.name = "a", .dtype = SLIPWAY_FLOAT, .rank = -1},
                                             {.name = "s", .dtype = SLIPWAY_STRING, .rank = -1}};

static enum rt_status tensors(const char *text, int n_specs, struct slipway_tensor **t, int *n,
                              bool *is_row)
{
    json_t *v = NULL;
    enum rt_status st = cl_json_load(rt_span_str(text), &v, &err);
    if (!st)
        st = cl_json_tensors(v, "instances", "inputs", specs, n_specs, arena, t, n, is_row, &err);
    json_decref(v);
    return st;
}

static void rows_become_tensors_and_tensors_rows(void **state)
{
    (void)state;
    struct slipway_tensor *t;
    struct rt_bytes out;
    bool is_row;
    int n;
    assert_ok(tensors("{\"instances\": [{\"a\": [1, NaN], \"s\": \"x\"}, {\"a\": [-Infinity, 2.5], "
                      "\"s\": {\"b64\": \"_w\"}}]}",
                      2, &t, &n, &is_row),
              &err);
    assert_true(is_row);
    assert_int_equal(n, 2);
    assert_int_equal(t[0].rank, 2);
    rt_bytes_init(&out, 1000);
    cl_json_response(&out, t, n, true);
    assert_string_equal(out.p, "{\"predictions\": [{\"a\": [1.0, NaN], \"s\": \"x\"}, {\"a\": "
                               "[-Infinity, 2.5], \"s\": {\"b64\": \"/w==\"}}]}");
    rt_bytes_clear(&out);
    cl_json_request(&out, "sig", t, 1);
    assert_string_equal(out.p, "{\"signature_name\": \"sig\", \"inputs\": [[1.0, NaN], "
                               "[-Infinity, 2.5]]}");
    rt_bytes_clear(&out);
}

static void json_that_does_not_fit_is_named(void **state)
{
    (void)state;
    struct slipway_tensor *t;
    bool is_row;
    int n;
    assert_fails(tensors("{\"inputs\": [1, \"x\"]}", 1, &t, &n, &is_row), RT_INVALID_ARGUMENT, &err,
                 "\"a\": \"x\" is no DT_FLOAT");
    assert_fails(tensors("{\"inputs\": [[1, 2], [3]]}", 1, &t, &n, &is_row), RT_INVALID_ARGUMENT,
                 &err, "level 2 are not all of 2");
    assert_fails(tensors("{\"inputs\": {\"b\": 1}}", 1, &t, &n, &is_row), RT_INVALID_ARGUMENT, &err,
                 "has no \"b\", but \"a\"");
    assert_fails(tensors("{\"instances\": [1]}", 2, &t, &n, &is_row), RT_INVALID_ARGUMENT, &err,
                 "2 tensors are wanted");
    assert_fails(tensors("{\"x\": 1}", 1, &t, &n, &is_row), RT_INVALID_ARGUMENT, &err,
                 "neither \"instances\" nor \"inputs\"");
    assert_fails(tensors("{\"inputs\": ", 1, &t, &n, &is_row), RT_INVALID_ARGUMENT, &err,
                 "not JSON: line 1");
}

/* ---- HTTP ---- */

static enum rt_status response(struct cl_http_response *a, const char *text, size_t *used)
{
    cl_http_response_init(a, 100);
    enum rt_status st = cl_http_response_feed(a, text, strlen(text), used, &err);
    return st ? st : cl_http_response_end(a, &err);
}

static void responses_have_a_length_or_chunks_or_an_end(void **state)
{
    (void)state;
    struct cl_http_response a;
    size_t used;
    assert_ok(response(&a, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhimore", &used), &err);
    assert_int_equal(used, 40);
    assert_true(a.keep_alive);
    assert_string_equal(a.body.p, "hi");
    cl_http_response_clear(&a);
    assert_ok(
        response(&a,
                 "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n"
                 "\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: 1\r\n\r\n",
                 &used),
        &err);
    assert_int_equal(a.status, 503);
    assert_string_equal(a.body.p, "abcde");
    cl_http_response_clear(&a);
    assert_ok(response(&a, "HTTP/1.0 200 OK\n\nall of it", &used), &err);
    assert_false(a.keep_alive);
    assert_string_equal(a.body.p, "all of it");
    cl_http_response_clear(&a);
}

static void what_is_no_response_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum rt_status status;
    } all[] = {
        {"SSH-2.0-x\r\n", RT_DATA_LOSS},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\n", RT_DATA_LOSS},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", RT_DATA_LOSS},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", RT_DATA_LOSS},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", RT_DATA_LOSS},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", RT_DATA_LOSS},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi", RT_UNAVAILABLE},
        {"HTTP/1.1 200 OK\r\n\r\n01234567890123456789012345678901234567890123456789"
         "012345678901234567890123456789012345678901234567890123456789",
         RT_RESOURCE_EXHAUSTED},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct cl_http_response a;
        size_t used;
        assert_int_equal(response(&a, all[i].text, &used), all[i].status);
        cl_http_response_clear(&a);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(halves_are_rounded_to_the_nearest_even),
        TEST(halves_are_rounded_once),
        TEST(a_value_without_a_form_in_the_type_is_named),
        TEST(what_is_written_as_npy_is_read_again),
        TEST(other_orders_of_bytes_and_dimensions_are_put_right),
        TEST(rows_become_tensors_and_tensors_rows),
        TEST(json_that_does_not_fit_is_named),
        TEST(responses_have_a_length_or_chunks_or_an_end),
        TEST(what_is_no_response_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
