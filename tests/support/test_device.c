#include "tests/support/test_device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/base/thread.h"

enum { RANGE = 64 << 20, MAX_BLOCKS = 256, POISON = 0xdb };

struct task {
    struct task *next;
    enum rt_status (*run)(struct task *t, struct rt_error *err);
    void *dst;
    const void *a, *b;
    size_t n;
    int op;
    void *free_this; /* staging memory */
};

struct rt_stream {
    struct rt_mutex mu;
    struct rt_cond wake, idle;
    pthread_t thread;
    struct task *first, **last; /* these fields and all fields below are guarded by mu */
    bool busy, stop;
    struct rt_error err;
    struct device *device;
};

struct device {
    struct rt_device base;
    struct rt_mutex mu;
    char *memory;
    struct {
        size_t off, n;
    } block[MAX_BLOCKS]; /* guarded by mu */
    int n_blocks, n_copies, n_open;
    size_t next;
    int64_t bytes;
};

static void open_memory(struct device *d)
{
    rt_mutex_lock(&d->mu);
    if (!d->n_open++)
        mprotect(d->memory, RANGE, PROT_READ | PROT_WRITE);
    rt_mutex_unlock(&d->mu);
}

static void close_memory(struct device *d)
{
    rt_mutex_lock(&d->mu);
    if (!--d->n_open)
        mprotect(d->memory, RANGE, PROT_NONE);
    rt_mutex_unlock(&d->mu);
}

static void *device_alloc(struct rt_device *base, struct rt_stream *s, size_t bytes)
{
    struct device *d = base->state;
    void *p = NULL;
    (void)s;
    rt_mutex_lock(&d->mu);
    size_t n = (bytes + 63) & ~(size_t)63;
    if (d->n_blocks < MAX_BLOCKS && n <= RANGE - d->next) {
        d->block[d->n_blocks].off = d->next;
        d->block[d->n_blocks++].n = n;
        p = d->memory + d->next;
        d->next += n;
        d->bytes += (int64_t)n;
    }
    rt_mutex_unlock(&d->mu);
    return p;
}

static void push(struct rt_stream *s, struct task *t)
{
    rt_mutex_lock(&s->mu);
    t->next = NULL;
    *s->last = t;
    s->last = &t->next;
    rt_cond_signal(&s->wake);
    rt_mutex_unlock(&s->mu);
}

static enum rt_status run_free(struct task *t, struct rt_error *err)
{
    (void)err;
    memset(t->dst, POISON, t->n);
    return RT_OK;
}

static void device_free_block(struct rt_device *base, struct rt_stream *s, void *p)
{
    struct device *d = base->state;
    size_t off = (size_t)((char *)p - d->memory), n = 0;
    rt_mutex_lock(&d->mu);
    for (int i = 0; i < d->n_blocks; i++)
        if (d->block[i].off == off) {
            n = d->block[i].n;
            d->block[i] = d->block[--d->n_blocks];
            break;
        }
    d->bytes -= (int64_t)n;
    rt_mutex_unlock(&d->mu);
    if (!n)
        abort(); /* the memory was freed twice, or was not allocated by this device */
    struct task *t = calloc(1, sizeof *t);
    t->run = run_free;
    t->dst = p;
    t->n = n;
    if (s)
        push(s, t);
    else
        free(t);
}

static enum rt_status run_copy(struct task *t, struct rt_error *err)
{
    (void)err;
    memcpy(t->dst, t->a, t->n);
    return RT_OK;
}

static enum rt_status enqueue_copy(struct rt_device *base, struct rt_stream *s, void *dst,
                                   const void *src, size_t n, struct rt_error *err)
{
    struct device *d = base->state;
    struct task *t = calloc(1, sizeof *t);
    if (!t)
        return rt_fail_memory(err, "a copy", sizeof *t);
    rt_mutex_lock(&d->mu);
    d->n_copies++;
    rt_mutex_unlock(&d->mu);
    t->run = run_copy;
    t->dst = dst;
    t->a = src;
    t->n = n;
    push(s, t);
    return RT_OK;
}

static void *stream_main(void *arg)
{
    struct rt_stream *s = arg;
    rt_mutex_lock(&s->mu);
    for (;;) {
        while (!s->first && !s->stop)
            rt_cond_wait(&s->wake, &s->mu);
        struct task *t = s->first;
        if (!t)
            break;
        s->first = t->next;
        if (!s->first)
            s->last = &s->first;
        s->busy = true;
        rt_mutex_unlock(&s->mu);
        struct rt_error err = {0};
        open_memory(s->device);
        t->run(t, &err);
        close_memory(s->device);
        free(t);
        rt_mutex_lock(&s->mu);
        if (err.code && !s->err.code)
            s->err = err;
        s->busy = false;
        if (!s->first)
            rt_cond_broadcast(&s->idle);
    }
    rt_mutex_unlock(&s->mu);
    return NULL;
}

static struct rt_stream *device_stream_new(struct rt_device *base)
{
    struct rt_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    rt_mutex_init(&s->mu);
    rt_cond_init(&s->wake);
    rt_cond_init(&s->idle);
    s->last = &s->first;
    s->device = base->state;
    if (rt_thread_start(&s->thread, "test device", stream_main, s) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

static void device_stream_free(struct rt_device *base, struct rt_stream *s)
{
    (void)base;
    rt_mutex_lock(&s->mu);
    s->stop = true;
    rt_cond_signal(&s->wake);
    rt_mutex_unlock(&s->mu);
    pthread_join(s->thread, NULL);
    rt_mutex_clear(&s->mu);
    rt_cond_clear(&s->wake);
    rt_cond_clear(&s->idle);
    free(s);
}

static enum rt_status device_sync(struct rt_device *base, struct rt_stream *s, struct rt_error *err)
{
    (void)base;
    rt_mutex_lock(&s->mu);
    while (s->first || s->busy)
        rt_cond_wait(&s->idle, &s->mu);
    struct rt_error late = s->err;
    s->err = (struct rt_error){0};
    rt_mutex_unlock(&s->mu);
    if (late.code)
        rt_error_copy(err, &late);
    return late.code;
}

struct rt_device *test_device_new(void)
{
    struct device *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->memory = mmap(NULL, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (d->memory == MAP_FAILED) {
        free(d);
        return NULL;
    }
    rt_mutex_init(&d->mu);
    d->base = (struct rt_device){.type = "TEST",
                                 .state = d,
                                 .alloc = device_alloc,
                                 .free = device_free_block,
                                 .copy_in = enqueue_copy,
                                 .copy_out = enqueue_copy,
                                 .stream_new = device_stream_new,
                                 .stream_free = device_stream_free,
                                 .sync = device_sync};
    return &d->base;
}

void test_device_free(struct rt_device *base)
{
    struct device *d = base->state;
    munmap(d->memory, RANGE);
    rt_mutex_clear(&d->mu);
    free(d);
}

int64_t test_device_bytes(const struct rt_device *base)
{
    struct device *d = base->state;
    rt_mutex_lock(&d->mu);
    int64_t n = d->bytes;
    rt_mutex_unlock(&d->mu);
    return n;
}

int test_device_copies(const struct rt_device *base)
{
    struct device *d = base->state;
    rt_mutex_lock(&d->mu);
    int n = d->n_copies;
    rt_mutex_unlock(&d->mu);
    return n;
}

/* ---- its kernels ---- */

static enum rt_status run_binary(struct task *t, struct rt_error *err)
{
    const float *a = t->a, *b = t->b;
    float *d = t->dst;
    for (size_t i = 0; i < t->n; i++) {
        if (t->op == '*' && a[i] == 13 && b[i] == 13)
            return rt_fail(err, RT_INTERNAL, "the test device dislikes 13 * 13");
        d[i] = t->op == '+' ? a[i] + b[i] : a[i] * b[i];
    }
    return RT_OK;
}

static enum rt_status enqueue(struct rt_run *r, int op)
{
    struct task *t = calloc(1, sizeof *t);
    if (!t)
        return rt_fail_memory(r->err, "a task", sizeof *t);
    t->run = run_binary;
    t->op = op;
    t->dst = r->out[0].data;
    t->a = r->in[0].data;
    t->b = r->in[1].data;
    t->n = (size_t)rt_tensor_count(&r->out[0]);
    push(r->stream, t);
    return RT_OK;
}

static enum rt_status run_add(struct rt_run *r)
{
    return enqueue(r, '+');
}

static enum rt_status run_mul(struct rt_run *r)
{
    return enqueue(r, '*');
}

static const struct rt_kernel kernels[] = {
    {.op = "AddV2", .device = "TEST", .name = "test.add", .types = RT_T(RT_F32), .run = run_add},
    {.op = "Mul", .device = "TEST", .name = "test.mul", .types = RT_T(RT_F32), .run = run_mul},
};

bool test_device_register(struct rt_registry *r)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!rt_registry_add_kernel(r, &kernels[i]))
            return false;
    return true;
}
