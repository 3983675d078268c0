#include "server/versions/status.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "server/versions/manager_internal.h"

/* Returns whether --model_wait_seconds have passed since the model was configured. */
static bool is_overdue(const struct srv_manager *m, const struct srv_managed *model)
{
    int64_t wait = m->server->options.model_wait_seconds;
    return wait && rt_now_ns() - model->since > wait * SECOND;
}

enum srv_settled srv_mgr_settled(const struct srv_manager *m, const struct srv_managed *model,
                                 bool final, const struct srv_managed_version **why)
{
    int n_wanted = 0, n_failed = 0, n_moving = 0;
    for (int i = 0; i < model->n_entries; i++) {
        const struct srv_managed_version *e = model->entries[i];
        if (e->state == SRV_AVAILABLE)
            return SRV_SERVES;
        n_wanted += e->wanted;
        n_moving += e->state == SRV_LOADING || e->state == SRV_UNLOADING;
        if (e->wanted && e->state == SRV_END && e->code && (e->final || !final)) {
            n_failed++;
            if (!*why)
                *why = e;
        }
    }
    if (n_wanted && n_failed == n_wanted)
        return SRV_FAILED;
    /* Loading and unloading may take arbitrarily long. The wait for files to appear or to become
     * stable is limited. */
    return !n_moving && is_overdue(m, model) ? SRV_MISSING : SRV_WAITING;
}

/* Of a model's wanted versions, returns the one that is closest to serving. If several are equally
 * close, returns the highest. */
static const struct srv_managed_version *furthest(const struct srv_managed *model)
{
    const struct srv_managed_version *best = NULL;
    for (int i = 0; i < model->n_entries; i++) {
        const struct srv_managed_version *e = model->entries[i];
        if (e->wanted && (!best || (e->state == SRV_LOADING && best->state != SRV_LOADING)))
            best = e;
    }
    return best;
}

void srv_mgr_add_awaited(struct srv_unavailable *list, const struct srv_managed *model)
{
    const struct srv_managed_version *e = furthest(model);
    const char *comma = list->n++ ? ", " : "";
    if (!e)
        srv_mgr_add_text(list, "%s%s (no version under %s)", comma, model->name,
                         model->config->base_path);
    else
        srv_mgr_add_text(
            list, "%s%s (version %lld %s%s)", comma, model->name, (long long)e->version,
            e->state == SRV_LOADING             ? "is being loaded"
            : e->state == SRV_END || e->message ? "will be tried again: "
                                                : "is not whole yet, or waits for its turn",
            srv_mgr_state_text(e));
}

const char *srv_state_name(enum srv_state s)
{
    switch (s) {
    case SRV_START:
        return "START";
    case SRV_LOADING:
        return "LOADING";
    case SRV_AVAILABLE:
        return "AVAILABLE";
    case SRV_UNLOADING:
        return "UNLOADING";
    case SRV_END:
        return "END";
    case SRV_STATE_UNKNOWN:
        break;
    }
    return "UNKNOWN";
}

static enum rt_status copy_status(const struct srv_managed *model, bool has_version,
                                  int64_t version, struct rt_arena *arena,
                                  struct srv_version_status **out, int *n, struct rt_error *err)
{
    struct srv_version_status *s =
        rt_arena_array(arena, (size_t)(model ? model->n_entries : 0) + 1, sizeof *s);
    if (!s)
        return rt_fail_memory(err, "a status", 0);
    *n = 0;
    for (int i = 0; model && i < model->n_entries; i++) {
        const struct srv_managed_version *e = model->entries[i];
        if (has_version && e->version != version)
            continue;
        const char *problem = model->problem.text ? model->problem.text : e->problem.text;
        const char *text = e->state == SRV_AVAILABLE && problem ? problem : srv_mgr_state_text(e);
        s[*n] = (struct srv_version_status){e->version, e->state, e->code,
                                            rt_arena_strdup(arena, text)};
        if (!s[(*n)++].message)
            return rt_fail_memory(err, "a status", 0);
    }
    *out = s;
    return RT_OK;
}

size_t srv_status_bytes(const struct srv_version_status *versions, int n)
{
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += sizeof *versions + strlen(versions[i].message);
    return bytes;
}

enum rt_status srv_status_of(struct srv_manager *m, struct rt_span model, bool has_version,
                             int64_t version, struct rt_arena *arena,
                             struct srv_version_status **out, int *n, struct rt_error *err)
{
    int found = 0;
    rt_mutex_lock(&m->mu);
    const struct srv_managed *managed = srv_mgr_find_model(m, (const char *)model.p, model.n);
    enum rt_status st = copy_status(managed, has_version, version, arena, out, &found, err);
    const char *why = managed && managed->problem.text
                          ? rt_arena_printf(arena, ": %s", managed->problem.text)
                          : "";
    rt_mutex_unlock(&m->mu);
    if (st)
        return st;
    if (!why)
        return rt_fail_memory(err, "a status", 0);
    *n = found;
    if (found)
        return RT_OK;
    const struct rt_span name = rt_error_name(err, model);
    if (has_version)
        return rt_fail(err, RT_NOT_FOUND, "Could not find version %lld of model %.*s%s",
                       (long long)version, (int)name.n, (const char *)name.p, why);
    return rt_fail(err, RT_NOT_FOUND, "Could not find any versions of model %.*s%s", (int)name.n,
                   (const char *)name.p, why);
}

/* Copies the description of a problem, if there is one, to *out. */
static enum rt_status copy_problem(const struct srv_problem *problem, struct rt_arena *arena,
                                   const char **out)
{
    *out = problem && problem->text ? rt_arena_strdup(arena, problem->text) : NULL;
    return problem && problem->text && !*out ? RT_RESOURCE_EXHAUSTED : RT_OK;
}

enum rt_status srv_status_problem(struct srv_manager *m, struct rt_span model,
                                  struct rt_arena *arena, const char **out)
{
    rt_mutex_lock(&m->mu);
    const struct srv_managed *managed = srv_mgr_find_model(m, (const char *)model.p, model.n);
    const enum rt_status st = copy_problem(managed ? &managed->problem : NULL, arena, out);
    rt_mutex_unlock(&m->mu);
    return st;
}

enum rt_status srv_status_config_problems(struct srv_manager *m, struct rt_arena *arena,
                                          const char *out[SRV_MAX_CONFIG_PROBLEMS], int *n)
{
    rt_mutex_lock(&m->mu);
    enum rt_status st = copy_problem(&m->config_problem, arena, &out[0]);
    *n = out[0] != NULL;
    if (!st)
        st = copy_problem(&m->folder_problem, arena, &out[*n]);
    *n += !st && out[*n];
    rt_mutex_unlock(&m->mu);
    return st;
}

enum rt_status srv_status_models(struct srv_manager *m, struct rt_arena *arena,
                                 const char *const **out, int *n)
{
    rt_mutex_lock(&m->mu);
    const char **names = rt_arena_array(arena, (size_t)m->n_models + 1, sizeof *names);
    int k = 0;
    for (; names && k < m->n_models; k++) {
        names[k] = rt_arena_strdup(arena, m->models[k]->name);
        if (!names[k])
            names = NULL;
    }
    rt_mutex_unlock(&m->mu);
    if (!names)
        return RT_RESOURCE_EXHAUSTED;
    *out = names;
    *n = k;
    return RT_OK;
}

bool srv_is_ready(struct srv_manager *m)
{
    return m && !atomic_load(&m->server->draining) && atomic_load(&m->is_ready);
}

enum rt_status srv_fail_not_ready(struct srv_manager *m, struct rt_error *err)
{
    static const char where[] = "GET /v1/models/MODEL and POST /v2/repository/index say why";

    if (!m)
        return rt_fail(err, RT_UNAVAILABLE, "the server is not ready: it starts");
    if (atomic_load(&m->server->draining))
        return rt_fail(err, RT_UNAVAILABLE, "the server is shutting down");
    rt_mutex_lock(&m->mu);
    const struct srv_readiness r = m->readiness;
    rt_mutex_unlock(&m->mu);
    if (r.n_waiting)
        return rt_fail(err, RT_UNAVAILABLE,
                       "the server is not ready: it waits for %d of %d model%s; %s", r.n_waiting,
                       r.n_wanted, r.n_wanted == 1 ? "" : "s", where);
    if (r.n_wanted && !r.n_serving)
        return rt_fail(err, RT_UNAVAILABLE,
                       "the server is not ready: none of %d model%s is available; %s", r.n_wanted,
                       r.n_wanted == 1 ? "" : "s", where);
    return rt_fail(err, RT_UNAVAILABLE, "the server is not ready");
}

bool srv_has_model(struct srv_manager *m, struct rt_span model)
{
    rt_mutex_lock(&m->mu);
    const bool has = srv_mgr_find_model(m, (const char *)model.p, model.n) != NULL;
    rt_mutex_unlock(&m->mu);
    return has;
}

bool srv_model_is_ready(struct srv_manager *m, struct rt_span model)
{
    if (atomic_load(&m->server->draining))
        return false;
    rt_mutex_lock(&m->mu);
    const struct srv_managed *managed = srv_mgr_find_model(m, (const char *)model.p, model.n);
    const bool ready = managed && managed->n_available;
    rt_mutex_unlock(&m->mu);
    return ready;
}
