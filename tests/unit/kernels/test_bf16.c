#include "tests/support/test.h"

#include <math.h>

#include "kernels/cpu/bf16_internal.h"
#include "kernels/kernels.h"
#include "runtime/session/session.h"
#include "tests/support/draw.h"
#include "tests/support/graph_def.h"

/* ---- the loops ---- */

static void one_gemm(const struct kn_bf16_loops *loops, int64_t m, int64_t k, int64_t n,
                     bool transposed)
{
    const struct kn_bf16_panels p = {.k = k, .n = n, .width = loops->width};
    float *a = draw_floats(m * k), *b = draw_floats(k * n), *c = draw_floats(m * loops->width);
    const size_t bytes = kn_bf16_panels_bytes(&p);
    const int64_t panels = (n + p.width - 1) / p.width;
    const int64_t words = (int64_t)(bytes / sizeof(uint32_t)) / panels;
    uint32_t *packed = malloc(bytes + 1);
    assert_non_null(packed);
    kn_bf16_pack(&p, b, transposed, packed);
    for (int64_t j0 = 0; j0 < n; j0 += p.width) {
        loops->panel(m, a, k, packed + j0 / p.width * words, c, p.width, k);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = j0; j < n && j < j0 + p.width; j++) {
                double sum = 0, size = 0;
                for (int64_t l = 0; l < k; l++) {
                    const float w = b[transposed ? j * k + l : l * n + j];
                    sum += (double)a[i * k + l] * (double)kn_from_bf16(kn_to_bf16(w));
                    size += fabs((double)a[i * k + l] * (double)w);
                }
                const double got = (double)c[i * p.width + j - j0];
                if (!(fabs(got - sum) <= 1e-6 * (size + 1)))
                    fail_msg("%lldx%lldx%lld at %lld,%lld: %g, not %g", (long long)m, (long long)k,
                             (long long)n, (long long)i, (long long)j, got, sum);
            }
    }
    free(a);
    free(b);
    free(c);
    free(packed);
}

static void products(const struct kn_bf16_loops *loops)
{
    for (int64_t m = 1; m <= 8; m++)
        for (int transposed = 0; transposed < 2; transposed++) {
            one_gemm(loops, m, 1, 3, transposed);
            one_gemm(loops, m, 129, 200, transposed);
            one_gemm(loops, m, 64, 64, transposed);
        }
}

static void panels_give_the_gemm_of_rounded_weights_on_every_instruction_set(void **state)
{
    (void)state;
    for (int which = 0; kn_bf16_loops_of(which); which++)
        products(kn_bf16_loops_of(which));
}

static void an_infinity_in_the_last_of_an_odd_number_makes_no_nan(void **state)
{
    (void)state;
    const struct kn_bf16_loops *loops = kn_bf16_loops_of(0);
    const struct kn_bf16_panels p = {.k = 3, .n = 1, .width = loops->width};
    /* The row has three values. If a kernel read a fourth value, the result would be NaN. */
    const float a[] = {1, 1, INFINITY, NAN}, b[] = {1, 2, 3};
    float c[KN_BF16_MOST_WIDTH];
    uint32_t packed[2 * KN_BF16_MOST_WIDTH];
    kn_bf16_pack(&p, b, false, packed);
    loops->panel(1, a, p.k, packed, c, p.width, p.k);
    assert_true(isinf(c[0]) && c[0] > 0);
}

/* ---- sessions ---- */

enum { CHARS_PER_VALUE = 24 };

static struct rt_registry *ops;

static void constant(struct rt_bytes *g, const char *name, const char *shape, int64_t n)
{
    const size_t capacity = (size_t)n * CHARS_PER_VALUE + 200;
    char *text = malloc(capacity);
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, capacity, "dtype=float value=float<%s>:", shape);
    for (int64_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, capacity - at, i ? ",%.9g" : "%.9g", (double)draw());
    gd_node(g, name, "Const", "", text);
    free(text);
}

static struct rt_tensor answer(const struct rt_bytes *g, const struct rt_tensor *x, bool bf16)
{
    static const char *const feed = "x:0", *const fetch = "y:0";
    const struct rt_call_spec spec = {
        .feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1};
    const struct rt_session_options options = {.registry = ops, .tuning = {.bf16 = bf16}};
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_callable *c = NULL;
    struct rt_error err = {0};
    struct rt_tensor y;
    assert_ok(rt_library_import(&l, gd_span(g), ops, &err), &err);
    assert_ok(rt_session_new(&s, l, &options, &err), &err);
    assert_ok(rt_session_prepare(s, &spec, &c, &err), &err);
    assert_ok(rt_callable_run(c, x, &y, NULL, &err), &err);
    rt_session_free(s);
    return y;
}

/* Returns the largest difference, relative to the largest magnitude, or -1 if the tensors have the
 * same bits. */
static double apart(const struct rt_tensor *a, const struct rt_tensor *b)
{
    double most = 0, size = 0;
    assert_int_equal(rt_tensor_bytes(a), rt_tensor_bytes(b));
    for (int64_t i = 0; i < rt_tensor_count(a); i++) {
        const double v = (double)((float *)a->data)[i], w = (double)((float *)b->data)[i];
        most = fmax(most, fabs(v - w));
        size = fmax(size, fabs(v));
    }
    return most == 0 && (!size || memcmp(a->data, b->data, rt_tensor_bytes(a)) == 0) ? -1
                                                                                     : most / size;
}

static void compare(const char *node, const char *attrs, int rank, const int64_t *x_dim,
                    const char *w_shape, int64_t n_weights, int64_t n_bias)
{
    struct rt_error err = {0};
    struct rt_tensor x;
    struct rt_bytes g;
    char shape[32];
    rt_bytes_init(&g, 1 << 24);
    assert_ok(rt_tensor_new(&x, NULL, RT_F32, rank, x_dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&x); i++)
        ((float *)x.data)[i] = draw();
    snprintf(shape, sizeof shape, "%lld", (long long)n_bias);
    gd_node(&g, "x", "Placeholder", "", "dtype=float");
    constant(&g, "w", w_shape, n_weights);
    constant(&g, "b", shape, n_bias);
    gd_node(&g, "p", node, "x w", attrs);
    gd_node(&g, "y", "BiasAdd", "p b", "T=float");

    kn_bf16_pretend(false);
    struct rt_tensor off = answer(&g, &x, false);
    kn_bf16_pretend(true);
    struct rt_tensor still_off = answer(&g, &x, false), on = answer(&g, &x, true);
    kn_bf16_pretend(false);
    assert_true(apart(&off, &still_off) < 0);
    if (!(apart(&off, &on) < 0.02))
        fail_msg("%s: %g apart", node, apart(&off, &on));
    rt_tensor_clear(&off);
    rt_tensor_clear(&still_off);
    rt_tensor_clear(&on);
    rt_tensor_clear(&x);
    rt_bytes_clear(&g);
}

static void answers_are_near_those_in_float_and_the_same_bits_when_it_is_off(void **state)
{
    (void)state;
    compare("MatMul", "T=float", 2, (int64_t[]){7, 96}, "96,130", 96 * 130, 130);
    compare("MatMul", "T=float transpose_b=true", 2, (int64_t[]){1, 96}, "130,96", 96 * 130, 130);
    compare("MatMul", "T=float transpose_a=true", 2, (int64_t[]){96, 5}, "96,130", 96 * 130, 130);
    compare("MatMul", "T=float", 2, (int64_t[]){0, 96}, "96,130", 96 * 130, 130);
    compare("Conv2D", "T=float strides=[1,2,2,1] padding='SAME'", 4, (int64_t[]){2, 9, 7, 32},
            "3,3,32,24", 9 * 32 * 24, 24);
    compare("Conv2D", "T=float strides=[1,1,1,1] padding='VALID'", 4, (int64_t[]){1, 5, 6, 20},
            "1,1,20,33", 20 * 33, 33);
    compare("Conv2D", "T=float strides=[1,2,2,1] padding='SAME'", 4, (int64_t[]){1, 9, 9, 3},
            "3,3,3,16", 27 * 16, 16);
}

static void a_very_large_matrix_is_kept_in_half_the_bytes(void **state)
{
    (void)state;
    const int64_t k = 2049, n = 4100; /* as floats, the weights would be too large to be packed */
    static const char *const feed = "x:0", *const fetch = "y:0";
    struct rt_error err = {0};
    struct rt_bytes g;
    struct rt_tensor x, y[2];
    rt_bytes_init(&g, 1 << 24);
    gd_node(&g, "x", "Placeholder", "", "dtype=float");
    gd_node(&g, "w", "Const", "", "dtype=float value=float<2049,4100>:0.7");
    gd_node(&g, "m", "MatMul", "x w", "T=float");
    gd_node(&g, "y", "Relu", "m", "T=float");
    assert_ok(rt_tensor_new(&x, NULL, RT_F32, 2, (int64_t[]){3, k}, &err), &err);
    for (int64_t i = 0; i < 3 * k; i++)
        ((float *)x.data)[i] = i < k ? 1 : -draw();
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct rt_session_stats stats;
        const struct rt_call_spec spec = {
            .feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1};
        const struct rt_session_options options = {.registry = ops, .tuning = {.bf16 = bf16 == 1}};
        struct rt_library *l = NULL;
        struct rt_session *s = NULL;
        struct rt_callable *c = NULL;
        assert_ok(rt_library_import(&l, gd_span(&g), ops, &err), &err);
        assert_ok(rt_session_new(&s, l, &options, &err), &err);
        assert_ok(rt_session_prepare(s, &spec, &c, &err), &err);
        assert_ok(rt_callable_run(c, &x, &y[bf16], NULL, &err), &err);
        rt_session_stats(s, &stats);
        /* Packed weights take two bytes each and are padded to whole panels and pairs of rows. */
        if (bf16)
            assert_in_range(stats.packed_bytes, k * n * 2, (k + 1) * (n + KN_BF16_MOST_WIDTH) * 2);
        rt_session_free(s);
    }
    assert_true(apart(&y[0], &y[1]) < 0.005);
    assert_int_equal(y[1].dim[1], n);
    rt_tensor_clear(&x);
    rt_tensor_clear(&y[0]);
    rt_tensor_clear(&y[1]);
    rt_bytes_clear(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_give_the_gemm_of_rounded_weights_on_every_instruction_set),
        cmocka_unit_test(an_infinity_in_the_last_of_an_odd_number_makes_no_nan),
        cmocka_unit_test(answers_are_near_those_in_float_and_the_same_bits_when_it_is_off),
        cmocka_unit_test(a_very_large_matrix_is_kept_in_half_the_bytes),
    };
    ops = rt_registry_new();
    if (!ops || !kn_register(ops))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rt_registry_free(ops);
    return failed;
}
