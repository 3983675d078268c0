/*
 * Slipway's own calls, which other model servers do not have: the gRPC service slipway.Admin
 * (proto/slipway/admin_service.proto). There are no REST calls.
 *
 * Threads: the functions are pure; parsed data is allocated in the arena of the request.
 */
#ifndef SRV_SLIPWAY_H
#define SRV_SLIPWAY_H

#include "server/protocol/protocol.h"

extern const struct srv_protocol srv_slipway;

#endif
