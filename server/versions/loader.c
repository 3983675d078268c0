#include "server/versions/loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/select/autotune.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/thread.h"
#include "runtime/session/account.h"

enum { BASE_BYTES = 8 << 20 };

struct srv_loader {
    struct srv_server *server;
    const struct srv_model_calls *calls;
    const char *const *tags;
    int n_tags;
    void (*done)(void *arg, struct srv_load *load);
    void *arg;
    /* number of slots for running loads, guarded by mu; a load occupies one slot until it ends or
     * gives the slot up */
    int n_places;
    /* Number of elements of `threads`; used only by the manager's thread. */
    int n_threads;
    /* Threads that load versions; used only by the manager's thread. */
    pthread_t threads[SRV_LOAD_MAX_RUNNING];
    struct rt_mutex mu;
    struct rt_cond wake;
    /* Loads that wait for a slot, linked in both directions, in ascending order of turn_end_ns;
     * guarded by mu. */
    struct srv_load *first, *last;
    /* The virtual clock: the latest turn_begin_ns of a load that has begun to run; guarded by
     * mu. */
    int64_t clock_ns;
    /* list of running loads, linked by `next`, newest first; guarded by mu */
    struct srv_load *running;
    /* n_running is the number of running loads, n_taken is the number of occupied slots, and
     * n_costly is the number of slots that costly loads occupy; all are guarded by mu */
    int n_running, n_taken, n_costly;
    int64_t begun_ns; /* time when a load most recently occupied a slot; guarded by mu */
    int64_t reserved; /* estimated memory of running loads in bytes; guarded by mu */
    bool stopping;    /* guarded by mu */
};

int64_t srv_loader_estimate(int64_t weight_bytes)
{
    /* The estimate exceeds the size of the weights, because packed weights are larger and a run
     * needs memory too. */
    return weight_bytes > INT64_MAX / 2 ? INT64_MAX : weight_bytes + weight_bytes / 4 + BASE_BYTES;
}

static size_t total_limit(const struct srv_options *o)
{
    const int64_t limit = o->total_model_memory_limit_bytes;
    return limit ? (size_t)limit : SIZE_MAX;
}

/* Refuses a load that needs more memory than --total_model_memory_limit_bytes leaves. */
static enum rt_status refuse(struct srv_loader *l, struct srv_load *load, int64_t need)
{
    const struct rt_budget *b = &l->server->model_memory;
    load->over_memory_limit = true;
    return rt_fail(&load->err, RT_RESOURCE_EXHAUSTED,
                   "Insufficient resources to load servable {name: %s version: %lld}: it needs "
                   "about %lld bytes, others hold %zu of --total_model_memory_limit_bytes=%zu",
                   load->model, (long long)load->version, (long long)need, atomic_load(&b->used),
                   b->limit);
}

/* Refuses a SavedModel file that is larger than the memory that --total_model_memory_limit_bytes
 * leaves, before the file is read. Ignores a file that cannot be examined, because reading it
 * reports the error. */
static enum rt_status check_file(struct srv_loader *l, struct srv_load *load)
{
    static const char *const names[] = {"saved_model.pb", "saved_model.pbtxt"};
    const struct rt_budget *b = &l->server->model_memory;
    const size_t used = atomic_load(&b->used), left = b->limit > used ? b->limit - used : 0;
    char path[4200];
    struct stat s;

    for (int k = 0; k < 2; k++) {
        const int n = snprintf(path, sizeof path, "%s/%s", load->dir, names[k]);
        if (n >= 0 && (size_t)n < sizeof path && !stat(path, &s) && (uint64_t)s.st_size > left)
            return refuse(l, load, s.st_size);
    }
    return RT_OK;
}

static enum rt_status admit(struct srv_loader *l, struct srv_load *load, int64_t need)
{
    struct rt_budget *budget = &l->server->model_memory;
    if (!rt_budget_take(budget, (size_t)need))
        return refuse(l, load, need);
    load->account = rt_account_new(budget, (size_t)need);
    if (!load->account) {
        rt_budget_give(budget, (size_t)need);
        return rt_fail_memory(&load->err, "a model", 0);
    }
    rt_mutex_lock(&l->mu);
    const int64_t available = l->calls->free_memory() - l->reserved;
    const bool fits = need <= available;
    if (fits)
        l->reserved += need;
    rt_mutex_unlock(&l->mu);
    if (fits)
        return RT_OK;
    rt_account_free(load->account);
    load->account = NULL;
    load->over_memory_limit = true;
    return rt_fail(&load->err, RT_RESOURCE_EXHAUSTED,
                   "model %s version %lld: loading needs about %lld bytes of memory, %lld are free",
                   load->model, (long long)load->version, (long long)need,
                   (long long)(available > 0 ? available : 0));
}

/* Ends a load's memory reservation, because the free memory now reflects what the load has
 * allocated. */
static void end_reservation(struct srv_loader *l, int64_t need)
{
    rt_mutex_lock(&l->mu);
    l->reserved -= need;
    rt_mutex_unlock(&l->mu);
}

/* Logs the failure of a warm-up request that consists of zeros, with unknown dimensions set to 1. A
 * failure for lack of memory or time is logged as a warning, because real requests may fail in the
 * same way. Other failures may be harmless: for example, an empty tf.Example lacks the model's
 * features. */
static void warm_up_failed(void *arg, const char *signature, const struct rt_error *err)
{
    const struct srv_load *load = arg;
    const char *why = rt_error_text(err);
    /* only the first line is logged, because the lines after it only describe the node */
    const int n = (int)strcspn(why, "\n");
    if (err->code == RT_RESOURCE_EXHAUSTED || err->code == RT_DEADLINE_EXCEEDED)
        RT_LOG(RT_LOG_WARNING,
               "model %s version %lld: warm-up of signature \"%s\" failed, requests may: %.*s",
               load->model, (long long)load->version, signature, n, why);
    else
        RT_LOG(err->code == RT_INVALID_ARGUMENT ? RT_LOG_DEBUG : RT_LOG_INFO,
               "model %s version %lld: signature \"%s\" is not warmed up, zeros of shapes of 1 "
               "fail: %.*s",
               load->model, (long long)load->version, signature, n, why);
}

static void log_timing(const struct srv_load *load, struct rt_session *session)
{
    const struct rt_autotune_stats s = rt_autotune_stats(session);

    if (s.timed || s.remembered)
        RT_LOG(RT_LOG_INFO,
               "model %s: autotune: the kernels of %d node%s were timed in %lld ms, those of %d "
               "were known already",
               load->model, s.timed, s.timed == 1 ? "" : "s", (long long)(s.ns / 1000000),
               s.remembered);
    if (s.untimed)
        RT_LOG(RT_LOG_INFO,
               "model %s: autotune: the time for trials ended before the kernels of %d node%s were "
               "timed: they are chosen by rule (with --autotune_cache a later start times them)",
               load->model, s.untimed, s.untimed == 1 ? "" : "s");
}

/* Replays the version's warm-up and goldens. A version that fails them is freed and not served. */
static enum rt_status validate(struct srv_loader *l, struct srv_load *load)
{
    struct srv_version v = {.model = load->model, .version = load->version, .loaded = load->loaded};

    struct rt_session *session = l->calls->validate ? load->loaded->session : NULL;
    if (session) {
        log_timing(load, session);
        /* During the warm-up, code for a new shape is compiled when the shape first occurs, and not
         * later on the compiler's thread. */
        rt_session_loading(session, true, &load->cancelled);
    }
    enum rt_status st = l->calls->validate ? l->calls->validate(l->server, &v, load->dir,
                                                                &load->cancelled, &load->err)
                                           : RT_OK;
    if (session) {
        if (!st)
            rt_session_compile(session);
        rt_session_loading(session, false, NULL);
    }
    if (st) {
        l->calls->free(load->loaded);
        load->loaded = NULL;
    }
    return st;
}

/* With --allow_unsupported_signatures, logs the signatures that cannot run, so that an operator
 * does not learn of them only from refused requests. */
static void log_left_out(const struct srv_load *load)
{
    for (int i = 0; i < load->loaded->n_signatures; i++) {
        const struct rt_model_signature *s = &load->loaded->signatures[i];
        if (s->unsupported)
            RT_LOG(
                RT_LOG_WARNING,
                "model %s version %lld is served without its signature \"%s\", which cannot run: "
                "%s",
                load->model, (long long)load->version, s->def->name, s->unsupported);
    }
}

static bool wants_bf16(const struct srv_options *o, const struct srv_load *load)
{
    if (load->bf16 == SRV_NO || (load->bf16 == SRV_UNSAID && strcmp(o->precision, "bf16") != 0))
        return false;
    /* One log line is enough, because the missing instructions affect all models equally. */
    static atomic_bool told;
    if (!rt_machine_has_bf16() && !atomic_exchange(&told, true))
        RT_LOG(RT_LOG_WARNING, "model %s: " SRV_NO_BF16, load->model);
    return true;
}

static bool has_warmup(const struct srv_loader *l, const struct srv_load *load)
{
    return l->calls->has_warmup && l->calls->has_warmup(load->dir);
}

static struct rt_model_options model_options(struct srv_loader *l, struct srv_load *load)
{
    const struct srv_options *o = &l->server->options;
    struct rt_device *gpu = l->calls->choose_gpu ? l->calls->choose_gpu(l->server) : NULL;
    return (struct rt_model_options){
        .session = {.registry = l->server->registry,
                    .run_memory_limit = (size_t)o->run_memory_limit_bytes,
                    .state_memory_limit = (size_t)o->state_memory_limit_bytes,
                    .budget = &l->server->run_memory,
                    .account = load->account,
                    .idle_cache = l->server->idle_cache,
                    .parallel = l->server->parallel,
                    .compiler = l->server->compiler,
                    .tuning = {.no_fusion = !o->fusion,
                               .no_winograd = !o->winograd,
                               .no_autotune = !o->autotune,
                               .no_specialise = !o->specialise,
                               .bf16 = wants_bf16(o, load)},
                    .autotune = l->server->autotune,
                    .accelerator = gpu,
                    .accelerates_all = gpu != NULL,
                    .log_device_placement = o->log_device_placement,
                    .cancelled = &load->cancelled},
        .tags = l->tags,
        .n_tags = l->n_tags,
        .allow_unsupported_signatures = o->allow_unsupported_signatures,
        .load_all_variables = o->enable_session_service,
        .warm_up = o->enable_model_warmup && !has_warmup(l, load),
        .on_warm_up_failure = warm_up_failed,
        .arg = load,
    };
}

/* Frees a model that is not served, together with its memory account. */
static void drop(struct srv_loader *l, struct srv_load *load)
{
    if (load->loaded)
        l->calls->free(load->loaded);
    rt_account_free(load->account);
    load->loaded = NULL;
    load->account = NULL;
}

/* Loads and validates a model that was admitted on the basis of the estimate `need`. */
static enum rt_status load_admitted(struct srv_loader *l, struct srv_load *load, int64_t need)
{
    const struct rt_model_options options = model_options(l, load);
    enum rt_status st = l->calls->load(&load->loaded, load->dir, &options, &load->err);
    if (!st)
        st = validate(l, load);
    if (!st && load->loaded->session)
        st = rt_session_check(load->loaded->session, &load->err);
    if (st && rt_account_was_refused(load->account)) {
        load->over_memory_limit = true;
        rt_fail_prefix(&load->err,
                       "Insufficient resources to load servable {name: %s version: %lld}: ",
                       load->model, (long long)load->version);
    }
    if (st)
        return st;
    rt_account_serve(load->account);
    log_left_out(load);
    if (load->loaded->session)
        RT_LOG(RT_LOG_INFO,
               "model %s version %lld holds %zu bytes; it was admitted by an estimate of %lld",
               load->model, (long long)load->version, rt_session_held(load->loaded->session),
               (long long)need);
    return RT_OK;
}

static enum rt_status check_cancelled(void *arg, struct rt_error *err)
{
    return atomic_load(&((const struct srv_load *)arg)->cancelled)
               ? rt_fail(err, RT_CANCELLED, "the model is not wanted any more")
               : RT_OK;
}

static enum rt_status read_model(struct srv_loader *l, struct srv_load *load)
{
    int64_t weight_bytes = 0;
    const struct rt_check check = {check_cancelled, load};
    enum rt_status st = check_file(l, load);
    if (!st)
        st =
            l->calls->is_complete(load->dir, l->tags, l->n_tags, &check, &weight_bytes, &load->err);
    if (st)
        return st;
    const int64_t need = srv_loader_estimate(weight_bytes);
    st = admit(l, load, need);
    if (st)
        return st;
    st = load_admitted(l, load, need);
    end_reservation(l, need);
    return st;
}

/* Frees the loaded model and clears the error. */
static void start_over(struct srv_loader *l, struct srv_load *load)
{
    drop(l, load);
    load->err = (struct rt_error){0};
}

/* Fails the load if the version's files have changed or its directory is gone. A failure to list
 * the directory for another reason, such as a lack of descriptors, does not tell whether the files
 * have changed. Then the load fails with that reason, unless it has already failed. */
static void check_unchanged(struct srv_loader *l, struct srv_load *load)
{
    const struct rt_check check = {check_cancelled, load};
    struct rt_error why = {0};
    const enum rt_status st = srv_source_fingerprint(load->dir, &check, &load->after, &why);

    load->changed = st ? st == RT_NOT_FOUND : !srv_fingerprint_eq(&load->after, &load->before);
    if (load->changed) {
        start_over(l, load);
        load->status = rt_fail(&load->err, RT_ABORTED,
                               "files in %s changed while the version was being loaded", load->dir);
    } else if (st && !load->status) {
        load->status =
            rt_fail(&load->err, RT_UNAVAILABLE,
                    "cannot check whether files changed during the load: %s", rt_error_text(&why));
    }
}

static enum rt_status fail_stopped(struct srv_load *load)
{
    return rt_fail(&load->err, RT_RESOURCE_EXHAUSTED,
                   "the load was stopped after %lld seconds, because %d loads ran and others "
                   "waited",
                   (long long)((rt_now_ns() - load->begun_ns) / 1000000000), SRV_LOAD_MAX_RUNNING);
}

static void run(struct srv_loader *l, struct srv_load *load)
{
    int64_t start = rt_now_ns();
    if (!atomic_load(&load->cancelled))
        load->status = read_model(l, load);
    /* The version is checked even after a failed load, because cancellation or a change of the
     * files may explain the failure. */
    if (!atomic_load(&load->cancelled))
        check_unchanged(l, load);
    if (atomic_load(&load->cancelled)) {
        start_over(l, load);
        load->changed = false;
        load->status = load->stopped ? fail_stopped(load) : RT_CANCELLED;
    }
    if (load->status)
        drop(l, load);
    load->ns = rt_now_ns() - start;
}

static bool is_costly(const struct srv_load *load)
{
    return load->cost_ns > SRV_LOAD_CHEAP_NS;
}

/* Returns the waiting load that may run now, or NULL if there is none. */
static struct srv_load *next_locked(const struct srv_loader *l) RT_REQUIRES(l->mu)
{
    const int max_costly = l->n_places > 1 ? l->n_places - 1 : 1;
    struct srv_load *load = l->n_taken < l->n_places ? l->first : NULL;

    while (load && l->n_costly >= max_costly && is_costly(load))
        load = load->next;
    return load;
}

static void take_place_locked(struct srv_loader *l, struct srv_load *load) RT_REQUIRES(l->mu)
{
    *(load->previous ? &load->previous->next : &l->first) = load->next;
    *(load->next ? &load->next->previous : &l->last) = load->previous;
    if (load->turn_begin_ns > l->clock_ns)
        l->clock_ns = load->turn_begin_ns;
    load->next = l->running;
    l->running = load;
    l->n_running++;
    load->history->n_running++;
    l->n_taken++;
    l->n_costly += is_costly(load);
    l->begun_ns = load->begun_ns = rt_now_ns();
}

static void leave_place_locked(struct srv_loader *l, struct srv_load *load) RT_REQUIRES(l->mu)
{
    l->n_taken -= !load->left_place;
    l->n_costly -= !load->left_place && is_costly(load);
    load->left_place = true;
}

/* Corrects the estimated cost of a load, which no longer occupies a slot, to `cost_ns`. Later loads
 * of the model are ordered accordingly. The caller holds the loader's lock. */
static void correct_cost(struct srv_load *load, int64_t cost_ns)
{
    load->history->turn_end_ns += cost_ns - load->cost_ns;
    load->history->cost_ns = load->cost_ns = cost_ns;
}

/* Ends a load that took `cpu_ns` of its thread's processor time. */
static void end_locked(struct srv_loader *l, struct srv_load *load, int64_t cpu_ns)
    RT_REQUIRES(l->mu)
{
    struct srv_load **p = &l->running;
    while (*p != load)
        p = &(*p)->next;
    *p = load->next;
    l->n_running--;
    load->history->n_running--;
    leave_place_locked(l, load);
    /* a load that was cancelled early does not show what a load costs */
    if (!atomic_load(&load->cancelled))
        correct_cost(load, cpu_ns > 0 ? cpu_ns : 1);
}

static void *load_thread(void *arg)
{
    struct srv_loader *l = arg;
    rt_thread_low_priority();
    rt_mutex_lock(&l->mu);
    for (;;) {
        while (!l->stopping && !next_locked(l))
            rt_cond_wait(&l->wake, &l->mu);
        struct srv_load *load = l->stopping ? l->first : next_locked(l);
        if (!load)
            break;
        take_place_locked(l, load);
        rt_mutex_unlock(&l->mu);
        const int64_t cpu_ns = rt_thread_cpu_ns();
        run(l, load);
        rt_mutex_lock(&l->mu);
        end_locked(l, load, rt_thread_cpu_ns() - cpu_ns);
        rt_mutex_unlock(&l->mu);
        l->done(l->arg, load);
        rt_mutex_lock(&l->mu);
    }
    rt_mutex_unlock(&l->mu);
    return NULL;
}

static bool start_thread(struct srv_loader *l)
{
    if (l->n_threads == SRV_LOAD_MAX_RUNNING ||
        rt_thread_start(&l->threads[l->n_threads], "load", load_thread, l))
        return false;
    l->n_threads++;
    return true;
}

/* Returns how long a load waits before the oldest running load gives up its slot. */
static int64_t patience_ns(const struct srv_loader *l) RT_REQUIRES(l->mu)
{
    for (const struct srv_load *r = l->running; r; r = r->next)
        if (r->left_place)
            return SRV_LOAD_HASTE_NS;
    return SRV_LOAD_PATIENCE_NS;
}

/* Makes the oldest running load that occupies a slot give it up. */
static void relieve_oldest_locked(struct srv_loader *l) RT_REQUIRES(l->mu)
{
    struct srv_load *oldest = NULL;
    for (struct srv_load *r = l->running; r; r = r->next)
        oldest = r->left_place ? oldest : r;
    if (!oldest)
        return;
    leave_place_locked(l, oldest);
    correct_cost(oldest, SRV_LOAD_PATIENCE_NS);
    RT_LOG(RT_LOG_WARNING,
           "model %s version %lld takes long to load: it goes on, beside the others that wait",
           oldest->model, (long long)oldest->version);
}

/* Stops a load without a slot, as loader.h says. A load that does not end although it was cancelled
 * is not chosen again. */
static void stop_one_locked(struct srv_loader *l) RT_REQUIRES(l->mu)
{
    struct srv_load *chosen = NULL;
    for (struct srv_load *r = l->running; r; r = r->next)
        if (r->left_place && !atomic_load(&r->cancelled) &&
            (!chosen || r->history->n_running >= chosen->history->n_running))
            chosen = r;
    if (!chosen)
        return;
    chosen->stopped = true;
    atomic_store(&chosen->cancelled, true);
    RT_LOG(RT_LOG_WARNING,
           "the load of model %s version %lld is stopped, because %d loads run and others wait",
           chosen->model, (long long)chosen->version, l->n_running);
}

int64_t srv_loader_relieve(struct srv_loader *l, int64_t now_ns)
{
    rt_mutex_lock(&l->mu);
    const bool has_slot = next_locked(l) != NULL;
    const bool waits = l->first && (!has_slot || l->n_running == l->n_threads);
    const int64_t due_ns = l->begun_ns + patience_ns(l);
    if (waits && now_ns >= due_ns && !has_slot)
        relieve_oldest_locked(l);
    const bool needs_thread = l->n_running == l->n_threads;
    rt_mutex_unlock(&l->mu);
    if (!waits)
        return RT_NEVER;
    if (now_ns < due_ns)
        return due_ns;
    const bool is_full = needs_thread && !start_thread(l) && l->n_threads == SRV_LOAD_MAX_RUNNING;
    rt_mutex_lock(&l->mu);
    if (is_full)
        stop_one_locked(l);
    rt_cond_signal(&l->wake);
    const int64_t again_ns = now_ns + patience_ns(l);
    rt_mutex_unlock(&l->mu);
    return again_ns;
}

struct srv_loader *srv_loader_new(struct srv_server *server, const struct srv_model_calls *calls,
                                  int n_threads, const char *const *tags, int n_tags,
                                  void (*done)(void *arg, struct srv_load *load), void *arg)
{
    struct srv_loader *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->server = server;
    l->calls = calls;
    l->tags = tags;
    l->n_tags = n_tags;
    l->done = done;
    l->arg = arg;
    rt_mutex_init(&l->mu);
    rt_cond_init(&l->wake);
    server->model_memory.limit = total_limit(&server->options);
    while (l->n_threads < n_threads && start_thread(l))
        ;
    rt_mutex_lock(&l->mu);
    l->n_places = l->n_threads;
    rt_mutex_unlock(&l->mu);
    if (!l->n_threads) {
        srv_loader_free(l);
        return NULL;
    }
    return l;
}

/* Inserts a load into the list of waiting loads, behind all loads whose intervals end no later than
 * its own. The search begins at the end, because the next load of the model with the most loads
 * belongs there. */
static void enqueue_locked(struct srv_loader *l, struct srv_load *load) RT_REQUIRES(l->mu)
{
    struct srv_load_history *history = load->history;
    struct srv_load *at = l->last;

    load->cost_ns =
        load->list_cost_ns + (history->cost_ns ? history->cost_ns : SRV_LOAD_UNKNOWN_NS);
    load->turn_begin_ns = history->turn_end_ns > l->clock_ns ? history->turn_end_ns : l->clock_ns;
    load->turn_end_ns = load->turn_begin_ns + load->cost_ns;
    history->turn_end_ns = load->turn_end_ns;
    while (at && at->turn_end_ns > load->turn_end_ns)
        at = at->previous;
    load->previous = at;
    load->next = at ? at->next : l->first;
    *(at ? &at->next : &l->first) = load;
    *(load->next ? &load->next->previous : &l->last) = load;
}

void srv_loader_submit(struct srv_loader *l, struct srv_load *load)
{
    rt_mutex_lock(&l->mu);
    enqueue_locked(l, load);
    rt_cond_signal(&l->wake);
    rt_mutex_unlock(&l->mu);
}

void srv_loader_free(struct srv_loader *l)
{
    if (!l)
        return;
    rt_mutex_lock(&l->mu);
    l->stopping = true;
    rt_cond_broadcast(&l->wake);
    rt_mutex_unlock(&l->mu);
    for (int i = 0; i < l->n_threads; i++)
        pthread_join(l->threads[i], NULL);
    rt_cond_clear(&l->wake);
    rt_mutex_clear(&l->mu);
    free(l);
}
