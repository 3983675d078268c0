#include "tests/support/test.h"

#include <math.h>

/* The file itself: what it keeps of single weights is looked at. */
#include "kernels/cpu/narrow.c"

static uint32_t seed = 5;
static float draw(void)
{
    seed = seed * 1664525 + 1013904223;
    const float x = (float)(seed >> 8) / (1 << 23) - 1;
    return x < 0 ? x - 0.01f : x + 0.01f; /* none is odd */
}

static float *floats(int64_t n)
{
    float *p = malloc((size_t)(n + 1) * sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++)
        p[i] = draw();
    return p;
}

static void *pack(const struct kn_narrow *f, const float *b, bool turned)
{
    const size_t bytes = (size_t)kn_narrow_bytes(f);
    void *packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(packed);
    assert_true(kn_narrow_pack(f, b, turned, packed));
    return packed;
}

static float weight(const struct kn_narrow *f, const void *packed, int64_t l, int64_t j)
{
    int64_t n;
    const struct odd *o = odd_of(f, packed, &n);
    for (int64_t i = 0; i < n; i++)
        if (o[i].row == l && o[i].column == j)
            return o[i].weight;
    return weight_at(f, packed, l, j);
}

static const struct kn_narrow sizes[] = {{1, 1}, {2, 64}, {31, 70}, {64, 128}, {129, 200}, {7, 63}};

static void every_weight_comes_back_as_it_was(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int turned = 0; turned < 2; turned++) {
            const struct kn_narrow *f = &sizes[s];
            float *b = floats(f->k * f->n);
            const float odd[] = {0, -0.0f, 1e-40f, -1e-44f, INFINITY, 1e30f, -1e-30f, NAN};
            /* Zeros and subnormal numbers are nothing odd. */
            const int64_t room = most_odd(f) + 4 < 8 ? most_odd(f) + 4 : 8;
            for (int64_t i = 0; i < room && i < f->k * f->n / 8; i++)
                b[i * 8] = odd[i];
            void *packed = pack(f, b, turned);
            for (int64_t l = 0; l < f->k; l++)
                for (int64_t j = 0; j < f->n; j++) {
                    const float got = weight(f, packed, l, j);
                    assert_memory_equal(&got, &b[turned ? j * f->k + l : l * f->n + j], 4);
                }
            free(packed);
            free(b);
        }
}

static void weights_of_all_sizes_are_refused(void **state)
{
    (void)state;
    const struct kn_narrow f = {.k = 64, .n = 64};
    float *b = floats(f.k * f.n);
    void *packed = pack(&f, b, false);
    for (int64_t i = 0; i < f.k * f.n; i++)
        b[i] = ldexpf(1, (int)(i % 200) - 100);
    assert_false(kn_narrow_pack(&f, b, false, packed));
    free(packed);
    free(b);
    assert_int_equal(kn_narrow_bytes(&(struct kn_narrow){.k = INT32_MAX, .n = 1}), -1);
}

static void products_are_those_of_the_weights_and_rows_do_not_meet(void **state)
{
    (void)state;
    if (!kn_narrow_here())
        skip();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const struct kn_narrow *f = &sizes[s];
        float *b = floats(f->k * f->n), *a = floats(KN_NARROW_ROWS * f->k);
        float *c = floats(KN_NARROW_ROWS * f->n), *one = floats(f->n);
        if (most_odd(f))
            b[f->n + 3] = 1e-20f, b[2 * f->n + 3] = 3e4f;
        void *packed = pack(f, b, false);
        for (int64_t m = 1; m <= KN_NARROW_ROWS; m++) {
            struct job x = {.f = f, .packed = packed, .a = a, .c = c, .m = m};
            assert_int_equal(some_panels(NULL, &x, 0, n_panels(f)), RT_OK);
            for (int64_t i = 0; i < m; i++) {
                struct job y = {.f = f, .packed = packed, .a = a + i * f->k, .c = one, .m = 1};
                some_panels(NULL, &y, 0, n_panels(f));
                assert_memory_equal(one, c + i * f->n, (size_t)f->n * sizeof *one);
                for (int64_t j = 0; j < f->n; j++) {
                    double sum = 0, size = 0;
                    for (int64_t l = 0; l < f->k; l++) {
                        sum += (double)a[i * f->k + l] * (double)b[l * f->n + j];
                        size += fabs((double)a[i * f->k + l] * (double)b[l * f->n + j]);
                    }
                    const double got = (double)c[i * f->n + j];
                    if (!(fabs(got - sum) <= 1e-6 * (size + 1e-9)))
                        fail_msg("%lldx%lldx%lld at %lld,%lld: %g, not %g", (long long)m,
                                 (long long)f->k, (long long)f->n, (long long)i, (long long)j, got,
                                 sum);
                }
            }
        }
        free(packed);
        free(a);
        free(b);
        free(c);
        free(one);
    }
}

static void infinity_times_an_odd_weight_is_infinity(void **state)
{
    (void)state;
    if (!kn_narrow_here())
        skip();
    const struct kn_narrow f = {.k = 33, .n = 65};
    float *b = floats(f.k * f.n), *a = floats(f.k), c[65];
    for (int64_t i = 0; i < f.k * f.n; i++)
        b[i] = fabsf(b[i]) + 0.01f;
    b[4 * f.n + 64] = 1e-30f;
    b[5 * f.n + 2] = 0;
    void *packed = pack(&f, b, false);
    a[4] = INFINITY;
    struct job x = {.f = &f, .packed = packed, .a = a, .c = c, .m = 1};
    some_panels(NULL, &x, 0, n_panels(&f));
    for (int64_t j = 0; j < f.n; j++)
        assert_true(c[j] == INFINITY);
    a[4] = 0;
    a[5] = INFINITY;
    some_panels(NULL, &x, 0, n_panels(&f));
    for (int64_t j = 0; j < f.n; j++)
        assert_true(j == 2 ? isnan(c[j]) : c[j] == INFINITY);
    free(packed);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_comes_back_as_it_was),
        cmocka_unit_test(weights_of_all_sizes_are_refused),
        cmocka_unit_test(products_are_those_of_the_weights_and_rows_do_not_meet),
        cmocka_unit_test(infinity_times_an_odd_weight_is_infinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
