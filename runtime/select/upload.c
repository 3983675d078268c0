#include "runtime/select/upload.h"

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

enum rt_status rt_upload_new(struct rt_session *s, const struct rt_tensor *t,
                             struct rt_device_memory *out, struct rt_error *err)
{
    struct rt_device *d = s->options.accelerator;
    const size_t bytes = rt_tensor_bytes(t);
    struct rt_tensor from = *t;
    enum rt_status st = rt_device_alloc(d, RT_DEVICE_WEIGHTS, bytes, "a constant", out, err);
    if (st)
        return st;
    if (rt_tensor_is_lazy(t) && t->buf->stream)
        st = rt_stream_constant(s, d, t, out->address, err);
    else if (bytes && !(st = rt_session_load_tensor(s, &from, err)))
        st = d->copy(d, RT_COPY_IN, out->address, from.data, bytes, err);
    if (st)
        rt_device_free(d, RT_DEVICE_WEIGHTS, out);
    return st;
}

/* The key of an upload. The address of a constant's data is 0 in the key if the constant is or was
 * lazy, so that loading the constant does not change the key. */
struct upload_key {
    struct rt_buffer *buf;
    const void *data;
};

/* Makes an upload. The caller frees it with free_upload. */
static enum rt_status upload(struct rt_session *s, const struct rt_tensor *t,
                             struct rt_device_memory **out, struct rt_error *err)
{
    struct rt_device_memory *m = calloc(1, sizeof *m);
    const enum rt_status st =
        m ? rt_upload_new(s, t, m, err) : rt_fail_memory(err, "a constant", sizeof *m);
    if (st)
        free(m);
    else
        *out = m;
    return st;
}

static void free_upload(struct rt_session *s, struct rt_device_memory *m)
{
    rt_device_free(s->options.accelerator, RT_DEVICE_WEIGHTS, m);
    free(m);
}

enum rt_status rt_upload_find(struct rt_session *s, const struct rt_tensor *t, void **out,
                              struct rt_error *err)
{
    const struct upload_key key = {t->buf, t->buf->kind == RT_BUF_LAZY ? NULL : t->data};
    rt_mutex_lock(&s->mu);
    struct rt_device_memory *found = rt_map_getn(&s->uploads, (const char *)&key, sizeof key);
    rt_mutex_unlock(&s->mu);
    struct rt_device_memory *own = NULL;
    enum rt_status st = found ? RT_OK : upload(s, t, &own, err);
    if (!st && own) {
        rt_mutex_lock(&s->mu);
        found = rt_map_getn(&s->uploads, (const char *)&key, sizeof key);
        if (!found && rt_map_putn(&s->uploads, (const char *)&key, sizeof key, own)) {
            rt_buffer_ref(t->buf); /* Keeps the buffer's address, which is in the key, valid. */
            atomic_fetch_add(&s->accelerator_bytes, (int64_t)own->bytes);
            found = own;
        }
        rt_mutex_unlock(&s->mu);
        if (found != own)
            free_upload(s, own);
        if (!found)
            st = rt_fail_memory(err, "a constant on the accelerator", sizeof key);
    }
    if (!st)
        *out = found->address;
    return st;
}

void rt_uploads_clear(struct rt_session *s)
{
    for (size_t i = 0; i < s->uploads.n; i++) {
        struct upload_key key;
        memcpy(&key, s->uploads.entry[i].key, sizeof key);
        rt_buffer_unref(key.buf);
        free_upload(s, s->uploads.entry[i].value);
    }
    rt_map_clear(&s->uploads);
    if (s->options.accelerator)
        rt_device_trim(s->options.accelerator);
}
