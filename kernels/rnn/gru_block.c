/*
 * GRUBlockCell and its gradient: [r, u] = sigmoid([x, h_prev] w_ru + b_ru),
 * c = tanh([x, h_prev * r] w_c + b_c), h = u * h_prev + (1 - u) * c.
 */
#include <math.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/rnn/block.h"

enum { GATE_COST = 64 }; /* work per unit and step, in units of rt_run_spend */

enum { X, H_PREV, W_RU, W_C, B_RU, B_C, R, U, C, H_GRAD, N_IN };

struct gru {
    int64_t batch, input, units;
    const float *in[N_IN];
};

static enum rt_status read_shapes(struct rt_run *r, struct gru *g)
{
    enum rt_status st = kn_block_ranks(r, "2222");

    if (st)
        return st;
    for (int k = B_RU; k <= B_C; k++)
        if (r->in[k].rank != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Rank of %s must be 1, got %d",
                           k == B_RU ? "b_ru" : "b_c", r->in[k].rank);
    g->batch = r->in[X].dim[0];
    g->input = r->in[X].dim[1];
    g->units = r->in[H_PREV].dim[1];
    st = kn_block_dim(r, H_PREV, 0, g->batch, "h_prev.dims(0) != batch_size");
    st = st ? st
            : kn_block_dim(r, W_RU, 0, g->input + g->units,
                           "w_ru.dim_size(0) != input_size + cell_size");
    st = st ? st : kn_block_dim(r, W_RU, 1, 2 * g->units, "w_ru.dim_size(1) != cell_size * 2");
    st = st ? st
            : kn_block_dim(r, W_C, 0, g->input + g->units,
                           "w_c.dim_size(0) != input_size + cell_size");
    st = st ? st : kn_block_dim(r, W_C, 1, g->units, "w_c.dim_size(1) != cell_size");
    st = st ? st : kn_block_dim(r, B_RU, 0, 2 * g->units, "b_ru.dim_size(0) != cell_size * 2");
    st = st ? st : kn_block_dim(r, B_C, 0, g->units, "b_c.dim_size(0) != cell_size");
    for (int k = R; k < r->n_in && !st; k++) {
        const struct rt_tensor *t = &r->in[k];
        if (t->rank != 2 || t->dim[0] != g->batch || t->dim[1] != g->units)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "GRUBlockCellGrad: input %d has the shape %s, not that of h_prev", k,
                           KN_TEXT(t));
    }
    return st;
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Computes [x, h] w + b, with n columns. */
static enum rt_status linear(struct kn_block *b, const struct gru *g, const float *h,
                             const float *w, const float *bias, int64_t n, float *sums)
{
    for (int64_t i = 0; i < g->batch; i++)
        for (int64_t k = 0; k < n; k++)
            sums[i * n + k] = bias[k];
    enum rt_status st = kn_block_product(b, true, false, false, g->batch, n, g->input, g->in[X],
                                         g->input, w, n, sums, n);
    return st ? st
              : kn_block_product(b, true, false, false, g->batch, n, g->units, h, g->units,
                                 w + g->input * n, n, sums, n);
}

static enum rt_status forward(struct kn_block *b, const struct gru *g, float **out)
{
    const int64_t n = g->units;
    float *sums = kn_block_floats(b, 2 * g->batch * n), *part = kn_block_floats(b, g->batch * n);
    enum rt_status st = sums && part
                            ? linear(b, g, g->in[H_PREV], g->in[W_RU], g->in[B_RU], 2 * n, sums)
                            : b->r->err->code;

    for (int64_t i = 0; i < g->batch && !st; i++) {
        for (int64_t k = 0; k < n; k++) {
            out[0][i * n + k] = sigmoid(sums[i * 2 * n + k]);
            out[1][i * n + k] = sigmoid(sums[i * 2 * n + n + k]);
            part[i * n + k] = g->in[H_PREV][i * n + k] * out[0][i * n + k];
        }
        st = rt_run_spend(b->r, &b->r->left, GATE_COST * n);
    }
    st = st ? st : linear(b, g, part, g->in[W_C], g->in[B_C], n, out[2]);
    for (int64_t i = 0; i < g->batch * n && !st; i++) {
        const float u = out[1][i], c = tanhf(out[2][i]);
        out[2][i] = c;
        out[3][i] = u * g->in[H_PREV][i] + (1 - u) * c;
        st = rt_run_spend(b->r, &b->r->left, GATE_COST);
    }
    return st;
}

static enum rt_status backward(struct kn_block *b, const struct gru *g, float **out)
{
    const int64_t n = g->units, m = g->batch, row = g->input + n;
    const float *const *in = g->in;
    float *x_grad = out[0], *h_grad = out[1], *c_bar = out[2], *ru_bar = out[3];
    float *hr_grad = kn_block_floats(b, m * row), *both = kn_block_floats(b, m * row);
    enum rt_status st = hr_grad && both ? RT_OK : b->r->err->code;

    for (int64_t i = 0; i < m * n && !st; i++) {
        const float c = in[C][i], u = in[U][i], grad = in[H_GRAD][i];
        c_bar[i] = grad * (1 - u) * (1 - c * c);
        ru_bar[i / n * 2 * n + n + i % n] = grad * (in[H_PREV][i] - c) * u * (1 - u);
        st = rt_run_spend(b->r, &b->r->left, GATE_COST);
    }
    st =
        st ? st
           : kn_block_product(b, false, false, true, m, row, n, c_bar, n, in[W_C], n, hr_grad, row);
    for (int64_t i = 0; i < m * n && !st; i++) {
        const float hr = hr_grad[i / n * row + g->input + i % n], r = in[R][i];
        ru_bar[i / n * 2 * n + i % n] = hr * in[H_PREV][i] * r * (1 - r);
        st = rt_run_spend(b->r, &b->r->left, GATE_COST);
    }
    st = st ? st
            : kn_block_product(b, false, false, true, m, row, 2 * n, ru_bar, 2 * n, in[W_RU], 2 * n,
                               both, row);
    for (int64_t i = 0; i < m && !st; i++) {
        for (int64_t k = 0; k < g->input; k++)
            x_grad[i * g->input + k] = both[i * row + k] + hr_grad[i * row + k];
        for (int64_t k = 0; k < n; k++)
            h_grad[i * n + k] = both[i * row + g->input + k] +
                                hr_grad[i * row + g->input + k] * in[R][i * n + k] +
                                in[H_GRAD][i * n + k] * in[U][i * n + k];
        st = rt_run_spend(b->r, &b->r->left, 8 * row);
    }
    return st;
}

static enum rt_status gru_run(struct rt_run *r)
{
    struct kn_block b = {.r = r};
    struct gru g;
    float *out[4] = {0};
    enum rt_status st = read_shapes(r, &g);
    const bool is_grad = r->n_in == N_IN;

    for (int k = 0; k < 4 && !st; k++) {
        const int64_t columns = !is_grad || k == 1 || k == 2 ? g.units
                                : k == 0                     ? g.input
                                                             : 2 * g.units;
        out[k] = kn_block_out(&b, k, 2, (int64_t[]){g.batch, columns});
        st = out[k] ? RT_OK : r->err->code;
    }
    for (int k = 0; k < r->n_in && !st; k++)
        st = (g.in[k] = kn_block_in(&b, k)) ? RT_OK : r->err->code;
    st = st ? st : is_grad ? backward(&b, &g, out) : forward(&b, &g, out);
    return kn_block_end(&b, out, st);
}

#define GRU(symbol, op_)                                                                           \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_)},                                                                     \
        .kernels = KN_CPU(op_, #symbol, RT_T(RT_F32), NULL, gru_run),                              \
    };
GRU(gru_block_cell, "GRUBlockCell")
GRU(gru_block_cell_grad, "GRUBlockCellGrad")
