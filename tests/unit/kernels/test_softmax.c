#include "tests/support/test.h"

#include <math.h>

#include "kernels/nn/softmax_internal.h"
#include "tests/support/draw.h"

enum { MOST = 67 };

static void near(float got, double want)
{
    if (!(fabs((double)got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("%.9g instead of %.9g", (double)got, want);
}

static void try_row(const struct kn_softmax_loops *l, const float *s, int64_t n)
{
    float d[MOST + 1];
    double top = -INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++)
        top = (double)s[i] > top ? (double)s[i] : top;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)s[i] - top);
    d[n] = 7;
    l->rows(d, s, 1, n);
    for (int64_t i = 0; i < n; i++)
        near(d[i], exp((double)s[i] - top) / sum);
    l->log_rows(d, s, 1, n);
    for (int64_t i = 0; i < n; i++)
        near(d[i], (double)s[i] - top - log(sum));
    assert_true(d[n] == 7);
}

static void rows_of_any_length_are_right(void **state)
{
    (void)state;
    const struct kn_softmax_loops *l;
    static const float sizes[] = {1, 30, 1e4f};
    for (int which = 0; (l = kn_softmax_loops_of(which)); which++)
        for (int64_t n = 1; n <= MOST; n++)
            for (int k = 0; k < 3; k++) {
                float s[MOST];
                for (int64_t i = 0; i < n; i++)
                    s[i] = sizes[k] * draw();
                try_row(l, s, n);
            }
}

static void what_is_far_below_the_largest_is_nothing(void **state)
{
    (void)state;
    const struct kn_softmax_loops *l;
    static const float lows[] = {-INFINITY, -3.4e38f, -1e9f, -105};
    for (int which = 0; (l = kn_softmax_loops_of(which)); which++)
        for (int k = 0; k < 4; k++) {
            float s[20] = {0}, d[20];
            for (int i = 0; i < 20; i += 2)
                s[i] = lows[k];
            l->rows(d, s, 1, 20);
            for (int i = 0; i < 20; i++)
                assert_true(i % 2 ? fabsf(d[i] - 0.1f) < 1e-7f : d[i] == 0);
        }
}

/* The softmax of a row is NaN if all values of the row are -infinity, or if one value is NaN or
 * +infinity. In the neighbouring rows, a mask has made all values the same large negative number,
 * so these values get equal weights. */
static void rows_without_a_number_are_nan_and_others_not(void **state)
{
    (void)state;
    const struct kn_softmax_loops *l;
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    for (int which = 0; (l = kn_softmax_loops_of(which)); which++)
        for (int k = 0; k < 3; k++)
            for (int64_t n = 1; n <= MOST; n++) {
                float s[3 * MOST], d[3 * MOST];
                for (int64_t i = 0; i < 3 * n; i++)
                    s[i] = i < n || i >= 2 * n ? -3e38f : odd[k] < 0 ? odd[k] : 1;
                s[n + n / 2] = odd[k];
                l->rows(d, s, 3, n);
                for (int64_t i = 0; i < 3 * n; i++)
                    if (i < n || i >= 2 * n)
                        near(d[i], 1 / (double)n);
                    else
                        assert_true(isnan(d[i]));
                l->log_rows(d, s, 3, n);
                for (int64_t i = 0; i < 3 * n; i++)
                    assert_true(isnan(d[i]) == (i >= n && i < 2 * n));
            }
}

static void it_may_be_written_over_what_it_is_of(void **state)
{
    (void)state;
    const struct kn_softmax_loops *l;
    for (int which = 0; (l = kn_softmax_loops_of(which)); which++) {
        float s[2 * MOST], d[2 * MOST], e[2 * MOST];
        for (int i = 0; i < 2 * MOST; i++)
            s[i] = 5 * draw();
        l->log_rows(d, s, 2, MOST);
        l->rows(e, s, 2, MOST);
        l->rows(s, s, 2, MOST);
        assert_memory_equal(s, e, sizeof s);
        for (int i = 0; i < 2 * MOST; i++)
            near(d[i], log((double)s[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_any_length_are_right),
        cmocka_unit_test(what_is_far_below_the_largest_is_nothing),
        cmocka_unit_test(rows_without_a_number_are_nan_and_others_not),
        cmocka_unit_test(it_may_be_written_over_what_it_is_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
