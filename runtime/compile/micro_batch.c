/*
 * Micro-batches. If the activation buffer of a large batch exceeds a core's caches, each node reads
 * from memory what the preceding node has just written. Such a batch is run a few rows at a time
 * instead. Row-wise analysis must show that the rows are independent. The constants must also be
 * small compared with the other data, because every micro-batch reads them again.
 */
#include <stdlib.h>

#include "runtime/compile/compile.h"
#include "runtime/exec/parallel.h"
#include "runtime/passes/passes.h"
#include "runtime/select/prepared.h"

enum {
    /* MICRO_BATCH_BYTES is the intended size of a micro-batch's activation buffer: about one core's
     * share of the caches. A batch is split if its activation buffer has SPLIT_BYTES or more. */
    MICRO_BATCH_BYTES = 12 << 20,
    SPLIT_BYTES = 20 << 20,
    /* Each additional micro-batch reads the constants again. The repeated reads may be at most
     * 1/LEAST_TIMES of the other bytes that the nodes read and write. */
    LEAST_TIMES = 4,
};

/* ---- which batches are split ---- */

static bool is_plain_value(const struct rt_plan *p, int v, enum rt_dtype dtype)
{
    return v >= 0 && !p->constant[v] && rt_dtype_is_plain(dtype);
}

/* Returns whether every feed is live and has `rows` rows, and every fetch is a distinct computed
 * value. */
static bool has_rows(const struct rt_plan *p, const struct rt_specialisation *l, int64_t rows)
{
    if (p->n_feeds < 1 || p->n_feeds > RT_MICRO_BATCH_ARGS || p->n_fetches > RT_MICRO_BATCH_ARGS ||
        l->n_live != p->n_feeds)
        return false;
    for (int k = 0; k < l->n_live; k++)
        if (!rt_dtype_is_plain((enum rt_dtype)l->live[k].dtype) || l->live[k].shape.rank < 1 ||
            l->live[k].shape.dim[0] != rows)
            return false;
    for (int k = 0; k < p->n_fetches; k++) {
        if (!is_plain_value(p, p->fetch_value[k], (enum rt_dtype)p->fetch_dtype[k]))
            return false;
        for (int j = 0; j < k; j++)
            if (p->fetch_value[j] == p->fetch_value[k])
                return false;
        for (int j = 0; j < p->n_feeds; j++)
            if (p->feed_value[j] == p->fetch_value[k])
                return false;
    }
    return true;
}

/* Counts the bytes that all steps read and write. Counts the bytes of constants separately. */
static void count_bytes(const struct rt_specialisation *l, double *all, double *constants)
{
    *all = *constants = 0;
    for (int k = 0; k < l->n_steps; k++) {
        const struct rt_step *s = &l->step[k];
        const struct rt_plan_step *n = &l->plan->node[s->node];
        if (s->kind != RT_STEP_KERNEL)
            continue;
        *constants += (double)s->prepared->packed_bytes;
        for (int i = 0; i < n->n_in; i++) {
            const bool packed = i < 64 && (s->prepared->packed >> i & 1);
            const double bytes = packed ? 0 : (double)rt_tensor_bytes(&l->arg[s->in + i]);
            if (l->arg_kind[s->in + i] == RT_ARG_CONST)
                *constants += bytes;
            else
                *all += bytes;
        }
        for (int o = 0; o < n->n_out; o++)
            *all += (double)rt_tensor_bytes(&l->arg[s->out + o]);
    }
}

static bool is_rowwise(const struct rt_plan *p, const struct rt_specialisation *l)
{
    struct rt_shape shape[RT_MICRO_BATCH_ARGS];
    struct rt_error ignored = {.arena = NULL};

    for (int k = 0; k < p->n_feeds; k++)
        for (int j = 0; j < l->n_live; j++)
            if (l->live[j].value == p->feed_value[k]) {
                shape[k] = l->live[j].shape;
                shape[k].dim[0] = -1;
            }
    return rt_plan_is_rowwise(p, shape, &ignored);
}

int64_t rt_micro_batch_rows(const struct rt_specialisation *l)
{
    const struct rt_plan *p = l->plan;
    const int64_t rows = l->n_live && l->live[0].shape.rank > 0 ? l->live[0].shape.dim[0] : 0;
    double all, constants;

    if (!p->compiled || l->begin || l->end != p->n_nodes || rows < 2 || l->n_regions ||
        l->activation_bytes < SPLIT_BYTES ||
        /* If the plan had effects, one micro-batch could read the state that another has
         * written. */
        (p->effects & ~(1u << RT_PURE)) || !has_rows(p, l, rows))
        return 0;
    const double per_row = (double)l->activation_bytes / (double)rows;
    const int64_t width = rt_parallel_width(p->session->options.parallel);
    int64_t some = per_row < MICRO_BATCH_BYTES ? (int64_t)(MICRO_BATCH_BYTES / per_row) : 1;
    some = some < width ? width : some; /* at least one row per core of the session */
    count_bytes(l, &all, &constants);
    int64_t n_micro_batches = (rows + some - 1) / some;
    if (all < LEAST_TIMES * constants * (double)(n_micro_batches - 1))
        n_micro_batches = 1 + (int64_t)(all / (LEAST_TIMES * constants));
    some = (rows + n_micro_batches - 1) / n_micro_batches;
    return some < rows && (some <= width || (double)some * per_row < SPLIT_BYTES) &&
                   is_rowwise(p, l)
               ? some
               : 0;
}

/* ---- making the specialisations ---- */

/* Returns a copy of the live values of `l` in which the shapes have `rows` rows, or NULL if memory
 * runs out. */
static struct rt_live *live_of(const struct rt_specialisation *l, int64_t rows)
{
    struct rt_live *live = calloc((size_t)l->n_live + 1, sizeof *live);

    for (int k = 0; k < l->n_live && live; k++) {
        live[k] = (struct rt_live){
            .value = l->live[k].value, .dtype = l->live[k].dtype, .shape = l->live[k].shape};
        live[k].shape.dim[0] = rows;
    }
    return live;
}

enum rt_status rt_micro_batches_new(const struct rt_specialisation *l, int64_t rows,
                                    struct rt_specialisation **whole,
                                    struct rt_specialisation **micro_batch, struct rt_error *err)
{
    struct rt_live *live = live_of(l, rows);
    struct rt_specialisation *w = calloc(1, sizeof *w);
    enum rt_status st = RT_OK;

    if (!live || !w || !(w->live = live_of(l, l->live[0].shape.dim[0])))
        st = rt_fail_memory(err, "a layout", sizeof *w);
    if (!st)
        st = rt_specialisation_new(l->plan, 0, live, l->n_live, l->accelerator, micro_batch, err);
    free(live);
    if (st) {
        if (w)
            free(w->live);
        free(w);
        return st;
    }
    w->plan = l->plan;
    w->end = l->end;
    w->n_live = l->n_live;
    w->micro_batch = rows;
    w->bytes = sizeof *w + (size_t)w->n_live * sizeof *w->live;
    atomic_init(&w->refs, 1);
    *whole = w;
    return RT_OK;
}
