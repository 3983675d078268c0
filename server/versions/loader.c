#include "server/versions/loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/select/autotune.h"
#include "runtime/base/arena.h"
#include "runtime/base/checked.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/thread.h"
#include "runtime/session/account.h"
#include "server/triton/triton.h"
#include "server/versions/model_gpus.h"

enum { BASE_BYTES = 8 << 20 };

/* Maximum number of stuck loads. A stuck load was stopped and does not end. */
enum { MAX_STUCK = 256 };
/* Used time of a load is at least 1/MAX_WAIT of the time since it began. This matters only if the
 * kernel does not tell whether a thread is blocked. */
enum { MAX_WAIT = 50 };
/* Limits of the time between two calls of srv_loader_advance. RETRY_NS applies while a stopped load
 * has not ended or no thread could be started. */
#define CHECK_MIN_NS INT64_C(10000000)
#define RETRY_NS     INT64_C(100000000)
/* A load whose run began to wait waits no more if its thread has used RESUMED_NS of processor time
 * since then, and a tenth of the time that has passed. */
#define RESUMED_NS INT64_C(5000000)
/* If a load has run for at least LOG_STOPPED_NS when it is stopped, the stop is logged. */
#define LOG_STOPPED_NS INT64_C(2000000000)

/* A thread that runs loads until no waiting load has a slot. */
struct srv_load_thread {
    struct srv_load_thread *next; /* guarded by mu */
    struct srv_loader *loader;
    pthread_t id;          /* guarded by mu */
    int tid;               /* as rt_thread_id, or 0 before the thread runs; guarded by mu */
    struct srv_load *load; /* the current load; guarded by the loader's mu */
    /* whether the thread has ended and can be joined; guarded by the loader's mu */
    bool ended;
};

struct srv_loader {
    struct srv_server *server;
    const struct srv_model_calls *calls;
    const char *const *tags;
    int n_tags;
    void (*done)(void *arg, struct srv_load *load);
    void *arg;
    struct rt_mutex mu;
    struct srv_load_thread *threads; /* guarded by mu */
    int n_threads;                   /* guarded by mu */
    struct srv_load_queue queue;     /* guarded by mu */
    int n_stopping;   /* number of stopped loads that have not ended; guarded by mu */
    int64_t reserved; /* estimated memory of running loads in bytes; guarded by mu */
    /* Time of the latest call of srv_loader_advance, and whether loads waited then. Both belong to
     * the manager's thread. */
    int64_t observed_ns;
    bool observes;
    bool ending; /* whether the loader is being freed; guarded by mu */
};

int64_t srv_loader_estimate(int64_t weight_bytes)
{
    /* Estimates more memory than the weights take, because packed weights are larger and a run
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

/* Refuses a SavedModel file, before reading it, if it is larger than the memory that
 * --total_model_memory_limit_bytes leaves. Ignores a file that cannot be examined, because reading
 * it reports the error. */
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

/* Ends a load's memory reservation, because the machine's free memory now excludes what the load
 * has allocated. */
static void end_reservation(struct srv_loader *l, int64_t need)
{
    rt_mutex_lock(&l->mu);
    l->reserved -= need;
    rt_mutex_unlock(&l->mu);
}

/* Logs the failure of a warm-up request that consists of zeros, with unknown dimensions set to 1. A
 * lack of memory or time is logged as a warning, because real requests may fail for the same
 * reason. Other failures may be harmless. For example, an empty tf.Example lacks the model's
 * features. */
static void warm_up_failed(void *arg, const char *signature, const struct rt_error *err)
{
    const struct srv_load *load = arg;
    const char *why = rt_error_text(err);
    if (atomic_load(&load->cancelled))
        return; /* the failure is not the fault of the signature */
    /* Only the first line is logged. The other lines only describe the node. */
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

static void report_no_room(void *arg, bool waits, const struct rt_error *why)
{
    srv_model_gpus_log_no_room(((const struct srv_load *)arg)->model, waits, why);
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

/* Reads the version's batching parameters, and replays its warm-up and goldens. If this fails,
 * frees the version, which is then not served. */
static enum rt_status validate(struct srv_loader *l, struct srv_load *load)
{
    struct srv_version v = {.model = load->model,
                            .version = load->version,
                            .loaded = load->loaded,
                            .triton = load->triton,
                            .gpu = load->gpu};

    struct rt_session *session = l->calls->validate ? load->loaded->session : NULL;
    if (session) {
        log_timing(load, session);
        /* During the warm-up, code for a new shape is compiled at the shape's first use, instead of
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
    load->batching = v.batching;
    if (st) {
        l->calls->free(load->loaded);
        load->loaded = NULL;
    }
    return st;
}

/* With --allow_unsupported_signatures, logs the signatures that cannot run. Otherwise only refused
 * requests would show them. */
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
    if (load->bf16 == SRV_NO || (load->bf16 == SRV_UNSET && strcmp(o->precision, "bf16") != 0))
        return false;
    /* One log line is enough, because the missing instructions affect all models. */
    static atomic_bool told;
    if (!rt_machine_has_bf16() && !atomic_exchange(&told, true))
        RT_LOG(RT_LOG_WARNING, "model %s: " SRV_NO_BF16, load->model);
    return true;
}

static bool has_warmup(const struct srv_loader *l, const struct srv_load *load)
{
    return (load->triton && load->triton->has_warmup) ||
           (l->calls->has_warmup && l->calls->has_warmup(load->dir));
}

static struct rt_model_options model_options(struct srv_loader *l, struct srv_load *load,
                                             const struct rt_session_accelerators *gpus)
{
    const struct srv_options *o = &l->server->options;
    const struct srv_triton *t = load->triton;
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
                               .bf16 = wants_bf16(o, load),
                               .full_precision = load->gpu.full_precision},
                    .autotune = l->server->autotune,
                    .accelerators = *gpus,
                    .files = {.read_dirs = o->model_read_directories,
                              .write_dirs = o->model_write_directories},
                    .log_device_placement = o->log_device_placement,
                    .cancelled = &load->cancelled},
        .tags = t && t->graph_tag ? &t->graph_tag : l->tags,
        .n_tags = t && t->graph_tag ? 1 : l->n_tags,
        .allow_unsupported_signatures = o->allow_unsupported_signatures,
        .load_all_variables = o->enable_session_service,
        .warm_up = o->enable_model_warmup && !has_warmup(l, load),
        .on_warm_up_failure = warm_up_failed,
        .on_no_room = report_no_room,
        .arg = load,
        .on_wait = &load->on_wait,
    };
}

/* Frees a model that is not served, and its memory account. */
static void drop(struct srv_loader *l, struct srv_load *load)
{
    if (load->loaded)
        l->calls->free(load->loaded);
    rt_account_free(load->account);
    srv_triton_free(load->triton);
    load->loaded = NULL;
    load->account = NULL;
    load->triton = NULL;
}

/* Loads and validates an admitted model on the GPUs. `need` is its estimated memory. */
static enum rt_status load_on(struct srv_loader *l, struct srv_load *load, int64_t need,
                              const struct rt_session_accelerators *gpus)
{
    const struct rt_model_options options = model_options(l, load, gpus);
    enum rt_status st = l->calls->load(&load->loaded, load->dir, &options, &load->err);
    if (!st && load->triton)
        st = srv_triton_check_model(load->triton, load->loaded, &load->err);
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

static enum rt_status load_admitted(struct srv_loader *l, struct srv_load *load, int64_t need)
{
    struct rt_session_accelerators gpus = {0};
    load->gpu = load->gpu_config;
    enum rt_status st =
        srv_model_gpus_add_triton(l->server, load->model, load->triton, &load->gpu, &load->err);
    if (st)
        return st;
    srv_model_gpus_choose(l->server, &load->gpu, load->number, &gpus);
    st = load_on(l, load, need, &gpus);
    if (load->loaded && load->loaded->session)
        rt_session_end_reservations(load->loaded->session);
    return st;
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
    enum rt_status st = srv_triton_read_for(load->dir, &load->triton, &load->err);
    const struct srv_triton *t = load->triton;
    if (!st && t)
        st = srv_triton_check_name(t, load->model, &load->err);
    if (!st)
        st = check_file(l, load);
    const bool has_tag = t && t->graph_tag;
    if (!st)
        st = l->calls->is_complete(load->dir, has_tag ? &t->graph_tag : l->tags,
                                   has_tag ? 1 : l->n_tags, &check, &weight_bytes, &load->err);
    if (st)
        return st;
    /* The configuration of a Triton repository, with its labels, lives as long as the version. */
    const int64_t need = rt_add_saturated(srv_loader_estimate(weight_bytes),
                                          t ? (int64_t)rt_arena_used(t->arena) : 0);
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

/* Fails the load if the version's files have changed or its directory is gone. If listing the
 * directory fails for another reason, such as a lack of descriptors, the load fails with that
 * reason, unless it has already failed. */
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

static void run(struct srv_loader *l, struct srv_load *load)
{
    int64_t start = rt_now_ns();
    if (!atomic_load(&load->cancelled))
        load->status = read_model(l, load);
    /* The directory is checked even after a failed load, because cancellation or a change of the
     * files may explain the failure. */
    if (!atomic_load(&load->cancelled))
        check_unchanged(l, load);
    if (atomic_load(&load->cancelled)) {
        start_over(l, load);
        load->changed = false;
        load->status = RT_CANCELLED;
    }
    if (load->status)
        drop(l, load);
    load->ns = rt_now_ns() - start;
}

/* Takes the next load that has a slot, for a thread whose processor time is `cpu_ns`. Returns NULL
 * if no load has a slot. */
static struct srv_load *begin_locked(struct srv_loader *l, struct srv_load_thread *t,
                                     int64_t cpu_ns) RT_REQUIRES(l->mu)
{
    struct srv_load *load = (struct srv_load *)srv_load_queue_begin(&l->queue);
    if (load) {
        load->thread = t;
        load->begun_ns = rt_now_ns();
        load->begun_cpu_ns = cpu_ns;
        load->blocked_ns = 0;
    }
    return load;
}

/* Ends a load. A load that was stopped waits to begin again instead. Returns whether the load has
 * ended. */
static bool end_locked(struct srv_loader *l, struct srv_load *load) RT_REQUIRES(l->mu)
{
    const bool again =
        load->stopped && load->status == RT_CANCELLED && !load->unwanted && !l->ending;

    l->n_stopping -= load->stopped;
    if (load->queued.place != SRV_LOAD_OUT)
        srv_load_queue_remove(&l->queue, &load->queued);
    load->stopped = false;
    if (!again)
        return true;
    load->err = (struct rt_error){0};
    load->status = RT_OK;
    load->over_memory_limit = false;
    atomic_store(&load->cancelled, false);
    srv_load_queue_add(&l->queue, &load->queued);
    return false;
}

static void *load_thread(void *arg)
{
    struct srv_load_thread *t = arg;
    struct srv_loader *l = t->loader;
    rt_thread_low_priority();
    rt_mutex_lock(&l->mu);
    t->tid = rt_thread_id();
    while (t->load) {
        struct srv_load *load = t->load;
        rt_mutex_unlock(&l->mu);
        run(l, load);
        rt_mutex_lock(&l->mu);
        const bool has_ended = end_locked(l, load);
        t->load = NULL;
        rt_mutex_unlock(&l->mu);
        if (has_ended)
            l->done(l->arg, load);
        rt_mutex_lock(&l->mu);
        t->load = l->ending ? NULL : begin_locked(l, t, rt_thread_cpu_ns());
    }
    t->ended = true;
    rt_mutex_unlock(&l->mu);
    return NULL;
}

/* Starts a thread for each waiting load that has a slot. Returns false if a thread cannot be
 * started. */
static bool start_threads_locked(struct srv_loader *l) RT_REQUIRES(l->mu)
{
    const int max_threads = SRV_LOAD_LEVELS * (l->queue.n_slots + SRV_LOAD_MAX_ASIDE) + MAX_STUCK;
    struct srv_load *load;

    while (!l->ending && (load = begin_locked(l, NULL, 0))) {
        struct srv_load_thread *t = l->n_threads < max_threads ? calloc(1, sizeof *t) : NULL;
        if (t)
            *t = (struct srv_load_thread){.next = l->threads, .loader = l, .load = load};
        if (!t || rt_thread_start(&t->id, "load", load_thread, t)) {
            free(t);
            srv_load_queue_undo_begin(&l->queue, &load->queued);
            return false;
        }
        load->thread = t;
        l->threads = t;
        l->n_threads++;
    }
    return true;
}

/* The hook function of a load's runs. Sets the load aside, so that another load can begin. */
static enum rt_status begin_waiting(void *arg, struct rt_error *err)
{
    struct srv_load *load = arg;
    struct srv_loader *l = load->loader;

    (void)err;
    rt_mutex_lock(&l->mu);
    load->wait_ns = rt_now_ns();
    load->wait_cpu_ns = rt_thread_cpu_ns();
    srv_load_queue_set_blocked(&l->queue, &load->queued, true);
    start_threads_locked(l);
    rt_mutex_unlock(&l->mu);
    return RT_OK;
}

static void join_ended_locked(struct srv_loader *l) RT_REQUIRES(l->mu)
{
    for (struct srv_load_thread **p = &l->threads, *t; (t = *p);) {
        if (!t->ended) {
            p = &t->next;
            continue;
        }
        *p = t->next;
        pthread_join(t->id, NULL);
        free(t);
        l->n_threads--;
    }
}

static int64_t cpu_ns_of(pthread_t thread)
{
    clockid_t clock;
    struct timespec t;
    if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &t))
        return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Adds to blocked_ns the time since the previous observation if the load's thread is blocked now,
 * for example by a disk. The mean error of many observations is 0. A run that has begun to wait
 * counts as blocked until its thread has used more processor time than waiting takes. */
static void observe_locked(struct srv_loader *l, struct srv_load *load, int64_t now_ns,
                           int64_t cpu_ns) RT_REQUIRES(l->mu)
{
    const int64_t since = l->observed_ns > load->begun_ns ? l->observed_ns : load->begun_ns;

    if (load->queued.is_blocked &&
        cpu_ns - load->wait_cpu_ns > RESUMED_NS + (now_ns - load->wait_ns) / 10)
        srv_load_queue_set_blocked(&l->queue, &load->queued, false);
    if (l->observes && now_ns > since && load->thread->tid &&
        (load->queued.is_blocked || rt_thread_is_blocked(load->thread->tid)))
        load->blocked_ns += now_ns - since;
}

static void measure_locked(struct srv_loader *l, int64_t now_ns) RT_REQUIRES(l->mu)
{
    for (int i = 0; i < SRV_LOAD_LEVELS; i++)
        for (struct srv_queued_load *q = l->queue.levels[i].running; q; q = q->next) {
            struct srv_load *load = (struct srv_load *)q;
            const int64_t cpu_ns = cpu_ns_of(load->thread->id);
            const int64_t least_ns = (now_ns - load->begun_ns) / MAX_WAIT;
            observe_locked(l, load, now_ns, cpu_ns);
            q->used_ns = cpu_ns - load->begun_cpu_ns + load->blocked_ns;
            if (q->used_ns < least_ns)
                q->used_ns = least_ns;
        }
    l->observed_ns = now_ns;
}

static bool has_waiting_locked(const struct srv_loader *l) RT_REQUIRES(l->mu)
{
    for (int i = 0; i < SRV_LOAD_LEVELS; i++)
        if (l->queue.levels[i].first)
            return true;
    return false;
}

static void stop_locked(struct srv_loader *l, struct srv_load *load) RT_REQUIRES(l->mu)
{
    load->stopped = true;
    l->n_stopping++;
    atomic_store(&load->cancelled, true);
    if (load->queued.used_ns >= LOG_STOPPED_NS)
        RT_LOG(RT_LOG_WARNING,
               "model %s version %lld takes long to load: after %.1f s its load makes way for "
               "others that take as long, and begins again in its turn",
               load->model, (long long)load->version, (double)load->queued.used_ns / 1e9);
}

int64_t srv_loader_advance(struct srv_loader *l, int64_t now_ns)
{
    rt_mutex_lock(&l->mu);
    join_ended_locked(l);
    measure_locked(l, now_ns);
    struct srv_queued_load *stopped = srv_load_queue_make_way(&l->queue);
    for (struct srv_queued_load *next; stopped; stopped = next) {
        next = stopped->next;
        stop_locked(l, (struct srv_load *)stopped);
    }
    const bool retries = !start_threads_locked(l) || l->n_stopping;
    l->observes = has_waiting_locked(l);
    const int64_t left_ns = srv_load_queue_least_left_ns(&l->queue);
    rt_mutex_unlock(&l->mu);
    if (left_ns > INT64_MAX / 2)
        return retries ? now_ns + RETRY_NS : RT_NEVER;
    if (retries && left_ns > RETRY_NS)
        return now_ns + RETRY_NS;
    return now_ns + (left_ns > CHECK_MIN_NS ? left_ns : CHECK_MIN_NS);
}

struct srv_loader *srv_loader_new(struct srv_server *server, const struct srv_model_calls *calls,
                                  int n_slots, const char *const *tags, int n_tags,
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
    rt_mutex_lock(&l->mu);
    l->queue.n_slots = n_slots;
    rt_mutex_unlock(&l->mu);
    server->model_memory.limit = total_limit(&server->options);
    return l;
}

void srv_loader_submit(struct srv_loader *l, struct srv_load *load)
{
    load->loader = l;
    load->on_wait = (struct rt_wait_hook){.begin = begin_waiting, .arg = load};
    rt_mutex_lock(&l->mu);
    srv_load_queue_add(&l->queue, &load->queued);
    start_threads_locked(l);
    rt_mutex_unlock(&l->mu);
}

/* Removes a waiting load, and ends it as cancelled. */
static void give_up_locked(struct srv_loader *l, struct srv_load *load) RT_REQUIRES(l->mu)
{
    srv_load_queue_remove(&l->queue, &load->queued);
    load->status = RT_CANCELLED;
}

void srv_loader_cancel(struct srv_loader *l, struct srv_load *load)
{
    rt_mutex_lock(&l->mu);
    const bool waits = load->queued.place == SRV_LOAD_WAITS;
    load->unwanted = true;
    atomic_store(&load->cancelled, true);
    if (waits)
        give_up_locked(l, load);
    rt_mutex_unlock(&l->mu);
    if (waits)
        l->done(l->arg, load);
}

/* Removes a waiting load from the queue and returns it. Returns NULL if no load waits. */
static struct srv_load *give_up_one_locked(struct srv_loader *l) RT_REQUIRES(l->mu)
{
    for (int i = 0; i < SRV_LOAD_LEVELS; i++)
        if (l->queue.levels[i].first) {
            struct srv_load *load = (struct srv_load *)l->queue.levels[i].first;
            give_up_locked(l, load);
            return load;
        }
    return NULL;
}

void srv_loader_free(struct srv_loader *l)
{
    if (!l)
        return;
    rt_mutex_lock(&l->mu);
    l->ending = true;
    for (struct srv_load *load; (load = give_up_one_locked(l));) {
        rt_mutex_unlock(&l->mu);
        l->done(l->arg, load);
        rt_mutex_lock(&l->mu);
    }
    rt_mutex_unlock(&l->mu);
    for (struct srv_load_thread *t = l->threads, *next; t; t = next) {
        next = t->next;
        pthread_join(t->id, NULL);
        free(t);
    }
    rt_mutex_clear(&l->mu);
    free(l);
}
