/*
 * Maps from 64-bit keys to items, in the order in which TensorFlow's maps hold them: an unordered
 * map is the C++ standard library's std::unordered_map (libstdc++), whose first item depends on the
 * order of insertions, and an ordered map begins with the item of the lowest key.
 *
 * Owner: the map owns its items. Threads: the lock of the resource that holds the map guards it.
 */
#ifndef KN_QUEUE_ITEM_MAP_H
#define KN_QUEUE_ITEM_MAP_H

#include "kernels/queue/items.h"

struct kn_keyed {
    struct kn_keyed *next;
    int64_t key;
    int64_t heap_at; /* position in kn_item_map.heap */
    struct kn_item *item;
};
/* A zeroed struct, apart from is_ordered, is an empty map. */
struct kn_item_map {
    bool is_ordered;
    int64_t n;
    struct kn_keyed head;      /* head.next is the first entry of the list of all entries */
    struct kn_keyed **buckets; /* the entry before the first one of each bucket, or NULL */
    int64_t n_buckets;
    struct kn_keyed **heap; /* entries of an ordered map; the lowest key is at position 0 */
    int64_t n_heap_allocated;
};

/* Sets *out to the entry of the key, or to NULL if there is none. Fails only if the run must
 * end. */
enum rt_status kn_item_map_find(struct rt_run *r, const struct kn_item_map *m, int64_t key,
                                struct kn_keyed **out);
/* Returns the entry that MapUnstageNoKey takes. The map must not be empty. */
struct kn_keyed *kn_item_map_first(const struct kn_item_map *m);
/* Adds an item whose key the map does not hold. Takes the item if it succeeds. */
enum rt_status kn_item_map_add(struct rt_run *r, struct kn_item_map *m, int64_t key,
                               struct kn_item *i);
/* Removes an entry, and returns its item, which the caller owns. */
struct kn_item *kn_item_map_remove(struct kn_item_map *m, struct kn_keyed *e);
/* Frees all items. The map is empty afterwards. */
void kn_item_map_clear(struct kn_item_map *m);

#endif
