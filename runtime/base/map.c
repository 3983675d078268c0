#include "runtime/base/map.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/siphash.h"

enum { EMPTY = 0 }; /* a slot holds an entry's index plus 1, so 0 means empty */

/* FNV-1a (Fowler, Noll, Vo) followed by the first half of MurmurHash3's finaliser. Both are in the
 * public domain. */
uint64_t rt_hash(const void *p, size_t n)
{
    const unsigned char *s = p;
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++)
        h = (h ^ s[i]) * UINT64_C(1099511628211);
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 33;
    return h;
}

static uint64_t map_hash(const void *p, size_t n)
{
    return rt_siphash(rt_siphash_key(), p, n);
}

void rt_map_init(struct rt_map *m)
{
    *m = (struct rt_map){0};
}

void rt_map_clear(struct rt_map *m)
{
    for (size_t i = 0; i < m->n; i++)
        free((void *)(uintptr_t)m->entry[i].key);
    free(m->entry);
    free(m->slot);
    rt_map_init(m);
}

static struct rt_map_entry *find(const struct rt_map *m, const char *key, size_t n, uint64_t hash)
{
    if (!m->n_slots)
        return NULL;
    for (size_t i = hash & (m->n_slots - 1);; i = (i + 1) & (m->n_slots - 1)) {
        if (m->slot[i] == EMPTY)
            return NULL;
        struct rt_map_entry *e = &m->entry[m->slot[i] - 1];
        if (e->hash == hash && e->key && e->key_len == n && memcmp(e->key, key, n) == 0)
            return e;
    }
}

void *rt_map_getn(const struct rt_map *m, const char *key, size_t n)
{
    struct rt_map_entry *e = m->n ? find(m, key, n, map_hash(key, n)) : NULL;
    return e ? e->value : NULL;
}

void *rt_map_get(const struct rt_map *m, const char *key)
{
    return rt_map_getn(m, key, strlen(key));
}

/* Enters the index of every entry into the slots, which must all be empty. */
static void fill_slots(const struct rt_map *m, uint32_t *slot, size_t n_slots)
{
    for (size_t k = 0; k < m->n; k++) {
        size_t i = m->entry[k].hash & (n_slots - 1);
        while (slot[i] != EMPTY)
            i = (i + 1) & (n_slots - 1);
        slot[i] = (uint32_t)(k + 1);
    }
}

/* Drops the removed entries, so that the memory of a map depends on the largest number of entries
 * that it had at once, and not on the number of insertions. */
static void drop_removed(struct rt_map *m)
{
    size_t n = 0;
    for (size_t k = 0; k < m->n; k++)
        if (m->entry[k].key)
            m->entry[n++] = m->entry[k];
    m->n = n;
    memset(m->slot, 0, m->n_slots * sizeof *m->slot);
    fill_slots(m, m->slot, m->n_slots);
}

static bool grow(struct rt_map *m)
{
    if (m->n && m->n == m->capacity && m->n_live <= m->n / 2)
        drop_removed(m);
    if (m->n == m->capacity) {
        size_t capacity = m->capacity ? m->capacity * 2 : 16;
        struct rt_map_entry *e = realloc(m->entry, capacity * sizeof *e);
        if (!e)
            return false;
        m->entry = e;
        m->capacity = capacity;
    }
    if (m->n_slots >= 2 * (m->n + 1))
        return true;
    size_t n_slots = m->n_slots ? m->n_slots * 2 : 32;
    uint32_t *slot = calloc(n_slots, sizeof *slot);
    if (!slot)
        return false;
    fill_slots(m, slot, n_slots);
    free(m->slot);
    m->slot = slot;
    m->n_slots = n_slots;
    return true;
}

bool rt_map_putn(struct rt_map *m, const char *key, size_t n, void *value)
{
    uint64_t hash = map_hash(key, n);
    struct rt_map_entry *e = find(m, key, n, hash);
    if (e) {
        e->value = value;
        return true;
    }
    if (!grow(m))
        return false;
    char *copy = malloc(n + 1);
    if (!copy)
        return false;
    memcpy(copy, key, n);
    copy[n] = '\0';
    m->entry[m->n] = (struct rt_map_entry){copy, n, hash, value};
    size_t i = hash & (m->n_slots - 1);
    while (m->slot[i] != EMPTY)
        i = (i + 1) & (m->n_slots - 1);
    m->slot[i] = (uint32_t)++m->n;
    m->n_live++;
    return true;
}

bool rt_map_put(struct rt_map *m, const char *key, void *value)
{
    return rt_map_putn(m, key, strlen(key), value);
}

bool rt_map_remove(struct rt_map *m, const char *key)
{
    return rt_map_removen(m, key, strlen(key));
}

bool rt_map_removen(struct rt_map *m, const char *key, size_t n)
{
    struct rt_map_entry *e = find(m, key, n, map_hash(key, n));
    if (!e)
        return false;
    free((void *)(uintptr_t)e->key);
    e->key = NULL;
    e->value = NULL;
    m->n_live--;
    return true;
}
