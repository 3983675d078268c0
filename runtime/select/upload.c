#include "runtime/select/upload.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/device/device_memory.h"
#include "runtime/session/session_internal.h"

struct sink {
    const struct rt_session *session;
    struct rt_device *device;
    char *to;
    size_t n;
};

static enum rt_status put_chunk(void *arg, size_t off, const void *p, size_t n,
                                struct rt_error *err)
{
    const struct sink *s = arg;
    enum rt_status st = RT_OK;
    if (off > s->n || n > s->n - off)
        return rt_fail(err, RT_INTERNAL, "a weight is longer than it says");
    if (s->device)
        st = s->device->copy(s->device, RT_COPY_IN, s->to + off, p, n, err);
    else
        memcpy(s->to + off, p, n);
    return st ? st : rt_session_check(s->session, err);
}

enum rt_status rt_stream_constant(const struct rt_session *s, struct rt_device *device,
                                  const struct rt_tensor *t, void *to, struct rt_error *err)
{
    struct sink sink = {s, device, to, rt_tensor_bytes(t)};
    return t->buf->stream(t->buf, put_chunk, &sink, err);
}

enum rt_status rt_upload_new(struct rt_session *s, struct rt_device *d, const struct rt_tensor *t,
                             struct rt_device_memory *out, struct rt_error *err)
{
    const size_t bytes = rt_tensor_bytes(t);
    struct rt_tensor from = *t;
    enum rt_status st = rt_constant_alloc(s, d, bytes, "a constant", out, err);
    if (st)
        return st;
    if (rt_tensor_is_lazy(t) && t->buf->stream)
        st = rt_stream_constant(s, d, t, out->address, err);
    else if (bytes && !(st = rt_session_load_tensor(s, &from, err)))
        st = d->copy(d, RT_COPY_IN, out->address, from.data, bytes, err);
    if (st)
        rt_constant_free(s, d, out);
    return st;
}

static int index_of(const struct rt_session *s, const struct rt_device *d)
{
    int k = 0;
    while (k + 1 < s->options.accelerators.n && s->options.accelerators.device[k] != d)
        k++;
    return k;
}

static _Atomic int64_t *bytes_on(struct rt_session *s, const struct rt_device *d)
{
    return &s->accelerator_bytes[index_of(s, d)];
}

/* Returns whether activations and constants together keep to the limit. */
static bool is_within(size_t limit, int64_t activations, int64_t constants)
{
    return (size_t)constants <= limit && (size_t)activations <= limit - (size_t)constants;
}

enum rt_status rt_activations_admit(struct rt_session *s, struct rt_device *d, size_t bytes,
                                    struct rt_error *err)
{
    const size_t limit = s->options.accelerators.limit;
    const int max = s->options.accelerators.max_runs;
    const size_t n = (size_t)(max && max < d->n_streams ? max : d->n_streams);
    _Atomic int64_t *admitted = &s->activation_bytes[index_of(s, d)];
    if (!limit)
        return RT_OK;
    bool fits = bytes <= limit / n;
    rt_mutex_lock(&s->mu);
    const int64_t before = atomic_load(admitted), all = fits ? (int64_t)(bytes * n) : 0;
    if (fits) {
        /* rt_constant_alloc counts its bytes before it reads those of the activations, without the
         * lock. So the activations are counted before the bytes of the constants are read. */
        atomic_store(admitted, before < all ? all : before);
        fits = is_within(limit, all, atomic_load(bytes_on(s, d)));
    }
    if (!fits)
        atomic_store(admitted, before);
    rt_mutex_unlock(&s->mu);
    if (fits)
        return RT_OK;
    return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                   "%zu times %zu bytes of activations and %lld bytes of constants exceed the "
                   "model's limit of %zu bytes on %s:%d",
                   n, bytes, (long long)atomic_load(bytes_on(s, d)), limit, d->type, d->index);
}

enum rt_status rt_constant_alloc(struct rt_session *s, struct rt_device *d, size_t bytes,
                                 const char *what, struct rt_device_memory *out,
                                 struct rt_error *err)
{
    const size_t limit = s->options.accelerators.limit;
    const int64_t counted = (int64_t)(bytes ? bytes : 1);
    if (bytes > INT64_MAX / 2)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "%s has %zu bytes", what, bytes);
    /* The bytes are counted first, so that threads together cannot exceed the limit. */
    const int64_t before = atomic_fetch_add(bytes_on(s, d), counted);
    enum rt_status st = RT_OK;
    const int64_t activations = atomic_load(&s->activation_bytes[index_of(s, d)]);
    if (limit && !is_within(limit, activations, before + counted))
        st =
            rt_fail(err, RT_RESOURCE_EXHAUSTED,
                    "%s:%d: %zu bytes of %s exceed the model's limit; %lld of %zu bytes are in use",
                    d->type, d->index, bytes, what, (long long)(before + activations), limit);
    if (!st)
        st = rt_device_alloc_constant(d, &s->claim[index_of(s, d)], bytes, what, out, err);
    if (st)
        atomic_fetch_sub(bytes_on(s, d), counted);
    return st;
}

void rt_constant_free(struct rt_session *s, struct rt_device *d, struct rt_device_memory *m)
{
    atomic_fetch_sub(bytes_on(s, d), (int64_t)m->bytes);
    rt_device_free_constant(d, &s->claim[index_of(s, d)], m);
}

/* The key of an upload. The address of a constant's data is 0 in the key if the constant is or was
 * lazy, so that loading the constant does not change the key. */
struct upload_key {
    struct rt_buffer *buf; /* referenced, so that its address in the key stays valid */
    const void *data;
    struct rt_device *device;
};

struct rt_upload {
    struct upload_key key;
    struct rt_device_memory memory;
    int refs; /* guarded by the session's mu */
};

void *rt_upload_address(const struct rt_upload *u)
{
    return u->memory.address;
}

static void upload_free(struct rt_session *s, struct rt_upload *u)
{
    rt_constant_free(s, u->key.device, &u->memory);
    rt_buffer_unref(u->key.buf);
    free(u);
}

static enum rt_status upload_new(struct rt_session *s, const struct upload_key *key,
                                 const struct rt_tensor *t, struct rt_upload **out,
                                 struct rt_error *err)
{
    struct rt_upload *u = calloc(1, sizeof *u);
    if (!u)
        return rt_fail_memory(err, "a constant", sizeof *u);
    const enum rt_status st = rt_upload_new(s, key->device, t, &u->memory, err);
    if (st) {
        free(u);
        return st;
    }
    u->key = *key;
    u->refs = 1;
    rt_buffer_ref(key->buf);
    *out = u;
    return RT_OK;
}

/* Returns a new reference to the upload, or NULL if there is none. */
static struct rt_upload *find_upload(struct rt_session *s, const struct upload_key *key)
    RT_REQUIRES(s->mu)
{
    struct rt_upload *u = rt_map_getn(&s->uploads, (const char *)key, sizeof *key);
    if (u)
        u->refs++;
    return u;
}

enum rt_status rt_upload_ref(struct rt_session *s, struct rt_device *d, const struct rt_tensor *t,
                             struct rt_upload **out, struct rt_error *err)
{
    const struct upload_key key = {t->buf, t->buf->kind == RT_BUF_LAZY ? NULL : t->data, d};
    struct rt_upload *own = NULL;
    rt_mutex_lock(&s->mu);
    *out = find_upload(s, &key);
    rt_mutex_unlock(&s->mu);
    enum rt_status st = *out ? RT_OK : upload_new(s, &key, t, &own, err);
    if (st || !own)
        return st;
    rt_mutex_lock(&s->mu);
    *out = find_upload(s, &key); /* another thread may have made it meanwhile */
    if (!*out && rt_map_putn(&s->uploads, (const char *)&key, sizeof key, own))
        *out = own;
    rt_mutex_unlock(&s->mu);
    if (*out != own)
        upload_free(s, own);
    return *out ? RT_OK : rt_fail_memory(err, "a constant on the accelerator", sizeof key);
}

void rt_upload_unref(struct rt_session *s, struct rt_upload *u)
{
    rt_mutex_lock(&s->mu);
    const bool is_last = --u->refs == 0;
    if (is_last)
        rt_map_removen(&s->uploads, (const char *)&u->key, sizeof u->key);
    rt_mutex_unlock(&s->mu);
    if (is_last)
        upload_free(s, u);
}

void rt_uploads_clear(struct rt_session *s)
{
    assert(!s->uploads.n_live);
    rt_map_clear(&s->uploads);
    for (int k = 0; k < s->options.accelerators.n; k++) {
        rt_device_trim(s->options.accelerators.device[k]);
        rt_device_claim_end(s->options.accelerators.device[k], &s->claim[k]);
    }
}
