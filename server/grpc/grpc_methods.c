#include <assert.h>

#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_methods.h"

/* Maximum size in bytes of the messages of methods that are always read on the I/O loop. */
enum { SMALL = 16 << 10 };

#define HEALTH  "/grpc.health.v1.Health/"
#define REFLECT "/ServerReflectionInfo"

/* The methods that are not in the tables of the protocols. */
/* clang-format off */
static const struct srv_grpc_method own[] = {
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

/* The protocols whose methods are in the table. Set by srv_grpc_methods. */
static const struct srv_protocols *known;

static const char *why_unknown(struct rt_span path)
{
    const char *why = NULL;

    for (int k = 0; k < known->n && !why; k++)
        if (known->row[k]->why_unknown)
            why = known->row[k]->why_unknown(path);
    return why ? why : "there is no such method";
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
        if (k < n || (m->off && m->off(o)))
            continue;
        assert(n < SRV_GRPC_MAX_SERVICES);
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

/* If the table were full, a method would be missing, so the server does not start. */
static void add(struct srv_grpc_method m)
{
    assert(methods.n < SRV_GRPC_MAX_METHODS);
    rows[methods.n++] = m;
}

const struct srv_grpc_methods *srv_grpc_methods(const struct srv_protocols *protocols)
{
    known = protocols;
    methods.n = 0;
    for (int k = 0; k < protocols->n; k++)
        for (int i = 0; i < protocols->row[k]->n_endpoints; i++)
            if (protocols->row[k]->endpoints[i]->grpc_path)
                add(method_of(protocols->row[k]->endpoints[i]));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        add(own[i]);
    return &methods;
}
