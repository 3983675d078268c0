/* Small values that are known before a plan runs: by constants, or by shapes alone. */
#include "runtime/plan.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VALUE_ELEMENTS = 256, MAX_READ_ELEMENTS = 4096 };

void rt_info_of(struct rt_info *x, const struct rt_tensor *t)
{
    x->dtype = (enum rt_dtype)t->dtype;
    x->shape.rank = t->rank;
    memcpy(x->shape.dim, t->dim, sizeof t->dim);
    x->value = t;
}

bool rt_shape_is_exact(const struct rt_shape *s)
{
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d] < 0)
            return false;
    return s->rank >= 0;
}

bool rt_plan_know(struct rt_session *s, struct pl_node *n, const struct rt_info *in,
                  const struct rt_info *out, struct rt_tensor *result, bool *no_memory)
{
    bool by_shape = n->def->op->rows == rt_rows_shape;
    if (n->n_out != 1 || n->effect != RT_PURE || !rt_dtype_is_plain(out->dtype))
        return false;
    if (rt_shape_is_exact(&out->shape) &&
        rt_count(out->shape.rank, out->shape.dim) > MAX_VALUE_ELEMENTS)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        const struct rt_tensor *v = in[k].value;
        if (v ? rt_tensor_is_lazy(v) || rt_tensor_count(v) > MAX_READ_ELEMENTS
              : !by_shape || !rt_shape_is_exact(&in[k].shape))
            return false;
    }
    struct rt_tensor *t = calloc((size_t)n->n_in + 1, sizeof *t);
    if (!t) {
        *no_memory = true;
        return false;
    }
    for (int k = 0; k < n->n_in; k++) {
        if (in[k].value) {
            t[k] = *in[k].value;
            continue;
        }
        t[k].dtype = (uint8_t)in[k].dtype;
        t[k].rank = (int8_t)in[k].shape.rank;
        memcpy(t[k].dim, in[k].shape.dim, sizeof t[k].dim);
    }
    struct rt_error err = {0};
    const enum rt_status st = rt_plan_fold(s, n, t, 0, result, &err);
    free(t);
    if (st == RT_RESOURCE_EXHAUSTED)
        *no_memory = true;
    return st == RT_OK;
}

enum rt_status rt_plan_fold(struct rt_session *s, struct pl_node *n, const struct rt_tensor *in,
                            int k_out, struct rt_tensor *out, struct rt_error *err)
{
    /* A plan of this one node, for the time of the call. */
    struct rt_arena *arena = rt_arena_new((size_t)1 << 20);
    struct pl_graph g = {.session = s, .arena = arena, .n_fetches = 1};
    struct pl_edge fetch;
    struct rt_plan *p = NULL;
    uint8_t dtype = n->def->out_dtype[k_out];
    enum rt_status st = RT_OK;
    if (!arena)
        return rt_fail_memory(err, n->name, 0);
    int at = -1;
    for (int k = 0; k <= n->n_in; k++) {
        at = pl_add(&g, err);
        if (at < 0) {
            st = RT_RESOURCE_EXHAUSTED;
            goto end;
        }
        if (k < n->n_in) {
            g.node[at].kind = PL_CONST;
            g.node[at].n_out = 1;
            g.node[at].name = n->name;
            rt_tensor_ref(&g.node[at].value, &in[k]);
        }
    }
    struct pl_node *self = &g.node[at];
    self->kind = PL_OP;
    self->def = n->def;
    self->name = n->name;
    self->n_in = n->n_in;
    self->n_out = n->n_out;
    self->in = rt_arena_array(arena, (size_t)n->n_in + 1, sizeof *self->in);
    if (!self->in) {
        st = rt_fail_memory(err, n->name, 0);
        goto end;
    }
    for (int k = 0; k < n->n_in; k++)
        self->in[k] = (struct pl_edge){k, 0};
    fetch = (struct pl_edge){at, k_out};
    g.fetch = &fetch;
    g.fetch_dtype = &dtype;
    st = pl_finish(&g, &p, err);
    if (!st) {
        struct rt_pool *pool = rt_pool_new(256 << 20);
        struct rt_run_shared shared = {.session = s, .pool = pool};
        st = pool ? rt_plan_run(p, &shared, NULL, out, err) : rt_fail_memory(err, n->name, 0);
        rt_pool_unref(pool);
        arena = NULL; /* the plan's */
        rt_plan_free(p);
    }
end:
    for (int k = 0; k < g.n; k++)
        rt_tensor_clear(&g.node[k].value);
    free(g.node);
    free(g.target);
    rt_arena_free(arena);
    return st;
}
