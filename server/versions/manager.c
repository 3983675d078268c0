#include "server/versions/manager.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "server/versions/manager_internal.h"
#include "server/versions/policy.h"
#include "server/config/settings.h"
#include "server/versions/model_gpus.h"

/* ---- the loop ---- */

/* Performs the moves that the policy decides for a model. */
static void decide(struct srv_manager *m, struct srv_managed *model, int64_t now)
{
    const int n = model->n_entries;
    struct srv_version_view *views = calloc((size_t)n + 1, sizeof *views);
    enum srv_move *moves = calloc((size_t)n + 1, sizeof *moves);
    if (!views || !moves) {
        srv_mgr_try_again(m);
        goto end;
    }
    for (int i = 0; i < n; i++) {
        const struct srv_managed_version *e = model->entries[i];
        views[i] = (struct srv_version_view){
            .version = e->version,
            .state = e->state,
            .wanted = e->wanted,
            .may_load = e->stable && e->seen_since && now >= e->retry_at,
        };
    }
    srv_policy_decide(views, n, m->unload_before_load, moves);
    /* Lower versions are unloaded first. If memory runs out, the manager's loop tries again
     * later. */
    for (int i = n; i-- > 0;)
        if (moves[i] == SRV_MOVE_UNLOAD && !srv_mgr_unload(m, model, model->entries[i]))
            goto end;
    for (int i = 0; i < n; i++)
        if (moves[i] == SRV_MOVE_LOAD)
            srv_mgr_start_load(m, model, model->entries[i]);
end:
    free(views);
    free(moves);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Reads the config file again if the poll interval has passed or a re-read was requested. */
static void look_at_config(struct srv_manager *m, int64_t now)
{
    const struct srv_options *o = &m->server->options;
    rt_mutex_lock(&m->mu);
    bool requested = m->reread;
    m->reread = false;
    rt_mutex_unlock(&m->mu);
    if (!requested && now < m->next_config)
        return;
    if (m->next_config != RT_NEVER) {
        int64_t wait = earlier(o->model_config_file_poll_wait_seconds, INT32_MAX);
        m->next_config = now + wait * SECOND;
    }
    if (*o->model_config_file)
        srv_mgr_poll_config_file(m);
    else if (requested)
        RT_LOG(RT_LOG_WARNING, "there is no --model_config_file to read again");
    m->next_poll = now;
}

static void poll_everything(struct srv_manager *m, int64_t now)
{
    const struct srv_options *o = &m->server->options;
    if (*o->models)
        srv_mgr_poll_folder(m);
    for (int i = 0; i < m->n_models; i++)
        if (m->models[i]->scan_due > now)
            m->models[i]->scan_due = now;
}

/* Scans the base paths that are due. If `polls` is set, all base paths are due, and the versions
 * are checked too. Returns the earliest time at which a waiting large base path may be scanned, or
 * RT_NEVER if no large base path waits. */
static int64_t look_at_models(struct srv_manager *m, bool polls, int64_t now)
{
    if (polls)
        poll_everything(m, now);
    const int64_t next = srv_mgr_scan_models(m, now);
    if (polls)
        srv_mgr_look_at_entries(m, false, now);
    return next;
}

/* Checks versions that are not stable yet or must be retried. Returns the time of the next
 * check. */
static int64_t look_at_new(struct srv_manager *m, int64_t now)
{
    int64_t next = RT_NEVER;
    srv_mgr_look_at_entries(m, true, now);
    for (int i = 0; i < m->n_models; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++) {
            const struct srv_managed_version *e = m->models[i]->entries[k];
            if (!e->wanted)
                continue;
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
        /* The directories are polled 20 ms after the first change of a burst, so that the burst
         * causes a single poll. */
        int64_t soon = rt_now_ns() + (int64_t)20 * MILLION;
        if (m->next_poll > soon && m->server->options.file_system_poll_wait_seconds > 0)
            m->next_poll = soon;
    }
}

/* Pauses the manager's loop after a pass that began at `begin`, unless the manager is stopping. */
static void pause_after_pass(struct srv_manager *m, int64_t begin)
{
    const int64_t now = rt_now_ns();
    const int64_t end =
        now + earlier((now - begin) * PASS_PAUSE, (int64_t)PASS_PAUSE_MAX_MS * MILLION);
    rt_mutex_lock(&m->mu);
    while (!m->stopping && rt_now_ns() < end)
        rt_cond_wait_until(&m->changed, &m->mu, end);
    rt_mutex_unlock(&m->mu);
}

static void end_graces(struct srv_manager *m, struct srv_grace *first)
{
    for (struct srv_grace *g = first, *next; g; g = next) {
        next = g->next;
        srv_mgr_end_grace(m, g);
    }
}

static void take_messages(struct srv_manager *m)
{
    rt_mutex_lock(&m->mu);
    struct srv_load *load = m->loaded;
    struct srv_grace *g = m->confirmed;
    struct srv_grace *freed = m->freed;
    m->loaded = NULL;
    m->confirmed = NULL;
    m->freed = NULL;
    rt_mutex_unlock(&m->mu);
    for (struct srv_grace *next; freed; freed = next) {
        next = freed->next;
        srv_mgr_end_unload(m, freed);
    }
    end_graces(m, g);
    g = m->held;
    m->held = NULL;
    end_graces(m, g);
    for (struct srv_load *next; load; load = next) {
        next = load->next;
        srv_mgr_end_load(m, load);
    }
}

/* ---- the steps of a pass ---- */

/* Returns freed memory to the system if it is time. Returns the time of the next call. */
static int64_t trim(struct srv_manager *m, int64_t now)
{
    if (now >= m->next_trim) {
        rt_heap_trim(&m->trims, m->trim_pending);
        m->trim_pending = false;
        m->next_trim = now + TRIM_EVERY_S * SECOND;
    }
    return m->next_trim;
}

/* Repeats the steps that ran out of memory, in their original order. */
static void again(struct srv_manager *m, int64_t now)
{
    m->again_at = RT_NEVER;
    m->next_poll = now;
    srv_mgr_point_models(m);
    srv_mgr_publish(m);
}

/* Publishes a map if versions were loaded or must be unloaded. One map covers all these changes,
 * because each map lists all versions and stays in memory until its grace period ends. */
static void publish_changes(struct srv_manager *m)
{
    if (m->must_publish)
        srv_mgr_publish(m);
}

static void serve(struct srv_manager *m)
{
    const struct srv_options *o = &m->server->options;
    for (;;) {
        if (atomic_load(&m->stopping))
            return;
        const int64_t begin = rt_now_ns();
        take_messages(m);
        publish_changes(m);
        srv_mgr_take_reload(m);
        srv_mgr_take_switches(m);
        int64_t now = rt_now_ns();
        look_at_config(m, now);
        if (now >= m->again_at)
            again(m, now);
        const bool polls = now >= m->next_poll;
        const int64_t next_scan = look_at_models(m, polls, now);
        if (polls) {
            int64_t wait = o->file_system_poll_wait_seconds;
            m->next_poll = wait > 0 ? rt_now_ns() + earlier(wait, INT32_MAX) * SECOND : RT_NEVER;
            rt_mutex_lock(&m->mu);
            m->first_poll_done = true;
            srv_mgr_note_ready(m);
            rt_cond_broadcast(&m->changed);
            rt_mutex_unlock(&m->mu);
        }
        now = rt_now_ns();
        int64_t next = earlier(look_at_new(m, now), next_scan);
        for (int i = 0; i < m->n_models && !atomic_load(&m->stopping); i++)
            decide(m, m->models[i], now);
        publish_changes(m);
        srv_mgr_note_gone_models(m);
        srv_mgr_check_reload(m);
        if (m->reload)
            next = earlier(next, now + SECOND);
        next = earlier(next, srv_mgr_check_switches(m, now));
        next = earlier(next, srv_mgr_note_overdue(m, now));
        next = earlier(next, srv_loader_advance(m->loader, now));
        next = earlier(next, srv_mgr_end_requests(m, now));
        next = earlier(earlier(next, m->next_config), m->again_at);
        pause_after_pass(m, begin);
        sleep_until(m, earlier(earlier(next, m->next_poll), trim(m, now)));
    }
}

static void unload_everything(struct srv_manager *m)
{
    /* Interval between attempts to publish a map while memory is short. The server can stop only
     * after an empty map has been published. */
    const useconds_t pause_us = AGAIN_MS * 1000;
    m->frees_itself = true;
    if (m->reload) {
        struct rt_error err = {0};
        srv_mgr_end_reload(m->reload, rt_fail(&err, RT_UNAVAILABLE, "the server is stopping"),
                           &err);
        m->reload = NULL;
    }
    srv_mgr_end_switches(m);
    srv_mgr_end_snapshots(m);
    for (int i = 0; i < m->n_models; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++)
            if (m->models[i]->entries[k]->load)
                srv_loader_cancel(m->loader, m->models[i]->entries[k]->load);
    srv_loader_free(m->loader);
    m->loader = NULL;
    take_messages(m);
    while (m->must_publish && !srv_mgr_publish(m))
        usleep(pause_us);
    for (int i = 0; i < m->n_models; i++)
        for (int k = 0; k < m->models[i]->n_entries; k++)
            while (m->models[i]->entries[k]->state == SRV_AVAILABLE &&
                   !srv_mgr_unload(m, m->models[i], m->models[i]->entries[k]))
                usleep(pause_us);
    struct srv_grace *last;
    while (!(last = srv_mgr_grace_new(m)))
        usleep(pause_us);
    srv_mgr_swap_map(m, last, NULL);
    while (m->n_graces || m->n_freeing) {
        sleep_until(m, rt_now_ns() + SECOND);
        take_messages(m);
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
    srv_mgr_free_published(m->published);
    srv_loader_free(m->loader);
    srv_mgr_unloader_free(m->unloader);
    srv_lister_free(m->lister);
    for (int i = 0; i < m->n_models; i++)
        srv_mgr_free_model(m->models[i]);
    free(m->models);
    srv_config_free(m->base);
    srv_config_free(m->folder);
    free(m->tags_text);
    free(m->folder_problem.text);
    free(m->config_problem.text);
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

static void wake(void *arg)
{
    srv_mgr_wake(arg);
}

enum rt_status srv_manager_start(struct srv_server *server, const struct srv_model_calls *calls,
                                 struct srv_manager **out, struct rt_error *err)
{
    const struct srv_options *o = &server->options;
    enum rt_status st = srv_settings_check(o, err);
    if (st)
        return st;
    struct srv_manager *m = calloc(1, sizeof *m);
    if (!m)
        return rt_fail_memory(err, "the manager", sizeof *m);
    m->server = server;
    m->calls = calls;
    m->folder_watch = -1;
    m->again_at = RT_NEVER;
    m->unload_before_load = strcmp(o->version_transition, "resource_preserving") == 0;
    rt_mutex_init(&m->mu);
    rt_cond_init(&m->changed);
    m->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    m->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    struct srv_config *base = NULL, *folder = NULL;
    st = m->event_fd < 0 ? rt_fail(err, RT_RESOURCE_EXHAUSTED, "eventfd: %s", strerror(errno))
                         : split_tags(m, err);
    if (!st)
        st = srv_config_from_options(o, &base, err);
    if (!st)
        st = srv_mgr_check_labels(m, base, err);
    if (!st)
        st = srv_config_check_platforms(NULL, base, err);
    if (!st)
        st = srv_model_gpus_check(server, base, err);
    if (!st && *o->models)
        st = srv_config_from_folder(o->models, &folder, err);
    if (st) {
        srv_config_free(base);
        goto fail;
    }
    if (base->n_models)
        srv_mgr_log_config(base);
    srv_mgr_take_configs(m, base, folder);
    for (int i = 0; i < m->n_models; i++)
        m->models[i]->is_initial = true;
    srv_mgr_count_models(m);
    m->unloader =
        srv_mgr_unloader_new(m, o->num_unload_threads > 0 ? (int)o->num_unload_threads : 1);
    const int64_t n_slots = o->num_load_threads > 0 ? o->num_load_threads : 2;
    m->loader =
        srv_loader_new(server, calls, (int)n_slots, m->tags, m->n_tags, srv_mgr_load_done, m);
    m->lister = srv_lister_new(wake, m);
    if (!m->unloader || !m->loader || !m->lister || m->again_at != RT_NEVER ||
        !srv_mgr_publish(m)) {
        st = rt_fail_memory(err, "the manager", sizeof *m);
        goto fail;
    }
    server->manager = m;
    m->next_poll = o->file_system_poll_wait_seconds < 0 ? RT_NEVER : 0;
    m->next_config = RT_NEVER;
    if (*o->model_config_file && o->model_config_file_poll_wait_seconds > 0)
        m->next_config =
            rt_now_ns() + earlier(o->model_config_file_poll_wait_seconds, INT32_MAX) * SECOND;
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

/* Logs the models for which startup waits. While the ports are closed, clients cannot query the
 * models' states. */
static void log_awaited(const struct srv_manager *m, const struct srv_unavailable *awaited)
{
    const long long limit = (long long)m->server->options.model_wait_seconds;
    char most[80] = "";
    if (limit)
        snprintf(most, sizeof most,
                 "; for at most %lld s while none is loaded (--model_wait_seconds)", limit);
    RT_LOG(RT_LOG_INFO, "the ports stay closed until every model serves; waiting for %s%s",
           awaited->text, most);
}

enum rt_status srv_manager_wait_initial(struct srv_manager *m, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    int64_t log_at = 0;
    rt_mutex_lock(&m->mu);
    for (;;) {
        struct srv_unavailable list = {0}, awaited = {0};
        char missing[4300];
        st = RT_OK;
        for (int i = 0; i < m->n_models; i++) {
            const struct srv_managed *model = m->models[i];
            const struct srv_managed_version *why = NULL;
            if (!model->is_initial || !model->config || model->is_off)
                continue;
            switch (srv_mgr_settled(m, model, true, &why)) {
            case SRV_WAITING:
                srv_mgr_add_awaited(&awaited, model);
                break;
            case SRV_SERVES:
                break;
            case SRV_FAILED:
                srv_mgr_add_unavailable(&list, model->name, why, "");
                break;
            case SRV_MISSING:
                snprintf(missing, sizeof missing,
                         "no version was found under %s, or none came to rest, in %lld seconds",
                         model->config->base_path,
                         (long long)m->server->options.model_wait_seconds);
                srv_mgr_add_unavailable(&list, model->name, NULL, missing);
                break;
            }
        }
        if (list.n)
            st = rt_fail(err, RT_UNKNOWN, "%d servable(s) did not become available: {%s}", list.n,
                         list.text);
        if (st || m->stopping || (!awaited.n && m->first_poll_done))
            break;
        if (awaited.n && m->first_poll_done && rt_now_ns() >= log_at) {
            log_awaited(m, &awaited);
            log_at = rt_now_ns() + AWAITED_LOG_EVERY_S * SECOND;
        }
        rt_cond_wait_until(&m->changed, &m->mu, rt_now_ns() + SECOND);
    }
    if (!st && m->stopping)
        st = rt_fail(err, RT_CANCELLED, "the server is stopping");
    rt_mutex_unlock(&m->mu);
    return st;
}

/* Calls `look` for the available versions of a model. Adds the number of calls to *n. */
static bool look_at_model(const struct srv_managed *model,
                          bool (*look)(void *arg, const struct srv_version *v), void *arg, int *n)
{
    bool found = false;

    for (int k = 0; k < model->n_entries && !found; k++) {
        /* An AVAILABLE version cannot be freed under the lock, because its state must change
         * first. */
        const struct srv_managed_version *e = model->entries[k];
        const bool is_available = e->state == SRV_AVAILABLE && e->live;
        *n += is_available;
        found = is_available && look(arg, e->live);
    }
    return found;
}

bool srv_manager_look(struct srv_manager *m, bool (*look)(void *arg, const struct srv_version *v),
                      void *arg)
{
    enum { MODELS = 256, VERSIONS = 32 }; /* maximum numbers under one hold of the lock */
    bool found = false;

    rt_mutex_lock(&m->mu);
    for (int i = 0, n_models = 0, n_versions = 0; i < m->n_models && !found; i++) {
        char *name = NULL;
        if (n_models == MODELS || n_versions >= VERSIONS)
            name = strdup(m->models[i]->name); /* without memory, the lock is held for longer */
        if (name) {
            rt_mutex_unlock(&m->mu);
            rt_mutex_lock(&m->mu);
            i = srv_mgr_first_model(m, name, strlen(name));
            free(name);
            n_models = n_versions = 0;
            if (i == m->n_models)
                break;
        }
        n_models++;
        found = m->models[i]->n_available && look_at_model(m->models[i], look, arg, &n_versions);
    }
    rt_mutex_unlock(&m->mu);
    return found;
}

void srv_manager_reread(struct srv_manager *m)
{
    rt_mutex_lock(&m->mu);
    m->reread = true;
    rt_mutex_unlock(&m->mu);
    srv_mgr_wake(m);
}

void srv_manager_stop(struct srv_manager *m)
{
    if (!m)
        return;
    rt_mutex_lock(&m->mu);
    m->stopping = true;
    srv_mgr_note_ready(m);
    rt_cond_broadcast(&m->changed);
    rt_mutex_unlock(&m->mu);
    srv_mgr_wake(m);
    pthread_join(m->thread, NULL);
    for (struct srv_reload *r = m->new_reloads, *next; r; r = next) {
        struct rt_error err = {0};
        next = r->next;
        srv_mgr_end_reload(r, rt_fail(&err, RT_UNAVAILABLE, "the server is stopping"), &err);
    }
    m->new_reloads = NULL;
    srv_mgr_end_switches(m);
}
