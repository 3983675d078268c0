#include "server/versions/manager_internal.h"

#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

void srv_mgr_try_again(struct srv_manager *m)
{
    int64_t at = rt_now_ns() + (int64_t)AGAIN_MS * MILLION;
    m->again_at = at < m->again_at ? at : m->again_at;
}

void srv_mgr_free_published(const struct srv_published *p)
{
    if (p)
        rt_arena_free(p->arena);
}

/* Builds a serving map of all loaded versions that must not be unloaded. */
static const struct srv_published *make_map(struct srv_manager *m)
{
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_published *p = arena ? rt_arena_alloc(arena, sizeof *p) : NULL;
    struct srv_map_model *models =
        p ? rt_arena_array(arena, (size_t)m->n_models + 1, sizeof *models) : NULL;
    if (!models) {
        rt_arena_free(arena);
        return NULL;
    }
    p->arena = arena;
    p->map.models = models;
    for (int i = 0; i < m->n_models; i++) {
        const struct srv_managed *model = m->models[i];
        int n_labels = model->config ? model->config->n_labels : 0;
        struct srv_version **versions =
            rt_arena_array(arena, (size_t)model->n_entries + 1, sizeof(*versions));
        struct srv_label *labels = rt_arena_array(arena, (size_t)n_labels + 1, sizeof *labels);
        struct srv_map_model *to = &models[p->map.n_models];
        to->name = rt_arena_strdup(arena, model->name);
        if (!versions || !labels || !to->name)
            goto no_memory;
        to->versions = versions;
        to->labels = labels;
        for (int k = 0; k < model->n_entries; k++) {
            const struct srv_managed_version *e = model->entries[k];
            if (e->live && (e->state == SRV_AVAILABLE || e->state == SRV_LOADING))
                versions[to->n_versions++] = e->live;
        }
        for (; to->n_labels < n_labels; to->n_labels++) {
            const struct srv_label *from = &model->config->labels[to->n_labels];
            labels[to->n_labels].version = from->version;
            labels[to->n_labels].label = rt_arena_strdup(arena, from->label);
            if (!labels[to->n_labels].label)
                goto no_memory;
        }
        if (to->n_versions || to->n_labels)
            p->map.n_models++;
    }
    return p;

no_memory:
    rt_arena_free(arena);
    return NULL;
}

static void grace_ended(struct srv_grace *g)
{
    struct srv_manager *m = g->manager;
    rt_mutex_lock(&m->mu);
    g->next = m->confirmed;
    m->confirmed = g;
    rt_mutex_unlock(&m->mu);
    srv_mgr_wake(m);
}

static void io_loop_confirmed(struct srv_retirement *r)
{
    struct srv_grace *g = r->arg;
    if (atomic_fetch_sub(&g->pending, 1) == 1)
        grace_ended(g);
}

struct srv_grace *srv_mgr_grace_new(struct srv_manager *m)
{
    size_t n = (size_t)m->server->n_io_loops;
    return calloc(1, sizeof(struct srv_grace) + n * sizeof(struct srv_retirement));
}

static void begin_grace(struct srv_manager *m, struct srv_grace *g)
{
    const struct srv_server *s = m->server;
    g->manager = m;
    atomic_init(&g->pending, s->n_io_loops + 1);
    m->n_graces++;
    for (int i = 0; i < s->n_io_loops; i++) {
        g->retirements[i].message.receive = srv_retirement_receive;
        g->retirements[i].version = g->version;
        g->retirements[i].confirm = io_loop_confirmed;
        g->retirements[i].arg = g;
        srv_message_post(s->io_loops[i], &g->retirements[i].message);
    }
    if (atomic_fetch_sub(&g->pending, 1) == 1)
        grace_ended(g);
}

/* Publishes the map `p` in place of the current map. If `p` is NULL, publishes an empty map that is
 * never replaced. Begins the grace period `g` of the previous map, and those of the versions that
 * left the map. The grace periods end when all I/O loops have confirmed the new map. */
void srv_mgr_swap_map(struct srv_manager *m, struct srv_grace *g, const struct srv_published *p)
{
    static const struct srv_map nothing;
    struct srv_grace *leaving = m->leaving;
    g->before = m->published;
    m->published = p;
    m->leaving = NULL;
    m->must_publish = false;
    atomic_store(&m->server->map, p ? &p->map : &nothing);
    begin_grace(m, g);
    for (struct srv_grace *next; leaving; leaving = next) {
        next = leaving->next;
        m->calls->retire(m->server, leaving->version);
        begin_grace(m, leaving);
    }
}

/* Marks the loaded versions in the published map as AVAILABLE. Requests can find them only now. */
static void mark_available(struct srv_manager *m)
{
    for (int i = 0; i < m->n_models; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++) {
            struct srv_managed_version *e = m->models[i]->entries[k];
            if (!e->live || e->state != SRV_LOADING)
                continue;
            srv_mgr_set_state(m, e, SRV_AVAILABLE, RT_OK, NULL);
            RT_LOG(RT_LOG_INFO, "Successfully loaded servable version {name: %s version: %lld}",
                   m->models[i]->name, (long long)e->version);
        }
}

bool srv_mgr_publish(struct srv_manager *m)
{
    struct srv_grace *g = srv_mgr_grace_new(m);
    const struct srv_published *p = g ? make_map(m) : NULL;
    if (!p) {
        free(g);
        RT_LOG(RT_LOG_ERROR, "out of memory for a new serving map");
        m->must_publish = true;
        srv_mgr_try_again(m);
        return false;
    }
    srv_mgr_swap_map(m, g, p);
    mark_available(m);
    return true;
}

void srv_mgr_end_grace(struct srv_manager *m, struct srv_grace *g)
{
    if (g->entry && srv_mgr_is_in_snapshot(m, g->version)) {
        g->next = m->held;
        m->held = g;
        return;
    }
    m->n_graces--;
    srv_mgr_free_published(g->before);
    if (g->entry)
        srv_mgr_free_later(m, g);
    else
        free(g);
}

bool srv_mgr_unload(struct srv_manager *m, struct srv_managed *model, struct srv_managed_version *e)
{
    struct srv_grace *g = srv_mgr_grace_new(m);
    if (!g) {
        srv_mgr_try_again(m);
        return false;
    }
    g->model = model;
    g->entry = e;
    g->version = e->live;
    g->next = m->leaving;
    m->leaving = g;
    m->must_publish = true;
    srv_mgr_set_state(m, e, SRV_UNLOADING, RT_OK, NULL);
    const int64_t wait_ms = m->server->options.default_deadline_ms;
    e->end_at = wait_ms ? rt_now_ns() + wait_ms * MILLION : RT_NEVER;
    RT_LOG(RT_LOG_INFO, "Unloading servable version {name: %s version: %lld}", model->name,
           (long long)e->version);
    return true;
}

int64_t srv_mgr_end_requests(struct srv_manager *m, int64_t now)
{
    int64_t next = RT_NEVER;
    for (int i = 0; i < m->n_models; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++) {
            struct srv_managed_version *e = m->models[i]->entries[k];
            if (e->state != SRV_UNLOADING)
                continue;
            if (now < e->end_at) {
                next = e->end_at < next ? e->end_at : next;
                continue;
            }
            m->calls->end(e->live->loaded);
            e->end_at = RT_NEVER;
            RT_LOG(RT_LOG_WARNING,
                   "{name: %s version: %lld} still answers requests %g seconds after it was to be "
                   "unloaded (--default_deadline_seconds): they are ended",
                   m->models[i]->name, (long long)e->version,
                   (double)m->server->options.default_deadline_ms / 1000);
        }
    return next;
}
