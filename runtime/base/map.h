/*
 * A hash map from byte strings to pointers. Keys are copied into the map's own memory. Used where
 * names are looked up while importing and loading; nothing on a request's way hashes a name twice.
 * Its hash has a key of the process's own (siphash.h), so that a file's names cannot be chosen to
 * collide.
 *
 * Threads: readers may share it while nobody writes.
 */
#ifndef RT_BASE_MAP_H
#define RT_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_map_entry {
    const char *key; /* ends in NUL */
    size_t key_len;
    uint64_t hash;
    void *value;
};

struct rt_map {
    struct rt_map_entry *entry; /* in the order of insertion; removed ones have key NULL */
    uint32_t *slot;
    size_t n, capacity, n_slots, n_live;
};

uint64_t rt_hash(const void *p, size_t n); /* the same on every run: not for hostile key sets */

void rt_map_init(struct rt_map *m);
void rt_map_clear(struct rt_map *m);                       /* values are the caller's */
void *rt_map_get(const struct rt_map *m, const char *key); /* NULL: not there */
void *rt_map_getn(const struct rt_map *m, const char *key, size_t n);
/* Replaces what is there. False: out of memory, nothing changed. */
bool rt_map_put(struct rt_map *m, const char *key, void *value);
bool rt_map_putn(struct rt_map *m, const char *key, size_t n, void *value);
bool rt_map_remove(struct rt_map *m, const char *key);

#endif
