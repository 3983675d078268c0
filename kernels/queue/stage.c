/*
 * Staging areas: unnamed queues that ops find by container and name instead of by handle. Stage
 * waits while the area is full. Unstage and StagePeek wait until the area has the item that
 * they read.
 */
#include "kernels/queue/items.h"

#include <stdlib.h>

struct stage {
    struct rt_object o;
    /* limits of the area, set by the op that made it, as in TensorFlow; 0 for no limit */
    int64_t capacity, memory_limit;
    struct rt_mutex mu;
    /* mu guards all members from here on */
    struct rt_cond changed;
    struct kn_items items;
    int64_t bytes; /* total size of the items' tensors */
};

static void stage_free(struct rt_object *o)
{
    struct stage *s = (struct stage *)o;

    kn_items_clear(&s->items);
    rt_cond_clear(&s->changed);
    rt_mutex_clear(&s->mu);
    free(s);
}

static const struct rt_object_type stage_type = {"staging area", stage_free};

static enum rt_status stage_make(const struct rt_make *make, struct rt_object **out)
{
    struct stage *s = calloc(1, sizeof *s);
    const enum rt_status st = kn_check_container(make->node, make->err);

    if (st || !s) {
        free(s);
        return st ? st : rt_fail_memory(make->err, make->node->name, sizeof *s);
    }
    rt_object_init(&s->o, &stage_type);
    rt_mutex_init(&s->mu);
    rt_cond_init(&s->changed);
    s->capacity = rt_attr_int(make->node, "capacity");
    s->memory_limit = rt_attr_int(make->node, "memory_limit");
    *out = &s->o;
    return RT_OK;
}

/* Returns a reference to the node's staging area, or NULL on failure. The caller must drop the
 * reference. */
static struct stage *stage_of(struct rt_run *r)
{
    struct rt_object *o = NULL;

    return rt_run_resource(r, "staging area", stage_make, &o) ? NULL : (struct stage *)o;
}

static int64_t bytes_of(const struct kn_item *i)
{
    int64_t bytes = 0;

    for (int k = 0; k < i->n; k++)
        bytes += (int64_t)rt_tensor_bytes(&i->part[k]);
    return bytes;
}

static bool is_full(const struct stage *s, int64_t bytes)
{
    return (s->capacity > 0 && s->items.n >= s->capacity) ||
           (s->memory_limit > 0 && bytes > s->memory_limit - s->bytes);
}

static enum rt_status stage_run(struct rt_run *r)
{
    struct stage *s = stage_of(r);
    struct kn_item *i = NULL;

    if (!s)
        return r->err->code;
    enum rt_status st = kn_item_from_inputs(r, 0, &i);
    const int64_t bytes = st ? 0 : bytes_of(i);
    if (!st && s->memory_limit > 0 && bytes > s->memory_limit)
        st = rt_fail(r->err, RT_RESOURCE_EXHAUSTED,
                     "Attempted to insert tensors with combined size of '%lld' bytes into Staging "
                     "Area with a memory limit of '%lld'.",
                     (long long)bytes, (long long)s->memory_limit);
    rt_mutex_lock(&s->mu);
    while (!st && is_full(s, bytes))
        st = rt_run_wait(r, &s->changed, &s->mu);
    if (!st) {
        kn_items_push(&s->items, i);
        s->bytes += bytes;
        rt_cond_broadcast(&s->changed);
    }
    rt_mutex_unlock(&s->mu);
    if (st)
        kn_item_free(i);
    rt_object_unref(&s->o);
    return st;
}

/* Moves the tensors of an item to the outputs. The types of the tensors must be the node's output
 * types. */
static enum rt_status give(struct rt_run *r, struct kn_item *i)
{
    if (i->n != r->n_out)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Mismatch stage/unstage: %d vs. %d", i->n,
                       r->n_out);
    for (int k = 0; k < i->n; k++)
        if (i->part[k].dtype != r->node->out_dtype[k])
            return rt_fail(r->err, RT_INTERNAL,
                           "Output %d of type %s does not match declared output type %s for node "
                           "{{node %s}}",
                           k, rt_dtype_name(kn_dtype(&i->part[k])),
                           rt_dtype_name((enum rt_dtype)r->node->out_dtype[k]), r->node->name);
    kn_item_to_outputs(r, 0, i);
    return RT_OK;
}

static enum rt_status unstage_run(struct rt_run *r)
{
    struct stage *s = stage_of(r);
    struct kn_item *i = NULL;
    enum rt_status st = RT_OK;

    if (!s)
        return r->err->code;
    rt_mutex_lock(&s->mu);
    while (!st && !s->items.n)
        st = rt_run_wait(r, &s->changed, &s->mu);
    if (!st) {
        i = kn_items_pop(&s->items);
        s->bytes -= bytes_of(i);
        rt_cond_broadcast(&s->changed);
    }
    rt_mutex_unlock(&s->mu);
    if (!st)
        st = give(r, i);
    kn_item_free(i);
    rt_object_unref(&s->o);
    return st;
}

static enum rt_status peek_run(struct rt_run *r)
{
    struct stage *s = stage_of(r);
    int64_t index, left = RT_WORK;
    enum rt_status st = RT_OK;

    if (!s)
        return r->err->code;
    if (!kn_scalar(&r->in[0], &index))
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "index must be scalar");
    rt_mutex_lock(&s->mu);
    while (!st &&
           /* as in TensorFlow, no item ever has a negative index */
           (index < 0 || s->items.n <= index))
        st = rt_run_wait(r, &s->changed, &s->mu);
    struct kn_item *i = st ? NULL : s->items.first;
    for (int64_t k = 0; k < index && !st; k++) {
        i = i->next;
        st = rt_run_spend(r, &left, 1);
    }
    if (!st)
        st = give(r, i);
    rt_mutex_unlock(&s->mu);
    rt_object_unref(&s->o);
    return st;
}

static enum rt_status size_run(struct rt_run *r)
{
    struct stage *s = stage_of(r);
    int32_t *o = s ? kn_out(r, 0, 0, NULL) : NULL;

    if (o) {
        rt_mutex_lock(&s->mu);
        *o = (int32_t)s->items.n;
        rt_mutex_unlock(&s->mu);
    }
    if (s)
        rt_object_unref(&s->o);
    return o ? RT_OK : r->err->code;
}

static enum rt_status clear_run(struct rt_run *r)
{
    struct stage *s = stage_of(r);

    if (!s)
        return r->err->code;
    rt_mutex_lock(&s->mu);
    kn_items_clear(&s->items);
    s->bytes = 0;
    rt_cond_broadcast(&s->changed);
    rt_mutex_unlock(&s->mu);
    rt_object_unref(&s->o);
    return RT_OK;
}

#define STAGE_OP(symbol, op_, infer_, run_)                                                        \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_BLOCKS, .infer = (infer_)},                             \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, run_),                                            \
    };
STAGE_OP(stage, "Stage", NULL, stage_run)
STAGE_OP(stage_clear, "StageClear", NULL, clear_run)
STAGE_OP(stage_peek, "StagePeek", NULL, peek_run)
STAGE_OP(stage_size, "StageSize", kn_infer_scalars, size_run)
STAGE_OP(unstage, "Unstage", NULL, unstage_run)
