#include "server/versions/status.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "server/versions/manager_internal.h"

/* The number of versions or models that are copied under one hold of the manager's lock. This takes
 * less than 0.1 ms. */
enum { SLICE = 256 };

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

/* Copies the state of a version to *out. The manager's lock must be held. */
static enum rt_status copy_version(const struct srv_managed_version *e, struct rt_arena *arena,
                                   struct srv_version_status *out)
{
    const char *problem = e->model->problem.text ? e->model->problem.text : e->problem.text;
    const char *text = e->state == SRV_AVAILABLE && problem ? problem : srv_mgr_state_text(e);

    *out = (struct srv_version_status){e->version, e->state, e->code, rt_arena_strdup(arena, text)};
    return out->message ? RT_OK : RT_RESOURCE_EXHAUSTED;
}

/* A list of states that grows. */
struct copies {
    struct srv_version_status *status;
    int n, capacity;
};

/* Copies at most SLICE states of versions that are lower than the last copied one. Sets *more to
 * whether further versions remain. */
static enum rt_status copy_slice(struct srv_manager *m, struct rt_span model,
                                 struct rt_arena *arena, struct copies *to, bool *more)
    RT_REQUIRES(m->mu)
{
    const struct srv_managed *managed = srv_mgr_find_model(m, (const char *)model.p, model.n);
    const int n_entries = managed ? managed->n_entries : 0;
    int i = to->n && managed ? srv_mgr_first_below(managed, to->status[to->n - 1].version) : 0;
    const int end = n_entries - i > SLICE ? i + SLICE : n_entries;

    *more = end < n_entries;
    if (end - i > to->capacity - to->n) {
        const int capacity = 2 * to->capacity + n_entries - i;
        struct srv_version_status *grown = rt_arena_array(arena, (size_t)capacity, sizeof *grown);
        if (!grown)
            return RT_RESOURCE_EXHAUSTED;
        if (to->n)
            memcpy(grown, to->status, (size_t)to->n * sizeof *grown);
        to->status = grown;
        to->capacity = capacity;
    }
    for (; i < end; i++) {
        if (copy_version(managed->entries[i], arena, &to->status[to->n]))
            return RT_RESOURCE_EXHAUSTED;
        to->n++;
    }
    return RT_OK;
}

size_t srv_status_bytes(const struct srv_version_status *versions, int n)
{
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += sizeof *versions + strlen(versions[i].message);
    return bytes;
}

/* Fails because a model or version is unknown. Adds the problem of the model's base path. */
static enum rt_status fail_unknown(struct srv_manager *m, struct rt_span model, bool has_version,
                                   int64_t version, struct rt_arena *arena, struct rt_error *err)
{
    const struct rt_span name = rt_error_name(err, model);
    const char *problem;

    if (srv_status_problem(m, model, arena, &problem))
        return rt_fail_memory(err, "a status", 0);
    const char *colon = problem ? ": " : "";
    problem = problem ? problem : "";
    if (has_version)
        return rt_fail(err, RT_NOT_FOUND, "Could not find version %lld of model %.*s%s%s",
                       (long long)version, (int)name.n, (const char *)name.p, colon, problem);
    return rt_fail(err, RT_NOT_FOUND, "Could not find any versions of model %.*s%s%s", (int)name.n,
                   (const char *)name.p, colon, problem);
}

enum rt_status srv_status_one(struct srv_manager *m, struct rt_span model, bool has_version,
                              int64_t version, struct rt_arena *arena,
                              struct srv_version_status *out, struct rt_error *err)
{
    rt_mutex_lock(&m->mu);
    const struct srv_managed *managed = srv_mgr_find_model(m, (const char *)model.p, model.n);
    const struct srv_managed_version *e = !managed || !managed->n_entries ? NULL
                                          : has_version ? srv_mgr_find_entry(managed, version)
                                                        : managed->entries[0];
    const enum rt_status st = e ? copy_version(e, arena, out) : RT_OK;
    rt_mutex_unlock(&m->mu);
    if (st)
        return rt_fail_memory(err, "a status", 0);
    return e ? RT_OK : fail_unknown(m, model, has_version, version, arena, err);
}

enum rt_status srv_status_of(struct srv_manager *m, struct rt_span model, bool has_version,
                             int64_t version, struct rt_arena *arena,
                             struct srv_version_status **out, int *n, struct rt_error *err)
{
    struct copies copies = {0};
    enum rt_status st = RT_OK;

    *n = 0;
    if (has_version) {
        *out = rt_arena_alloc(arena, sizeof **out);
        if (!*out)
            return rt_fail_memory(err, "a status", sizeof **out);
        st = srv_status_one(m, model, true, version, arena, *out, err);
        *n = !st;
        return st;
    }
    for (bool more = true; more && !st;) {
        rt_mutex_lock(&m->mu);
        st = copy_slice(m, model, arena, &copies, &more);
        rt_mutex_unlock(&m->mu);
    }
    if (st)
        return rt_fail_memory(err, "a status", 0);
    if (!copies.n)
        return fail_unknown(m, model, false, 0, arena, err);
    *out = copies.status;
    *n = copies.n;
    return RT_OK;
}

int srv_status_size(struct srv_manager *m, struct rt_span model)
{
    rt_mutex_lock(&m->mu);
    const struct srv_managed *managed = srv_mgr_find_model(m, (const char *)model.p, model.n);
    const int n = managed ? managed->n_entries : 0;
    rt_mutex_unlock(&m->mu);
    return n;
}

int srv_status_size_of_all(struct srv_manager *m)
{
    rt_mutex_lock(&m->mu);
    const int n = m->n_models + m->n_entries;
    rt_mutex_unlock(&m->mu);
    return n;
}

int srv_status_size_of_available(struct srv_manager *m)
{
    rt_mutex_lock(&m->mu);
    const int n = m->readiness.n_available;
    rt_mutex_unlock(&m->mu);
    return n;
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

/* A list of names that grows. */
struct names {
    const char **name;
    int n, capacity;
};

/* Copies the names of at most SLICE models, the first of which is *at or comes after it. A NULL *at
 * comes before all names. Sets *at to the name of the model with which to continue, or to NULL. */
static enum rt_status copy_names(struct srv_manager *m, bool only_available, struct rt_arena *arena,
                                 struct names *to, const char **at) RT_REQUIRES(m->mu)
{
    int i = *at ? srv_mgr_first_model(m, *at, strlen(*at)) : 0;
    const int end = m->n_models - i > SLICE ? i + SLICE : m->n_models;

    if (end - i > to->capacity - to->n) {
        const int capacity = 2 * to->capacity + (only_available ? SLICE : m->n_models - i);
        const char **grown = rt_arena_array(arena, (size_t)capacity, sizeof *grown);
        if (!grown)
            return RT_RESOURCE_EXHAUSTED;
        if (to->n)
            memcpy(grown, to->name, (size_t)to->n * sizeof *grown);
        to->name = grown;
        to->capacity = capacity;
    }
    for (; i < end; i++) {
        if (only_available && !m->models[i]->n_available)
            continue;
        const char *name = rt_arena_strdup(arena, m->models[i]->name);
        if (!name)
            return RT_RESOURCE_EXHAUSTED;
        to->name[to->n++] = name;
    }
    *at = end < m->n_models ? rt_arena_strdup(arena, m->models[end]->name) : NULL;
    return end < m->n_models && !*at ? RT_RESOURCE_EXHAUSTED : RT_OK;
}

enum rt_status srv_status_models(struct srv_manager *m, bool only_available, struct rt_arena *arena,
                                 const char *const **out, int *n)
{
    struct names names = {0};
    const char *at = NULL;
    enum rt_status st = RT_OK;

    do {
        rt_mutex_lock(&m->mu);
        st = copy_names(m, only_available, arena, &names, &at);
        rt_mutex_unlock(&m->mu);
    } while (at && !st);
    *out = names.name;
    *n = names.n;
    return st;
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
