#include "runtime/core/device_tensor.h"

struct rt_device rt_cpu = {.type = "CPU", .index = 0, .is_host = true};

static void free_device_memory(struct rt_buffer *b)
{
    void *p = atomic_load(&b->data);
    if (b->device && p)
        b->device->free(b->device, b->owner, p);
}

enum rt_status rt_device_tensor(struct rt_device *d, struct rt_stream *s, struct rt_tensor *t,
                                enum rt_dtype dtype, int rank, const int64_t *dim,
                                struct rt_error *err)
{
    size_t bytes;
    *t = (struct rt_tensor){0};
    if (!rt_dtype_is_plain(dtype))
        return rt_fail(err, RT_UNIMPLEMENTED, "a %s cannot live on %s", rt_dtype_name(dtype),
                       d->type);
    const enum rt_status st = rt_shape_check(dtype, rank, dim, &bytes, err);
    if (st)
        return st;
    void *p = d->alloc(d, s, bytes ? bytes : 1);
    if (!p)
        return rt_fail_memory(err, d->type, bytes);
    t->buf = rt_buffer_foreign(p, bytes, s, free_device_memory);
    if (!t->buf) {
        d->free(d, s, p);
        return rt_fail_memory(err, d->type, bytes);
    }
    t->buf->device = d;
    t->dtype = (uint8_t)dtype;
    t->rank = (int8_t)rank;
    for (int i = 0; i < rank; i++)
        t->dim[i] = dim[i];
    t->data = p;
    return RT_OK;
}
