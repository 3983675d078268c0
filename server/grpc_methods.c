#include <stdio.h>

#include "server/grpc_call.h"

enum { SMALL = 1 << 20 };

#define PREDICTION "/tensorflow.serving.PredictionService/"
#define MODEL      "/tensorflow.serving.ModelService/"
#define HEALTH     "/grpc.health.v1.Health/"
#define REFLECT    "/ServerReflectionInfo"
#define PROFILER   "/tensorflow.ProfilerService/"

/* clang-format off */
const struct srv_grpc_method srv_grpc_methods[] = {
    {PREDICTION "Predict", SRV_GRPC_REGISTERED, SRV_PREDICT, 0, srv_grpc_inference, NULL},
    {PREDICTION "Classify", SRV_GRPC_REGISTERED, SRV_CLASSIFY, 0, srv_grpc_inference, NULL},
    {PREDICTION "Regress", SRV_GRPC_REGISTERED, SRV_REGRESS, 0, srv_grpc_inference, NULL},
    {PREDICTION "MultiInference", SRV_GRPC_BY_PATH, SRV_MULTI_INFERENCE, 0, srv_grpc_inference,
     NULL},
    {"/tensorflow.serving.SessionService/SessionRun", SRV_GRPC_BY_PATH, SRV_SESSION_RUN, 0,
     srv_grpc_inference, srv_grpc_session_off},
    {PREDICTION "GetModelMetadata", SRV_GRPC_BY_PATH, SRV_METADATA, SMALL,
     srv_grpc_get_model_metadata, NULL},
    {MODEL "GetModelStatus", SRV_GRPC_BY_PATH, SRV_STATUS, SMALL, srv_grpc_get_model_status, NULL},
    {MODEL "HandleReloadConfigRequest", SRV_GRPC_BY_PATH, SRV_OTHER, 0, srv_grpc_reload_config,
     NULL},
    {HEALTH "Check", SRV_GRPC_BY_PATH, SRV_NOT_COUNTED, SMALL, srv_grpc_health_check,
     srv_grpc_health_off},
    {HEALTH "Watch", SRV_GRPC_BY_PATH, SRV_NOT_COUNTED, SMALL, srv_grpc_health_watch,
     srv_grpc_health_off},
    {"/grpc.reflection.v1.ServerReflection" REFLECT, SRV_GRPC_BY_PATH, SRV_NOT_COUNTED, SMALL,
     srv_grpc_reflect, srv_grpc_reflection_off},
    {"/grpc.reflection.v1alpha.ServerReflection" REFLECT, SRV_GRPC_BY_PATH, SRV_NOT_COUNTED, SMALL,
     srv_grpc_reflect, srv_grpc_reflection_off},
};
/* clang-format on */
const int srv_grpc_n_methods = sizeof srv_grpc_methods / sizeof srv_grpc_methods[0];

const struct srv_grpc_method *srv_grpc_find_method(grpc_slice path)
{
    for (int i = 0; i < srv_grpc_n_methods; i++)
        if (grpc_slice_str_cmp(path, srv_grpc_methods[i].path) == 0)
            return &srv_grpc_methods[i];
    return NULL;
}

int srv_grpc_services(const struct srv_options *o, struct rt_span *out)
{
    int n = 0;

    for (int i = 0; i < srv_grpc_n_methods; i++) {
        const struct srv_grpc_method *m = &srv_grpc_methods[i];
        const char *slash = strrchr(m->path, '/');
        struct rt_span name = rt_span_of(m->path + 1, (size_t)(slash - m->path) - 1);
        int k = 0;
        while (k < n && !rt_span_eq(out[k], name))
            k++;
        if (k == n && n < SRV_GRPC_MAX_SERVICES && !(m->off && m->off(o)))
            out[n++] = name;
    }
    return n;
}

const char *srv_grpc_health_off(const struct srv_options *o)
{
    return o->enable_grpc_healthcheck_service
               ? NULL
               : "the health service is off: --enable_grpc_healthcheck_service";
}

static const char *why_unknown(struct rt_span path)
{
    const size_t n = sizeof PROFILER - 1;

    if (path.n >= n && memcmp(path.p, PROFILER, n) == 0)
        return "there is no TensorFlow in this server to profile; the metrics page has its times, "
               "and `slipway run --bench` those of a model";
    return "there is no such method";
}

void srv_grpc_refuse_unknown(struct srv_call *c)
{
    struct rt_span path = srv_call_text(c, c->details.method);
    const char *why = c->method ? c->method->off(&c->server->options) : why_unknown(path);

    c->method = NULL;
    srv_call_fail(c, rt_fail(&c->err, RT_UNIMPLEMENTED, "%.*s: %s",
                             (int)(path.n < 300 ? path.n : 300), (const char *)path.p, why));
}
