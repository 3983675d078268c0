/*
 * Starts and stops the gRPC transport, which is built on gRPC's C core. grpc_call.h is the
 * interface for the handlers of the services. grpc_internal.h lists the transport's files and their
 * purposes.
 */
#ifndef SRV_GRPC_H
#define SRV_GRPC_H

#include "server/server.h"

struct srv_grpc_methods; /* grpc_methods.h */

/* Creates the gRPC transport. `methods` must outlive *out. */
enum rt_status srv_grpc_start(struct srv_server *server, const struct srv_grpc_methods *methods,
                              struct srv_grpc **out, struct rt_error *err);
/* Binds the addresses, starts the core's server objects, and begins to accept connections. May be
 * called only once, because the core can start a server only once. */
enum rt_status srv_grpc_listen(struct srv_grpc *g, const char *address, int port, int *bound,
                               struct rt_error *err);
/* Reports the errors that srv_grpc_start or srv_grpc_listen would find before they bind an address.
 * Starts nothing. */
enum rt_status srv_grpc_check(const struct srv_options *o, struct rt_error *err);
/* Stops accepting calls. Running calls continue. */
void srv_grpc_quiesce(struct srv_grpc *g);
int srv_grpc_in_flight(struct srv_grpc *g);
void srv_grpc_cancel_all(struct srv_grpc *g);
void srv_grpc_stop(struct srv_grpc *g);

#endif
