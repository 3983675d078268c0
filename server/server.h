/*
 * The server owns all its parts, and starts and stops them in order. Signals, the log and its
 * level, and the limit on open files belong to the process and are not part of the struct.
 *
 *   | thread      | count                | owns                                                   |
 *   |-------------|----------------------|--------------------------------------------------------|
 *   | main        | 1                    | configuration, signals, order of start and stop        |
 *   | network     | n per transport      | its connections, and the requests on them              |
 *   | accept      | 1, with gRPC         | gRPC's plain sockets (grpc_listen.c)                   |
 *   | turns       | 1, with gRPC         | the ends of gRPC connections' pauses (read_turns.h)    |
 *   | aside       | 3, with gRPC         | other slow work for gRPC calls (grpc_aside.c)          |
 *   | metrics     | 1, with REST         | the metrics page while it is written (rest_metrics.c)  |
 *   | description | 1, with REST         | descriptions of large models (rest_aside.c)            |
 *   | worker      | 1 per core, 1 spare  | a batch and its context while it runs                  |
 *   | helper      | cores - 1, or 0      | nothing; runs shards of large batches on idle cores    |
 *   | compile     | 1, of low priority   | pending compilations of plans, of all versions         |
 *   | timer       | 1                    | expired jobs, and batches whose wait has ended         |
 *   | manager     | 1                    | the states of versions, and the serving maps           |
 *   | load        | --num_load_threads   | a version from its files to the end of its warm-up     |
 *   | warm-up     | several per load     | a request of the warm-up of a version                  |
 *   | unload      | --num_unload_threads | a version without handles                              |
 *   | request log | 1                    | the files of the request logs                          |
 *
 * While the main thread waits, one more thread exists. During startup this thread waits for the
 * initial models, and during shutdown it limits the duration of the shutdown.
 */
#ifndef SRV_SERVER_H
#define SRV_SERVER_H

#include "runtime/core/pool.h"
#include "runtime/core/registry.h"
#include "server/base/budget.h"
#include "server/base/serving_map.h"
#include "server/config/options.h"

struct srv_scheduler;
struct srv_manager;
struct srv_metrics;
struct srv_rest;
struct srv_grpc;
struct srv_io_loop;
struct srv_request_log;

enum { SRV_MAX_IO_LOOPS = 128 };

struct srv_server {
    struct srv_options options;
    struct rt_arena *settings; /* arena of the options that do not point into argv */
    const struct rt_registry *registry;
    /* the published serving map; never NULL once the server has started */
    _Atomic(const struct srv_map *) map;
    /* Number of requests that were read but are not answered yet, not counting streams. */
    _Atomic int rest_requests, grpc_requests;
    struct srv_metrics *metrics;
    struct srv_request_log *request_log;
    struct srv_scheduler *scheduler;
    struct srv_manager *manager;
    bool manager_stopped; /* used only by the main thread */
    struct srv_rest *rest;
    struct srv_grpc *grpc;
    /* number of I/O loops; set before the first serving map is published, then read-only */
    int n_io_loops;
    struct srv_io_loop *io_loops[SRV_MAX_IO_LOOPS];
    /* whether the server reports that it is not ready, although it still answers requests */
    _Atomic bool draining;
    struct rt_budget run_memory; /* memory used by the runs of all versions, and the limit for it */
    /* memory budget that all versions share (runtime/session/account.h) */
    struct rt_budget model_memory;
    /* memory that the finished runs of all versions keep for later runs */
    struct rt_idle_cache *idle_cache;
    struct rt_parallel *parallel; /* CPU cores shared by the runs of all versions */
    struct rt_autotune *autotune; /* autotune cache shared by all versions */
    /* compiler shared by all versions, or NULL with --specialise=off */
    struct rt_compiler *compiler;
    _Atomic int64_t n_accepted; /* number of connections accepted since the server started */
    /* number of gRPC calls that were freed, since the server started, because a loop's free list
     * was full */
    _Atomic int64_t n_calls_freed;
    /* set when connections exist; cleared by the manager when it checks (manager.h) */
    _Atomic bool has_connections;
    struct srv_budget in_flight; /* bytes that requests hold, limited by max_bytes_in_flight */
};

/* Runs the server until a signal ends it. Returns the exit code of the process. */
int srv_server_main(const struct srv_options *options, const struct rt_registry *registry);

#endif
