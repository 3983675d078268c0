/* Items of queues, stages and barriers (items.h). */
#include "kernels/queue/items.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/core/copy.h"

struct kn_item *kn_item_new(struct rt_run *r, int n)
{
    const size_t bytes = sizeof(struct kn_item) + (size_t)n * sizeof(struct rt_tensor);
    struct kn_item *i = rt_pool_alloc(rt_run_state(r)->pool, bytes, "an item", r->err);

    if (i)
        i->n = n;
    return i;
}

void kn_item_free(struct kn_item *i)
{
    if (!i)
        return;
    for (int k = 0; k < i->n; k++)
        rt_tensor_clear(&i->part[k]);
    rt_pool_free(i);
}

void kn_items_push(struct kn_items *l, struct kn_item *i)
{
    i->next = NULL;
    if (l->last)
        l->last->next = i;
    else
        l->first = i;
    l->last = i;
    l->n++;
}

struct kn_item *kn_items_pop(struct kn_items *l)
{
    struct kn_item *i = l->first;

    l->first = i->next;
    if (!l->first)
        l->last = NULL;
    l->n--;
    i->next = NULL;
    return i;
}

void kn_items_restore(struct kn_items *l, struct kn_items *from)
{
    if (!from->first)
        return;
    from->last->next = l->first;
    if (!l->last)
        l->last = from->last;
    l->first = from->first;
    l->n += from->n;
    *from = (struct kn_items){0};
}

void kn_items_clear(struct kn_items *l)
{
    while (l->first)
        kn_item_free(kn_items_pop(l));
}

enum rt_status kn_item_from_inputs(struct rt_run *r, int first, struct kn_item **out)
{
    const struct rt_check check = rt_run_as_check(r);
    struct kn_item *i = kn_item_new(r, r->n_in - first);
    enum rt_status st = i ? RT_OK : r->err->code;

    for (int k = 0; i && k < i->n && !st; k++)
        st = rt_state_keep(rt_run_state(r), &i->part[k], &r->in[first + k], NULL, &check, r->err);
    if (st)
        kn_item_free(i);
    else
        *out = i;
    return st;
}

void kn_item_to_outputs(struct rt_run *r, int first, struct kn_item *i)
{
    for (int k = 0; k < i->n; k++)
        rt_out_tensor(r, first + k, &i->part[k]);
}

/* ---- stacking ---- */

/* Copies tensor `t` to row i of output k. The rows of the output have the shape `row`. */
static enum rt_status put_row(struct rt_run *r, int k, int64_t i, const struct rt_tensor *t,
                              const struct rt_shape *row)
{
    struct rt_tensor *out = &r->out[k];
    struct kn_walk w = {.rank = t->rank};
    int64_t stride = 1;

    for (int d = t->rank - 1; d >= 0; d--) {
        w.dim[d] = t->dim[d];
        w.dst[d] = stride;
        stride *= row->dim[d];
    }
    kn_strides(t->rank, t->dim, w.src);
    return kn_walk_copy(kn_dtype(t), &w, kn_at_mut(out, i * stride), t->data, r);
}

enum rt_status kn_items_stack(struct rt_run *r, int k, const struct kn_items *l, int part,
                              const struct rt_shape *shape)
{
    struct rt_shape row = {.rank = 0};
    int64_t dim[RT_MAX_RANK + 1] = {l->n};
    int64_t at = 0, left = RT_WORK;
    bool pads = false;

    if (l->first)
        kn_shape_get(&l->first->part[part], &row);
    else if (shape && shape->rank > 0)
        row.rank = shape->rank;
    for (int d = 0; d < row.rank && !l->first; d++)
        row.dim[d] = shape->dim[d] > 0 ? shape->dim[d] : 0;
    enum rt_status st = RT_OK;
    for (const struct kn_item *i = l->first; i && !st; i = i->next) {
        for (int d = 0; d < row.rank; d++) {
            pads |= i->part[part].dim[d] != row.dim[d];
            if (i->part[part].dim[d] > row.dim[d])
                row.dim[d] = i->part[part].dim[d];
        }
        st = rt_run_spend(r, &left, row.rank);
    }
    if (st)
        return st;
    if (row.rank >= RT_MAX_RANK)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    memcpy(dim + 1, row.dim, (size_t)row.rank * sizeof dim[0]);
    if (!rt_out(r, k, row.rank + 1, dim))
        return r->err->code;
    const enum rt_dtype dtype = kn_dtype(&r->out[k]);
    if (pads && dtype != RT_STRING)
        st = kn_zero_chunks(r, r->out[k].data, rt_tensor_bytes(&r->out[k]));
    const int64_t n = kn_shape_total(&row);
    for (const struct kn_item *i = l->first; i && !st; i = i->next, at++) {
        const struct rt_tensor *t = &i->part[part];
        const int64_t count = rt_tensor_count(t);
        st = rt_run_spend(r, &left, 16 + count);
        if (!st && count > 0)
            st = count == n ? kn_copy_run(r, dtype, kn_at_mut(&r->out[k], at * n), t->data, n)
                            : put_row(r, k, at, t, &row);
    }
    return st;
}

/* ---- checks ---- */

struct rt_object *kn_resource_of(struct rt_run *r, const struct rt_object_type *type,
                                 const char *what)
{
    struct rt_object *o = rt_tensor_count(&r->in[0]) == 1 ? rt_tensor_handle(&r->in[0]) : NULL;

    if (o && o->type == type)
        return o;
    rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the handle is not one of %s", r->node->schema->name,
            what);
    return NULL;
}

const char *kn_types_text(char *buf, size_t size, const uint8_t *types, size_t n)
{
    size_t at = 0;

    buf[0] = '\0';
    for (size_t k = 0; k < n && at < size; k++)
        at += (size_t)snprintf(buf + at, size - at, "%s%s", k ? ", " : "",
                               rt_dtype_name((enum rt_dtype)types[k]));
    return buf;
}

const char *kn_shapes_text(char *buf, size_t size, const struct rt_shape *shape, size_t n)
{
    size_t at = (size_t)snprintf(buf, size, "[");

    for (size_t k = 0; k < n && at < size; k++)
        at += (size_t)snprintf(buf + at, size - at, "%s%s", k ? ", " : "", KN_PARTIAL(&shape[k]));
    if (at < size)
        snprintf(buf + at, size - at, "]");
    return buf;
}

enum rt_status kn_check_signature(struct rt_run *r, const char *first, int in, int out,
                                  const uint8_t *types, int n)
{
    const struct rt_node *node = r->node;
    const uint8_t *have = in >= 0 ? node->in_dtype + in : node->out_dtype + out;
    const int n_have = in >= 0 ? r->n_in - in : r->n_out - out;
    char had[400], want[400];

    if (n_have == n && memcmp(have, types, (size_t)n) == 0)
        return RT_OK;
    kn_types_text(had, sizeof had, have, (size_t)(n_have > 0 ? n_have : 0));
    kn_types_text(want, sizeof want, types, (size_t)n);
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "Signature mismatch, have: %s%s%s%s expected: "
                   "%s%s%s%s",
                   first, in >= 0 ? ", " : "->", had, in >= 0 ? "->" : "", first,
                   in >= 0 ? ", " : "->", want, in >= 0 ? "->" : "");
}
