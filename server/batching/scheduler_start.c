/* Creates and frees the scheduler and the model queues (scheduler.h). */
#include <limits.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "server/batching/scheduler_internal.h"
#include "server/config/batching.h"
#include "server/triton/triton.h"

enum {
    PATIENCE_NS = 1000000000,
    LONG_RUN_NS = 500000000,
    SPARE_AFTER_NS = 20000000,
    MAX_COMPILED_SIZES = 32,
    MOST_GPU_ROWS = 1024,   /* largest batch that is padded for a GPU, in rows */
    KEEP_INPUTS = 64 << 20, /* maximum size of freed merged inputs that are kept, in bytes */
    LONG_NS = 5000000, /* expected duration up to which a batch may take a GPU's last free worker */
};
#define COMPILE_NS INT64_C(60000000000) /* maximum time of srv_scheduler_compile */

static struct srv_core_settings settings_of(const struct srv_options *o,
                                            const struct srv_batching *b)
{
    return (struct srv_core_settings){
        .max_running = b->num_batch_threads < INT_MAX ? (int)b->num_batch_threads : INT_MAX,
        .patience_ns = PATIENCE_NS,
        .max_model_queue_jobs = o->max_queue_jobs,
        .max_jobs = o->max_queue_jobs > INT64_MAX / SRV_QUEUES_FACTOR
                        ? INT64_MAX
                        : o->max_queue_jobs * SRV_QUEUES_FACTOR,
        .max_model_queue_bytes = (size_t)o->max_queue_bytes,
        .max_bytes = o->max_queue_bytes > INT64_MAX / SRV_QUEUES_FACTOR
                         ? SIZE_MAX
                         : (size_t)o->max_queue_bytes * SRV_QUEUES_FACTOR,
    };
}

int srv_scheduler_n_workers(const struct srv_server *server)
{
    int n = server->options.num_workers > 1 ? (int)server->options.num_workers : 1;
    for (int k = 0; k < server->gpus.n; k++)
        n += server->gpus.device[k]->n_streams;
    return n + 1;
}

static void stop(struct srv_scheduler *s, bool has_timer)
{
    rt_mutex_lock(&s->mu);
    s->stopping = true;
    rt_mutex_unlock(&s->mu);
    for (int k = 0; k < s->n_groups; k++)
        rt_cond_broadcast(&s->group[k].work);
    rt_cond_broadcast(&s->time);
    rt_cond_broadcast(&s->spare);
    rt_cond_broadcast(&s->follower);
    if (has_timer)
        pthread_join(s->timer, NULL); /* The timer ends first, because it starts spare workers. */
    rt_mutex_lock(&s->mu);
    while (s->n_threads)
        rt_cond_wait(&s->no_threads, &s->mu);
    rt_mutex_unlock(&s->mu);
    srv_feed_reclaimer_stop(&s->reclaimer);
    srv_queue_shares_free(s->shares);
    for (int i = 0; i < s->n_workers; i++)
        rt_arena_free(s->worker[i].arena);
    if (s->pool)
        rt_pool_unref(s->pool);
    for (int k = 0; k < s->n_groups; k++)
        rt_cond_clear(&s->group[k].work);
    rt_cond_clear(&s->time);
    rt_cond_clear(&s->spare);
    rt_cond_clear(&s->follower);
    rt_cond_clear(&s->no_threads);
    rt_mutex_clear(&s->shared_cells);
    rt_mutex_clear(&s->mu);
    free(s);
}

/* Initialises the scheduler cores and the groups of workers, but starts no threads. */
static void init_groups(struct srv_scheduler *s)
{
    const struct srv_options *o = &s->server->options;
    const struct rt_accelerators *gpus = &s->server->gpus;
    struct srv_core_settings settings = settings_of(o, &s->batching);
    srv_core_init(&s->cpu, &settings);
    settings.max_running = 0; /* num_batch_threads limits only the CPU's workers */
    settings.long_ns = LONG_NS;
    srv_core_init(&s->gpus, &settings);
    s->n_groups = 1 + gpus->n;
    s->group[0] = (struct srv_worker_group){
        .core = &s->cpu, .n_workers = o->num_workers > 1 ? (int)o->num_workers : 1};
    for (int k = 0; k < gpus->n; k++)
        s->group[1 + k] =
            (struct srv_worker_group){.core = &s->gpus, .n_workers = gpus->device[k]->n_streams};
    for (int k = 0; k < s->n_groups; k++)
        rt_cond_init(&s->group[k].work);
}

/* Initialises the workers of all groups, but starts no threads. Returns false if memory runs
 * out. */
static bool init_workers(struct srv_scheduler *s)
{
    int n = 0;
    for (int k = 0; k < s->n_groups; k++)
        for (int i = 0; i < s->group[k].n_workers; i++, n++) {
            s->worker[n] = (struct srv_worker){.s = s,
                                               .index = n,
                                               .group = k,
                                               .name = k ? "slip-gpu" : "slip-worker",
                                               .main = srv_worker_main,
                                               .arena = rt_arena_new(SIZE_MAX)};
            if (!s->worker[n].arena)
                return false;
        }
    return true;
}

/* A worker reads the states of the others, so all of them must be initialised. */
static bool start_workers(struct srv_scheduler *s)
{
    bool ok = true;
    rt_mutex_lock(&s->mu);
    for (int i = 0; ok && i < s->n_workers; i++)
        ok = srv_scheduler_start_thread(s, &s->worker[i]);
    rt_mutex_unlock(&s->mu);
    return ok && srv_scheduler_start_spare(s);
}

/* Returns false if memory runs out. */
static bool open_shares(struct srv_scheduler *s)
{
    const struct srv_options *o = &s->server->options;
    if (o->quota_queue_share > 0)
        s->shares = srv_queue_shares_new(o->quota_queue_share, o->quota_max_clients);
    return o->quota_queue_share <= 0 || s->shares;
}

enum rt_status srv_scheduler_new(struct srv_server *server, struct srv_scheduler **out,
                                 struct rt_error *err)
{
    const int n_workers = srv_scheduler_n_workers(server) - 1;
    const size_t bytes =
        sizeof(struct srv_scheduler) + (size_t)n_workers * sizeof(struct srv_worker);
    struct srv_scheduler *s = calloc(1, bytes);

    if (!s)
        return rt_fail_memory(err, "the scheduler", bytes);
    enum rt_status st = srv_batching_of_server(&s->batching, &server->options, err);
    if (st) {
        free(s);
        return st;
    }
    s->server = server;
    s->n_workers = n_workers;
    s->timer_ns = RT_NEVER;
    s->taken_ns = rt_now_ns(); /* starting the workers takes some time */
    s->long_run_ns = LONG_RUN_NS;
    s->spare_after_ns = SPARE_AFTER_NS;
    rt_mutex_init(&s->mu);
    rt_cond_init(&s->time);
    rt_cond_init(&s->spare);
    rt_cond_init(&s->follower);
    rt_cond_init(&s->no_threads);
    rt_mutex_init(&s->shared_cells);
    init_groups(s);
    s->pool = rt_pool_new(0);
    if (s->pool)
        rt_pool_set_keep(s->pool, KEEP_INPUTS);
    if (s->pool && server->run_memory.limit)
        rt_pool_share(s->pool, &server->run_memory);
    const bool ok = srv_feed_reclaimer_start(&s->reclaimer) && open_shares(s) && s->pool &&
                    init_workers(s) && start_workers(s);
    if (s->batching.num_batch_threads > s->group[0].n_workers)
        RT_LOG(RT_LOG_INFO,
               "num_batch_threads is %lld, but %d batches run at a time: one per worker "
               "(--num_workers)",
               (long long)s->batching.num_batch_threads, s->group[0].n_workers);
    if (!ok || rt_thread_start(&s->timer, "slip-timer", srv_timer_main, s) != 0) {
        stop(s, false);
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "the workers could not be started");
    }
    *out = s;
    return RT_OK;
}

void srv_scheduler_free(struct srv_scheduler *s)
{
    if (!s)
        return;
    srv_scheduler_refuse_all(s, RT_UNAVAILABLE, "the server is stopping");
    stop(s, true);
}

/* Sets the dimensions of the signature's inputs, except for the first. Returns NULL if some are not
 * known, if the signature's batches are not padded, or if there is not enough memory. */
static struct rt_shape *batch_shapes(const struct srv_batching *b, const struct srv_core_policy *p,
                                     const struct rt_model_signature *sig)
{
    const bool is_padded =
        sig->call && p->n_sizes && srv_batching_merges(b, sig->def->name, sig->rowwise);
    struct rt_shape *shapes =
        is_padded ? calloc((size_t)sig->def->n_inputs + 1, sizeof *shapes) : NULL;
    bool known = shapes != NULL;
    for (int k = 0; known && k < sig->def->n_inputs; k++) {
        shapes[k] = sig->def->inputs[k].shape;
        known = shapes[k].rank >= 1;
        for (int d = 1; d < shapes[k].rank; d++)
            known = known && shapes[k].dim[d] >= 0;
    }
    if (known)
        return shapes;
    free(shapes);
    return NULL;
}

/* Requests the compilation of a specialisation for the allowed batch size n. */
static void request_size(const struct rt_model_signature *sig, struct rt_shape *shapes, int64_t n)
{
    for (int k = 0; k < sig->def->n_inputs; k++)
        shapes[k].dim[0] = n;
    rt_callable_request_compilation(sig->call, shapes);
}

/* Requests the compilation of specialisations for the allowed batch sizes. Batches are padded to
 * these sizes, so the shapes are known in advance. */
static void request_compilation(const struct srv_model_queue *mq, const struct rt_model *m)
{
    for (int i = 0; i < m->n_signatures; i++) {
        struct rt_shape *shapes = batch_shapes(mq->batching, &mq->policy, &m->signatures[i]);
        for (int n = 0; shapes && n < mq->policy.n_sizes && n < MAX_COMPILED_SIZES; n++)
            request_size(&m->signatures[i], shapes, mq->policy.sizes[n]);
        free(shapes);
    }
}

/* Returns a mask of the groups whose workers run the version: those of its GPUs, or the CPU's. If
 * `accelerator` is not NULL, sets the elements of these groups. */
static uint32_t groups_of(const struct srv_scheduler *s, const struct rt_model *m,
                          int8_t *accelerator)
{
    const struct rt_session_accelerators *all = rt_model_accelerators(m);
    uint32_t groups = 0;
    for (int k = 0; k < s->server->gpus.n; k++)
        for (int i = 0; i < all->n; i++)
            if (all->device[i] == s->server->gpus.device[k]) {
                groups |= UINT32_C(2) << k;
                if (accelerator)
                    accelerator[k + 1] = (int8_t)i;
            }
    return groups ? groups : 1;
}

/* On a GPU, a run whose shapes are not compiled runs on the CPU, which takes many times as long.
 * Batches are therefore padded to powers of two, as far as they may be large. */
static void set_gpu_sizes(struct srv_core_policy *p)
{
    if (p->n_sizes || p->fixed)
        return;
    for (int64_t n = 1; n < p->max_rows && n <= MOST_GPU_ROWS; n *= 2)
        p->sizes[p->n_sizes++] = n;
    if (p->max_rows <= MOST_GPU_ROWS)
        p->sizes[p->n_sizes++] = p->max_rows;
}

/* Sets the policy of the version's batches, which the workers of the groups run. */
static void set_policy(const struct srv_version *v, uint32_t groups, struct srv_core_policy *policy)
{
    srv_core_policy_of(v->batching, policy);
    if (groups != 1) {
        set_gpu_sizes(policy);
        /* As in Triton, the count of an instance group is per GPU. */
        policy->max_running = 0;
        policy->max_group_running = v->gpu.instances;
    }
}

enum rt_status srv_scheduler_read_parameters(struct srv_scheduler *s, struct srv_version *v,
                                             const char *dir, struct rt_error *err)
{
    struct srv_batching *b = rt_arena_alloc(v->loaded->arena, sizeof *b);
    if (!b)
        return rt_fail_memory(err, "a version's batching parameters", sizeof *b);
    const enum rt_status st =
        srv_batching_of_version(b, &s->batching, &s->server->options, dir, err);
    if (st)
        return st;
    if (v->triton)
        srv_triton_batching(v->triton, b);
    v->batching = b;
    return RT_OK;
}

enum rt_status srv_scheduler_compile(struct srv_scheduler *s, const struct srv_version *v,
                                     const _Atomic bool *cancelled, struct rt_error *err)
{
    const struct rt_model *m = v->loaded;
    const int64_t end = rt_now_ns() + COMPILE_NS;
    const uint32_t groups = groups_of(s, m, NULL);
    if (groups == 1)
        return RT_OK;
    struct srv_core_policy *p = calloc(1, sizeof *p);
    enum rt_status st = p ? RT_OK : rt_fail_memory(err, "a version's batch sizes", sizeof *p);
    if (p)
        set_policy(v, groups, p);
    for (int i = 0; !st && i < m->n_signatures; i++) {
        struct rt_shape *shapes =
            m->signatures[i].same ? NULL : batch_shapes(v->batching, p, &m->signatures[i]);
        for (int n = 0; shapes && !st && n < p->n_sizes && rt_now_ns() < end; n++) {
            request_size(&m->signatures[i], shapes, p->sizes[n]);
            rt_session_compile(m->session);
            if (cancelled && atomic_load(cancelled))
                st = rt_fail(err, RT_CANCELLED, "it was cancelled");
        }
        free(shapes);
    }
    free(p);
    return st;
}

enum rt_status srv_model_queue_new(struct srv_scheduler *s, struct srv_version *v,
                                   struct srv_model_queue **out, struct rt_error *err)
{
    struct srv_model_queue *mq = calloc(1, sizeof *mq);

    if (!mq)
        return rt_fail_memory(err, "a version's queue", sizeof *mq);
    const uint32_t groups = groups_of(s, v->loaded, mq->accelerator);
    mq->scheduler = s;
    mq->version = v;
    mq->batching = v->batching;
    set_policy(v, groups, &mq->policy);
    request_compilation(mq, v->loaded);
    mq->scheduler_core = groups != 1 ? &s->gpus : &s->cpu;
    rt_mutex_lock(&s->mu);
    srv_core_model_queue_init(mq->scheduler_core, &mq->core, &mq->policy);
    if (groups != 1)
        mq->core.groups = groups;
    rt_mutex_unlock(&s->mu);
    *out = mq;
    return RT_OK;
}

void srv_model_queue_free(struct srv_model_queue *mq)
{
    if (!mq)
        return;
    srv_buckets_clear(mq);
    free(mq);
}
