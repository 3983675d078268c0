/*
 * Maps from 64-bit keys to items. The first item of a map is the same as in TensorFlow. In an
 * ordered map, it is the item with the lowest key. An unordered map is modelled on
 * std::unordered_map of libstdc++, where the first item depends on the order of insertions.
 *
 * Owner: the map owns its items. Threads: a map is guarded by the lock of the resource to which it
 * belongs.
 */
#ifndef KN_QUEUE_ITEM_MAP_H
#define KN_QUEUE_ITEM_MAP_H

#include "kernels/queue/items.h"

struct kn_keyed {
    struct kn_keyed *next;
    int64_t key;
    int key_rank;    /* rank of the tensor that gave the key; all of its dimensions are 1 */
    int64_t heap_at; /* position in kn_item_map.heap */
    struct kn_item *item;
};
/* The map is empty if all members but is_ordered are zero. */
struct kn_item_map {
    bool is_ordered;
    int64_t n;
    struct kn_keyed head; /* head.next is the first entry of the list of all entries */
    /* for each bucket, the entry before its first entry, or NULL if the bucket is empty */
    struct kn_keyed **buckets;
    int64_t n_buckets;
    struct kn_keyed **heap; /* entries of an ordered map; the lowest key is at position 0 */
    int64_t n_heap_allocated;
};

/* Sets *out to the entry of the key, or to NULL if there is none. Fails only if the run has been
 * cancelled or its deadline has passed. */
enum rt_status kn_item_map_find(struct rt_run *r, const struct kn_item_map *m, int64_t key,
                                struct kn_keyed **out);
/* Returns the entry that MapUnstageNoKey takes. The map must not be empty. */
struct kn_keyed *kn_item_map_first(const struct kn_item_map *m);
/* Adds an item. The map must not hold its key. If the call succeeds, the map owns the item. */
enum rt_status kn_item_map_add(struct rt_run *r, struct kn_item_map *m, int64_t key, int key_rank,
                               struct kn_item *i);
/* Removes an entry and returns its item. The caller owns the item. */
struct kn_item *kn_item_map_remove(struct kn_item_map *m, struct kn_keyed *e);
/* Frees all items. The map is empty afterwards. */
void kn_item_map_clear(struct kn_item_map *m);

#endif
