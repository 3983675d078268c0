/*
 * The counters behind metrics.h, for metrics.c, which counts, and for the pages, which print.
 *
 * Threads: a cell has one writer, a network thread or a worker, and any number of readers. Cells
 * marked "guarded" have any number of writers, under srv_metrics.mu.
 */
#ifndef SRV_METRICS_CELLS_H
#define SRV_METRICS_CELLS_H

#include <stdatomic.h>

#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "server/batching/job.h"

enum {
    SRV_N_TIMES = 34, /* buckets of srv_scale_time */
    SRV_N_SIZES = 15, /* buckets of srv_scale_rows */
    SRV_N_CODES = 17,
    SRV_MAX_BUCKETS = 53,
    SRV_MAX_PADDINGS = 32,  /* batch sizes with a histogram of their own */
    SRV_MAX_STRANGERS = 64, /* names of unknown models with counters of their own */
    SRV_MAX_PATHS = 256,    /* directories of loaded versions with counters of their own */
};

/* Upper bounds of a histogram's buckets, as TensorFlow makes them: first, first x factor, ... (n of
 * them), and one more bucket for everything from the last bound on. A value equal to a bound
 * belongs to the next bucket. */
struct srv_scale {
    double first, factor;
    int n;
};
/* bounds in us: 10 x 1.8^i, 33 of them (20 minutes) */
extern const struct srv_scale srv_scale_time;
/* bounds in us: 100 x 1.2^i, 52 of them (1 second) */
extern const struct srv_scale srv_scale_queuing;
extern const struct srv_scale srv_scale_graph;    /* bounds in us: 1000 x 2^i, 20 of them */
extern const struct srv_scale srv_scale_bytes;    /* 4^i, 14 bounds */
extern const struct srv_scale srv_scale_rows;     /* 2^i, 14 bounds */
extern const struct srv_scale srv_scale_examples; /* 2^i, 15 bounds */

struct srv_times {
    _Atomic uint64_t n[SRV_N_TIMES];
    _Atomic uint64_t sum_ns;
};

struct srv_histogram { /* a histogram of integers, whose buckets its user defines */
    _Atomic uint64_t n[SRV_MAX_BUCKETS];
    _Atomic uint64_t sum;
};

struct srv_request_cells { /* cells of one signature on one network thread */
    _Atomic uint64_t codes[SRV_N_JOB_APIS][SRV_N_CODES];
    struct srv_times latency[SRV_N_JOB_APIS];
};

/* cells of one version on one worker, or on one network thread that runs inline */
struct srv_run_cells {
    struct srv_times queue, run;
    /* here a value equal to a bound belongs to that bound's bucket */
    _Atomic uint64_t sizes[SRV_N_SIZES];
    _Atomic uint64_t rows, jobs;
};

/* Numbers that TensorFlow counts for the whole process and not by model: cells of one worker or
 * network thread. */
struct srv_thread_cells {
    _Atomic uint64_t run_ns;
    struct srv_histogram runs, in_bytes, out_bytes; /* runs: microseconds */
    struct srv_histogram queuing, request_rows, batch_rows;
    struct srv_padding {
        /* rows of the padded batch; 0: unused. The last entry counts all other sizes */
        _Atomic int64_t size;
        struct srv_histogram rows;
    } padding[SRV_MAX_PADDINGS];
};

struct srv_model_io_loop { /* cells of one model on one network thread */
    /* Requests that never became a job. */
    _Atomic uint64_t unmade[SRV_N_APIS][SRV_N_CODES];
    /* Time from the queue to the end of the run, for requests answered with OK. */
    struct srv_times runtime[SRV_N_JOB_APIS];
    struct srv_histogram examples;
    struct srv_times gets; /* latency of REST GET requests answered with OK */
    /* sums of the versions that were unloaded */
    struct srv_request_cells gone;
};

struct srv_model_metrics {
    struct srv_model_metrics *next;
    const char *name;
    struct srv_model_io_loop *io_loops;
    _Atomic uint64_t loads_ok, loads_failed; /* guarded by srv_metrics.mu, like the members below */
    struct srv_times load;
    _Atomic uint64_t logged[SRV_N_CODES];
};

struct srv_path_metrics { /* counters of one version's directory; guarded */
    char *path;           /* for free() */
    const char *model;    /* not NULL: the version's assets name it in an ML Metadata store */
    uint64_t loads_ok, loads_failed, load_us;
    uint64_t warmed[SRV_N_CODES], warm_records[SRV_N_CODES];
    struct srv_times warming[SRV_N_CODES];
};

struct srv_stranger {
    char *name; /* for free() */
    uint64_t codes[SRV_N_CODES];
};

struct srv_version_metrics {
    struct srv_version_metrics *next;
    struct srv_model_metrics *model;
    int64_t version;
    int n_signatures;
    const char **signatures;
    /* [io_loop * (n_signatures + 1) + signature]; the last signature is the unknown one */
    struct srv_request_cells *requests;
    struct srv_run_cells *runs; /* [n_workers + n_io_loops] */
    struct rt_arena *arena;
};

struct srv_metrics {
    int n_io_loops, n_workers;
    int64_t started_s;                /* seconds since 1970 */
    struct srv_thread_cells *threads; /* [n_workers + n_io_loops] */
    struct rt_mutex mu; /* guards the lists, events, paths, and the cells marked as guarded */
    struct srv_model_metrics *models;
    struct srv_version_metrics *versions;
    struct srv_model_metrics unknown;              /* requests of all unknown models together */
    struct rt_map events;                          /* name to pointer to uint64_t */
    struct srv_path_metrics *paths[SRV_MAX_PATHS]; /* NULL: unused */
    int next_path; /* index of the path to replace next: the oldest if all are used */
    struct rt_arena *arena;
    struct rt_mutex strangers_mu; /* held only briefly, because network threads wait for it */
    struct srv_stranger strangers[SRV_MAX_STRANGERS];
};

static inline uint64_t srv_count_of(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}
/* A cell has one writer, so no locked instruction is needed. */
static inline void srv_count_add(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, srv_count_of(c) + n, memory_order_relaxed);
}

/* Adds cells: `to` belongs to the caller alone or is guarded. */
static inline void srv_times_add(struct srv_times *to, const struct srv_times *from)
{
    for (int i = 0; i < SRV_N_TIMES; i++)
        srv_count_add(&to->n[i], srv_count_of(&from->n[i]));
    srv_count_add(&to->sum_ns, srv_count_of(&from->sum_ns));
}
static inline bool srv_times_any(const struct srv_times *t)
{
    for (int i = 0; i < SRV_N_TIMES; i++)
        if (srv_count_of(&t->n[i]))
            return true;
    return false;
}

/* ---- for the page ---- */

struct srv_server;
struct rt_bytes;
/* Returns "REST", "GRPC", or "" where no I/O loop has that index. */
const char *srv_metrics_entrypoint(const struct srv_server *server, int io_loop);
bool srv_metrics_same_entrypoint(const struct srv_server *server, int io_loop, int other);
/* Returns whether the I/O loop is the first of its entrypoint: the page sums the loops of an
 * entrypoint. */
bool srv_metrics_is_first(const struct srv_server *server, int io_loop);
/* Returns whether TensorFlow Serving counts such a request: three calls over gRPC, everything over
 * REST. */
bool srv_metrics_serving_counts(const struct srv_io_loop *io_loop, enum srv_api api);
/* Writes TensorFlow's families, sorted by name, all of them even when empty. The caller holds
 * srv_metrics.mu. */
void srv_metrics_serving(struct srv_server *server, struct rt_bytes *out);

#endif
