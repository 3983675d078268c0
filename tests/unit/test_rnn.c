#include "tests/support/test.h"

#include <math.h>

/* The file itself: every instruction set's loops are tried, not only the best one's. */
#include "kernels/cpu/rnn.c"

static uint32_t seed = 7;
static float draw(void)
{
    seed = seed * 1664525 + 1013904223;
    return (float)(seed >> 8) / (1 << 23) - 1;
}

static float *floats(int64_t n)
{
    float *p = malloc((size_t)(n + 1) * sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++)
        p[i] = draw();
    return p;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* One step of a layer with `gates` gates for `rows` rows, and the same in double. */
struct step {
    int gates;
    int64_t rows, units, wide;
    float *sums, *h, *h_new, *c, *r, *bias; /* r [units, gates * units] */
    double *z;                              /* [rows, gates, units]: sums + h R, unit by unit */
};

static float *packed(const struct step *x, const struct kn_rnn_loops *loops, int first, int n)
{
    struct format f = {.lanes = loops->lanes, .gates = n, .rows = x->units, .units = x->units};
    const struct rt_tensor t = {.data = x->r, .rank = 2, .dim = {x->units, x->gates * x->units}};
    float *to = floats(x->wide * n * x->units);
    for (int g = 0; g < n; g++)
        f.column[g] = first + g;
    assert_int_equal(fill(&t, to, &f, NULL), RT_OK);
    return to;
}

static float sum_of(const struct step *x, int lanes, int64_t row, int gate, int64_t unit)
{
    return x->sums[(row * x->wide / lanes + unit / lanes) * x->gates * lanes + gate * lanes +
                   unit % lanes];
}

static void make(struct step *x, const struct kn_rnn_loops *loops, int gates, int64_t rows,
                 int64_t units)
{
    *x = (struct step){.gates = gates, .rows = rows, .units = units};
    x->wide = panels_of(units, loops->lanes) * loops->lanes;
    x->sums = floats(rows * gates * x->wide);
    x->h = floats(rows * x->wide);
    x->h_new = floats(rows * x->wide);
    x->c = floats(rows * x->wide);
    x->bias = floats(x->wide);
    x->r = floats(units * gates * units);
    x->z = calloc((size_t)(rows * gates * units) + 1, sizeof *x->z);
    assert_non_null(x->z);
    for (int64_t i = 0; i < rows; i++)
        for (int g = 0; g < gates; g++)
            for (int64_t u = 0; u < units; u++)
                for (int64_t k = 0; k < units; k++)
                    x->z[(i * gates + g) * units + u] +=
                        (double)x->h[i * x->wide + k] * (double)x->r[(k * gates + g) * units + u];
}

static void drop(struct step *x)
{
    float *all[] = {x->sums, x->h, x->h_new, x->c, x->bias, x->r};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(x->z);
}

static void is_near(double want, float got)
{
    if (!(fabs(want - (double)got) <= 1e-5 * (1 + fabs(want))))
        fail_msg("%g, not %g", (double)got, want);
}

static void one_lstm(const struct kn_rnn_loops *loops, int64_t rows, int64_t units)
{
    struct step x;
    make(&x, loops, 4, rows, units);
    float *weights = packed(&x, loops, 0, 4), *c = floats(rows * x.wide);
    memcpy(c, x.c, (size_t)(rows * x.wide) * sizeof *c);
    loops->step[RT_CELL_lstm](&(struct kn_rnn_step){.gate_act = RT_CELL_ACT_sigmoid,
                                                    .act = RT_CELL_ACT_tanh,
                                                    .rows = rows,
                                                    .units = units,
                                                    .panels = x.wide / loops->lanes,
                                                    .weights = weights,
                                                    .sums = x.sums,
                                                    .sums_row = 4 * x.wide,
                                                    .h = x.h,
                                                    .h_new = x.h_new,
                                                    .c = c});
    for (int64_t i = 0; i < rows; i++)
        for (int64_t u = 0; u < units; u++) {
            double z[4];
            for (int g = 0; g < 4; g++)
                z[g] = x.z[(i * 4 + g) * units + u] + (double)sum_of(&x, loops->lanes, i, g, u);
            const double state =
                sigmoid(z[1]) * (double)x.c[i * x.wide + u] + sigmoid(z[0]) * tanh(z[2]);
            is_near(state, c[i * x.wide + u]);
            is_near(sigmoid(z[3]) * tanh(state), x.h_new[i * x.wide + u]);
        }
    free(weights);
    free(c);
    drop(&x);
}

static void one_gru(const struct kn_rnn_loops *loops, int64_t rows, int64_t units)
{
    struct step x;
    make(&x, loops, 3, rows, units);
    float *weights = packed(&x, loops, 0, 3);
    loops->step[RT_CELL_gru](&(struct kn_rnn_step){.gate_act = RT_CELL_ACT_sigmoid,
                                                   .act = RT_CELL_ACT_tanh,
                                                   .rows = rows,
                                                   .units = units,
                                                   .panels = x.wide / loops->lanes,
                                                   .weights = weights,
                                                   .bias = x.bias,
                                                   .sums = x.sums,
                                                   .sums_row = 3 * x.wide,
                                                   .h = x.h,
                                                   .h_new = x.h_new});
    for (int64_t i = 0; i < rows; i++)
        for (int64_t u = 0; u < units; u++) {
            const double *z = x.z + i * 3 * units + u;
            const double keep = sigmoid(z[0] + (double)sum_of(&x, loops->lanes, i, 0, u));
            const double reset = sigmoid(z[units] + (double)sum_of(&x, loops->lanes, i, 1, u));
            const double fresh = tanh((double)sum_of(&x, loops->lanes, i, 2, u) +
                                      reset * (z[2 * units] + (double)x.bias[u]));
            is_near(keep * (double)x.h[i * x.wide + u] + (1 - keep) * fresh,
                    x.h_new[i * x.wide + u]);
        }
    free(weights);
    drop(&x);
}

static void steps_agree_with_exact_ones_on_every_instruction_set(void **state)
{
    (void)state;
    const struct kn_rnn_loops *loops;
    for (int which = 0; (loops = kn_rnn_loops_here(which)); which++)
        for (int64_t rows = 1; rows <= 14; rows++)
            for (int64_t units = 1; units <= 70; units += units < 20 ? 1 : 25) {
                one_lstm(loops, rows, units);
                one_gru(loops, rows, units);
            }
}

static void gates_far_from_zero_saturate(void **state)
{
    (void)state;
    const float far[] = {-200, -100, -88, -20, 20, 88, 100, 200, INFINITY, -INFINITY, NAN};
    const struct kn_rnn_loops *loops;
    for (int which = 0; (loops = kn_rnn_loops_here(which)); which++)
        for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
            float sums[4 * 16], h[16] = {0}, h_new[16], c[16] = {0}, weights[4 * 16] = {0};
            for (int k = 0; k < 4 * 16; k++)
                sums[k] = far[i];
            loops->step[RT_CELL_lstm](&(struct kn_rnn_step){.gate_act = RT_CELL_ACT_sigmoid,
                                                            .act = RT_CELL_ACT_tanh,
                                                            .rows = 1,
                                                            .units = 1,
                                                            .panels = 1,
                                                            .weights = weights,
                                                            .sums = sums,
                                                            .sums_row = 64,
                                                            .h = h,
                                                            .h_new = h_new,
                                                            .c = c});
            const double in = (double)far[i], want = sigmoid(in) * tanh(sigmoid(in) * tanh(in));
            if (isnan(want))
                assert_true(isnan(h_new[0]));
            else
                is_near(want, h_new[0]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_agree_with_exact_ones_on_every_instruction_set),
        cmocka_unit_test(gates_far_from_zero_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
