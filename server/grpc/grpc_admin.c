/* Checks whether a call may perform admin actions. */
#include "runtime/base/log.h"
#include "server/grpc/grpc_internal.h"
#include "server/protocol/admin.h"
#include "server/versions/model_root.h"

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

enum rt_status srv_grpc_check_admin_files(const struct srv_options *o, struct rt_error *err)
{
    const enum rt_status st = srv_model_root_exists(o->model_root, err);

    return st ? st : srv_admin_check_token_file(o, err);
}

enum rt_status srv_grpc_start_admin(const struct srv_options *o, struct rt_error *err)
{
    enum rt_status st = srv_grpc_check_admin_files(o, err);

    if (!st && !srv_admin_has_address(o) && !*o->admin_token_file)
        RT_LOG(RT_LOG_WARNING, "whoever reaches the gRPC port or the REST port may change which "
                               "models are served (HandleReloadConfigRequest, load and unload): "
                               "see --admin_address, --admin_socket, --admin_token_file and "
                               "--model_root");
    return st;
}
