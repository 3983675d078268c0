/*
 * The counters of metrics.h. metrics.c increments them, and the metrics pages print them.
 *
 * Threads: a cell has one writer, a network thread or a worker, and any number of readers. Cells
 * marked "guarded" have any number of writers, which hold srv_metrics.mu.
 */
#ifndef SRV_METRICS_CELLS_H
#define SRV_METRICS_CELLS_H

#include <stdatomic.h>

#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "server/base/list.h"
#include "server/batching/job.h"
#include "server/metrics/exemplars.h"
#include "server/metrics/last_errors.h"
#include "server/metrics/metrics.h"
#include "server/server.h"

enum {
    SRV_N_CODES = 17,
    SRV_MAX_BUCKETS = 53,
    /* maximum number of batch sizes that have their own padding histogram */
    SRV_MAX_PADDINGS = 32,
    SRV_MAX_UNKNOWN_MODELS =
        64,              /* maximum number of unknown model names that have their own counters */
    SRV_MAX_PATHS = 256, /* maximum number of version directories that have their own counters */
    /* Maximum number of signatures of a version that have their own counters. A signature gets
     * counters at its first request, up to this number. Several network threads that create
     * counters at the same time may exceed the number slightly. */
    SRV_MAX_CALLED = 256,
    /* Time in seconds for which a gone model's counters stay on the metrics page. By default,
     * Prometheus reads the page every minute, so it can read the final values. */
    SRV_GONE_SECONDS = 300,
    /* maximum number of gone models that still have counters */
    SRV_MAX_GONE = 100,
    SRV_MAX_METRICS_PAGE = 1 << 30, /* maximum size of the metrics page in bytes */
};

/* Upper bounds of a histogram's buckets, as in TensorFlow. The first of the `n` bounds is `first`,
 * and each other bound is `factor` times the previous one. A value equal to a bound belongs to the
 * next bucket. A further bucket counts the values at or above the last bound. */
struct srv_scale {
    double first, factor;
    int n;
};
/* 33 bounds, where bound i is `10 * 1.8^i` us (up to about 25 minutes) */
extern const struct srv_scale srv_scale_time;
/* 52 bounds, where bound i is `100 * 1.2^i` us (up to 1 second) */
extern const struct srv_scale srv_scale_queuing;
extern const struct srv_scale srv_scale_graph;    /* 20 bounds, where bound i is `1000 * 2^i` us */
extern const struct srv_scale srv_scale_bytes;    /* 14 bounds, where bound i is `4^i` */
extern const struct srv_scale srv_scale_rows;     /* 14 bounds, where bound i is `2^i` */
extern const struct srv_scale srv_scale_examples; /* 15 bounds, where bound i is `2^i` */

struct srv_times {
    _Atomic uint64_t n[SRV_N_TIMES];
    _Atomic uint64_t sum_ns;
};

struct srv_histogram { /* A histogram of integers. The code that uses it chooses the scale. */
    _Atomic uint64_t n[SRV_MAX_BUCKETS];
    _Atomic uint64_t sum;
};

struct srv_request_cells { /* counters of the requests for a signature on one network thread */
    _Atomic uint64_t codes[SRV_N_JOB_APIS][SRV_N_CODES];
    struct srv_times latency[SRV_N_JOB_APIS];
    _Atomic uint64_t failed_ns; /* time from arrival to response of the requests that failed */
    _Atomic int64_t last_ns;    /* time of the last response by rt_now_ns, or 0 */
    _Atomic(struct srv_exemplars *) exemplars[SRV_N_JOB_APIS]; /* exemplars of `latency` */
};

/* counters of a version's batches on one worker, or of the version's inline batches on one network
 * thread */
struct srv_run_cells {
    struct srv_times queue, run;
    _Atomic(struct srv_exemplars *) queue_exemplars, run_exemplars;
    /* in this histogram, a value equal to a bound belongs to the bucket of that bound */
    _Atomic uint64_t sizes[SRV_N_SIZES];
    _Atomic uint64_t rows, jobs;
};

/* Metrics that TensorFlow counts per process instead of per model. Each worker and network thread
 * has its own counters. */
struct srv_thread_cells {
    _Atomic uint64_t run_ns;
    struct srv_histogram runs, in_bytes, out_bytes; /* `runs` counts microseconds */
    struct srv_histogram queuing, request_rows, batch_rows;
    struct srv_padding {
        /* Number of rows of a batch, including padding. 0 in an unused entry. The last entry counts
         * the batches whose sizes have no other entry. */
        _Atomic int64_t size;
        struct srv_histogram rows;
    } padding[SRV_MAX_PADDINGS];
};

struct srv_model_io_loop { /* counters of the requests for a model on one network thread */
    /* number of requests that were counted without a version (srv_metrics_request) */
    _Atomic uint64_t unversioned[SRV_N_APIS][SRV_N_CODES];
    /* time from queuing to the end of the run, for requests answered with OK */
    struct srv_times runtime[SRV_N_JOB_APIS];
    struct srv_histogram examples;
    struct srv_times gets; /* latency of REST GET requests answered with OK */
    /* sums of the counters of unloaded versions */
    struct srv_request_cells gone;
};

struct srv_model_metrics {
    /* Link in srv_metrics.gone, or zeroed if the model is not gone. srv_metrics.mu guards this
     * member and the next three. */
    struct srv_link gone;
    int64_t gone_ns;          /* time of the last call of srv_metrics_model_gone for this model */
    struct srv_link versions; /* list of the metrics of the model's loaded versions */
    char *name;
    struct srv_model_io_loop *io_loops;
    _Atomic(struct srv_last_errors *) errors;
    _Atomic uint64_t loads_ok, loads_failed; /* the counters below are guarded by srv_metrics.mu */
    struct srv_times load;
    _Atomic uint64_t logged[SRV_N_CODES];
};

struct srv_path_metrics { /* counters of a version's directory; guarded by srv_metrics.mu */
    char *path;           /* allocated by malloc */
    /* the model's name, allocated by malloc; NULL if the version's assets have no ML Metadata
     * UUID */
    char *model;
    uint64_t loads_ok, loads_failed, load_us;
    uint64_t warmed[SRV_N_CODES], warm_records[SRV_N_CODES];
    struct srv_times warming[SRV_N_CODES];
};

struct srv_unknown_model {
    char *name; /* allocated by malloc */
    uint64_t codes[SRV_N_CODES];
};

struct srv_version_metrics {
    struct srv_link link; /* link in model->versions */
    const struct srv_metrics *metrics;
    struct srv_model_metrics *model;
    int64_t version;
    int n_signatures;
    const char *const *signatures; /* names owned by the caller of srv_metrics_version */
    /* Array of `n_signatures + 1` pointers, each to an array of cells indexed by I/O loop. A
     * signature's pointer is NULL until its first request. The last pointer is never NULL. Its
     * cells count requests for dynamic callables and for signatures beyond SRV_MAX_CALLED. */
    _Atomic(struct srv_request_cells *) *requests;
    _Atomic int n_called;       /* number of signatures that have cells */
    struct srv_run_cells *runs; /* array of n_workers + n_io_loops cells */
    struct rt_arena *arena;
};

struct srv_metrics {
    int n_io_loops, n_workers;
    size_t max_page;                  /* SRV_MAX_METRICS_PAGE, except in tests */
    int64_t started_s;                /* start time in seconds since 1970 */
    struct srv_thread_cells *threads; /* array of n_workers + n_io_loops cells */
    struct rt_mutex mu; /* guards the models, `paths`, and the cells marked as guarded */
    int n_models, models_capacity;
    struct srv_model_metrics **models; /* sorted by name */
    struct srv_link gone;              /* gone models, oldest first */
    int n_gone;
    atomic_size_t error_bytes; /* bytes of the last errors of all models */
    /* counters of the requests for all unknown models */
    struct srv_model_metrics *unknown;
    struct srv_path_metrics *paths[SRV_MAX_PATHS]; /* unused entries are NULL */
    /* Number of replaced entries of `paths`. Modulo SRV_MAX_PATHS, it is the index of the oldest
     * entry, which is replaced next. */
    int next_path;
    /* Guards the members below. Network threads acquire this lock, so it is held only briefly.
     * `mu`, in contrast, is held while a page is written. */
    struct rt_mutex brief_mu;
    struct srv_unknown_model unknown_models[SRV_MAX_UNKNOWN_MODELS];
    /* maps the name of an event to a pointer to its uint64_t counter */
    struct rt_map events;
    struct rt_arena *arena; /* the counters of events are allocated in this arena */
};

static inline uint64_t srv_count_of(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}
/* Adds n to a cell. A cell has only one writer, so the addition needs no atomic
 * read-modify-write operation. */
static inline void srv_count_add(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, srv_count_of(c) + n, memory_order_relaxed);
}

/* Adds the cells of `from` to those of `to`. The caller must hold the lock that guards `to`, or be
 * its only user. */
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

/* Returns the cells of signature `s`, indexed by I/O loop, or NULL if there are none. */
static inline const struct srv_request_cells *srv_metrics_cells(const struct srv_version_metrics *v,
                                                                int s)
{
    return atomic_load_explicit(&v->requests[s], memory_order_acquire);
}

/* Adds the cells of `from` to those of `to`. The caller must hold the lock that guards `to`, or be
 * its only user. */
void srv_request_cells_add(struct srv_request_cells *to, const struct srv_request_cells *from);
/* Adds the counters of signature `s` for all requests at one entrypoint to *sum. `io_loop` is the
 * entrypoint's first I/O loop. `first` is the array from srv_metrics_entrypoints. Returns whether
 * the signature has cells. */
bool srv_metrics_add_requests(const struct srv_metrics *m, const int *first,
                              const struct srv_version_metrics *v, int s, int io_loop,
                              struct srv_request_cells *sum);

/* ---- metrics_models.c ---- */

struct srv_model_metrics *srv_metrics_model_new(struct srv_metrics *m, const char *name);
void srv_metrics_model_free(struct srv_metrics *m, struct srv_model_metrics *model);
/* Returns the model's metrics, or NULL if there are none. The caller must hold srv_metrics.mu. */
struct srv_model_metrics *srv_metrics_find(const struct srv_metrics *m, const char *name);
/* Returns the model's metrics, and creates them if necessary. The model is then no longer gone.
 * Returns NULL if memory runs out. The caller must hold srv_metrics.mu. */
struct srv_model_metrics *srv_metrics_model(struct srv_metrics *m, const char *name);

/* ---- for the page ---- */

/* Returns the entrypoint of the I/O loop, "REST" or "GRPC", or "" if the index is out of range. */
const char *srv_metrics_entrypoint(const struct srv_server *server, int io_loop);
/* Sets first[i] to the index of the first I/O loop with the entrypoint of I/O loop i. The metrics
 * page prints one sum per entrypoint. */
void srv_metrics_entrypoints(const struct srv_server *server, int first[SRV_MAX_IO_LOOPS]);
/* Returns whether TensorFlow Serving counts requests of the API `api` over the transport of
 * `io_loop`. TensorFlow Serving counts Predict, Classify and Regress over gRPC, and all requests
 * over REST. */
bool srv_metrics_serving_counts(const struct srv_io_loop *io_loop, enum srv_api api);

#endif
