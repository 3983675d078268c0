/*
 * Staging areas whose items have keys. Items may be staged in parts: the area stores an
 * incomplete item until all of its tensors have been staged. Parts of an item can also be read and
 * taken.
 */
#include "kernels/queue/item_map.h"

#include <stdlib.h>

struct map_stage {
    struct rt_object o;
    /* limits of the area, set by the op that made it, as in TensorFlow; 0 for no limit */
    int64_t capacity, memory_limit;
    int n; /* number of tensors of a complete item */
    struct rt_mutex mu;
    /* mu guards all members from here on */
    struct rt_cond changed;
    struct kn_item_map complete, incomplete;
    int64_t bytes; /* total size of the items, according to bytes_of */
};

static void map_stage_free(struct rt_object *o)
{
    struct map_stage *s = (struct map_stage *)o;

    kn_item_map_clear(&s->complete);
    kn_item_map_clear(&s->incomplete);
    rt_cond_clear(&s->changed);
    rt_mutex_clear(&s->mu);
    free(s);
}

static const struct rt_object_type map_stage_type = {"map staging area", map_stage_free};

static bool is_ordered(const struct rt_node *n)
{
    return n->schema->name[0] == 'O';
}

static enum rt_status map_stage_make(const struct rt_make *make, struct rt_object **out)
{
    struct map_stage *s = calloc(1, sizeof *s);
    const enum rt_status st = kn_check_container(make->node, make->err);
    const struct rt_attr *dtypes = rt_attr(make->node, "dtypes");

    if (st || !s) {
        free(s);
        return st ? st : rt_fail_memory(make->err, make->node->name, sizeof *s);
    }
    rt_object_init(&s->o, &map_stage_type);
    rt_mutex_init(&s->mu);
    rt_cond_init(&s->changed);
    s->capacity = rt_attr_int(make->node, "capacity");
    s->memory_limit = rt_attr_int(make->node, "memory_limit");
    s->n = dtypes ? (int)dtypes->n : 0;
    s->complete.is_ordered = is_ordered(make->node);
    *out = &s->o;
    return RT_OK;
}

/* Returns a reference to the node's staging area, or NULL on failure. The caller must drop the
 * reference. */
static struct map_stage *map_stage_of(struct rt_run *r)
{
    const char *kind = is_ordered(r->node) ? "ordered map staging area" : "map staging area";
    struct rt_object *o = NULL;

    return rt_run_resource(r, kind, map_stage_make, &o) ? NULL : (struct map_stage *)o;
}

/* ---- checks ---- */

static enum rt_status check_indices(struct rt_run *r, const struct rt_tensor *t)
{
    const int64_t n = rt_tensor_count(t);
    enum rt_status st = RT_OK;

    if (n < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Indices are empty");
    for (int64_t k = 1; k < n && !st; k++) {
        if (kn_int_at(t, k - 1) >= kn_int_at(t, k))
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Indices are not strictly ordered");
        st = rt_run_tick(r, k);
    }
    return st;
}

static enum rt_status check_index(struct rt_run *r, const struct map_stage *s, int64_t key,
                                  int64_t index)
{
    if (index >= 0 && index < s->n)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "Index '%llu' for key '%lld' was out of bounds '%d'.", (unsigned long long)index,
                   (long long)key, s->n);
}

/* ---- staging ---- */

/* Returns the size that TensorFlow counts for n tensors, which is the size of the last tensor. */
static int64_t bytes_of(const struct rt_tensor *t, int n)
{
    return n > 0 ? (int64_t)rt_tensor_bytes(&t[n - 1]) : 0;
}

static bool is_over_limit(const struct map_stage *s, int64_t bytes)
{
    return s->memory_limit > 0 && bytes > s->memory_limit - s->bytes;
}

/* Adds a complete item. If the area already has a complete item with this key, or on failure, frees
 * the item instead. */
static enum rt_status put_complete(struct rt_run *r, struct map_stage *s, int64_t key,
                                   struct kn_item *i)
{
    struct kn_keyed *old = NULL;
    enum rt_status st = kn_item_map_find(r, &s->complete, key, &old);

    if (!st && !old)
        st = kn_item_map_add(r, &s->complete, key, r->in[0].rank, i);
    if (st || old)
        kn_item_free(i);
    return st;
}

/* Moves the tensors of `i` into `to`. Input 1 holds the position of each tensor in `to`. */
static enum rt_status put_parts(struct rt_run *r, const struct map_stage *s, int64_t key,
                                struct kn_item *to, struct kn_item *i)
{
    const int64_t n = rt_tensor_count(&r->in[1]);
    enum rt_status st = RT_OK;

    for (int64_t k = 0; k < n && !st; k++) {
        const int64_t index = kn_int_at(&r->in[1], k);
        st = check_index(r, s, key, index);
        if (!st && to->part[index].dtype != RT_NO_DTYPE)
            st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                         "The tensor for index '%lld' for key '%lld' was already initialized '%d'.",
                         (long long)index, (long long)key, s->n);
        if (st)
            break;
        to->part[index] = i->part[k];
        i->part[k] = (struct rt_tensor){0};
    }
    return st;
}

/* Returns the number of tensors that the item has. */
static int n_tensors(const struct kn_item *i)
{
    int n = 0;

    for (int k = 0; k < i->n; k++)
        n += i->part[k].dtype != RT_NO_DTYPE;
    return n;
}

/* Stages some of the tensors of an item. */
static enum rt_status put_incomplete(struct rt_run *r, struct map_stage *s, int64_t key,
                                     struct kn_item *i)
{
    struct kn_keyed *e = NULL;
    enum rt_status st = kn_item_map_find(r, &s->incomplete, key, &e);

    if (!st && !e) {
        struct kn_item *fresh = kn_item_new(r, s->n);
        st = fresh ? put_parts(r, s, key, fresh, i) : r->err->code;
        if (!st)
            st = kn_item_map_add(r, &s->incomplete, key, r->in[0].rank, fresh);
        if (st)
            kn_item_free(fresh);
        return st;
    }
    if (!st)
        st = put_parts(r, s, key, e->item, i);
    if (!st && n_tensors(e->item) == e->item->n)
        st = put_complete(r, s, key, kn_item_map_remove(&s->incomplete, e));
    return st;
}

static enum rt_status check_key_to_stage(struct rt_run *r)
{
    struct rt_shape shape;

    if (rt_tensor_count(&r->in[0]) == 1)
        return RT_OK;
    if (rt_tensor_count(&r->in[0]) < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "key must not be empty");
    kn_shape_get(&r->in[0], &shape);
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "key must be an int64 scalar, got tensor with shape: %s", KN_TEXT(&shape));
}

static enum rt_status stage_item(struct rt_run *r, struct map_stage *s, struct kn_item *i)
{
    const int64_t key = kn_int_at(&r->in[0], 0), bytes = bytes_of(i->part, i->n);
    const bool is_whole = rt_tensor_count(&r->in[1]) == s->n;
    enum rt_status st = RT_OK;

    if (!is_whole && rt_tensor_count(&r->in[1]) > i->n)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: %lld indices, but %d values",
                     r->node->schema->name, (long long)rt_tensor_count(&r->in[1]), i->n);
    else if (s->memory_limit > 0 && bytes > s->memory_limit)
        st = rt_fail(r->err, RT_RESOURCE_EXHAUSTED,
                     "Attempted to insert tensors with combined size of '%lld' bytes into Staging "
                     "Area with a memory limit of '%lld'.",
                     (long long)bytes, (long long)s->memory_limit);
    rt_mutex_lock(&s->mu);
    while (!st && (is_over_limit(s, bytes) ||
                   (is_whole && s->capacity > 0 && s->complete.n >= s->capacity)))
        st = rt_run_wait(r, &s->changed, &s->mu);
    if (!st && is_whole) {
        st = put_complete(r, s, key, i);
        i = NULL;
    } else if (!st) {
        st = put_incomplete(r, s, key, i);
    }
    if (!st)
        s->bytes += bytes;
    rt_cond_broadcast(&s->changed);
    rt_mutex_unlock(&s->mu);
    kn_item_free(i);
    return st;
}

static enum rt_status stage_run(struct rt_run *r)
{
    struct map_stage *s = map_stage_of(r);
    struct kn_item *i = NULL;

    if (!s)
        return r->err->code;
    enum rt_status st = check_key_to_stage(r);
    if (!st)
        st = check_indices(r, &r->in[1]);
    if (!st)
        st = kn_item_from_inputs(r, 2, &i);
    if (!st)
        st = stage_item(r, s, i);
    rt_object_unref(&s->o);
    return st;
}

/* ---- reading ---- */

/*
 * Copies tensors of entry `e` to `to`. `indices` contains their positions in the entry. If `takes`
 * is set, removes the tensors from the entry. As in TensorFlow, tensors that were removed before an
 * error are lost.
 */
static enum rt_status read_parts(struct rt_run *r, const struct map_stage *s, struct kn_keyed *e,
                                 const struct rt_tensor *indices, struct kn_item *to, bool takes)
{
    enum rt_status st = RT_OK;

    for (int k = 0; k < to->n && !st; k++) {
        const int64_t index = kn_int_at(indices, k);
        st = check_index(r, s, e->key, index);
        if (st)
            break;
        struct rt_tensor *from = index < e->item->n ? &e->item->part[index] : NULL;
        if (!from || from->dtype == RT_NO_DTYPE)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Tensor at index '%lld' for key '%lld' has already been removed.",
                           (long long)index, (long long)e->key);
        if (takes) {
            to->part[k] = *from;
            *from = (struct rt_tensor){0};
        } else {
            rt_tensor_ref(&to->part[k], from);
        }
    }
    return st;
}

/* Moves the tensors of the item to the node's outputs, beginning with output `first`. */
static enum rt_status give(struct rt_run *r, int first, struct kn_item *i)
{
    for (int k = first; k < r->n_out; k++) {
        const int part = k - first;
        const enum rt_dtype declared = (enum rt_dtype)r->node->out_dtype[k];
        if (part >= i->n)
            return rt_fail(r->err, RT_INTERNAL, "Missing %d-th output from {{node %s}}", k,
                           r->node->name);
        if (kn_dtype(&i->part[part]) != declared)
            return rt_fail(r->err, RT_INTERNAL,
                           "Output %d of type %s does not match declared output type %s for node "
                           "{{node %s}}",
                           k, rt_dtype_name(kn_dtype(&i->part[part])), rt_dtype_name(declared),
                           r->node->name);
    }
    kn_item_to_outputs(r, first, i);
    return RT_OK;
}

/* Makes output 0 the key of `e`, in the shape in which it was staged. */
static enum rt_status give_key(struct rt_run *r, const struct kn_keyed *e)
{
    int64_t dim[RT_MAX_RANK];

    for (int k = 0; k < e->key_rank; k++)
        dim[k] = 1;
    int64_t *o = rt_out(r, 0, e->key_rank, dim);
    if (!o)
        return r->err->code;
    *o = e->key;
    return RT_OK;
}

/* Waits until the area has a complete item with the key or, if `key` is NULL, any complete item. */
static enum rt_status wait_for(struct rt_run *r, struct map_stage *s, const int64_t *key,
                               struct kn_keyed **out)
{
    enum rt_status st = RT_OK;

    for (*out = NULL; !st;) {
        if (key)
            st = kn_item_map_find(r, &s->complete, *key, out);
        else if (s->complete.n)
            *out = kn_item_map_first(&s->complete);
        if (st || *out)
            break;
        st = rt_run_wait(r, &s->changed, &s->mu);
    }
    return st;
}

/* Reads the requested tensors of an item into `to`. If `takes` is set, also removes them from the
 * area. `key` is the item's key, or NULL to choose an item, whose key becomes output 0. */
static enum rt_status read_item(struct rt_run *r, struct map_stage *s, const int64_t *key,
                                bool takes, struct kn_item *to)
{
    struct kn_keyed *e = NULL;

    rt_mutex_lock(&s->mu);
    enum rt_status st = wait_for(r, s, key, &e);
    if (!st && !key)
        st = give_key(r, e);
    if (!st)
        st = read_parts(r, s, e, &r->in[key != NULL], to, takes);
    if (!st && takes) {
        const int64_t bytes = bytes_of(to->part, to->n);
        s->bytes -= bytes < s->bytes ? bytes : s->bytes;
        if (n_tensors(e->item) == 0)
            kn_item_free(kn_item_map_remove(&s->complete, e));
    }
    if (takes)
        rt_cond_broadcast(&s->changed);
    rt_mutex_unlock(&s->mu);
    return st;
}

static enum rt_status read_run(struct rt_run *r, bool has_key, bool takes)
{
    struct map_stage *s = map_stage_of(r);
    const int64_t n = rt_tensor_count(&r->in[has_key]), n_values = r->n_out - !has_key;
    int64_t key = 0;
    struct rt_shape shape;
    struct kn_item *to = NULL;
    enum rt_status st = RT_OK;

    if (!s)
        return r->err->code;
    if (has_key && !kn_scalar(&r->in[0], &key)) {
        kn_shape_get(&r->in[0], &shape);
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "key must be an int64 scalar: %s",
                     KN_TEXT(&shape));
    }
    if (!st)
        st = check_indices(r, &r->in[has_key]);
    if (!st && n > n_values)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: %lld indices, but %lld outputs",
                     r->node->schema->name, (long long)n, (long long)n_values);
    if (!st) {
        to = kn_item_new(r, (int)n);
        st = to ? read_item(r, s, has_key ? &key : NULL, takes, to) : r->err->code;
    }
    if (!st)
        st = give(r, !has_key, to);
    kn_item_free(to);
    rt_object_unref(&s->o);
    return st;
}

static enum rt_status peek_run(struct rt_run *r)
{
    return read_run(r, true, false);
}

static enum rt_status unstage_run(struct rt_run *r)
{
    return read_run(r, true, true);
}

static enum rt_status unstage_no_key_run(struct rt_run *r)
{
    return read_run(r, false, true);
}

/* ---- the rest ---- */

static enum rt_status size_of(struct rt_run *r, bool of_complete)
{
    struct map_stage *s = map_stage_of(r);
    int32_t *o = s ? kn_out(r, 0, 0, NULL) : NULL;

    if (o) {
        rt_mutex_lock(&s->mu);
        *o = (int32_t)(of_complete ? s->complete.n : s->incomplete.n);
        rt_mutex_unlock(&s->mu);
    }
    if (s)
        rt_object_unref(&s->o);
    return o ? RT_OK : r->err->code;
}

static enum rt_status size_run(struct rt_run *r)
{
    return size_of(r, true);
}

static enum rt_status incomplete_size_run(struct rt_run *r)
{
    return size_of(r, false);
}

static enum rt_status clear_run(struct rt_run *r)
{
    struct map_stage *s = map_stage_of(r);

    if (!s)
        return r->err->code;
    rt_mutex_lock(&s->mu);
    kn_item_map_clear(&s->complete);
    kn_item_map_clear(&s->incomplete);
    s->bytes = 0;
    rt_cond_broadcast(&s->changed);
    rt_mutex_unlock(&s->mu);
    rt_object_unref(&s->o);
    return RT_OK;
}

#define MAP_OP(symbol, op_, infer_, run_)                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_BLOCKS, .infer = (infer_)},                             \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, run_),                                            \
    };
MAP_OP(map_clear, "MapClear", NULL, clear_run)
MAP_OP(map_incomplete_size, "MapIncompleteSize", kn_infer_scalars, incomplete_size_run)
MAP_OP(map_peek, "MapPeek", NULL, peek_run)
MAP_OP(map_size, "MapSize", kn_infer_scalars, size_run)
MAP_OP(map_stage, "MapStage", NULL, stage_run)
MAP_OP(map_unstage, "MapUnstage", NULL, unstage_run)
MAP_OP(map_unstage_no_key, "MapUnstageNoKey", NULL, unstage_no_key_run)
MAP_OP(ordered_map_clear, "OrderedMapClear", NULL, clear_run)
MAP_OP(ordered_map_incomplete_size, "OrderedMapIncompleteSize", kn_infer_scalars,
       incomplete_size_run)
MAP_OP(ordered_map_peek, "OrderedMapPeek", NULL, peek_run)
MAP_OP(ordered_map_size, "OrderedMapSize", kn_infer_scalars, size_run)
MAP_OP(ordered_map_stage, "OrderedMapStage", NULL, stage_run)
MAP_OP(ordered_map_unstage, "OrderedMapUnstage", NULL, unstage_run)
MAP_OP(ordered_map_unstage_no_key, "OrderedMapUnstageNoKey", NULL, unstage_no_key_run)
