/* Implements `slipway run --bench`: measures the duration of runs of a signature. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/print.h"
#include "runtime/base/thread.h"
#include "server/commands/command_run.h"

enum {
    WARM_RUNS = 3,
    /* Minimum number of runs of each thread, regardless of the measuring time. */
    MIN_RUNS = 3,
    MAX_RUNS = 1000000, /* maximum number of runs of all threads */
    MAX_LINE_MS = 3600000,
};

struct bench_thread {
    const struct srv_run *run;
    int64_t min_ns;
    pthread_t thread;
    int64_t *ns;
    int64_t n, capacity;
    enum rt_status status;
    struct rt_error err;
};

static void *bench_thread(void *arg)
{
    struct bench_thread *t = arg;
    const struct srv_run *r = t->run;
    int n_out = r->s->def->n_outputs;
    struct rt_tensor *fetches = calloc((size_t)n_out + 1, sizeof *fetches);
    if (!fetches) {
        t->status = rt_fail_memory(&t->err, "fetches", 0);
        return NULL;
    }
    int64_t end = RT_NEVER;
    for (int64_t i = -WARM_RUNS; !t->status && t->n < t->capacity; i++) {
        int64_t start = rt_now_ns();
        if (i == 0)
            end = start + t->min_ns;
        if (start >= end && t->n >= MIN_RUNS)
            break;
        t->status = srv_run_call(r, r->s->call, fetches, NULL, start, &t->err);
        int64_t took = rt_now_ns() - start;
        if (i >= 0 && !t->status)
            t->ns[t->n++] = took;
        for (int k = 0; k < n_out; k++)
            rt_tensor_clear(&fetches[k]);
    }
    free(fetches);
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

struct bench_times {
    int64_t *ns;
    int64_t n, wall_ns;
    double cpu_ns; /* mean CPU time of the process per run, in nanoseconds */
    double per_s;  /* runs per second, including warm-up runs */
};

static void print_times(const struct srv_run *r, const struct bench_times *t)
{
    int64_t *ns = t->ns, n = t->n;
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    double median = n % 2 ? (double)ns[n / 2] : (double)(ns[n / 2 - 1] + ns[n / 2]) / 2;
    /* with fewer than a hundred runs, the 99th percentile equals the maximum */
    double p99 = (double)ns[n - 1 - n / 100];
    double load_s = (double)r->load_ns / 1e9;
    if (r->json)
        rt_print(stdout,
                 "{\"median_ms\":%.5f,\"p99_ms\":%.5f,\"cpu_ms\":%.5f,\"runs\":%lld,"
                 "\"runs_per_s\":%.3f,\"load_s\":%.4f}\n",
                 median / 1e6, p99 / 1e6, t->cpu_ns / 1e6, (long long)n, t->per_s, load_s);
    else
        rt_print(stdout,
                 "median %.4f ms, 99%% %.4f ms, CPU time %.4f ms a run, load %.3f s; %lld runs, "
                 "%.1f runs/s\n",
                 median / 1e6, p99 / 1e6, t->cpu_ns / 1e6, load_s, (long long)n, t->per_s);
    fflush(stdout);
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static enum rt_status measure(const struct srv_run *r, int64_t min_ns, struct rt_error *err)
{
    int n_threads = (int)r->n_callers;
    struct bench_thread *t = calloc((size_t)n_threads, sizeof *t);
    int64_t capacity = MAX_RUNS / n_threads;
    int64_t *all = calloc((size_t)(capacity * n_threads), sizeof *all);
    struct bench_times times = {.ns = all};
    enum rt_status st = t && all ? RT_OK : rt_fail_memory(err, "the measurement", 0);
    int64_t start = rt_now_ns(), cpu = cpu_ns();
    int started = 0;
    for (; !st && started < n_threads; started++) {
        t[started] = (struct bench_thread){
            .run = r, .min_ns = min_ns, .ns = all + started * capacity, .capacity = capacity};
        if (rt_thread_start(&t[started].thread, "bench", bench_thread, &t[started])) {
            st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "thread %d could not be started", started);
            break;
        }
    }
    for (int i = 0; i < started; i++)
        pthread_join(t[i].thread, NULL);
    times.wall_ns = rt_now_ns() - start;
    for (int i = 0; !st && i < started; i++) {
        st = t[i].status;
        if (st)
            rt_error_copy(err, &t[i].err);
        memmove(all + times.n, t[i].ns, (size_t)t[i].n * sizeof *all);
        times.n += t[i].n;
    }
    if (!st) {
        const double all_runs = (double)(times.n + (int64_t)n_threads * WARM_RUNS);
        times.cpu_ns = (double)(cpu_ns() - cpu) / all_runs;
        times.per_s = all_runs * 1e9 / (double)times.wall_ns;
        print_times(r, &times);
    }
    free(all);
    free(t);
    return st;
}

enum rt_status srv_run_bench(const struct srv_run *r, struct rt_error *err)
{
    if (!r->on_line)
        return measure(r, r->seconds_ms * 1000000, err);
    enum rt_status st = RT_OK;
    char line[32];
    while (!st && fgets(line, sizeof line, stdin)) {
        char *end;
        long ms = strtol(line, &end, 10);
        if (end == line || (*end && *end != '\n') || ms < 0 || ms > MAX_LINE_MS)
            return rt_fail(err, RT_INVALID_ARGUMENT, "--on_line: not milliseconds: %s", line);
        st = measure(r, ms * (int64_t)1000000, err);
    }
    return st;
}
