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

/* ---- the ops ---- */

/* Which element of its list each step writes: one of its own, or always the first. */
enum keep { KEEP_EACH, KEEP_LAST };

enum { X, H, C, LSTM_W = 3, GRU_W = 2, R_MORE = 5, LIMIT = 6, LENGTH = 8, MASK, BEFORE, N_IN };

/*
 * r_more: the bias of the recurrent product, or, with the reset gate before it, the matrix of the
 * new state (r then holds that of the other two gates). bias, r_bias: a gate's with its columns.
 * Every edge of the loop that is left: limits are its bounds and how long the list is that it
 * writes; INT64_MAX: as many as x has. mask [time, batch, 1]: where it is false a row of a step
 * leaves the states as they are, and writes what it wrote last, `before` at first.
 *
 * Rows of x, the states and the mask broadcast with each other, c's and before's columns too: the
 * outputs have as many rows as all of them. A loop of no steps hands on the states as they are,
 * whatever their shapes.
 */
#define ARG(name_)                                                                                 \
    {                                                                                              \
        .name = (name_), .type_attr = -1, .number_attr = -1, .list_attr = -1                       \
    }
static const struct rt_arg_schema lstm_in[] = {
    ARG("x"),     ARG("h"),         ARG("c"),      ARG("w"),    ARG("r"),     ARG("bias"),
    ARG("limit"), ARG("limit_too"), ARG("length"), ARG("mask"), ARG("before")};
static const struct rt_arg_schema gru_in[] = {
    ARG("x"),     ARG("h"),         ARG("w"),      ARG("r"),    ARG("bias"),  ARG("r_more"),
    ARG("limit"), ARG("limit_too"), ARG("length"), ARG("mask"), ARG("before")};
static const struct rt_arg_schema outs[] = {ARG("y"), ARG("h"), ARG("c")};

/* Both ops have the same attributes; fuse_loop.c fills them by index. */
static const struct rt_attr_schema attrs[] = {
    {.name = "units", .type = RT_ATTR_INT},
    {.name = "depth", .type = RT_ATTR_INT},      /* of x */
    {.name = "x_row", .type = RT_ATTR_INT},      /* of w: where the part that multiplies x begins */
    {.name = "h_row", .type = RT_ATTR_INT},      /* of r: the same for the state */
    {.name = "order", .type = RT_ATTR_STRING},   /* which gates the columns hold: "ifgo", "zrn" */
    {.name = "x_by_time", .type = RT_ATTR_BOOL}, /* x is [time, batch, depth], not [batch, time] */
    {.name = "y_by_time", .type = RT_ATTR_BOOL},
    {.name = "keep", .type = RT_ATTR_INT},
    {.name = "forget_bias", .type = RT_ATTR_FLOAT},
    {.name = "reset_after", .type = RT_ATTR_BOOL},
    {.name = "is_read", .type = RT_ATTR_BOOL}, /* y; else it has no steps, but may be refused */
    {.name = "masked", .type = RT_ATTR_BOOL},  /* there are mask and before */
};
#define SCHEMA(name_, in_, n_out_)                                                                 \
    {                                                                                              \
        .name = (name_), .in = (in_), .out = outs, .attr = attrs, .n_in = N_IN, .n_out = (n_out_), \
        .n_attr = sizeof attrs / sizeof *attrs                                                     \
    }
static const struct rt_schema lstm_schema = SCHEMA("_LSTM", lstm_in, 3);
static const struct rt_schema gru_schema = SCHEMA("_GRU", gru_in, 2);

struct layer {
    enum kn_cell cell;
    enum keep keep;
    int gates, first_weight;
    int64_t units, depth;
    int64_t x_batch, time; /* of x */
    int64_t batch;         /* of all rows */
    int64_t steps, length;
    bool x_by_time, y_by_time;
    bool known;  /* steps and length are */
    bool fits;   /* a step could be taken */
    bool joined; /* x and h side by side are multiplied by one matrix */
    bool is_read, masked;
    int64_t mask_batch, mask_time;
};

static bool read_limit(const struct rt_info *x, int64_t time, int64_t *v)
{
    *v = -1;
    if (!x->value)
        return false;
    *v = kn_int_at(x->value, 0);
    if (*v == INT64_MAX)
        *v = time;
    return true;
}

static bool is_scalar(const struct rt_info *x)
{
    return !x->value || x->value->rank == 0;
}

static enum rt_status too_far(const char *what, int64_t i, struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "Trying to %s element %lld in a list with %lld elements.", what, (long long)i,
                   (long long)i);
}

static bool widen(int64_t *n, int64_t by)
{
    if (*n == 1)
        *n = by;
    return *n == by || by == 1;
}

/* Whether `x` broadcasts to [batch, units], which may get as many rows as it has. */
static bool broadcasts(const struct rt_shape *x, int64_t *batch, int64_t units)
{
    return x->rank <= 2 &&
           (x->rank == 0 || x->dim[x->rank - 1] == units || x->dim[x->rank - 1] == 1) &&
           (x->rank < 2 || widen(batch, x->dim[0]));
}

/* What a step would refuse; s->batch: the rows that it makes. */
static enum rt_status fit(const struct rt_info *in, struct layer *s, struct rt_error *err)
{
    const struct rt_shape *h = &in[H].shape, *mask = &in[MASK].shape, *before = &in[BEFORE].shape;

    s->batch = s->x_batch;
    if (h->rank != 2 || h->dim[1] != s->units)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Matrix size-incompatible: a state %s is not of %lld units", KN_TEXT(h),
                       (long long)s->units);
    if (s->joined && h->dim[0] != s->x_batch)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "ConcatOp : Dimension 0 in both shapes must be equal: "
                       "shape[0] = [%lld,%lld] vs. shape[1] = %s",
                       (long long)s->x_batch, (long long)s->depth, KN_TEXT(h));
    if (!widen(&s->batch, h->dim[0]) ||
        (s->cell == KN_LSTM && !broadcasts(&in[C].shape, &s->batch, s->units)))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Incompatible shapes: states %s and %s for a batch of %lld and %lld units",
                       KN_TEXT(h), KN_TEXT(&in[s->first_weight - 1].shape), (long long)s->x_batch,
                       (long long)s->units);
    for (int k = s->first_weight + 2; k < (s->cell == KN_GRU_BEFORE ? R_MORE : LIMIT); k++)
        if (in[k].shape.rank != 1 || in[k].shape.dim[0] != s->units * s->gates)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Incompatible shapes: a bias %s, not [%lld]",
                           KN_TEXT(&in[k].shape), (long long)(s->units * s->gates));
    if (!s->masked)
        return RT_OK;
    int64_t rows =
        mask->rank == 3 && mask->dim[2] == 1 && widen(&s->batch, mask->dim[1]) ? s->batch : -1;
    if (rows < 0 || !broadcasts(before, &rows, s->units) || rows != s->batch)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Incompatible shapes: a mask %s and outputs %s for a batch of %lld",
                       KN_TEXT(mask), KN_TEXT(before), (long long)s->batch);
    s->mask_batch = mask->dim[1];
    return RT_OK;
}

/* What the loop's bounds and its lists' lengths refuse. */
static enum rt_status count_steps(const struct rt_info *in, struct layer *s, struct rt_error *err)
{
    int64_t limit[3];

    s->known = true;
    for (int k = 0; k < 3; k++) {
        if (!is_scalar(&in[LIMIT + k]))
            return too_far("access", s->time, err);
        s->known = read_limit(&in[LIMIT + k], s->time, &limit[k]) && s->known;
    }
    if (!s->known)
        return RT_OK;
    s->steps = limit[0] < limit[1] ? limit[0] : limit[1];
    s->steps = s->steps < 0 ? 0 : s->steps;
    s->length = limit[2];
    if (s->length < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "The num_elements to reserve must be a non negative number, but got %lld",
                       (long long)s->length);
    if (s->steps > s->time && (s->time <= s->length || s->keep != KEEP_EACH))
        return too_far("access", s->time, err);
    if (s->masked && s->steps > s->mask_time)
        return too_far("access", s->mask_time, err);
    if (s->keep == KEEP_EACH && s->steps > s->length)
        return too_far("modify", s->length, err);
    if (s->keep == KEEP_LAST && s->steps > 0 && s->length == 0)
        return too_far("modify", 0, err);
    return RT_OK;
}

/* From exact shapes; err NULL: says only whether all is well. */
static enum rt_status layer_of(const struct rt_node *n, const struct rt_info *in, struct layer *s,
                               struct rt_error *err)
{
    const struct rt_shape *x = &in[X].shape, *mask = &in[MASK].shape;
    const bool is_lstm = strcmp(n->schema->name, "_LSTM") == 0;

    *s = (struct layer){
        .cell = is_lstm                          ? KN_LSTM
                : rt_attr_bool(n, "reset_after") ? KN_GRU
                                                 : KN_GRU_BEFORE,
        .keep = (enum keep)rt_attr_int(n, "keep"),
        .gates = is_lstm ? 4 : 3,
        .first_weight = is_lstm ? LSTM_W : GRU_W,
        .units = rt_attr_int(n, "units"),
        .depth = rt_attr_int(n, "depth"),
        .x_by_time = rt_attr_bool(n, "x_by_time"),
        .y_by_time = rt_attr_bool(n, "y_by_time"),
        .joined = rt_attr_int(n, "h_row") > 0,
        .is_read = rt_attr_bool(n, "is_read"),
        .masked = rt_attr_bool(n, "masked"),
    };
    if (x->rank != 3 || x->dim[2] != s->depth)
        return rt_fail(
            err, RT_INVALID_ARGUMENT,
            "Matrix size-incompatible: the steps of a sequence %s are not of %lld values",
            KN_TEXT(x), (long long)s->depth);
    if (s->masked && mask->rank == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Tensor must be at least a vector, but saw shape: []");
    s->time = x->dim[s->x_by_time ? 0 : 1];
    s->x_batch = x->dim[s->x_by_time ? 1 : 0];
    s->mask_time = s->masked ? mask->dim[0] : 0;
    s->fits = fit(in, s, NULL) == RT_OK;
    const enum rt_status st = count_steps(in, s, err);
    if (st || !s->known || s->steps == 0)
        return st;
    if (!s->fits)
        return fit(in, s, err);
    if (s->joined && s->steps > 1 && s->batch != s->x_batch)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "ConcatOp : Dimension 0 in both shapes must be equal: "
                       "shape[0] = [%lld,%lld] vs. shape[1] = [%lld,%lld]",
                       (long long)s->x_batch, (long long)s->depth, (long long)s->batch,
                       (long long)s->units);
    return RT_OK;
}

static void y_shape(const struct layer *s, struct rt_shape *o)
{
    const int64_t n = !s->is_read ? 0 : s->known ? s->length : -1;

    *o = (struct rt_shape){.rank = 3, .dim = {n, s->batch, s->units}};
    if (!s->y_by_time) {
        o->dim[0] = s->batch;
        o->dim[1] = n;
    }
}

/* Whether all rows and units are there, none of them broadcast. */
static bool is_whole(const struct layer *s, const struct rt_shape *x)
{
    return s->fits && x->rank == 2 && x->dim[0] == s->batch && x->dim[1] == s->units;
}

static enum rt_status infer(struct rt_infer *x)
{
    struct layer s;

    for (int k = 0; k < N_IN; k++)
        if ((k < LIMIT || k > LENGTH) && !kn_shape_known(&x->in[k].shape))
            return RT_OK;
    const enum rt_status st = layer_of(x->node, x->in, &s, x->err);
    if (st)
        return st;
    y_shape(&s, &x->out[0].shape);
    for (int k = 1; k < x->n_out; k++)
        if (s.known && s.steps == 0)
            x->out[k].shape = x->in[k].shape;
        else if (s.known || is_whole(&s, &x->in[k].shape))
            kn_set_shape(&x->out[k], 2, (int64_t[]){s.batch, s.units});
    return RT_OK;
}

/* Rows of x and of the states go together; every step of every row is taken. */
static void rows(struct rt_rows *r)
{
    struct layer s;

    if (kn_rows_settled(r))
        return;
    for (int k = 0; k < N_IN; k++)
        if ((k < LIMIT || k > LENGTH) && !kn_shape_known(&r->in[k].shape))
            return;
    if (layer_of(r->node, r->in, &s, NULL) || !s.known || !s.fits || s.steps != s.time ||
        s.batch != s.x_batch || (s.masked && s.mask_batch != s.batch) ||
        (s.keep == KEEP_EACH && s.length != s.time) || (s.keep == KEEP_LAST && s.length != 1))
        return;
    for (int k = 0; k < r->n_in; k++) {
        const struct rt_dep *d = &r->in_dep[k];
        const bool by_row = k < s.first_weight || (k > LENGTH && s.masked);
        const int axis = (k == X && s.x_by_time) || k == MASK ? 1 : 0;
        const bool is_size = k >= LIMIT && k <= LENGTH && d->kind == RT_DEP_SIZE;
        if (by_row && k != X && k != MASK && !is_whole(&s, &r->in[k].shape))
            return;
        if (by_row ? d->kind != RT_DEP_ROWS || d->axis != axis : d->kind != RT_DEP_NONE && !is_size)
            return;
    }
    for (int k = 0; k < r->n_out; k++)
        r->out_dep[k] = (struct rt_dep){RT_DEP_ROWS, k == 0 && s.y_by_time ? 1 : 0};
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

struct state {
    const struct kn_rnn_loops *loops;
    struct layer layer;
    const float *w, *r, *later; /* packed */
    int32_t column[4];
    int64_t panels, block, chunk; /* rows and steps at once */
};

/* Floats, or pointers, of each part of scratch; all together in bytes. */
struct room {
    const float **row;
    float *sums, *bias, *r_bias, *h, *h_new, *c, *update, *reset;
    float *c_old, *written; /* of masked layers */
};

static size_t lay_out(const struct state *s, char *scratch, struct room *at)
{
    const int64_t wide = s->panels * s->loops->lanes, state = s->block * wide;
    const int64_t rows = s->block * s->chunk;
    const int64_t masked = s->layer.masked ? state : 0, gates = wide * s->layer.gates;
    const struct {
        float **part;
        int64_t n;
    } need[] = {{&at->sums, rows * gates}, {&at->bias, gates},  {&at->r_bias, wide},
                {&at->h, state},           {&at->h_new, state}, {&at->c, state},
                {&at->update, state},      {&at->reset, state}, {&at->c_old, masked},
                {&at->written, masked}};
    size_t used = ((size_t)rows * sizeof *at->row + 63) & ~(size_t)63;

    at->row = (const float **)scratch;
    for (size_t k = 0; k < sizeof need / sizeof *need; k++) {
        *need[k].part = scratch ? (float *)(scratch + used) : NULL;
        used += ((size_t)need[k].n * sizeof(float) + 63) & ~(size_t)63;
    }
    return used;
}

static enum rt_status prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    struct room room;

    if (!s)
        return p->err->code;
    enum rt_status st = layer_of(p->node, p->in, &s->layer, p->err);
    if (st)
        return st;
    const struct layer *y = &s->layer;
    const char *order = (const char *)rt_attr_str(p->node, "order").p;
    for (int g = 0; g < y->gates; g++)
        s->column[g] = (int32_t)(strchr(order, (y->gates == 4 ? "ifgo" : "zrn")[g]) - order);
    s->loops = kn_rnn_loops_here(0);
    s->panels = panels_of(y->units, s->loops->lanes);
    s->block = y->batch < ROWS_AT_ONCE ? (y->batch > 0 ? y->batch : 1) : ROWS_AT_ONCE;
    s->chunk = ROWS_AT_ONCE / s->block;
    s->chunk = s->chunk < y->time ? s->chunk : y->time > 0 ? y->time : 1;

    struct format f = {.name = "rnn",
                       .lanes = s->loops->lanes,
                       .gates = y->gates,
                       .row = rt_attr_int(p->node, "x_row"),
                       .rows = y->depth,
                       .units = y->units};
    memcpy(f.column, s->column, sizeof f.column);
    st = pack(p, y->first_weight, &f, &s->w);
    f.row = rt_attr_int(p->node, "h_row");
    f.rows = y->units;
    if (y->cell == KN_GRU_BEFORE)
        f.gates = 2;
    if (!st)
        st = pack(p, y->first_weight + 1, &f, &s->r);
    if (!st && y->cell == KN_GRU_BEFORE) {
        f.gates = 1;
        f.column[0] = 0;
        st = pack(p, R_MORE, &f, &s->later);
    }
    p->scratch_bytes = lay_out(s, NULL, &room);
    *state = s;
    return st;
}

/* The bias of gate g (and what is added to it), one row of `panels * n_gates * lanes`. */
static void put_bias(const struct state *s, const float *bias, const float *more, float add, int g,
                     float *row, int at, int n_gates)
{
    const int lanes = s->loops->lanes;
    const int64_t from = s->column[g] * s->layer.units;

    for (int64_t u = 0; u < s->panels * lanes; u++)
        row[(u / lanes * n_gates + at) * lanes + u % lanes] =
            u < s->layer.units ? bias[from + u] + (more ? more[from + u] : 0) + add : 0;
}

static void put_biases(const struct state *s, const struct rt_run *r, const struct room *at)
{
    const struct layer *y = &s->layer;
    const float *bias = r->in[y->first_weight + 2].data;
    const float *r_bias = y->cell == KN_GRU ? r->in[R_MORE].data : NULL;

    for (int g = 0; g < y->gates; g++)
        put_bias(s, bias, y->cell == KN_GRU && g == 2 ? NULL : r_bias,
                 y->cell == KN_LSTM && g == 1 ? rt_attr_float(r->node, "forget_bias") : 0, g,
                 at->bias, g, y->gates);
    if (y->cell == KN_GRU)
        put_bias(s, r_bias, NULL, 0, 2, at->r_bias, 0, 1);
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
static float *y_at(const struct layer *y, float *data, int64_t step, int64_t row)
{
    return data + (y->y_by_time ? step * y->batch + row : row * y->length + step) * y->units;
}

static int64_t y_row(const struct layer *y)
{
    return y->y_by_time ? y->units : y->length * y->units;
}

/* The input's products of some steps of a block of rows, step by step. */
static void multiply_input(const struct state *s, const struct layer *y, const float *x,
                           int64_t first, int64_t n, int64_t step, int64_t n_steps,
                           const struct room *at)
{
    const int64_t one = y->x_batch == 1 ? 0 : 1; /* the only row is every row */
    int64_t m = 0;

    for (int64_t t = step; t < step + n_steps; t++)
        for (int64_t i = first; i < first + n; i++)
            at->row[m++] =
                x + (y->x_by_time ? t * y->x_batch + i * one : i * one * y->time + t) * y->depth;
    s->loops->product(at->row, m, y->depth, s->w, s->panels, y->gates, at->bias, at->sums);
}

/* What a step did to rows that it should have left alone is undone; the others' outputs are kept.
 */
static void apply_mask(const struct state *s, const struct layer *y, const struct rt_tensor *mask,
                       int64_t step, int64_t first, int64_t n, const struct room *at)
{
    const int64_t wide = s->panels * s->loops->lanes;
    const size_t bytes = (size_t)wide * sizeof(float);
    const uint8_t *on = (const uint8_t *)mask->data + step * y->mask_batch;

    for (int64_t i = 0; i < n; i++) {
        if (on[y->mask_batch == 1 ? 0 : first + i]) {
            memcpy(at->written + i * wide, at->h_new + i * wide, bytes);
            continue;
        }
        memcpy(at->h_new + i * wide, at->h + i * wide, bytes);
        if (y->cell == KN_LSTM)
            memcpy(at->c + i * wide, at->c_old + i * wide, bytes);
    }
}

static enum rt_status run_block(const struct state *s, const struct layer *y, struct rt_run *r,
                                int64_t first, int64_t n, struct room *at)
{
    const struct kn_rnn_loops *loops = s->loops;
    const int64_t sums_row = s->panels * loops->lanes * y->gates;
    const int64_t work = n * y->units * y->units * y->gates / 8 + 64;
    struct kn_rnn_step step = {.rows = n,
                               .units = y->units,
                               .panels = s->panels,
                               .weights = s->r,
                               .later = s->later,
                               .bias = at->r_bias,
                               .sums_row = sums_row,
                               .c = at->c,
                               .update = at->update,
                               .reset = at->reset};
    int64_t left = RT_WORK;

    get_state(s, &r->in[H], first, n, at->h);
    if (y->cell == KN_LSTM)
        get_state(s, &r->in[C], first, n, at->c);
    if (y->masked)
        get_state(s, &r->in[BEFORE], first, n, at->written);
    for (int64_t t = 0; t < y->steps; t++) {
        const int64_t in_chunk = t % s->chunk;
        if (in_chunk == 0)
            multiply_input(s, y, r->in[X].data, first, n, t,
                           y->steps - t < s->chunk ? y->steps - t : s->chunk, at);
        step.sums = at->sums + in_chunk * n * sums_row;
        step.h = at->h;
        step.h_new = at->h_new;
        if (y->masked && y->cell == KN_LSTM)
            memcpy(at->c_old, at->c, (size_t)(n * s->panels * loops->lanes) * sizeof *at->c);
        if (y->cell == KN_LSTM)
            loops->lstm(&step);
        else if (y->cell == KN_GRU)
            loops->gru(&step);
        else
            loops->gru_before(&step);
        if (y->masked)
            apply_mask(s, y, &r->in[MASK], t, first, n, at);
        float *const old = at->h;
        at->h = at->h_new;
        at->h_new = old;
        if (y->is_read && y->keep == KEEP_EACH)
            put_state(s, y->masked ? at->written : at->h, n, y_at(y, r->out[0].data, t, first),
                      y_row(y));
        if (rt_run_spend(r, &left, work))
            return r->err->code;
    }
    if (y->is_read && y->keep == KEEP_LAST)
        put_state(s, y->masked ? at->written : at->h, n, y_at(y, r->out[0].data, 0, first),
                  y_row(y));
    put_state(s, at->h, n, (float *)r->out[1].data + first * y->units, y->units);
    if (y->cell == KN_LSTM)
        put_state(s, at->c, n, (float *)r->out[2].data + first * y->units, y->units);
    return RT_OK;
}

static void info_of(const struct rt_tensor *t, struct rt_info *x)
{
    *x = (struct rt_info){.dtype = (enum rt_dtype)t->dtype, .shape.rank = t->rank, .value = t};
    memcpy(x->shape.dim, t->dim, sizeof t->dim);
}

/* After no steps. */
static enum rt_status keep_states(struct rt_run *r)
{
    for (int k = 1; k < r->n_out; k++) {
        const struct rt_tensor *from = &r->in[k];
        void *to = kn_out(r, k, from->rank, from->dim);
        if (!to)
            return r->err->code;
        if (rt_tensor_count(from) > 0)
            memcpy(to, from->data, rt_tensor_bytes(from));
    }
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    const struct state *s = r->state;
    struct rt_info in[N_IN];
    struct rt_shape shape;
    struct layer y;
    struct room at;

    for (int k = 0; k < N_IN; k++)
        info_of(&r->in[k], &in[k]);
    enum rt_status st = layer_of(r->node, in, &y, r->err);
    if (st)
        return st;
    if (y.is_read && y.steps == 0) {
        const struct rt_shape each = {.rank = 2, .dim = {-1, y.units}};
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       y.length == 0 ? "Tried to stack elements of an empty list with "
                                       "non-fully-defined element_shape: %s"
                                     : "Tried to stack list which only contains uninitialized "
                                       "tensors and has a non-fully-defined element_shape: %s",
                       KN_PARTIAL(&each));
    }
    y_shape(&y, &shape);
    if (!kn_out(r, 0, shape.rank, shape.dim))
        return r->err->code;
    const int64_t written = y.keep == KEEP_EACH ? y.steps : 1;
    if (y.is_read && y.length > written && rt_tensor_count(&r->out[0]) > 0)
        memset(r->out[0].data, 0, rt_tensor_bytes(&r->out[0]));
    if (y.steps == 0)
        return keep_states(r);
    for (int k = 1; k < r->n_out; k++)
        if (!kn_out(r, k, 2, (int64_t[]){y.batch, y.units}))
            return r->err->code;
    lay_out(s, r->scratch, &at);
    put_biases(s, r, &at);
    for (int64_t first = 0; first < y.batch && !st; first += s->block)
        st = run_block(s, &y, r, first, y.batch - first < s->block ? y.batch - first : s->block,
                       &at);
    return st;
}

#define LIMITS ((UINT64_C(1) << LIMIT) | (UINT64_C(1) << (LIMIT + 1)) | (UINT64_C(1) << LENGTH))
#define ENTRY(symbol, op_, name_, schema_)                                                         \
    const struct kn_entry kn_##symbol = {                                                          \
        .op =                                                                                      \
            {.name = (op_), .shape_in = LIMITS, .infer = infer, .rows = rows, .own = &(schema_)},  \
        .kernels = KN_KERNELS(                                                                     \
            {.op = (op_), .device = "CPU", .name = (name_), .prepare = prepare, .run = run}),      \
    };
ENTRY(own_lstm, "_LSTM", "lstm", lstm_schema)
ENTRY(own_gru, "_GRU", "gru", gru_schema)
