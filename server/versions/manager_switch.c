#include "server/versions/manager_internal.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

/* A request to load or to unload a model. It exists until it is answered. */
struct srv_switch {
    struct srv_switch *next;
    bool is_on;
    const _Atomic bool *cancelled;
    void (*done)(void *arg, enum rt_status status, const struct rt_error *err);
    void *arg;
    size_t n_name;
    char name[];
};

static void end(struct srv_switch *s, enum rt_status st, const struct rt_error *err)
{
    s->done(s->arg, st, err);
    free(s);
}

/* Makes wanted versions in the state END load again. If `unloaded` is set, these are the versions
 * that were unloaded. Otherwise they are the versions that failed. */
static void restart(struct srv_manager *m, const struct srv_managed *model, bool unloaded)
{
    for (int i = 0; i < model->n_entries; i++) {
        struct srv_managed_version *e = model->entries[i];
        if (e->wanted && e->state == SRV_END && unloaded == !e->code) {
            e->n_changed = 0;
            srv_mgr_restart(m, e);
        }
    }
}

static enum rt_status begin(struct srv_manager *m, const struct srv_switch *s, struct rt_error *err)
{
    struct srv_managed *model = srv_mgr_find_model(m, s->name, s->n_name);
    const struct rt_span shown = rt_error_name(err, rt_span_of(s->name, s->n_name));

    if (s->is_on && (!model || !model->config) && *m->server->options.models) {
        srv_mgr_poll_folder(m);
        model = srv_mgr_find_model(m, s->name, s->n_name);
    }
    if (!model || !model->config)
        return rt_fail(err, RT_NOT_FOUND, "model \"%.*s\" is not configured", (int)shown.n,
                       (const char *)shown.p);
    RT_LOG(RT_LOG_INFO, "model %s is %s by request", model->name, s->is_on ? "loaded" : "unloaded");
    srv_mgr_set_off(m, model, !s->is_on);
    if (s->is_on)
        restart(m, model, false);
    model->scan_due = rt_now_ns();
    if (model->is_large)
        m->next_large = 0;
    return RT_OK;
}

void srv_mgr_take_switches(struct srv_manager *m)
{
    struct srv_switch *oldest = NULL, **end_of_list = &m->switches;

    rt_mutex_lock(&m->mu);
    struct srv_switch *newest = m->new_switches;
    m->new_switches = NULL;
    rt_mutex_unlock(&m->mu);
    /* reverses the list, which begins with the newest request */
    for (struct srv_switch *next; newest; newest = next) {
        next = newest->next;
        newest->next = oldest;
        oldest = newest;
    }
    while (*end_of_list)
        end_of_list = &(*end_of_list)->next;
    for (struct srv_switch *s = oldest, *next; s; s = next) {
        struct rt_error err = {0};
        next = s->next;
        s->next = NULL;
        const enum rt_status st = begin(m, s, &err);
        if (st) {
            end(s, st, &err);
            continue;
        }
        *end_of_list = s;
        end_of_list = &s->next;
    }
}

/* Returns whether the version lets a load (`is_on`) or an unload end. An unload waits for all
 * versions. A load does not wait for the versions that it replaces. */
static bool is_at_rest(const struct srv_managed_version *e, bool is_on)
{
    return e->state == SRV_END || (is_on && (e->state == SRV_AVAILABLE || !e->wanted));
}

/* Returns whether the request has ended. If it has, sets *st to the result. */
static bool is_over(struct srv_manager *m, const struct srv_switch *s, enum rt_status *st,
                    struct rt_error *err)
{
    const struct srv_managed *model = srv_mgr_find_model(m, s->name, s->n_name);
    struct srv_unavailable list = {0};
    int n_serving = 0;

    if (s->cancelled && atomic_load_explicit(s->cancelled, memory_order_relaxed)) {
        *st = rt_fail(err, RT_CANCELLED, "the client has left");
        return true;
    }
    if (!model || !model->config || model->is_off == s->is_on) {
        *st = rt_fail(err, RT_ABORTED, "another request has changed whether the model is served");
        return true;
    }
    if (model->scan_due != RT_NEVER || m->again_at != RT_NEVER || m->must_publish)
        return false;
    /* a load may be requested before the unloading of a version has ended */
    restart(m, model, true);
    for (int i = 0; i < model->n_entries; i++) {
        const struct srv_managed_version *e = model->entries[i];
        if (!is_at_rest(e, s->is_on))
            return false;
        n_serving += e->state == SRV_AVAILABLE;
        if (s->is_on && e->wanted && e->state == SRV_END)
            srv_mgr_add_unavailable(&list, model->name, e, "");
    }
    if (s->is_on && !n_serving && !list.n)
        srv_mgr_add_unavailable(&list, model->name, NULL,
                                model->problem.text ? model->problem.text : "no version was found");
    *st = s->is_on && !n_serving
              ? rt_fail(err, RT_UNAVAILABLE, "the model did not become available: {%s}", list.text)
              : RT_OK;
    return true;
}

int64_t srv_mgr_check_switches(struct srv_manager *m, int64_t now)
{
    struct srv_switch **at = &m->switches;

    while (*at) {
        struct srv_switch *s = *at;
        struct rt_error err = {0};
        enum rt_status st = RT_OK;
        if (!is_over(m, s, &st, &err)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        end(s, st, &err);
    }
    return m->switches ? now + SECOND / 4 : RT_NEVER;
}

static void end_all(struct srv_switch *first)
{
    for (struct srv_switch *s = first, *next; s; s = next) {
        struct rt_error err = {0};
        next = s->next;
        end(s, rt_fail(&err, RT_UNAVAILABLE, "the server is stopping"), &err);
    }
}

void srv_mgr_end_switches(struct srv_manager *m)
{
    rt_mutex_lock(&m->mu);
    struct srv_switch *first = m->new_switches;
    m->new_switches = NULL;
    rt_mutex_unlock(&m->mu);
    end_all(first);
    first = m->switches;
    m->switches = NULL;
    end_all(first);
}

enum rt_status srv_manager_switch(struct srv_manager *m, struct rt_span model, bool is_on,
                                  const _Atomic bool *cancelled,
                                  void (*done)(void *arg, enum rt_status status,
                                               const struct rt_error *err),
                                  void *arg, struct rt_error *err)
{
    struct srv_switch *s = calloc(1, sizeof *s + model.n + 1);

    if (!s)
        return rt_fail_memory(err, "a request", sizeof *s);
    s->is_on = is_on;
    s->cancelled = cancelled;
    s->done = done;
    s->arg = arg;
    s->n_name = model.n;
    memcpy(s->name, model.p, model.n);
    rt_mutex_lock(&m->mu);
    const bool stopping = m->stopping;
    if (!stopping) {
        s->next = m->new_switches;
        m->new_switches = s;
    }
    rt_mutex_unlock(&m->mu);
    if (stopping) {
        free(s);
        return rt_fail(err, RT_UNAVAILABLE, "the server is stopping");
    }
    srv_mgr_wake(m);
    return RT_OK;
}
