/* Implements `slipway health` for servers without a REST port: queries the health of the whole
 * server through the service grpc.health.v1. */
#ifndef SRV_COMMANDS_HEALTH_GRPC_H
#define SRV_COMMANDS_HEALTH_GRPC_H

#include <stdint.h>

#include "runtime/base/status.h"

/* Queries the gRPC port of this machine, without TLS and with a timeout of four seconds. If the
 * call fails, returns its status and error message. If the server is not ready, returns
 * UNAVAILABLE. */
enum rt_status srv_health_by_grpc(int64_t port, struct rt_error *err);

#endif
