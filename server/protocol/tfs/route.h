/*
 * Parses a method and a raw URI (not yet percent-decoded) into a route. The patterns of paths are
 * those of TensorFlow Serving and those of Slipway's own pages. All functions are pure.
 */
#ifndef SRV_ROUTE_H
#define SRV_ROUTE_H

#include "server/batching/job.h"
#include "server/protocol/tfs/model_spec.h"

enum srv_method { /* HTTP methods */
                  SRV_GET,
                  SRV_POST,
                  SRV_OPTIONS,
                  SRV_HEAD,
                  SRV_OTHER_METHOD,
};
enum srv_method srv_method_of(const char *name);

enum srv_target {
    /* the path is neither below /v1/ nor one of the server's own paths, so the HTTP status is
     * 404 */
    SRV_TO_NOWHERE,
    SRV_TO_MODEL,   /* `api` is the API that the request calls */
    SRV_TO_OPTIONS, /* a browser's preflight request (CORS) */
    SRV_TO_HEALTH,
    /* A request that asks whether the model spec.name is ready, or, if spec.name is empty, whether
     * the server is ready. */
    SRV_TO_READY,
    SRV_TO_METRICS,
};

struct srv_route {
    enum srv_target target;
    enum srv_api api;
    struct srv_model_spec spec; /* the spans in `spec` point into the arena or the URI */
};

/*
 * Parses the method and the URI of a request. Fails with INVALID_ARGUMENT and TensorFlow Serving's
 * message ("Malformed request: METHOD PATH", "Missing model name in request." or "Failed to convert
 * version: N to numeric."), or with NOT_FOUND if the path is neither below /v1/ nor one of the
 * server's own paths. `uri` includes the query, as in TensorFlow Serving. `metrics_path` is the
 * path of the metrics page, or "" if there is no such page.
 */
enum rt_status srv_route(struct srv_route *out, const char *method, struct rt_span uri,
                         const char *metrics_path, struct rt_arena *arena, struct rt_error *err);

#endif
