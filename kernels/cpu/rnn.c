#include "kernels/cpu/rnn.h"

#include <string.h>

#include "kernels/cpu/array.h"
#include "kernels/cpu/list.h"
#include "kernels/cpu/types.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/entry.h"
#include "runtime/base/machine.h"

#define LOOPS(name) base_##name
#define TARGET
#define LANES 4
#define SUMS  8
#include "kernels/cpu/rnn_loops.h"

#if defined(__x86_64__)
#define LOOPS(name) avx2_##name
#define TARGET      __attribute__((target("avx2,fma")))
#define LANES       8
#define SUMS        8
#include "kernels/cpu/rnn_loops.h"

#define LOOPS(name) avx512_##name
#define TARGET      __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
#define LANES       16
#define SUMS        24
#include "kernels/cpu/rnn_loops.h"
#endif

const struct kn_rnn_loops *kn_rnn_loops_here(int which)
{
    const struct kn_rnn_loops *have[3];
    int n = 0;

#if defined(__x86_64__)
    if (rt_machine_vectors() == RT_VECTORS_AVX512)
        have[n++] = &avx512_loops;
    if (rt_machine_vectors() >= RT_VECTORS_AVX2)
        have[n++] = &avx2_loops;
#endif
    have[n++] = &base_loops;
    return which < n ? have[which] : NULL;
}

/* ---- weights ---- */

struct format {
    char name[8];
    int32_t lanes, gates; /* of this pack */
    int32_t column[4];    /* which block of the matrix a gate's columns are */
    int64_t row, rows, units;
};

static enum rt_status fill(const struct rt_tensor *src, void *dst, const void *fmt,
                           struct rt_error *err)
{
    const struct format *f = fmt;
    const float *from = (const float *)src->data + f->row * src->dim[1];
    float *to = dst;

    (void)err;
    for (int64_t u = 0; u < f->units; u += f->lanes)
        for (int64_t k = 0; k < f->rows; k++)
            for (int g = 0; g < f->gates; g++)
                for (int l = 0; l < f->lanes; l++)
                    *to++ = u + l < f->units
                                ? from[k * src->dim[1] + f->column[g] * f->units + u + l]
                                : 0;
    return RT_OK;
}

static int64_t panels_of(int64_t units, int lanes)
{
    return (units + lanes - 1) / lanes;
}

static enum rt_status pack(struct rt_prep *p, int input, const struct format *f, const float **out)
{
    const struct rt_pack *made;
    const size_t bytes =
        (size_t)(panels_of(f->units, f->lanes) * f->lanes * f->gates * f->rows) * sizeof(float);
    const enum rt_status st = rt_prep_pack(p, input, f, sizeof *f, bytes, fill, &made);

    if (st)
        return st;
    if (!made)
        return rt_fail(p->err, RT_INTERNAL, "%s: a weight that is no constant", p->node->name);
    *out = rt_pack_data(made);
    return RT_OK;
}

/* ---- a run ---- */

enum { ROWS_AT_ONCE = 96 }; /* of the input's product: the weights are read once for so many */

/* Some gates: those of w's columns, or late ones that have a matrix of their own. */
struct part {
    int first, n;
    const float *w; /* packed */
};

struct state {
    const struct kn_rnn_loops *loops;
    struct kn_layer layer;
    enum rt_cell_act gate_act, act;
    float forget_bias;
    struct part part[2];    /* the second one: of 0 gates where w has them all */
    const float *r, *later; /* packed */
    int32_t column[8];
    int64_t panels, block, chunk; /* rows and steps at once */
};

/* Floats, or pointers, of each part of scratch; all together in bytes. */
struct room {
    const float **row;
    float *sums[2], *bias[2]; /* of each part */
    float *r_bias, *h, *h_new, *c, *spare[2];
    float *c_old, *written; /* of masked layers */
};

static size_t lay_out(const struct state *s, char *scratch, struct room *at)
{
    const struct kn_layer *y = &s->layer;
    const int64_t wide = s->panels * s->loops->lanes, state = s->block * wide;
    const int64_t rows = s->block * s->chunk, masked = y->mask != RT_RNN_ALL ? state : 0;
    const int64_t spare = y->cell->n_late ? state : 0;
    const struct {
        float **part;
        int64_t n;
    } need[] = {{&at->sums[0], rows * wide * s->part[0].n},
                {&at->sums[1], rows * wide * s->part[1].n},
                {&at->bias[0], wide * s->part[0].n},
                {&at->bias[1], wide * s->part[1].n},
                {&at->r_bias, wide},
                {&at->h, state},
                {&at->h_new, state},
                {&at->c, y->cell->n_states > 1 ? state : 0},
                {&at->spare[0], spare},
                {&at->spare[1], spare},
                {&at->c_old, y->cell->n_states > 1 ? masked : 0},
                {&at->written, masked}};
    size_t used = ((size_t)rows * sizeof *at->row + 63) & ~(size_t)63;

    at->row = (const float **)scratch;
    for (size_t k = 0; k < sizeof need / sizeof *need; k++) {
        *need[k].part = scratch ? (float *)(scratch + used) : NULL;
        used += ((size_t)need[k].n * sizeof(float) + 63) & ~(size_t)63;
    }
    return used;
}

static enum rt_cell_act act_of(const struct rt_node *n, const char *attr)
{
    const struct rt_span name = rt_attr_str(n, attr);
    int act = 0;

    while (act < RT_N_CELL_ACTS - 1 && !rt_span_is(name, rt_cell_act_name(act)))
        act++;
    return (enum rt_cell_act)act;
}

/* The gates from `first` on, of the columns that `column` says. */
static enum rt_status pack_gates(struct rt_prep *p, const struct state *s, int input, bool of_x,
                                 const int32_t *column, int n, const float **out)
{
    const struct kn_layer *y = &s->layer;
    struct format f = {.name = "rnn",
                       .lanes = s->loops->lanes,
                       .gates = n,
                       .row = rt_attr_int(p->node, of_x ? "x_row" : "h_row"),
                       .rows = of_x ? y->depth : y->units,
                       .units = y->units};

    memcpy(f.column, column, (size_t)n * sizeof *column);
    return pack(p, input, &f, out);
}

static enum rt_status pack_all(struct rt_prep *p, struct state *s)
{
    const struct rt_cell *cell = s->layer.cell;
    const int n_early = cell->n_gates - cell->n_late;
    static const int32_t in_order[4] = {0, 1, 2, 3};
    enum rt_status st = pack_gates(p, s, RT_RNN_W, true, s->column, s->part[0].n, &s->part[0].w);

    if (!st)
        st = pack_gates(p, s, RT_RNN_R, false, s->column, n_early, &s->r);
    if (!st && s->part[1].n > 0)
        st = pack_gates(p, s, RT_RNN_W_LATE, true, in_order, s->part[1].n, &s->part[1].w);
    if (!st && cell->n_late > 0)
        st = pack_gates(p, s, RT_RNN_R_LATE, false, in_order, cell->n_late, &s->later);
    return st;
}

static enum rt_status prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    struct room room;

    if (!s)
        return p->err->code;
    enum rt_status st = kn_layer_of(p->node, p->in, &s->layer, p->err);
    if (st)
        return st;
    const struct kn_layer *y = &s->layer;
    const struct rt_cell *cell = y->cell;
    const char *order = (const char *)rt_attr_str(p->node, "order").p;
    const int n_apart = y->late_apart ? cell->n_late : 0;
    s->part[0].n = cell->n_gates - n_apart;
    s->part[1] = (struct part){.first = s->part[0].n, .n = n_apart};
    for (int g = 0; g < cell->n_gates; g++) {
        const char *at = strchr(order, cell->gates[g]);
        s->column[g] = at ? (int32_t)(at - order) : g - s->part[0].n;
    }
    s->gate_act = act_of(p->node, "gate_activation");
    s->act = act_of(p->node, "activation");
    s->forget_bias = rt_attr_float(p->node, "forget_bias");
    s->loops = kn_rnn_loops_here(0);
    s->panels = panels_of(y->units, s->loops->lanes);
    s->block = y->batch < ROWS_AT_ONCE ? (y->batch > 0 ? y->batch : 1) : ROWS_AT_ONCE;
    s->chunk = ROWS_AT_ONCE / s->block;
    s->chunk = s->chunk < y->time ? s->chunk : y->time > 0 ? y->time : 1;
    st = pack_all(p, s);
    p->scratch_bytes = lay_out(s, NULL, &room);
    *state = s;
    return st;
}

/* What gate g's sums begin with: one row of `panels * n_gates * lanes`. */
static void put_bias(const struct state *s, const struct rt_tensor *bias,
                     const struct rt_tensor *more, float add, int g, float *row, int at,
                     int n_gates)
{
    const int lanes = s->loops->lanes;
    const int64_t units = s->layer.units, from = s->column[g] * units;
    const float *a = rt_tensor_count(bias) > 0 ? (const float *)bias->data + from : NULL;
    const float *b = more && rt_tensor_count(more) > 0 ? (const float *)more->data + from : NULL;

    for (int64_t u = 0; u < s->panels * lanes; u++)
        row[(u / lanes * n_gates + at) * lanes + u % lanes] =
            u < units ? (a ? a[u] : 0) + (b ? b[u] : 0) + add : 0;
}

static void put_biases(const struct state *s, const struct rt_run *r, const struct room *at)
{
    const struct rt_cell *cell = s->layer.cell;
    const int n_joint = cell->n_gates - cell->n_late - cell->n_apart;

    for (int k = 0; k < 2; k++)
        for (int i = 0; i < s->part[k].n; i++) {
            const int g = s->part[k].first + i;
            put_bias(s, &r->in[k ? RT_RNN_BIAS_LATE : RT_RNN_BIAS],
                     g < n_joint ? &r->in[RT_RNN_R_BIAS] : NULL,
                     cell->gates[g] == 'f' ? s->forget_bias : 0, g, at->bias[k], i, s->part[k].n);
        }
    if (cell->n_apart > 0)
        put_bias(s, &r->in[RT_RNN_R_BIAS], NULL, 0, n_joint, at->r_bias, 0, 1);
}

/* A block of a state: rows [first, first + n) of `t` (or its only one, or its only column), filled
 * up with zeros. */
static void get_state(const struct state *s, const struct rt_tensor *t, int64_t first, int64_t n,
                      float *to)
{
    const int64_t wide = s->panels * s->loops->lanes, units = s->layer.units;

    const int64_t columns = t->rank > 0 ? t->dim[t->rank - 1] : 1;
    const int64_t row = t->rank < 2 || t->dim[0] == 1 ? 0 : columns;

    for (int64_t i = 0; i < n; i++, to += wide) {
        const float *from = (const float *)t->data + (first + i) * row;
        if (columns == units)
            memcpy(to, from, (size_t)units * sizeof *to);
        else
            for (int64_t u = 0; u < units; u++)
                to[u] = from[0];
        memset(to + units, 0, (size_t)(wide - units) * sizeof *to);
    }
}

static void put_state(const struct state *s, const float *from, int64_t n, float *to, int64_t row)
{
    const int64_t wide = s->panels * s->loops->lanes;

    for (int64_t i = 0; i < n; i++, from += wide, to += row)
        memcpy(to, from, (size_t)s->layer.units * sizeof *to);
}

/* Element [step, row] of y, which holds `length` steps. */
static float *y_at(const struct kn_layer *y, float *data, int64_t step, int64_t row)
{
    return data + (y->y_by_time ? step * y->batch + row : row * y->length + step) * y->units;
}

static int64_t y_row(const struct kn_layer *y)
{
    return y->y_by_time ? y->units : y->length * y->units;
}

/* The input's products of some steps of a block of rows, step by step. */
static void multiply_input(const struct state *s, const struct kn_layer *y, const float *x,
                           int64_t first, int64_t n, int64_t step, int64_t n_steps,
                           const struct room *at)
{
    const int64_t one = y->x_batch == 1 ? 0 : 1; /* the only row is every row */
    int64_t m = 0;

    for (int64_t t = step; t < step + n_steps; t++)
        for (int64_t i = first; i < first + n; i++)
            at->row[m++] =
                x + (y->x_by_time ? t * y->x_batch + i * one : i * one * y->time + t) * y->depth;
    for (int k = 0; k < 2 && s->part[k].n > 0; k++)
        s->loops->product(at->row, m, y->depth, s->part[k].w, s->panels, s->part[k].n, at->bias[k],
                          at->sums[k]);
}

static bool takes_step(const struct kn_layer *y, const struct rt_tensor *mask, int64_t step,
                       int64_t row)
{
    const int64_t i = y->mask_batch == 1 ? 0 : row;

    if (y->mask == RT_RNN_BY_STEP)
        return ((const uint8_t *)mask->data)[step * y->mask_batch + i];
    return step < kn_int_at(mask, i);
}

/* What a step did to rows that it should have left alone is undone; what each row writes. */
static void apply_mask(const struct state *s, const struct kn_layer *y, const struct rt_run *r,
                       int64_t step, int64_t first, int64_t n, const struct room *at)
{
    const int64_t wide = s->panels * s->loops->lanes;
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
            get_state(s, &r->in[RT_RNN_BEFORE], first + i, 1, written);
    }
}

/* One step from at->h to at->h_new, whose input's sums are there. */
static void take_step(const struct state *s, const struct kn_layer *y, int64_t n, int64_t in_chunk,
                      const struct room *at)
{
    const int lanes = s->loops->lanes, n_gates = s->part[0].n, n_late = s->part[1].n;
    struct kn_rnn_step step = {.gate_act = s->gate_act,
                               .act = s->act,
                               .rows = n,
                               .units = y->units,
                               .panels = s->panels,
                               .weights = s->r,
                               .later = s->later,
                               .bias = at->r_bias,
                               .sums_row = s->panels * lanes * n_gates,
                               .sums_panel = lanes * n_gates,
                               .late_row = s->panels * lanes * n_late,
                               .late_panel = lanes * n_late,
                               .h = at->h,
                               .h_new = at->h_new,
                               .c = at->c,
                               .spare = {at->spare[0], at->spare[1]}};

    step.sums = at->sums[0] + in_chunk * n * step.sums_row;
    step.late_sums = at->sums[1] + in_chunk * n * step.late_row;
    if (n_late == 0) {
        step.late_sums = step.sums + (y->cell->n_gates - y->cell->n_late) * lanes;
        step.late_row = step.sums_row;
        step.late_panel = step.sums_panel;
    }
    s->loops->step[y->cell->id](&step);
}

static enum rt_status run_block(const struct state *s, const struct kn_layer *y, struct rt_run *r,
                                int64_t first, int64_t n, struct room *at)
{
    const int64_t wide = s->panels * s->loops->lanes;
    const int64_t work = n * y->units * y->units * y->cell->n_gates / 8 + 64;
    const bool masked = y->mask != RT_RNN_ALL, reads = y->read != RT_RNN_UNREAD;
    const bool two = y->cell->n_states > 1;
    int64_t left = RT_WORK;

    get_state(s, &r->in[RT_RNN_H], first, n, at->h);
    if (two)
        get_state(s, &r->in[RT_RNN_C], first, n, at->c);
    if (masked && y->holds)
        get_state(s, &r->in[RT_RNN_BEFORE], first, n, at->written);
    for (int64_t t = 0; t < y->steps; t++) {
        if (t % s->chunk == 0)
            multiply_input(s, y, r->in[RT_RNN_X].data, first, n, t,
                           y->steps - t < s->chunk ? y->steps - t : s->chunk, at);
        if (masked && two)
            memcpy(at->c_old, at->c, (size_t)(n * wide) * sizeof *at->c);
        take_step(s, y, n, t % s->chunk, at);
        if (masked)
            apply_mask(s, y, r, t, first, n, at);
        float *const old = at->h;
        at->h = at->h_new;
        at->h_new = old;
        if (reads && y->keep == RT_RNN_KEEP_EACH)
            put_state(s, masked ? at->written : at->h, n, y_at(y, r->out[0].data, t, first),
                      y_row(y));
        if (rt_run_spend(r, &left, work))
            return r->err->code;
    }
    if (reads && y->keep == RT_RNN_KEEP_LAST)
        put_state(s, masked ? at->written : at->h, n, y_at(y, r->out[0].data, 0, first), y_row(y));
    put_state(s, at->h, n, (float *)r->out[1].data + first * y->units, y->units);
    if (two)
        put_state(s, at->c, n, (float *)r->out[2].data + first * y->units, y->units);
    return RT_OK;
}

static void info_of(const struct rt_tensor *t, struct rt_info *x)
{
    *x = (struct rt_info){.dtype = (enum rt_dtype)t->dtype, .shape.rank = t->rank, .value = t};
    memcpy(x->shape.dim, t->dim, sizeof t->dim);
}

/* Output 1 + k is the state as it came. */
static enum rt_status keep_state(struct rt_run *r, int k)
{
    const struct rt_tensor *from = &r->in[RT_RNN_H + k];
    void *to = kn_out(r, 1 + k, from->rank, from->dim);

    if (!to)
        return r->err->code;
    if (rt_tensor_count(from) > 0)
        memcpy(to, from->data, rt_tensor_bytes(from));
    return RT_OK;
}

static enum rt_status no_elements(struct rt_run *r, const struct kn_layer *y)
{
    const struct rt_shape each = {.rank = 2, .dim = {-1, y->units}};

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
        memset(r->out[0].data, 0, rt_tensor_bytes(&r->out[0]));
    for (int k = 0; k < 2 && !st; k++)
        if (y->steps == 0 || k >= y->cell->n_states)
            st = keep_state(r, k);
        else if (!kn_out(r, 1 + k, 2, (int64_t[]){y->batch, y->units}))
            st = r->err->code;
    return st;
}

static enum rt_status run(struct rt_run *r)
{
    const struct state *s = r->state;
    struct rt_info in[RT_RNN_N_IN];
    struct kn_layer y;
    struct room at;

    for (int k = 0; k < RT_RNN_N_IN; k++)
        info_of(&r->in[k], &in[k]);
    enum rt_status st = kn_layer_of(r->node, in, &y, r->err);
    if (st)
        return st;
    if (y.read == RT_RNN_READ && y.steps == 0)
        return no_elements(r, &y);
    st = make_outputs(r, &y);
    if (st || y.steps == 0)
        return st;
    lay_out(s, r->scratch, &at);
    put_biases(s, r, &at);
    for (int64_t first = 0; first < y.batch && !st; first += s->block)
        st = run_block(s, &y, r, first, y.batch - first < s->block ? y.batch - first : s->block,
                       &at);
    return st;
}

#define LIMITS                                                                                     \
    ((UINT64_C(1) << RT_RNN_LIMIT) | (UINT64_C(1) << RT_RNN_LIMIT_TOO) |                           \
     (UINT64_C(1) << RT_RNN_LENGTH))
const struct kn_entry kn_own_rnn = {
    .op = {.name = "_RNN",
           .shape_in = LIMITS,
           .infer = kn_layer_infer,
           .rows = kn_layer_rows,
           .own = &kn_layer_schema},
    .kernels =
        KN_KERNELS({.op = "_RNN", .device = "CPU", .name = "rnn", .prepare = prepare, .run = run}),
};
