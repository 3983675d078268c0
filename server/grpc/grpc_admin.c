/* Checks whether a call may perform admin actions. */
#include "server/grpc/grpc_internal.h"
#include "server/protocol/admin.h"

enum rt_status srv_grpc_check_admin(struct srv_call *c)
{
    const struct srv_admin_request r = {
        .what = c->method->path,
        .place = "metadata",
        .authorization = srv_call_metadata(c, "authorization"),
        .is_at_admin_address = c->port->is_admin,
    };

    return srv_admin_check(&c->server->options, &r, &c->err);
}
