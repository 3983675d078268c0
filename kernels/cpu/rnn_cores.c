/*
 * A recurrent layer on several cores: rows of the batch do not depend on each other, so that each
 * core takes all the steps of its own rows, as rnn.c does them, and waits for none between steps.
 * A row's sums do not depend on the rows beside it: nor do the answer's bits on the cores.
 *
 * A part reads its rows where they are, as long as they are neighbours; of sequences that are
 * [time, batch, ...] it has copies, which are little beside the products.
 */
#include <string.h>

#include "kernels/cpu/array.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rnn.h"
#include "kernels/entry.h"
#include "runtime/parallel.h"

enum { PART_ROWS = 64 };              /* more of them at once gain nothing */
static const double COPY_MOST = 1e12; /* elements: beyond any memory */

/* How rows lie in a tensor [batch, ...] or [time, batch, ...]. */
struct rows {
    bool cut;      /* it has one for each of the batch: else each part has all of it */
    bool apart;    /* they are no neighbours: a part has a copy, at `at` of its room */
    int axis;      /* of the batch */
    int64_t times; /* before it */
    size_t bytes;  /* of one row at one time */
    size_t at;
};

struct state {
    void *layer; /* rnn.c's */
    int64_t batch, part_rows, slots;
    struct rows in[RT_RNN_N_IN], out[3];
    size_t slot_bytes; /* of scratch: the layer's, then copies */
};

static const struct rt_kernel *on_one_core(void)
{
    return kn_own_rnn.kernels;
}

static struct rows rows_of(const struct state *s, const struct rt_info *x, int axis)
{
    const struct rt_shape *shape = &x->shape;
    struct rows rows = {.axis = axis, .times = 1, .bytes = rt_dtype_size(x->dtype)};

    rows.cut = shape->rank > axis && shape->dim[axis] == s->batch;
    for (int i = 0; i < axis && rows.cut; i++)
        rows.times *= shape->dim[i];
    for (int i = axis + 1; i < shape->rank && rows.cut; i++)
        rows.bytes *= (size_t)shape->dim[i];
    rows.apart = rows.cut && rows.times > 1;
    return rows;
}

/* False: one core does it all, as nothing is gained, or as rows are not all alike. */
static bool cut(struct state *s, const struct rt_prep *p)
{
    struct kn_layer y;
    const int width = rt_prep_width(p);
    int axis;

    if (width < 2 || kn_layer_of(p->node, p->in, &y, NULL) || !y.known || y.steps == 0 ||
        y.y_rows >= 0 || rt_attr_int(p->node, "x_rows") >= 0 ||
        (y.cell->n_states < 2 && !kn_is_none(&p->in[RT_RNN_C].shape)))
        return false;
    const double row =
        (double)y.steps * y.cell->n_gates * (double)y.units * (double)(y.depth + y.width);
    const double most = (double)y.batch * row / KN_SHARE;
    s->batch = y.batch;
    s->slots = most < width ? (int64_t)most : width;
    s->slots = s->slots < y.batch ? s->slots : y.batch;
    if (s->slots < 2)
        return false;
    const int64_t each = (y.batch - 1) / s->slots + 1;
    s->part_rows = kn_even_parts(y.batch, each < PART_ROWS ? each : PART_ROWS, s->slots);
    for (int k = 0; k < RT_RNN_N_IN; k++)
        if (kn_layer_by_row(&y, k, &axis))
            s->in[k] = rows_of(s, &p->in[k], axis);
    for (int k = 0; k < 1 + y.cell->n_states; k++) {
        if (!kn_shape_known(&p->out[k].shape))
            return false;
        s->out[k] = rows_of(s, &p->out[k], k == 0 && y.y_by_time);
    }
    return (double)y.length * (double)y.batch * (double)y.width < COPY_MOST;
}

static int can(const struct rt_prep *p)
{
    struct state s = {.layer = NULL};
    return cut(&s, p) ? 2 : 0;
}

static void place(const struct state *s, struct rows *rows, size_t *used)
{
    rows->at = *used;
    if (rows->apart)
        *used += kn_padded((size_t)rows->times * (size_t)s->part_rows * rows->bytes);
}

static enum rt_status prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);

    if (!s)
        return p->err->code;
    if (!cut(s, p))
        return rt_fail(p->err, RT_INTERNAL, "%s: a layer that is not cut", p->node->name);
    const enum rt_status st = on_one_core()->prepare(p, &s->layer);
    if (st)
        return st;
    s->slot_bytes = kn_padded(p->scratch_bytes);
    for (int k = 0; k < RT_RNN_N_IN; k++)
        place(s, &s->in[k], &s->slot_bytes);
    place(s, &s->out[0], &s->slot_bytes);
    p->scratch_bytes = (size_t)s->slots * s->slot_bytes;
    *state = s;
    return RT_OK;
}

/* Rows [first, first + n) of `whole`. */
static struct rt_tensor part_of(const struct rows *rows, const struct rt_tensor *whole,
                                int64_t first, int64_t n, char *room)
{
    struct rt_tensor t = *whole;

    if (!rows->cut)
        return t;
    t.dim[rows->axis] = n;
    if (t.data)
        t.data = rows->apart ? room + rows->at : (char *)t.data + (size_t)first * rows->bytes;
    return t;
}

/* The copy of a part and what it is one of: n rows of each time, `from` and `to` so many apart. */
static void copy(const struct rows *rows, const char *from, size_t from_time, char *to,
                 size_t to_time, int64_t n)
{
    for (int64_t t = 0; t < rows->times; t++, from += from_time, to += to_time)
        memcpy(to, from, (size_t)n * rows->bytes);
}

static enum rt_status some_rows(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    const struct state *s = r->state;
    const int64_t first = i * s->part_rows, left = s->batch - first;
    const int64_t n = left < s->part_rows ? left : s->part_rows;
    char *room = (char *)r->scratch + (size_t)slot * s->slot_bytes;
    struct rt_tensor in[RT_RNN_N_IN], out[3];
    struct rt_run own = *r;
    (void)arg;

    if (i >= s->slots && rt_run_check(r))
        return r->err->code;
    for (int k = 0; k < RT_RNN_N_IN; k++) {
        const struct rows *x = &s->in[k];
        in[k] = part_of(x, &r->in[k], first, n, room);
        if (x->apart && in[k].data)
            copy(x, (const char *)r->in[k].data + (size_t)first * x->bytes,
                 (size_t)s->batch * x->bytes, in[k].data, (size_t)n * x->bytes, n);
    }
    for (int k = 0; k < 3; k++)
        out[k] = part_of(&s->out[k], &r->out[k], first, n, room);
    own.in = in;
    own.out = out;
    own.state = s->layer;
    own.scratch = room;
    const enum rt_status st = on_one_core()->run(&own);
    const struct rows *y = &s->out[0];
    if (!st && y->apart && out[0].data)
        copy(y, out[0].data, (size_t)n * y->bytes,
             (char *)r->out[0].data + (size_t)first * y->bytes, (size_t)s->batch * y->bytes, n);
    return st;
}

static enum rt_status run(struct rt_run *r)
{
    const struct state *s = r->state;

    if (rt_run_width(r) > 1)
        return kn_parallel_parts(r, (s->batch - 1) / s->part_rows + 1, s->slots, some_rows, NULL);
    struct rt_run own = *r;
    own.state = s->layer;
    return on_one_core()->run(&own);
}

const struct kn_entry kn_own_rnn_cores = {
    .kernels = KN_KERNELS({.op = "_RNN",
                           .device = "CPU",
                           .name = "rnn.cores",
                           .can = can,
                           .prepare = prepare,
                           .run = run}),
};
