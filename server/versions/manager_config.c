#include "server/versions/manager_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#include "proto/unpack.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "server/versions/model_gpus.h"
#include "server/versions/model_root.h"
#include "tensorflow_serving/config/model_server_config.pb-c.h"

static void point_models_at_locked(struct srv_manager *m, const struct srv_config *config)
{
    for (int i = 0; config && i < config->n_models; i++) {
        const struct srv_model_config *c = &config->models[i];
        struct srv_managed *model = srv_mgr_find_model(m, c->name, strlen(c->name));
        /* models from the flags or the config file take precedence over models from --models */
        if (model && !model->config) {
            model->config = c;
            model->gone = false;
        }
    }
}

void srv_mgr_point_models(struct srv_manager *m)
{
    const bool base_listed = srv_mgr_add_models(m, m->base);
    const bool folder_listed = srv_mgr_add_models(m, m->folder);
    if (!base_listed || !folder_listed)
        srv_mgr_try_again(m);
    rt_mutex_lock(&m->mu);
    point_models_at_locked(m, m->base);
    point_models_at_locked(m, m->folder);
    rt_mutex_unlock(&m->mu);
    srv_mgr_count_models(m);
}

/* Replaces m->base with `base` and m->folder with `folder`, and takes ownership of both. A NULL
 * argument replaces nothing. */
void srv_mgr_take_configs(struct srv_manager *m, struct srv_config *base, struct srv_config *folder)
{
    struct srv_config *old_base = base ? m->base : NULL;
    struct srv_config *old_folder = folder ? m->folder : NULL;
    m->base = base ? base : m->base;
    m->folder = folder ? folder : m->folder;
    for (int i = 0; i < m->n_models; i++) {
        struct srv_managed *model = m->models[i];
        if (model->watch >= 0)
            /* removes the watch, because the model's base path may have changed */
            inotify_rm_watch(m->inotify_fd, model->watch);
        model->watch = -1;
        model->is_large = false;
    }
    rt_mutex_lock(&m->mu);
    for (int i = 0; i < m->n_models; i++) {
        /* --model_wait_seconds is counted from the time at which a model is configured */
        if (!m->models[i]->config) {
            m->models[i]->since = rt_now_ns();
            m->models[i]->is_overdue = false;
        }
        m->models[i]->config = NULL;
    }
    rt_mutex_unlock(&m->mu);
    srv_mgr_point_models(m);
    for (int i = 0; m->folder && i < m->folder->n_models; i++)
        if (srv_config_find(m->base, m->folder->models[i].name))
            RT_LOG(RT_LOG_INFO,
                   "model %s is served as it is configured, and not from its directory in %s",
                   m->folder->models[i].name, m->server->options.models);
    srv_config_free(old_base);
    srv_config_free(old_folder);
    if (base && m->calls->configure)
        m->calls->configure(m->server, base);
}

/* Checks that every label refers to an available version.
 * --allow_version_labels_for_unavailable_models permits any version for a label that is new or
 * keeps its version. A label that moves must still refer to an available version. */
enum rt_status srv_mgr_check_labels(const struct srv_manager *m, const struct srv_config *config,
                                    struct rt_error *err)
{
    const struct srv_options *o = &m->server->options;
    for (int i = 0; i < config->n_models; i++) {
        const struct srv_model_config *c = &config->models[i];
        const struct srv_managed *model = srv_mgr_find_model(m, c->name, strlen(c->name));
        for (int k = 0; k < c->n_labels; k++) {
            const struct srv_managed_version *e =
                model ? srv_mgr_find_entry(model, c->labels[k].version) : NULL;
            if (e && e->state == SRV_AVAILABLE)
                continue;
            const struct srv_label *old =
                model ? srv_config_find_label(model->config, c->labels[k].label) : NULL;
            if (o->allow_version_labels_for_unavailable_models &&
                (!old || old->version == c->labels[k].version))
                continue;
            return rt_fail(err, RT_FAILED_PRECONDITION, SRV_LABEL_UNAVAILABLE,
                           (long long)c->labels[k].version, c->name);
        }
    }
    return RT_OK;
}

void srv_mgr_log_config(const struct srv_config *config)
{
    RT_LOG(RT_LOG_INFO, "Adding/updating models.");
    for (int i = 0; i < config->n_models; i++) {
        const struct srv_model_config *c = &config->models[i];
        RT_LOG(RT_LOG_INFO, " (Re-)adding model: %s", c->name);
    }
}

/* Checks and installs a new list of models. Takes ownership of `config` only on success. */
static enum rt_status change_config(struct srv_manager *m, struct srv_config *config,
                                    struct rt_error *err)
{
    enum rt_status st = srv_config_check_transition(m->base, config, err);
    if (st)
        return st;
    if (!config->is_list) {
        RT_LOG(RT_LOG_INFO, "Taking no action for empty config.");
        srv_config_free(config);
        return RT_OK;
    }
    st = srv_config_check_platforms(m->base, config, err);
    if (!st)
        st = srv_model_gpus_check(m->server, config, err);
    if (!st)
        st = srv_mgr_check_labels(m, config, err);
    if (st)
        return st;
    srv_mgr_log_config(config);
    srv_mgr_take_configs(m, config, NULL);
    /* A new map must be published, because the serving map contains the parts of the configuration
     * that requests need. */
    srv_mgr_publish(m);
    return RT_OK;
}

void srv_mgr_poll_config_file(struct srv_manager *m)
{
    struct srv_config *config = NULL;
    struct rt_error err = {0};
    enum rt_status st = srv_config_from_options(&m->server->options, &config, &err);
    if (!st && srv_config_eq(m->base, config)) {
        srv_config_free(config);
        srv_mgr_set_problem(m, &m->config_problem, NULL);
        return;
    }
    if (!st)
        st = change_config(m, config, &err);
    if (!st) {
        srv_mgr_set_problem(m, &m->config_problem, NULL);
        return;
    }
    char text[1024];
    snprintf(text, sizeof text, "%s is ignored: %s: %s", m->server->options.model_config_file,
             rt_status_name(st), rt_error_text(&err));
    srv_mgr_set_problem(m, &m->config_problem, text);
    srv_config_free(config);
}

static bool same_folder(const struct srv_config *a, const struct srv_config *b)
{
    if (!a || a->n_models != b->n_models)
        return false;
    for (int i = 0; i < a->n_models; i++)
        if (strcmp(a->models[i].base_path, b->models[i].base_path) != 0)
            return false;
    return true;
}

void srv_mgr_poll_folder(struct srv_manager *m)
{
    struct srv_config *config;
    struct rt_error err = {0};
    const char *dir = m->server->options.models;
    srv_mgr_watch_folder(m, dir, &m->folder_watch);
    if (srv_config_from_folder(dir, &config, &err)) {
        srv_mgr_set_problem(m, &m->folder_problem, rt_error_text(&err));
        m->folder_watch = -1;
        return;
    }
    srv_mgr_set_problem(m, &m->folder_problem, config->warning);
    if (same_folder(m->folder, config))
        srv_config_free(config);
    else
        srv_mgr_take_configs(m, NULL, config);
}

/* ---- reload requests ---- */

static void free_reload(struct srv_reload *r)
{
    srv_config_free(r->config);
    rt_arena_free(r->arena);
    free(r);
}

/* Reports the result of a reload to its requester and frees the reload. */
void srv_mgr_end_reload(struct srv_reload *r, enum rt_status status, const struct rt_error *err)
{
    r->done(r->arg, status, err);
    free_reload(r);
}

/* Sets the message of `err` to a list of the models that continue to serve in spite of a problem
 * with their base path. A model whose base path contains no version does not serve. The status of
 * `err` is RT_OK, and the reload succeeds. TensorFlow Serving's reload also succeeds if a model's
 * new base path does not exist. */
static void name_problems(const struct srv_manager *m, struct rt_error *err)
{
    struct srv_unavailable list = {0};
    for (int i = 0; i < m->n_models; i++)
        if (m->models[i]->config && m->models[i]->problem.text && !m->models[i]->is_empty)
            srv_mgr_add_unavailable(&list, m->models[i]->name, NULL, m->models[i]->problem.text);
    if (list.n)
        rt_fail(err, RT_OK, "%d model(s) keep the versions that they had: {%s}", list.n, list.text);
}

void srv_mgr_check_reload(struct srv_manager *m)
{
    struct srv_reload *r = m->reload;
    /* if memory has run out, the reload's models and labels may not be installed yet */
    if (!r || m->again_at != RT_NEVER)
        return;
    struct rt_error err = {0};
    struct srv_unavailable list = {0};
    for (int i = 0; i < r->n_new; i++) {
        const struct srv_managed *model =
            srv_mgr_find_model(m, r->new_models[i], strlen(r->new_models[i]));
        const struct srv_managed_version *why = NULL;
        /* the config file was read again after the reload, and no longer contains the model */
        if (!model || !model->config) {
            srv_mgr_add_unavailable(&list, r->new_models[i], NULL,
                                    "the model was taken out of the configuration");
            continue;
        }
        if (model->is_off) {
            srv_mgr_add_unavailable(&list, r->new_models[i], NULL, "the model was unloaded");
            continue;
        }
        enum srv_settled s = srv_mgr_settled(m, model, false, &why);
        if (s == SRV_WAITING)
            return;
        if (s != SRV_SERVES)
            srv_mgr_add_unavailable(&list, r->new_models[i], why,
                                    model->problem.text
                                        ? model->problem.text
                                        : "no version was found, or none came to rest");
    }
    enum rt_status st = RT_OK;
    if (list.n)
        st = rt_fail(&err, RT_UNKNOWN, "%d model(s) did not become available: {%s}", list.n,
                     list.text);
    else
        name_problems(m, &err);
    m->reload = NULL;
    srv_mgr_end_reload(r, st, &err);
}

/* Sets r->new_models to whether each model of the reload is new. */
static enum rt_status note_new_models(const struct srv_manager *m, struct srv_reload *r,
                                      struct rt_error *err)
{
    const struct srv_config *config = r->config;
    r->arena = rt_arena_new(SIZE_MAX);
    if (r->arena)
        r->new_models =
            rt_arena_array(r->arena, (size_t)config->n_models + 1, sizeof *r->new_models);
    if (!r->new_models)
        return rt_fail_memory(err, "a reload", 0);
    for (int i = 0; i < config->n_models; i++) {
        const char *name = config->models[i].name;
        const struct srv_managed *model = srv_mgr_find_model(m, name, strlen(name));
        if (model && model->config)
            continue;
        r->new_models[r->n_new] = rt_arena_strdup(r->arena, name);
        if (!r->new_models[r->n_new++])
            return rt_fail_memory(err, "a reload", 0);
    }
    return RT_OK;
}

/* Checks the request logs that a reload names. A log in the operator's own config file is
 * permitted, even if an earlier reload removed it. */
static enum rt_status check_logs(const struct srv_manager *m, const struct srv_config *config,
                                 struct rt_error *err)
{
    const char *root = m->server->options.model_root;
    struct srv_config *file = NULL;
    struct rt_error ignored = {0};
    if (!srv_model_root_check_logs(root, m->base, NULL, config, &ignored))
        return RT_OK;
    if (srv_config_from_options(&m->server->options, &file, &ignored))
        file = NULL;
    enum rt_status st = srv_model_root_check_logs(root, m->base, file, config, err);
    srv_config_free(file);
    return st;
}

void srv_mgr_take_reload(struct srv_manager *m)
{
    if (m->reload)
        return; /* only one reload is performed at any time */
    rt_mutex_lock(&m->mu);
    /* new_reloads is a stack, so its last element is the oldest reload */
    struct srv_reload **last = &m->new_reloads;
    while (*last && (*last)->next)
        last = &(*last)->next;
    struct srv_reload *r = *last;
    *last = NULL;
    rt_mutex_unlock(&m->mu);
    if (!r)
        return;
    struct rt_error err = {0};
    const char *root = m->server->options.model_root;
    enum rt_status st = RT_OK;
    if (r->cancelled && atomic_load(r->cancelled))
        st = rt_fail(&err, RT_CANCELLED, "the client gave up before the reload's turn came");
    if (!st)
        st = note_new_models(m, r, &err);
    if (!st)
        st = srv_model_root_check(root, r->config, &err);
    if (!st)
        st = check_logs(m, r->config, &err);
    if (!st)
        st = change_config(m, r->config, &err);
    if (st) {
        srv_mgr_end_reload(r, st, &err);
        return;
    }
    r->config = NULL;
    m->reload = r;
    m->next_poll = 0;
}

enum rt_status
srv_manager_reload(struct srv_manager *m, struct rt_span message, const _Atomic bool *cancelled,
                   void (*done)(void *arg, enum rt_status status, const struct rt_error *err),
                   void *arg, struct rt_error *err)
{
    Tensorflow__Serving__ModelServerConfig *config =
        pb_unpack(&tensorflow__serving__model_server_config__descriptor, message, "config", err);
    if (!config)
        return pb_unpack_failed(err, RT_INVALID_ARGUMENT);
    struct srv_reload *r = calloc(1, sizeof *r);
    enum rt_status st = r ? RT_OK : rt_fail_memory(err, "a reload", sizeof *r);
    if (!st &&
        config->config_case != TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG_MODEL_CONFIG_LIST)
        st = rt_fail(err, RT_INVALID_ARGUMENT,
                     "ServerModelConfig type not supported by HandleReloadConfigRequest. Only "
                     "ModelConfigList is currently supported");
    if (!st)
        st = srv_config_from_message(config, &r->config, err);
    pb_free(config);
    if (st) {
        free(r);
        return st;
    }
    r->cancelled = cancelled;
    r->done = done;
    r->arg = arg;
    rt_mutex_lock(&m->mu);
    bool stopping = m->stopping;
    if (!stopping) {
        r->next = m->new_reloads;
        m->new_reloads = r;
    }
    rt_mutex_unlock(&m->mu);
    if (stopping) {
        free_reload(r);
        return rt_fail(err, RT_UNAVAILABLE, "the server is stopping");
    }
    srv_mgr_wake(m);
    return RT_OK;
}
