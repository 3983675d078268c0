/*
 * The gRPC transport over gRPC's C core, as the server starts and ends it. grpc_call.h is what the
 * handlers of its services see, grpc_parts.h says which file does what.
 */
#ifndef SRV_GRPC_H
#define SRV_GRPC_H

#include "server/server.h"

struct srv_grpc_methods;                               /* grpc_call.h */
extern const struct srv_grpc_methods srv_grpc_methods; /* all that this server answers */

/* `methods` must outlive it. */
enum rt_status srv_grpc_start(struct srv_server *server, const struct srv_grpc_methods *methods,
                              struct srv_grpc **out, struct rt_error *err);
/* Binds and begins to accept; gRPC's core can do so once per server, so this also starts it. */
enum rt_status srv_grpc_listen(struct srv_grpc *g, const char *address, int port, int *bound,
                               struct rt_error *err);
/* What srv_grpc_start and srv_grpc_listen would refuse before anything is bound; starts nothing. */
enum rt_status srv_grpc_check(const struct srv_options *o, struct rt_error *err);
void srv_grpc_quiesce(struct srv_grpc *g); /* no new calls; those in flight go on */
int srv_grpc_in_flight(struct srv_grpc *g);
void srv_grpc_cancel_all(struct srv_grpc *g);
void srv_grpc_stop(struct srv_grpc *g);

#endif
