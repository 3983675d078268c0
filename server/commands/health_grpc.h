/* The question of `slipway health` to a server without REST: the service grpc.health.v1 is asked
 * for the whole server. */
#ifndef SRV_COMMANDS_HEALTH_GRPC_H
#define SRV_COMMANDS_HEALTH_GRPC_H

#include <stdint.h>

#include "runtime/base/status.h"

/* Asks the plain gRPC port of this machine, with four seconds for the answer. UNAVAILABLE: the
 * server is not ready. Else the status is the call's, with its text. */
enum rt_status srv_health_by_grpc(int64_t port, struct rt_error *err);

#endif
