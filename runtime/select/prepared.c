/*
 * A prepared kernel is the chosen kernel of a node with its state, for given shapes of the inputs
 * (and given values of inputs that determine output shapes). Both tiers use this code to make
 * prepared kernels. For tier 0, a node caches a bounded number of them. Beyond this bound, a
 * prepared kernel is made for one run and freed. Readers traverse the list of cached kernels
 * without a lock, because entries are only added, at the front, and live as long as the plan.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/device/device_memory.h"
#include "runtime/core/op.h"
#include "runtime/exec/context.h"
#include "runtime/select/benchmark.h"
#include "runtime/select/choose.h"
#include "runtime/select/prepared.h"
#include "runtime/select/upload.h"
#include "runtime/session/session_internal.h"

enum {
    MAX_KEPT = 8,
    MAX_KEPT_BYTES = 1 << 20,
    /* maximum total size of the prepared kernels of a session, in bytes */
    MAX_SESSION_BYTES = 128 << 20,
    MAX_VALUE_ELEMENTS = 64,
};

struct rt_prepared_cache {
    _Atomic(struct rt_prepared *) first;
    atomic_int n;
    /* Bit k is set if input k was packed at least once, for tier 0 or for a specialisation. */
    _Atomic uint64_t packed;
    struct rt_mutex mu;
};

struct block {
    struct block *next;
    size_t n; /* number of bytes in `data` */
    _Alignas(16) unsigned char data[];
};

struct rt_prepared_cache *rt_prepared_cache_new(struct rt_arena *arena)
{
    struct rt_prepared_cache *c = rt_arena_alloc(arena, sizeof *c);
    if (c)
        rt_mutex_init(&c->mu);
    return c;
}

static void pack_free(struct rt_session *s, struct rt_pack *k)
{
    if (k->device)
        rt_constant_free(s, k->device, &k->memory);
    else
        free(k->data);
    free(k->key);
    free(k);
}

/* Drops the reference of the session's map to the buffer whose address is in the key. */
static void unref_buffer(const char *key)
{
    struct rt_buffer *b;
    memcpy(&b, key, sizeof b);
    rt_buffer_unref(b);
}

/* Drops a reference to a pack of an accelerator. */
static void pack_unref(struct rt_session *s, struct rt_pack *k)
{
    rt_mutex_lock(&s->mu);
    const bool is_last = --k->refs == 0;
    if (is_last)
        rt_map_removen(&s->packs, k->key, k->key_bytes);
    rt_mutex_unlock(&s->mu);
    if (!is_last)
        return;
    unref_buffer(k->key);
    pack_free(s, k);
}

void rt_prepared_reset(struct rt_prepared *p)
{
    if (p->release)
        p->release(p->state);
    for (struct block *b = p->blocks, *next; b; b = next) {
        next = b->next;
        p->bytes -= b->n;
        free(b);
    }
    for (int k = 0; k < p->n_packs; k++)
        pack_unref(p->session, p->pack[k]);
    free(p->pack);
    p->pack = NULL;
    p->n_packs = 0;
    p->blocks = NULL;
    p->release = NULL;
    p->state = NULL;
    p->kernel = NULL;
    p->device = NULL;
    p->packed = 0;
    p->packed_bytes = p->scratch_bytes = 0;
}

void rt_prepared_free(struct rt_prepared *p)
{
    if (!p)
        return;
    rt_prepared_reset(p);
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
    b->n = n;
    p->blocks = b;
    p->bytes += n;
    return b->data;
}

void *rt_prep_alloc(struct rt_prep *p, size_t n)
{
    const size_t limit = p->self->session->options.run_memory_limit;
    void *m = NULL;
    if (!limit || (n <= limit && p->self->bytes <= limit - n))
        m = add_block(p->self, n);
    if (!m)
        rt_fail_memory(p->err, p->node->name, n);
    return m;
}

const void *rt_pack_data(const struct rt_pack *k)
{
    return k->data;
}

/* Sets *out to the unpacked bytes of a constant. A lazy constant is streamed into a temporary
 * tensor and is not loaded. */
static enum rt_status plain_bytes(struct rt_session *s, const struct rt_tensor *src,
                                  struct rt_tensor *out, struct rt_error *err)
{
    if (!rt_tensor_is_lazy(src) || !src->buf->stream) {
        rt_tensor_ref(out, src);
        return rt_session_load_tensor(s, out, err);
    }
    enum rt_status st =
        rt_tensor_new(out, NULL, (enum rt_dtype)src->dtype, src->rank, src->dim, err);
    return st ? st : rt_stream_constant(s, NULL, src, out->data, err);
}

/* The key of a pack: the address of the constant's buffer, the address of its data, the
 * accelerator, and `fmt`. A reference to the buffer keeps its address valid. */
enum { KEY_BUFFER, KEY_DATA, KEY_DEVICE, KEY_POINTERS };

static char *pack_key(const struct rt_tensor *src, const struct rt_device *device, const void *fmt,
                      size_t fmt_len)
{
    const void *pointer[KEY_POINTERS] = {src->buf, src->data, device};
    char *key = malloc(sizeof pointer + fmt_len);
    if (!key)
        return NULL;
    if (src->buf->kind == RT_BUF_LAZY)
        pointer[KEY_DATA] = NULL; /* Loading a lazy constant changes the address of its data. */
    memcpy(key, pointer, sizeof pointer);
    memcpy(key + sizeof pointer, fmt, fmt_len);
    return key;
}

/* Moves the bytes of a pack from the host to the accelerator. */
static enum rt_status move_to(struct rt_session *s, struct rt_device *d, struct rt_pack *k,
                              struct rt_error *err)
{
    void *host = k->data;
    enum rt_status st = rt_constant_alloc(s, d, k->bytes, "a packed weight", &k->memory, err);
    if (st)
        return st;
    k->device = d;
    k->data = k->memory.address;
    if (k->bytes)
        st = d->copy(d, RT_COPY_IN, k->data, host, k->bytes, err);
    free(host);
    return st;
}

typedef enum rt_status fill_pack(const struct rt_tensor *src, void *dst, const void *fmt,
                                 struct rt_error *err);

static enum rt_status pack_new(struct rt_prep *p, const struct rt_tensor *src, const void *fmt,
                               size_t bytes, fill_pack *fill, struct rt_pack **out)
{
    struct rt_tensor plain = {0};
    struct rt_pack *k = calloc(1, sizeof *k);
    if (!k || bytes > SIZE_MAX - 128 || !(k->data = rt_large_alloc((bytes + 127) & ~(size_t)63))) {
        free(k);
        return rt_fail_memory(p->err, "a packed weight", bytes);
    }
    k->bytes = bytes;
    enum rt_status st = plain_bytes(p->self->session, src, &plain, p->err);
    if (!st)
        st = fill(&plain, k->data, fmt, p->err);
    rt_tensor_clear(&plain);
    if (!st && p->self->device)
        st = move_to(p->self->session, p->self->device, k, p->err);
    if (st)
        pack_free(p->self->session, k);
    else
        *out = k;
    return st;
}

/* Returns the session's pack with this key, or NULL if there is none. Counts a new reference to a
 * pack of an accelerator. */
static struct rt_pack *find_pack(struct rt_session *s, const char *key, size_t key_len)
    RT_REQUIRES(s->mu)
{
    struct rt_pack *k = rt_map_getn(&s->packs, key, key_len);
    if (k && k->device)
        k->refs++;
    return k;
}

/* Adds a pack to the session's map, and takes over `key`. If another thread has already added an
 * equal pack, frees *k and sets *k to the pack of the session. */
static enum rt_status keep_pack(struct rt_session *s, char *key, size_t key_len,
                                struct rt_buffer *of, struct rt_pack **k, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    (*k)->key = key;
    (*k)->key_bytes = key_len;
    (*k)->refs = 1;
    rt_mutex_lock(&s->mu);
    struct rt_pack *other = find_pack(s, key, key_len);
    if (!other && !rt_map_putn(&s->packs, key, key_len, *k))
        st = rt_fail_memory(err, "a packed weight", key_len);
    if (!st && !other) {
        if (!(*k)->device)
            atomic_fetch_add(&s->packed_bytes, (int64_t)(*k)->bytes);
        rt_buffer_ref(of); /* Keeps the buffer's address, which is in the key, valid. */
    }
    rt_mutex_unlock(&s->mu);
    if (st || other) {
        pack_free(s, *k);
        *k = other;
    }
    return st;
}

/* Gives the prepared kernel a reference to a pack of an accelerator. Drops the reference if memory
 * runs out. */
static enum rt_status own_pack(struct rt_prepared *p, struct rt_pack *k, struct rt_error *err)
{
    struct rt_pack **all = realloc(p->pack, ((size_t)p->n_packs + 1) * sizeof *all);
    if (!all) {
        pack_unref(p->session, k);
        return rt_fail_memory(err, "a packed weight", sizeof *all);
    }
    p->pack = all;
    all[p->n_packs++] = k;
    return RT_OK;
}

enum rt_status rt_prep_pack(struct rt_prep *p, int input, const void *fmt, size_t fmt_len,
                            size_t bytes, fill_pack *fill, const struct rt_pack **out)
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
    const size_t key_len = KEY_POINTERS * sizeof(void *) + fmt_len;
    char *key = pack_key(src, p->self->device, fmt, fmt_len);
    if (!key)
        return rt_fail_memory(p->err, "a packed weight", key_len);
    rt_mutex_lock(&s->mu);
    struct rt_pack *k = find_pack(s, key, key_len);
    rt_mutex_unlock(&s->mu);
    enum rt_status st = k ? RT_OK : pack_new(p, src, fmt, bytes, fill, &k);
    if (!st && !k->key)
        st = keep_pack(s, key, key_len, src->buf, &k, p->err);
    else
        free(key);
    if (!st && k->device)
        st = own_pack(p->self, k, p->err);
    if (!st) {
        *out = k;
        p->self->packed |= UINT64_C(1) << input;
        p->self->packed_bytes += bytes;
    }
    return st;
}

void rt_packs_clear(struct rt_session *s)
{
    for (size_t i = 0; i < s->packs.n; i++) {
        struct rt_pack *k = s->packs.entry[i].value;
        if (!k)
            continue;
        assert(!k->device); /* all prepared kernels of the accelerators are freed */
        unref_buffer(k->key);
        pack_free(s, k);
    }
    rt_map_clear(&s->packs);
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

/* Makes the key of a prepared kernel and returns its number of words. Returns -2 if memory runs
 * out. Returns -1 if the prepared kernel cannot be cached, because a value in the key would be too
 * large. */
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
                           .device = p->device,
                           .self = p,
                           .err = err};
    enum rt_status st = rt_session_check(p->session, err);
    if (!st)
        st = p->device ? rt_choose_kernel(&prep, n->device_kernels, n->n_device_kernels)
                       : rt_choose_kernel(&prep, n->kernels, n->n_kernels);
    if (!st && p->packed && !p->device)
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

/* Charges p->bytes to p's session. If MAX_SESSION_BYTES would be exceeded, returns false and
 * charges nothing. */
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
