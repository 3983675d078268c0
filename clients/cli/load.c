#include "clients/cli/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/print.h"

enum { LATE_NS = 1000000, PROGRESS_NS = 1000000000 };

struct load;
struct thread {
    struct load *load;
    pthread_t id;
    /* The connection to the server. Over REST, each thread has its own connection. Over gRPC,
     * threads share connections. */
    struct cl_remote *remote;
    struct cl_histogram latency, service;
    _Atomic int64_t n_ok, n_failed, n_wrong, n_late;
};

struct load {
    const struct cl_load *options;
    /* Successful shots that are due before measure_ns belong to the warm-up, and do not count. */
    int64_t start_ns, measure_ns, end_ns;
    _Atomic int64_t next;
    _Atomic bool stop;
    _Atomic int n_running;
    struct rt_mutex mu;
    struct rt_cond over; /* signalled when n_running becomes 0 */
    /* mu guards the members `faults`, `n_faults` and `first_wrong` of *result */
    struct cl_result *result;
};

/* ---- judging ---- */

static void count_fault(struct load *l, const struct rt_error *err)
{
    struct cl_result *r = l->result;
    rt_mutex_lock(&l->mu);
    int i = 0;
    while (i < r->n_faults && r->faults[i].code != err->code)
        i++;
    if (i < CL_MAX_FAULTS) {
        if (i == r->n_faults) {
            r->faults[r->n_faults++].code = err->code;
            snprintf(r->faults[i].text, CL_FAULT_TEXT, "%s", rt_error_text(err));
        }
        r->faults[i].n++;
    }
    rt_mutex_unlock(&l->mu);
}

static bool same_bodies(struct rt_span got, struct rt_span want, double tolerance,
                        struct rt_error *why)
{
    json_t *a = NULL, *b = NULL;
    bool same = !cl_json_load(got, &a, why) && !cl_json_load(want, &b, why) &&
                cl_same_json(a, b, tolerance, why);
    json_decref(a);
    json_decref(b);
    return same;
}

static bool is_right(const struct thread *t, const struct cl_shot *shot,
                     const struct rt_bytes *response, struct rt_error *why)
{
    double tolerance = t->load->options->tolerance;
    struct rt_span got = rt_span_of(response->p, response->n);
    if (tolerance < 0 || !shot->want.p || rt_span_eq(got, shot->want))
        return true;
    return t->remote->rest ? same_bodies(got, shot->want, tolerance, why)
                           : cl_same_responses(shot->type, got, shot->want, tolerance, why);
}

static void judge(struct thread *t, const struct cl_shot *shot, const struct rt_bytes *response,
                  enum rt_status st, struct rt_error *err)
{
    struct load *l = t->load;
    if (st) {
        count_fault(l, err);
        atomic_fetch_add(&t->n_failed, 1);
    } else if (is_right(t, shot, response, err))
        atomic_fetch_add(&t->n_ok, 1);
    else {
        rt_mutex_lock(&l->mu);
        if (!*l->result->first_wrong)
            snprintf(l->result->first_wrong, CL_FAULT_TEXT, "%s", rt_error_text(err));
        rt_mutex_unlock(&l->mu);
        atomic_fetch_add(&t->n_wrong, 1);
    }
}

/* ---- the threads ---- */

static void sleep_until(int64_t ns)
{
    const struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    struct load *l = t->load;
    const struct cl_load *options = l->options;
    struct rt_bytes response, kept;
    rt_bytes_init(&response, t->remote->max_bytes);
    rt_bytes_init(&kept, SIZE_MAX);
    while (!atomic_load(&l->stop)) {
        int64_t i = atomic_fetch_add(&l->next, 1), due = rt_now_ns();
        struct cl_shot shot;
        if (options->rate > 0) {
            due = l->start_ns + (int64_t)((double)i * 1e9 / options->rate);
            if (due >= l->end_ns)
                break;
            if (due > rt_now_ns())
                sleep_until(due);
        }
        if ((options->max_shots && i >= options->max_shots) ||
            !options->source.next(options->source.arg, i, &shot, &kept))
            break;
        struct rt_error err = {0};
        int64_t sent = rt_now_ns();
        if (sent >= l->end_ns && !(options->rate > 0))
            break;
        enum rt_status st = cl_shoot(t->remote, &shot, &response, &err);
        int64_t done = rt_now_ns();
        if (due < l->measure_ns && !st)
            continue;
        if (!st) {
            cl_histogram_add(&t->latency, done - due);
            cl_histogram_add(&t->service, done - sent);
        }
        if (options->rate > 0 && sent - due > LATE_NS)
            atomic_fetch_add(&t->n_late, 1);
        judge(t, &shot, &response, st, &err);
        /* Waits before the next request, to avoid a busy loop while no server listens. */
        if (st == RT_UNAVAILABLE)
            sleep_until(rt_now_ns() + 1000000);
    }
    rt_bytes_clear(&response);
    rt_bytes_clear(&kept);
    rt_mutex_lock(&l->mu);
    if (atomic_fetch_sub(&l->n_running, 1) == 1)
        rt_cond_broadcast(&l->over);
    rt_mutex_unlock(&l->mu);
    return NULL;
}

/* ---- the whole load ---- */

static void sum(const struct thread *threads, int64_t n, struct cl_result *r)
{
    r->n_ok = r->n_failed = r->n_wrong = r->n_late = 0;
    memset(r->latency, 0, sizeof *r->latency);
    memset(r->service, 0, sizeof *r->service);
    for (int64_t i = 0; i < n; i++) {
        r->n_ok += atomic_load(&threads[i].n_ok);
        r->n_failed += atomic_load(&threads[i].n_failed);
        r->n_wrong += atomic_load(&threads[i].n_wrong);
        r->n_late += atomic_load(&threads[i].n_late);
        cl_histogram_merge(r->latency, &threads[i].latency);
        cl_histogram_merge(r->service, &threads[i].service);
    }
}

static void show_progress(const struct load *l, const struct cl_result *r, int64_t now)
{
    double s = (double)(now - l->measure_ns) / 1e9;
    int64_t n = r->n_ok + r->n_wrong;
    if (s < 0)
        rt_print(stderr, "\rwarming up");
    else
        rt_print(stderr, "\r%4.0f s  %9.1f/s  p50 %.2f ms  p99 %.2f ms  failed %lld  wrong %lld   ",
                 s, s > 0 ? (double)n / s : 0, (double)cl_histogram_quantile(r->latency, 0.5) / 1e6,
                 (double)cl_histogram_quantile(r->latency, 0.99) / 1e6, (long long)r->n_failed,
                 (long long)r->n_wrong);
    fflush(stderr);
}

static void wait_for_end(struct load *l, const struct thread *threads)
{
    int64_t tick = l->start_ns + PROGRESS_NS;
    rt_mutex_lock(&l->mu);
    while (atomic_load(&l->n_running)) {
        if (rt_cond_wait_until(&l->over, &l->mu, tick))
            continue;
        tick += PROGRESS_NS;
        rt_mutex_unlock(&l->mu);
        if (l->options->progress) {
            sum(threads, l->options->n_threads, l->result);
            show_progress(l, l->result, rt_now_ns());
        }
        rt_mutex_lock(&l->mu);
    }
    rt_mutex_unlock(&l->mu);
    if (l->options->progress)
        rt_print(stderr, "\n");
}

static enum rt_status start(struct load *l, struct thread *threads, struct rt_error *err)
{
    const struct cl_load *a = l->options;
    l->start_ns = rt_now_ns();
    l->measure_ns = l->start_ns + (int64_t)(a->warmup_s * 1e9);
    l->end_ns = a->seconds > 0 ? l->measure_ns + (int64_t)(a->seconds * 1e9) : RT_NEVER;
    for (int64_t i = 0; i < a->n_threads; i++) {
        atomic_fetch_add(&l->n_running, 1);
        int e = rt_thread_start(&threads[i].id, "bench", run_thread, &threads[i]);
        if (!e)
            continue;
        atomic_fetch_sub(&l->n_running, 1);
        atomic_store(&l->stop, true);
        for (int64_t k = 0; k < i; k++)
            pthread_join(threads[k].id, NULL);
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "thread %lld: %s", (long long)i, strerror(e));
    }
    return RT_OK;
}

static enum rt_status run(struct load *l, struct thread *threads, struct cl_remote *remotes,
                          struct rt_arena *arena, struct rt_error *err)
{
    const struct cl_load *a = l->options;
    enum rt_status st = RT_OK;
    /* Each thread opens its own HTTP connection, which carries one request at a time. Threads share
     * a gRPC connection, which carries many requests at a time. */
    bool is_rest = strncmp(a->target->server, "http", 4) == 0;
    int64_t n = is_rest || a->n_connections > a->n_threads ? a->n_threads : a->n_connections;
    for (int64_t i = 0; i < n && !st; i++)
        st = cl_remote_open(&remotes[i], a->target, arena, err);
    for (int64_t i = 0; i < a->n_threads; i++)
        threads[i] = (struct thread){.load = l, .remote = &remotes[i % n]};
    if (!st)
        st = start(l, threads, err);
    if (!st) {
        wait_for_end(l, threads);
        int64_t end = rt_now_ns();
        for (int64_t i = 0; i < a->n_threads; i++)
            pthread_join(threads[i].id, NULL);
        l->result->seconds = (double)(end - l->measure_ns) / 1e9;
        sum(threads, a->n_threads, l->result);
    }
    for (int64_t i = 0; i < n; i++)
        cl_remote_close(&remotes[i]);
    return st;
}

enum rt_status cl_load_run(const struct cl_load *options, struct cl_result *out,
                           struct rt_error *err)
{
    struct load l = {.options = options, .result = out};
    struct thread *threads = calloc((size_t)options->n_threads, sizeof *threads);
    struct cl_remote *remotes = calloc((size_t)options->n_threads, sizeof *remotes);
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    *out = (struct cl_result){.latency = calloc(1, sizeof *out->latency),
                              .service = calloc(1, sizeof *out->service)};
    enum rt_status st = RT_RESOURCE_EXHAUSTED;
    if (!threads || !remotes || !arena || !out->latency || !out->service)
        rt_fail_memory(err, "the threads", (size_t)options->n_threads * sizeof *threads);
    else {
        rt_mutex_init(&l.mu);
        rt_cond_init(&l.over);
        st = run(&l, threads, remotes, arena, err);
        rt_cond_clear(&l.over);
        rt_mutex_clear(&l.mu);
    }
    free(threads);
    free(remotes);
    rt_arena_free(arena);
    return st;
}

void cl_result_clear(struct cl_result *r)
{
    free(r->latency);
    free(r->service);
    r->latency = r->service = NULL;
}
