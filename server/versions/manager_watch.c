#include "server/versions/manager_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/inotify.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "server/triton/triton.h"

/* A config.pbtxt of more bytes that has changed is handled like a large base path. */
enum { SMALL_TRITON_BYTES = 16 << 10 };

void srv_mgr_restart(struct srv_manager *m, struct srv_managed_version *e)
{
    rt_mutex_lock(&m->mu);
    e->final = false;
    rt_mutex_unlock(&m->mu);
    e->n_failures = 0;
    e->retry_at = 0;
    e->seen_since = 0;
    e->stable = false;
    e->look_at = 0;
    e->start_since = 0;
    e->missing_since = 0;
    e->unrest_logged = false;
    srv_mgr_set_state(m, e, SRV_START, RT_OK, NULL);
}

/* Ends a version whose directory cannot be listed, with the reason `err`. The version is tried
 * again after a successful listing. */
static void cannot_take(struct srv_manager *m, const struct srv_managed *model,
                        struct srv_managed_version *e, int64_t now, const struct rt_error *err)
{
    e->seen_since = 0;
    e->stable = false;
    /* The directory may just have been deleted. The next scan shows whether the version is still
     * wanted. */
    if (err->code == RT_NOT_FOUND) {
        if (!e->missing_since)
            e->missing_since = now;
        if (now - e->missing_since < SECOND)
            return;
    }
    e->at_load = (struct srv_fingerprint){0};
    e->retry_at = RT_NEVER;
    rt_mutex_lock(&m->mu);
    e->final = true;
    rt_mutex_unlock(&m->mu);
    srv_mgr_set_state(m, e, SRV_END, err->code, rt_error_text(err));
    RT_LOG(RT_LOG_ERROR, "{name: %s version: %lld} cannot be loaded: %s: %s", model->name,
           (long long)e->version, rt_status_name(err->code), rt_error_text(err));
}

static void look_at_start(struct srv_manager *m, const struct srv_managed *model,
                          struct srv_managed_version *e, const struct srv_fingerprint *f,
                          int64_t now)
{
    char why[1024];
    if (!e->seen_since || !srv_fingerprint_eq(f, &e->seen)) {
        e->seen = *f;
        e->seen_since = now;
    }
    e->stable = srv_source_is_stable(f, e->seen_since, now, rt_wall_ns());
    if (!e->stable && !e->unrest_logged && now - e->start_since > UNREST_LOG_S * SECOND) {
        snprintf(why, sizeof why, "files in %s are still changing", e->dir);
        RT_LOG(RT_LOG_WARNING, "{name: %s version: %lld} is not loaded yet: %s", model->name,
               (long long)e->version, why);
        srv_mgr_set_state(m, e, SRV_START, RT_UNAVAILABLE, why);
        e->unrest_logged = true;
    }
}

static enum rt_status check_end(void *arg, struct rt_error *err)
{
    return rt_now_ns() > *(const int64_t *)arg ? rt_fail(err, RT_CANCELLED, "the listing is long")
                                               : RT_OK;
}

/* Warns that files of a version that is being served have changed, and names them. */
static void warn_changed(const struct srv_managed *model, const struct srv_managed_version *e,
                         const struct srv_fingerprint *f)
{
    if (f->directory != e->at_load.directory)
        RT_LOG(RT_LOG_WARNING,
               "%s was changed while it is being served; what was loaded goes on. Put new "
               "files into a new version",
               e->dir);
    if (f->triton != e->at_load.triton)
        RT_LOG(RT_LOG_WARNING,
               "%.*s/" SRV_TRITON_FILE " was changed while version %lld of model %s is being "
               "served; only a change of version_policy takes effect now. For the others, unload "
               "and load the model, or add a new version",
               (int)srv_triton_base_length(e->dir), e->dir, (long long)e->version, model->name);
}

/* Processes a listing of the version's directory that ended with `st` and has the fingerprint
 * `f`. */
static void take_listing(struct srv_manager *m, struct srv_managed *model,
                         struct srv_managed_version *e, int64_t cpu_ns, enum rt_status st,
                         const struct srv_fingerprint *f, const struct rt_error *err, int64_t now)
{
    const bool is_new = e->state == SRV_START && !st;
    const int64_t pause = cpu_ns * (is_new ? LOOK_SHARE_NEW : LOOK_SHARE);
    e->look_at = now + (pause < LOOK_MAX_S * SECOND ? pause : LOOK_MAX_S * SECOND);
    if (!st)
        e->missing_since = 0;
    else if (e->state == SRV_START)
        cannot_take(m, model, e, now, err);
    if (st)
        return; /* a served version continues to serve, and a failed version remains failed */
    switch (e->state) {
    case SRV_START:
        look_at_start(m, model, e, f, now);
        break;
    case SRV_END:
        if (srv_fingerprint_eq(f, &e->at_load))
            break;
        RT_LOG(RT_LOG_INFO, "{name: %s version: %lld} has changed, it is tried again", model->name,
               (long long)e->version);
        srv_mgr_restart(m, e);
        e->seen = *f;
        e->seen_since = now;
        break;
    case SRV_AVAILABLE:
        if (!srv_fingerprint_eq(f, &e->at_load) && !e->overwritten) {
            warn_changed(model, e, f);
            m->calls->count_event(m->server, "overwritten_while_serving");
            e->overwritten = true;
        }
        break;
    default:
        break;
    }
}

/* Returns whether the version's directory may be listed in the current state. */
static bool may_be_listed(const struct srv_managed_version *e)
{
    return e->wanted && e->state != SRV_LOADING && e->state != SRV_UNLOADING;
}

/* Lists the version's directory on this thread. Does nothing if the lister's thread lists this
 * version (`is_long`), or if the last listing was too recent in proportion to its cost. */
static void look_at_entry(struct srv_manager *m, struct srv_managed *model,
                          struct srv_managed_version *e, int64_t now)
{
    struct srv_fingerprint f;
    struct rt_error err = {0};

    if (!may_be_listed(e))
        return;
    if (e->state == SRV_END && now >= e->retry_at) {
        srv_mgr_set_state(m, e, SRV_START, RT_OK, NULL);
        e->retry_at = 0;
    }
    if (e->state != SRV_START)
        e->start_since = 0;
    else if (!e->start_since)
        e->start_since = now;
    if (now < e->look_at || e->is_long)
        return;
    int64_t end_ns = rt_now_ns() + (int64_t)LOOK_SHORT_MS * MILLION;
    const struct rt_check check = {check_end, &end_ns};
    const int64_t cpu_ns = rt_thread_cpu_ns();
    const enum rt_status st = srv_source_fingerprint(e->dir, &check, &f, &err);
    e->is_long = st == RT_CANCELLED;
    if (!e->is_long)
        take_listing(m, model, e, rt_thread_cpu_ns() - cpu_ns, st, &f, &err, now);
}

static bool is_due(const struct srv_managed_version *e, bool only_new, int64_t now)
{
    return !only_new || (e->wanted && ((e->state == SRV_START && !e->stable) ||
                                       (e->state == SRV_END && e->code && now >= e->retry_at)));
}

/* Starts the lister on the version whose long listing has been due for the longest time. */
static void begin_long(struct srv_manager *m, bool only_new, int64_t now)
{
    const struct srv_managed *of = NULL;
    const struct srv_managed_version *first = NULL;

    for (int i = 0; i < m->n_models; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++) {
            const struct srv_managed_version *e = m->models[i]->entries[k];
            if (!e->is_long || now < e->look_at || !may_be_listed(e) || !is_due(e, only_new, now) ||
                (first && first->look_at <= e->look_at))
                continue;
            of = m->models[i];
            first = e;
        }
    if (first && !srv_lister_begin(m->lister, of->name, first->version, first->dir))
        srv_mgr_try_again(m);
}

/* Returns the version whose directory `g` lists, or NULL if the version is gone. */
static struct srv_managed_version *
find_listed(const struct srv_manager *m, const struct srv_listing *g, struct srv_managed **model)
{
    *model = srv_mgr_find_model(m, g->model, strlen(g->model));
    struct srv_managed_version *e = *model ? srv_mgr_find_entry(*model, g->version) : NULL;
    return e && may_be_listed(e) && strcmp(e->dir, g->dir) == 0 ? e : NULL;
}

static void take_long(struct srv_manager *m, int64_t now)
{
    struct srv_listing g;
    struct srv_managed *model;
    if (!srv_lister_take(m->lister, &g))
        return;
    struct srv_managed_version *e = find_listed(m, &g, &model);
    if (e) {
        e->is_long = g.ns > (int64_t)LOOK_SHORT_MS * MILLION;
        take_listing(m, model, e, g.cpu_ns, g.status, &g.seen, &g.err, now);
    }
    srv_listing_clear(&g);
}

/* Reports a version in the state START whose listing has been running for a long time. */
static void report_long(struct srv_manager *m, int64_t now)
{
    const struct srv_listing *g = srv_lister_current(m->lister);
    struct srv_managed *model;
    struct srv_managed_version *e = g ? find_listed(m, g, &model) : NULL;
    char why[1024];
    if (!e || e->state != SRV_START || e->unrest_logged ||
        now - g->begun_ns <= UNREST_LOG_S * SECOND)
        return;
    snprintf(why, sizeof why, "the files in %s are still being listed", e->dir);
    RT_LOG(RT_LOG_WARNING, "{name: %s version: %lld} is not loaded yet: %s", model->name,
           (long long)e->version, why);
    srv_mgr_set_state(m, e, SRV_START, RT_UNAVAILABLE, why);
    e->unrest_logged = true;
}

/* Examines the versions with short listings. If one listing turns out to be long, the model's
 * versions that were never listed are assumed to have long listings too. Otherwise each of these
 * versions would cost LOOK_SHORT_MS. */
static void look_at_short(struct srv_manager *m, struct srv_managed *model, bool only_new,
                          int64_t now)
{
    bool assume_long = false;

    for (int k = 0; k < model->n_entries; k++) {
        struct srv_managed_version *e = model->entries[k];
        const bool was_long = e->is_long;
        e->is_long |= assume_long && !e->look_at;
        if (is_due(e, only_new, now))
            look_at_entry(m, model, e, now);
        assume_long |= e->is_long && !was_long;
    }
}

void srv_mgr_look_at_entries(struct srv_manager *m, bool only_new, int64_t now)
{
    const bool polls = m->server->options.file_system_poll_wait_seconds > 0;
    take_long(m, now);
    for (int i = 0; i < m->n_models && !atomic_load(&m->stopping); i++)
        look_at_short(m, m->models[i], only_new, now);
    if (!srv_lister_current(m->lister))
        begin_long(m, only_new && !polls, now);
    report_long(m, now);
}

static void set_wanted(struct srv_manager *m, struct srv_managed_version *e, bool wanted)
{
    srv_mgr_set_wanted(m, e, wanted);
    if (!wanted && e->load)
        srv_loader_cancel(m->loader, e->load);
}

static void want(struct srv_manager *m, struct srv_managed *model, const struct srv_found *found)
{
    struct srv_managed_version *e = srv_mgr_find_entry(model, found->version);
    if (!e)
        e = srv_mgr_add_entry(m, model, found->version);
    if (!e) {
        srv_mgr_try_again(m);
        return;
    }
    char *dir = srv_source_version_dir(model->config->base_path, found->name);
    if (dir) {
        free(e->dir);
        e->dir = dir;
    }
    if (!e->dir) {
        srv_mgr_try_again(m);
        return;
    }
    srv_mgr_set_problem(m, &e->problem, found->warning);
    bool was_wanted = e->wanted;
    set_wanted(m, e, true);
    if (e->state == SRV_END && !was_wanted) {
        e->n_changed = 0;
        srv_mgr_restart(m, e);
    }
}

/* Returns the reason for the end of a version that was never loaded and is no longer wanted. */
static const char *why_not_loaded(const struct srv_managed *model, const struct srv_scan *scan,
                                  int64_t version)
{
    if (model->is_off)
        return "the model was unloaded by request before this version was loaded";
    if (!scan)
        return "the model was taken out of the configuration before this version was loaded";
    if (model->config->policy == SRV_POLICY_LATEST && scan->n && scan->found[0].version > version)
        return "a higher version came before this one was loaded";
    return "this version is not wanted any more; it was never loaded";
}

static void want_nothing_else(struct srv_manager *m, struct srv_managed *model,
                              const struct srv_scan *scan)
{
    int k = 0;
    for (int i = 0; i < model->n_entries; i++) {
        struct srv_managed_version *e = model->entries[i];
        /* both lists are sorted by descending version */
        while (scan && k < scan->n && scan->found[k].version > e->version)
            k++;
        if (scan && k < scan->n && scan->found[k].version == e->version)
            continue;
        set_wanted(m, e, false);
        if (e->state == SRV_START)
            srv_mgr_set_state(m, e, SRV_END, RT_CANCELLED, why_not_loaded(model, scan, e->version));
    }
    srv_mgr_forget_old_entries(m, model);
}

void srv_mgr_watch_folder(struct srv_manager *m, const char *path, int *watch)
{
    if (m->inotify_fd >= 0 && *watch < 0)
        *watch = inotify_add_watch(m->inotify_fd, path,
                                   IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
                                       IN_ONLYDIR);
}

/* Returns the problem that a configured base path is itself the directory of a version. A base path
 * must be one level above this directory. The path of --models must be two levels above it. */
static const char *version_as_model(const struct srv_manager *m, const struct srv_model_config *c,
                                    struct rt_arena *arena)
{
    const char *slash = strrchr(c->base_path, '/'), *above = slash;
    bool of_folder = m->folder && srv_config_find(m->folder, c->name) == c;
    while (of_folder && above && above > c->base_path && *--above != '/')
        ;
    int model = slash > c->base_path ? (int)(slash - c->base_path) : 1;
    int folder = above > c->base_path ? (int)(above - c->base_path) : 1;
    if (!of_folder)
        return rt_arena_printf(
            arena,
            "%s is itself a version of a model: give the directory above it as base path: %.*s",
            c->base_path, model, c->base_path);
    return rt_arena_printf(
        arena,
        "%s is itself a version of a model: --models wants the directory that holds the models' "
        "directories, here %.*s; for this model alone give --model_base_path=%.*s",
        c->base_path, folder, c->base_path, model, c->base_path);
}

/* Returns the problem of a model whose base path contains no version. */
static const char *no_versions(const struct srv_manager *m, const struct srv_managed *model,
                               struct rt_arena *arena)
{
    const char *base_path = model->config->base_path;
    char file[4096];
    const char *text = NULL;
    snprintf(file, sizeof file, "%s/saved_model.pb", base_path);
    if (access(file, F_OK) == 0)
        text = version_as_model(m, model->config, arena);
    else
        text = rt_arena_printf(arena,
                               "No versions of servable %s found under base path %s. Did you "
                               "forget to name your leaf directory as a number (eg. '/1/')?",
                               model->name, base_path);
    return text ? text : "out of memory";
}

/* Updates the model's versions after a scan of its base path. */
static void take_scan(struct srv_manager *m, struct srv_managed *model, const struct srv_scan *scan,
                      struct rt_arena *arena)
{
    model->is_empty = scan->n_there == 0;
    srv_mgr_set_problem(m, &model->problem,
                        model->is_empty ? no_versions(m, model, arena) : scan->warning);
    for (int i = 0; i < scan->n; i++)
        want(m, model, &scan->found[i]);
    want_nothing_else(m, model, scan);
}

/* Reads the model's config.pbtxt again if it has changed. If the file cannot be read, the
 * configuration that was read before remains, and the loads of versions report the error. Returns
 * false, and reads nothing, if the file is large and `may_be_large` is not set. */
static bool look_at_triton(struct srv_managed *model, bool may_be_large)
{
    const char *base_path = model->config->base_path;
    struct srv_triton *t = NULL;
    struct rt_error err = {0};
    int64_t bytes;
    const uint64_t seen = srv_source_triton_hash(base_path, &bytes);

    if (seen == model->triton_seen)
        return true;
    if (bytes > SMALL_TRITON_BYTES && !may_be_large)
        return false;
    model->triton_seen = seen;
    if (srv_triton_read(base_path, &t, &err))
        return true;
    srv_triton_free(model->triton);
    model->triton = t;
    if (t && t->ignored)
        RT_LOG(RT_LOG_INFO, "model %s: these fields of %s have no effect here: %s", model->name,
               t->path, t->ignored);
    return true;
}

/* Logs, once for each content, that the model has a config.pbtxt that is not read, because its
 * version `name` does not lie as in Triton's repositories. */
static void note_unread_triton(struct srv_managed *model, const char *name)
{
    const char *base_path = model->config->base_path;
    int64_t bytes;
    const uint64_t seen = srv_source_triton_hash(base_path, &bytes);

    if (seen && seen != model->triton_seen)
        RT_LOG(RT_LOG_WARNING,
               "model %s: %s/" SRV_TRITON_FILE " is not read: it applies to a SavedModel in "
               "%s/%s/model.savedmodel, and this one is in %s/%s",
               model->name, base_path, base_path, name, base_path, name);
    model->triton_seen = seen;
}

/* Scans the base path by the model's version policy, and sets model->is_large. If the configuration
 * states no policy, that of config.pbtxt applies, if the versions lie as in Triton's
 * repositories. */
static enum rt_status scan_versions(struct srv_managed *model, bool may_be_large,
                                    struct rt_arena *arena, struct srv_scan *scan,
                                    struct rt_error *err)
{
    const int max_names = may_be_large ? SRV_SCAN_MAX_NAMES : SMALL_NAMES;
    struct srv_model_config config = *model->config;
    enum rt_status st = srv_source_scan(&config, max_names, arena, scan, err);
    char *dir =
        !st && scan->n ? srv_source_version_dir(config.base_path, scan->found[0].name) : NULL;
    const bool is_nested = dir && srv_triton_base_length(dir);

    free(dir);
    model->is_large = scan->n_names > SMALL_NAMES;
    if (!st && scan->n && !is_nested)
        note_unread_triton(model, scan->found[0].name);
    if (!is_nested)
        return st;
    model->is_large |= !look_at_triton(model, may_be_large);
    if (!model->triton || config.has_policy)
        return st;
    srv_triton_policy(model->triton, &config);
    return srv_source_scan(&config, max_names, arena, scan, err);
}

/* Scans a model's base path. Unless `may_be_large` is set, a base path that is large, or whose
 * config.pbtxt is large and has changed, is only marked as large, and its scan remains due. */
static void scan_model(struct srv_manager *m, struct srv_managed *model, bool may_be_large)
{
    if (!model->config || model->is_off) {
        want_nothing_else(m, model, NULL);
        srv_mgr_set_problem(m, &model->problem, NULL);
        if (model->watch >= 0)
            inotify_rm_watch(m->inotify_fd, model->watch);
        model->watch = -1;
        model->scan_due = RT_NEVER;
        model->is_large = false;
        return;
    }
    struct rt_arena *arena = rt_arena_new((size_t)64 << 20);
    struct rt_error err = {.arena = arena};
    struct srv_scan scan = {0};
    srv_mgr_watch_folder(m, model->config->base_path, &model->watch);
    const enum rt_status st =
        arena ? scan_versions(model, may_be_large, arena, &scan, &err) : RT_RESOURCE_EXHAUSTED;
    if (!model->is_large || may_be_large) {
        model->scan_due = RT_NEVER;
        if (!st)
            take_scan(m, model, &scan, arena);
        else
            /* An unreadable base path does not count as empty, so the served versions continue to
             * serve. */
            srv_mgr_set_problem(m, &model->problem, arena ? rt_error_text(&err) : "out of memory");
        if (st)
            model->watch = -1;
    }
    rt_arena_free(arena);
}

/* Returns the model with a large base path whose scan has been due for the longest time, or
 * NULL. */
static struct srv_managed *next_large(const struct srv_manager *m)
{
    struct srv_managed *first = NULL;
    for (int i = 0; i < m->n_models; i++)
        if (m->models[i]->is_large && m->models[i]->scan_due < (first ? first->scan_due : RT_NEVER))
            first = m->models[i];
    return first;
}

int64_t srv_mgr_scan_models(struct srv_manager *m, int64_t now)
{
    for (int i = 0; i < m->n_models && !atomic_load(&m->stopping); i++)
        if (m->models[i]->scan_due != RT_NEVER && !m->models[i]->is_large)
            scan_model(m, m->models[i], false);
    struct srv_managed *model = next_large(m);
    if (!model || now < m->next_large)
        return model ? m->next_large : RT_NEVER;
    const int64_t begin = rt_now_ns(), end = begin + (int64_t)SCAN_LARGE_MS * MILLION;
    for (; model && rt_now_ns() < end; model = next_large(m))
        scan_model(m, model, true);
    now = rt_now_ns();
    m->next_large = now + (now - begin) * SCAN_PAUSE;
    return model ? m->next_large : RT_NEVER;
}
