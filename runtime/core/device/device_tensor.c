/* Implements tensors in the memory of an accelerator (device_tensor.h). */
#include "runtime/core/device/device_tensor.h"

#include <stdlib.h>

#include "runtime/core/device/device_memory.h"

struct owner {
    struct rt_device_memory memory;
    struct rt_pool *pool; /* pool that counts the bytes of the host copy, or NULL */
    void *copy;
    /* buffer that owns the host's bytes, or NULL if this tensor owns them */
    struct rt_buffer *host;
};

static void release(struct rt_buffer *b)
{
    struct owner *m = b->owner;
    if (m->host)
        rt_buffer_unref(m->host);
    if (m->copy) {
        free(m->copy);
        rt_pool_release(m->pool, b->size);
    }
    if (m->pool)
        rt_pool_unref(m->pool);
    rt_device_free(b->device, RT_DEVICE_TENSORS, &m->memory);
    free(m);
}

/* Allocates the host copy if there is none yet. */
static enum rt_status make_copy(struct rt_buffer *b, struct rt_error *err)
{
    struct owner *m = b->owner;
    if (m->copy)
        return RT_OK;
    const enum rt_status st = rt_pool_hold(m->pool, b->size, 0, "a tensor of an accelerator", err);
    if (st)
        return st;
    m->copy = aligned_alloc(64, (b->size + 63) & ~(size_t)63);
    if (m->copy)
        return RT_OK;
    rt_pool_release(m->pool, b->size);
    return rt_fail_memory(err, "a tensor of an accelerator", b->size);
}

static enum rt_status load(struct rt_buffer *b, const struct rt_check *check, struct rt_error *err)
{
    const struct owner *m = b->owner;
    enum rt_status st = make_copy(b, err);
    (void)check;
    if (!st)
        st = b->device->copy(b->device, RT_COPY_OUT, m->copy, m->memory.address, b->size, err);
    if (!st)
        atomic_store_explicit(&b->data, m->copy, memory_order_release);
    return st;
}

enum rt_status rt_device_tensor(struct rt_device *d, struct rt_pool *pool, struct rt_tensor *t,
                                enum rt_dtype dtype, int rank, const int64_t *dim,
                                struct rt_error *err)
{
    struct rt_device_memory memory;
    size_t bytes;
    enum rt_status st = rt_shape_check(dtype, rank, dim, &bytes, err);
    if (st || !bytes)
        return st ? st : rt_tensor_new(t, pool, dtype, rank, dim, err);
    *t = (struct rt_tensor){0};
    st = rt_device_alloc(d, RT_DEVICE_TENSORS, bytes, "a tensor", &memory, err);
    if (st)
        return st;
    struct owner *m = calloc(1, sizeof *m);
    struct rt_buffer *b = m ? rt_buffer_foreign(NULL, bytes, m, release) : NULL;
    if (!b) {
        rt_device_free(d, RT_DEVICE_TENSORS, &memory);
        free(m);
        return rt_fail_memory(err, "a tensor of an accelerator", sizeof *m + sizeof *b);
    }
    *m = (struct owner){.memory = memory, .pool = pool ? rt_pool_ref(pool) : NULL};
    b->kind = RT_BUF_LAZY;
    b->device = d;
    b->load = load;
    t->buf = b;
    t->dtype = (uint8_t)dtype;
    t->rank = (int8_t)rank;
    for (int i = 0; i < rank; i++)
        t->dim[i] = dim[i];
    return RT_OK;
}

enum rt_status rt_device_tensor_copy(struct rt_device *d, struct rt_tensor *t,
                                     const struct rt_tensor *from, struct rt_error *err)
{
    enum rt_status st =
        rt_device_tensor(d, NULL, t, (enum rt_dtype)from->dtype, from->rank, from->dim, err);
    if (st || !t->buf || !t->buf->device)
        return st;
    struct owner *m = t->buf->owner;
    st = d->copy(d, RT_COPY_IN, m->memory.address, from->data, t->buf->size, err);
    if (st) {
        rt_tensor_clear(t);
        return st;
    }
    m->host = rt_buffer_ref(from->buf);
    t->data = from->data;
    atomic_store(&t->buf->data, from->data);
    return RT_OK;
}

enum rt_status rt_device_tensor_enqueue_load(const struct rt_tensor *t, int stream,
                                             const void *from, struct rt_error *err)
{
    struct rt_buffer *b = t->buf;
    const enum rt_status st = make_copy(b, err);
    if (st)
        return st;
    const struct owner *m = b->owner;
    return b->device->enqueue_copy(b->device, stream, RT_COPY_OUT, m->copy, from, b->size, err);
}

void rt_device_tensor_loaded(struct rt_tensor *t)
{
    const struct owner *m = t->buf->owner;
    atomic_store_explicit(&t->buf->data, m->copy, memory_order_release);
    t->data = m->copy;
}

void *rt_device_address(const struct rt_device *d, const struct rt_tensor *t)
{
    const struct rt_buffer *b = t->buf;
    if (!b || b->device != d || (t->data && t->data != atomic_load(&b->data)) ||
        rt_tensor_bytes(t) != b->size)
        return NULL;
    return ((const struct owner *)b->owner)->memory.address;
}
