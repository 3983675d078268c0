#include "server/versions/manager_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "server/versions/policy.h"
#include "server/triton/triton.h"

enum {
    MAX_ENDED = 100, /* maximum number of ended versions that a model's status lists */
    /* Maximum number of unconfigured models that the table lists. */
    MAX_GONE_MODELS = 1000,
};
/* The first and the longest pause between two log lines that tell the same problem. Each pause is
 * twice as long as the one before. */
#define PROBLEM_PAUSE_NS INT64_C(5000000000)
#define PROBLEM_MAX_NS   INT64_C(600000000000)

void srv_mgr_wake(struct srv_manager *m)
{
    uint64_t one = 1;
    ssize_t ignored = write(m->event_fd, &one, sizeof one);
    (void)ignored;
}

/* Returns a copy of a string, or NULL if memory runs out. The caller must free() the copy. Invalid
 * UTF-8 in the string is replaced, because strings from a model's files become JSON and protobuf
 * strings, which must be valid UTF-8. */
static char *copy_as_utf8(const char *text)
{
    struct rt_bytes copy;

    rt_bytes_init(&copy, SIZE_MAX);
    rt_bytes_adds(&copy, text);
    rt_bytes_make_utf8(&copy, 0);
    char *p = rt_bytes_take(&copy, NULL);
    rt_bytes_clear(&copy);
    return p;
}

void srv_mgr_set_problem(struct srv_manager *m, struct srv_problem *problem, const char *text)
{
    const int64_t now = rt_now_ns();
    char *before = problem->text;
    char *copy = text ? copy_as_utf8(text) : NULL;
    const bool lasts = copy && before && strcmp(before, copy) == 0;

    if (text && (!lasts || now >= problem->again_ns)) {
        RT_LOG(RT_LOG_WARNING, "%s", text);
        problem->pause_ns = !lasts                                   ? PROBLEM_PAUSE_NS
                            : problem->pause_ns < PROBLEM_MAX_NS / 2 ? 2 * problem->pause_ns
                                                                     : PROBLEM_MAX_NS;
        problem->again_ns = now + problem->pause_ns;
    }
    if (lasts) {
        free(copy);
        return;
    }
    rt_mutex_lock(&m->mu);
    problem->text = copy;
    rt_mutex_unlock(&m->mu);
    free(before);
}

const char *srv_mgr_state_text(const struct srv_managed_version *e)
{
    return e->message ? e->message : e->no_message ? "(there was no memory for the reason)" : "";
}

void srv_mgr_add_text(struct srv_unavailable *list, const char *fmt, ...)
{
    const size_t left = sizeof list->text - 1 - list->used;
    va_list ap;
    if (!left)
        return; /* no space is left in the text, so nothing more is formatted */
    va_start(ap, fmt);
    const int n = vsnprintf(list->text + list->used, left + 1, fmt, ap);
    va_end(ap);
    list->used += n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;
}

void srv_mgr_add_unavailable(struct srv_unavailable *list, const char *model,
                             const struct srv_managed_version *why, const char *text)
{
    list->n++;
    if (why)
        srv_mgr_add_text(list, "{{name: %s version: %lld} due to error: %s: %s}, ", model,
                         (long long)why->version, rt_status_name(why->code),
                         srv_mgr_state_text(why));
    else
        srv_mgr_add_text(list, "{{name: %s} due to error: %s}, ", model, text);
}

/* ---- readiness ---- */

/* Readiness is counted when something changes, so that a reader need not examine the models. */

void srv_mgr_note_ready(struct srv_manager *m)
{
    const struct srv_readiness *r = &m->readiness;

    atomic_store(&m->is_ready, m->first_poll_done && !m->stopping && !r->n_waiting &&
                                   (r->n_serving || !r->n_wanted));
}

/* Adds `n`, which is 1 or -1, to the numbers of the model's versions that are like `e`. */
static void count_version(const struct srv_managed_version *e, int n)
{
    struct srv_managed *model = e->model;

    if (e->state == SRV_AVAILABLE)
        model->n_available += n;
    if (e->wanted)
        model->n_wanted += n;
    if (e->wanted && e->state == SRV_END && e->code)
        model->n_failed += n;
}

/* Replaces what the model adds to the manager's readiness. */
static void count_model(struct srv_manager *m, struct srv_managed *model)
{
    const bool serves = model->n_available > 0;
    const bool is_wanted = model->config && !model->is_off;
    const bool has_failed = model->n_wanted && model->n_failed == model->n_wanted;
    const struct srv_readiness now = {
        .n_waiting = model->is_initial && is_wanted && !serves && !model->is_overdue && !has_failed,
        .n_serving = serves,
        .n_wanted = is_wanted,
        .n_available = model->n_available,
    };

    m->readiness.n_waiting += now.n_waiting - model->counted.n_waiting;
    m->readiness.n_serving += now.n_serving - model->counted.n_serving;
    m->readiness.n_wanted += now.n_wanted - model->counted.n_wanted;
    m->readiness.n_available += now.n_available - model->counted.n_available;
    model->counted = now;
    srv_mgr_note_ready(m);
}

void srv_mgr_count_models(struct srv_manager *m)
{
    rt_mutex_lock(&m->mu);
    for (int i = 0; i < m->n_models; i++)
        count_model(m, m->models[i]);
    rt_mutex_unlock(&m->mu);
}

int64_t srv_mgr_note_overdue(struct srv_manager *m, int64_t now)
{
    const int64_t wait = m->server->options.model_wait_seconds;
    const int64_t wait_ns = (wait < INT32_MAX ? wait : INT32_MAX) * SECOND;
    int64_t next = RT_NEVER;

    for (int i = 0; wait && i < m->n_models; i++) {
        struct srv_managed *model = m->models[i];
        const int64_t at = model->since + wait_ns;
        if (!model->is_initial || model->is_overdue || !model->config)
            continue;
        if (now <= at) {
            next = at < next ? at + 1 : next;
            continue;
        }
        rt_mutex_lock(&m->mu);
        model->is_overdue = true;
        count_model(m, model);
        rt_mutex_unlock(&m->mu);
    }
    return next;
}

/* ---- models and versions ---- */

void srv_mgr_set_wanted(struct srv_manager *m, struct srv_managed_version *e, bool wanted)
{
    rt_mutex_lock(&m->mu);
    count_version(e, -1);
    e->wanted = wanted;
    count_version(e, 1);
    count_model(m, e->model);
    rt_mutex_unlock(&m->mu);
}

void srv_mgr_set_state(struct srv_manager *m, struct srv_managed_version *e, enum srv_state to,
                       enum rt_status code, const char *text)
{
    if (e->state == to && to != SRV_END && to != SRV_START)
        return;
    assert(e->state == to || srv_state_may_become(e->state, to));
    const bool has_text = text && *text;
    char *copy = has_text ? copy_as_utf8(text) : NULL;
    rt_mutex_lock(&m->mu);
    free(e->message);
    e->message = copy;
    e->no_message = has_text && !copy;
    count_version(e, -1);
    e->code = code;
    e->state = to;
    count_version(e, 1);
    count_model(m, e->model);
    rt_cond_broadcast(&m->changed);
    rt_mutex_unlock(&m->mu);
}

/* Compares a name of n bytes with a model's name, in the order of the table. */
static int compare(const char *name, size_t n, const struct srv_managed *model)
{
    const size_t k = strlen(model->name);
    /* `name` may be NULL if n is 0 */
    const int c = n ? memcmp(name, model->name, n < k ? n : k) : 0;
    return c ? c : n < k ? -1 : n > k;
}

int srv_mgr_first_model(const struct srv_manager *m, const char *name, size_t n)
{
    int low = 0, high = m->n_models;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (compare(name, n, m->models[mid]) > 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct srv_managed *srv_mgr_find_model(const struct srv_manager *m, const char *name, size_t n)
{
    const int i = srv_mgr_first_model(m, name, n);
    return i < m->n_models && compare(name, n, m->models[i]) == 0 ? m->models[i] : NULL;
}

static struct srv_managed *model_new(const char *name)
{
    struct srv_managed *model = calloc(1, sizeof *model);
    if (model)
        model->name = strdup(name);
    if (!model || !model->name) {
        free(model);
        return NULL;
    }
    model->watch = -1;
    model->since = rt_now_ns();
    model->scan_due = RT_NEVER;
    return model;
}

bool srv_mgr_add_models(struct srv_manager *m, const struct srv_config *config)
{
    const int n_config = config ? config->n_models : 0;
    int n = 0, k = 0, n_new = 0;
    for (int i = 0; i < n_config; i++)
        n_new += !srv_mgr_find_model(m, config->models[i].name, strlen(config->models[i].name));
    if (!n_new)
        return true;
    struct srv_managed **all = calloc((size_t)m->n_models + (size_t)n_new, sizeof(*all));
    bool ok = all != NULL;
    for (int i = 0; ok && i < n_config; i++) {
        const char *name = config->models[i].name;
        while (k < m->n_models && strcmp(m->models[k]->name, name) < 0)
            all[n++] = m->models[k++];
        if (k < m->n_models && strcmp(m->models[k]->name, name) == 0)
            continue;
        struct srv_managed *model = model_new(name);
        ok = model != NULL;
        if (ok)
            all[n++] = model;
    }
    while (ok && k < m->n_models)
        all[n++] = m->models[k++];
    if (!ok) {
        for (int i = 0; i < n; i++) /* frees the new models only */
            if (!srv_mgr_find_model(m, all[i]->name, strlen(all[i]->name)))
                srv_mgr_free_model(all[i]);
        free(all);
        return false;
    }
    struct srv_managed **before = m->models;
    rt_mutex_lock(&m->mu);
    m->models = all;
    m->n_models = n;
    rt_mutex_unlock(&m->mu);
    free(before);
    return true;
}

static void free_entry(struct srv_managed_version *e)
{
    free(e->message);
    free(e->dir);
    free(e->problem.text);
    free(e);
}

void srv_mgr_free_model(struct srv_managed *model)
{
    for (int i = 0; i < model->n_entries; i++)
        free_entry(model->entries[i]);
    free(model->entries);
    free(model->problem.text);
    srv_triton_free(model->triton);
    free(model->name);
    free(model);
}

/* Returns the index of the first version that is `version` or lower. */
static int first_from(const struct srv_managed *model, int64_t version)
{
    int low = 0, high = model->n_entries;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (model->entries[mid]->version > version)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct srv_managed_version *srv_mgr_find_entry(const struct srv_managed *model, int64_t version)
{
    const int i = first_from(model, version);
    return i < model->n_entries && model->entries[i]->version == version ? model->entries[i] : NULL;
}

int srv_mgr_first_below(const struct srv_managed *model, int64_t version)
{
    const int i = first_from(model, version);
    return i < model->n_entries && model->entries[i]->version == version ? i + 1 : i;
}

struct srv_managed_version *srv_mgr_add_entry(struct srv_manager *m, struct srv_managed *model,
                                              int64_t version)
{
    struct srv_managed_version *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->version = version;
    e->model = model;
    e->state = SRV_START;
    rt_mutex_lock(&m->mu);
    if (model->n_entries == model->capacity) {
        int capacity = model->capacity ? model->capacity * 2 : 8;
        struct srv_managed_version **grown =
            realloc(model->entries, (size_t)capacity * sizeof(*grown));
        if (!grown) {
            rt_mutex_unlock(&m->mu);
            free(e);
            return NULL;
        }
        model->entries = grown;
        model->capacity = capacity;
    }
    int i = model->n_entries++;
    for (; i > 0 && model->entries[i - 1]->version < version; i--)
        model->entries[i] = model->entries[i - 1];
    model->entries[i] = e;
    m->n_entries++;
    rt_cond_broadcast(&m->changed);
    rt_mutex_unlock(&m->mu);
    return e;
}

/* Limits the number of ended versions by removing those with the lowest numbers. */
void srv_mgr_forget_old_entries(struct srv_manager *m, struct srv_managed *model)
{
    const int n = model->n_entries;
    int n_ended = 0, n_kept = 0;
    for (int i = 0; i < n; i++)
        n_ended += !model->entries[i]->wanted && model->entries[i]->state == SRV_END;
    if (n_ended <= MAX_ENDED)
        return;
    n_ended = 0;
    rt_mutex_lock(&m->mu);
    for (int i = 0; i < n; i++) {
        struct srv_managed_version *e = model->entries[i];
        if (!e->wanted && e->state == SRV_END && ++n_ended > MAX_ENDED)
            continue;
        /* moves the versions to remove behind the versions to keep */
        model->entries[i] = model->entries[n_kept];
        model->entries[n_kept++] = e;
    }
    m->n_entries -= n - n_kept;
    model->n_entries = n_kept;
    rt_mutex_unlock(&m->mu);
    for (int i = n_kept; i < n; i++)
        free_entry(model->entries[i]);
}

void srv_mgr_set_off(struct srv_manager *m, struct srv_managed *model, bool is_off)
{
    rt_mutex_lock(&m->mu);
    model->is_off = is_off;
    count_model(m, model);
    rt_mutex_unlock(&m->mu);
}

static bool is_gone(const struct srv_managed *model)
{
    if (model->config || model->gone)
        return model->gone;
    for (int k = 0; k < model->n_entries; k++)
        if (model->entries[k]->state != SRV_END)
            return false;
    return true;
}

void srv_mgr_note_gone_models(struct srv_manager *m)
{
    const int n = m->n_models;
    int n_gone = 0, n_kept = 0;
    for (int i = 0; i < n; i++) {
        struct srv_managed *model = m->models[i];
        const bool gone = is_gone(model);
        if (gone && !model->gone)
            m->calls->model_gone(m->server, model->name);
        model->gone = gone;
        if (gone)
            srv_mgr_set_off(m, model, false);
        n_gone += gone;
    }
    if (n_gone <= MAX_GONE_MODELS)
        return;
    n_gone = 0;
    rt_mutex_lock(&m->mu);
    for (int i = 0; i < n; i++) {
        struct srv_managed *model = m->models[i];
        if (model->gone && ++n_gone > MAX_GONE_MODELS) {
            m->n_entries -= model->n_entries;
            continue;
        }
        /* moves the models to remove behind the models to keep */
        m->models[i] = m->models[n_kept];
        m->models[n_kept++] = model;
    }
    m->n_models = n_kept;
    rt_mutex_unlock(&m->mu);
    for (int i = n_kept; i < n; i++)
        srv_mgr_free_model(m->models[i]);
}
