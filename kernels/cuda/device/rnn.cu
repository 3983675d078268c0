/* Device code of a step of a recurrent layer (rnn.h). */
#include "kernels/cuda/device/rnn.h"
#include "kernels/cuda/device/block.cuh"
#include "runtime/fusion/rnn/cells.h"

enum { ROWS = KC_RNN_ROWS, GATES = KC_RNN_MOST_GATES, UNITS = KC_RNN_UNITS, SLICES = 256 / UNITS };

KC_DEVICE float limited(float x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

KC_DEVICE float cell_act(int act, float x)
{
    switch (act) {
    case RT_CELL_ACT_sigmoid:
        return 1 / (1 + expf(-x));
    case RT_CELL_ACT_tanh:
        return tanhf(x);
    case RT_CELL_ACT_relu:
        return x < 0 ? 0 : x;
    case RT_CELL_ACT_hard_sigmoid:
        return limited(x * 0.2f + 0.5f);
    case RT_CELL_ACT_hard_sigmoid_6:
        return limited(x / 6 + 0.5f);
    default:
        return x;
    }
}

KC_DEVICE float lstm(const struct kc_rnn *a, const float *x, const float *sum, float c,
                     float *c_new)
{
    const float in = cell_act(a->gate_act, x[0] + sum[0]);
    const float forget = cell_act(a->gate_act, x[1] + sum[1] + a->forget_bias);
    float next = forget * c + in * cell_act(a->act, x[2] + sum[2]);
    if (a->clip > 0)
        next = next > a->clip ? a->clip : next < -a->clip ? -a->clip : next;
    *c_new = next;
    return cell_act(a->gate_act, x[3] + sum[3]) * cell_act(a->act, next);
}

KC_DEVICE float gru(const struct kc_rnn *a, const float *x, const float *sum, float h)
{
    const float keep = cell_act(a->gate_act, x[0] + sum[0]);
    const float reset = cell_act(a->gate_act, x[1] + sum[1]);
    return keep * h + (1 - keep) * cell_act(a->act, x[2] + reset * sum[2]);
}

/* Writes the new state of row `row` and unit `u`, whose recurrent sums are `sum`. */
KC_DEVICE void finish(const struct kc_rnn *a, int64_t row, int64_t u, const float *sum)
{
    float x[GATES] = {0};
    float state;
    for (int g = 0; g < a->n_gates; g++)
        x[g] = KC_ADDRESS(a->sums)[row * a->sums_row + a->at[g] + u];
    if (a->cell == RT_CELL_lstm)
        state = lstm(a, x, sum, KC_ADDRESS(a->c)[row * a->c_row + u],
                     &KC_ADDRESS(a->c_new)[row * a->units + u]);
    else if (a->cell == RT_CELL_gru)
        state = gru(a, x, sum, KC_ADDRESS(a->h)[row * a->h_row + u]);
    else
        state = cell_act(a->act, x[0] + sum[0]);
    KC_ADDRESS(a->h_new)[row * a->units + u] = state;
    if (a->y)
        KC_ADDRESS(a->y)[row * a->y_row + u] = state;
}

KC_KERNEL(kc_rnn, kc_rnn, args)
{
    KC_SHARED(float, part, SLICES *ROWS *GATES *UNITS);
    const int lane = KC_THREAD % UNITS, slice = KC_THREAD / UNITS;
    const int64_t across = (args.units + UNITS - 1) / UNITS;
    const int64_t n_tiles = across * ((args.rows + ROWS - 1) / ROWS);
    for (int64_t tile = KC_BLOCK; tile < n_tiles; tile += KC_N_BLOCKS) {
        const int64_t u = tile % across * UNITS + lane, first = tile / across * ROWS;
        const int n_rows = (int)(args.rows - first < ROWS ? args.rows - first : ROWS);
        float sum[GATES][ROWS];
        for (int g = 0; g < GATES; g++)
            for (int i = 0; i < ROWS; i++)
                sum[g][i] = 0;
        for (int64_t k = slice; k < args.units && u < args.units; k += SLICES)
            for (int g = 0; g < GATES; g++) {
                if (g >= args.n_gates)
                    continue;
                const float w = KC_ADDRESS(args.r)[k * args.r_row + args.at[g] + u];
                for (int i = 0; i < ROWS; i++)
                    if (i < n_rows)
                        sum[g][i] += w * KC_ADDRESS(args.h)[(first + i) * args.h_row + k];
            }
        KC_BARRIER(); /* another thread may still be reading `part` for the last tile */
        for (int g = 0; g < GATES; g++)
            for (int i = 0; i < ROWS; i++)
                part[((slice * GATES + g) * ROWS + i) * UNITS + lane] = sum[g][i];
        KC_BARRIER();
        if (slice >= n_rows || u >= args.units)
            continue;
        float total[GATES] = {0};
        for (int g = 0; g < args.n_gates; g++) {
            total[g] = args.r_bias ? KC_ADDRESS(args.r_bias)[args.at[g] + u] : 0;
            for (int s = 0; s < SLICES; s++)
                total[g] += part[((s * GATES + g) * ROWS + slice) * UNITS + lane];
        }
        finish(&args, first + slice, u, total);
    }
}
