/*
 * Einsum with one or two operands, as computed by TensorFlow's CPU kernel. einsum_equation.c parses
 * the equation, and the kernel of einsum_internal.h computes it.
 */
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/matmul/einsum_internal.h"

static bool is_exact(const struct rt_shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0)
            return false;
    return s->rank >= 0;
}

static enum rt_status einsum_infer(struct rt_infer *x)
{
    struct kn_einsum_equation e;

    for (int k = 0; k < x->n_in; k++)
        if (!is_exact(&x->in[k].shape))
            return RT_OK;
    const enum rt_status st = kn_einsum_solve(x->node, x->in, &e, x->err);
    if (st)
        return st;
    x->out[0].shape.rank = e.out.n;
    for (int k = 0; k < e.out.n; k++)
        x->out[0].shape.dim[k] = e.dim[kn_einsum_find(&e, e.out.id[k])];
    return RT_OK;
}

/* ---- row dependence: by the label of the row axis ---- */

static int count_label(const struct kn_einsum_labels *l, int id, int *axis)
{
    int n = 0;
    for (int k = 0; k < l->n; k++)
        if (l->id[k] == id) {
            n++;
            *axis = k;
        }
    return n;
}

static void einsum_rows(struct rt_rows *r)
{
    struct kn_einsum_equation e;
    int id = -1, axis = 0;
    bool sized = false;

    for (int k = 0; k < r->n_in; k++)
        if (!is_exact(&r->in[k].shape))
            return;
    if (kn_einsum_solve(r->node, r->in, &e, NULL))
        return;
    for (int k = 0; k < r->n_in; k++) {
        const struct rt_dep *d = &r->in_dep[k];
        if (d->kind == RT_DEP_MIXED)
            return;
        sized = sized || d->kind == RT_DEP_SIZE;
        if (d->kind != RT_DEP_ROWS)
            continue;
        const int own = e.in[k].id[d->axis];
        if (id >= 0 && own != id)
            return;
        id = own;
    }
    if (id < 0) {
        r->out_dep[0].kind = sized ? RT_DEP_SIZE : RT_DEP_NONE;
        return;
    }
    for (int k = 0; k < r->n_in; k++) {
        const int n = count_label(&e.in[k], id, &axis);
        if (r->in_dep[k].kind == RT_DEP_ROWS
                ? n != 1 || r->in[k].shape.dim[axis] != e.dim[kn_einsum_find(&e, id)]
                : n != 0 && r->in[k].shape.dim[axis] != 1)
            return;
    }
    if (count_label(&e.out, id, &axis) == 1)
        r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, axis};
}

/* ---- registration ---- */

#define EINSUM_TYPES                                                                               \
    (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS) | KN_SET(KN_COMPLEX) | RT_T(RT_I32) | RT_T(RT_I64))

const struct kn_entry kn_einsum = {
    .op = {.name = "Einsum", .check = kn_einsum_check, .infer = einsum_infer, .rows = einsum_rows},
    .kernels = KN_CPU("Einsum", "einsum", EINSUM_TYPES, kn_einsum_prepare, kn_einsum_run),
};
