#include "server/versions/manager_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/session/account.h"
#include "server/versions/model_gpus.h"
#include "server/triton/triton.h"

void srv_mgr_load_done(void *arg, struct srv_load *load)
{
    struct srv_manager *m = arg;
    rt_mutex_lock(&m->mu);
    load->next = m->loaded;
    m->loaded = load;
    rt_mutex_unlock(&m->mu);
    srv_mgr_wake(m);
}

/* Promises the load the GPU memory of the model's versions that are unloaded once it has ended. */
static void promise_memory(const struct srv_managed *model, const struct srv_load *load)
{
    for (int i = 0; i < model->n_entries; i++) {
        const struct srv_managed_version *e = model->entries[i];
        struct rt_session *s = e->state == SRV_AVAILABLE ? e->live->loaded->session : NULL;
        if (s && !e->wanted)
            rt_session_promise(s, load->number);
    }
}

void srv_mgr_start_load(struct srv_manager *m, struct srv_managed *model,
                        struct srv_managed_version *e)
{
    struct srv_load *load = calloc(1, sizeof *load);
    if (load)
        load->dir = strdup(e->dir);
    if (!load || !load->dir) {
        free(load);
        e->retry_at = rt_now_ns() + SECOND;
        return;
    }
    load->owner = e;
    e->load = load;
    load->model = model->name;
    load->version = e->version;
    load->before = e->seen;
    load->queued.rounds = &model->load_rounds;
    load->bf16 = model->config ? model->config->bf16 : SRV_UNSET;
    load->gpu_config = srv_model_gpus_use(m->server, model->config);
    load->number = ++m->n_loads;
    promise_memory(model, load);
    srv_mgr_set_state(m, e, SRV_LOADING, RT_OK, NULL);
    if (e->n_failures)
        RT_LOG(RT_LOG_INFO, "Retrying of Loading servable: {name: %s version: %lld} retry: %d",
               model->name, (long long)e->version, e->n_failures);
    RT_LOG(RT_LOG_INFO, "Loading servable version {name: %s version: %lld}", model->name,
           (long long)e->version);
    m->n_loading++;
    srv_loader_submit(m->loader, load);
}

/* Returns whether the version's files caused the failure, so that loading the same files again
 * would fail too. */
static bool is_final(enum rt_status st)
{
    return st == RT_UNIMPLEMENTED || st == RT_INVALID_ARGUMENT || st == RT_FAILED_PRECONDITION;
}

static void load_failed(struct srv_manager *m, struct srv_managed *model,
                        struct srv_managed_version *e, const struct srv_load *load)
{
    const struct srv_options *o = &m->server->options;
    const char *text = rt_error_text(&load->err);
    e->at_load = load->changed ? load->after : load->before;
    e->n_failures++;
    bool final = is_final(load->status) || load->changed || e->n_failures > o->max_num_load_retries;
    rt_mutex_lock(&m->mu);
    e->final = final;
    rt_mutex_unlock(&m->mu);
    int64_t pause = o->load_retry_interval_micros > 0 ? o->load_retry_interval_micros : 0;
    e->retry_at = final || pause > INT64_MAX / 2000 ? RT_NEVER : rt_now_ns() + pause * 1000;
    srv_mgr_set_state(m, e, SRV_END, load->status, text);
    RT_LOG(RT_LOG_ERROR, "Loading servable: {name: %s version: %lld} failed: %s: %s", model->name,
           (long long)e->version, rt_status_name(load->status), text);
}

/* Returns a version to START without counting a failure, because its files have changed or memory
 * is about to be freed. */
static void load_again(struct srv_manager *m, struct srv_managed *model,
                       struct srv_managed_version *e, const struct srv_load *load)
{
    RT_LOG(RT_LOG_INFO, "{name: %s version: %lld}: %s", model->name, (long long)e->version,
           rt_error_text(&load->err));
    srv_mgr_set_state(m, e, SRV_END, load->status, rt_error_text(&load->err));
    srv_mgr_set_state(m, e, SRV_START, load->status, rt_error_text(&load->err));
    e->retry_at = rt_now_ns() + SECOND / 2;
}

/* Ends a load during which the version's files changed. The version is loaded again when its files
 * have stopped changing. After CHANGED_LOADS_MAX consecutive loads of this kind, the version fails,
 * because its init op or warm-up may write to the directory. The failed version is tried again when
 * its files change once more. */
static void load_changed(struct srv_manager *m, struct srv_managed *model,
                         struct srv_managed_version *e, struct srv_load *load)
{
    char why[1024];
    const int shift = e->n_changed < 16 ? e->n_changed : 16;
    const int64_t pause_ms = (int64_t)CHANGED_PAUSE_MS << shift;
    const bool fails = ++e->n_changed >= CHANGED_LOADS_MAX;
    snprintf(why, sizeof why, "%s", rt_error_text(&load->err));
    if (fails)
        rt_fail(&load->err, load->status,
                "%s, as in each of %d loads: the model itself or another program writes there; it "
                "is loaded again after the next change",
                why, e->n_changed);
    else
        rt_fail(&load->err, load->status, "%s; it is loaded again when they have come to rest",
                why);
    if (fails)
        load_failed(m, model, e, load);
    else
        load_again(m, model, e, load);
    e->seen_since = 0;
    e->stable = false;
    e->look_at =
        rt_now_ns() + (pause_ms < CHANGED_PAUSE_MAX_MS ? pause_ms : CHANGED_PAUSE_MAX_MS) * MILLION;
}

static bool is_unloading(const struct srv_manager *m)
{
    for (int i = 0; i < m->n_models; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++)
            if (m->models[i]->entries[k]->state == SRV_UNLOADING)
                return true;
    return false;
}

static enum rt_status make_version(struct srv_manager *m, struct srv_managed *model,
                                   struct srv_managed_version *e, struct srv_load *load)
{
    struct srv_version *v = calloc(1, sizeof *v);
    if (!v)
        return rt_fail_memory(&load->err, "a version", sizeof *v);
    v->model = strdup(model->name);
    v->handles = srv_handles_new(m->server->n_io_loops);
    v->version = e->version;
    v->loaded = load->loaded;
    v->account = load->account;
    v->triton = load->triton;
    v->batching = load->batching;
    v->gpu = load->gpu;
    enum rt_status st = v->model && v->handles ? m->calls->attach(m->server, v, &load->err)
                                               : rt_fail_memory(&load->err, "a version", sizeof *v);
    if (st) {
        srv_mgr_free_version(v);
        return st;
    }
    load->loaded = NULL;
    load->account = NULL;
    load->triton = NULL;
    e->live = v;
    return RT_OK;
}

void srv_mgr_end_load(struct srv_manager *m, struct srv_load *load)
{
    struct srv_managed_version *e = load->owner;
    struct srv_managed *model = srv_mgr_find_model(m, load->model, strlen(load->model));
    const bool stopping = atomic_load(&m->stopping);
    m->n_loading--;
    e->load = NULL;
    /* a load that failed before it was cancelled reports its own failure */
    const bool ends =
        (stopping || load->unwanted) && (!load->status || load->status == RT_CANCELLED);
    if (ends)
        load->status = rt_fail(&load->err, RT_CANCELLED,
                               stopping ? "the server is stopping"
                                        : "this version was not wanted any more while it was "
                                          "loaded");
    if (!load->status)
        load->status = make_version(m, model, e, load);
    if (load->loaded)
        m->calls->free(load->loaded);
    rt_account_free(load->account);
    srv_triton_free(load->triton);
    /* the failed load has freed memory, so the heap must be trimmed */
    m->trim_pending |= load->status != RT_OK;
    if (!ends && !load->changed)
        m->calls->count_load(m->server, model->name, load->dir, !load->status, load->ns);
    if (!load->status) {
        e->at_load = load->before;
        e->overwritten = false;
        e->n_failures = 0;
        e->n_changed = 0;
        m->must_publish = true;
    } else if (ends) {
        srv_mgr_set_state(m, e, SRV_END, RT_CANCELLED, rt_error_text(&load->err));
        RT_LOG(RT_LOG_INFO, "Loading of servable version {name: %s version: %lld} has ended: %s",
               model->name, (long long)e->version, rt_error_text(&load->err));
        /* the version is wanted again, although its load was cancelled */
        if (e->wanted && !stopping)
            srv_mgr_restart(m, e);
    } else if (load->changed) {
        load_changed(m, model, e, load);
    } else if (load->over_memory_limit && is_unloading(m)) {
        load_again(m, model, e, load);
    } else {
        load_failed(m, model, e, load);
    }
    srv_model_gpus_end_promises(m->server, load->number);
    free(load->dir);
    free(load);
}
