#include "kernels/sparse/cross.h"

#include <stdio.h>
#include <string.h>

#include "kernels/string/farmhash.h"
#include "kernels/string/text.h"

void kn_cross_rewind(struct kn_cross *c)
{
    for (int i = 0; i < c->n; i++)
        c->column[i].first = c->column[i].n = 0;
}

void kn_cross_next(struct kn_cross *c)
{
    for (int i = c->n - 1; i >= 0; i--) {
        if (++c->column[i].at < c->column[i].n)
            return;
        c->column[i].at = 0;
    }
}

/* Combines two fingerprints. */
static uint64_t join(uint64_t a, uint64_t b)
{
    const uint64_t mul = UINT64_C(0xc6a4a7935bd1e995);
    uint64_t x = b * mul;

    x = (x ^ x >> 47) * mul;
    x = (a ^ mul ^ x) * mul;
    x = (x ^ x >> 47) * mul;
    return x ^ x >> 47;
}

static uint64_t hash_of(struct kn_cross *c, const struct kn_column *k)
{
    const int64_t i = k->first + k->at;

    if (kn_dtype(k->values) == RT_STRING) {
        const struct rt_str *s = &rt_strs(k->values)[i];
        return c->how == KN_CROSS_KEYED && c->is_strong
                   ? kn_sip_hash(c->salt, rt_str_data(s), s->n, &c->read)
                   : kn_fingerprint64(rt_str_data(s), s->n, &c->read);
    }
    const int64_t v = ((const int64_t *)k->values->data)[i];
    char bytes[sizeof v];
    memcpy(bytes, &v, sizeof v);
    /* As in TensorFlow, SparseCrossHashed hashes only the lower four bytes of an integer. Without a
     * strong hash, integers of dense columns are not hashed. */
    if (c->how == KN_CROSS_KEYED && c->is_strong)
        return kn_sip_hash(c->salt, bytes, 4, NULL);
    return c->how == KN_CROSS_KEYED && k->indices ? kn_fingerprint64(bytes, 4, NULL) : (uint64_t)v;
}

int64_t kn_cross_work(const struct kn_cross *c)
{
    int64_t work = c->n * KN_STRING_WORK + c->n * (int64_t)c->between.n;

    for (int i = 0; i < c->n; i++) {
        const struct kn_column *k = &c->column[i];
        work += kn_text_work(kn_dtype(k->values), kn_at(k->values, k->first + k->at), 1);
    }
    return work;
}

static int64_t hashed(struct kn_cross *c)
{
    uint64_t h = c->how == KN_CROSS_KEYED ? hash_of(c, &c->column[0])
                                          : join(c->key, hash_of(c, &c->column[0]));

    for (int i = 1; i < c->n; i++)
        h = join(h, hash_of(c, &c->column[i]));
    return (int64_t)(h % (c->buckets > 0 ? (uint64_t)c->buckets : (uint64_t)INT64_MAX));
}

static struct rt_span text_of(const struct kn_column *k, char *buf, size_t n)
{
    const int64_t i = k->first + k->at;

    if (kn_dtype(k->values) == RT_STRING)
        return rt_span_of(rt_str_data(&rt_strs(k->values)[i]), rt_strs(k->values)[i].n);
    const long long v = ((const int64_t *)k->values->data)[i];
    return rt_span_of(buf, (size_t)snprintf(buf, n, "%lld", v));
}

static enum rt_status write_text(const struct kn_cross *c, struct rt_str *out, int64_t *left)
{
    char number[32];
    size_t n = 0;

    for (int i = 0; i < c->n; i++)
        n += text_of(&c->column[i], number, sizeof number).n + (i ? c->between.n : 0);
    char *p = rt_str_resize(out, rt_run_pool(c->r), n, c->r->err);
    enum rt_status st = p ? RT_OK : c->r->err->code;
    for (int i = 0; i < c->n && !st; i++) {
        const struct rt_span s = text_of(&c->column[i], number, sizeof number);
        if (i) {
            st = kn_copy_text(c->r, left, p, c->between.p, c->between.n);
            p += c->between.n;
        }
        if (!st)
            st = kn_copy_text(c->r, left, p, s.p, s.n);
        p += s.n;
    }
    return st;
}

enum rt_status kn_cross_put(struct kn_cross *c, void *value, int64_t at, int64_t *left)
{
    if (c->how != KN_CROSS_TEXT)
        ((int64_t *)value)[at] = hashed(c);
    else if (write_text(c, (struct rt_str *)value + at, left))
        return c->r->err->code;
    return c->read.st;
}
