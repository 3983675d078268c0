#include "server/manager.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "proto/unpack.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "server/config.h"
#include "server/loader.h"
#include "server/net.h"
#include "server/policy.h"
#include "tensorflow_serving/config/model_server_config.pb-c.h"

enum {
    MAX_ENDED = 100,        /* ended versions that a model's status goes on listing */
    MAX_GONE_MODELS = 1000, /* models without a configuration that are still listed */
    MAX_TAGS = 16,
    RECHECK_MS = 200, /* how often a version that is not stable yet is looked at */
    TRIM_EVERY_MS = 2000,
};
#define SECOND  INT64_C(1000000000)
#define MILLION 1000000

/* One version of a model that was ever wanted. */
struct entry {
    int64_t version;
    /* Written by the manager under its lock, read by anybody under it: */
    enum srv_state state;
    enum rt_status code;
    char *message; /* NULL: "" */
    bool wanted;   /* by the model's version policy */
    bool final;    /* failed, and only a change of its files leads to another try */

    /* The manager's alone: */
    char *dir;
    struct srv_fingerprint seen; /* while START: what was seen last, */
    int64_t seen_since;          /* and since when; 0: not seen yet */
    bool stable;
    struct srv_fingerprint at_load; /* of what serves, or of what failed */
    bool overwritten;               /* was told already */
    int n_failures;
    int64_t retry_at;
    struct srv_version *live;
};

struct model {
    char *name;
    const struct srv_model_config *config; /* NULL: not configured any more */
    int n_entries, room;
    struct entry **entries; /* highest version first; the array is guarded by the lock */
    bool is_initial;
    int64_t since; /* when it was configured */
    bool scanned, told_empty;
    char *trouble; /* the last problem with its base path, told once */
    int watch;     /* inotify's, -1: none */
};

struct published {
    struct srv_map map;
    struct rt_arena *arena;
};

/* After a map was published: the one before it, and the version that left, until all nets have
 * answered. */
struct grace {
    struct grace *next;
    struct srv_manager *manager;
    const struct published *before;
    struct model *model; /* NULL: only the map */
    struct entry *entry;
    struct srv_version *version;
    atomic_int pending;
    struct srv_retirement mails[];
};

struct reload {
    struct reload *next;
    struct srv_config *config;
    void (*done)(void *arg, enum rt_status status, const struct rt_error *err);
    void *arg;
    bool taken;
    int n_new;
    const char **new_models; /* in the config's arena */
};

struct srv_manager {
    struct srv_server *server;
    const struct srv_model_calls *calls;
    struct srv_loader *loader;
    const char *tags[MAX_TAGS];
    char *tags_text;
    int n_tags;
    pthread_t thread;
    int event_fd, inotify_fd; /* inotify may be -1 */
    int folder_watch;

    struct rt_mutex mu;
    struct rt_cond changed;     /* a state changed, for wait_initial */
    struct srv_load *loaded;    /* guarded by mu: what the load threads have done */
    struct grace *answered;     /* guarded by mu: what all nets have answered */
    struct reload *new_reloads; /* guarded by mu */
    bool stopping;              /* guarded by mu */
    int n_models, room;         /* guarded by mu for readers, written by the manager's thread */
    struct model **models;      /* sorted by name; likewise */
    bool first_poll_done;       /* guarded by mu */

    /* The manager's thread alone: */
    struct srv_config *base, *folder; /* what is wanted now */
    struct reload *reload;            /* waiting for its new models */
    const struct published *published;
    struct srv_version *by_slot[SRV_MAX_VERSIONS];
    int n_loading, n_graces;
    int64_t next_poll, next_config, next_trim;
    bool trim_wanted, reloaded;
    char *folder_trouble, *config_trouble;
};

static void wake(struct srv_manager *m)
{
    uint64_t one = 1;
    ssize_t ignored = write(m->event_fd, &one, sizeof one);
    (void)ignored;
}

/* Tells a problem once, until it changes or goes. */
static void tell_once(char **last, const char *text)
{
    if (text && (!*last || strcmp(*last, text) != 0))
        RT_LOG(RT_LOG_WARNING, "%s", text);
    if (!text && !*last)
        return;
    free(*last);
    *last = text ? strdup(text) : NULL;
}

/* ---- states ---- */

static const char *state_text(const struct entry *e)
{
    return e->message ? e->message : "";
}

static void set_state(struct srv_manager *m, struct entry *e, enum srv_state to,
                      enum rt_status code, const char *text)
{
    if (e->state == to && to != SRV_END)
        return;
    char *copy = text && *text ? strdup(text) : NULL;
    rt_mutex_lock(&m->mu);
    free(e->message);
    e->message = copy;
    e->code = code;
    e->state = to;
    rt_cond_broadcast(&m->changed);
    rt_mutex_unlock(&m->mu);
}

static struct model *find_model(const struct srv_manager *m, const char *name, size_t n)
{
    int low = 0, high = m->n_models;
    while (low < high) {
        int mid = (low + high) / 2;
        const char *other = m->models[mid]->name;
        size_t k = strlen(other);
        int c = memcmp(name, other, n < k ? n : k);
        if (c == 0)
            c = n < k ? -1 : n > k;
        if (c == 0)
            return m->models[mid];
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

static struct model *add_model_locked(struct srv_manager *m, const char *name)
{
    struct model *model = calloc(1, sizeof *model);
    char *copy = strdup(name);
    if (m->n_models == m->room) {
        int room = m->room ? m->room * 2 : 16;
        struct model **grown = realloc(m->models, (size_t)room * sizeof(*grown));
        if (grown) {
            m->models = grown;
            m->room = room;
        }
    }
    if (!model || !copy || m->n_models == m->room) {
        free(copy);
        free(model);
        return NULL;
    }
    model->name = copy;
    model->watch = -1;
    model->since = rt_now_ns();
    int i = m->n_models++;
    for (; i > 0 && strcmp(m->models[i - 1]->name, name) > 0; i--)
        m->models[i] = m->models[i - 1];
    m->models[i] = model;
    return model;
}

static void free_entry(struct entry *e)
{
    free(e->message);
    free(e->dir);
    free(e);
}

static void free_model(struct model *model)
{
    for (int i = 0; i < model->n_entries; i++)
        free_entry(model->entries[i]);
    free(model->entries);
    free(model->trouble);
    free(model->name);
    free(model);
}

static struct entry *find_entry(const struct model *model, int64_t version)
{
    for (int i = 0; i < model->n_entries; i++)
        if (model->entries[i]->version == version)
            return model->entries[i];
    return NULL;
}

static struct entry *add_entry(struct srv_manager *m, struct model *model, int64_t version)
{
    struct entry *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->version = version;
    e->state = SRV_START;
    rt_mutex_lock(&m->mu);
    if (model->n_entries == model->room) {
        int room = model->room ? model->room * 2 : 8;
        struct entry **grown = realloc(model->entries, (size_t)room * sizeof(*grown));
        if (!grown) {
            rt_mutex_unlock(&m->mu);
            free(e);
            return NULL;
        }
        model->entries = grown;
        model->room = room;
    }
    int i = model->n_entries++;
    for (; i > 0 && model->entries[i - 1]->version < version; i--)
        model->entries[i] = model->entries[i - 1];
    model->entries[i] = e;
    rt_cond_broadcast(&m->changed);
    rt_mutex_unlock(&m->mu);
    return e;
}

/* Keeps the list of ended versions bounded: the lowest ones are forgotten first. */
static void forget_old_entries(struct srv_manager *m, struct model *model)
{
    int n_ended = 0;
    for (int i = 0; i < model->n_entries; i++) {
        struct entry *e = model->entries[i];
        if (e->wanted || e->state != SRV_END || ++n_ended <= MAX_ENDED)
            continue;
        rt_mutex_lock(&m->mu);
        model->n_entries--;
        memmove(&model->entries[i], &model->entries[i + 1],
                (size_t)(model->n_entries - i) * sizeof(struct entry *));
        rt_mutex_unlock(&m->mu);
        free_entry(e);
        i--;
    }
}

static void forget_gone_models(struct srv_manager *m)
{
    int n_gone = 0;
    for (int i = 0; i < m->n_models; i++) {
        struct model *model = m->models[i];
        bool gone = !model->config;
        for (int k = 0; k < model->n_entries; k++)
            gone = gone && model->entries[k]->state == SRV_END;
        if (!gone || ++n_gone <= MAX_GONE_MODELS)
            continue;
        rt_mutex_lock(&m->mu);
        m->n_models--;
        memmove(&m->models[i], &m->models[i + 1],
                (size_t)(m->n_models - i) * sizeof(struct model *));
        rt_mutex_unlock(&m->mu);
        free_model(model);
        i--;
    }
}

/* ---- maps ---- */

static void free_published(const struct published *p)
{
    if (p)
        rt_arena_free(p->arena);
}

static const struct published *make_map(struct srv_manager *m)
{
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct published *p = arena ? rt_arena_alloc(arena, sizeof *p) : NULL;
    struct srv_map_model *models =
        p ? rt_arena_array(arena, (size_t)m->n_models + 1, sizeof *models) : NULL;
    if (!models) {
        rt_arena_free(arena);
        return NULL;
    }
    p->arena = arena;
    p->map.models = models;
    for (int i = 0; i < m->n_models; i++) {
        const struct model *model = m->models[i];
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
        for (int k = 0; k < model->n_entries; k++)
            if (model->entries[k]->state == SRV_AVAILABLE && model->entries[k]->live)
                versions[to->n_versions++] = model->entries[k]->live;
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

static void grace_ended(struct grace *g)
{
    struct srv_manager *m = g->manager;
    rt_mutex_lock(&m->mu);
    g->next = m->answered;
    m->answered = g;
    rt_mutex_unlock(&m->mu);
    wake(m);
}

static void net_answered(struct srv_retirement *r)
{
    struct grace *g = r->arg;
    if (atomic_fetch_sub(&g->pending, 1) == 1)
        grace_ended(g);
}

static struct grace *grace_new(struct srv_manager *m)
{
    size_t n = (size_t)m->server->n_nets;
    return calloc(1, sizeof(struct grace) + n * sizeof(struct srv_retirement));
}

/* Puts `p` (NULL: nothing, for good) in place of the published map. */
static void swap_map(struct srv_manager *m, struct grace *g, const struct published *p)
{
    static const struct srv_map nothing;
    struct srv_server *s = m->server;
    g->manager = m;
    g->before = m->published;
    atomic_init(&g->pending, s->n_nets + 1);
    m->published = p;
    atomic_store(&s->map, p ? &p->map : &nothing);
    m->n_graces++;
    for (int i = 0; i < s->n_nets; i++) {
        g->mails[i].mail.open = srv_retirement_open;
        g->mails[i].version = g->version;
        g->mails[i].answer = net_answered;
        g->mails[i].arg = g;
        srv_mail_post(s->nets[i], &g->mails[i].mail);
    }
    if (atomic_fetch_sub(&g->pending, 1) == 1)
        grace_ended(g);
}

/* Publishes what is AVAILABLE now. `entry` (may be NULL) has just left the map: it ends when all
 * nets have done with it. False: out of memory, the old map goes on. */
static bool publish(struct srv_manager *m, struct model *model, struct entry *entry)
{
    struct grace *g = grace_new(m);
    const struct published *p = g ? make_map(m) : NULL;
    if (!p) {
        free(g);
        RT_LOG(RT_LOG_ERROR, "out of memory for a new serving map");
        return false;
    }
    g->model = model;
    g->entry = entry;
    g->version = entry ? entry->live : NULL;
    swap_map(m, g, p);
    return true;
}

static void free_version(struct srv_manager *m, struct srv_version *v)
{
    m->by_slot[v->slot] = NULL;
    m->calls->detach(m->server, v);
    m->calls->free(v->loaded);
    free((void *)(uintptr_t)v->model);
    free(v);
    m->trim_wanted = true;
}

static void end_grace(struct srv_manager *m, struct grace *g)
{
    m->n_graces--;
    free_published(g->before);
    if (g->entry) {
        free_version(m, g->version);
        g->entry->live = NULL;
        set_state(m, g->entry, SRV_END, RT_OK, NULL);
        RT_LOG(RT_LOG_INFO, "Done unloading servable version {name: %s version: %lld}",
               g->model->name, (long long)g->entry->version);
    }
    free(g);
}

static void unload(struct srv_manager *m, struct model *model, struct entry *e)
{
    set_state(m, e, SRV_UNLOADING, RT_OK, NULL);
    RT_LOG(RT_LOG_INFO, "Unloading servable version {name: %s version: %lld}", model->name,
           (long long)e->version);
    if (!publish(m, model, e)) {
        /* It still serves; the policy asks again. */
        rt_mutex_lock(&m->mu);
        e->state = SRV_AVAILABLE;
        rt_mutex_unlock(&m->mu);
    }
}

/* ---- loading ---- */

static void load_done(void *arg, struct srv_load *load)
{
    struct srv_manager *m = arg;
    rt_mutex_lock(&m->mu);
    load->next = m->loaded;
    m->loaded = load;
    rt_mutex_unlock(&m->mu);
    wake(m);
}

static void start_load(struct srv_manager *m, struct model *model, struct entry *e)
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
    load->model = model->name;
    load->version = e->version;
    load->before = e->seen;
    set_state(m, e, SRV_LOADING, RT_OK, NULL);
    RT_LOG(RT_LOG_INFO, "Loading servable version {name: %s version: %lld}", model->name,
           (long long)e->version);
    m->n_loading++;
    srv_loader_submit(m->loader, load);
}

/* The reason lies in the files: the same files give the same answer. */
static bool is_final(enum rt_status st)
{
    return st == RT_UNIMPLEMENTED || st == RT_INVALID_ARGUMENT || st == RT_FAILED_PRECONDITION;
}

static void load_failed(struct srv_manager *m, struct model *model, struct entry *e,
                        const struct srv_load *load)
{
    const struct srv_options *o = &m->server->options;
    const char *text = rt_error_text(&load->err);
    e->at_load = load->before;
    e->n_failures++;
    bool final = is_final(load->status) || e->n_failures > o->max_num_load_retries;
    rt_mutex_lock(&m->mu);
    e->final = final;
    rt_mutex_unlock(&m->mu);
    int64_t pause = o->load_retry_interval_micros > 0 ? o->load_retry_interval_micros : 0;
    e->retry_at = final || pause > INT64_MAX / 2000 ? RT_NEVER : rt_now_ns() + pause * 1000;
    set_state(m, e, SRV_END, load->status, text);
    RT_LOG(RT_LOG_ERROR, "Loading servable: {name: %s version: %lld} failed: %s: %s", model->name,
           (long long)e->version, rt_status_name(load->status), text);
}

/* Back to START without counting a failure: the files changed, or memory comes back soon. */
static void load_again(struct srv_manager *m, struct model *model, struct entry *e,
                       const struct srv_load *load)
{
    RT_LOG(RT_LOG_INFO, "{name: %s version: %lld}: %s", model->name, (long long)e->version,
           rt_error_text(&load->err));
    set_state(m, e, SRV_END, load->status, rt_error_text(&load->err));
    set_state(m, e, SRV_START, RT_OK, NULL);
    if (load->changed)
        e->seen_since = 0;
    e->retry_at = rt_now_ns() + SECOND / 2;
}

static bool is_unloading(const struct srv_manager *m)
{
    for (int i = 0; i < m->n_models; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++)
            if (m->models[i]->entries[k]->state == SRV_UNLOADING)
                return true;
    return false;
}

static enum rt_status make_version(struct srv_manager *m, struct model *model, struct entry *e,
                                   struct srv_load *load)
{
    uint32_t slot = 0;
    while (slot < SRV_MAX_VERSIONS && m->by_slot[slot])
        slot++;
    if (slot == SRV_MAX_VERSIONS)
        return rt_fail(&load->err, RT_RESOURCE_EXHAUSTED, "%d versions are loaded, no more can be",
                       (int)SRV_MAX_VERSIONS);
    struct srv_version *v = calloc(1, sizeof *v);
    char *name = strdup(model->name);
    if (!v || !name) {
        free(v);
        free(name);
        return rt_fail_memory(&load->err, "a version", sizeof *v);
    }
    v->model = name;
    v->version = e->version;
    v->loaded = load->loaded;
    v->slot = slot;
    v->loaded_ns = rt_now_ns();
    enum rt_status st = m->calls->attach(m->server, v, &load->err);
    if (st) {
        free(v);
        free(name);
        return st;
    }
    load->loaded = NULL;
    m->by_slot[slot] = v;
    e->live = v;
    return RT_OK;
}

static void end_load(struct srv_manager *m, struct srv_load *load)
{
    struct entry *e = load->owner;
    struct model *model = find_model(m, load->model, strlen(load->model));
    rt_mutex_lock(&m->mu);
    bool stopping = m->stopping;
    rt_mutex_unlock(&m->mu);
    m->n_loading--;
    if (!load->status && (stopping || !e->wanted))
        load->status = rt_fail(&load->err, RT_CANCELLED, "not wanted any more");
    if (!load->status)
        load->status = make_version(m, model, e, load);
    if (load->loaded) {
        m->calls->free(load->loaded);
        m->trim_wanted = true;
    }
    if (load->status != RT_CANCELLED && !load->changed)
        m->calls->count_load(m->server, model->name, e->version, !load->status, load->ns);
    if (!load->status) {
        e->at_load = load->before;
        e->overwritten = false;
        e->n_failures = 0;
        set_state(m, e, SRV_AVAILABLE, RT_OK, NULL);
        if (publish(m, NULL, NULL))
            RT_LOG(RT_LOG_INFO, "Successfully loaded servable version {name: %s version: %lld}",
                   model->name, (long long)e->version);
    } else if (load->status == RT_CANCELLED) {
        set_state(m, e, SRV_END, RT_OK, NULL);
    } else if (load->changed || (load->no_room && is_unloading(m))) {
        load_again(m, model, e, load);
    } else {
        load_failed(m, model, e, load);
    }
    free(load->dir);
    free(load);
}

/* ---- watching ---- */

/* A failed or ended version gets another chance. */
static void restart(struct srv_manager *m, struct entry *e)
{
    rt_mutex_lock(&m->mu);
    e->final = false;
    rt_mutex_unlock(&m->mu);
    e->n_failures = 0;
    e->retry_at = 0;
    e->seen_since = 0;
    e->stable = false;
    set_state(m, e, SRV_START, RT_OK, NULL);
}

static void look_at_entry(struct srv_manager *m, struct model *model, struct entry *e, int64_t now)
{
    if (!e->wanted || e->state == SRV_LOADING || e->state == SRV_UNLOADING)
        return;
    if (e->state == SRV_END && now >= e->retry_at) {
        set_state(m, e, SRV_START, RT_OK, NULL);
        e->retry_at = 0;
    }
    struct srv_fingerprint f;
    struct rt_error err = {0};
    if (srv_source_fingerprint(e->dir, &f, &err)) {
        if (e->state == SRV_START) {
            e->seen_since = 0;
            e->stable = false;
        }
        return; /* going away, or unreadable: the next scan tells */
    }
    switch (e->state) {
    case SRV_START:
        if (!e->seen_since || !srv_fingerprint_eq(&f, &e->seen)) {
            e->seen = f;
            e->seen_since = now;
        }
        e->stable = srv_source_is_stable(&f, e->seen_since, now, rt_wall_ns());
        break;
    case SRV_END:
        if (srv_fingerprint_eq(&f, &e->at_load))
            break;
        RT_LOG(RT_LOG_INFO, "{name: %s version: %lld} has changed, it is tried again", model->name,
               (long long)e->version);
        restart(m, e);
        e->seen = f;
        e->seen_since = now;
        break;
    case SRV_AVAILABLE:
        if (!srv_fingerprint_eq(&f, &e->at_load) && !e->overwritten) {
            RT_LOG(RT_LOG_WARNING,
                   "%s was changed while it is being served; what was loaded goes on. Put new "
                   "files into a new version",
                   e->dir);
            m->calls->count_event(m->server, "overwritten_while_serving");
            e->overwritten = true;
        }
        break;
    default:
        break;
    }
}

static void set_wanted(struct srv_manager *m, struct entry *e, bool wanted)
{
    rt_mutex_lock(&m->mu);
    e->wanted = wanted;
    rt_mutex_unlock(&m->mu);
}

static void want(struct srv_manager *m, struct model *model, const struct srv_found *found)
{
    struct entry *e = find_entry(model, found->version);
    if (!e)
        e = add_entry(m, model, found->version);
    if (!e)
        return;
    size_t room = strlen(model->config->base_path) + strlen(found->name) + 2;
    char *dir = malloc(room);
    if (dir) {
        snprintf(dir, room, "%s/%s", model->config->base_path, found->name);
        free(e->dir);
        e->dir = dir;
    }
    if (!e->dir)
        return;
    bool was_wanted = e->wanted;
    set_wanted(m, e, true);
    if (e->state == SRV_END && !was_wanted)
        restart(m, e);
}

static void want_nothing_else(struct srv_manager *m, struct model *model,
                              const struct srv_scan *scan)
{
    for (int i = 0; i < model->n_entries; i++) {
        struct entry *e = model->entries[i];
        bool found = false;
        for (int k = 0; scan && k < scan->n; k++)
            found = found || scan->found[k].version == e->version;
        if (found)
            continue;
        set_wanted(m, e, false);
        if (e->state == SRV_START)
            set_state(m, e, SRV_END, RT_OK, NULL);
    }
    forget_old_entries(m, model);
}

static void watch_folder(struct srv_manager *m, const char *path, int *watch)
{
    if (m->inotify_fd >= 0 && *watch < 0)
        *watch = inotify_add_watch(m->inotify_fd, path,
                                   IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
                                       IN_ONLYDIR);
}

static void scan_model(struct srv_manager *m, struct model *model)
{
    if (!model->config) {
        want_nothing_else(m, model, NULL);
        if (model->watch >= 0)
            inotify_rm_watch(m->inotify_fd, model->watch);
        model->watch = -1;
        return;
    }
    struct rt_arena *arena = rt_arena_new((size_t)64 << 20);
    struct rt_error err = {.arena = arena};
    struct srv_scan scan;
    watch_folder(m, model->config->base_path, &model->watch);
    if (!arena || srv_source_scan(model->config, arena, &scan, &err)) {
        /* What cannot be read is not empty: what is served goes on. */
        tell_once(&model->trouble, arena ? rt_error_text(&err) : "out of memory");
        model->watch = -1;
        rt_arena_free(arena);
        return;
    }
    tell_once(&model->trouble, scan.warning);
    for (int i = 0; i < scan.n; i++)
        want(m, model, &scan.found[i]);
    want_nothing_else(m, model, &scan);
    if (scan.n_there == 0 && !model->told_empty)
        RT_LOG(RT_LOG_WARNING,
               "No versions of servable %s found under base path %s. Did you forget to name your "
               "leaf directory as a number (eg. '/1/')?",
               model->name, model->config->base_path);
    model->told_empty = scan.n_there == 0;
    model->scanned = true;
    rt_arena_free(arena);
}

/* ---- configuration ---- */

static void point_models_at_locked(struct srv_manager *m, const struct srv_config *config)
{
    for (int i = 0; config && i < config->n_models; i++) {
        const struct srv_model_config *c = &config->models[i];
        struct model *model = find_model(m, c->name, strlen(c->name));
        if (!model)
            model = add_model_locked(m, c->name);
        if (!model || model->config)
            continue; /* the flags' models come before the folder's */
        model->config = c;
    }
}

/* Takes the configs that are not NULL in place of the old ones. Both are the manager's then. */
static void take_configs(struct srv_manager *m, struct srv_config *base, struct srv_config *folder)
{
    struct srv_config *old_base = base ? m->base : NULL;
    struct srv_config *old_folder = folder ? m->folder : NULL;
    m->base = base ? base : m->base;
    m->folder = folder ? folder : m->folder;
    rt_mutex_lock(&m->mu);
    for (int i = 0; i < m->n_models; i++) {
        struct model *model = m->models[i];
        if (model->watch >= 0)
            inotify_rm_watch(m->inotify_fd, model->watch); /* its path may be another now */
        model->watch = -1;
        model->config = NULL;
    }
    point_models_at_locked(m, m->base);
    point_models_at_locked(m, m->folder);
    rt_mutex_unlock(&m->mu);
    srv_config_free(old_base);
    srv_config_free(old_folder);
    forget_gone_models(m);
}

static const struct srv_label *find_label(const struct srv_model_config *c, const char *label)
{
    for (int i = 0; c && i < c->n_labels; i++)
        if (strcmp(c->labels[i].label, label) == 0)
            return &c->labels[i];
    return NULL;
}

/* A label may point only at what is available, unless the flag allows it: for labels that are new
 * or that stay, never for one that moves. */
static enum rt_status check_labels(const struct srv_manager *m, const struct srv_config *config,
                                   struct rt_error *err)
{
    const struct srv_options *o = &m->server->options;
    for (int i = 0; i < config->n_models; i++) {
        const struct srv_model_config *c = &config->models[i];
        const struct model *model = find_model(m, c->name, strlen(c->name));
        for (int k = 0; k < c->n_labels; k++) {
            const struct entry *e = model ? find_entry(model, c->labels[k].version) : NULL;
            if (e && e->state == SRV_AVAILABLE)
                continue;
            const struct srv_label *old =
                model ? find_label(model->config, c->labels[k].label) : NULL;
            if (o->allow_version_labels_for_unavailable_models &&
                (!old || old->version == c->labels[k].version))
                continue;
            return rt_fail(err, RT_FAILED_PRECONDITION,
                           "Request to assign label to version %lld of model %s, which is not "
                           "currently available for inference",
                           (long long)c->labels[k].version, c->name);
        }
    }
    return RT_OK;
}

static bool same_labels(const struct srv_model_config *a, const struct srv_model_config *b)
{
    if (a->n_labels != b->n_labels)
        return false;
    for (int i = 0; i < a->n_labels; i++) {
        const struct srv_label *other = find_label(b, a->labels[i].label);
        if (!other || other->version != a->labels[i].version)
            return false;
    }
    return true;
}

/* Labels are part of the map. */
static bool labels_differ(const struct srv_config *a, const struct srv_config *b)
{
    if (a->n_models != b->n_models)
        return true;
    for (int i = 0; i < a->n_models; i++)
        if (strcmp(a->models[i].name, b->models[i].name) != 0 ||
            !same_labels(&a->models[i], &b->models[i]))
            return true;
    return false;
}

/* Checks and takes a new list of models; `config` is the manager's only on success. */
static enum rt_status change_config(struct srv_manager *m, struct srv_config *config,
                                    struct rt_error *err)
{
    enum rt_status st = check_labels(m, config, err);
    if (st)
        return st;
    bool publish_now = labels_differ(m->base, config);
    take_configs(m, config, NULL);
    if (publish_now)
        publish(m, NULL, NULL);
    return RT_OK;
}

static void poll_config_file(struct srv_manager *m)
{
    struct srv_config *config = NULL;
    struct rt_error err = {0};
    enum rt_status st = srv_config_from_options(&m->server->options, &config, &err);
    if (!st && config->n_models == 0 && m->base->n_models > 0)
        st = rt_fail(&err, RT_FAILED_PRECONDITION,
                     "Cannot transition to requested config: it lists no model");
    if (!st)
        st = change_config(m, config, &err);
    if (st) {
        char text[1024];
        snprintf(text, sizeof text, "%s is ignored: %s", m->server->options.model_config_file,
                 rt_error_text(&err));
        tell_once(&m->config_trouble, text);
        srv_config_free(config);
        return;
    }
    tell_once(&m->config_trouble, NULL);
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

static void poll_folder(struct srv_manager *m)
{
    struct srv_config *config;
    struct rt_error err = {0};
    const char *dir = m->server->options.models;
    watch_folder(m, dir, &m->folder_watch);
    if (srv_config_from_folder(dir, &config, &err)) {
        tell_once(&m->folder_trouble, rt_error_text(&err));
        m->folder_watch = -1;
        return;
    }
    tell_once(&m->folder_trouble, NULL);
    if (same_folder(m->folder, config))
        srv_config_free(config);
    else
        take_configs(m, NULL, config);
}

/* ---- the loop ---- */

static void decide(struct srv_manager *m, struct model *model, int64_t now)
{
    struct srv_version_view *views = calloc((size_t)model->n_entries + 1, sizeof *views);
    if (!views)
        return;
    for (;;) {
        for (int i = 0; i < model->n_entries; i++) {
            const struct entry *e = model->entries[i];
            views[i] = (struct srv_version_view){
                .version = e->version,
                .state = e->state,
                .wanted = e->wanted,
                .may_load = e->stable && e->seen_since && now >= e->retry_at,
            };
        }
        struct srv_decision d = srv_policy_decide(views, model->n_entries);
        if (d.move == SRV_MOVE_NONE)
            break;
        struct entry *e = model->entries[d.index];
        enum srv_state before = e->state;
        if (d.move == SRV_MOVE_LOAD)
            start_load(m, model, e);
        else
            unload(m, model, e);
        if (e->state == before)
            break; /* out of memory: later */
    }
    free(views);
}

/* A model has been settled once one of its versions serves, or all that are wanted have failed, or
 * none came in time. `final`: failures that will be tried again by themselves do not count. */
enum settled { WAITING, SERVES, FAILED, MISSING };
static enum settled settled(const struct srv_manager *m, const struct model *model, bool final,
                            const struct entry **why)
{
    int n_wanted = 0, n_failed = 0;
    for (int i = 0; i < model->n_entries; i++) {
        const struct entry *e = model->entries[i];
        if (e->state == SRV_AVAILABLE)
            return SERVES;
        n_wanted += e->wanted;
        if (e->wanted && e->state == SRV_END && e->code && (e->final || !final)) {
            n_failed++;
            if (!*why)
                *why = e;
        }
    }
    if (n_wanted)
        return n_failed == n_wanted ? FAILED : WAITING;
    int64_t wait = m->server->options.model_wait_seconds;
    return wait && rt_now_ns() - model->since > wait * SECOND ? MISSING : WAITING;
}

static void check_reload(struct srv_manager *m)
{
    struct reload *r = m->reload;
    if (!r)
        return;
    struct rt_error err = {0};
    char list[300] = "";
    size_t used = 0;
    int n_failed = 0;
    for (int i = 0; i < r->n_new; i++) {
        const struct model *model = find_model(m, r->new_models[i], strlen(r->new_models[i]));
        const struct entry *why = NULL;
        enum settled s = model ? settled(m, model, false, &why) : FAILED;
        if (s == WAITING)
            return;
        if (s == SERVES)
            continue;
        n_failed++;
        if (used < sizeof list)
            used += (size_t)snprintf(
                list + used, sizeof list - used, "%s{name: %s version: %lld} due to error: %s",
                n_failed > 1 ? ", " : "", r->new_models[i], why ? (long long)why->version : -1LL,
                why ? state_text(why) : "no version was found");
    }
    enum rt_status st = RT_OK;
    if (n_failed)
        st = rt_fail(&err, RT_UNKNOWN, "%d servable(s) did not become available: {%s}", n_failed,
                     list);
    m->reload = NULL;
    r->done(r->arg, st, &err);
    free(r);
}

static void take_reload(struct srv_manager *m)
{
    if (m->reload)
        return; /* one after the other */
    rt_mutex_lock(&m->mu);
    struct reload **last = &m->new_reloads; /* the oldest is last */
    while (*last && (*last)->next)
        last = &(*last)->next;
    struct reload *r = *last;
    *last = NULL;
    rt_mutex_unlock(&m->mu);
    if (!r)
        return;
    struct rt_error err = {0};
    struct srv_config *config = r->config;
    r->new_models =
        rt_arena_array(config->arena, (size_t)config->n_models + 1, sizeof *r->new_models);
    for (int i = 0; r->new_models && i < config->n_models; i++) {
        const char *name = config->models[i].name;
        const struct model *model = find_model(m, name, strlen(name));
        if (!model || !model->config)
            r->new_models[r->n_new++] = name;
    }
    enum rt_status st =
        r->new_models ? change_config(m, config, &err) : rt_fail_memory(&err, "a reload", 0);
    if (st) {
        srv_config_free(config);
        r->done(r->arg, st, &err);
        free(r);
        return;
    }
    m->reloaded = true;
    m->reload = r;
    m->next_poll = 0;
}

static void poll_everything(struct srv_manager *m, int64_t now)
{
    const struct srv_options *o = &m->server->options;
    if (*o->model_config_file && o->model_config_file_poll_wait_seconds > 0 && !m->reloaded &&
        now >= m->next_config && m->next_config) {
        poll_config_file(m);
        m->next_config = now + o->model_config_file_poll_wait_seconds * SECOND;
    }
    if (!m->next_config)
        m->next_config = now + o->model_config_file_poll_wait_seconds * SECOND;
    if (*o->models)
        poll_folder(m);
    for (int i = 0; i < m->n_models; i++)
        scan_model(m, m->models[i]);
    for (int i = 0; i < m->n_models; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++)
            look_at_entry(m, m->models[i], m->models[i]->entries[k], now);
}

/* Looks again at what is not stable yet, or is due for another try. Returns when to look next. */
static int64_t look_at_new(struct srv_manager *m, int64_t now)
{
    int64_t next = RT_NEVER;
    for (int i = 0; i < m->n_models; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++) {
            struct entry *e = m->models[i]->entries[k];
            if (!e->wanted)
                continue;
            bool due = (e->state == SRV_START && !e->stable) ||
                       (e->state == SRV_END && e->code && now >= e->retry_at);
            if (due)
                look_at_entry(m, m->models[i], e, now);
            int64_t at = RT_NEVER;
            if (e->state == SRV_START && !e->stable)
                at = now + (int64_t)RECHECK_MS * MILLION;
            else if (e->state == SRV_START || (e->state == SRV_END && e->code))
                at = e->retry_at > now ? e->retry_at : RT_NEVER;
            next = at < next ? at : next;
        }
    return next;
}

static void sleep_until(struct srv_manager *m, int64_t until)
{
    struct pollfd fds[2] = {{.fd = m->event_fd, .events = POLLIN},
                            {.fd = m->inotify_fd, .events = POLLIN}};
    int64_t wait = until == RT_NEVER ? -1 : (until - rt_now_ns() + MILLION - 1) / MILLION;
    if (until != RT_NEVER && wait < 0)
        wait = 0;
    poll(fds, m->inotify_fd >= 0 ? 2 : 1, wait > INT32_MAX ? INT32_MAX : (int)wait);
    uint64_t count;
    if (fds[0].revents)
        while (read(m->event_fd, &count, sizeof count) > 0)
            ;
    if (m->inotify_fd >= 0 && fds[1].revents) {
        char events[4096] __attribute__((aligned(8)));
        while (read(m->inotify_fd, events, sizeof events) > 0)
            ;
        /* A burst of changes is one reason to look, and not more often than this. */
        int64_t soon = rt_now_ns() + (int64_t)20 * MILLION;
        if (m->next_poll > soon && m->server->options.file_system_poll_wait_seconds > 0)
            m->next_poll = soon;
    }
}

static void take_mail(struct srv_manager *m)
{
    rt_mutex_lock(&m->mu);
    struct srv_load *load = m->loaded;
    struct grace *g = m->answered;
    m->loaded = NULL;
    m->answered = NULL;
    rt_mutex_unlock(&m->mu);
    for (struct grace *next; g; g = next) {
        next = g->next;
        end_grace(m, g);
    }
    for (struct srv_load *next; load; load = next) {
        next = load->next;
        end_load(m, load);
    }
}

static int64_t trim(struct srv_manager *m, int64_t now)
{
    if (!m->trim_wanted)
        return RT_NEVER;
    if (now < m->next_trim)
        return m->next_trim;
    malloc_trim(0);
    m->trim_wanted = false;
    m->next_trim = now + (int64_t)TRIM_EVERY_MS * MILLION;
    return RT_NEVER;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void serve(struct srv_manager *m)
{
    const struct srv_options *o = &m->server->options;
    for (;;) {
        rt_mutex_lock(&m->mu);
        bool stopping = m->stopping;
        rt_mutex_unlock(&m->mu);
        if (stopping)
            return;
        take_mail(m);
        take_reload(m);
        int64_t now = rt_now_ns();
        if (now >= m->next_poll) {
            poll_everything(m, now);
            int64_t wait = o->file_system_poll_wait_seconds;
            m->next_poll = wait > 0 ? rt_now_ns() + earlier(wait, INT32_MAX) * SECOND : RT_NEVER;
            rt_mutex_lock(&m->mu);
            m->first_poll_done = true;
            rt_cond_broadcast(&m->changed);
            rt_mutex_unlock(&m->mu);
        }
        now = rt_now_ns();
        int64_t next = look_at_new(m, now);
        for (int i = 0; i < m->n_models; i++)
            decide(m, m->models[i], now);
        check_reload(m);
        if (m->reload)
            next = earlier(next, now + SECOND);
        sleep_until(m, earlier(earlier(next, m->next_poll), trim(m, now)));
    }
}

static void unload_everything(struct srv_manager *m)
{
    if (m->reload) {
        struct rt_error err = {0};
        m->reload->done(m->reload->arg, rt_fail(&err, RT_UNAVAILABLE, "the server is stopping"),
                        &err);
        free(m->reload);
        m->reload = NULL;
    }
    srv_loader_free(m->loader);
    m->loader = NULL;
    take_mail(m);
    for (int i = 0; i < m->n_models; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++)
            if (m->models[i]->entries[k]->state == SRV_AVAILABLE)
                unload(m, m->models[i], m->models[i]->entries[k]);
    struct grace *last = grace_new(m);
    if (last)
        swap_map(m, last, NULL);
    while (m->n_graces) {
        sleep_until(m, rt_now_ns() + SECOND);
        take_mail(m);
    }
}

static void *manager_thread(void *arg)
{
    struct srv_manager *m = arg;
    serve(m);
    unload_everything(m);
    return NULL;
}

/* ---- start and stop ---- */

void srv_manager_free(struct srv_manager *m)
{
    if (!m)
        return;
    free_published(m->published);
    srv_loader_free(m->loader);
    for (int i = 0; i < m->n_models; i++)
        free_model(m->models[i]);
    free(m->models);
    srv_config_free(m->base);
    srv_config_free(m->folder);
    free(m->tags_text);
    free(m->folder_trouble);
    free(m->config_trouble);
    if (m->event_fd >= 0)
        close(m->event_fd);
    if (m->inotify_fd >= 0)
        close(m->inotify_fd);
    rt_cond_clear(&m->changed);
    rt_mutex_clear(&m->mu);
    free(m);
}

static enum rt_status split_tags(struct srv_manager *m, struct rt_error *err)
{
    char *p = m->tags_text = strdup(m->server->options.saved_model_tags);
    if (!p)
        return rt_fail_memory(err, "tags", 0);
    for (char *comma; p; p = comma) {
        comma = strchr(p, ',');
        if (comma)
            *comma++ = '\0';
        if (m->n_tags == MAX_TAGS)
            return rt_fail(err, RT_INVALID_ARGUMENT, "--saved_model_tags: more than %d tags",
                           MAX_TAGS);
        if (*p)
            m->tags[m->n_tags++] = p;
    }
    return RT_OK;
}

static enum rt_status check_options(const struct srv_options *o, struct rt_error *err)
{
    if (o->port == 0 && !*o->grpc_socket_path && (o->as_tensorflow || o->rest_api_port == 0))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "At least one of port or grpc_socket_path must be set");
    if (!*o->model_base_path && !*o->model_config_file && !*o->models)
        return o->as_tensorflow ? rt_fail(err, RT_INVALID_ARGUMENT,
                                          "Both server_options.model_base_path and "
                                          "server_options.model_config_file are empty!")
                                : rt_fail(err, RT_INVALID_ARGUMENT,
                                          "nothing to serve: give --models, --model_base_path or "
                                          "--model_config_file");
    if (*o->batching_parameters_file && !o->enable_batching)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "server_options.batching_parameters_file is set without setting "
                       "server_options.enable_batching to true.");
    return RT_OK;
}

enum rt_status srv_manager_start(struct srv_server *server, const struct srv_model_calls *calls,
                                 struct srv_manager **out, struct rt_error *err)
{
    const struct srv_options *o = &server->options;
    enum rt_status st = check_options(o, err);
    if (st)
        return st;
    struct srv_manager *m = calloc(1, sizeof *m);
    if (!m)
        return rt_fail_memory(err, "the manager", sizeof *m);
    m->server = server;
    m->calls = calls;
    m->folder_watch = -1;
    rt_mutex_init(&m->mu);
    rt_cond_init(&m->changed);
    m->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    m->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    struct srv_config *base = NULL, *folder = NULL;
    st = m->event_fd < 0 ? rt_fail(err, RT_RESOURCE_EXHAUSTED, "eventfd: %s", strerror(errno))
                         : split_tags(m, err);
    if (!st)
        st = srv_config_from_options(o, &base, err);
    if (!st && o->as_tensorflow)
        st = check_labels(m, base, err);
    if (!st && *o->models)
        st = srv_config_from_folder(o->models, &folder, err);
    if (st) {
        srv_config_free(base);
        goto fail;
    }
    take_configs(m, base, folder);
    for (int i = 0; i < m->n_models; i++)
        m->models[i]->is_initial = true;
    int64_t n_threads = o->num_load_threads > 0 ? o->num_load_threads : 2;
    m->loader = srv_loader_new(server, calls, (int)n_threads, m->tags, m->n_tags, load_done, m);
    if (!m->loader || !publish(m, NULL, NULL)) {
        st = rt_fail_memory(err, "the manager", sizeof *m);
        goto fail;
    }
    server->manager = m;
    m->next_poll = o->file_system_poll_wait_seconds < 0 ? RT_NEVER : 0;
    if (rt_thread_start(&m->thread, "manager", manager_thread, m)) {
        st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "the manager's thread could not be started");
        server->manager = NULL;
        unload_everything(m);
        goto fail;
    }
    *out = m;
    return RT_OK;

fail:
    srv_manager_free(m);
    return st;
}

enum rt_status srv_manager_wait_initial(struct srv_manager *m, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    rt_mutex_lock(&m->mu);
    for (;;) {
        int n_waiting = 0;
        st = RT_OK;
        for (int i = 0; i < m->n_models && !st; i++) {
            const struct model *model = m->models[i];
            const struct entry *why = NULL;
            if (!model->is_initial || !model->config)
                continue;
            switch (settled(m, model, true, &why)) {
            case WAITING:
                n_waiting++;
                break;
            case SERVES:
                break;
            case FAILED:
                st = rt_fail(err, RT_UNKNOWN,
                             "1 servable(s) did not become available: {{name: %s version: %lld} "
                             "due to error: %s: %s}",
                             model->name, (long long)why->version, rt_status_name(why->code),
                             state_text(why));
                break;
            case MISSING:
                st = rt_fail(err, RT_UNKNOWN,
                             "1 servable(s) did not become available: {{name: %s} due to error: no "
                             "version was found under %s in %lld seconds}",
                             model->name, model->config->base_path,
                             (long long)m->server->options.model_wait_seconds);
                break;
            }
        }
        if (st || m->stopping || (!n_waiting && m->first_poll_done))
            break;
        rt_cond_wait_until(&m->changed, &m->mu, rt_now_ns() + SECOND);
    }
    if (!st && m->stopping)
        st = rt_fail(err, RT_CANCELLED, "the server is stopping");
    rt_mutex_unlock(&m->mu);
    return st;
}

void srv_manager_stop(struct srv_manager *m)
{
    if (!m)
        return;
    rt_mutex_lock(&m->mu);
    m->stopping = true;
    rt_cond_broadcast(&m->changed);
    rt_mutex_unlock(&m->mu);
    wake(m);
    pthread_join(m->thread, NULL);
    for (struct reload *r = m->new_reloads, *next; r; r = next) {
        struct rt_error err = {0};
        next = r->next;
        r->done(r->arg, rt_fail(&err, RT_UNAVAILABLE, "the server is stopping"), &err);
        srv_config_free(r->config);
        free(r);
    }
    m->new_reloads = NULL;
}

enum rt_status srv_manager_reload(struct srv_manager *m, struct rt_span message,
                                  void (*done)(void *arg, enum rt_status status,
                                               const struct rt_error *err),
                                  void *arg, struct rt_error *err)
{
    Tensorflow__Serving__ModelServerConfig *config =
        pb_unpack(&tensorflow__serving__model_server_config__descriptor, message, "config", err);
    if (!config)
        return err ? err->code : RT_INVALID_ARGUMENT;
    struct reload *r = calloc(1, sizeof *r);
    enum rt_status st = r ? RT_OK : rt_fail_memory(err, "a reload", sizeof *r);
    if (!st &&
        config->config_case != TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG_MODEL_CONFIG_LIST)
        st = rt_fail(err, RT_INVALID_ARGUMENT,
                     "ServerCore supports only ModelConfigList in a reload request: Only "
                     "ModelConfigList is currently supported");
    if (!st)
        st = srv_config_from_message(config, &r->config, err);
    pb_free(config);
    if (st) {
        free(r);
        return st;
    }
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
        srv_config_free(r->config);
        free(r);
        return rt_fail(err, RT_UNAVAILABLE, "the server is stopping");
    }
    wake(m);
    return RT_OK;
}

/* ---- status ---- */

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

static enum rt_status copy_status(const struct model *model, bool has_version, int64_t version,
                                  struct rt_arena *arena, struct srv_version_status **out, int *n,
                                  struct rt_error *err)
{
    struct srv_version_status *s =
        rt_arena_array(arena, (size_t)(model ? model->n_entries : 0) + 1, sizeof *s);
    if (!s)
        return rt_fail_memory(err, "a status", 0);
    *n = 0;
    for (int i = 0; model && i < model->n_entries; i++) {
        const struct entry *e = model->entries[i];
        if (has_version && e->version != version)
            continue;
        s[*n] = (struct srv_version_status){e->version, e->state, e->code,
                                            rt_arena_strdup(arena, state_text(e))};
        if (!s[(*n)++].message)
            return rt_fail_memory(err, "a status", 0);
    }
    *out = s;
    return RT_OK;
}

enum rt_status srv_status_of(struct srv_manager *m, struct rt_span model, bool has_version,
                             int64_t version, struct rt_arena *arena,
                             struct srv_version_status **out, int *n, struct rt_error *err)
{
    int found = 0;
    rt_mutex_lock(&m->mu);
    enum rt_status st = copy_status(find_model(m, (const char *)model.p, model.n), has_version,
                                    version, arena, out, &found, err);
    rt_mutex_unlock(&m->mu);
    if (st)
        return st;
    *n = found;
    if (found)
        return RT_OK;
    if (has_version)
        return rt_fail(err, RT_NOT_FOUND, "Could not find version %lld of model %.*s",
                       (long long)version, (int)model.n, (const char *)model.p);
    return rt_fail(err, RT_NOT_FOUND, "Could not find any versions of model %.*s", (int)model.n,
                   (const char *)model.p);
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

static bool serves(const struct model *model)
{
    for (int i = 0; model && i < model->n_entries; i++)
        if (model->entries[i]->state == SRV_AVAILABLE)
            return true;
    return false;
}

bool srv_is_ready(struct srv_manager *m)
{
    int n_waiting = 0, n_serving = 0, n_wanted = 0;
    rt_mutex_lock(&m->mu);
    for (int i = 0; i < m->n_models; i++) {
        const struct entry *why = NULL;
        const struct model *model = m->models[i];
        bool serving = serves(model);
        n_serving += serving;
        n_wanted += model->config != NULL;
        n_waiting += model->is_initial && model->config && !serving &&
                     settled(m, model, false, &why) == WAITING;
    }
    bool ready = m->first_poll_done && !m->stopping && !n_waiting && (n_serving || !n_wanted);
    rt_mutex_unlock(&m->mu);
    return ready;
}

bool srv_model_is_ready(struct srv_manager *m, struct rt_span model)
{
    rt_mutex_lock(&m->mu);
    bool ready = serves(find_model(m, (const char *)model.p, model.n));
    rt_mutex_unlock(&m->mu);
    return ready;
}

bool srv_manager_look(struct srv_manager *m, bool (*look)(void *arg, const struct srv_version *v),
                      void *arg)
{
    bool found = false;
    /* What is AVAILABLE under the lock is not freed while it is held: it leaves that state first.
     */
    rt_mutex_lock(&m->mu);
    for (int i = 0; i < m->n_models && !found; i++)
        for (int k = 0; k < m->models[i]->n_entries && !found; k++) {
            const struct entry *e = m->models[i]->entries[k];
            found = e->state == SRV_AVAILABLE && e->live && look(arg, e->live);
        }
    rt_mutex_unlock(&m->mu);
    return found;
}
