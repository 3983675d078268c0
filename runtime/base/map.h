/*
 * A hash map from byte strings to pointers. The map copies the keys. Each process uses its own hash
 * key (siphash.h), so nobody can construct a file whose names all collide.
 *
 * Threads: any number of readers while no thread writes.
 */
#ifndef RT_BASE_MAP_H
#define RT_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_map_entry {
    const char *key; /* the key's bytes, followed by a NUL */
    size_t key_len;
    uint64_t hash;
    void *value;
};

struct rt_map {
    struct rt_map_entry *entry; /* entries in order of insertion; a removed entry has a NULL key */
    uint32_t *slot;
    size_t n, capacity, n_slots, n_live;
};

/* Returns a hash that is equal in all processes. Must not be used for keys that an attacker may
 * choose. */
uint64_t rt_hash(const void *p, size_t n);

void rt_map_init(struct rt_map *m);
/* frees the map, but not the values, which the caller must free */
void rt_map_clear(struct rt_map *m);
/* returns NULL if the map has no entry for the key */
void *rt_map_get(const struct rt_map *m, const char *key);
void *rt_map_getn(const struct rt_map *m, const char *key, size_t n);
/* Sets the value of a key, replacing any older value. Returns false, and leaves the map unchanged,
 * if out of memory. */
bool rt_map_put(struct rt_map *m, const char *key, void *value);
bool rt_map_putn(struct rt_map *m, const char *key, size_t n, void *value);
bool rt_map_remove(struct rt_map *m, const char *key);
bool rt_map_removen(struct rt_map *m, const char *key, size_t n);

#endif
