/* The ops that enqueue, dequeue, close and inspect queues (queue.h). */
#include "kernels/queue/queue.h"

#include <stdio.h>

#include "runtime/core/copy.h"

static struct kn_queue *queue_of(struct rt_run *r)
{
    return (struct kn_queue *)kn_resource_of(r, &kn_queue_type, "a queue");
}

/* Returns TensorFlow's name for the type of the handle in input 0. */
static const char *handle_type(const struct rt_run *r)
{
    return r->node->in_ref & 1 ? "string_ref" : "resource";
}

/* ---- enqueuing ---- */

/* Checks the shape of component k of one item or, if `n` is not negative, of n items in one
 * tensor. */
static enum rt_status check_shape(struct rt_run *r, const struct kn_queue *q, int k, int64_t n)
{
    const struct rt_tensor *t = &r->in[1 + k];
    struct rt_shape have, want = {.rank = -1};

    kn_shape_get(t, &have);
    if (q->n_shapes)
        want = q->shapes[k];
    if (n >= 0 && want.rank == RT_MAX_RANK)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    if (n >= 0) { /* without declared shapes, only the first dimension is checked */
        const int rank = want.rank < 0 ? (have.rank ? have.rank - 1 : 0) : want.rank;
        for (int d = rank; d > 0; d--)
            want.dim[d] = want.rank < 0 ? have.dim[d] : want.dim[d - 1];
        want.rank = rank + 1;
        want.dim[0] = n;
    }
    if (want.rank < 0 || (want.rank == have.rank && kn_partial_fits(&have, &want)))
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "Shape mismatch in tuple component %d. Expected %s, got %s", k, KN_TEXT(&want),
                   KN_TEXT(&have));
}

static enum rt_status enqueue_run(struct rt_run *r)
{
    struct kn_queue *q = queue_of(r);
    struct kn_items items = {0};
    struct kn_item *i = NULL;

    if (!q)
        return r->err->code;
    enum rt_status st = kn_check_signature(r, handle_type(r), 1, -1, q->types, q->n);
    for (int k = 0; k < q->n && !st; k++)
        st = check_shape(r, q, k, -1);
    if (!st)
        st = kn_item_from_inputs(r, 1, &i);
    if (st)
        return st;
    kn_items_push(&items, i);
    return kn_enqueue(r, q, &items);
}

static enum rt_status rows_to_items(struct rt_run *r, int64_t n, struct kn_items *items)
{
    const struct rt_check check = rt_run_as_check(r);
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    for (int64_t row = 0; row < n && !st; row++) {
        struct kn_item *i = kn_item_new(r, r->n_in - 1);
        if (!i)
            return r->err->code;
        kn_items_push(items, i);
        for (int k = 0; k < i->n && !st; k++) {
            const struct rt_tensor t = kn_row(&r->in[1 + k], row);
            /* the view borrows the input's bytes, so the state makes a copy */
            struct rt_tensor view = t;
            view.buf = NULL;
            st = rt_run_spend(r, &left, 64 + rt_tensor_count(&t));
            if (!st)
                st = rt_state_keep(rt_run_state(r), &i->part[k], &view, NULL, &check, r->err);
        }
    }
    return st;
}

static enum rt_status enqueue_many_run(struct rt_run *r)
{
    struct kn_queue *q = queue_of(r);
    struct kn_items items = {0};

    if (!q)
        return r->err->code;
    enum rt_status st = kn_check_signature(r, handle_type(r), 1, -1, q->types, q->n);
    if (st)
        return st;
    const int64_t n = r->in[1].rank ? r->in[1].dim[0] : 1;
    for (int k = 0; k < q->n && !st; k++)
        st = check_shape(r, q, k, n);
    if (!st)
        st = rows_to_items(r, n, &items);
    if (!st && n > 0)
        return kn_enqueue(r, q, &items);
    kn_items_clear(&items);
    return st;
}

/* ---- dequeuing ---- */

static enum rt_status dequeue_run(struct rt_run *r)
{
    struct kn_queue *q = queue_of(r);
    struct kn_items items = {0};

    if (!q)
        return r->err->code;
    enum rt_status st = kn_check_signature(r, handle_type(r), -1, 0, q->types, q->n);
    if (!st)
        st = kn_dequeue(r, q, 1, false, true, &items);
    if (!st)
        kn_item_to_outputs(r, 0, items.first);
    kn_items_clear(&items);
    return st;
}

static enum rt_status dequeue_several(struct rt_run *r, bool takes_fewer)
{
    struct kn_queue *q = queue_of(r);
    struct kn_items items = {0};
    char first[32];

    if (!q)
        return r->err->code;
    if (rt_tensor_count(&r->in[1]) < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: n has no elements", r->node->schema->name);
    const int64_t n = kn_int_at(&r->in[1], 0);
    snprintf(first, sizeof first, "%s, int32", handle_type(r));
    enum rt_status st = RT_OK;
    if (n < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s requested %lld < 0 elements",
                       takes_fewer ? "DequeueUpToOp" : "DequeueManyOp", (long long)n);
    st = kn_check_signature(r, first, -1, 0, q->types, q->n);
    if (!st && !q->n_shapes)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%s's DequeueMany and DequeueUpTo require the components to have specified "
                       "shapes.",
                       q->type);
    if (!st && n > 0)
        st = kn_dequeue(r, q, n, takes_fewer, false, &items);
    for (int k = 0; k < q->n && !st; k++)
        st = kn_items_stack(r, k, &items, k, &q->shapes[k]);
    kn_items_clear(&items);
    return st;
}

static enum rt_status dequeue_many_run(struct rt_run *r)
{
    return dequeue_several(r, false);
}

static enum rt_status dequeue_up_to_run(struct rt_run *r)
{
    return dequeue_several(r, true);
}

/* ---- the rest ---- */

static enum rt_status close_run(struct rt_run *r)
{
    struct kn_queue *q = queue_of(r);

    return q ? kn_close_queue(r, q, rt_attr_bool(r->node, "cancel_pending_enqueues"))
             : r->err->code;
}

static enum rt_status is_closed_run(struct rt_run *r)
{
    struct kn_queue *q = queue_of(r);
    bool *o = q ? kn_out(r, 0, 0, NULL) : NULL;

    if (!o)
        return r->err->code;
    rt_mutex_lock(&q->mu);
    *o = q->is_closed;
    rt_mutex_unlock(&q->mu);
    return RT_OK;
}

static enum rt_status size_run(struct rt_run *r)
{
    struct kn_queue *q = queue_of(r);
    int32_t *o = q ? kn_out(r, 0, 0, NULL) : NULL;

    if (!o)
        return r->err->code;
    rt_mutex_lock(&q->mu);
    *o = (int32_t)kn_queue_length(q);
    rt_mutex_unlock(&q->mu);
    return RT_OK;
}

#define QUEUE_OP(symbol, op_, infer_, run_)                                                        \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_BLOCKS, .infer = (infer_)},                             \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, run_),                                            \
    };
QUEUE_OP(queue_close, "QueueClose", NULL, close_run)
QUEUE_OP(queue_close_v2, "QueueCloseV2", NULL, close_run)
QUEUE_OP(queue_dequeue, "QueueDequeue", NULL, dequeue_run)
QUEUE_OP(queue_dequeue_v2, "QueueDequeueV2", NULL, dequeue_run)
QUEUE_OP(queue_dequeue_many, "QueueDequeueMany", NULL, dequeue_many_run)
QUEUE_OP(queue_dequeue_many_v2, "QueueDequeueManyV2", NULL, dequeue_many_run)
QUEUE_OP(queue_dequeue_up_to, "QueueDequeueUpTo", NULL, dequeue_up_to_run)
QUEUE_OP(queue_dequeue_up_to_v2, "QueueDequeueUpToV2", NULL, dequeue_up_to_run)
QUEUE_OP(queue_enqueue, "QueueEnqueue", NULL, enqueue_run)
QUEUE_OP(queue_enqueue_v2, "QueueEnqueueV2", NULL, enqueue_run)
QUEUE_OP(queue_enqueue_many, "QueueEnqueueMany", NULL, enqueue_many_run)
QUEUE_OP(queue_enqueue_many_v2, "QueueEnqueueManyV2", NULL, enqueue_many_run)
QUEUE_OP(queue_is_closed, "QueueIsClosed", kn_infer_scalars, is_closed_run)
QUEUE_OP(queue_is_closed_v2, "QueueIsClosedV2", kn_infer_scalars, is_closed_run)
QUEUE_OP(queue_size, "QueueSize", kn_infer_scalars, size_run)
QUEUE_OP(queue_size_v2, "QueueSizeV2", kn_infer_scalars, size_run)
