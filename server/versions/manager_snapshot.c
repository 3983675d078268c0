#include "server/versions/manager_internal.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "server/versions/snapshot.h"

enum { MAX_WAITING = 64 }; /* snapshots that wait for the thread */

/* A requested snapshot. It exists until it is answered. */
struct request {
    struct request *next;
    struct srv_snapshots *owner;
    struct srv_version *version; /* is not freed before the request has ended */
    const _Atomic bool *cancelled;
    void (*done)(void *arg, enum rt_status status, const struct srv_snapshot *out, int64_t from,
                 const struct rt_error *err);
    void *arg;
    size_t n_output;
    char output[];
};

struct srv_snapshots {
    struct srv_manager *manager;
    pthread_t thread;
    struct rt_cond more; /* signalled under the manager's lock */
    /* The request that is being written comes first. Guarded by the manager's lock. */
    struct request *first, **end;
    int n;
    atomic_bool stopping;
};

static enum rt_status check(void *arg, struct rt_error *err)
{
    const struct request *r = arg;

    if (atomic_load_explicit(r->cancelled, memory_order_relaxed))
        return rt_fail(err, RT_CANCELLED, "the client has left");
    if (atomic_load_explicit(&r->owner->stopping, memory_order_relaxed))
        return rt_fail(err, RT_UNAVAILABLE, "the server is stopping");
    return RT_OK;
}

static void write_one(struct srv_manager *m, struct request *r)
{
    const struct srv_options *o = &m->server->options;
    const struct rt_file_access access = {.write_dirs = o->model_write_directories};
    const struct srv_version *v = r->version;
    const struct rt_check stop = {check, r};
    struct srv_snapshot out;
    struct rt_error err = {0};
    enum rt_status st = check(r, &err);

    if (!st)
        st = srv_snapshot_write(v, rt_span_of(r->output, r->n_output), &access, &stop, r->cancelled,
                                &out, &err);
    if (st)
        RT_LOG(RT_LOG_WARNING, "no snapshot of {name: %s version: %lld}: %s", v->model,
               (long long)v->version, rt_error_text(&err));
    else
        RT_LOG(RT_LOG_INFO, "snapshot of {name: %s version: %lld}: %s", v->model,
               (long long)v->version, out.path);
    r->done(r->arg, st, &out, v->version, &err);
}

static void *snapshot_thread(void *arg)
{
    struct srv_snapshots *s = arg;
    struct srv_manager *m = s->manager;

    rt_thread_low_priority();
    rt_mutex_lock(&m->mu);
    while (s->first || !atomic_load(&s->stopping)) {
        struct request *r = s->first;
        if (!r) {
            rt_cond_wait(&s->more, &m->mu);
            continue;
        }
        rt_mutex_unlock(&m->mu);
        write_one(m, r);
        rt_mutex_lock(&m->mu);
        s->first = r->next;
        if (!s->first)
            s->end = &s->first;
        s->n--;
        free(r);
        srv_mgr_wake(m); /* the version may now be freed */
    }
    rt_mutex_unlock(&m->mu);
    return NULL;
}

/* Starts the thread. Returns NULL on failure. */
static struct srv_snapshots *start(struct srv_manager *m)
{
    struct srv_snapshots *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->manager = m;
    s->end = &s->first;
    rt_cond_init(&s->more);
    if (rt_thread_start(&s->thread, "snapshot", snapshot_thread, s) == 0)
        return s;
    rt_cond_clear(&s->more);
    free(s);
    return NULL;
}

/* Finds the available version that `spec` names. The messages are those of srv_map_find. */
static enum rt_status find(struct srv_manager *m, const struct srv_model_spec *spec,
                           struct srv_version **out, struct rt_error *err) RT_REQUIRES(m->mu)
{
    const struct srv_managed *model =
        srv_mgr_find_model(m, (const char *)spec->name.p, spec->name.n);
    const struct rt_span shown = rt_error_name(err, spec->name);

    for (int i = 0; model && i < model->n_entries; i++) {
        const struct srv_managed_version *e = model->entries[i];
        if (e->state == SRV_AVAILABLE && e->live &&
            (!spec->has_version || e->version == spec->version)) {
            *out = e->live;
            return RT_OK;
        }
    }
    if (!spec->has_version)
        return rt_fail(err, RT_NOT_FOUND, "Servable not found for request: Latest(%.*s)",
                       (int)shown.n, (const char *)shown.p);
    return rt_fail(err, RT_NOT_FOUND, "Servable not found for request: Specific(%.*s, %lld)",
                   (int)shown.n, (const char *)shown.p, (long long)spec->version);
}

/* Adds the request to the queue, and starts the thread if it does not run yet. */
static enum rt_status enqueue(struct srv_manager *m, const struct srv_model_spec *spec,
                              struct request *r, struct rt_error *err) RT_REQUIRES(m->mu)
{
    if (m->stopping)
        return rt_fail(err, RT_UNAVAILABLE, "the server is stopping");
    const enum rt_status st = find(m, spec, &r->version, err);
    if (st)
        return st;
    if (!m->snapshots && !(m->snapshots = start(m)))
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "the thread of snapshots cannot be started");
    struct srv_snapshots *s = m->snapshots;
    if (s->n == MAX_WAITING)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "%d snapshots wait already", MAX_WAITING);
    r->owner = s;
    *s->end = r;
    s->end = &r->next;
    s->n++;
    rt_cond_signal(&s->more);
    return RT_OK;
}

enum rt_status srv_manager_snapshot(struct srv_manager *m, const struct srv_model_spec *spec,
                                    struct rt_span output, const _Atomic bool *cancelled,
                                    void (*done)(void *arg, enum rt_status status,
                                                 const struct srv_snapshot *out, int64_t from,
                                                 const struct rt_error *err),
                                    void *arg, struct rt_error *err)
{
    struct request *r = calloc(1, sizeof *r + output.n + 1);

    if (!r)
        return rt_fail_memory(err, "a snapshot", output.n);
    r->cancelled = cancelled;
    r->done = done;
    r->arg = arg;
    r->n_output = output.n;
    if (output.n)
        memcpy(r->output, output.p, output.n);
    rt_mutex_lock(&m->mu);
    const enum rt_status st = enqueue(m, spec, r, err);
    rt_mutex_unlock(&m->mu);
    if (st)
        free(r);
    return st;
}

bool srv_mgr_is_in_snapshot(struct srv_manager *m, const struct srv_version *v)
{
    bool is = false;

    rt_mutex_lock(&m->mu);
    for (const struct request *r = m->snapshots ? m->snapshots->first : NULL; r && !is; r = r->next)
        is = r->version == v;
    rt_mutex_unlock(&m->mu);
    return is;
}

void srv_mgr_end_snapshots(struct srv_manager *m)
{
    rt_mutex_lock(&m->mu);
    struct srv_snapshots *s = m->snapshots;
    if (s) {
        atomic_store(&s->stopping, true);
        if (s->first)
            m->calls->end(s->first->version->loaded);
        rt_cond_signal(&s->more);
    }
    rt_mutex_unlock(&m->mu);
    if (!s)
        return;
    pthread_join(s->thread, NULL);
    rt_cond_clear(&s->more);
    m->snapshots = NULL;
    free(s);
}
