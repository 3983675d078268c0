#include "tests/support/test.h"

#include <math.h>

#include "kernels/rnn/rnn.h"
#include "tests/support/draw.h"

/* number of spare floats after each array, because loops read complete vectors */
enum { SPARE = 16 };

static float *floats(int64_t n)
{
    float *p = malloc((size_t)(n + SPARE) * sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < n + SPARE; i++)
        p[i] = 4 * draw();
    return p;
}

static double act(enum rt_cell_act a, double x)
{
    switch (a) {
    case RT_CELL_ACT_sigmoid:
        return 1 / (1 + exp(-x));
    case RT_CELL_ACT_tanh:
        return tanh(x);
    case RT_CELL_ACT_relu:
        return x < 0 ? 0 : x;
    case RT_CELL_ACT_hard_sigmoid:
        return fmin(fmax(x / 5 + 0.5, 0), 1);
    case RT_CELL_ACT_hard_sigmoid_6:
        return fmin(fmax(x + 3, 0), 6) / 6;
    default:
        return x;
    }
}

static void is_near(double want, float got)
{
    if (!(fabs(want - (double)got) <= 1e-5 * (1 + fabs(want))))
        fail_msg("%g, not %g", (double)got, want);
}

/* The arguments of a step and their memory. The sums are stored in the reverse of the order of
 * the cell's gates. */
struct step {
    struct kn_rnn_step s;
    float *sums, *recurrent_sums, *candidate_sums, *h, *h_new, *c, *spare[2];
};

static void make(struct step *x, const struct rt_cell *cell, int lanes, int64_t rows, int64_t units,
                 enum rt_cell_act gate_act, enum rt_cell_act a)
{
    const int64_t wide = (units + lanes - 1) / lanes * lanes, row = cell->n_gates * units;

    x->sums = floats(rows * row);
    x->recurrent_sums = floats(rows * row);
    x->candidate_sums = floats(rows * units);
    x->h = floats(rows * wide);
    x->h_new = floats(rows * wide);
    x->c = floats(rows * wide);
    x->spare[0] = floats(rows * wide);
    x->spare[1] = floats(rows * wide);
    x->s = (struct kn_rnn_step){.gate_act = gate_act,
                                .act = a,
                                .forget_bias = 0.75f,
                                .rows = rows,
                                .units = units,
                                .state_row = wide,
                                .sums = x->sums,
                                .sums_row = row,
                                .recurrent_sums = x->recurrent_sums,
                                .candidate_sums = x->candidate_sums,
                                .candidate_row = units,
                                .h = x->h,
                                .h_new = x->h_new,
                                .c = x->c,
                                .spare = {x->spare[0], x->spare[1]}};
    for (int g = 0; g < cell->n_gates; g++)
        x->s.at[g] = (cell->n_gates - 1 - g) * units;
}

static void drop(struct step *x)
{
    float *all[] = {x->sums, x->recurrent_sums, x->candidate_sums, x->h, x->h_new,
                    x->c,    x->spare[0],       x->spare[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Returns the new h that the cell must compute for unit u of row i, and replaces the old cell state
 * *c with the new one. */
static double want_of(const struct step *x, enum rt_cell_id id, int64_t i, int64_t u, double *c)
{
    const struct kn_rnn_step *s = &x->s;
    double z[4], r[4];

    for (int g = 0; g < rt_cell(id)->n_gates; g++) {
        z[g] = (double)s->sums[i * s->sums_row + s->at[g] + u];
        r[g] = (double)s->recurrent_sums[i * s->sums_row + s->at[g] + u];
    }
    const double h = (double)s->h[i * s->state_row + u];
    double keep;
    switch (id) {
    case RT_CELL_lstm:
        *c = act(s->gate_act, z[1] + (double)s->forget_bias) * *c +
             act(s->gate_act, z[0]) * act(s->act, z[2]);
        return act(s->gate_act, z[3]) * act(s->act, *c);
    case RT_CELL_gru:
        keep = act(s->gate_act, z[0] + r[0]);
        return keep * h + (1 - keep) * act(s->act, z[2] + act(s->gate_act, z[1] + r[1]) * r[2]);
    case RT_CELL_gru_before:
        keep = act(s->gate_act, z[0]);
        is_near(act(s->gate_act, z[1]) * h, s->spare[1][i * s->state_row + u]);
        return keep * h +
               (1 - keep) * act(s->act, (double)s->candidate_sums[i * s->candidate_row + u]);
    case RT_CELL_simple:
        return act(s->act, z[0]);
    default:
        fail();
        return 0;
    }
}

static void one(const struct kn_rnn_loops *loops, enum rt_cell_id id, int64_t rows, int64_t units,
                enum rt_cell_act gate_act, enum rt_cell_act a)
{
    struct step x;
    make(&x, rt_cell(id), loops->lanes, rows, units, gate_act, a);
    float *c = floats(rows * x.s.state_row);
    memcpy(c, x.c, (size_t)(rows * x.s.state_row) * sizeof *c);
    loops->cell[id](&x.s, false);
    if (rt_cell(id)->n_reset_before > 0)
        loops->cell[id](&x.s, true);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t u = 0; u < units; u++) {
            const int64_t k = i * x.s.state_row + u;
            double state = (double)c[k];
            is_near(want_of(&x, id, i, u, &state), x.h_new[k]);
            is_near(state, x.c[k]);
        }
    free(c);
    drop(&x);
}

static void every_cell_agrees_with_exact_sums_on_every_instruction_set(void **state)
{
    (void)state;
    const struct kn_rnn_loops *loops;
    for (int which = 0; (loops = kn_rnn_loops_of(which)); which++)
        for (int id = 0; id < RT_N_CELLS; id++)
            for (int64_t units = 1; units <= 70; units += units < 20 ? 1 : 25)
                for (int a = 0; a < RT_N_CELL_ACTS; a++) {
                    one(loops, (enum rt_cell_id)id, 1 + units % 3, units, RT_CELL_ACT_sigmoid,
                        (enum rt_cell_act)a);
                    one(loops, (enum rt_cell_id)id, 2, units, (enum rt_cell_act)a,
                        RT_CELL_ACT_tanh);
                }
}

static void gates_far_from_zero_saturate(void **state)
{
    (void)state;
    const float far[] = {-200, -100, -88, -20, 20, 88, 100, 200, INFINITY, -INFINITY, NAN};
    const struct kn_rnn_loops *loops;
    for (int which = 0; (loops = kn_rnn_loops_of(which)); which++)
        for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
            float sums[16 * 5], h[16] = {0}, h_new[16], c[16] = {0};
            for (int k = 0; k < 16 * 5; k++)
                sums[k] = far[i];
            loops->cell[RT_CELL_lstm](&(struct kn_rnn_step){.gate_act = RT_CELL_ACT_sigmoid,
                                                            .act = RT_CELL_ACT_tanh,
                                                            .rows = 1,
                                                            .units = 1,
                                                            .state_row = 16,
                                                            .at = {0, 1, 2, 3},
                                                            .sums = sums,
                                                            .sums_row = 4,
                                                            .h = h,
                                                            .h_new = h_new,
                                                            .c = c},
                                      false);
            const double in = (double)far[i], gate = act(RT_CELL_ACT_sigmoid, in),
                         want = gate * tanh(gate * tanh(in));
            if (isnan(want))
                assert_true(isnan(h_new[0]));
            else
                is_near(want, h_new[0]);
        }
}

static void activations_hand_on_nan(void **state)
{
    (void)state;
    const struct kn_rnn_loops *loops;
    for (int which = 0; (loops = kn_rnn_loops_of(which)); which++)
        for (int a = 0; a < RT_N_CELL_ACTS; a++) {
            float sums[16], h[16] = {0}, h_new[16] = {0};
            for (int k = 0; k < 16; k++)
                sums[k] = NAN;
            loops->cell[RT_CELL_simple](&(struct kn_rnn_step){.act = (enum rt_cell_act)a,
                                                              .rows = 1,
                                                              .units = 1,
                                                              .state_row = 16,
                                                              .sums = sums,
                                                              .sums_row = 1,
                                                              .h = h,
                                                              .h_new = h_new},
                                        false);
            assert_true(isnan(h_new[0]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_agrees_with_exact_sums_on_every_instruction_set),
        cmocka_unit_test(gates_far_from_zero_saturate),
        cmocka_unit_test(activations_hand_on_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
