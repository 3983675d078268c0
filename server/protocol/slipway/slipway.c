#include "server/protocol/slipway/slipway.h"

#include <string.h>

#include "server/base/number.h"
#include "server/base/wire.h"
#include "server/versions/manager.h"
#include "server/versions/snapshot.h"

enum { /* field numbers of SnapshotRequest and SnapshotResponse */
       REQUEST_MODEL = 1,
       REQUEST_VERSION = 2,
       REQUEST_OUTPUT = 3,
       RESPONSE_VERSION = 1,
       RESPONSE_PATH = 2,
       RESPONSE_FROM = 3,
};

static enum rt_status read_version(struct rt_span text, struct srv_model_spec *spec,
                                   struct rt_error *err)
{
    const struct rt_span shown = rt_error_name(err, text);

    if (text.n == 0)
        return RT_OK;
    spec->has_version = srv_parse_int64((const char *)text.p, text.n, &spec->version);
    return spec->has_version ? RT_OK
                             : rt_fail(err, RT_INVALID_ARGUMENT,
                                       "SnapshotRequest.version \"%.*s\" is not a number",
                                       (int)shown.n, (const char *)shown.p);
}

static enum rt_status read_request(struct srv_action *a, struct rt_span *output)
{
    struct srv_cursor at = a->message;
    struct rt_span version = {0};
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    while (!st && (got = srv_field_next(&at, &f)) > 0) {
        if (srv_field_is(&f, REQUEST_MODEL, SRV_BYTES))
            st = srv_field_span(&f, &a->spec.name, a->arena, a->err);
        else if (srv_field_is(&f, REQUEST_VERSION, SRV_BYTES))
            st = srv_field_span(&f, &version, a->arena, a->err);
        else if (srv_field_is(&f, REQUEST_OUTPUT, SRV_BYTES))
            st = srv_field_span(&f, output, a->arena, a->err);
    }
    if (!st && got < 0)
        return srv_wire_malformed(a->err, "SnapshotRequest");
    if (!st && a->spec.name.n == 0)
        return rt_fail(a->err, RT_INVALID_ARGUMENT, "SnapshotRequest.model is missing");
    return st ? st : read_version(version, &a->spec, a->err);
}

/* Runs on the thread of snapshots. */
static void written(void *arg, enum rt_status st, const struct srv_snapshot *out, int64_t from,
                    const struct rt_error *err)
{
    struct srv_action *a = arg;

    if (st) {
        rt_error_copy(a->err, err);
    } else {
        srv_put_int(a->out, RESPONSE_VERSION, (uint64_t)out->version);
        srv_put_text(a->out, RESPONSE_PATH, out->path);
        srv_put_int(a->out, RESPONSE_FROM, (uint64_t)from);
    }
    a->done(a, st);
}

static void write_snapshot(struct srv_action *a)
{
    struct rt_span output = {0};
    enum rt_status st = read_request(a, &output);

    if (!st)
        st = srv_manager_snapshot(a->server->manager, &a->spec, output, a->cancelled, written, a,
                                  a->err);
    if (st)
        a->done(a, st);
}

static const struct srv_action_steps snapshot_steps = {.perform = write_snapshot, .is_admin = true};

static const struct srv_endpoint snapshot_call = {
    .api = SRV_OTHER,
    .grpc = {.act = &snapshot_steps},
    .grpc_path = "/slipway.Admin/Snapshot",
};

static const struct srv_endpoint *const endpoints[] = {&snapshot_call};

const struct srv_protocol srv_slipway = {
    .endpoints = endpoints,
    .n_endpoints = sizeof endpoints / sizeof *endpoints,
};
