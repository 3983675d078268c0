#include "runtime/core/tensor.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/checked.h"
#include "runtime/base/pieces.h"
#include "runtime/base/sanitizer.h"
#include "runtime/base/thread.h"
#include "runtime/core/copy.h"

/* ---- strings ---- */

void rt_str_clear(struct rt_str *s)
{
    if (s->n >= sizeof s->u.in)
        rt_text_unref(s->u.out);
    memset(s, 0, sizeof *s);
}

char *rt_str_resize(struct rt_str *s, struct rt_pool *pool, size_t n, struct rt_error *err)
{
    rt_str_clear(s);
    if (n >= sizeof s->u.in) {
        struct rt_text *t = rt_text_new(pool, n, err);
        if (!t)
            return NULL;
        s->u.out = t;
        s->n = n;
        return t->p;
    }
    s->n = n;
    return s->u.in;
}

bool rt_str_set(struct rt_str *s, struct rt_pool *pool, const void *p, size_t n,
                struct rt_error *err)
{
    /* The old string is cleared after the copy, because `p` may be part of *s. */
    struct rt_str new = {0};
    char *to = rt_str_resize(&new, pool, n, err);
    if (to && n)
        memcpy(to, p, n);
    rt_str_clear(s);
    if (!to)
        return false;
    *s = new;
    return true;
}

void rt_str_copy(struct rt_str *dst, const struct rt_str *src)
{
    const struct rt_str new = *src;
    if (new.n >= sizeof new.u.in)
        atomic_fetch_add_explicit(&new.u.out->refs, 1, memory_order_relaxed);
    rt_str_clear(dst);
    *dst = new;
}

/* ---- objects ---- */

void rt_object_init(struct rt_object *o, const struct rt_object_type *type)
{
    o->type = type;
    atomic_init(&o->refs, 1);
}

struct rt_object *rt_object_ref(struct rt_object *o)
{
    if (o)
        atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

/* Drops a reference to an object. The object's `free` may drop the last reference to another
 * object. The other object is then put on a per-thread list and freed after `free` has returned, so
 * `free` never recurses. A loop in a graph can create lists nested 200,000 deep; recursion would
 * overflow the stack. */
void rt_object_unref(struct rt_object *o)
{
    static _Thread_local struct rt_object *dead;
    static _Thread_local bool is_freeing;

    if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
        return;
    o->next_dead = dead;
    dead = o;
    if (is_freeing)
        return;
    is_freeing = true;
    while (dead) {
        struct rt_object *first = dead;
        dead = first->next_dead;
        first->type->free(first);
    }
    is_freeing = false;
}

/* ---- tensors ---- */

int64_t rt_count(int rank, const int64_t *dim)
{
    int64_t n = 1;
    bool is_empty = false;
    for (int i = 0; i < rank; i++) {
        is_empty |= dim[i] == 0;
        if (dim[i] < 0 || (dim[i] && !rt_mul(n, dim[i], &n)))
            return -1;
    }
    return is_empty ? 0 : n;
}

enum rt_status rt_shape_check(enum rt_dtype dtype, int rank, const int64_t *dim, size_t *bytes,
                              struct rt_error *err)
{
    char buffer[192];
    int64_t nonzero = (int64_t)rt_dtype_size(dtype);

    if (rank < 0 || rank > RT_MAX_RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a tensor of %d dimensions: at most %d are known",
                       rank, RT_MAX_RANK);
    for (int i = 0; i < rank; i++)
        if (dim[i] < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "a tensor of shape %s: dimension %d is %lld",
                           rt_shape_text(buffer, sizeof buffer, rank, dim), i, (long long)dim[i]);
    const int64_t n = rt_count(rank, dim);
    if (n < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Shape %s would have more than 2**63 - 1 elements",
                       rt_shape_text(buffer, sizeof buffer, rank, dim));
    for (int i = 0; i < rank; i++)
        if (dim[i] && !rt_mul(nonzero, dim[i], &nonzero))
            return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                           "out of memory: a tensor of shape %s and type %s",
                           rt_shape_text(buffer, sizeof buffer, rank, dim), rt_dtype_name(dtype));
    if (bytes)
        *bytes = (size_t)n * rt_dtype_size(dtype);
    return RT_OK;
}

size_t rt_tensor_text_bytes(const struct rt_tensor *t)
{
    const struct rt_text *before = NULL;
    const int64_t n = t->dtype == RT_STRING ? rt_tensor_count(t) : 0;
    size_t bytes = 0;

    for (int64_t i = 0; i < n; i++) {
        const struct rt_str *s = &rt_strs(t)[i];
        const struct rt_text *text = s->n < sizeof s->u.in ? NULL : s->u.out;
        bytes += text && text != before ? text->capacity : 0;
        before = text;
    }
    return bytes;
}

void *rt_no_elements(void)
{
    static _Alignas(64) char nothing[64];
    RT_POISON(nothing, sizeof nothing);
    return nothing;
}

enum rt_status rt_tensor_new(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                             int rank, const int64_t *dim, struct rt_error *err)
{
    return rt_tensor_new_checked(t, pool, dtype, rank, dim, NULL, err);
}

enum rt_status rt_tensor_new_checked(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                                     int rank, const int64_t *dim, const struct rt_check *check,
                                     struct rt_error *err)
{
    struct rt_tensor new = {.dtype = (uint8_t)dtype, .rank = (int8_t)rank};
    size_t bytes;

    *t = (struct rt_tensor){0};
    if (!rt_dtype_size(dtype))
        return rt_fail(err, RT_INVALID_ARGUMENT, "a tensor of type %d, which does not exist",
                       (int)dtype);
    const enum rt_status st = rt_shape_check(dtype, rank, dim, &bytes, err);
    if (st)
        return st;
    for (int i = 0; i < rank; i++)
        new.dim[i] = dim[i];
    if (!bytes) {
        new.data = rt_no_elements();
    } else {
        struct rt_error why = {0};
        new.buf = rt_buffer_new_checked(pool, dtype, bytes, check, &why);
        if (!new.buf) {
            if (err)
                rt_error_copy(err, &why);
            return why.code;
        }
        new.data = atomic_load_explicit(&new.buf->data, memory_order_relaxed);
    }
    *t = new;
    return RT_OK;
}

void rt_tensor_ref(struct rt_tensor *dst, const struct rt_tensor *src)
{
    *dst = *src;
    rt_buffer_ref(dst->buf);
}

void rt_tensor_clear(struct rt_tensor *t)
{
    rt_buffer_unref(t->buf);
    *t = (struct rt_tensor){0};
}

bool rt_tensor_is_sole(const struct rt_tensor *t)
{
    const struct rt_buffer *b = t->buf;
    return b && b->kind != RT_BUF_FOREIGN && !b->device && t->data &&
           atomic_load_explicit(&b->refs, memory_order_acquire) == 1;
}

enum rt_status rt_tensor_load(struct rt_tensor *t, struct rt_error *err)
{
    return rt_tensor_load_checked(t, NULL, err);
}

enum rt_status rt_tensor_load_checked(struct rt_tensor *t, const struct rt_check *check,
                                      struct rt_error *err)
{
    /* All buffers share 16 locks, so that a buffer needs no lock of its own. If two buffers share a
     * lock, a load of one buffer may wait for a load of the other buffer. */
    enum { N_LOCKS = 16 };
    static struct rt_mutex locks[N_LOCKS] = {
        RT_MUTEX_INIT, RT_MUTEX_INIT, RT_MUTEX_INIT, RT_MUTEX_INIT, RT_MUTEX_INIT, RT_MUTEX_INIT,
        RT_MUTEX_INIT, RT_MUTEX_INIT, RT_MUTEX_INIT, RT_MUTEX_INIT, RT_MUTEX_INIT, RT_MUTEX_INIT,
        RT_MUTEX_INIT, RT_MUTEX_INIT, RT_MUTEX_INIT, RT_MUTEX_INIT,
    };
    struct rt_buffer *b = t->buf;
    enum rt_status st = RT_OK;

    if (t->data || !b || b->kind != RT_BUF_LAZY)
        return RT_OK;
    void *data = atomic_load_explicit(&b->data, memory_order_acquire);
    if (!data) {
        struct rt_mutex *mu = &locks[((uintptr_t)b >> 6) % N_LOCKS];
        rt_mutex_lock(mu);
        data = atomic_load_explicit(&b->data, memory_order_acquire);
        if (!data) {
            st = b->load(b, check, err);
            data = atomic_load_explicit(&b->data, memory_order_acquire);
        }
        rt_mutex_unlock(mu);
    }
    if (st == RT_OK)
        t->data = data;
    return st;
}

void rt_copy_elements(enum rt_dtype dtype, void *dst, const void *src, int64_t n)
{
    if (n <= 0 || dst == src)
        return;
    if (dtype == RT_STRING) {
        struct rt_str *d = dst;
        const struct rt_str *s = src;
        for (int64_t i = 0; i < n; i++)
            rt_str_copy(&d[i], &s[i]);
    } else if (dtype == RT_RESOURCE || dtype == RT_VARIANT) {
        struct rt_object **d = dst;
        struct rt_object *const *s = src;
        for (int64_t i = 0; i < n; i++) {
            struct rt_object *old = d[i];
            d[i] = rt_object_ref(s[i]);
            rt_object_unref(old);
        }
    } else {
        memcpy(dst, src, (size_t)n * rt_dtype_size(dtype));
    }
}

enum rt_status rt_copy_elements_checked(enum rt_dtype dtype, void *dst, const void *src, int64_t n,
                                        const struct rt_check *check, struct rt_error *err)
{
    const size_t size = rt_dtype_size(dtype);
    enum rt_status st = RT_OK;

    if (n <= 0 || dst == src)
        return RT_OK;
    if (rt_dtype_is_plain(dtype))
        return rt_copy_pieces(dst, src, (size_t)n * size, check, err);
    for (int64_t i = 0; i < n && !st; i += RT_TICK_STEPS) {
        const int64_t some = n - i < RT_TICK_STEPS ? n - i : RT_TICK_STEPS;
        rt_copy_elements(dtype, (char *)dst + (size_t)i * size,
                         (const char *)src + (size_t)i * size, some);
        st = some < RT_TICK_STEPS ? RT_OK : rt_check_call(check, err);
    }
    return st;
}

enum rt_status rt_tensor_copy(struct rt_tensor *dst, const struct rt_tensor *src,
                              struct rt_pool *pool, struct rt_error *err)
{
    return rt_tensor_copy_checked(dst, src, pool, NULL, err);
}

enum rt_status rt_tensor_copy_checked(struct rt_tensor *dst, const struct rt_tensor *src,
                                      struct rt_pool *pool, const struct rt_check *check,
                                      struct rt_error *err)
{
    const enum rt_dtype dtype = (enum rt_dtype)src->dtype;
    struct rt_tensor from, new = {0};
    enum rt_status st;

    *dst = (struct rt_tensor){0};
    rt_tensor_ref(&from, src);
    st = rt_tensor_load_checked(&from, check, err);
    if (!st)
        st = rt_tensor_new_checked(&new, pool, dtype, src->rank, src->dim, check, err);
    if (!st)
        st = rt_copy_elements_checked(dtype, new.data, from.data, rt_tensor_count(src), check, err);
    if (st)
        rt_tensor_clear(&new);
    else
        *dst = new;
    rt_tensor_clear(&from);
    return st;
}

enum rt_status rt_tensor_object(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                                struct rt_object *o, struct rt_error *err)
{
    enum rt_status st = rt_tensor_new(t, pool, dtype, 0, NULL, err);
    if (st == RT_OK)
        *(struct rt_object **)t->data = o;
    return st;
}

const char *rt_shape_text(char *buffer, size_t n, int rank, const int64_t *dim)
{
    size_t at = 0;
    if (!n)
        return "";
    if (rank < 0) {
        snprintf(buffer, n, "<unknown>");
        return buffer;
    }
    snprintf(buffer, n, "[");
    at = 1;
    for (int i = 0; i < rank && at < n; i++) {
        const char *comma = i ? "," : "";
        int k = dim[i] < 0 ? snprintf(buffer + at, n - at, "%s?", comma)
                           : snprintf(buffer + at, n - at, "%s%lld", comma, (long long)dim[i]);
        at += (size_t)k;
    }
    if (at < n)
        snprintf(buffer + at, n - at, "]");
    return buffer;
}
