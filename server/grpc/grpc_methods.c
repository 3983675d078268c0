#include <stdio.h>

#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_methods.h"

/* Maximum size in bytes of the messages of methods that are always read on the I/O loop. */
enum { SMALL = 16 << 10 };

#define MODEL    "/tensorflow.serving.ModelService/"
#define HEALTH   "/grpc.health.v1.Health/"
#define REFLECT  "/ServerReflectionInfo"
#define PROFILER "/tensorflow.ProfilerService/"

/* The methods that are not in the tables of the protocols. */
/* clang-format off */
static const struct srv_grpc_method own[] = {
    {MODEL "HandleReloadConfigRequest", SRV_GRPC_BY_PATH, SRV_OTHER, 0, srv_grpc_reload_config,
     NULL, NULL},
    {HEALTH "Check", SRV_GRPC_BY_PATH, SRV_NOT_COUNTED, SMALL, srv_grpc_health_check,
     srv_grpc_health_off, NULL},
    {HEALTH "Watch", SRV_GRPC_BY_PATH, SRV_NOT_COUNTED, SMALL, srv_grpc_health_watch,
     srv_grpc_health_off, NULL},
    {"/grpc.reflection.v1.ServerReflection" REFLECT, SRV_GRPC_BY_PATH, SRV_NOT_COUNTED, SMALL,
     srv_grpc_reflect, srv_grpc_reflection_off, NULL},
    {"/grpc.reflection.v1alpha.ServerReflection" REFLECT, SRV_GRPC_BY_PATH, SRV_NOT_COUNTED, SMALL,
     srv_grpc_reflect, srv_grpc_reflection_off, NULL},
};
/* clang-format on */

static const char *why_unknown(struct rt_span path)
{
    const size_t n = sizeof PROFILER - 1;

    if (path.n >= n && memcmp(path.p, PROFILER, n) == 0)
        return "there is no TensorFlow in this server to profile; the metrics page has its times, "
               "and `slipway run --bench` those of a model";
    return "there is no such method";
}

/* The table of all methods: first those of the protocols, and then `own`. Filled by
 * srv_grpc_methods. */
static struct srv_grpc_method rows[SRV_GRPC_MAX_METHODS];
static struct srv_grpc_methods methods = {.row = rows, .why_unknown = why_unknown};

int srv_grpc_services(const struct srv_options *o, struct rt_span *out)
{
    int n = 0;

    for (int i = 0; i < methods.n; i++) {
        const struct srv_grpc_method *m = &methods.row[i];
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

static struct srv_grpc_method method_of(const struct srv_endpoint *e)
{
    return (struct srv_grpc_method){
        .path = e->grpc_path,
        .kind = e->is_frequent ? SRV_GRPC_REGISTERED : SRV_GRPC_BY_PATH,
        .api = e->api,
        .max_bytes = e->grpc.describe ? SMALL : 0,
        .handle = e->stream       ? srv_grpc_inference_stream
                  : e->grpc.infer ? srv_grpc_inference
                  : e->grpc.act   ? srv_grpc_act
                                  : srv_grpc_describe,
        .off = e->off,
        .endpoint = e,
    };
}

const struct srv_grpc_methods *srv_grpc_methods(const struct srv_protocols *protocols)
{
    int n = 0;

    for (int k = 0; k < protocols->n; k++)
        for (int i = 0; i < protocols->row[k]->n_endpoints; i++)
            if (protocols->row[k]->endpoints[i]->grpc_path && n < SRV_GRPC_MAX_METHODS)
                rows[n++] = method_of(protocols->row[k]->endpoints[i]);
    for (size_t i = 0; i < sizeof own / sizeof *own && n < SRV_GRPC_MAX_METHODS; i++)
        rows[n++] = own[i];
    methods.n = n;
    return &methods;
}
