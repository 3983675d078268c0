/*
 * Mutexes: MutexLock waits until no other run holds the mutex. The lock is a variant. The mutex is
 * released when the last reference to the variant is dropped, which happens at the end of the run
 * at the latest.
 */
#include "kernels/queue/items.h"

#include <stdlib.h>

struct mutex {
    struct rt_object o;
    struct rt_mutex mu;
    struct rt_cond released;
    bool is_held; /* guarded by mu */
};

struct lock {
    struct rt_object o;
    struct mutex *mutex; /* holds a reference */
};

static void mutex_free(struct rt_object *o)
{
    struct mutex *m = (struct mutex *)o;

    rt_cond_clear(&m->released);
    rt_mutex_clear(&m->mu);
    free(m);
}

static const struct rt_object_type mutex_type = {"mutex", mutex_free};

static void release(struct mutex *m)
{
    rt_mutex_lock(&m->mu);
    m->is_held = false;
    rt_cond_signal(&m->released);
    rt_mutex_unlock(&m->mu);
}

static void lock_free(struct rt_object *o)
{
    struct lock *l = (struct lock *)o;

    release(l->mutex);
    rt_object_unref(&l->mutex->o);
    rt_pool_free(l);
}

static const struct rt_object_type lock_type = {"mutex lock", lock_free};

static enum rt_status mutex_make(const struct rt_make *make, struct rt_object **out)
{
    struct mutex *m = calloc(1, sizeof *m);
    const enum rt_status st = kn_check_container(make->node, make->err);

    if (st || !m) {
        free(m);
        return st ? st : rt_fail_memory(make->err, make->node->name, sizeof *m);
    }
    rt_object_init(&m->o, &mutex_type);
    rt_mutex_init(&m->mu);
    rt_cond_init(&m->released);
    *out = &m->o;
    return RT_OK;
}

static enum rt_status lock_run(struct rt_run *r)
{
    struct mutex *m = (struct mutex *)kn_resource_of(r, &mutex_type, "a mutex");
    struct lock *l = m ? rt_run_alloc(r, sizeof *l) : NULL;
    enum rt_status st = RT_OK;

    if (!l)
        return r->err->code;
    rt_mutex_lock(&m->mu);
    while (m->is_held && !st)
        st = rt_run_wait(r, &m->released, &m->mu);
    if (!st)
        m->is_held = true;
    else if (!m->is_held) /* the only signal may have woken this run: signal another run */
        rt_cond_signal(&m->released);
    rt_mutex_unlock(&m->mu);
    if (st) {
        rt_pool_free(l);
        return st;
    }
    rt_object_init(&l->o, &lock_type);
    l->mutex = m;
    rt_object_ref(&m->o);
    return rt_out_object(r, 0, &l->o);
}

static enum rt_status consume_run(struct rt_run *r)
{
    const struct rt_object *o =
        rt_tensor_count(&r->in[0]) == 1 ? rt_tensor_handle(&r->in[0]) : NULL;

    if (o && o->type == &lock_type)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected input to be a mutex lock");
}

const struct kn_entry kn_mutex_v2 = {
    .op = {.name = "MutexV2", .infer = kn_infer_scalars, .slot_kind = "mutex", .make = mutex_make},
};
const struct kn_entry kn_mutex_lock = {
    .op = {.name = "MutexLock", .effect = RT_BLOCKS},
    .kernels = KN_CPU("MutexLock", "mutex_lock", 0, NULL, lock_run),
};
const struct kn_entry kn_consume_mutex_lock = {
    .op = {.name = "ConsumeMutexLock", .effect = RT_BLOCKS},
    .kernels = KN_CPU("ConsumeMutexLock", "consume_mutex_lock", 0, NULL, consume_run),
};
