#include "kernels/cpu/dnnl.h"

#include <pthread.h>
#include <string.h>

void omp_set_num_threads(int n); /* libgomp's, which oneDNN is linked with */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t stream_key;
static dnnl_engine_t engine;
static _Thread_local dnnl_stream_t stream; /* a thread's own: streams are not for sharing */

static void stream_free(void *s)
{
    dnnl_stream_destroy(s);
}

static void start(void)
{
    if (dnnl_set_primitive_cache_capacity(0) || pthread_key_create(&stream_key, stream_free))
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

static dnnl_status_t take(struct kn_dnnl *p, const_dnnl_primitive_desc_t pd)
{
    const dnnl_status_t s = dnnl_primitive_create(&p->prim, pd);
    if (s)
        return s;
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
    if (!s)
        s = dnnl_primitive_desc_create(&pd, op_desc, attr, engine, NULL);
    if (!s && is_reference(pd))
        s = dnnl_unimplemented;
    if (!s)
        s = take(p, pd);
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(own);
    return s;
}

dnnl_memory_desc_t kn_dnnl_md(const struct kn_dnnl *p, int arg)
{
    const_dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_get_primitive_desc(p->prim, &pd);
    return *dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg);
}

void kn_dnnl_clear(struct kn_dnnl *p)
{
    dnnl_primitive_destroy(p->prim);
    p->prim = NULL;
}

static dnnl_status_t execute(const struct kn_dnnl *p, const void *const *data, void *scratch)
{
    dnnl_exec_arg_t arg[KN_DNNL_ARGS + 1];
    dnnl_status_t s = dnnl_success;
    int n = 0;

    if (!kn_dnnl_engine())
        return dnnl_runtime_error;
    for (; !s && n < p->n; n++) {
        /* The library's type is not const; it writes to its outputs only. */
        void *bytes = (void *)(uintptr_t)data[n];
        arg[n].arg = p->arg[n];
        arg[n].memory = NULL;
        s = dnnl_memory_create(&arg[n].memory, &p->md[n], engine, bytes);
    }
    if (!s && p->scratch_bytes) {
        arg[n].arg = DNNL_ARG_SCRATCHPAD;
        arg[n].memory = NULL;
        s = dnnl_memory_create(&arg[n++].memory, &p->scratch, engine, scratch);
    }
    if (!s)
        s = dnnl_primitive_execute(p->prim, stream, n, arg);
    while (n > 0)
        dnnl_memory_destroy(arg[--n].memory);
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
    if (!s)
        s = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, attr);
    if (!s)
        s = take(p, pd);
    dnnl_primitive_desc_destroy(pd);
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
