#include "kernels/parsing/feature_map.h"

#include "runtime/base/map.h"

/* Hashes all bytes of a name of at most 16 bytes, and the first KEY_BYTES bytes of a longer name.
 * Names may come from a model's inputs, and may be hundreds of megabytes long. */
static uint64_t name_hash(struct rt_span s)
{
    enum { KEY_BYTES = 4096 };
    uint64_t a = 0, b = 0;

    if (s.n > 16)
        return rt_hash(s.p, s.n < KEY_BYTES ? s.n : KEY_BYTES);
    if (s.n >= 8) {
        memcpy(&a, s.p, 8);
        memcpy(&b, s.p + s.n - 8, 8);
    } else if (s.n >= 4) {
        memcpy(&a, s.p, 4);
        memcpy(&b, s.p + s.n - 4, 4);
    } else if (s.n > 0) {
        a = s.p[0] | (uint64_t)s.p[s.n / 2] << 8 | (uint64_t)s.p[s.n - 1] << 16;
    }
    uint64_t h = (a ^ s.n) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 32 ^ b) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

struct kn_feature_map *kn_feature_map_new(int n, void *(*alloc)(void *arg, size_t bytes), void *arg)
{
    uint32_t slots = 4;

    while (slots < 3 * (uint32_t)n)
        slots *= 2;
    const size_t head = sizeof(struct kn_feature_map);
    char *p = alloc(arg, head + (size_t)n * sizeof(struct kn_feature) +
                             slots * sizeof(struct kn_feature_slot));
    if (!p)
        return NULL;
    struct kn_feature_map *m = (struct kn_feature_map *)(void *)p;
    m->n = n;
    m->mask = slots - 1;
    m->feature = (struct kn_feature *)(void *)(p + head);
    m->slot = (struct kn_feature_slot *)(void *)(m->feature + n);
    return m;
}

void kn_feature_map_index(struct kn_feature_map *m)
{
    memset(m->slot, 0, ((size_t)m->mask + 1) * sizeof *m->slot);
    m->n_dense = m->n_sparse = m->n_ragged = m->n_lists = 0;
    for (int k = 0; k < m->n; k++) {
        struct kn_feature *f = &m->feature[k];
        int *count = f->kind == KN_DENSE    ? &m->n_dense
                     : f->kind == KN_SPARSE ? &m->n_sparse
                                            : &m->n_ragged;
        f->at = (*count)++;
        f->list = f->kind == KN_DENSE && !f->is_padded ? -1 : m->n_lists++;
        /* `head` holds the first four bytes of a Feature: the tag and length of its list, followed
         * by the tag and length of the packed values. */
        const uint32_t bytes = f->stride > 0 && f->stride < 30 ? 4 * (uint32_t)f->stride : 0;
        f->head = f->dtype == RT_F32 && bytes ? 0x000a0012 | (bytes + 2) << 8 | bytes << 24 : 0;
        m->has_twins |= kn_feature_map_find(m, f->name) >= 0;
        const uint32_t hash = (uint32_t)name_hash(f->name);
        uint32_t i = hash & m->mask;
        while (m->slot[i].index)
            i = (i + 1) & m->mask;
        m->slot[i] = (struct kn_feature_slot){hash, k + 1};
    }
}

int kn_feature_map_find(const struct kn_feature_map *m, struct rt_span name)
{
    const uint32_t hash = (uint32_t)name_hash(name);

    for (uint32_t i = hash & m->mask; m->slot[i].index; i = (i + 1) & m->mask) {
        const struct rt_span have = m->feature[m->slot[i].index - 1].name;
        if (m->slot[i].hash == hash && have.n == name.n && kn_same_bytes(have.p, name.p, name.n))
            return m->slot[i].index - 1;
    }
    return -1;
}

bool kn_dense_shape(const struct rt_shape *s, bool *is_padded, int64_t *stride)
{
    *is_padded = s->rank > 0 && s->dim[0] < 0;
    if (s->rank < 0)
        return false;
    *stride = rt_count(s->rank - *is_padded, s->dim + *is_padded);
    return *stride >= 0;
}
