/*
 * Tensor maps: variants that map tensors to tensors. Two keys are the same if they have the same
 * type, shape and bytes. A shared map is copied before it is changed. Only its array of entries is
 * copied: keys and values are references to tensors, so the elements of the tensors are never
 * copied. Keys are in the order of their insertion, except that the last entry takes the place of
 * an erased one. TensorFlow does not specify an order.
 */
#include "kernels/list/list_internal.h"

#include "kernels/array/hash_set.h"
#include "kernels/string/summary.h"

struct entry {
    struct rt_tensor key, value;
    uint64_t hash;
    int64_t next; /* index + 1 of the next entry of the chain, or 0 for the last entry */
};

struct tensor_map {
    struct rt_object o;
    int64_t n, capacity;
    struct rt_buffer *memory; /* the entries */
    int64_t n_chains;         /* a power of two, or 0 */
    int64_t *chains;          /* index + 1 of each chain's first entry, or 0 for an empty chain */
};

static struct entry *entries(const struct tensor_map *m)
{
    return kn_items_at(m->memory);
}

static void tensor_map_free(struct rt_object *o)
{
    struct tensor_map *m = (struct tensor_map *)o;

    for (int64_t i = 0; i < m->n; i++) {
        rt_tensor_clear(&entries(m)[i].key);
        rt_tensor_clear(&entries(m)[i].value);
    }
    rt_buffer_unref(m->memory);
    rt_pool_free(m->chains);
    rt_pool_free(m);
}

static const struct rt_object_type tensor_map_type = {"tensor map", tensor_map_free};

static struct tensor_map *tensor_map_new(struct rt_run *r)
{
    struct tensor_map *m = rt_run_alloc(r, sizeof *m);

    if (m)
        rt_object_init(&m->o, &tensor_map_type);
    return m;
}

bool kn_is_tensor_map(const struct rt_tensor *t)
{
    const struct rt_object *o = t->rank == 0 ? rt_tensor_handle(t) : NULL;

    return o && o->type == &tensor_map_type;
}

/* Returns the map in input k, or NULL if input k is not a map. */
static struct tensor_map *map_input(struct rt_run *r, int k)
{
    const struct rt_tensor *t = &r->in[k];

    if (kn_is_tensor_map(t))
        return (struct tensor_map *)rt_tensor_handle(t);
    if (t->rank > 0)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "Input map must be a scalar. Saw: %s", KN_TEXT(t));
    else
        rt_fail(r->err, RT_INVALID_ARGUMENT, "Input handle is not a map. Saw: '%s'",
                kn_variant_text(t));
    return NULL;
}

/* ---- keys ---- */

static enum rt_status hash_key(struct rt_run *r, const struct rt_tensor *t, uint64_t *hash)
{
    struct kn_reader reader = {r, &r->left, RT_OK};

    if (t->dtype == RT_VARIANT || t->dtype == RT_RESOURCE)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "%s: keys of type %s", r->node->schema->name,
                       rt_dtype_name(kn_dtype(t)));
    *hash = t->dtype == RT_STRING
                ? kn_hash_elements(RT_STRING, t->data, rt_tensor_count(t), &reader)
                : kn_hash_elements(RT_U8, t->data, (int64_t)rt_tensor_bytes(t), &reader);
    return reader.st;
}

/* Sets *same to whether two keys with equal hashes are equal. */
static enum rt_status same_key(struct rt_run *r, const struct rt_tensor *a,
                               const struct rt_tensor *b, bool *same)
{
    const int64_t n = rt_tensor_count(a);
    struct kn_reader reader = {r, &r->left, RT_OK};

    *same = a->dtype == b->dtype && a->rank == b->rank &&
            (a->rank == 0 || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0);
    if (!*same || n == 0)
        return RT_OK;
    if (a->dtype != RT_STRING) {
        *same = kn_same_text(a->data, b->data, rt_tensor_bytes(a), &reader);
        return reader.st;
    }
    for (int64_t i = 0; i < n && *same && !reader.st; i++) {
        *same = kn_same_element(RT_STRING, kn_at(a, i), kn_at(b, i), &reader);
        kn_read_on(&reader, 16);
    }
    return reader.st;
}

/* Searches for the entry of a key. Sets *at to the address that holds 1 plus the index
 * of the entry, or 0 if there is no such entry. Sets *at to NULL if the map has no chains. */
static enum rt_status find(struct rt_run *r, const struct tensor_map *m,
                           const struct rt_tensor *key, uint64_t hash, int64_t **at)
{
    enum rt_status st = RT_OK;
    bool same = false;

    *at = m->n_chains ? &m->chains[hash & (uint64_t)(m->n_chains - 1)] : NULL;
    while (*at && **at && !st) {
        struct entry *e = &entries(m)[**at - 1];
        if (e->hash == hash)
            st = same_key(r, &e->key, key, &same);
        if (st || same)
            break;
        *at = &e->next;
        st = rt_run_spend(r, &r->left, KN_PROBE_WORK);
    }
    return st;
}

/* Sets *out to the entry of the key in input 1, or to NULL if there is none. */
static enum rt_status lookup(struct rt_run *r, const struct tensor_map *m, struct entry **out)
{
    uint64_t hash = 0;
    int64_t *at = NULL;
    enum rt_status st = hash_key(r, &r->in[1], &hash);

    if (!st)
        st = find(r, m, &r->in[1], hash, &at);
    *out = !st && at && *at ? &entries(m)[*at - 1] : NULL;
    return st;
}

static enum rt_status fail_missing(struct rt_run *r, const char *what)
{
    struct rt_bytes text;

    rt_bytes_init(&text, 1 << 20);
    kn_summarize(&text, &r->in[1], 100);
    const enum rt_status st =
        rt_fail(r->err, RT_INVALID_ARGUMENT, "Trying to %s. Could not find key \"%.*s\".", what,
                (int)text.n, (const char *)text.p);
    rt_bytes_clear(&text);
    return st;
}

/* ---- changing ---- */

static enum rt_status link_all(struct rt_run *r, struct tensor_map *m)
{
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < m->n && !st; i++) {
        struct entry *e = &entries(m)[i];
        int64_t *chain = &m->chains[e->hash & (uint64_t)(m->n_chains - 1)];
        e->next = *chain;
        *chain = i + 1;
        st = rt_run_spend(r, &r->left, KN_PROBE_WORK);
    }
    return st;
}

/* Makes space for n entries in total. */
static enum rt_status reserve(struct rt_run *r, struct tensor_map *m, int64_t n)
{
    const int64_t n_chains = kn_hash_slots(n);

    if (!kn_items_grow(r, &m->memory, &m->capacity, n, sizeof(struct entry), "a tensor map"))
        return r->err->code;
    if (n_chains <= m->n_chains)
        return RT_OK;
    int64_t *chains = rt_run_alloc(r, (size_t)n_chains * sizeof *chains);
    if (!chains)
        return r->err->code;
    rt_pool_free(m->chains);
    m->chains = chains;
    m->n_chains = n_chains;
    return link_all(r, m);
}

static enum rt_status copy_entries(struct rt_run *r, struct tensor_map *to,
                                   const struct tensor_map *from)
{
    enum rt_status st = from->n ? reserve(r, to, from->n) : RT_OK;

    for (int64_t i = 0; i < from->n && !st; i++) {
        const struct entry *e = &entries(from)[i];
        struct entry *copy = &entries(to)[i];
        copy->hash = e->hash;
        rt_tensor_ref(&copy->key, &e->key);
        rt_tensor_ref(&copy->value, &e->value);
        to->n = i + 1;
        st = rt_run_spend(r, &r->left, KN_PROBE_WORK);
    }
    return st || !from->n ? st : link_all(r, to);
}

/*
 * Begins a change of the map in input 0. Returns the map itself if nothing else refers to it,
 * otherwise a copy, or NULL on failure. `own` holds the returned map until kn_list_write_done.
 */
static struct tensor_map *write_begin(struct rt_run *r, struct rt_tensor *own)
{
    struct tensor_map *m = map_input(r, 0);

    *own = (struct rt_tensor){0};
    if (!m)
        return NULL;
    if (atomic_load(&m->o.refs) == 1 && rt_take(r, 0, own))
        return m;
    struct tensor_map *c = tensor_map_new(r);
    if (!c)
        return NULL;
    if (copy_entries(r, c, m) || rt_tensor_object(own, rt_run_pool(r), RT_VARIANT, &c->o, r->err)) {
        rt_object_unref(&c->o);
        return NULL;
    }
    return c;
}

static enum rt_status insert(struct rt_run *r, struct tensor_map *m)
{
    struct rt_tensor key = {0}, value = {0};
    uint64_t hash = 0;
    int64_t *at = NULL;
    enum rt_status st = hash_key(r, &r->in[1], &hash);

    if (!st && !kn_items_check(kn_dtype(&r->in[2]), "a tensor map", r->err))
        st = r->err->code;
    if (!st)
        st = reserve(r, m, m->n + 1);
    if (!st)
        st = find(r, m, &r->in[1], hash, &at);
    if (!st)
        st = kn_keep(r, &value, &r->in[2]);
    if (!st && !*at)
        st = kn_keep(r, &key, &r->in[1]);
    if (st) {
        rt_tensor_clear(&value);
        return st;
    }
    if (*at) {
        struct entry *e = &entries(m)[*at - 1];
        rt_tensor_clear(&e->value);
        e->value = value;
        return RT_OK;
    }
    *at = m->n + 1;
    entries(m)[m->n++] = (struct entry){.key = key, .value = value, .hash = hash};
    return RT_OK;
}

/* Moves the last entry to position i, whose entry has been unlinked and cleared. */
static enum rt_status fill_hole(struct rt_run *r, struct tensor_map *m, int64_t i)
{
    struct entry *last = &entries(m)[m->n - 1];
    int64_t *at = &m->chains[last->hash & (uint64_t)(m->n_chains - 1)];
    enum rt_status st = RT_OK;

    for (; i != m->n - 1 && *at != m->n; at = &entries(m)[*at - 1].next)
        st = rt_run_spend(r, &r->left, KN_PROBE_WORK);
    if (i != m->n - 1) {
        *at = i + 1;
        entries(m)[i] = *last;
    }
    *last = (struct entry){.next = 0};
    m->n--;
    return st;
}

static enum rt_status erase(struct rt_run *r, struct tensor_map *m)
{
    uint64_t hash = 0;
    int64_t *at = NULL;
    enum rt_status st = hash_key(r, &r->in[1], &hash);

    if (!st)
        st = find(r, m, &r->in[1], hash, &at);
    if (st)
        return st;
    if (!at || !*at)
        return fail_missing(r, "erase non-existent item");
    const int64_t i = *at - 1;
    struct entry *e = &entries(m)[i];
    *at = e->next;
    rt_tensor_clear(&e->key);
    rt_tensor_clear(&e->value);
    return fill_hole(r, m, i);
}

/* Adds an entry of another map to `m`, whose entry of the same key is added to. */
static enum rt_status add_entry(struct rt_run *r, struct tensor_map *m, const struct entry *e,
                                int depth)
{
    struct rt_tensor sum = {0};
    int64_t *at = NULL;
    enum rt_status st = reserve(r, m, m->n + 1);

    if (!st)
        st = find(r, m, &e->key, e->hash, &at);
    if (st)
        return st;
    if (*at) {
        struct entry *own = &entries(m)[*at - 1];
        if ((st = kn_item_add(r, &e->value, &own->value, depth, &sum))) {
            rt_tensor_clear(&sum);
            return st;
        }
        rt_tensor_clear(&own->value);
        own->value = sum;
        return RT_OK;
    }
    *at = m->n + 1;
    struct entry *own = &entries(m)[m->n++];
    *own = (struct entry){.hash = e->hash};
    rt_tensor_ref(&own->key, &e->key);
    rt_tensor_ref(&own->value, &e->value);
    return RT_OK;
}

enum rt_status kn_tensor_map_add(struct rt_run *r, const struct rt_tensor *a,
                                 const struct rt_tensor *b, int depth, struct rt_object **out)
{
    const struct tensor_map *first = (struct tensor_map *)rt_tensor_handle(a);
    const struct tensor_map *second = (struct tensor_map *)rt_tensor_handle(b);
    struct tensor_map *m = tensor_map_new(r);

    if (!m)
        return r->err->code;
    enum rt_status st = copy_entries(r, m, first);
    for (int64_t i = 0; i < second->n && !st; i++)
        if (!(st = add_entry(r, m, &entries(second)[i], depth)))
            st = rt_run_spend(r, &r->left, KN_ITEM_WORK);
    if (st) {
        rt_object_unref(&m->o);
        return st;
    }
    *out = &m->o;
    return RT_OK;
}

/* ---- the ops ---- */

static enum rt_status empty_run(struct rt_run *r)
{
    struct tensor_map *m = tensor_map_new(r);

    return m ? rt_out_object(r, 0, &m->o) : r->err->code;
}

static enum rt_status insert_run(struct rt_run *r)
{
    struct rt_tensor own;
    struct tensor_map *m = write_begin(r, &own);

    return m ? kn_list_write_done(r, 0, &own, insert(r, m)) : r->err->code;
}

static enum rt_status erase_run(struct rt_run *r)
{
    struct rt_tensor own;
    struct tensor_map *m = write_begin(r, &own);

    return m ? kn_list_write_done(r, 0, &own, erase(r, m)) : r->err->code;
}

static enum rt_status lookup_run(struct rt_run *r)
{
    const struct tensor_map *m = map_input(r, 0);
    const enum rt_dtype declared = (enum rt_dtype)r->node->out_dtype[0];
    struct entry *e = NULL;
    const enum rt_status st = m ? lookup(r, m, &e) : r->err->code;

    if (st)
        return st;
    if (!e)
        return fail_missing(r, "lookup non-existent key");
    if (kn_dtype(&e->value) != declared)
        return rt_fail(r->err, RT_INTERNAL,
                       "Output 0 of type %s does not match declared output type %s for node "
                       "{{node %s}}",
                       rt_dtype_name(kn_dtype(&e->value)), rt_dtype_name(declared), r->node->name);
    rt_out_tensor(r, 0, &e->value);
    return RT_OK;
}

static enum rt_status has_key_run(struct rt_run *r)
{
    const struct tensor_map *m = map_input(r, 0);
    struct entry *e = NULL;
    const enum rt_status st = m ? lookup(r, m, &e) : r->err->code;
    bool *o = st ? NULL : kn_out(r, 0, 0, NULL);

    if (!o)
        return r->err->code;
    *o = e != NULL;
    return RT_OK;
}

static enum rt_status size_run(struct rt_run *r)
{
    const struct tensor_map *m = map_input(r, 0);
    int32_t *o = m ? kn_out(r, 0, 0, NULL) : NULL;

    if (!o)
        return r->err->code;
    *o = (int32_t)m->n;
    return RT_OK;
}

static enum rt_status check_keys(struct rt_run *r, const struct tensor_map *m)
{
    const enum rt_dtype dtype = (enum rt_dtype)r->node->out_dtype[0];
    const struct rt_tensor *first = &entries(m)[0].key;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < m->n && !st; i++) {
        const struct rt_tensor *t = &entries(m)[i].key;
        if (kn_dtype(t) != dtype)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Key does not match requested dtype.");
        if (t->rank != first->rank ||
            (t->rank > 0 && memcmp(t->dim, first->dim, (size_t)t->rank * sizeof t->dim[0]) != 0))
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Keys must all have the same shape.");
        st = rt_run_spend(r, &r->left, KN_PROBE_WORK);
    }
    if (!st && first->rank == RT_MAX_RANK)
        st = rt_fail(r->err, RT_UNIMPLEMENTED,
                     "TensorMapStackKeys: more than %d dimensions are not supported", RT_MAX_RANK);
    return st;
}

static enum rt_status stack_keys_run(struct rt_run *r)
{
    const struct tensor_map *m = map_input(r, 0);
    int64_t dim[RT_MAX_RANK];

    if (!m)
        return r->err->code;
    if (!m->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorMapStackKeys cannot be called on empty map.");
    enum rt_status st = check_keys(r, m);
    if (st)
        return st;
    const struct rt_tensor *first = &entries(m)[0].key;
    const int64_t n = rt_tensor_count(first);
    dim[0] = m->n;
    if (first->rank)
        memcpy(dim + 1, first->dim, (size_t)first->rank * sizeof *dim);
    if (!rt_out(r, 0, first->rank + 1, dim))
        return r->err->code;
    for (int64_t i = 0; i < m->n && !st; i++) {
        if (n)
            st = kn_copy_run(r, kn_dtype(first), kn_at_mut(&r->out[0], i * n),
                             entries(m)[i].key.data, n);
        if (!st)
            st = rt_run_spend(r, &r->left, KN_PROBE_WORK + n);
    }
    return st;
}

enum rt_status kn_tensor_map_zeros(struct rt_run *r, struct rt_object **out)
{
    struct tensor_map *m = tensor_map_new(r);

    if (!m)
        return r->err->code;
    *out = &m->o;
    return RT_OK;
}

KN_LIST_OP(empty_tensor_map, "EmptyTensorMap", kn_infer_scalars, empty_run)
KN_LIST_OP(tensor_map_erase, "TensorMapErase", kn_infer_scalars, erase_run)
KN_LIST_OP(tensor_map_has_key, "TensorMapHasKey", kn_infer_scalars, has_key_run)
KN_LIST_OP(tensor_map_insert, "TensorMapInsert", kn_infer_scalars, insert_run)
KN_LIST_OP(tensor_map_lookup, "TensorMapLookup", NULL, lookup_run)
KN_LIST_OP(tensor_map_size, "TensorMapSize", kn_infer_scalars, size_run)
KN_LIST_OP(tensor_map_stack_keys, "TensorMapStackKeys", NULL, stack_keys_run)
