#include "kernels/parsing/parse_example.h"

/* Reads a length that is encoded in at most three bytes and is therefore below 2 MiB. */
static inline const uint8_t *read_length(const uint8_t *p, const uint8_t *end, size_t *n)
{
    if (p < end && p[0] < 0x80) {
        *n = p[0];
        return p + 1;
    }
    if (end - p >= 2 && p[1] < 0x80) {
        *n = (p[0] & 0x7fu) | (size_t)p[1] << 7;
        return p + 2;
    }
    if (end - p >= 3 && p[2] < 0x80) {
        *n = (p[0] & 0x7fu) | (p[1] & 0x7fu) << 7 | (size_t)p[2] << 14;
        return p + 3;
    }
    return NULL;
}

/* Returns whether the list at v consists of one packed chunk of less than 128 bytes. If so, v
 * begins with the tag and length of the list, followed by the tag and length of the chunk. */
static inline bool is_short_list(const uint8_t *v, size_t n, uint8_t tag)
{
    return n >= 4 && v[0] == tag && v[1] < 0x80 && v[1] == n - 2 && v[2] == 0x0a && v[3] < 0x80 &&
           v[3] == n - 4;
}

/* For each element type, the protobuf tag of this type's list in a Feature. */
static const uint8_t list_tag[RT_N_DTYPES] = {[RT_STRING] = 0x0a, [RT_F32] = 0x12, [RT_I64] = 0x1a};

static bool ints_of_row(const uint8_t *p, const uint8_t *end, int64_t *dst, int64_t want)
{
    for (int64_t i = 0; i < want; i++) {
        uint64_t x = 0;
        int shift = 0;
        do {
            if (p == end || shift > 63)
                return false;
            x |= (uint64_t)(*p & 0x7f) << shift;
            shift += 7;
        } while (*p++ >= 0x80);
        dst[i] = (int64_t)x;
    }
    return p == end;
}

/* Copies a string. A short string is stored inside the rt_str, without a function call. */
static inline bool put_str(struct rt_run *r, struct rt_str *dst, const uint8_t *p, size_t n)
{
    if (n >= sizeof dst->u.in || dst->n >= sizeof dst->u.in)
        return rt_str_set(dst, rt_run_pool(r), p, n, r->err);
    memset(dst->u.in, 0, sizeof dst->u.in);
    memcpy(dst->u.in, p, n);
    dst->n = n;
    return true;
}

static inline bool read_row(struct kn_parse *s, const struct kn_feature *f, const uint8_t *v,
                            size_t n)
{
    struct rt_span list = rt_span_of(v, n);
    const struct rt_tensor *o = &s->r->out[s->l->vals + f->at];
    const int64_t first = s->e * f->stride;
    int64_t have;

    if (f->stride == 0)
        return false;
    switch ((enum rt_dtype)f->dtype) {
    case RT_F32:
        if (f->head && n == (size_t)f->stride * 4 + 4 && kn_load32(v) == f->head) {
            if (f->stride == 1)
                memcpy((float *)o->data + first, v + 4, 4);
            else
                memcpy((float *)o->data + first, v + 4, (size_t)f->stride * 4);
            return true;
        }
        break;
    case RT_I64:
        if (is_short_list(v, n, 0x1a))
            return ints_of_row(v + 4, v + n, (int64_t *)o->data + first, f->stride);
        break;
    default:
        if (f->stride == 1 && is_short_list(v, n, 0x0a))
            return put_str(s->r, (struct rt_str *)o->data + first, v + 4, n - 4);
        break;
    }
    return kn_feature_type(&list) == f->dtype &&
           kn_feature_list(s->r, f->dtype, list, kn_parse_row(s, f, s->e), f->stride, &have) &&
           have == f->stride;
}

/* Checks and counts the elements between p and end. A short list of strings has exactly one
 * element. */
static inline bool count_short(enum rt_dtype dtype, const uint8_t *p, const uint8_t *end,
                               int64_t *n)
{
    int run = 0;

    if (dtype == RT_F32) {
        *n = (end - p) / 4;
        return (end - p) % 4 == 0;
    }
    if (dtype == RT_STRING) {
        *n = 1;
        return true;
    }
    for (; p < end; p++)
        if (*p < 0x80) {
            ++*n;
            run = 0;
        } else if (++run == 10) {
            return false;
        }
    return run == 0;
}

bool kn_parse_short(struct rt_run *r, enum rt_dtype dtype, const struct kn_parse_part *part,
                    void *dst)
{
    switch (dtype) {
    case RT_F32:
        if (part->bytes)
            memcpy(dst, part->p, part->bytes);
        return true;
    case RT_I64:
        return ints_of_row(part->p, part->p + part->bytes, dst, part->n);
    default:
        return put_str(r, dst, part->p, part->bytes);
    }
}

static inline bool note_list(struct kn_parse *s, const struct kn_feature *f, const uint8_t *v,
                             size_t n)
{
    struct rt_span list = rt_span_of(v, n);
    struct kn_parse_part *part = &s->part[f->list * s->n + s->e];
    int64_t have = 0;

    if (is_short_list(v, n, list_tag[f->dtype])) {
        if (!count_short(f->dtype, v + 4, v + n, &have))
            return false;
        if (f->kind == KN_DENSE && (f->stride == 0 || have % f->stride != 0))
            return false;
        *part = (struct kn_parse_part){v + 4, (uint32_t)n - 4, true, have};
        return true;
    }
    if (kn_feature_type(&list) != f->dtype ||
        !kn_feature_list(s->r, f->dtype, list, NULL, INT64_MAX, &have))
        return false;
    if (f->kind == KN_DENSE && (f->stride == 0 || have % f->stride != 0))
        return false;
    *part = (struct kn_parse_part){.p = list.p, .bytes = (uint32_t)list.n, .n = have};
    return true;
}

/* Reads the name of the entry between e and end, which is entry number `position` of its example.
 * Sets *found to the index of the feature with this name, or to -1 if there is none. Returns the
 * address of the length field of the entry's value, or NULL if the entry has an unusual
 * encoding. */
static inline const uint8_t *read_name(struct kn_parse *s, int position, const uint8_t *e,
                                       const uint8_t *end, int *found)
{
    struct kn_feature_memory *m = s->memory;
    const size_t n = (size_t)(end - e);

    if (position < m->n && n > m->at[position].n &&
        kn_same_bytes(e, m->at[position].head, m->at[position].n)) {
        *found = m->at[position].found;
        return e + m->at[position].n;
    }
    if (n < 3 || e[0] != 0x0a || e[1] >= 0x80 || n < (size_t)e[1] + 3 || e[2 + e[1]] != 0x12 ||
        position >= KN_REMEMBERED)
        return NULL;
    *found = kn_feature_map_find(s->map, rt_span_of(e + 2, e[1]));
    m->at[position].head = e;
    m->at[position].n = e[1] + 3u;
    m->at[position].found = *found;
    if (position >= m->n)
        m->n = position + 1;
    return e + 3 + e[1];
}

static void forget(struct kn_parse *s)
{
    for (int k = 0; k < s->map->n; k++)
        if (s->last[k] == s->e + 1) {
            s->last[k] = 0;
            if (s->map->feature[k].list >= 0)
                s->part[s->map->feature[k].list * s->n + s->e] = (struct kn_parse_part){0};
        }
}

static bool read_all(struct kn_parse *s, const uint8_t *p, const uint8_t *end)
{
    for (int position = 0; p < end; position++) {
        size_t n;
        int found;
        if (*p != 0x0a)
            return false;
        const uint8_t *e = read_length(p + 1, end, &n);
        if (!e || n > (size_t)(end - e))
            return false;
        p = e + n;
        const uint8_t *v = read_name(s, position, e, p, &found);
        v = v ? read_length(v, p, &n) : NULL;
        if (!v || n != (size_t)(p - v))
            return false;
        if (found < 0)
            continue;
        const struct kn_feature *f = &s->map->feature[found];
        if (n == 0 || s->last[found] == s->e + 1)
            return false;
        s->last[found] = s->e + 1;
        if (!(f->list < 0 ? read_row(s, f, v, n) : note_list(s, f, v, n)))
            return false;
    }
    return true;
}

bool kn_parse_quick(struct kn_parse *s, struct rt_span example)
{
    const uint8_t *end = example.n ? example.p + example.n : example.p;
    size_t n;

    if (example.n < 2 || *example.p != 0x0a)
        return false;
    const uint8_t *p = read_length(example.p + 1, end, &n);
    if (!p || n != (size_t)(end - p))
        return false;
    if (read_all(s, p, end))
        return true;
    forget(s);
    return false;
}
