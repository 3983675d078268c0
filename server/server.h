/*
 * The server: owns every part, starts and stops them in order. What is the process's is not in it:
 * signals, the log and its level, the limit of open files.
 *
 * | thread   | count                   | owns                                                   |
 * |----------|-------------------------|--------------------------------------------------------|
 * | main     | 1                       | configuration, start and stop order, signals           |
 * | network  | REST n, gRPC n          | its connections, requests being read or written        |
 * | accept   | 1, with gRPC            | gRPC's plain sockets (grpc_listen.c)                   |
 * | aside    | 1, with gRPC            | admin actions, large compressed messages of gRPC       |
 * | worker   | one per usable core     | a batch and its context while it runs                  |
 * | helper   | cores - 1, or none      | nothing: runs parts of a large batch on an idle core   |
 * | compile  | 1, of low priority      | plans on their way to being compiled, of all versions  |
 * | timer    | 1                       | what expires in queues, batches whose waiting is over  |
 * | manager  | 1                       | version states, publishing maps                        |
 * | load     | --num_load_threads      | a version from its files to the end of its warm-up     |
 * | warm-up  | per load, while it does | one of the requests that a version is warmed up with   |
 * | unload   | --num_unload_threads    | a version that nobody holds any more                   |
 * | log      | 1                       | the files of the requests' logs                        |
 *
 * And one each while main waits: for the first models, and for the end that has been asked for.
 */
#ifndef SRV_SERVER_H
#define SRV_SERVER_H

#include "runtime/core/op.h"
#include "server/base/budget.h"
#include "server/base/map.h"
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
    struct rt_arena *settings; /* what the options point to besides argv */
    const struct rt_registry *registry;
    _Atomic(const struct srv_map *) map; /* never NULL once started */
    /* Requests that were read and are not answered yet; streams are not counted. */
    _Atomic int rest_requests, grpc_requests;
    struct srv_metrics *metrics;
    struct srv_request_log *request_log;
    struct srv_scheduler *scheduler;
    struct srv_manager *manager;
    bool manager_stopped; /* main thread only */
    struct srv_rest *rest;
    struct srv_grpc *grpc;
    int n_io_loops; /* set before the first map is published, then read-only */
    struct srv_io_loop *io_loops[SRV_MAX_IO_LOOPS];
    _Atomic bool draining;            /* not ready; still answering */
    struct rt_budget run_memory;      /* of all runs of all versions */
    struct rt_idle_cache *idle_cache; /* likewise: what they keep for the next ones */
    struct rt_parallel *parallel;     /* likewise: the cores that they share */
    struct rt_autotune *autotune;     /* of all versions */
    struct rt_compiler *compiler;     /* likewise; NULL: --specialise=off */
    _Atomic int64_t n_accepted;       /* connections, since the start */
    _Atomic int64_t n_calls_freed;    /* of gRPC, since the start: that a burst left behind */
    _Atomic bool has_connections;     /* there were some since the manager looked: manager.h */
    struct srv_budget in_flight;      /* what requests hold, against max_bytes_in_flight */
};

/* Blocks until a signal ends the server. The exit code of the process. */
int srv_server_main(const struct srv_options *options, const struct rt_registry *registry);

#endif
