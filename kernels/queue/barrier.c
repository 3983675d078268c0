/*
 * Barriers: runs insert the components of tuples, each under a key, and other runs take tuples that
 * have all their components. The complete tuples are in a priority queue (queue.h), in which the
 * priority of a tuple is the number of the insertion that brought its key.
 *
 * Threads: a barrier is locked while it is read or changed. Its lock is taken before the lock of
 * its queue.
 */
#include "kernels/queue/queue.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/array/hash_set.h"
#include "runtime/core/copy.h"

/* The tensors of an item: the priority, the key, and the components. */
enum { PRIORITY, KEY, COMPONENTS };

struct tuple {
    struct tuple *next; /* the next tuple of the same bucket */
    uint64_t hash;
    int n_set; /* number of components that have been inserted */
    struct kn_item *item;
};

struct barrier {
    struct rt_object o;
    char *name; /* the shared name or, if there is none, the name of the node */
    int n;
    /* the types and shapes of an item's tensors after the priority: the key and n components */
    uint8_t *types;
    struct rt_shape *shapes;
    struct kn_queue *ready;
    struct rt_mutex mu;
    /* mu guards all members from here on */
    bool is_closed, cancels;
    int64_t next; /* the priority of the next new keys */
    /* The incomplete tuples, in a hash table. The session's state counts their memory. */
    struct tuple **buckets;
    int64_t n_buckets, n_tuples;
};

static void clear_tuples(struct barrier *b)
{
    for (int64_t k = 0; k < b->n_buckets; k++)
        while (b->buckets[k]) {
            struct tuple *t = b->buckets[k];
            b->buckets[k] = t->next;
            kn_item_free(t->item);
            rt_pool_free(t);
        }
    rt_pool_free(b->buckets);
    b->buckets = NULL;
    b->n_buckets = b->n_tuples = 0;
}

static void barrier_free(struct rt_object *o)
{
    struct barrier *b = (struct barrier *)o;

    clear_tuples(b);
    if (b->ready)
        rt_object_unref(&b->ready->o);
    rt_mutex_clear(&b->mu);
    free(b->types);
    free(b->shapes);
    free(b->name);
    free(b);
}

static const struct rt_object_type barrier_type = {"barrier", barrier_free};

/* ---- making ---- */

static enum rt_status check_attributes(const struct rt_node *n, const struct rt_attr *types,
                                       const struct rt_attr *shapes, struct rt_error *err)
{
    if (!types || !shapes || types->n != shapes->n || types->n >= INT32_MAX / 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "All of the component shapes must be specified");
    for (size_t k = 0; k < shapes->n; k++)
        if (shapes->v.shapes[k].rank >= 0 && !kn_shape_known(&shapes->v.shapes[k]))
            return rt_fail(err, RT_INVALID_ARGUMENT, "Shape %s is not fully defined",
                           KN_PARTIAL(&shapes->v.shapes[k]));
    if (rt_attr_int(n, "capacity") != -1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through "
                       "a queue to enforce a limited capacity.");
    return kn_check_container(n, err);
}

/* Copies shapes to `to`. TensorFlow treats an unknown shape as []. */
static void copy_shapes(struct rt_shape *to, const struct rt_attr *shapes)
{
    memcpy(to, shapes->v.shapes, shapes->n * sizeof *to);
    for (size_t k = 0; k < shapes->n; k++)
        if (to[k].rank < 0)
            to[k].rank = 0;
}

/* Copies the types and shapes, and makes the queue of complete tuples. */
static enum rt_status set_up(struct barrier *b, const struct rt_attr *types,
                             const struct rt_attr *shapes, struct rt_error *err)
{
    const size_t n = types->n;
    char name[256];

    b->types = calloc(n + 1, 1);
    b->shapes = calloc(n + 1, sizeof *b->shapes);
    if (!b->name || !b->types || !b->shapes)
        return rt_fail_memory(err, "a barrier", n * sizeof *b->shapes);
    b->n = (int)n;
    b->types[0] = RT_STRING;
    memcpy(b->types + 1, types->v.types, n);
    copy_shapes(b->shapes + 1, shapes);
    snprintf(name, sizeof name, "%s_queue", b->name);
    b->ready = kn_priority_queue_new(name, b->types, b->shapes, n + 1, err);
    return b->ready ? RT_OK : err->code;
}

static enum rt_status barrier_make(const struct rt_make *make, struct rt_object **out)
{
    const struct rt_attr *types = rt_attr(make->node, "component_types"),
                         *shapes = rt_attr(make->node, "shapes");
    const struct rt_span shared = rt_attr_str(make->node, "shared_name");
    enum rt_status st = check_attributes(make->node, types, shapes, make->err);
    struct barrier *b = st ? NULL : calloc(1, sizeof *b);

    if (!b)
        return st ? st : rt_fail_memory(make->err, make->node->name, sizeof *b);
    rt_object_init(&b->o, &barrier_type);
    rt_mutex_init(&b->mu);
    b->next = INT64_MIN;
    b->name = shared.n ? strndup((const char *)shared.p, shared.n) : strdup(make->node->name);
    st = set_up(b, types, shapes, make->err);
    if (st)
        rt_object_unref(&b->o);
    else
        *out = &b->o;
    return st;
}

static enum rt_status barrier_matches(const struct rt_node *n, const struct rt_object *o,
                                      struct rt_error *err)
{
    const struct rt_attr *types = rt_attr(n, "component_types"), *shapes = rt_attr(n, "shapes");
    const struct barrier *b = (const struct barrier *)o;
    const size_t has_n = (size_t)b->n;
    char has[400], wants[400];
    const enum rt_status st = check_attributes(n, types, shapes, err);

    if (st)
        return st;
    if (types->n != has_n || memcmp(types->v.types, b->types + 1, has_n) != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Shared barrier '%s' has component types %s but requested component types "
                       "were %s",
                       b->name, kn_types_text(has, sizeof has, b->types + 1, has_n),
                       kn_types_text(wants, sizeof wants, types->v.types, types->n));
    struct rt_shape *want = calloc(has_n + 1, sizeof *want);
    if (!want)
        return rt_fail_memory(err, n->name, has_n * sizeof *want);
    copy_shapes(want, shapes);
    bool same = true;
    for (size_t k = 0; k < has_n; k++)
        same &=
            want[k].rank == b->shapes[k + 1].rank && kn_partial_fits(&want[k], &b->shapes[k + 1]);
    if (!same)
        rt_fail(err, RT_INVALID_ARGUMENT,
                "Shared barrier '%s' has component shapes %s but requested component shapes were "
                "%s",
                b->name, kn_shapes_text(has, sizeof has, b->shapes + 1, has_n),
                kn_shapes_text(wants, sizeof wants, want, has_n));
    free(want);
    return same ? RT_OK : err->code;
}

static struct barrier *barrier_of(struct rt_run *r)
{
    return (struct barrier *)kn_resource_of(r, &barrier_type, "a barrier");
}

/* ---- incomplete tuples ---- */

static const struct rt_str *key_of(const struct tuple *t)
{
    return rt_strs(&t->item->part[KEY]);
}

static enum rt_status reserve(struct rt_run *r, struct barrier *b)
{
    const int64_t n = b->n_buckets ? 2 * b->n_buckets : 16;

    if (b->n_tuples < b->n_buckets)
        return RT_OK;
    struct tuple **larger =
        rt_pool_alloc(rt_run_state(r)->pool, (size_t)n * sizeof *larger, "a barrier", r->err);
    if (!larger)
        return r->err->code;
    for (int64_t k = 0; k < b->n_buckets; k++)
        while (b->buckets[k]) {
            struct tuple *t = b->buckets[k], **to = &larger[t->hash & (uint64_t)(n - 1)];
            b->buckets[k] = t->next;
            t->next = *to;
            *to = t;
        }
    rt_pool_free(b->buckets);
    b->buckets = larger;
    b->n_buckets = n;
    return RT_OK;
}

/* Sets *out to the link that points to the tuple of the key, or to NULL if there is none. */
static enum rt_status find(struct rt_run *r, struct barrier *b, const struct rt_str *key,
                           uint64_t hash, struct tuple ***out)
{
    struct tuple **t = b->n_buckets ? &b->buckets[hash & (uint64_t)(b->n_buckets - 1)] : NULL;
    enum rt_status st = RT_OK;

    while (t && *t && !st) {
        const struct rt_str *k = key_of(*t);
        st = rt_run_spend(r, &r->left, 16 + (int64_t)key->n);
        if ((*t)->hash == hash && k->n == key->n &&
            memcmp(rt_str_data(k), rt_str_data(key), k->n) == 0)
            break;
        t = &(*t)->next;
    }
    *out = t && *t ? t : NULL;
    return st;
}

/* Adds a tuple without components. `key` is a scalar string. */
static enum rt_status add_tuple(struct rt_run *r, struct barrier *b, const struct rt_tensor *key,
                                uint64_t hash)
{
    const struct rt_check check = rt_run_as_check(r);
    enum rt_status st = reserve(r, b);
    struct tuple *t =
        st ? NULL : rt_pool_alloc(rt_run_state(r)->pool, sizeof *t, "a barrier", r->err);

    if (!t)
        return r->err->code;
    t->item = kn_item_new(r, COMPONENTS + b->n);
    st = t->item ? RT_OK : r->err->code;
    if (!st)
        st =
            rt_tensor_new(&t->item->part[PRIORITY], rt_run_state(r)->pool, RT_I64, 0, NULL, r->err);
    if (!st)
        st = rt_state_keep(rt_run_state(r), &t->item->part[KEY], key, NULL, &check, r->err);
    if (st) {
        kn_item_free(t->item);
        rt_pool_free(t);
        return st;
    }
    *(int64_t *)t->item->part[PRIORITY].data = b->next;
    t->hash = hash;
    struct tuple **to = &b->buckets[hash & (uint64_t)(b->n_buckets - 1)];
    t->next = *to;
    *to = t;
    b->n_tuples++;
    return RT_OK;
}

/* ---- inserting ---- */

static enum rt_status fail_new_key(struct rt_run *r, const struct barrier *b,
                                   const struct rt_str *key, int64_t i)
{
    const int n = key->n < 256 ? (int)key->n : 256;

    return rt_fail(r->err, RT_CANCELLED,
                   "Barrier %s is closed, but attempted to insert a brand new key: %.*s.  Pending "
                   "enqueues cancelled: %d.  Insertion index: %lld.  Number of incomplete keys: "
                   "%lld.",
                   b->name, n, rt_str_data(key), b->cancels, (long long)i, (long long)b->n_tuples);
}

/* Returns a view of the keys, which may have any shape, as in TensorFlow. */
static struct rt_tensor as_vector(const struct rt_tensor *keys)
{
    struct rt_tensor v = *keys;

    v.rank = 1;
    v.dim[0] = rt_tensor_count(keys);
    return v;
}

/* Returns a view of the values. As in TensorFlow, a scalar is the value of one key. */
static struct rt_tensor with_rows(const struct rt_tensor *values)
{
    struct rt_tensor v = *values;

    if (v.rank == 0) {
        v.rank = 1;
        v.dim[0] = 1;
    }
    return v;
}

/* Inserts row i of the values under key i. If its tuple is complete afterwards, moves the tuple to
 * `ready`. Sets *is_new if there was no tuple of the key. */
static enum rt_status insert_one(struct rt_run *r, struct barrier *b, int component, int64_t i,
                                 struct kn_items *ready, bool *is_new)
{
    const struct rt_check check = rt_run_as_check(r);
    const struct rt_tensor keys = as_vector(&r->in[1]), values = with_rows(&r->in[2]);
    struct rt_tensor key = kn_row(&keys, i), value = kn_row(&values, i);
    const struct rt_str *text = rt_strs(&key);
    struct kn_reader reader = {.r = r, .left = &r->left};
    const uint64_t hash = kn_hash_elements(RT_STRING, text, 1, &reader);
    struct tuple **at = NULL;
    enum rt_status st = reader.st ? reader.st : find(r, b, text, hash, &at);

    key.buf = value.buf = NULL; /* views, of which the state makes copies */
    if (!st && !at) {
        if (b->is_closed)
            return fail_new_key(r, b, text, i);
        st = add_tuple(r, b, &key, hash);
        if (!st)
            st = find(r, b, text, hash, &at);
        *is_new = true;
    }
    if (st)
        return st;
    struct tuple *t = *at;
    struct rt_tensor *to = &t->item->part[COMPONENTS + component];
    if (to->dtype != RT_NO_DTYPE)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Key %.*s already has a value for component %d in barrier %s",
                       text->n < 256 ? (int)text->n : 256, rt_str_data(text), component, b->name);
    st = rt_state_keep(rt_run_state(r), to, &value, NULL, &check, r->err);
    if (st || ++t->n_set < b->n)
        return st;
    *at = t->next;
    b->n_tuples--;
    kn_items_push(ready, t->item);
    rt_pool_free(t);
    return RT_OK;
}

static enum rt_status check_insert(struct rt_run *r, const struct barrier *b, int64_t component)
{
    const struct rt_tensor values = with_rows(&r->in[2]);
    struct rt_shape row = {.rank = -1};

    if (component < 0 || component >= b->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The component ID is out of range %lld > num_components (= %d)",
                       (long long)component, b->n);
    const enum rt_status st =
        kn_check_signature(r, "string_ref, string", 2, -1, b->types + 1 + component, 1);
    if (st)
        return st;
    /* TensorFlow reads beyond the values. */
    if (values.dim[0] < rt_tensor_count(&r->in[1]))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "values must have a row for each key: got shapes %s and %s",
                       KN_TEXT(&r->in[2]), KN_TEXT(&r->in[1]));
    const struct rt_shape *want = &b->shapes[1 + component];
    row.rank = values.rank - 1;
    memcpy(row.dim, values.dim + 1, (size_t)row.rank * sizeof row.dim[0]);
    if (row.rank != want->rank || !kn_partial_fits(&row, want))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Shape mismatch in component %lld of barrier %s. Expected %s, got %s",
                       (long long)component, b->name, KN_TEXT(want), KN_TEXT(&row));
    return RT_OK;
}

static enum rt_status insert_all(struct rt_run *r, struct barrier *b, int component)
{
    const int64_t n = rt_tensor_count(&r->in[1]);
    struct kn_items ready = {0};
    bool is_new = false;
    enum rt_status st = RT_OK;

    if (b->is_closed && (b->cancels || (n > 0 && b->n_tuples == 0)))
        return rt_fail(r->err, RT_CANCELLED,
                       "Barrier %s is closed.  Pending enqueues cancelled: %d.  Number of new "
                       "insertions: %lld.  Number of incomplete keys: %lld.",
                       b->name, b->cancels, (long long)n, (long long)b->n_tuples);
    for (int64_t i = 0; i < n && !st; i++)
        st = insert_one(r, b, component, i, &ready, &is_new);
    if (st) { /* as in TensorFlow, the tuples that this run has completed are lost */
        kn_items_clear(&ready);
        return st;
    }
    b->next += is_new;
    if (ready.n)
        st = kn_enqueue(r, b->ready, &ready);
    if (!st && b->is_closed && b->n_tuples == 0)
        st = kn_close_queue(r, b->ready, true);
    return st;
}

static enum rt_status insert_run(struct rt_run *r)
{
    const int64_t component = rt_attr_int(r->node, "component_index");
    struct barrier *b = barrier_of(r);
    enum rt_status st = b ? check_insert(r, b, component) : r->err->code;

    if (st)
        return st;
    rt_mutex_lock(&b->mu);
    st = insert_all(r, b, (int)component);
    rt_mutex_unlock(&b->mu);
    return st;
}

/* ---- taking ---- */

/* Sets *n to the number of tuples to take from a barrier that may be closed. */
static enum rt_status limit_taken(struct rt_run *r, struct barrier *b, bool takes_fewer, int64_t *n)
{
    rt_mutex_lock(&b->mu);
    rt_mutex_lock(&b->ready->mu);
    int64_t available = kn_queue_length(b->ready);
    rt_mutex_unlock(&b->ready->mu);
    const bool is_closed = b->is_closed;
    if (!takes_fewer)
        available += b->n_tuples;
    rt_mutex_unlock(&b->mu);
    if (is_closed && takes_fewer && available < *n)
        *n = available;
    if (is_closed && available < (*n > 1 ? *n : 1))
        return rt_fail(
            r->err, RT_OUT_OF_RANGE,
            "Barrier '%s' is closed and has insufficient elements (requested %lld, total "
            "size %lld)",
            b->name, (long long)*n, (long long)available);
    return RT_OK;
}

static enum rt_status take_run(struct rt_run *r)
{
    const bool takes_fewer = rt_attr_bool(r->node, "allow_small_batch");
    struct barrier *b = barrier_of(r);
    struct kn_items items = {0};
    int64_t n;

    if (!b)
        return r->err->code;
    if (rt_attr_int(r->node, "timeout_ms") != -1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Timeout not supported yet.");
    if (!kn_scalar(&r->in[1], &n))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "num_elements must be a scalar.");
    if (n < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "num_elements is %lld, less than 0",
                       (long long)n);
    enum rt_status st =
        kn_check_signature(r, "string_ref, int32", -1, 0, b->ready->types, b->ready->n);
    if (!st)
        st = limit_taken(r, b, takes_fewer, &n);
    if (!st && n != 0)
        st = kn_dequeue(r, b->ready, n, takes_fewer, false, &items);
    for (int k = 0; k < b->ready->n && !st; k++)
        st = kn_items_stack(r, k, &items, k, &b->ready->shapes[k]);
    kn_items_clear(&items);
    return st;
}

/* ---- the rest ---- */

static enum rt_status close_run(struct rt_run *r)
{
    const bool cancels = rt_attr_bool(r->node, "cancel_pending_enqueues");
    struct barrier *b = barrier_of(r);
    enum rt_status st = RT_OK;

    if (!b)
        return r->err->code;
    rt_mutex_lock(&b->mu);
    if (b->is_closed && (b->cancels || !cancels))
        st = rt_fail(r->err, RT_CANCELLED, "Barrier '%s' is already closed.", b->name);
    b->is_closed = true;
    b->cancels |= cancels;
    if (cancels)
        clear_tuples(b);
    if (!st && b->n_tuples == 0)
        st = kn_close_queue(r, b->ready, true);
    rt_mutex_unlock(&b->mu);
    return st;
}

static enum rt_status ready_size_run(struct rt_run *r)
{
    struct barrier *b = barrier_of(r);
    int32_t *o = b ? kn_out(r, 0, 0, NULL) : NULL;

    if (!o)
        return r->err->code;
    rt_mutex_lock(&b->ready->mu);
    *o = (int32_t)kn_queue_length(b->ready);
    rt_mutex_unlock(&b->ready->mu);
    return RT_OK;
}

static enum rt_status incomplete_size_run(struct rt_run *r)
{
    struct barrier *b = barrier_of(r);
    int32_t *o = b ? kn_out(r, 0, 0, NULL) : NULL;

    if (!o)
        return r->err->code;
    rt_mutex_lock(&b->mu);
    *o = (int32_t)b->n_tuples;
    rt_mutex_unlock(&b->mu);
    return RT_OK;
}

const struct kn_entry kn_barrier = {
    .op = {.name = "Barrier",
           .infer = kn_infer_scalars,
           .slot_kind = "barrier",
           .make = barrier_make,
           .matches = barrier_matches},
};

#define BARRIER_OP(symbol, op_, infer_, run_)                                                      \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_BLOCKS, .infer = (infer_)},                             \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, run_),                                            \
    };
BARRIER_OP(barrier_close, "BarrierClose", NULL, close_run)
BARRIER_OP(barrier_incomplete_size, "BarrierIncompleteSize", kn_infer_scalars, incomplete_size_run)
BARRIER_OP(barrier_insert_many, "BarrierInsertMany", NULL, insert_run)
BARRIER_OP(barrier_ready_size, "BarrierReadySize", kn_infer_scalars, ready_size_run)
BARRIER_OP(barrier_take_many, "BarrierTakeMany", NULL, take_run)
