/*
 * The counters behind metrics.h, for metrics.c (which counts) and metrics_page.c (which prints).
 *
 * Threads: each cell has one writer, a network thread or a worker, and is read by anybody.
 */
#ifndef SRV_METRICS_CELLS_H
#define SRV_METRICS_CELLS_H

#include <stdatomic.h>

#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "server/job.h"

enum {
    SRV_N_TIMES = 34, /* 10 us x 1.8^i for i < 33, and what is slower */
    SRV_N_SIZES = 15, /* 1, 2, 4 .. 8192 rows, and what is larger */
    SRV_N_CODES = 17,
    SRV_N_JOB_APIS = SRV_METADATA, /* those that become jobs come first */
    SRV_N_APIS = SRV_OTHER + 1,
};

struct srv_times {
    _Atomic uint64_t n[SRV_N_TIMES];
    _Atomic uint64_t sum_ns;
};

struct srv_request_cells { /* of one signature on one network thread */
    _Atomic uint64_t codes[SRV_N_JOB_APIS][SRV_N_CODES];
    struct srv_times latency[SRV_N_JOB_APIS];
};

struct srv_run_cells { /* of one version on one worker (or network thread that runs inline) */
    struct srv_times queue, run;
    _Atomic uint64_t sizes[SRV_N_SIZES];
    _Atomic uint64_t rows, jobs;
};

struct srv_model_metrics {
    struct srv_model_metrics *next;
    const char *name;
    /* Per network thread: requests that never became a job, by API and code. */
    _Atomic uint64_t (*unmade)[SRV_N_APIS][SRV_N_CODES];
    /* What versions that are gone have counted: per network thread, and of all workers. */
    struct srv_request_cells *gone;
    struct srv_run_cells gone_runs;
    _Atomic uint64_t loads_ok, loads_failed;
    struct srv_times load;
};

struct srv_version_metrics {
    struct srv_version_metrics *next;
    struct srv_model_metrics *model;
    int64_t version;
    int n_signatures;
    const char **signatures;
    struct srv_request_cells *requests; /* [net * (n_signatures + 1) + signature]; last: unknown */
    struct srv_run_cells *runs;         /* [n_workers + n_nets] */
    struct rt_arena *arena;
};

struct srv_metrics {
    int n_nets, n_workers;
    struct rt_mutex mu; /* guards the lists and events */
    struct srv_model_metrics *models;
    struct srv_version_metrics *versions;
    struct srv_model_metrics unknown; /* models that there are not */
    struct rt_map events;             /* name: pointer to uint64_t */
    struct rt_arena *arena;
};

static inline uint64_t srv_count_of(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}
/* One writer: no locked instruction is needed. */
static inline void srv_count_add(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, srv_count_of(c) + n, memory_order_relaxed);
}

#endif
