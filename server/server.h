/*
 * The server owns all its parts, and starts and stops them in order. Signals, the log and its
 * level, and the limit on open files belong to the process and are not part of the struct.
 *
 *   | thread      | count                | owns                                                   |
 *   |-------------|----------------------|--------------------------------------------------------|
 *   | main        | 1                    | configuration, signals, order of start and stop        |
 *   | network     | n per transport      | its connections, and the requests on them              |
 *   | accept      | 1, with gRPC         | gRPC's plain sockets (grpc_listen.c)                   |
 *   | turns       | 1, with gRPC         | the queues of paused connections (read_turns.h)        |
 *   | background  | 7, with gRPC         | other slow work for gRPC calls (grpc_background.c)     |
 *   | metrics     | 1, with REST         | the metrics page while it is written (rest_metrics.c)  |
 *   | description | 1, with REST         | long descriptions of models (rest_background.c)        |
 *   | short-descr | 1, with REST         | shorter ones                                           |
 *   | action      | 1, with REST         | an admin action (rest_action.c)                        |
 *   | page-events | 1, with REST         | an event of the web page, while a browser asks for it  |
 *   | page-plans  | 1, with REST         | a plan, while it is built for the web page             |
 *   | rest-free   | 1, with REST         | calls that use much memory, while they are freed       |
 *   | worker      | 1 per core           | a batch and its context while it runs                  |
 *   | spare       | 1 to 64              | a batch, while the workers are busy (batching.md)      |
 *   | waiting run | --max_waiting_runs   | a batch whose run has waited for another run           |
 *   | GPU worker  | 1 per GPU stream     | a batch for a model on the GPU, while the batch runs   |
 *   | helper      | cores - 1, or 0      | nothing; runs shards of large batches on idle cores    |
 *   | compile     | 1, of low priority   | pending compilations of plans, of all versions         |
 *   | timer       | 1                    | expired jobs, and batches whose wait has ended         |
 *   | reclaimer   | 1                    | the feeds of failed jobs, while they are freed         |
 *   | manager     | 1                    | the states of versions, and the serving maps           |
 *   | lister      | 1, of low priority   | one listing of a version with many files               |
 *   | load        | 4 * num_load_threads | a version while it is loaded and warmed up; and up to  |
 *   |             |                      | 64 whose runs wait (load_queue.h)                      |
 *   | warm-up     | several per load     | a warm-up request of a version                         |
 *   | unload      | --num_unload_threads | a retired version while its memory is freed            |
 *   | snapshot    | 1, after a request   | a snapshot of a version while it is written            |
 *   | request log | 1                    | the files of the request logs                          |
 *   | traces      | 1, --otlp_endpoint   | the connection to the OpenTelemetry collector          |
 *
 * While the main thread waits, one more thread exists. During startup this thread waits for the
 * initial models, and during shutdown it limits the duration of the shutdown.
 */
#ifndef SRV_SERVER_H
#define SRV_SERVER_H

#include "runtime/core/device.h"
#include "runtime/core/pool.h"
#include "runtime/core/registry.h"
#include "server/base/budget.h"
#include "server/base/serving_map.h"
#include "server/config/options.h"

struct srv_scheduler;
struct srv_manager;
struct srv_protocols;
struct srv_metrics;
struct srv_rest;
struct srv_grpc;
struct srv_io_loop;
struct srv_request_log;
struct srv_quota;
struct srv_shared_memory;
struct srv_tracer;
struct srv_profile;

enum { SRV_MAX_IO_LOOPS = 128 };

struct srv_server {
    struct srv_options options;
    struct rt_arena *settings; /* arena of the option values that are not in argv */
    const struct rt_registry *registry;
    const struct srv_protocols *protocols;
    /* the published serving map; not NULL after the server has started */
    _Atomic(const struct srv_map *) map;
    /* numbers of REST and gRPC requests that have been read but not answered, without streams */
    _Atomic int rest_requests, grpc_requests;
    struct srv_metrics *metrics;
    struct srv_request_log *request_log;
    struct srv_tracer *tracer;   /* NULL unless traces are exported */
    struct srv_profile *profile; /* NULL unless the web page is served */
    struct srv_scheduler *scheduler;
    struct srv_manager *manager;
    bool manager_stopped; /* used only by the main thread */
    struct srv_rest *rest;
    struct srv_grpc *grpc;
    /* number of I/O loops; constant after the first serving map is published */
    int n_io_loops;
    struct srv_io_loop *io_loops[SRV_MAX_IO_LOOPS];
    /* whether the server reports that it is not ready, while it still answers requests */
    _Atomic bool draining;
    struct rt_budget run_memory; /* memory budget shared by the runs of all versions */
    /* memory budget of all versions (runtime/session/account.h) */
    struct rt_budget model_memory;
    /* memory of finished runs that later runs of all versions reuse */
    struct rt_idle_cache *idle_cache;
    struct rt_parallel *parallel; /* CPU cores that the runs of all versions share */
    struct rt_accelerators gpus;  /* opened before the first model is loaded, then constant */
    _Atomic bool gpu_failed;      /* whether the process ends because of a failed GPU */
    struct rt_autotune *autotune; /* autotune cache of all versions */
    /* compiler of all versions, or NULL with --specialise=off */
    struct rt_compiler *compiler;
    struct srv_quota *quota; /* quotas of clients, or NULL without --quota_client */
    /* regions of shared memory, or NULL without --system_shared_memory_bytes */
    struct srv_shared_memory *shared_memory;
    struct srv_budget in_flight; /* bytes used by requests, limited by max_bytes_in_flight */
    /* bytes used by the responses to warm-up requests and goldens, with a limit of the same size */
    struct srv_budget replays;
    struct srv_budget replayed_records; /* bytes of their records, with a limit of the same size */
};

/* Runs the server until a signal ends it. Returns the exit code of the process. */
int srv_server_main(const struct srv_options *options, const struct rt_registry *registry);

#endif
