/* Device code of a step of a recurrent layer (rnn.h). */
#include "kernels/cuda/device/rnn.h"
#include "kernels/cuda/device/vector.cuh"
#include "runtime/fusion/rnn/cells.h"

enum {
    ROWS = KC_RNN_ROWS,
    GATES = KC_RNN_MOST_GATES,
    UNITS = KC_RNN_UNITS,
    COLUMNS = GATES * UNITS,    /* number of sums that a block computes for each row */
    THREADS = 256,              /* number of threads of a block */
    SLICES = THREADS / COLUMNS, /* number of threads that share a sum */
    CHUNK = 256,                /* number of units whose state is in shared memory at a time */
};

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

/* Reads this thread's part of the state of n_rows rows and n units, of which unit `from` is the
 * first. Returns 0 for others. */
KC_DEVICE void read_state(const struct kc_rnn *a, int64_t first, int n_rows, int64_t from, int n,
                          float x[ROWS * CHUNK / THREADS])
{
    for (int i = 0; i < ROWS * CHUNK / THREADS; i++) {
        const int row = KC_THREAD % ROWS, k = (KC_THREAD + i * THREADS) / ROWS;
        x[i] = row < n_rows && k < n ? KC_ADDRESS(a->h)[(first + row) * a->h_row + from + k] : 0;
    }
}

/* Reads every SLICES-th of n weights, which begin at `w`. Returns 0 for others. */
KC_DEVICE void read_weights(const struct kc_rnn *a, const float *w, int slice, int n,
                            float x[CHUNK / SLICES])
{
    for (int i = 0; i < CHUNK / SLICES; i++)
        x[i] = slice + i * SLICES < n ? w[(slice + i * SLICES) * a->r_row] : 0;
}

/* Adds the products of the weights and the states of their units, of which each has ROWS. */
KC_DEVICE void add_products(const float weight[CHUNK / SLICES], const float *state, int slice,
                            float sum[ROWS])
{
    for (int i = 0; i < CHUNK / SLICES; i++)
        for (int r = 0; r < ROWS; r += 4) {
            const struct kc_vector h = kc_load(state + (slice + i * SLICES) * ROWS + r, 4);
            for (int j = 0; j < 4; j++)
                sum[r + j] += weight[i] * h.v[j];
        }
}

KC_KERNEL(kc_rnn, kc_rnn, args)
{
    KC_SHARED(struct kc_vector, staged, ROWS * CHUNK / 4);
    KC_SHARED(float, part, SLICES *ROWS *COLUMNS);
    float *state = (float *)staged;
    const int column = KC_THREAD % COLUMNS, slice = KC_THREAD / COLUMNS, gate = column / UNITS;
    const int64_t across = (args.units + UNITS - 1) / UNITS;
    const int64_t n_tiles = across * ((args.rows + ROWS - 1) / ROWS);
    for (int64_t tile = KC_BLOCK; tile < n_tiles; tile += KC_N_BLOCKS) {
        const int64_t first_unit = tile % across * UNITS, first = tile / across * ROWS;
        const int64_t u = first_unit + column % UNITS;
        const int n_rows = (int)(args.rows - first < ROWS ? args.rows - first : ROWS);
        float sum[ROWS];
        for (int i = 0; i < ROWS; i++)
            sum[i] = 0;
        for (int64_t from = 0; from < args.units; from += CHUNK) {
            const int n = (int)(args.units - from < CHUNK ? args.units - from : CHUNK);
            const int is_used = gate < args.n_gates && u < args.units;
            const float *w =
                KC_ADDRESS(args.r) + from * args.r_row + (is_used ? args.at[gate] + u : 0);
            float weight[CHUNK / SLICES], h[ROWS * CHUNK / THREADS];
            /* All loads are independent, so that a thread waits for memory once. */
            read_weights(&args, w, slice, is_used ? n : 0, weight);
            read_state(&args, first, n_rows, from, n, h);
            KC_BARRIER(); /* another thread may still be reading the state of the last chunk */
            for (int i = 0; i < ROWS * CHUNK / THREADS; i++)
                state[KC_THREAD + i * THREADS] = h[i];
            KC_BARRIER();
            add_products(weight, state, slice, sum);
        }
        for (int i = 0; i < ROWS; i++)
            part[(slice * ROWS + i) * COLUMNS + column] = sum[i];
        KC_BARRIER();
        const int row = KC_THREAD / UNITS;
        const int64_t own = first_unit + KC_THREAD % UNITS;
        if (row >= n_rows || own >= args.units)
            continue;
        float total[GATES] = {0};
        for (int g = 0; g < args.n_gates; g++) {
            total[g] = args.r_bias ? KC_ADDRESS(args.r_bias)[args.at[g] + own] : 0;
            for (int s = 0; s < SLICES; s++)
                total[g] += part[(s * ROWS + row) * COLUMNS + g * UNITS + KC_THREAD % UNITS];
        }
        finish(&args, first + row, own, total);
    }
}
