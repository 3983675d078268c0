/*
 * LSTMBlockCell and BlockLSTM (V1 and V2) with their gradients. The sums of a step are
 * `[x, h_prev] w + b`, in four parts of cell_size columns: input gate, cell input, forget gate and
 * output gate. V2 has the forget gate before the cell input.
 */
#include <math.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/rnn/block.h"

enum { GATE_COST = 64 }; /* work per unit and step, in units of rt_run_spend */

/* The shapes and options of a node. A cell is treated as a block of one step. */
struct lstm {
    struct rt_run *r;
    int64_t steps, used, batch, input, units;
    int first; /* index of the first input after seq_len_max */
    int at_ci, at_f;
    float forget_bias, clip;
    bool peephole;
};

enum { X, CS_PREV, H_PREV, W, WCI, WCF, WCO, B, N_CELL_IN };

static enum rt_status check_dims(struct lstm *l)
{
    struct rt_run *r = l->r;
    const int k = l->first;
    enum rt_status st = kn_block_dim(r, k + CS_PREV, 0, l->batch, "cs_prev.dims(0) != batch_size");

    st = st ? st : kn_block_dim(r, k + H_PREV, 0, l->batch, "h_prev.dims(0) != batch_size");
    st = st ? st : kn_block_dim(r, k + H_PREV, 1, l->units, "h_prev.dims(1) != cell_size");
    st = st ? st
            : kn_block_dim(r, k + W, 0, l->input + l->units,
                           "w.dim_size(0) != input_size + cell_size");
    st = st ? st : kn_block_dim(r, k + W, 1, 4 * l->units, "w.dim_size(1) != cell_size * 4");
    st = st ? st : kn_block_dim(r, k + B, 0, 4 * l->units, "b.dim_size(0) != cell_size * 4");
    for (int i = WCI; i <= WCO && l->peephole && !st; i++)
        st = kn_block_dim(r, k + i, 0, l->units, "the number of peephole weights != cell_size");
    return st;
}

static enum rt_status read_shapes(struct rt_run *r, struct lstm *l)
{
    const bool is_block = r->node->schema->name[0] == 'B';
    const bool is_v2 = strstr(r->node->schema->name, "V2") != NULL;
    const bool is_grad = strstr(r->node->schema->name, "Grad") != NULL;
    enum rt_status st = kn_block_ranks(r, is_block ? "032221111" : "22221111");

    if (st)
        return st;
    const int k = is_block;
    *l = (struct lstm){.r = r, .first = k, .at_ci = is_v2 ? 2 : 1, .at_f = is_v2 ? 1 : 2};
    l->steps = l->used = is_block ? r->in[1].dim[0] : 1;
    l->batch = r->in[k].dim[is_block ? 1 : 0];
    l->input = r->in[k].dim[is_block ? 2 : 1];
    l->units = r->in[k + CS_PREV].dim[1];
    l->peephole = rt_attr_bool(r->node, "use_peephole");
    if (!is_grad) {
        l->forget_bias = is_v2 ? 0 : rt_attr_float(r->node, "forget_bias");
        l->clip = rt_attr_float(r->node, "cell_clip");
    }
    if (is_block)
        l->used = kn_int_at(&r->in[0], 0);
    if (l->used < 0 || l->used > l->steps)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "seq_len_max %lld is not in [0, %lld], the number of steps",
                       (long long)l->used, (long long)l->steps);
    return check_dims(l);
}

/* ---- a step ---- */

/* The inputs and outputs of a step, one row for each batch element. */
struct step {
    const float *x, *cs_prev, *h_prev, *w, *peep[3], *b;
    float *i, *cs, *f, *o, *ci, *co, *h;
};

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static float clipped(float x, float clip)
{
    return clip > 0 ? fminf(fmaxf(x, -clip), clip) : x;
}

static void gates(const struct lstm *l, const struct step *s, const float *sums, int64_t row)
{
    const int64_t n = l->units, at = row * n;

    for (int64_t u = 0; u < n; u++) {
        const float before = s->cs_prev[at + u];
        const float peep_i = l->peephole ? s->peep[0][u] * before : 0;
        const float peep_f = l->peephole ? s->peep[1][u] * before : 0;
        const float i = sigmoid(sums[u] + s->b[u] + peep_i);
        const float ci = tanhf(sums[l->at_ci * n + u] + s->b[l->at_ci * n + u]);
        const float f =
            sigmoid(sums[l->at_f * n + u] + s->b[l->at_f * n + u] + l->forget_bias + peep_f);
        const float cs = clipped(ci * i + before * f, l->clip);
        const float peep_o = l->peephole ? s->peep[2][u] * cs : 0;
        const float o = sigmoid(sums[3 * n + u] + s->b[3 * n + u] + peep_o);
        s->i[at + u] = i;
        s->ci[at + u] = ci;
        s->f[at + u] = f;
        s->cs[at + u] = cs;
        s->o[at + u] = o;
        s->co[at + u] = tanhf(cs);
        s->h[at + u] = o * s->co[at + u];
    }
}

static enum rt_status run_step(struct kn_block *b, const struct lstm *l, const struct step *s,
                               float *sums)
{
    const int64_t n = l->units, c = 4 * n;
    enum rt_status st = kn_zero_chunks(l->r, sums, (size_t)(l->batch * c) * sizeof *sums);

    st = st ? st
            : kn_block_product(b, true, false, false, l->batch, c, l->input, s->x, l->input, s->w,
                               c, sums, c);
    st = st ? st
            : kn_block_product(b, true, false, false, l->batch, c, n, s->h_prev, n,
                               s->w + l->input * c, c, sums, c);
    for (int64_t row = 0; row < l->batch && !st; row++) {
        gates(l, s, sums + row * c, row);
        st = rt_run_spend(l->r, &l->r->left, GATE_COST * n);
    }
    return st;
}

static enum rt_status forward(struct rt_run *r, struct kn_block *b, const struct lstm *l,
                              float **out)
{
    const int64_t dim[3] = {l->steps, l->batch, l->units}, row = l->batch * l->units;
    const bool is_block = l->first == 1;
    const float *in[N_CELL_IN];

    for (int k = 0; k < 7; k++)
        if (!(out[k] = kn_block_out(b, k, is_block ? 3 : 2, is_block ? dim : dim + 1)))
            return r->err->code;
    for (int k = 0; k < N_CELL_IN; k++)
        if (!(in[k] = kn_block_in(b, l->first + k)))
            return r->err->code;
    float *sums = kn_block_floats(b, 4 * row);
    enum rt_status st = sums ? RT_OK : r->err->code;
    for (int64_t t = 0; t < l->used && !st; t++) {
        const int64_t at = t * row;
        const struct step s = {
            .x = in[X] + t * l->batch * l->input,
            .cs_prev = t ? out[1] + at - row : in[CS_PREV],
            .h_prev = t ? out[6] + at - row : in[H_PREV],
            .w = in[W],
            .peep = {in[WCI], in[WCF], in[WCO]},
            .b = in[B],
            .i = out[0] + at,
            .cs = out[1] + at,
            .f = out[2] + at,
            .o = out[3] + at,
            .ci = out[4] + at,
            .co = out[5] + at,
            .h = out[6] + at,
        };
        st = run_step(b, l, &s, sums);
    }
    return st;
}

static enum rt_status forward_run(struct rt_run *r)
{
    struct kn_block b = {.r = r};
    struct lstm l;
    float *out[7] = {0};
    enum rt_status st = read_shapes(r, &l);

    st = st ? st : forward(r, &b, &l, out);
    return kn_block_end(&b, out, st);
}

/* ---- gradients ---- */

/* The arguments of gate_grads: the arguments and outputs of a step, and the gradients of cs and h.
 * gate_grads writes the gradients of the sums and of cs_prev, and adds the step's gradients of the
 * peephole weights to peep_grad. */
struct back {
    const float *cs_prev, *peep[3], *i, *cs, *f, *o, *ci, *co;
    /* the gradient of cs is cs_grad + more_cs, and the gradient of h is h_grad + more_h */
    const float *cs_grad, *h_grad, *more_cs, *more_h;
    float *sums_grad, *cs_prev_grad, *peep_grad[3];
};

static void gate_grads(const struct lstm *l, const struct back *s, int64_t row)
{
    const int64_t n = l->units;
    float *sums = s->sums_grad + row * 4 * n;

    for (int64_t u = 0; u < n; u++) {
        const int64_t at = row * n + u;
        const float i = s->i[at], f = s->f[at], o = s->o[at], ci = s->ci[at], co = s->co[at];
        const float h_grad = s->h_grad[at] + (s->more_h ? s->more_h[at] : 0);
        const float o_grad = o * (1 - o) * h_grad * co;
        float cs_grad = (1 - co * co) * h_grad * o + s->cs_grad[at];
        cs_grad += s->more_cs ? s->more_cs[at] : 0;
        cs_grad += l->peephole ? o_grad * s->peep[2][u] : 0;
        const float ci_grad = (1 - ci * ci) * cs_grad * i;
        const float f_grad = f * (1 - f) * cs_grad * s->cs_prev[at];
        const float i_grad = i * (1 - i) * cs_grad * ci;
        float before = cs_grad * f;
        if (l->peephole) {
            before += i_grad * s->peep[0][u] + f_grad * s->peep[1][u];
            s->peep_grad[0][u] += i_grad * s->cs_prev[at];
            s->peep_grad[1][u] += f_grad * s->cs_prev[at];
            s->peep_grad[2][u] += o_grad * s->cs[at];
        }
        s->cs_prev_grad[at] = before;
        sums[u] = i_grad;
        sums[l->at_ci * n + u] = ci_grad;
        sums[l->at_f * n + u] = f_grad;
        sums[3 * n + u] = o_grad;
    }
}

/* Inputs of a gradient op that follow the inputs of the cell. */
enum {
    GATE_I = N_CELL_IN,
    CS,
    F,
    O,
    CI,
    CO,
    CELL_CS_GRAD,
    CELL_H_GRAD,
    BLOCK_H = CO + 1,
    N_BACK_IN
};

static enum rt_status check_back(const struct lstm *l, int last)
{
    const int rank = l->first ? 3 : 2;

    for (int k = l->first + GATE_I; k <= last; k++) {
        const struct rt_tensor *t = &l->r->in[k];
        if (t->rank != rank || t->dim[rank - 1] != l->units || t->dim[rank - 2] != l->batch ||
            (rank == 3 && t->dim[0] != l->steps))
            return rt_fail(l->r->err, RT_INVALID_ARGUMENT,
                           "%s: input %d has the shape %s, which does not fit cs_prev",
                           l->r->node->schema->name, k, KN_TEXT(t));
    }
    return RT_OK;
}

static enum rt_status cell_grad(struct rt_run *r, struct kn_block *b, const struct lstm *l,
                                float **out)
{
    const int64_t dim[2] = {l->batch, l->units}, sums[2] = {l->batch, 4 * l->units};
    const float *in[N_CELL_IN + 8];
    enum rt_status st = check_back(l, CELL_H_GRAD);

    for (int k = 0; k < 5 && !st; k++) {
        out[k] = k < 2 ? kn_block_out(b, k, 2, k ? sums : dim)
                       : kn_block_out(b, k, 1, r->in[WCI + k - 2].dim);
        st = out[k] ? RT_OK : r->err->code;
    }
    for (int k = 0; k < N_CELL_IN + 8 && !st; k++)
        st = (in[k] = kn_block_in(b, k)) ? RT_OK : r->err->code;
    if (st)
        return st;
    const struct back s = {
        .cs_prev = in[CS_PREV],
        .peep = {in[WCI], in[WCF], in[WCO]},
        .i = in[GATE_I],
        .cs = in[CS],
        .f = in[F],
        .o = in[O],
        .ci = in[CI],
        .co = in[CO],
        .cs_grad = in[CELL_CS_GRAD],
        .h_grad = in[CELL_H_GRAD],
        .sums_grad = out[1],
        .cs_prev_grad = out[0],
        .peep_grad = {out[2], out[3], out[4]},
    };
    for (int64_t row = 0; row < l->batch && !st; row++) {
        gate_grads(l, &s, row);
        st = rt_run_spend(r, &r->left, GATE_COST * l->units);
    }
    return st;
}

static enum rt_status cell_grad_run(struct rt_run *r)
{
    struct kn_block b = {.r = r};
    struct lstm l;
    float *out[5] = {0};
    enum rt_status st = read_shapes(r, &l);

    st = st ? st : cell_grad(r, &b, &l, out);
    return kn_block_end(&b, out, st);
}

/* The gradients that the backward pass of a step computes. The gradients of x, cs_prev and h_prev
 * are written; the gradients of the weights and of the bias are sums over all steps. */
enum { X_GRAD, CS_PREV_GRAD, H_PREV_GRAD, W_GRAD, WCI_GRAD, WCF_GRAD, WCO_GRAD, B_GRAD, N_GRADS };

static enum rt_status weight_grads(struct kn_block *b, const struct lstm *l, const float *x,
                                   const float *h_prev, const float *w, const float *sums_grad,
                                   float *x_grad, float **out)
{
    const int64_t n = l->units, c = 4 * n, m = l->batch;
    enum rt_status st = kn_block_product(b, false, false, true, m, l->input, c, sums_grad, c, w, c,
                                         x_grad, l->input);

    st = st ? st
            : kn_block_product(b, false, false, true, m, n, c, sums_grad, c, w + l->input * c, c,
                               out[H_PREV_GRAD], n);
    st = st ? st
            : kn_block_product(b, true, true, false, l->input, c, m, x, l->input, sums_grad, c,
                               out[W_GRAD], c);
    st = st ? st
            : kn_block_product(b, true, true, false, n, c, m, h_prev, n, sums_grad, c,
                               out[W_GRAD] + l->input * c, c);
    for (int64_t row = 0; row < m && !st; row++) {
        for (int64_t k = 0; k < c; k++)
            out[B_GRAD][k] += sums_grad[row * c + k];
        st = rt_run_spend(b->r, &b->r->left, c);
    }
    return st;
}

static enum rt_status block_back(struct kn_block *b, const struct lstm *l, const float **in,
                                 float **out, float *sums_grad)
{
    const int64_t row = l->batch * l->units;
    enum rt_status st = RT_OK;

    for (int64_t t = l->used; t-- > 0 && !st;) {
        const int64_t at = t * row;
        const float *h_prev = t ? in[BLOCK_H] + at - row : in[H_PREV];
        const struct back s = {
            .cs_prev = t ? in[CS] + at - row : in[CS_PREV],
            .peep = {in[WCI], in[WCF], in[WCO]},
            .i = in[GATE_I] + at,
            .cs = in[CS] + at,
            .f = in[F] + at,
            .o = in[O] + at,
            .ci = in[CI] + at,
            .co = in[CO] + at,
            .cs_grad = in[BLOCK_H + 1] + at,
            .h_grad = in[BLOCK_H + 2] + at,
            .more_cs = out[CS_PREV_GRAD],
            .more_h = out[H_PREV_GRAD],
            .sums_grad = sums_grad,
            .cs_prev_grad = out[CS_PREV_GRAD],
            .peep_grad = {out[WCI_GRAD], out[WCF_GRAD], out[WCO_GRAD]},
        };
        for (int64_t k = 0; k < l->batch && !st; k++) {
            gate_grads(l, &s, k);
            st = rt_run_spend(l->r, &l->r->left, GATE_COST * l->units);
        }
        const int64_t x_at = t * l->batch * l->input;
        st = st ? st
                : weight_grads(b, l, in[X] + x_at, h_prev, in[W], sums_grad, out[X_GRAD] + x_at,
                               out);
    }
    return st;
}

static enum rt_status block_grad(struct rt_run *r, struct kn_block *b, const struct lstm *l,
                                 float **out)
{
    const float *in[N_BACK_IN + 2];
    enum rt_status st = check_back(l, l->first + BLOCK_H + 2);

    for (int k = 0; k < N_GRADS && !st; k++) {
        const struct rt_tensor *like = &r->in[1 + k];
        out[k] = kn_block_out(b, k, like->rank, like->dim);
        st = out[k] ? RT_OK : r->err->code;
    }
    for (int k = 0; k < BLOCK_H + 3 && !st; k++)
        st = (in[k] = kn_block_in(b, 1 + k)) ? RT_OK : r->err->code;
    float *sums_grad = st ? NULL : kn_block_floats(b, l->batch * 4 * l->units);
    return sums_grad ? block_back(b, l, in, out, sums_grad) : r->err->code;
}

static enum rt_status block_grad_run(struct rt_run *r)
{
    struct kn_block b = {.r = r};
    struct lstm l;
    float *out[N_GRADS] = {0};
    enum rt_status st = read_shapes(r, &l);

    st = st ? st : block_grad(r, &b, &l, out);
    return kn_block_end(&b, out, st);
}

#define LSTM(symbol, op_, run_)                                                                    \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_)},                                                                     \
        .kernels = KN_CPU(op_, #symbol, RT_T(RT_F32) | RT_T(RT_F16), NULL, run_),                  \
    };
LSTM(block_lstm, "BlockLSTM", forward_run)
LSTM(block_lstm_grad, "BlockLSTMGrad", block_grad_run)
LSTM(block_lstm_grad_v2, "BlockLSTMGradV2", block_grad_run)
LSTM(block_lstm_v2, "BlockLSTMV2", forward_run)
LSTM(lstm_block_cell, "LSTMBlockCell", forward_run)
LSTM(lstm_block_cell_grad, "LSTMBlockCellGrad", cell_grad_run)
