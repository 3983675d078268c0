/*
 * A prepared kernel is the chosen kernel of a node with its state, for given shapes of the inputs
 * (and given values of inputs that determine output shapes). Both tiers use this code to make
 * prepared kernels. For tier 0, a node caches a bounded number of prepared kernels. Beyond this
 * bound, a prepared kernel is made for one run and freed. Readers traverse the list of cached
 * kernels without a lock, because entries are only added, at the front, and live as long as the
 * plan.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/core/op.h"
#include "runtime/exec/context.h"
#include "runtime/select/benchmark.h"
#include "runtime/select/choose.h"
#include "runtime/select/prepared.h"
#include "runtime/session/session_internal.h"

enum {
    MAX_KEPT = 8, /* maximum number of prepared kernels that a node keeps */
    MAX_KEPT_BYTES = 1 << 20,
    /* maximum total size of the prepared kernels of a session, in bytes */
    MAX_SESSION_BYTES = 128 << 20,
    MAX_VALUE_ELEMENTS = 64,
};

struct rt_prepared_cache {
    _Atomic(struct rt_prepared *) first;
    atomic_int n;
    /* bit k is set if input k was packed at least once, for tier 0 or for a specialisation */
    _Atomic uint64_t packed;
    struct rt_mutex mu;
};

struct block {
    struct block *next;
    _Alignas(16) unsigned char data[];
};

struct rt_prepared_cache *rt_prepared_cache_new(struct rt_arena *arena)
{
    struct rt_prepared_cache *c = rt_arena_alloc(arena, sizeof *c);
    if (c)
        rt_mutex_init(&c->mu);
    return c;
}

void rt_prepared_free(struct rt_prepared *p)
{
    if (!p)
        return;
    if (p->release)
        p->release(p->state);
    for (struct block *b = p->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(p);
}

void rt_prepared_cache_clear(struct rt_prepared_cache *c)
{
    for (struct rt_prepared *p = atomic_load(&c->first), *next; p; p = next) {
        next = p->next;
        atomic_fetch_sub(&p->session->prepared_bytes, p->bytes);
        rt_prepared_free(p);
    }
    atomic_store(&c->first, NULL);
    rt_mutex_clear(&c->mu);
}

static void *add_block(struct rt_prepared *p, size_t n)
{
    if (n > SIZE_MAX - sizeof(struct block))
        return NULL;
    struct block *b = calloc(1, sizeof *b + n);
    if (!b)
        return NULL;
    b->next = p->blocks;
    p->blocks = b;
    return b->data;
}

void *rt_prep_alloc(struct rt_prep *p, size_t n)
{
    const size_t limit = p->self->session->options.run_memory_limit;
    void *m = NULL;
    if (!limit || (n <= limit && p->self->bytes <= limit - n))
        m = add_block(p->self, n);
    if (m)
        p->self->bytes += n;
    else
        rt_fail_memory(p->err, p->node->name, n);
    return m;
}

const void *rt_pack_data(const struct rt_pack *k)
{
    return k->data;
}

struct copy_sink {
    const struct rt_session *session;
    char *dst;
    size_t n;
};

static enum rt_status copy_window(void *arg, size_t off, const void *p, size_t n,
                                  struct rt_error *err)
{
    struct copy_sink *s = arg;
    if (off > s->n || n > s->n - off)
        return rt_fail(err, RT_INTERNAL, "a weight is longer than it says");
    memcpy(s->dst + off, p, n);
    return rt_session_check(s->session, err);
}

/* Sets *out to the plain bytes of a constant, for packing. A lazy constant is streamed into a
 * temporary tensor and is not loaded. */
static enum rt_status plain_bytes(const struct rt_session *s, const struct rt_tensor *src,
                                  struct rt_tensor *out, struct rt_error *err)
{
    if (!rt_tensor_is_lazy(src) || !src->buf->stream) {
        rt_tensor_ref(out, src);
        return rt_tensor_load(out, err);
    }
    enum rt_status st =
        rt_tensor_new(out, NULL, (enum rt_dtype)src->dtype, src->rank, src->dim, err);
    if (st)
        return st;
    struct copy_sink sink = {s, out->data, rt_tensor_bytes(out)};
    return src->buf->stream(src->buf, copy_window, &sink, err);
}

enum rt_status rt_prep_pack(struct rt_prep *p, int input, const void *fmt, size_t fmt_len,
                            size_t bytes,
                            enum rt_status (*fill)(const struct rt_tensor *src, void *dst,
                                                   const void *fmt, struct rt_error *err),
                            const struct rt_pack **out)
{
    *out = NULL;
    struct rt_plan_step *n = p->self->node;
    if (input >= 64 || !(n->const_in >> input & 1))
        return RT_OK;
    struct rt_session *s = p->self->session;
    const struct rt_tensor *src = p->in[input].value;
    if (!src->buf)
        return RT_OK;
    if (p->self->benchmark)
        return pl_benchmark_pack(p, input, bytes, out);
    enum rt_status st = RT_OK;
    /* The key consists of the address of the buffer, which a reference keeps alive, the address of
     * the data, and fmt. */
    size_t key_len = 2 * sizeof(void *) + fmt_len;
    char *key = malloc(key_len);
    if (!key)
        return rt_fail_memory(p->err, "a packed weight", key_len);
    memcpy(key, &src->buf, sizeof(void *));
    memcpy(key + sizeof(void *), &src->data, sizeof(void *));
    if (rt_tensor_is_lazy(src) || src->buf->kind == RT_BUF_LAZY)
        /* clears the address of the data in the key, because the address may change */
        memset(key + sizeof(void *), 0, sizeof(void *));
    memcpy(key + 2 * sizeof(void *), fmt, fmt_len);
    rt_mutex_lock(&s->mu);
    struct rt_pack *k = rt_map_getn(&s->packs, key, key_len);
    rt_mutex_unlock(&s->mu);
    if (!k) {
        struct rt_tensor plain = {0};
        k = calloc(1, sizeof *k);
        if (!k || bytes > SIZE_MAX - 128 ||
            !(k->data = rt_large_alloc((bytes + 127) & ~(size_t)63))) {
            free(k);
            free(key);
            return rt_fail_memory(p->err, "a packed weight", bytes);
        }
        st = plain_bytes(s, src, &plain, p->err);
        if (!st)
            st = fill(&plain, k->data, fmt, p->err);
        rt_tensor_clear(&plain);
        struct rt_pack *other = NULL;
        if (!st) {
            rt_mutex_lock(&s->mu);
            other = rt_map_getn(&s->packs, key, key_len);
            if (!other && !rt_map_putn(&s->packs, key, key_len, k))
                st = rt_fail_memory(p->err, "a packed weight", key_len);
            if (!st && !other) {
                atomic_fetch_add(&s->packed_bytes, (int64_t)bytes);
                /* The session holds the buffer, because the buffer's address is in the key. */
                rt_buffer_ref(src->buf);
            }
            rt_mutex_unlock(&s->mu);
        }
        if (st || other) {
            free(k->data);
            free(k);
            k = other;
        }
    }
    free(key);
    if (!st) {
        *out = k;
        p->self->packed |= UINT64_C(1) << input;
        p->self->packed_bytes += bytes;
    }
    return st;
}

/* Frees the packs of a session that ends, and drops the references to the buffers in their keys. */
void rt_packs_clear(struct rt_map *packs)
{
    for (size_t i = 0; i < packs->n; i++) {
        struct rt_pack *k = packs->entry[i].value;
        struct rt_buffer *b;
        memcpy(&b, packs->entry[i].key, sizeof b);
        rt_buffer_unref(b);
        free(k->data);
        free(k);
    }
    rt_map_clear(packs);
}

/* ---- keys: ranks, dimensions, and values that determine output shapes ---- */

static bool key_capacity(struct rt_context *c, int n)
{
    if (n <= c->key_capacity)
        return true;
    int64_t *k = realloc(c->key, (size_t)n * 2 * sizeof *k);
    if (!k)
        return false;
    c->key = k;
    c->key_capacity = n * 2;
    return true;
}

/* Makes the key and returns its number of words. Returns -1 if the prepared kernel is not kept,
 * because a value that the key must contain is too large, and -2 if memory runs out. */
static int make_key(struct rt_context *c, const struct rt_plan_step *n, const struct rt_tensor *in)
{
    int at = 0;
    bool keep = true;
    for (int k = 0; k < n->n_in; k++) {
        if (!key_capacity(c, at + 2 + RT_MAX_RANK + MAX_VALUE_ELEMENTS * 2))
            return -2;
        const struct rt_tensor *t = &in[k];
        c->key[at++] = t->rank;
        for (int d = 0; d < t->rank; d++)
            c->key[at++] = t->dim[d];
        if (!rt_op_reads_value(n->def->op, k, n->n_in) || (k < 64 && (n->const_in >> k & 1)))
            continue;
        size_t bytes = rt_tensor_bytes(t);
        if (!rt_dtype_is_plain((enum rt_dtype)t->dtype) || bytes > MAX_VALUE_ELEMENTS * 8) {
            keep = false;
            continue;
        }
        if (bytes) {
            c->key[at + (int)(bytes - 1) / 8] = 0;
            memcpy(&c->key[at], t->data, bytes);
            at += (int)((bytes + 7) / 8);
        }
    }
    return keep ? at : -1;
}

static void fill_info(struct rt_info *x, const struct rt_tensor *t)
{
    x->dtype = (enum rt_dtype)t->dtype;
    x->shape.rank = t->rank;
    memcpy(x->shape.dim, t->dim, sizeof t->dim);
    x->value = NULL;
}

enum rt_status rt_infer_shapes(struct rt_infer *x)
{
    enum rt_status st = x->node->op->infer(x);
    for (int k = 0; k < x->n_out && !st; k++) {
        const struct rt_shape *s = &x->out[k].shape;
        int64_t known[RT_MAX_RANK];
        int n = 0;
        for (int d = 0; d < s->rank; d++)
            if (s->dim[d] >= 0)
                known[n++] = s->dim[d];
        st = rt_shape_check((enum rt_dtype)x->node->out_dtype[k], n, known, NULL, x->err);
    }
    return st;
}

enum rt_status rt_prepared_infer(struct rt_session *session, struct rt_plan_step *n, int n_key,
                                 const int64_t *key, struct rt_info *info, struct rt_prepared **out,
                                 struct rt_error *err)
{
    int n_in = n->n_in, n_out = n->n_out;
    size_t size = sizeof(struct rt_prepared) + (size_t)(n_key > 0 ? n_key : 0) * sizeof(int64_t) +
                  (size_t)n_out * (RT_MAX_RANK * sizeof(int64_t) + 2) + 16;
    struct rt_prepared *p = calloc(1, size);
    enum rt_status st = RT_OK;
    if (!p)
        return rt_fail_memory(err, n->name, size);
    p->session = session;
    p->bytes = size;
    p->node = n;
    p->dim = (void *)(p + 1);
    p->key = (int64_t *)(p->dim + n_out);
    p->alias = (int8_t *)(p->key + (n_key > 0 ? n_key : 0));
    p->rank = p->alias + n_out;
    if (n_key > 0)
        memcpy(p->key, key, (size_t)n_key * sizeof *p->key);
    p->n_key = n_key;
    for (int k = 0; k < n_out; k++) {
        info[n_in + k] = (struct rt_info){.dtype = (enum rt_dtype)n->def->out_dtype[k]};
        info[n_in + k].shape.rank = -1;
        p->alias[k] = -1;
    }
    if (n->def->op->infer) {
        struct rt_infer x = {.node = n->def,
                             .n_in = n_in,
                             .n_out = n_out,
                             .in = info,
                             .out = info + n_in,
                             .alias = p->alias,
                             .err = err};
        st = rt_infer_shapes(&x);
        if (st) {
            rt_prepared_free(p);
            return st;
        }
    }
    for (int k = 0; k < n_out; k++) {
        const struct rt_shape *s = &info[n_in + k].shape;
        p->rank[k] = (int8_t)s->rank;
        for (int d = 0; d < s->rank; d++) {
            p->dim[k][d] = s->dim[d];
            if (s->dim[d] < 0)
                p->rank[k] = -1;
        }
    }
    *out = p;
    return RT_OK;
}

enum rt_status rt_prepared_choose(struct rt_prepared *p, const struct rt_info *info,
                                  struct rt_error *err)
{
    struct rt_plan_step *n = p->node;
    struct rt_prep prep = {.node = n->def,
                           .n_in = n->n_in,
                           .n_out = n->n_out,
                           .in = info,
                           .out = info + n->n_in,
                           .tuning = &p->session->options.tuning,
                           .self = p,
                           .err = err};
    enum rt_status st = rt_session_check(p->session, err);
    if (!st)
        st = rt_choose_kernel(&prep, n->kernels, n->n_kernels);
    if (!st && p->packed)
        atomic_fetch_or_explicit(&n->prepared->packed, p->packed, memory_order_relaxed);
    return st;
}

static enum rt_status prepare(struct rt_context *c, struct rt_plan_step *n,
                              const struct rt_tensor *in, int n_key, struct rt_prepared **out,
                              struct rt_error *err)
{
    struct rt_info *info = calloc((size_t)(n->n_in + n->n_out) + 1, sizeof *info);
    struct rt_prepared *p = NULL;
    if (!info)
        return rt_fail_memory(err, n->name, sizeof *info);
    for (int k = 0; k < n->n_in; k++) {
        fill_info(&info[k], &in[k]);
        if (rt_op_reads_value(n->def->op, k, n->n_in))
            info[k].value = &in[k];
    }
    enum rt_status st = rt_prepared_infer(c->shared->session, n, n_key, c->key, info, &p, err);
    for (int k = 0; k < n->n_in && k < 64; k++)
        if (n->const_in >> k & 1)
            info[k].value = &in[k];
    if (!st && (st = rt_prepared_choose(p, info, err)) != RT_OK) {
        rt_prepared_free(p);
        p = NULL;
    }
    free(info);
    *out = p;
    return st;
}

/* Charges p's bytes to its session. Returns false, and charges nothing, if MAX_SESSION_BYTES would
 * be exceeded. */
static bool has_capacity(const struct rt_prepared *p)
{
    atomic_size_t *all = &p->session->prepared_bytes;
    if (atomic_fetch_add(all, p->bytes) + p->bytes <= MAX_SESSION_BYTES)
        return true;
    atomic_fetch_sub(all, p->bytes);
    return false;
}

enum rt_status rt_prepared_get(struct rt_context *c, struct rt_plan_step *n,
                               const struct rt_tensor *in, struct rt_prepared **out,
                               struct rt_error *err)
{
    struct rt_prepared_cache *cache = n->prepared;
    int n_key = make_key(c, n, in);
    if (n_key == -2)
        return rt_fail_memory(err, n->name, 0);
    if (n_key >= 0)
        for (struct rt_prepared *p = atomic_load_explicit(&cache->first, memory_order_acquire); p;
             p = p->next)
            if (p->n_key == n_key &&
                (!n_key || memcmp(p->key, c->key, (size_t)n_key * sizeof *p->key) == 0)) {
                *out = p;
                return RT_OK;
            }
    struct rt_prepared *p = NULL;
    enum rt_status st = prepare(c, n, in, n_key, &p, err);
    if (st)
        return st;
    if (n_key >= 0 && p->bytes <= MAX_KEPT_BYTES && atomic_load(&cache->n) < MAX_KEPT) {
        rt_mutex_lock(&cache->mu);
        if (atomic_load(&cache->n) < MAX_KEPT && has_capacity(p)) {
            p->is_cached = true;
            p->next = atomic_load(&cache->first);
            atomic_store_explicit(&cache->first, p, memory_order_release);
            atomic_fetch_add(&cache->n, 1);
        }
        rt_mutex_unlock(&cache->mu);
    }
    *out = p;
    return RT_OK;
}

bool rt_prepared_uses_pack(struct rt_prepared_cache *c, int input)
{
    return atomic_load_explicit(&c->packed, memory_order_relaxed) >> input & 1;
}

const struct rt_prepared *rt_prepared_last(const struct rt_prepared_cache *c)
{
    return atomic_load_explicit(&c->first, memory_order_acquire);
}

bool rt_prepared_bytes(const struct rt_prepared *p, int o, size_t *bytes)
{
    const int64_t n = rt_count(p->rank[o], p->dim[o]);
    const size_t size = rt_dtype_size((enum rt_dtype)p->node->def->out_dtype[o]);
    return n >= 0 && !__builtin_mul_overflow((size_t)n, size, bytes);
}
