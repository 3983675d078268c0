#include "server/protocol/oip/oip.h"

#include "server/base/uri.h"
#include "server/protocol/route.h"

#define SERVICE "/inference.GRPCInferenceService/"

static const struct srv_endpoint live_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.describe = &srv_oip_live_json},
    .grpc = {.describe = &srv_oip_live},
    .grpc_path = SERVICE "ServerLive",
};

static const struct srv_endpoint ready_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.describe = &srv_oip_ready_json},
    .grpc = {.describe = &srv_oip_ready},
    .grpc_path = SERVICE "ServerReady",
};

static const struct srv_endpoint server_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.describe = &srv_oip_server_json},
    .grpc = {.describe = &srv_oip_server},
    .grpc_path = SERVICE "ServerMetadata",
};

static const struct srv_endpoint model_ready_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.describe = &srv_oip_model_ready_json},
    .grpc = {.describe = &srv_oip_model_ready},
    .grpc_path = SERVICE "ModelReady",
};

static const struct srv_endpoint model_call = {
    .api = SRV_METADATA,
    .rest = {.describe = &srv_oip_model_json},
    .grpc = {.describe = &srv_oip_model},
    .grpc_path = SERVICE "ModelMetadata",
};

static const struct srv_endpoint index_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.describe = &srv_oip_index_json},
    .grpc = {.describe = &srv_oip_index},
    .grpc_path = SERVICE "RepositoryIndex",
};

static const struct srv_endpoint load_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.act = &srv_oip_load_json},
    .grpc = {.act = &srv_oip_load},
    .grpc_path = SERVICE "RepositoryModelLoad",
};

static const struct srv_endpoint unload_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.act = &srv_oip_unload_json},
    .grpc = {.act = &srv_oip_unload},
    .grpc_path = SERVICE "RepositoryModelUnload",
};

static const struct srv_endpoint log_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.describe = &srv_oip_log_json},
    .grpc = {.act = &srv_oip_log},
    .grpc_path = SERVICE "LogSettings",
};

static const struct srv_endpoint set_log_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.act = &srv_oip_set_log_json},
};

static const struct srv_endpoint regions_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.describe = &srv_oip_regions_json},
    .grpc = {.describe = &srv_oip_regions},
    .grpc_path = SERVICE "SystemSharedMemoryStatus",
};

static const struct srv_endpoint region_register_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.act = &srv_oip_region_register_json},
    .grpc = {.act = &srv_oip_region_register},
    .grpc_path = SERVICE "SystemSharedMemoryRegister",
};

static const struct srv_endpoint region_unregister_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.act = &srv_oip_region_unregister_json},
    .grpc = {.act = &srv_oip_region_unregister},
    .grpc_path = SERVICE "SystemSharedMemoryUnregister",
};

/* The server refuses the following calls, and the error names the call. Over REST, they are refused
 * with any HTTP method. */
static const struct srv_endpoint trace_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.describe = &srv_oip_refuse_trace},
    .grpc = {.describe = &srv_oip_refuse_trace},
    .grpc_path = SERVICE "TraceSetting",
};

static const struct srv_endpoint cuda_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.describe = &srv_oip_refuse_cuda},
    .grpc = {.describe = &srv_oip_refuse_cuda},
    .grpc_path = SERVICE "CudaSharedMemoryStatus",
};

static const struct srv_endpoint cuda_register_call = {
    .api = SRV_NOT_COUNTED,
    .grpc = {.describe = &srv_oip_refuse_cuda},
    .grpc_path = SERVICE "CudaSharedMemoryRegister",
};

static const struct srv_endpoint cuda_unregister_call = {
    .api = SRV_NOT_COUNTED,
    .grpc = {.describe = &srv_oip_refuse_cuda},
    .grpc_path = SERVICE "CudaSharedMemoryUnregister",
};

static const struct srv_endpoint config_call = {
    .api = SRV_METADATA,
    .rest = {.describe = &srv_oip_config_json},
    .grpc = {.describe = &srv_oip_config},
    .grpc_path = SERVICE "ModelConfig",
};

static const struct srv_endpoint stats_call = {
    .api = SRV_NOT_COUNTED,
    .rest = {.describe = &srv_oip_stats_json},
    .grpc = {.describe = &srv_oip_stats},
    .grpc_path = SERVICE "ModelStatistics",
};

static const struct srv_endpoint infer_call = {
    .api = SRV_INFER,
    .rest = {.infer = &srv_oip_infer_json},
    .grpc = {.infer = &srv_oip_infer},
    .grpc_path = SERVICE "ModelInfer",
    .is_frequent = true,
};

static const struct srv_endpoint stream_call = {
    .api = SRV_NOT_COUNTED,
    .grpc = {.infer = &srv_oip_infer},
    .grpc_path = SERVICE "ModelStreamInfer",
    .stream = &srv_oip_stream,
    .stream_api = SRV_INFER,
};

/* ---- REST routes ---- */

/* Parses "/models/NAME[/versions/V][/ready | /config | /stats | /trace/setting | /infer]", without
 * the prefix. Returns the call, or NULL if the path has another form. */
static const struct srv_endpoint *match_model(struct rt_span s, struct srv_route *out,
                                              struct rt_span *version)
{
    if (!srv_route_take_name(&s, "/", &out->spec.name))
        return NULL;
    if (srv_route_take(&s, "/versions/") && !srv_route_take_name(&s, "/", version))
        return NULL;
    if (!s.n)
        return &model_call;
    if (rt_span_is(s, "/ready"))
        return &model_ready_call;
    if (rt_span_is(s, "/config"))
        return &config_call;
    if (rt_span_is(s, "/stats"))
        return &stats_call;
    if (rt_span_is(s, "/trace/setting"))
        return &trace_call;
    return rt_span_is(s, "/infer") ? &infer_call : NULL;
}

/* Parses "/repository/models/NAME/load" or ".../unload", without the prefix. */
static const struct srv_endpoint *match_repository(struct rt_span s, struct srv_route *out)
{
    if (!srv_route_take_name(&s, "/", &out->spec.name))
        return NULL;
    return rt_span_is(s, "/load") ? &load_call : rt_span_is(s, "/unload") ? &unload_call : NULL;
}

/* Parses "[/region/R]/status", "/region/R/register" or "[/region/R]/unregister". */
static const struct srv_endpoint *match_region(struct rt_span s, struct rt_span *region)
{
    if (srv_route_take(&s, "/region/") && !srv_route_take_name(&s, "/", region))
        return NULL;
    if (rt_span_is(s, "/register"))
        return region->p ? &region_register_call : NULL;
    return rt_span_is(s, "/status")       ? &regions_call
           : rt_span_is(s, "/unregister") ? &region_unregister_call
                                          : NULL;
}

/* Returns the routes that begin as a path does at which nothing is served. */
static const char *routes_like(struct rt_span path)
{
    static const struct {
        const char *begin, *routes;
    } groups[] = {
        {"/v2/health", "there are /v2/health/live and /v2/health/ready"},
        {"/v2/models/",
         "there are /v2/models/MODEL[/versions/VERSION] and behind it /infer, /ready, "
         "/config and /stats"},
        {"/v2/models", "there are /v2/models/MODEL and /v2/models/stats, and POST "
                       "/v2/repository/index lists the models"},
        {"/v2/repository", "there are /v2/repository/index and /v2/repository/models/MODEL/load "
                           "and /unload"},
        {"/v2/systemsharedmemory",
         "there are /v2/systemsharedmemory/status and /unregister, and "
         "/v2/systemsharedmemory/region/REGION/status, /register and /unregister"},
    };

    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (srv_route_take(&path, groups[i].begin))
            return groups[i].routes;
    return "see the Open Inference Protocol, version 2";
}

static enum rt_status route(struct srv_route *out, const char *method, struct rt_span uri,
                            struct rt_arena *arena, struct rt_error *err)
{
    const struct rt_span path = srv_uri_path(uri);
    struct rt_span s = path, version = {0}, region = {0};
    const enum srv_method m = srv_method_of(method);

    if (m == SRV_OPTIONS) {
        out->target = SRV_TO_OPTIONS;
        return RT_OK;
    }
    srv_route_take(&s, "/v2");
    if (!s.n || rt_span_is(s, "/"))
        out->endpoint = &server_call;
    else if (rt_span_is(s, "/health/live"))
        out->endpoint = &live_call;
    else if (rt_span_is(s, "/health/ready"))
        out->endpoint = &ready_call;
    else if (rt_span_is(s, "/models/stats"))
        out->endpoint = &stats_call;
    else if (rt_span_is(s, "/repository/index"))
        out->endpoint = &index_call;
    else if (rt_span_is(s, "/logging"))
        out->endpoint = m == SRV_POST ? &set_log_call : &log_call;
    else if (rt_span_is(s, "/trace/setting"))
        out->endpoint = &trace_call;
    else if (srv_route_take(&s, "/systemsharedmemory"))
        out->endpoint = match_region(s, &region);
    else if (srv_route_take(&s, "/cudasharedmemory/"))
        out->endpoint = &cuda_call;
    else if (srv_route_take(&s, "/repository/models/"))
        out->endpoint = match_repository(s, out);
    else if (srv_route_take(&s, "/models/"))
        out->endpoint = match_model(s, out, &version);
    const struct rt_span shown = rt_error_name(err, path);
    if (!out->endpoint)
        return rt_fail(err, RT_NOT_FOUND, "nothing is served at %.*s: %s", (int)shown.n,
                       (const char *)shown.p, routes_like(path));
    const bool posts =
        out->endpoint == &infer_call || out->endpoint == &index_call || out->endpoint->rest.act;
    const bool is_refused = out->endpoint == &trace_call || out->endpoint == &cuda_call;
    if (!is_refused && m != (posts ? SRV_POST : SRV_GET)) {
        out->endpoint = NULL;
        return rt_fail(err, RT_INVALID_ARGUMENT, "%.*s takes the method %s, not %s", (int)shown.n,
                       (const char *)shown.p, posts ? "POST" : "GET", method);
    }
    if (region.p) {
        out->spec.name = region;
        return srv_route_decode(&out->spec.name, arena, err);
    }
    if (!out->spec.name.p)
        return RT_OK;
    enum rt_status st = srv_route_decode(&out->spec.name, arena, err);
    return st ? st : srv_oip_read_spec(out->spec.name, version, &out->spec, err);
}

/* ---- the table ---- */

static void write_error(struct rt_bytes *out, const char *text)
{
    rt_bytes_adds(out, "{\"error\":");
    srv_json_quote(out, text, strlen(text));
    rt_bytes_adds(out, "}");
}

static const struct srv_endpoint *const endpoints[] = {
    &live_call,
    &ready_call,
    &server_call,
    &model_ready_call,
    &model_call,
    &index_call,
    &load_call,
    &unload_call,
    &config_call,
    &stats_call,
    &infer_call,
    &stream_call,
    &log_call,
    &set_log_call,
    &regions_call,
    &region_register_call,
    &region_unregister_call,
    &trace_call,
    &cuda_call,
    &cuda_register_call,
    &cuda_unregister_call,
};

const struct srv_protocol srv_oip = {
    .root = "/v2",
    .endpoints = endpoints,
    .n_endpoints = sizeof endpoints / sizeof *endpoints,
    .route = route,
    .write_error = write_error,
    .json_length_header = SRV_OIP_LENGTH_HEADER,
    .checks_coding = true,
};
