/* Implements the accelerator that the tests use. */
#include "tests/support/test_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/entry.h"

#define RANGE ((size_t)64 << 30)
enum { POISON = 0xdb, GRANULE = 4096 };

/* A range of the accelerator's memory that is in use. The list of blocks is sorted by offset. */
struct block {
    struct block *next;
    size_t off, n;
};

/* A run of steps, or a copy if `steps` is NULL. */
struct work {
    const struct rt_region_steps *steps;
    void *to;
    const void *from;
    size_t bytes;
};

/* The work that has been enqueued on a stream since the stream was last waited for. */
struct queue {
    struct work *work;
    size_t n, capacity;
};

struct device {
    struct rt_device base;
    struct queue queue[RT_MAX_STREAMS]; /* used by the run that has taken the stream */
    pthread_mutex_t mu;                 /* guards all members below */
    char *memory;
    struct block *blocks;
    size_t top; /* no byte at or after this offset has ever been in use */
    int n_open;
    int64_t limit;
    struct test_device_counts counts;
};

/* ---- memory ---- */

static void protect(struct device *d, int protection)
{
    if (d->top && mprotect(d->memory, d->top, protection) != 0)
        abort();
}

/* Makes the memory accessible until close_memory is called. */
static void open_memory(struct device *d)
{
    pthread_mutex_lock(&d->mu);
    if (!d->n_open++)
        protect(d, PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&d->mu);
}

static void close_memory(struct device *d)
{
    pthread_mutex_lock(&d->mu);
    if (!--d->n_open)
        protect(d, PROT_NONE);
    pthread_mutex_unlock(&d->mu);
}

/* Adds a block in the first gap that is large enough. Called under mu. */
static struct block *add_block(struct device *d, size_t n)
{
    struct block **at = &d->blocks;
    size_t off = 0;
    for (; *at && (*at)->off - off < n; at = &(*at)->next)
        off = (*at)->off + (*at)->n;
    struct block *b = n <= RANGE - off ? malloc(sizeof *b) : NULL;
    if (!b)
        return NULL;
    *b = (struct block){*at, off, n};
    *at = b;
    if (off + n > d->top) {
        d->top = off + n;
        if (d->n_open)
            protect(d, PROT_READ | PROT_WRITE);
    }
    return b;
}

static void poison(struct device *d, void *p, size_t n)
{
    open_memory(d);
    memset(p, POISON, n);
    close_memory(d);
}

static void *device_alloc(struct rt_device *base, size_t bytes)
{
    struct device *d = base->state;
    const size_t n = (bytes + GRANULE) & ~(size_t)(GRANULE - 1);
    pthread_mutex_lock(&d->mu);
    const bool fits = bytes < RANGE && d->counts.bytes + (int64_t)n <= d->limit;
    struct block *b = fits ? add_block(d, n) : NULL;
    void *p = b ? d->memory + b->off : NULL;
    d->counts.bytes += b ? (int64_t)n : 0;
    pthread_mutex_unlock(&d->mu);
    if (p)
        poison(d, p, n);
    return p;
}

static void device_free(struct rt_device *base, void *p)
{
    struct device *d = base->state;
    const size_t off = (size_t)((char *)p - d->memory);
    pthread_mutex_lock(&d->mu);
    struct block **at = &d->blocks;
    while (*at && (*at)->off != off)
        at = &(*at)->next;
    if (!*at)
        abort(); /* the memory was freed twice, or does not belong to this device */
    const size_t n = (*at)->n;
    pthread_mutex_unlock(&d->mu);
    poison(d, p, n);
    pthread_mutex_lock(&d->mu);
    for (at = &d->blocks; (*at)->off != off; at = &(*at)->next)
        ;
    struct block *b = *at;
    *at = b->next;
    d->counts.bytes -= (int64_t)b->n;
    pthread_mutex_unlock(&d->mu);
    free(b);
}

/* ---- copies ---- */

static void do_copy(struct device *d, void *to, const void *from, size_t n)
{
    open_memory(d);
    memcpy(to, from, n);
    close_memory(d);
}

static void count_copy(struct device *d, enum rt_copy_kind kind)
{
    pthread_mutex_lock(&d->mu);
    d->counts.copies_in += kind == RT_COPY_IN;
    d->counts.copies_out += kind == RT_COPY_OUT;
    d->counts.copies_within += kind == RT_COPY_WITHIN;
    pthread_mutex_unlock(&d->mu);
}

static enum rt_status device_copy(struct rt_device *base, enum rt_copy_kind kind, void *to,
                                  const void *from, size_t bytes, struct rt_error *err)
{
    struct device *d = base->state;
    (void)err;
    count_copy(d, kind);
    do_copy(d, to, from, bytes);
    return RT_OK;
}

/* ---- regions ---- */

enum { MOST_OUTPUTS = 64 };

/* Runs a CPU kernel. If the kernel replaces an output by its own tensor, copies that tensor's bytes
 * into the memory that was given for the output. */
static enum rt_status run_step(struct rt_region_step *s)
{
    struct rt_run *r = &s->run;
    struct rt_tensor place[MOST_OUTPUTS];
    if (r->n_out > MOST_OUTPUTS)
        abort();
    memcpy(place, r->out, (size_t)r->n_out * sizeof *place);
    const enum rt_status st = s->kernel->run(r);
    for (int o = 0; o < r->n_out; o++) {
        struct rt_tensor got = r->out[o];
        const size_t bytes = rt_tensor_bytes(&place[o]);
        r->out[o] = place[o];
        if (got.data == place[o].data)
            continue;
        if (!st && bytes)
            memmove(place[o].data, got.data, bytes);
        rt_tensor_clear(&got);
    }
    return st;
}

/* Adds work to the stream. The work is done when a caller waits for the stream. */
static enum rt_status enqueue(struct device *d, int stream, const struct work *work,
                              struct rt_error *err)
{
    struct queue *q = &d->queue[stream];
    if (q->n == q->capacity) {
        const size_t capacity = q->capacity ? 2 * q->capacity : 16;
        struct work *more = realloc(q->work, capacity * sizeof *more);
        if (!more)
            return rt_fail_memory(err, "a stream", capacity * sizeof *more);
        q->work = more;
        q->capacity = capacity;
    }
    q->work[q->n++] = *work;
    return RT_OK;
}

static enum rt_status enqueue_copy(struct rt_device *base, int stream, enum rt_copy_kind kind,
                                   void *to, const void *from, size_t bytes, struct rt_error *err)
{
    const struct work w = {.to = to, .from = from, .bytes = bytes};
    count_copy(base->state, kind);
    return enqueue(base->state, stream, &w, err);
}

static enum rt_status enqueue_steps(struct rt_device *base, int stream,
                                    struct rt_region_steps *steps,
                                    const struct rt_region_step **failed, struct rt_error *err)
{
    struct device *d = base->state;
    (void)failed;
    pthread_mutex_lock(&d->mu);
    d->counts.runs++;
    d->counts.kernels += steps->n;
    pthread_mutex_unlock(&d->mu);
    if (!steps->recorded && !(steps->recorded = calloc(1, sizeof *steps)))
        return rt_fail_memory(err, "a recording", sizeof *steps);
    struct rt_region_steps *recorded = steps->recorded;
    if (recorded->step && (recorded->step != steps->step || recorded->n != steps->n))
        abort(); /* the steps have changed since they were recorded */
    *recorded = (struct rt_region_steps){.step = steps->step, .n = steps->n};
    const struct work w = {.steps = steps};
    return enqueue(d, stream, &w, err);
}

static enum rt_status wait(struct rt_device *base, int stream, const struct rt_region_step **failed,
                           struct rt_error *err)
{
    struct device *d = base->state;
    struct queue *q = &d->queue[stream];
    enum rt_status st = RT_OK;
    (void)err;
    open_memory(d);
    for (size_t i = 0; i < q->n; i++) {
        const struct work *w = &q->work[i];
        if (!w->steps)
            memmove(w->to, w->from, w->bytes);
        for (int k = 0; w->steps && k < w->steps->n && !st; k++) {
            st = run_step(&w->steps->step[k]);
            if (st)
                *failed = &w->steps->step[k];
        }
    }
    close_memory(d);
    q->n = 0;
    return st;
}

static void forget(struct rt_device *base, struct rt_region_steps *steps)
{
    (void)base;
    free(steps->recorded);
    steps->recorded = NULL;
}

struct rt_device *test_device_new(int n_streams)
{
    struct device *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->memory = mmap(NULL, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (d->memory == MAP_FAILED) {
        free(d);
        return NULL;
    }
    pthread_mutex_init(&d->mu, NULL);
    d->limit = INT64_MAX;
    d->base = (struct rt_device){.type = "TEST",
                                 .n_streams = n_streams,
                                 .state = d,
                                 .alloc = device_alloc,
                                 .free = device_free,
                                 .copy = device_copy,
                                 .enqueue_copy = enqueue_copy,
                                 .enqueue_steps = enqueue_steps,
                                 .wait = wait,
                                 .forget = forget};
    if (!rt_device_begin(&d->base, 0)) {
        munmap(d->memory, RANGE);
        pthread_mutex_destroy(&d->mu);
        free(d);
        return NULL;
    }
    return &d->base;
}

bool test_device_free(struct rt_device *base)
{
    struct device *d = base->state;
    rt_device_end(base);
    if (d->blocks)
        return false;
    munmap(d->memory, RANGE);
    pthread_mutex_destroy(&d->mu);
    for (int k = 0; k < RT_MAX_STREAMS; k++)
        free(d->queue[k].work);
    free(d);
    return true;
}

struct test_device_counts test_device_counts(const struct rt_device *base)
{
    struct device *d = base->state;
    pthread_mutex_lock(&d->mu);
    const struct test_device_counts counts = d->counts;
    pthread_mutex_unlock(&d->mu);
    return counts;
}

void test_device_limit(struct rt_device *base, int64_t bytes)
{
    struct device *d = base->state;
    pthread_mutex_lock(&d->mu);
    d->limit = bytes;
    pthread_mutex_unlock(&d->mu);
}

/* ---- kernels ---- */

#define KN_OP(name) extern const struct kn_entry kn_##name;
#include "kernels/table.inc"
#undef KN_OP

static const struct kn_entry *const entries[] = {
#define KN_OP(name) &kn_##name,
#include "kernels/table.inc"
#undef KN_OP
};

enum { N_ENTRIES = sizeof entries / sizeof *entries, MOST_KERNELS = 4096, MOST_OF_OP = 512 };

/* The kernels of the accelerator. They live as long as the program, because registries refer to
 * them. */
static struct rt_kernel kernels[MOST_KERNELS];
static int n_kernels;

static const struct rt_kernel *kernel_like(const struct rt_kernel *k, const struct rt_op *op)
{
    for (int i = 0; i < n_kernels; i++)
        if (kernels[i].run == k->run && kernels[i].prepare == k->prepare &&
            strcmp(kernels[i].op, k->op) == 0 && strcmp(kernels[i].name, k->name) == 0 &&
            kernels[i].types == k->types && kernels[i].and_types == k->and_types)
            return &kernels[i];
    if (n_kernels == MOST_KERNELS)
        return NULL;
    kernels[n_kernels] = *k;
    kernels[n_kernels].device = "TEST";
    kernels[n_kernels].host_in = op->shape_in;
    return &kernels[n_kernels++];
}

/* Registers the kernels of one op as test_device_register does for all ops. */
static bool register_like(struct rt_registry *r, const struct rt_op *op)
{
    const struct rt_kernel *of_cpu[MOST_OF_OP];
    int n, n_cpu = 0;
    const struct rt_kernel *const *all = rt_registry_kernels(r, op->name, &n);
    if (n > MOST_OF_OP || op->effect != RT_PURE)
        return n <= MOST_OF_OP;
    for (int i = 0; i < n; i++) {
        if (strcmp(all[i]->device, "TEST") == 0)
            return true; /* the registry has the accelerator's kernels already */
        if (strcmp(all[i]->device, RT_CPU) == 0)
            of_cpu[n_cpu++] = all[i]; /* registering a kernel may move the registry's array */
    }
    for (int i = 0; i < n_cpu; i++) {
        if (of_cpu[i]->flags & (RT_K_LAZY | RT_K_VIEWS))
            continue;
        const struct rt_kernel *k = kernel_like(of_cpu[i], op);
        if (!k || !rt_registry_add_kernel(r, k))
            return false;
    }
    return true;
}

bool test_device_register(struct rt_registry *r)
{
    for (int e = 0; e < N_ENTRIES; e++)
        if (rt_registry_op(r, entries[e]->op.name) && !register_like(r, &entries[e]->op))
            return false;
    return true;
}
