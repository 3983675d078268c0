/*
 * What is asked about models over gRPC, not of them: bytes of a request to bytes of a response.
 * Nothing here knows gRPC's core.
 *
 * Threads: network threads, within a turn (`map` is the turn's).
 */
#ifndef SRV_GRPC_INFO_H
#define SRV_GRPC_INFO_H

#include "server/predict_proto.h"
#include "server/server.h"

struct srv_info_call {
    struct srv_server *server;
    const struct srv_map *map;
    struct srv_cursor request;
    struct rt_arena *arena;
    struct rt_span model; /* set: the name asked for, for the metrics */
    struct rt_bytes out;
    struct rt_error *err;
};

enum rt_status srv_info_metadata(struct srv_info_call *c);
enum rt_status srv_info_status(struct srv_info_call *c);

enum srv_health { SRV_HEALTH_SERVING = 1, SRV_HEALTH_NOT_SERVING = 2, SRV_HEALTH_UNKNOWN = 3 };
/* The `service` of a HealthCheckRequest; lives in the arena. */
enum rt_status srv_info_health_service(struct srv_info_call *c, struct rt_span *service);
/* "": the server; "PredictionService" and its like: known as that; else a model's name. */
enum srv_health srv_info_health_of(struct srv_server *server, struct rt_span service);
void srv_info_health_write(struct rt_bytes *out, enum srv_health health);

#endif
