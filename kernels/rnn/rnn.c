#include "kernels/rnn/rnn.h"

#include <string.h>

#include "kernels/array/array.h"
#include "kernels/list/list.h"
#include "kernels/cpu/parallel.h"
#include "kernels/matmul/packed_gemm.h"
#include "kernels/cpu/types.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/entry.h"
#include "runtime/exec/parallel.h"

#define KN_LOOPS      "kernels/rnn/rnn_loops.h"
#define KN_LOOPS_TYPE struct kn_rnn_loops
#define KN_LOOPS_OF   kn_rnn_loops_of
#include "kernels/cpu/vector_sets.h"

/* ---- weights ---- */

struct format {
    char name[8];
    int64_t row, k, n, panel;
};

/* The packed right-hand matrix of a GEMM. The matrix consists of all rows, or of some rows, of a
 * weight input. */
struct weight {
    struct kn_packed_gemm p;
    const float *packed; /* the packed matrix, or NULL if the layer lacks this weight */
};

static enum rt_status fill(const struct rt_tensor *src, void *dst, const void *fmt,
                           struct rt_error *err)
{
    const struct format *f = fmt;
    struct kn_packed_gemm p = {.k = f->k, .n = f->n};

    (void)err;
    kn_packed_gemm_init(&p);
    kn_packed_gemm_pack(&p, (const float *)src->data + f->row * f->n, f->n, false, NULL, dst);
    return RT_OK;
}

/* Packs rows [row, row + k) of the weights in input `input`, if the layer has that input. */
static enum rt_status rnn_pack(struct rt_prep *p, int input, int64_t row, int64_t k,
                               struct weight *w)
{
    const struct rt_shape *shape = &p->in[input].shape;
    const struct rt_pack *made;

    if (kn_is_none(shape))
        return RT_OK;
    w->p = (struct kn_packed_gemm){.k = k, .n = shape->dim[1], .reuse = true};
    if (!kn_packed_gemm_init(&w->p))
        return rt_fail(p->err, RT_RESOURCE_EXHAUSTED, "%s: a weight of %s", p->node->name,
                       KN_TEXT(shape));
    const struct format f = {"rnn", row, k, w->p.n, w->p.panel};
    const enum rt_status st =
        rt_prep_pack(p, input, &f, sizeof f, kn_packed_gemm_pack_bytes(&w->p), fill, &made);
    if (st)
        return st;
    if (!made)
        return rt_fail(p->err, RT_INTERNAL, "%s: a weight that is no constant", p->node->name);
    w->packed = rt_pack_data(made);
    return RT_OK;
}

/* Computes `c [rows, n] = a [rows, k] * w + from + bias`. The rows of c and of `from` are ldc
 * floats apart. If `from` or `bias` is NULL, it is not added. */
static void rnn_multiply(const struct weight *w, const float *a, int64_t lda, float *c, int64_t ldc,
                         int64_t rows, const struct rt_tensor *bias, const float *from)
{
    const struct kn_packed_gemm_args part = {.packed = w->packed,
                                             .a = a,
                                             .lda = lda,
                                             .c = c,
                                             .ldc = ldc,
                                             .rows = rows,
                                             .to = w->p.panels,
                                             .k_to = w->p.k};
    const struct kn_gemm_post_ops post_ops = {.bias = bias && rt_tensor_count(bias) > 0 ? bias->data
                                                                                        : NULL,
                                              .residual = from,
                                              .ld_residual = ldc};

    kn_packed_gemm_run(&w->p, &part, &post_ops);
}

/* ---- the run ---- */

/* The number of rows that the input's GEMM computes together, so that each weight is read only once
 * for all of them. */
enum { ROWS_AT_ONCE = 96 };

struct state {
    const struct kn_rnn_loops *loops;
    struct kn_layer layer;
    enum rt_cell_act gate_act, act;
    float forget_bias, clip;
    struct weight w, r, w_candidate, r_candidate, project;
    int64_t at[4]; /* offset, in floats, of each gate's sums within a row of sums */
    int64_t wide;  /* number of floats in a row of one state */
    /* number of rows in a block, and number of steps for which the input's GEMM is computed
     * together */
    int64_t block, chunk;
    /* number of cores that compute concurrently; each computes different blocks of rows */
    int64_t slots;
    size_t slot_bytes; /* size in bytes of the scratch memory of each core */
    bool peeps;        /* whether at least one gate has a peephole connection */
};

/* The parts of a core's scratch memory. lay_out returns their total size in bytes. */
struct workspace {
    float *sums, *candidate_sums, *recurrent_sums;
    float *h, *h_new, *c, *spare[2];
    float *c_old, *written; /* used only by masked layers */
    /* peephole weights, padded to complete vectors, or NULL if there are none */
    float *peep[3];
};

static size_t lay_out(const struct state *s, char *scratch, struct workspace *at)
{
    const struct kn_layer *y = &s->layer;
    const int64_t state = s->block * s->wide, rows = s->block * s->chunk;
    const int64_t masked = y->mask != RT_RNN_ALL ? state : 0;
    const int64_t spare = y->cell->n_reset_before || s->project.packed ? state : 0;
    const int64_t two = y->cell->n_states > 1, peep = s->peeps ? s->wide : 0;
    const struct {
        float **part;
        int64_t n;
    } need[] = {{&at->sums, rows * s->w.p.n},
                {&at->candidate_sums, rows * s->w_candidate.p.n},
                {&at->recurrent_sums, y->cell->n_reset_after ? s->block * s->r.p.n : 0},
                {&at->h, state},
                {&at->h_new, state},
                {&at->c, two * state},
                {&at->spare[0], spare},
                {&at->spare[1], spare},
                {&at->c_old, two * masked},
                {&at->written, masked},
                {&at->peep[0], peep},
                {&at->peep[1], peep},
                {&at->peep[2], peep}};
    size_t used = 0;

    for (size_t k = 0; k < sizeof need / sizeof *need; k++) {
        *need[k].part = scratch ? (float *)(scratch + used) : NULL;
        used += ((size_t)(need[k].n + s->loops->lanes) * sizeof(float) + 63) & ~(size_t)63;
    }
    return used;
}

static enum rt_status pack_all(struct rt_prep *p, const struct rt_rnn *op, struct state *s)
{
    const struct kn_layer *y = &s->layer;
    enum rt_status st = rnn_pack(p, RT_RNN_W, op->x_row, y->depth, &s->w);

    if (!st)
        st = rnn_pack(p, RT_RNN_R, op->h_row, y->width, &s->r);
    if (!st)
        st = rnn_pack(p, RT_RNN_W_RESET_BEFORE, op->x_row, y->depth, &s->w_candidate);
    if (!st)
        st = rnn_pack(p, RT_RNN_R_RESET_BEFORE, op->h_row, y->units, &s->r_candidate);
    if (!st)
        st = rnn_pack(p, RT_RNN_PROJECT, 0, y->units, &s->project);
    return st;
}

/* Chooses how rows are sharded. Rows of the batch are independent, so each core computes all steps
 * of its own rows and waits for no other core between steps. */
static void set_shards(struct state *s, int width)
{
    const struct kn_layer *y = &s->layer;
    const double all = (double)y->batch * (double)y->time * y->cell->n_gates * (double)y->units *
                       (double)(y->depth + y->width);
    int64_t most = all / KN_SHARD_MACS < width ? (int64_t)(all / KN_SHARD_MACS) : width;

    most = most < y->batch ? most : y->batch;
    s->slots = most > 1 ? most : 1;
    const int64_t each = y->batch > 0 ? (y->batch - 1) / s->slots + 1 : 1;
    s->block = kn_even_size(y->batch, each < ROWS_AT_ONCE ? each : ROWS_AT_ONCE, s->slots);
    s->chunk = ROWS_AT_ONCE / s->block;
    s->chunk = s->chunk < y->time ? s->chunk : y->time > 0 ? y->time : 1;
}

static enum rt_status rnn_prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    struct workspace workspace;
    struct rt_rnn op;

    if (!s)
        return p->err->code;
    rt_rnn_read(p->node, &op);
    enum rt_status st = kn_layer_of(p->node, p->in, &s->layer, p->err);
    if (st)
        return st;
    const struct kn_layer *y = &s->layer;
    kn_layer_gates(y, &op, s->at);
    s->gate_act = (enum rt_cell_act)op.gate_activation;
    s->act = (enum rt_cell_act)op.activation;
    s->forget_bias = op.forget_bias;
    s->clip = op.clip;
    for (int k = RT_RNN_PEEP_IN; k <= RT_RNN_PEEP_LET; k++)
        s->peeps = s->peeps || !kn_is_none(&p->in[k].shape);
    s->loops = loops_of(0);
    s->wide = y->units > y->width ? y->units : y->width;
    s->wide = kn_round_up(s->wide, s->loops->lanes);
    set_shards(s, rt_prep_width(p));
    st = pack_all(p, &op, s);
    s->slot_bytes = lay_out(s, NULL, &workspace);
    p->scratch_bytes = (size_t)s->slots * s->slot_bytes;
    *state = s;
    return st;
}

/* Reads rows [first, first + n) of a state from `t`. If `t` has only one row or column, it is
 * broadcast. Rows are padded with zeros. */
static void get_state(const struct state *s, const struct rt_tensor *t, int64_t first, int64_t n,
                      int64_t cols, float *to)
{
    const int64_t wide = s->wide, columns = t->rank > 0 ? t->dim[t->rank - 1] : 1;
    const int64_t row = t->rank < 2 || t->dim[0] == 1 ? 0 : columns;

    for (int64_t i = 0; i < n; i++, to += wide) {
        const float *from = (const float *)t->data + (first + i) * row;
        if (columns == cols)
            memcpy(to, from, (size_t)cols * sizeof *to);
        else
            for (int64_t u = 0; u < cols; u++)
                to[u] = from[0];
        memset(to + cols, 0, (size_t)(wide - cols) * sizeof *to);
    }
}

static void put_state(const struct state *s, const float *from, int64_t n, int64_t cols, float *to,
                      int64_t row)
{
    for (int64_t i = 0; i < n; i++, from += s->wide, to += row)
        memcpy(to, from, (size_t)cols * sizeof *to);
}

/* Returns the address in y of the output of `row` at `step`. */
static float *y_at(const struct kn_layer *y, float *data, int64_t step, int64_t row)
{
    return data + (y->y_by_time ? step * y->batch + row : row * y->length + step) * y->width;
}

static int64_t y_row(const struct kn_layer *y)
{
    return y->y_by_time ? y->width : y->length * y->width;
}

/* Multiplies x by `w` for several steps of a block of rows. The results are ordered by step. Each
 * call of rnn_multiply handles all rows of one step or all steps of one row, whichever yields the
 * larger GEMM. */
static void multiply_input(const struct kn_layer *y, const struct rt_run *r, const struct weight *w,
                           const struct rt_tensor *bias, float *sums, int64_t first, int64_t n,
                           int64_t step, int64_t n_steps)
{
    const int64_t of_row = y->x_batch == 1 ? 0 /* a single row is broadcast to all rows */
                           : y->x_by_time  ? y->depth
                                           : y->time * y->depth;
    const int64_t of_step = y->x_by_time ? y->x_batch * y->depth : y->depth, ldc = w->p.n;
    const float *x = (const float *)r->in[RT_RNN_X].data + first * of_row + step * of_step;

    if (n >= n_steps)
        for (int64_t t = 0; t < n_steps; t++)
            rnn_multiply(w, x + t * of_step, of_row, sums + t * n * ldc, ldc, n, bias, NULL);
    else
        for (int64_t i = 0; i < n; i++)
            rnn_multiply(w, x + i * of_row, of_step, sums + i * ldc, n * ldc, n_steps, bias, NULL);
}

static void multiply_inputs(const struct state *s, const struct kn_layer *y, const struct rt_run *r,
                            int64_t first, int64_t n, int64_t step, const struct workspace *at)
{
    const int64_t left = y->steps - step, n_steps = left < s->chunk ? left : s->chunk;

    multiply_input(y, r, &s->w, &r->in[RT_RNN_BIAS], at->sums, first, n, step, n_steps);
    if (s->w_candidate.packed)
        multiply_input(y, r, &s->w_candidate, &r->in[RT_RNN_BIAS_RESET_BEFORE], at->candidate_sums,
                       first, n, step, n_steps);
}

static bool takes_step(const struct kn_layer *y, const struct rt_tensor *mask, int64_t step,
                       int64_t row)
{
    const int64_t i = y->mask_batch == 1 ? 0 : row;

    if (y->mask == RT_RNN_BY_STEP)
        return ((const uint8_t *)mask->data)[step * y->mask_batch + i];
    return step < kn_int_at(mask, i);
}

/* Restores the previous state of rows that are masked in this step, and sets at->written to the
 * output of each row. */
static void apply_mask(const struct state *s, const struct kn_layer *y, const struct rt_run *r,
                       int64_t step, int64_t first, int64_t n, const struct workspace *at)
{
    const int64_t wide = s->wide;
    const size_t bytes = (size_t)wide * sizeof(float);

    for (int64_t i = 0; i < n; i++) {
        float *written = at->written + i * wide;
        if (takes_step(y, &r->in[RT_RNN_MASK], step, first + i)) {
            memcpy(written, at->h_new + i * wide, bytes);
            continue;
        }
        memcpy(at->h_new + i * wide, at->h + i * wide, bytes);
        if (y->cell->n_states > 1)
            memcpy(at->c + i * wide, at->c_old + i * wide, bytes);
        if (!kn_layer_masks_y(y))
            memcpy(written, at->h + i * wide, bytes);
        else if (!y->holds)
            get_state(s, &r->in[RT_RNN_BEFORE], first + i, 1, y->width, written);
    }
}

/* Computes one step, from at->h to at->h_new. Before the call, at->sums must hold the sums of the
 * input. */
static void take_step(const struct state *s, const struct kn_layer *y, const struct rt_run *r,
                      int64_t n, int64_t in_chunk, const struct workspace *at)
{
    const struct rt_cell *cell = y->cell;
    const int64_t row = s->w.p.n;
    float *sums = at->sums + in_chunk * n * row,
          *candidate_sums = at->candidate_sums + in_chunk * n * s->w_candidate.p.n;
    struct kn_rnn_step step = {.gate_act = s->gate_act,
                               .act = s->act,
                               .forget_bias = s->forget_bias,
                               .clip = s->clip,
                               .rows = n,
                               .units = y->units,
                               .state_row = s->wide,
                               .sums = sums,
                               .sums_row = row,
                               .recurrent_sums = at->recurrent_sums,
                               .candidate_row = s->w_candidate.p.n,
                               .h = at->h,
                               .h_new = s->project.packed ? at->spare[0] : at->h_new,
                               .c = at->c,
                               .peep = {at->peep[0], at->peep[1], at->peep[2]},
                               .spare = {at->spare[0], at->spare[1]}};

    memcpy(step.at, s->at, sizeof step.at);
    if (cell->n_reset_after > 0)
        rnn_multiply(&s->r, at->h, s->wide, at->recurrent_sums, row, n, &r->in[RT_RNN_R_BIAS],
                     NULL);
    else
        rnn_multiply(&s->r, at->h, s->wide, sums, row, n, NULL, sums);
    s->loops->cell[cell->id](&step, false);
    if (s->project.packed)
        rnn_multiply(&s->project, at->spare[0], s->wide, at->h_new, s->wide, n, NULL, NULL);
    if (cell->n_reset_before == 0)
        return;
    if (!s->w_candidate.packed) { /* the candidate's weights are the last columns of w */
        candidate_sums = sums + s->r.p.n;
        step.candidate_row = row;
    }
    step.candidate_sums = candidate_sums;
    rnn_multiply(&s->r_candidate, at->spare[1], s->wide, candidate_sums, step.candidate_row, n,
                 NULL, candidate_sums);
    s->loops->cell[cell->id](&step, true);
}

static void get_peeps(const struct rt_run *r, int64_t units, struct workspace *at)
{
    for (int k = 0; k < 3; k++) {
        const struct rt_tensor *t = &r->in[RT_RNN_PEEP_IN + k];
        if (rt_tensor_count(t) == units)
            memcpy(at->peep[k], t->data, (size_t)units * sizeof(float));
        else
            at->peep[k] = NULL;
    }
}

/* Computes all steps for the rows of block `i`. */
static enum rt_status run_block(struct rt_run *r, void *layer, int64_t i, int64_t slot)
{
    const struct state *s = r->state;
    const struct kn_layer *y = layer;
    const int64_t first = i * s->block, rest = y->batch - first;
    const int64_t n = rest < s->block ? rest : s->block;
    const int64_t wide = s->wide;
    const int64_t work = n * y->units * y->units * y->cell->n_gates / 8 + 64;
    const bool masked = y->mask != RT_RNN_ALL, reads = y->read != RT_RNN_UNREAD;
    const bool two = y->cell->n_states > 1;
    int64_t left = RT_WORK;
    struct workspace workspace, *const at = &workspace;

    lay_out(s, (char *)r->scratch + (size_t)slot * s->slot_bytes, at);
    get_peeps(r, y->units, at);
    get_state(s, &r->in[RT_RNN_H], first, n, y->width, at->h);
    if (two)
        get_state(s, &r->in[RT_RNN_C], first, n, y->units, at->c);
    if (masked && y->holds)
        get_state(s, &r->in[RT_RNN_BEFORE], first, n, y->width, at->written);
    for (int64_t t = 0; t < y->steps; t++) {
        if (t % s->chunk == 0)
            multiply_inputs(s, y, r, first, n, t, at);
        if (masked && two)
            memcpy(at->c_old, at->c, (size_t)(n * wide) * sizeof *at->c);
        take_step(s, y, r, n, t % s->chunk, at);
        if (masked)
            apply_mask(s, y, r, t, first, n, at);
        float *const old = at->h;
        at->h = at->h_new;
        at->h_new = old;
        if (reads && y->keep == RT_RNN_KEEP_EACH)
            put_state(s, masked ? at->written : at->h, n, y->width,
                      y_at(y, r->out[0].data, t, first), y_row(y));
        if (rt_run_spend(r, &left, work))
            return r->err->code;
    }
    if (reads && y->keep == RT_RNN_KEEP_LAST)
        put_state(s, masked ? at->written : at->h, n, y->width, y_at(y, r->out[0].data, 0, first),
                  y_row(y));
    put_state(s, at->h, n, y->width, (float *)r->out[1].data + first * y->width, y->width);
    if (two)
        put_state(s, at->c, n, y->units, (float *)r->out[2].data + first * y->units, y->units);
    return RT_OK;
}

static void info_of(const struct rt_tensor *t, struct rt_info *x)
{
    *x = (struct rt_info){.dtype = (enum rt_dtype)t->dtype, .shape.rank = t->rank, .value = t};
    memcpy(x->shape.dim, t->dim, sizeof t->dim);
}

/* Copies initial state k to output 1 + k. */
static enum rt_status keep_state(struct rt_run *r, int k)
{
    const struct rt_tensor *from = &r->in[RT_RNN_H + k];
    void *to = kn_out(r, 1 + k, from->rank, from->dim);

    if (!to)
        return r->err->code;
    if (rt_tensor_count(from) > 0)
        return kn_copy_chunks(r, kn_dtype(from), to, from->data, rt_tensor_count(from));
    return RT_OK;
}

static enum rt_status no_elements(struct rt_run *r, const struct kn_layer *y)
{
    const struct rt_shape each = {.rank = 2, .dim = {-1, y->width}};

    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   y->length == 0 ? "Tried to stack elements of an empty list with "
                                    "non-fully-defined element_shape: %s"
                                  : "Tried to stack list which only contains uninitialized "
                                    "tensors and has a non-fully-defined element_shape: %s",
                   KN_PARTIAL(&each));
}

static enum rt_status make_outputs(struct rt_run *r, const struct kn_layer *y)
{
    struct rt_shape shape;
    enum rt_status st = RT_OK;

    kn_layer_y(y, &shape);
    if (!kn_out(r, 0, shape.rank, shape.dim))
        return r->err->code;
    const int64_t written = y->keep == RT_RNN_KEEP_EACH ? y->steps : y->steps > 0;
    if (y->read != RT_RNN_UNREAD && y->length > written && rt_tensor_count(&r->out[0]) > 0)
        st = kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0]));
    for (int k = 0; k < 2 && !st; k++)
        if (y->steps == 0 || k >= y->cell->n_states)
            st = keep_state(r, k);
        else if (!kn_out(r, 1 + k, 2, (int64_t[]){y->batch, k ? y->units : y->width}))
            st = r->err->code;
    return st;
}

static enum rt_status rnn_run(struct rt_run *r)
{
    const struct state *s = r->state;
    struct rt_info in[RT_RNN_N_IN];
    struct kn_layer y;

    for (int k = 0; k < RT_RNN_N_IN; k++)
        info_of(&r->in[k], &in[k]);
    enum rt_status st = kn_layer_of(r->node, in, &y, r->err);
    if (st)
        return st;
    if (y.read == RT_RNN_READ && y.steps == 0 && y.y_rows < 0)
        return no_elements(r, &y);
    st = make_outputs(r, &y);
    if (st || y.steps == 0)
        return st;
    const int64_t blocks = y.batch > 0 ? (y.batch - 1) / s->block + 1 : 0;
    if (s->slots > 1 && rt_run_width(r) > 1)
        return kn_parallel_shards(r, blocks, s->slots, run_block, &y);
    for (int64_t i = 0; i < blocks && !st; i++)
        st = run_block(r, &y, i, 0);
    return st;
}

/* Returns the number of FLOPs. Each time step multiplies the input and the state by the weights of
 * all gates. */
static double rnn_flops(const struct rt_node *n, const struct rt_shape *in, int n_in,
                        const struct rt_shape *out)
{
    (void)n_in, (void)out;
    struct rt_rnn op;
    rt_rnn_read(n, &op);
    const double units = (double)op.units, depth = (double)op.depth;
    const int gates = rt_cell(op.cell)->n_gates;
    return depth > 0 ? 2 * rt_shape_elements(&in[0]) / depth * (depth + units) * gates * units : 0;
}

const struct kn_entry kn_rnn = {
    .op = {.name = "_RNN",
           .shape_in = RT_RNN_LIMITS,
           .infer = kn_layer_infer,
           .rows = kn_layer_rows,
           .flops = rnn_flops,
           .internal_schema = &rt_rnn_schema},
    .kernels = KN_KERNELS(
        {.op = "_RNN", .device = "CPU", .name = "rnn", .prepare = rnn_prepare, .run = rnn_run}),
};
