/*
 * A hash map from byte strings to pointers. The map copies keys into its own memory. It serves
 * look-ups of names during import and loading; a request hashes no name twice. The hash is keyed by
 * the process (siphash.h), so that nobody can write a file whose names collide.
 *
 * Threads: any number of readers while no thread writes.
 */
#ifndef RT_BASE_MAP_H
#define RT_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_map_entry {
    const char *key; /* followed by a NUL */
    size_t key_len;
    uint64_t hash;
    void *value;
};

struct rt_map {
    struct rt_map_entry *entry; /* in the order of insertion; the key of a removed entry is NULL */
    uint32_t *slot;
    size_t n, capacity, n_slots, n_live;
};

uint64_t rt_hash(const void *p, size_t n); /* equal in all processes: not for hostile keys */

void rt_map_init(struct rt_map *m);
void rt_map_clear(struct rt_map *m);                       /* the caller frees the values */
void *rt_map_get(const struct rt_map *m, const char *key); /* NULL: no entry */
void *rt_map_getn(const struct rt_map *m, const char *key, size_t n);
/* Sets the value of a key, replacing an older one. False: out of memory; nothing has changed. */
bool rt_map_put(struct rt_map *m, const char *key, void *value);
bool rt_map_putn(struct rt_map *m, const char *key, size_t n, void *value);
bool rt_map_remove(struct rt_map *m, const char *key);

#endif
