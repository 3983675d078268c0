#include "server/versions/manager_internal.h"

#include <stdlib.h>

#include "runtime/base/log.h"
#include "runtime/session/account.h"
#include "server/triton/triton.h"

enum { MAX_THREADS = 256 };

struct srv_unloader {
    struct srv_manager *manager;
    int n_threads;
    pthread_t threads[MAX_THREADS];
    struct rt_mutex mu;
    struct rt_cond wake;
    struct srv_grace *first, **end; /* guarded by mu */
    bool stopping;                  /* guarded by mu */
};

static void *unload_thread(void *arg)
{
    struct srv_unloader *u = arg;
    struct srv_manager *m = u->manager;
    rt_thread_low_priority();
    rt_mutex_lock(&u->mu);
    for (;;) {
        while (!u->first && !u->stopping)
            rt_cond_wait(&u->wake, &u->mu);
        struct srv_grace *g = u->first;
        if (!g)
            break;
        u->first = g->next;
        if (!u->first)
            u->end = &u->first;
        rt_mutex_unlock(&u->mu);
        m->calls->free(g->version->loaded);
        rt_mutex_lock(&m->mu);
        g->next = m->freed;
        m->freed = g;
        rt_mutex_unlock(&m->mu);
        srv_mgr_wake(m);
        rt_mutex_lock(&u->mu);
    }
    rt_mutex_unlock(&u->mu);
    return NULL;
}

struct srv_unloader *srv_mgr_unloader_new(struct srv_manager *m, int n_threads)
{
    struct srv_unloader *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->manager = m;
    u->end = &u->first;
    rt_mutex_init(&u->mu);
    rt_cond_init(&u->wake);
    while (u->n_threads < n_threads && u->n_threads < MAX_THREADS &&
           !rt_thread_start(&u->threads[u->n_threads], "unload", unload_thread, u))
        u->n_threads++;
    if (!u->n_threads) {
        srv_mgr_unloader_free(u);
        return NULL;
    }
    return u;
}

void srv_mgr_unloader_free(struct srv_unloader *u)
{
    if (!u)
        return;
    rt_mutex_lock(&u->mu);
    u->stopping = true;
    rt_cond_broadcast(&u->wake);
    rt_mutex_unlock(&u->mu);
    for (int i = 0; i < u->n_threads; i++)
        pthread_join(u->threads[i], NULL);
    rt_cond_clear(&u->wake);
    rt_mutex_clear(&u->mu);
    free(u);
}

/* Frees the version that left the map in the grace period `g`. Requests can no longer reach this
 * version. Its model queue and metrics are freed immediately, and its memory on an unload
 * thread. While the manager stops, the memory is freed on the manager's thread instead, because an
 * unload thread has low priority and may get no processor time on a machine under load. */
void srv_mgr_free_later(struct srv_manager *m, struct srv_grace *g)
{
    struct srv_unloader *u = m->unloader;
    g->entry->end_at = RT_NEVER;
    m->calls->detach(m->server, g->version);
    m->n_freeing++;
    if (m->frees_itself) {
        m->calls->free(g->version->loaded);
        srv_mgr_end_unload(m, g);
        return;
    }
    g->next = NULL;
    rt_mutex_lock(&u->mu);
    *u->end = g;
    u->end = &g->next;
    rt_cond_signal(&u->wake);
    rt_mutex_unlock(&u->mu);
}

void srv_mgr_free_version(struct srv_version *v)
{
    free((void *)(uintptr_t)v->model);
    free(v->handles);
    free(v);
}

/* Lets the versions that wait for the memory of a GPU move there. */
static void use_freed_memory(struct srv_manager *m)
{
    for (int i = 0; i < m->n_models && m->server->gpus.n; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++) {
            const struct srv_managed_version *e = m->models[i]->entries[k];
            /* The unload threads may have freed what other versions have loaded. */
            const bool lives = e->state == SRV_AVAILABLE || e->state == SRV_LOADING;
            if (lives && e->live && e->live->loaded->session)
                rt_session_memory_freed(e->live->loaded->session);
        }
}

/* Sets a version to END after an unload thread has freed its memory. */
void srv_mgr_end_unload(struct srv_manager *m, struct srv_grace *g)
{
    struct srv_version *v = g->version;
    m->n_freeing--;
    rt_account_free(v->account);
    srv_triton_free(v->triton);
    srv_mgr_free_version(v);
    m->trim_pending = true;
    g->entry->live = NULL;
    use_freed_memory(m);
    srv_mgr_set_state(m, g->entry, SRV_END, RT_OK, g->model->is_off ? "unloaded by request" : NULL);
    RT_LOG(RT_LOG_INFO, "Done unloading servable version {name: %s version: %lld}", g->model->name,
           (long long)g->entry->version);
    free(g);
}
