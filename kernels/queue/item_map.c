/* Maps from keys to items (item_map.h). */
#include "kernels/queue/item_map.h"

static size_t bucket_of(const struct kn_item_map *m, int64_t key)
{
    return (size_t)((uint64_t)key % (uint64_t)m->n_buckets);
}

/* ---- the heap of an ordered map ---- */

static void heap_set(struct kn_item_map *m, int64_t at, struct kn_keyed *e)
{
    m->heap[at] = e;
    e->heap_at = at;
}

static void heap_rise(struct kn_item_map *m, int64_t at, struct kn_keyed *e)
{
    for (; at > 0 && m->heap[(at - 1) / 2]->key > e->key; at = (at - 1) / 2)
        heap_set(m, at, m->heap[(at - 1) / 2]);
    heap_set(m, at, e);
}

/* Removes the entry from the heap, which has n entries before the call. */
static void heap_remove(struct kn_item_map *m, int64_t n, const struct kn_keyed *e)
{
    struct kn_keyed *last = m->heap[n - 1];
    int64_t at = e->heap_at;

    n--;
    if (last == e)
        return;
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && m->heap[child + 1]->key < m->heap[child]->key)
            child++;
        if (m->heap[child]->key >= last->key)
            break;
        heap_set(m, at, m->heap[child]);
    }
    heap_rise(m, at, last);
}

static enum rt_status heap_reserve(struct rt_run *r, struct kn_item_map *m)
{
    if (!m->is_ordered || m->n < m->n_heap_allocated)
        return RT_OK;
    const int64_t n = m->n_heap_allocated ? m->n_heap_allocated * 2 : 16;
    struct kn_keyed **larger =
        rt_pool_alloc(rt_run_state(r)->pool, (size_t)n * sizeof *larger, "a map", r->err);
    if (!larger)
        return r->err->code;
    if (m->n)
        memcpy(larger, m->heap, (size_t)m->n * sizeof *larger);
    rt_pool_free(m->heap);
    m->heap = larger;
    m->n_heap_allocated = n;
    return RT_OK;
}

/* ---- buckets ---- */

/*
 * The numbers of buckets and the positions at which entries are linked are those of libstdc++,
 * because they determine the first entry of a map.
 */
static int64_t next_n_buckets(int64_t n)
{
    static const int64_t counts[] = {
        13,      29,       59,       127,      257,       541,       1109,      2357,     5087,
        10273,   20753,    42043,    85229,    172933,    351061,    712697,    1447153,  2938679,
        5967347, 12117689, 24607243, 49969847, 101473717, 206062531, 418451333, 849749479};
    size_t k = 0;

    while (k + 1 < sizeof counts / sizeof *counts && counts[k] <= n)
        k++;
    return counts[k];
}

static void link_entry(struct kn_item_map *m, struct kn_keyed *e)
{
    struct kn_keyed **bucket = &m->buckets[bucket_of(m, e->key)];

    if (*bucket) {
        e->next = (*bucket)->next;
        (*bucket)->next = e;
        return;
    }
    e->next = m->head.next;
    m->head.next = e;
    if (e->next)
        m->buckets[bucket_of(m, e->next->key)] = e;
    *bucket = &m->head;
}

static enum rt_status buckets_reserve(struct rt_run *r, struct kn_item_map *m)
{
    if (m->n < m->n_buckets)
        return RT_OK;
    const int64_t n = next_n_buckets(m->n_buckets);
    struct kn_keyed **larger =
        rt_pool_alloc(rt_run_state(r)->pool, (size_t)n * sizeof *larger, "a map", r->err);
    if (!larger)
        return r->err->code;
    rt_pool_free(m->buckets);
    m->buckets = larger;
    m->n_buckets = n;
    struct kn_keyed *e = m->head.next;
    m->head.next = NULL;
    while (e) {
        struct kn_keyed *next = e->next;
        link_entry(m, e);
        e = next;
    }
    return RT_OK;
}

/* ---- the map ---- */

enum rt_status kn_item_map_find(struct rt_run *r, const struct kn_item_map *m, int64_t key,
                                struct kn_keyed **out)
{
    const size_t bucket = m->n_buckets ? bucket_of(m, key) : 0;
    struct kn_keyed *e = m->n_buckets && m->buckets[bucket] ? m->buckets[bucket]->next : NULL;
    enum rt_status st = RT_OK;

    while (e && e->key != key && !st) {
        e = e->next && bucket_of(m, e->next->key) == bucket ? e->next : NULL;
        st = rt_run_spend(r, &r->left, 16);
    }
    *out = st ? NULL : e;
    return st;
}

struct kn_keyed *kn_item_map_first(const struct kn_item_map *m)
{
    return m->is_ordered ? m->heap[0] : m->head.next;
}

enum rt_status kn_item_map_add(struct rt_run *r, struct kn_item_map *m, int64_t key, int key_rank,
                               struct kn_item *i)
{
    enum rt_status st = buckets_reserve(r, m);

    if (!st)
        st = heap_reserve(r, m);
    if (st)
        return st;
    struct kn_keyed *e = rt_pool_alloc(rt_run_state(r)->pool, sizeof *e, "a key", r->err);
    if (!e)
        return r->err->code;
    e->key = key;
    e->key_rank = key_rank;
    e->item = i;
    link_entry(m, e);
    if (m->is_ordered)
        heap_rise(m, m->n, e);
    m->n++;
    return RT_OK;
}

struct kn_item *kn_item_map_remove(struct kn_item_map *m, struct kn_keyed *e)
{
    const size_t bucket = bucket_of(m, e->key);
    const size_t next = e->next ? bucket_of(m, e->next->key) : bucket;
    struct kn_keyed *before = m->buckets[bucket];
    struct kn_item *item = e->item;

    const bool is_first = before->next == e;
    while (before->next != e)
        before = before->next;
    before->next = e->next;
    if (e->next && next != bucket)
        m->buckets[next] = before;
    if (is_first && (!e->next || next != bucket))
        m->buckets[bucket] = NULL;
    if (m->is_ordered)
        heap_remove(m, m->n, e);
    m->n--;
    rt_pool_free(e);
    return item;
}

void kn_item_map_clear(struct kn_item_map *m)
{
    const bool is_ordered = m->is_ordered;

    while (m->head.next) {
        struct kn_keyed *e = m->head.next;
        m->head.next = e->next;
        kn_item_free(e->item);
        rt_pool_free(e);
    }
    rt_pool_free(m->buckets);
    rt_pool_free(m->heap);
    *m = (struct kn_item_map){.is_ordered = is_ordered};
}
