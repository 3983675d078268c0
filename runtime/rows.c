/*
 * Proof that requests may be merged along dimension 0: the plan is walked with two different batch
 * sizes, shapes exact, small host values evaluated on the way, and each op's row rule says how its
 * outputs depend on the rows. Both walks must show that slice i of every fetch along dimension 0
 * depends on row i of the feeds alone. No symbolic algebra: a shape that follows the batch shows
 * itself by following both sizes.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/plan.h"

enum { SMALL_DIM = 4 };

/* ---- stock rules ---- */

static bool is_rows(const struct rt_dep *d)
{
    return d->kind == RT_DEP_ROWS;
}

void rt_rows_same(struct rt_rows *r)
{
    for (int k = 1; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE)
            return;
    for (int o = 0; o < r->n_out; o++)
        r->out_dep[o] = r->in_dep[0];
}

/* All that varies must vary along the same axis of the output; the rest must be one wide there. */
void rt_rows_each(struct rt_rows *r)
{
    int rank = 0, axis = -1;
    for (int k = 0; k < r->n_in; k++) {
        if (r->in[k].shape.rank < 0)
            return;
        if (r->in[k].shape.rank > rank)
            rank = r->in[k].shape.rank;
    }
    for (int k = 0; k < r->n_in; k++) {
        if (r->in_dep[k].kind == RT_DEP_NONE)
            continue;
        if (!is_rows(&r->in_dep[k]))
            return;
        int at = r->in_dep[k].axis + rank - r->in[k].shape.rank;
        if (axis >= 0 && axis != at)
            return;
        axis = at;
    }
    if (axis < 0)
        return;
    for (int k = 0; k < r->n_in; k++) {
        int at = axis - (rank - r->in[k].shape.rank);
        if (r->in_dep[k].kind == RT_DEP_NONE && at >= 0 && r->in[k].shape.dim[at] != 1)
            return;
    }
    for (int o = 0; o < r->n_out; o++)
        r->out_dep[o] = (struct rt_dep){RT_DEP_ROWS, axis};
}

void rt_rows_first(struct rt_rows *r)
{
    for (int k = 1; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE)
            return;
    if (!is_rows(&r->in_dep[0]) || r->in_dep[0].axis != 0)
        return;
    for (int o = 0; o < r->n_out; o++)
        if (r->out[o].shape.rank >= 1 && r->out[o].shape.dim[0] == r->n_rows)
            r->out_dep[o] = (struct rt_dep){RT_DEP_ROWS, 0};
}

void rt_rows_reshape(struct rt_rows *r)
{
    const struct rt_shape *in = &r->in[0].shape, *out = &r->out[0].shape;
    for (int k = 1; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE && r->in_dep[k].kind != RT_DEP_SIZE)
            return;
    if (!is_rows(&r->in_dep[0]) || in->rank < 0 || out->rank < 0)
        return;
    int64_t before = 1, so_far = 1;
    for (int d = 0; d < r->in_dep[0].axis; d++)
        before *= in->dim[d];
    for (int d = 0; d < out->rank; d++) {
        if (out->dim[d] < 0)
            return;
        if (so_far == before && out->dim[d] == in->dim[r->in_dep[0].axis]) {
            r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, d};
            return;
        }
        so_far *= out->dim[d];
    }
}

void rt_rows_shape(struct rt_rows *r)
{
    for (int k = 0; k < r->n_in; k++)
        if (r->in_dep[k].kind == RT_DEP_MIXED)
            return;
    for (int o = 0; o < r->n_out; o++)
        r->out_dep[o].kind = RT_DEP_SIZE;
}

/* ---- the walk ---- */

struct walk {
    const struct rt_plan *plan;
    int64_t n_rows;
    struct rt_info *info;    /* per value */
    struct rt_dep *dep;      /* per value */
    struct rt_tensor *value; /* per value: what `info` points to, when evaluated here */
    struct rt_error *why;
    bool *no_memory; /* some memory was refused: what is not proved may be provable */
};

static bool walk_plan(struct walk *w, struct rt_error *err);

static void evaluate(struct walk *w, struct pl_node *n, const struct rt_info *in)
{
    struct rt_info *out = &w->info[n->first_value];
    struct rt_tensor *result = &w->value[n->first_value];
    if (n->n_out == 1 && rt_plan_know(w->plan->session, n, in, out, result, w->no_memory))
        rt_info_of(out, result);
}

static bool walk_op(struct walk *w, struct pl_node *n)
{
    const struct rt_op *op = n->def->op;
    struct rt_info *in = calloc((size_t)n->n_in + 1, sizeof *in), *out = &w->info[n->first_value];
    struct rt_dep *in_dep = calloc((size_t)n->n_in + 1, sizeof *in_dep);
    struct rt_dep *out_dep = &w->dep[n->first_value];
    int8_t *alias = calloc((size_t)n->n_out + 1, 1);
    struct rt_error err = {0};
    bool any = false, content = false, ok = in && in_dep && alias;
    if (!ok)
        *w->no_memory = true;
    for (int k = 0; k < n->n_in && ok; k++) {
        in[k] = w->info[n->in_value[k]];
        if (pl_reads_variable(n->def, k, (uint8_t)in[k].dtype))
            in[k] = (struct rt_info){.dtype = (enum rt_dtype)n->def->in_dtype[k], .shape.rank = -1};
        in_dep[k] = w->dep[n->in_value[k]];
        any |= in_dep[k].kind != RT_DEP_NONE;
        content |= in_dep[k].kind == RT_DEP_ROWS || in_dep[k].kind == RT_DEP_MIXED;
    }
    for (int o = 0; o < n->n_out; o++) {
        out[o].dtype = (enum rt_dtype)n->def->out_dtype[o];
        out[o].shape.rank = -1;
        out_dep[o].kind = any ? RT_DEP_MIXED : RT_DEP_NONE;
    }
    if (ok && op->infer) {
        struct rt_infer x = {.node = n->def,
                             .n_in = n->n_in,
                             .n_out = n->n_out,
                             .in = in,
                             .out = out,
                             .alias = alias,
                             .err = &err};
        bool exact = true; /* infer is promised exact inputs elsewhere; here some are unknown */
        for (int k = 0; k < n->n_in; k++)
            exact &=
                in[k].shape.rank >= 0 || in[k].dtype == RT_RESOURCE || in[k].dtype == RT_VARIANT;
        if (exact && rt_infer_shapes(&x) != RT_OK) {
            ok = false;
            if (err.code == RT_RESOURCE_EXHAUSTED)
                *w->no_memory = true;
            rt_fail(w->why, RT_FAILED_PRECONDITION, "node '%s' (%s) refuses a batch of %lld: %s",
                    n->name, op->name, (long long)w->n_rows, rt_error_text(&err));
        }
    }
    if (ok)
        evaluate(w, n, in);
    if (ok && any) {
        if (op->rows) {
            struct rt_rows r = {.node = n->def,
                                .n_rows = w->n_rows,
                                .n_in = n->n_in,
                                .n_out = n->n_out,
                                .in = in,
                                .out = out,
                                .in_dep = in_dep,
                                .out_dep = out_dep};
            op->rows(&r);
        }
        for (int o = 0; o < n->n_out; o++) {
            if (out_dep[o].kind != RT_DEP_MIXED || content)
                continue;
            if (n->effect == RT_RANDOM)
                out_dep[o] = out[o].shape.rank > 0 && out[o].shape.dim[0] == w->n_rows
                                 ? (struct rt_dep){RT_DEP_ROWS, 0}
                                 : (struct rt_dep){RT_DEP_MIXED, 0};
            else
                out_dep[o].kind = RT_DEP_SIZE; /* made of sizes alone */
        }
        for (int o = 0; o < n->n_out && ok; o++)
            if (out_dep[o].kind == RT_DEP_MIXED && !w->why->code)
                rt_fail(w->why, RT_FAILED_PRECONDITION, "node '%s' (%s) is not proved row by row",
                        n->name, op->name);
    }
    free(in);
    free(in_dep);
    free(alias);
    return ok;
}

static bool walk_sub(struct walk *w, struct pl_node *n, struct rt_plan *sub, int skip,
                     struct rt_error *err)
{
    struct walk inner = {
        .plan = sub, .n_rows = w->n_rows, .why = w->why, .no_memory = w->no_memory};
    inner.info = calloc((size_t)sub->n_values + 1, sizeof *inner.info);
    inner.dep = calloc((size_t)sub->n_values + 1, sizeof *inner.dep);
    inner.value = calloc((size_t)sub->n_values + 1, sizeof *inner.value);
    bool ok = inner.info && inner.dep && inner.value;
    if (!ok)
        *w->no_memory = true;
    for (int k = 0; k < sub->n_feeds && ok; k++)
        if (sub->feed_value[k] >= 0) {
            inner.info[sub->feed_value[k]] = w->info[n->in_value[k + skip]];
            inner.dep[sub->feed_value[k]] = w->dep[n->in_value[k + skip]];
        }
    ok = ok && walk_plan(&inner, err);
    for (int o = 0; o < n->n_out && ok; o++) {
        struct rt_info *x = &w->info[n->first_value + o], *y = &inner.info[sub->fetch_value[o]];
        struct rt_dep *d = &w->dep[n->first_value + o], *e = &inner.dep[sub->fetch_value[o]];
        bool first = x->dtype == RT_NO_DTYPE;
        bool same =
            first ||
            (x->shape.rank == y->shape.rank &&
             memcmp(x->shape.dim, y->shape.dim,
                    sizeof(int64_t) * (size_t)(y->shape.rank > 0 ? y->shape.rank : 0)) == 0);
        if (first || d->kind == RT_DEP_NONE)
            *d = *e;
        else if (e->kind != RT_DEP_NONE && (e->kind != d->kind || e->axis != d->axis))
            d->kind = RT_DEP_MIXED;
        x->dtype = y->dtype;
        x->shape = y->shape;
        x->value = NULL;
        if (!same)
            x->shape.rank = -1;
    }
    for (int v = 0; inner.value && v < sub->n_values; v++)
        rt_tensor_clear(&inner.value[v]);
    free(inner.info);
    free(inner.dep);
    free(inner.value);
    return ok;
}

static bool walk_plan(struct walk *w, struct rt_error *err)
{
    const struct rt_plan *p = w->plan;
    if (p->tokens) {
        rt_fail(w->why, RT_FAILED_PRECONDITION, "its control flow (Switch, Merge) is not proved");
        return false;
    }
    for (int i = 0; i < p->n_nodes; i++) {
        struct pl_node *n = &p->node[i];
        bool any = false;
        for (int k = 0; k < n->n_in; k++)
            any |= w->dep[n->in_value[k]].kind != RT_DEP_NONE;
        switch ((enum pl_kind)n->kind) {
        case PL_CONST:
            rt_info_of(&w->info[n->first_value], &n->value);
            break;
        case PL_OP:
            if (n->def && !walk_op(w, n))
                return false;
            break;
        case PL_COPY:
            w->info[n->first_value] = w->info[n->in_value[0]];
            w->dep[n->first_value] = w->dep[n->in_value[0]];
            break;
        case PL_CALL:
            if (!walk_sub(w, n, n->sub[0], n->call_skip, err))
                return false;
            break;
        case PL_IF:
        case PL_CASE:
            if (w->dep[n->in_value[0]].kind != RT_DEP_NONE) {
                rt_fail(w->why, RT_FAILED_PRECONDITION,
                        "the branch that '%s' takes depends on the batch", n->name);
                return false;
            }
            for (int b = 0; b < n->n_sub; b++)
                if (!walk_sub(w, n, n->sub[b], 1, err))
                    return false;
            break;
        case PL_WHILE:
            for (int o = 0; o < n->n_out; o++) {
                w->info[n->first_value + o].shape.rank = -1;
                w->info[n->first_value + o].dtype = (enum rt_dtype)n->def->out_dtype[o];
                w->dep[n->first_value + o].kind = any ? RT_DEP_MIXED : RT_DEP_NONE;
            }
            if (any && !w->why->code)
                rt_fail(w->why, RT_FAILED_PRECONDITION, "loop '%s' is not proved row by row",
                        n->name);
            break;
        case PL_FEED:
        case PL_GONE:
            break;
        }
    }
    return true;
}

static bool walk_with(const struct rt_plan *p, const struct rt_shape *shapes, int64_t n_rows,
                      struct rt_error *why)
{
    bool no_memory = false;
    struct walk w = {.plan = p, .n_rows = n_rows, .why = why, .no_memory = &no_memory};
    struct rt_error err = {0};
    w.info = calloc((size_t)p->n_values + 1, sizeof *w.info);
    w.dep = calloc((size_t)p->n_values + 1, sizeof *w.dep);
    w.value = calloc((size_t)p->n_values + 1, sizeof *w.value);
    bool ok = w.info && w.dep && w.value;
    no_memory = !ok;
    for (int k = 0; k < p->n_feeds && ok; k++) {
        int v = p->feed_value[k];
        if (v < 0)
            continue;
        w.info[v].dtype = (enum rt_dtype)p->feed_dtype[k];
        w.info[v].shape = shapes[k];
        for (int d = 1; d < shapes[k].rank; d++)
            if (shapes[k].dim[d] < 0)
                w.info[v].shape.dim[d] = SMALL_DIM;
        w.info[v].shape.dim[0] = n_rows;
        w.dep[v] = (struct rt_dep){RT_DEP_ROWS, 0};
    }
    ok = ok && walk_plan(&w, &err);
    for (int k = 0; k < p->n_fetches && ok; k++) {
        int v = p->fetch_value[k];
        if (w.dep[v].kind == RT_DEP_ROWS && w.dep[v].axis == 0)
            continue;
        ok = false;
        if (w.dep[v].kind == RT_DEP_ROWS)
            rt_fail(why, RT_FAILED_PRECONDITION, "output %d has its rows along dimension %d", k,
                    w.dep[v].axis);
        else if (w.dep[v].kind != RT_DEP_MIXED || !why->code)
            rt_fail(why, RT_FAILED_PRECONDITION, "output %d does not hold one part per row", k);
    }
    if (ok)
        why->code = RT_OK;
    else if (no_memory)
        rt_fail(why, RT_RESOURCE_EXHAUSTED, "out of memory for the proof of the rows");
    for (int v = 0; w.value && v < p->n_values; v++)
        rt_tensor_clear(&w.value[v]);
    free(w.info);
    free(w.dep);
    free(w.value);
    return ok;
}

bool rt_plan_is_rowwise(const struct rt_plan *p, const struct rt_shape *shapes,
                        struct rt_error *why)
{
    why->code = RT_OK;
    for (int k = 0; k < p->n_feeds; k++) {
        if (shapes[k].rank < 1) {
            rt_fail(why, RT_FAILED_PRECONDITION, "input %d has %s", k,
                    shapes[k].rank < 0 ? "an unknown rank" : "no dimension to merge along");
            return false;
        }
        if (shapes[k].dim[0] >= 0) {
            rt_fail(why, RT_FAILED_PRECONDITION, "input %d has a fixed dimension 0 of %lld", k,
                    (long long)shapes[k].dim[0]);
            return false;
        }
    }
    return p->n_feeds > 0 && walk_with(p, shapes, 7, why) && walk_with(p, shapes, 11, why);
}
