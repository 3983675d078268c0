/*
 * Maps of sparse tensors, which stay in a session. AddSparseToTensorsMap and
 * AddManySparseToTensorsMap add sparse tensors and return their handles, which are integers.
 * TakeManySparseFromTensorsMap removes sparse tensors and joins them to one.
 */
#include "kernels/sparse/serialize.h"

#include <stdlib.h>

#include "kernels/queue/item_map.h"
#include "runtime/base/checked.h"
#include "runtime/core/copy.h"

struct sparse_map {
    struct rt_object o;
    struct rt_mutex mu;
    /* mu guards all members from here on */
    struct kn_item_map items; /* an item has the three tensors of a sparse tensor */
    int64_t next;             /* the next handle */
};

static void map_free(struct rt_object *o)
{
    struct sparse_map *m = (struct sparse_map *)o;

    kn_item_map_clear(&m->items);
    rt_mutex_clear(&m->mu);
    free(m);
}

static const struct rt_object_type map_type = {"map of sparse tensors", map_free};

static enum rt_status map_make(const struct rt_make *make, struct rt_object **out)
{
    struct sparse_map *m = calloc(1, sizeof *m);
    const enum rt_status st = kn_check_container(make->node, make->err);

    if (st || !m) {
        free(m);
        return st ? st : rt_fail_memory(make->err, make->node->name, sizeof *m);
    }
    rt_object_init(&m->o, &map_type);
    rt_mutex_init(&m->mu);
    *out = &m->o;
    return RT_OK;
}

/* Returns a reference to the node's map, or NULL on failure. The caller must drop the reference. */
static struct sparse_map *map_of(struct rt_run *r)
{
    struct rt_object *o = NULL;

    return rt_run_resource(r, "map of sparse tensors", map_make, &o) ? NULL
                                                                     : (struct sparse_map *)o;
}

/* ---- adding ---- */

/* Adds an item, which the map owns if the call succeeds, and sets *handle. */
static enum rt_status add(struct rt_run *r, struct sparse_map *m, struct kn_item *i,
                          int64_t *handle)
{
    rt_mutex_lock(&m->mu);
    const enum rt_status st = kn_item_map_add(r, &m->items, m->next, 0, i);
    if (!st)
        *handle = m->next++;
    rt_mutex_unlock(&m->mu);
    return st;
}

/* Makes an item of three tensors. */
static enum rt_status item_of(struct rt_run *r, const struct rt_tensor *part, struct kn_item **out)
{
    const struct rt_check check = rt_run_as_check(r);
    struct kn_item *i = kn_item_new(r, KN_SPARSE_PARTS);
    enum rt_status st = i ? RT_OK : r->err->code;

    for (int k = 0; k < KN_SPARSE_PARTS && !st; k++)
        st = rt_state_keep(rt_run_state(r), &i->part[k], &part[k], NULL, &check, r->err);
    if (st)
        kn_item_free(i);
    else
        *out = i;
    return st;
}

static enum rt_status check_dims(struct rt_run *r, const struct kn_coo *s)
{
    const int64_t rank = s->shape->dim[0];
    int64_t total = 1;

    for (int64_t d = 0; d < rank; d++) {
        if (s->dim[d] < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)s->dim[d]);
        if (!rt_mul(total, s->dim[d], &total))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Shape %s would have more than 2**63 - 1 elements",
                           kn_coo_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, s->dim, rank));
    }
    return RT_OK;
}

static enum rt_status add_run(struct rt_run *r)
{
    const struct kn_coo s = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    struct sparse_map *m = map_of(r);
    int64_t *o = m ? kn_out(r, 0, 0, NULL) : NULL;
    struct kn_item *i = NULL;
    enum rt_status st = o ? kn_sparse_check_ranks(r, &s) : r->err->code;

    if (!st)
        st = check_dims(r, &s);
    if (!st && s.n != s.values->dim[0])
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "indices and values rows (indexing dimension) must match. (indices = %lld, "
                     "values = %lld)",
                     (long long)s.n, (long long)s.values->dim[0]);
    if (!st && s.rank != s.shape->dim[0])
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "Order length must be SparseTensor rank.");
    if (!st)
        st = item_of(r, r->in, &i);
    if (!st) {
        st = add(r, m, i, o);
        if (st)
            kn_item_free(i);
    }
    if (m)
        rt_object_unref(&m->o);
    return st;
}

static enum rt_status check_many(struct rt_run *r, const struct kn_coo *s)
{
    enum rt_status st = kn_sparse_check_ranks(r, s);

    if (st)
        return st;
    const int64_t rank = s->shape->dim[0];
    if (s->values->dim[0] != s->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Number of values must match first dimension of indices. Got %lld values, "
                       "indices shape: %s",
                       (long long)s->values->dim[0], KN_TEXT(s->indices));
    if (rank != s->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Number of dimensions must match second dimension of indices. Got %lld "
                       "dimensions, indices shape: %s",
                       (long long)rank, KN_TEXT(s->indices));
    if (rank < 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Rank of input SparseTensor should be > 1, but saw rank: %lld",
                       (long long)rank);
    st = kn_coo_check_shape(r, s->dim, rank);
    return st ? st : kn_sparse_check_rows(r, s);
}

/* Adds the rows of the sparse tensor that have values or, if `is_empty`, those that have none. */
static enum rt_status add_rows(struct rt_run *r, struct sparse_map *m, const struct kn_coo *s,
                               bool is_empty, int64_t *handle)
{
    enum rt_status st = RT_OK;

    for (int64_t row = 0, at = 0; row < s->dim[0] && !st; row++) {
        const int64_t n = kn_sparse_row_length(s, at, row);
        struct rt_tensor part[KN_SPARSE_PARTS] = {0};
        struct kn_item *i = NULL;
        if (is_empty == (n == 0)) {
            st = kn_sparse_row(r, s, at, n, part);
            if (!st)
                st = item_of(r, part, &i);
            if (!st && (st = add(r, m, i, &handle[row])))
                kn_item_free(i);
        }
        for (int k = 0; k < KN_SPARSE_PARTS; k++)
            rt_tensor_clear(&part[k]);
        if (!st)
            st = rt_run_spend(r, &r->left, KN_COO_WORK * (n + 4));
        at += n;
    }
    return st;
}

static enum rt_status add_many_run(struct rt_run *r)
{
    const struct kn_coo s = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    enum rt_status st = check_many(r, &s);
    int64_t *o = st ? NULL : rt_out(r, 0, 1, &s.dim[0]);
    struct sparse_map *m = o ? map_of(r) : NULL;

    if (!m)
        return r->err->code;
    st = add_rows(r, m, &s, false, o);
    if (!st) /* as in TensorFlow, empty rows have the last handles */
        st = add_rows(r, m, &s, true, o);
    rt_object_unref(&m->o);
    return st;
}

/* ---- taking ---- */

/* Moves the sparse tensors of all handles from the map to `part`. */
static enum rt_status take_items(struct rt_run *r, struct sparse_map *m, struct rt_tensor *part)
{
    const struct rt_span name = rt_attr_str(r->node, "shared_name");
    const int64_t *handle = r->in[0].data;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < r->in[0].dim[0] && !st; i++) {
        struct kn_keyed *e = NULL;
        rt_mutex_lock(&m->mu);
        st = kn_item_map_find(r, &m->items, handle[i], &e);
        struct kn_item *item = e ? kn_item_map_remove(&m->items, e) : NULL;
        rt_mutex_unlock(&m->mu);
        if (item)
            memcpy(part + i * KN_SPARSE_PARTS, item->part, sizeof item->part[0] * KN_SPARSE_PARTS);
        else if (!st)
            st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                         "Unable to find SparseTensor: %lld in map: %.*s", (long long)handle[i],
                         (int)name.n, (const char *)name.p);
        if (item) { /* the tensors belong to `part` now */
            item->n = 0;
            kn_item_free(item);
        }
    }
    return st;
}

static enum rt_status check_items(struct rt_run *r, const struct rt_tensor *part, int64_t n)
{
    const enum rt_dtype want = rt_attr_dtype(r->node, "dtype");

    for (int64_t i = 0; i < n; i++) {
        const struct rt_tensor *p = part + i * KN_SPARSE_PARTS;
        const int64_t rank = p[KN_SHAPE_PART].dim[0], first = part[KN_SHAPE_PART].dim[0];
        if (kn_dtype(&p[KN_VALUES_PART]) != want)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Requested SparseTensor of type %s but SparseTensor[%lld]."
                           "values.dtype() == %s",
                           rt_dtype_name(want), (long long)i,
                           rt_dtype_name(kn_dtype(&p[KN_VALUES_PART])));
        if (rank != first)
            return rt_fail(
                r->err, RT_INVALID_ARGUMENT,
                "Inconsistent rank across SparseTensors: rank prior to SparseTensor[%lld]"
                " was: %lld but rank of SparseTensor[%lld] is: %lld",
                (long long)i, (long long)first + 1, (long long)i, (long long)rank + 1);
    }
    return RT_OK;
}

static enum rt_status take_many_run(struct rt_run *r)
{
    const int64_t n = r->in[0].rank ? r->in[0].dim[0] : 1;

    if (r->in[0].rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "sparse_handles should be a vector but received shape %s",
                       KN_TEXT(&r->in[0]));
    if (n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Must have at least 1 serialized SparseTensor, but input matrix has 0 rows");
    struct sparse_map *m = map_of(r);
    struct rt_tensor *part = m ? rt_run_alloc(r, (size_t)n * KN_SPARSE_PARTS * sizeof *part) : NULL;
    enum rt_status st = part ? take_items(r, m, part) : r->err->code;
    if (!st)
        st = check_items(r, part, n);
    if (!st)
        st = kn_sparse_join(r, part, n, &n, 1);
    for (int64_t i = 0; part && i < n * KN_SPARSE_PARTS; i++)
        rt_tensor_clear(&part[i]);
    rt_pool_free(part);
    if (m)
        rt_object_unref(&m->o);
    return st;
}

const struct kn_entry kn_add_sparse_to_tensors_map = {
    .op = {.name = "AddSparseToTensorsMap", .effect = RT_WRITES, .infer = kn_infer_scalars},
    .kernels = KN_CPU("AddSparseToTensorsMap", "add_sparse_to_tensors_map", 0, NULL, add_run),
};
const struct kn_entry kn_add_many_sparse_to_tensors_map = {
    .op = {.name = "AddManySparseToTensorsMap", .effect = RT_WRITES},
    .kernels = KN_CPU("AddManySparseToTensorsMap", "add_many_sparse_to_tensors_map", 0, NULL,
                      add_many_run),
};
const struct kn_entry kn_take_many_sparse_from_tensors_map = {
    .op = {.name = "TakeManySparseFromTensorsMap", .effect = RT_WRITES},
    .kernels = KN_CPU("TakeManySparseFromTensorsMap", "take_many_sparse_from_tensors_map", 0, NULL,
                      take_many_run),
};
