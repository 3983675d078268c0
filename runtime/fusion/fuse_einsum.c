/*
 * Turns dense layers that a framework expresses as Einsum (Keras' EinsumDense, the projections of
 * Keras 2's attention) into matmuls:
 *
 *   Einsum(x, w) "abc,cd->abd"       BatchMatMulV2(x, w)
 *                "abc,cde->abde"     BatchMatMulV2, then a Reshape that splits the last axis
 *                "abcd,cde->abe"     a Reshape that merges the last axes of x, then BatchMatMulV2
 *
 * w is constant, so it is packed, and additions after the matmul become its epilogue. The letters
 * are arbitrary. In x and in the result, the axes that only x has must come first. In w, the axes
 * that are summed over must come first, in the same order as in x.
 */
#include "runtime/fusion/fuse.h"

#include <string.h>

#include "runtime/fusion/last_axes.h"

struct dense {
    struct pl_edge x, w;
    int n_kept,   /* number of axes that only x has */
        n_summed, /* number of axes that both x and w have */
        n_new;    /* number of axes that only w has */
    /* `summed` is the product of the lengths of the axes that both x and w have. `made` is the
     * product of the lengths of the axes that only w has. */
    int64_t summed, made;
};

static bool is_letter(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool pl_einsum_letters(const struct pl_node *n, struct rt_span part[3])
{
    const struct rt_span eq = rt_attr_str(n->def, "equation");
    const unsigned char *const p = eq.p, *comma, *arrow;

    if (!eq.n || !(comma = memchr(p, ',', eq.n)) || !(arrow = memchr(p, '-', eq.n)) ||
        arrow < comma || p + eq.n - arrow < 2 || arrow[1] != '>')
        return false;
    part[0] = (struct rt_span){p, (size_t)(comma - p)};
    part[1] = (struct rt_span){comma + 1, (size_t)(arrow - comma - 1)};
    part[2] = (struct rt_span){arrow + 2, (size_t)(p + eq.n - arrow - 2)};
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < part[k].n; i++)
            if (!is_letter(part[k].p[i]) || memchr(part[k].p, part[k].p[i], i))
                return false;
    return part[0].n <= RT_MAX_RANK && part[1].n <= RT_MAX_RANK && part[2].n <= RT_MAX_RANK;
}

static bool is_dense(const struct pl_graph *g, int i, struct dense *d)
{
    struct rt_span part[3];
    const struct pl_node *n = pl_float_by(g, (struct pl_edge){i, 0}, "Einsum", 2);
    const struct rt_tensor *w = n ? pl_constant(g, n->in[1]) : NULL;

    if (!w || w->dtype != RT_F32 || !pl_einsum_letters(n, part) || w->rank != (int)part[1].n)
        return false;
    *d = (struct dense){.x = n->in[0], .w = n->in[1], .summed = 1, .made = 1};
    while (d->n_kept < (int)part[0].n && d->n_kept < (int)part[2].n &&
           part[0].p[d->n_kept] == part[2].p[d->n_kept])
        d->n_kept++;
    d->n_summed = (int)part[0].n - d->n_kept;
    d->n_new = (int)part[2].n - d->n_kept;
    if (d->n_kept < 1 || d->n_summed < 1 || d->n_new < 1 ||
        d->n_summed + d->n_new != (int)part[1].n ||
        memcmp(part[0].p + d->n_kept, part[1].p, (size_t)d->n_summed) != 0 ||
        memcmp(part[2].p + d->n_kept, part[1].p + d->n_summed, (size_t)d->n_new) != 0)
        return false;
    for (int k = 0; k < d->n_kept; k++) /* Each axis must have its own letter. */
        if (memchr(part[1].p, part[0].p[k], part[1].n))
            return false;
    for (int k = 0; k < w->rank; k++)
        if (w->dim[k] < 1 || w->dim[k] > INT32_MAX ||
            __builtin_mul_overflow(*(k < d->n_summed ? &d->summed : &d->made), w->dim[k],
                                   k < d->n_summed ? &d->summed : &d->made))
            return false;
    return d->summed <= INT32_MAX && d->made <= INT32_MAX;
}

/* ---- the replacement ---- */

static struct pl_edge add_matrix(struct pl_graph *g, const struct dense *d, struct rt_error *err)
{
    struct rt_tensor value;

    rt_tensor_ref(&value, &g->node[d->w.node].value);
    value.rank = 2;
    value.dim[0] = d->summed;
    value.dim[1] = d->made;
    const struct pl_edge matrix = pl_add_constant(g, d->w.node, &value, err);
    if (matrix.node >= 0)
        g->node[matrix.node].frozen = g->node[d->w.node].frozen;
    return matrix;
}

/* Turns node `at` into a reshape of `x`, which has `rank` axes. The last axes have the lengths
 * `from` and get the lengths `to`. */
static enum rt_status put_axes(struct pl_graph *g, int at, struct pl_edge x, int rank,
                               const int64_t *from, int n_from, const int64_t *to, int n_to,
                               struct rt_error *err)
{
    int64_t *dims = rt_arena_array(g->arena, (size_t)(n_from + n_to), sizeof *dims);

    if (!dims)
        return rt_fail_memory(err, "a plan", 0);
    memcpy(dims, from, (size_t)n_from * sizeof *dims);
    memcpy(dims + n_from, to, (size_t)n_to * sizeof *dims);
    const struct rt_last_axes axes = {
        .rank = rank, .from = {(size_t)n_from, dims}, .to = {(size_t)n_to, dims + n_from}};
    return pl_put_fused(g, &at, 1, rt_last_axes_op(&axes), &x, RT_LAST_AXES_N_IN, err);
}

static enum rt_status put(struct pl_graph *g, int i, const struct dense *d, struct rt_error *err)
{
    const struct pl_edge w = add_matrix(g, d, err);
    struct pl_edge x = d->x;
    int64_t dim[RT_MAX_RANK];
    int matmul = i;
    enum rt_status st = RT_OK;

    if (w.node < 0)
        return err->code;
    memcpy(dim, g->node[d->w.node].value.dim, sizeof dim);
    if (d->n_summed > 1) {
        x = (struct pl_edge){pl_add_like(g, i, err), 0};
        st = x.node < 0 ? err->code
                        : put_axes(g, x.node, d->x, d->n_kept + d->n_summed, dim, d->n_summed,
                                   &d->summed, 1, err);
    }
    if (d->n_new > 1 && !st && (matmul = pl_add_like(g, i, err)) < 0)
        st = err->code;
    if (!st)
        st = pl_put_dense(g, matmul, x, w, d->n_kept + 1, err);
    if (!st && matmul != i)
        st = put_axes(g, i, (struct pl_edge){matmul, 0}, d->n_kept + 1, &d->made, 1,
                      dim + d->n_summed, d->n_new, err);
    return st;
}

enum rt_status pl_fuse_einsums(struct pl_graph *g, struct rt_error *err)
{
    const struct rt_registry *r = g->session->options.registry;
    const int n = g->n; /* New nodes are appended, so g->n grows. */
    enum rt_status st = RT_OK;

    if (!rt_registry_op(r, "_LastAxes") || !rt_registry_op(r, "BatchMatMulV2"))
        return RT_OK;
    for (int i = 0; i < n && !st; i++) {
        struct dense d;
        if (is_dense(g, i, &d))
            st = put(g, i, &d, err);
    }
    return st;
}
