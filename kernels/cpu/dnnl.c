#include "kernels/cpu/dnnl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/parallel.h"
#include "runtime/base/thread.h"

/* libgomp, with which oneDNN is linked, defines omp_set_num_threads */
void omp_set_num_threads(int n);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t stream_key;
static dnnl_engine_t engine;
/* Each thread has its own oneDNN stream, because threads cannot share a stream. */
static _Thread_local dnnl_stream_t stream;
/* the index at which this thread starts to look for an idle set of arguments */
static _Thread_local unsigned place;

/*
 * Sets of arguments for executions. Creating oneDNN's objects for a set takes longer than a small
 * matrix multiplication, so an execution reuses an idle set and changes its data pointers.
 * Afterwards it stores the set for reuse, or frees it if all IDLE_SETS slots are occupied.
 */
enum { IDLE_SETS = 16 };
struct set {
    int n;
    dnnl_exec_arg_t arg[KN_DNNL_ARGS + 1];
    const void *data[KN_DNNL_ARGS + 1]; /* the current data pointers of the arguments */
};
struct kn_dnnl_idle {
    _Atomic(struct set *) set[IDLE_SETS];
};

static void stream_free(void *s)
{
    dnnl_stream_destroy(s);
}

/*
 * Serialises the creation and destruction of oneDNN objects. Executing primitives needs no lock.
 *
 * oneDNN documents its primitive cache as thread-safe. In oneDNN 2.6, however, if one thread
 * emptied the cache while another thread created a primitive, the new primitive got the code of a
 * different primitive. Convolutions then returned wrong results or threw exceptions, and every
 * second run of test_dnnl failed.
 */
static struct rt_mutex objects = RT_MUTEX_INIT;

/*
 * The capacity of oneDNN's primitive cache, which lets equal primitives share their code. A model's
 * layers, signatures and plans need the same primitives repeatedly, and the code of each primitive
 * takes at least 10 KB. The cache would also retain the primitives of unloaded models. It is
 * therefore emptied whenever n_made has fallen to half of most_made.
 */
enum { CACHED = 4096 };
/* The number of primitives that exist, and the maximum of this number since the cache was emptied.
 * Both are guarded by `objects`. */
static int n_made, most_made;

static void count_made(void) RT_REQUIRES(objects);
static void count_made(void)
{
    n_made++;
    if (n_made > most_made)
        most_made = n_made;
}

static void count_gone(void) RT_REQUIRES(objects);
static void count_gone(void)
{
    n_made--;
    if (n_made > most_made / 2)
        return;
    most_made = n_made;
    dnnl_set_primitive_cache_capacity(0);
    dnnl_set_primitive_cache_capacity(CACHED);
}

static void start(void)
{
    if (dnnl_set_primitive_cache_capacity(CACHED) || pthread_key_create(&stream_key, stream_free))
        return;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0))
        engine = NULL;
}

dnnl_engine_t kn_dnnl_engine(void)
{
    if (stream)
        return engine;
    omp_set_num_threads(1);
    pthread_once(&once, start);
    dnnl_stream_t s = NULL;
    if (!engine || dnnl_stream_create(&s, engine, dnnl_stream_default_flags))
        return NULL;
    if (pthread_setspecific(stream_key, s)) {
        dnnl_stream_destroy(s);
        return NULL;
    }
    static atomic_uint n_threads;
    place = atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed);
    stream = s;
    return engine;
}

dnnl_status_t kn_dnnl_attr(dnnl_primitive_attr_t *out)
{
    *out = NULL;
    dnnl_status_t s = dnnl_primitive_attr_create(out);
    if (!s)
        s = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    return s;
}

enum rt_status kn_dnnl_fail(struct rt_error *err, dnnl_status_t s, const char *what)
{
    if (s == dnnl_out_of_memory)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "%s: out of memory", what);
    return rt_fail(err, RT_INTERNAL, "%s: oneDNN failed with status %d", what, (int)s);
}

static bool is_reference(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    return !dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) && name &&
           strstr(name, "ref") != NULL;
}

static dnnl_status_t take(struct kn_dnnl *p, const_dnnl_primitive_desc_t pd) RT_REQUIRES(objects);
static dnnl_status_t take(struct kn_dnnl *p, const_dnnl_primitive_desc_t pd)
{
    dnnl_status_t s = dnnl_success;
    p->prim = NULL;
    p->idle = calloc(1, sizeof *p->idle);
    if (!p->idle)
        s = dnnl_out_of_memory;
    if (!s)
        s = dnnl_primitive_create(&p->prim, pd);
    if (s) {
        free(p->idle);
        p->idle = NULL;
        return s;
    }
    count_made();
    p->scratch = *dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    p->scratch_bytes = dnnl_memory_desc_get_size(&p->scratch);
    return s;
}

dnnl_status_t kn_dnnl_make(struct kn_dnnl *p, const void *op_desc, dnnl_primitive_attr_t attr)
{
    dnnl_primitive_attr_t own = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t s = dnnl_success;

    if (!kn_dnnl_engine())
        return dnnl_runtime_error;
    if (!attr) {
        s = kn_dnnl_attr(&own);
        attr = own;
    }
    rt_mutex_lock(&objects);
    if (!s)
        s = dnnl_primitive_desc_create(&pd, op_desc, attr, engine, NULL);
    if (!s && is_reference(pd))
        s = dnnl_unimplemented;
    if (!s)
        s = take(p, pd);
    dnnl_primitive_desc_destroy(pd);
    rt_mutex_unlock(&objects);
    dnnl_primitive_attr_destroy(own);
    return s;
}

dnnl_memory_desc_t kn_dnnl_md(const struct kn_dnnl *p, int arg)
{
    const_dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_get_primitive_desc(p->prim, &pd);
    return *dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg);
}

int64_t kn_dnnl_block(const dnnl_memory_desc_t *md, int dim)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    int64_t block = 1;

    if (md->format_kind != dnnl_blocked || md->offset0 || md->extra.flags)
        return 0;
    for (int i = 0; i < b->inner_nblks; i++)
        if (b->inner_idxs[i] == dim)
            block *= b->inner_blks[i];
    return block;
}

size_t kn_dnnl_slice(const dnnl_memory_desc_t *whole, int dim, int64_t from, int64_t n,
                     dnnl_memory_desc_t *slice)
{
    const int64_t block = kn_dnnl_block(whole, dim);

    *slice = *whole;
    slice->dims[dim] = n;
    slice->padded_dims[dim] = kn_round_up(n, block);
    return (size_t)(from / block * whole->format_desc.blocking.strides[dim]) *
           dnnl_data_type_size(whole->data_type);
}

/* ---- executing ---- */

static void set_free(struct set *e)
{
    if (!e)
        return;
    for (int i = 0; i < e->n; i++)
        dnnl_memory_destroy(e->arg[i].memory);
    free(e);
}

static dnnl_status_t set_new(const struct kn_dnnl *p, struct set **out)
{
    struct set *e = calloc(1, sizeof *e);
    if (!e)
        return dnnl_out_of_memory;
    const int n = p->n + (p->scratch_bytes ? 1 : 0);
    for (; e->n < n; e->n++) {
        const bool own = e->n < p->n;
        e->arg[e->n].arg = own ? p->arg[e->n] : DNNL_ARG_SCRATCHPAD;
        const dnnl_status_t s = dnnl_memory_create(
            &e->arg[e->n].memory, own ? &p->md[e->n] : &p->scratch, engine, DNNL_MEMORY_NONE);
        if (s) {
            set_free(e);
            return s;
        }
    }
    *out = e;
    return dnnl_success;
}

void kn_dnnl_clear(struct kn_dnnl *p)
{
    for (int i = 0; p->idle && i < IDLE_SETS; i++)
        set_free(atomic_load_explicit(&p->idle->set[i], memory_order_acquire));
    free(p->idle);
    p->idle = NULL;
    if (!p->prim)
        return;
    rt_mutex_lock(&objects);
    dnnl_primitive_destroy(p->prim);
    p->prim = NULL;
    count_gone();
    rt_mutex_unlock(&objects);
}

/* Removes an idle set of arguments and returns it, or NULL if none is idle. */
static struct set *take_set(struct kn_dnnl_idle *idle)
{
    for (unsigned i = 0; i < IDLE_SETS; i++) {
        _Atomic(struct set *) *at = &idle->set[(place + i) % IDLE_SETS];
        if (!atomic_load_explicit(at, memory_order_relaxed))
            continue;
        struct set *e = atomic_exchange_explicit(at, NULL, memory_order_acquire);
        if (e)
            return e;
    }
    return NULL;
}

static void give_set(struct kn_dnnl_idle *idle, struct set *e)
{
    for (unsigned i = 0; i < IDLE_SETS; i++) {
        struct set *none = NULL;
        if (atomic_compare_exchange_strong_explicit(&idle->set[(place + i) % IDLE_SETS], &none, e,
                                                    memory_order_release, memory_order_relaxed))
            return;
    }
    set_free(e);
}

static dnnl_status_t point(struct set *e, int i, const void *data)
{
    if (e->data[i] == data)
        return dnnl_success;
    /* oneDNN's parameter is not const, although oneDNN only writes to outputs. */
    const dnnl_status_t s = dnnl_memory_set_data_handle(e->arg[i].memory, (void *)(uintptr_t)data);
    e->data[i] = s ? NULL : data;
    return s;
}

static dnnl_status_t execute(const struct kn_dnnl *p, const void *const *data, void *scratch)
{
    dnnl_status_t s = dnnl_success;

    if (!kn_dnnl_engine())
        return dnnl_runtime_error;
    struct set *e = take_set(p->idle);
    if (!e)
        s = set_new(p, &e);
    if (s)
        return s;
    for (int i = 0; !s && i < p->n; i++)
        s = point(e, i, data[i]);
    if (!s && p->scratch_bytes)
        s = point(e, p->n, scratch);
    if (!s)
        s = dnnl_primitive_execute(p->prim, stream, e->n, e->arg);
    give_set(p->idle, e);
    return s;
}

enum rt_status kn_dnnl_run(const struct kn_dnnl *p, const void *const *data, void *scratch,
                           struct rt_error *err, const char *what)
{
    const dnnl_status_t s = execute(p, data, scratch);
    return s ? kn_dnnl_fail(err, s, what) : RT_OK;
}

dnnl_status_t kn_dnnl_make_reorder(struct kn_dnnl *p, const dnnl_memory_desc_t *from,
                                   const dnnl_memory_desc_t *to)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;

    *p = (struct kn_dnnl){.n = 2, .arg = {DNNL_ARG_FROM, DNNL_ARG_TO}, .md = {*from, *to}};
    if (!kn_dnnl_engine())
        return dnnl_runtime_error;
    dnnl_status_t s = kn_dnnl_attr(&attr);
    rt_mutex_lock(&objects);
    if (!s)
        s = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, attr);
    if (!s)
        s = take(p, pd);
    dnnl_primitive_desc_destroy(pd);
    rt_mutex_unlock(&objects);
    dnnl_primitive_attr_destroy(attr);
    return s;
}

enum rt_status kn_dnnl_reorder(const dnnl_memory_desc_t *from, const void *src,
                               const dnnl_memory_desc_t *to, void *dst, struct rt_error *err)
{
    struct kn_dnnl p;
    const void *data[] = {src, dst};

    const dnnl_status_t s = kn_dnnl_make_reorder(&p, from, to);
    if (s)
        return kn_dnnl_fail(err, s, "reorder");
    struct rt_buffer *scratch = rt_buffer_new(NULL, RT_U8, p.scratch_bytes, err);
    const enum rt_status st =
        scratch ? kn_dnnl_run(&p, data, atomic_load(&scratch->data), err, "reorder")
                : RT_RESOURCE_EXHAUSTED;
    rt_buffer_unref(scratch);
    kn_dnnl_clear(&p);
    return st;
}
