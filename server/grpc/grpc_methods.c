#include <stdio.h>

#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_methods.h"

/* Maximum size in bytes of the messages of methods that always read them on the I/O loop. */
enum { SMALL = 16 << 10 };

#define PREDICTION "/tensorflow.serving.PredictionService/"
#define MODEL      "/tensorflow.serving.ModelService/"
#define HEALTH     "/grpc.health.v1.Health/"
#define REFLECT    "/ServerReflectionInfo"
#define PROFILER   "/tensorflow.ProfilerService/"

/* clang-format off */
static const struct srv_grpc_method rows[] = {
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

int srv_grpc_services(const struct srv_options *o, struct rt_span *out)
{
    int n = 0;

    for (int i = 0; i < srv_grpc_methods.n; i++) {
        const struct srv_grpc_method *m = &rows[i];
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

const struct srv_grpc_methods srv_grpc_methods = {
    .row = rows,
    .n = sizeof rows / sizeof rows[0],
    .why_unknown = why_unknown,
};
