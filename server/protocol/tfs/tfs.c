#include "server/protocol/tfs/tfs.h"

#include <string.h>

#include "server/protocol/route.h"
#include "server/protocol/tfs/json_tensor.h"

/* ---- the calls ---- */

#define PREDICTION "/tensorflow.serving.PredictionService/"
#define MODEL      "/tensorflow.serving.ModelService/"

static const struct srv_endpoint predict_call = {
    .api = SRV_PREDICT,
    .rest = {.infer = &srv_tfs_predict_json},
    .grpc = {.infer = &srv_tfs_predict},
    .grpc_path = PREDICTION "Predict",
    .is_at_page_address = true,
    .is_frequent = true,
};

static const struct srv_endpoint classify_call = {
    .api = SRV_CLASSIFY,
    .rest = {.infer = &srv_tfs_classify_json},
    .grpc = {.infer = &srv_tfs_classify},
    .grpc_path = PREDICTION "Classify",
    .is_frequent = true,
};

static const struct srv_endpoint regress_call = {
    .api = SRV_REGRESS,
    .rest = {.infer = &srv_tfs_regress_json},
    .grpc = {.infer = &srv_tfs_regress},
    .grpc_path = PREDICTION "Regress",
    .is_frequent = true,
};

static const struct srv_endpoint multi_inference_call = {
    .api = SRV_MULTI_INFERENCE,
    .grpc = {.infer = &srv_tfs_multi_inference},
    .grpc_path = PREDICTION "MultiInference",
};

static const char *session_off(const struct srv_options *o)
{
    return o->enable_session_service
               ? NULL
               : "the service lets a client run any node of a model, so it is off unless "
                 "--enable_session_service";
}

static const struct srv_endpoint session_run_call = {
    .api = SRV_SESSION_RUN,
    .grpc = {.infer = &srv_tfs_session_run},
    .grpc_path = "/tensorflow.serving.SessionService/SessionRun",
    .off = session_off,
};

static const struct srv_endpoint metadata_call = {
    .api = SRV_METADATA,
    .rest = {.describe = &srv_tfs_metadata_json},
    .grpc = {.describe = &srv_tfs_metadata},
    .grpc_path = PREDICTION "GetModelMetadata",
    .is_at_page_address = true,
};

static const struct srv_endpoint status_call = {
    .api = SRV_STATUS,
    .rest = {.describe = &srv_tfs_status_json},
    .grpc = {.describe = &srv_tfs_status},
    .grpc_path = MODEL "GetModelStatus",
};

static const struct srv_endpoint reload_call = {
    .api = SRV_OTHER,
    .grpc = {.act = &srv_tfs_reload},
    .grpc_path = MODEL "HandleReloadConfigRequest",
};

static const char *why_unknown(struct rt_span path)
{
    static const char profiler[] = "/tensorflow.ProfilerService/";

    return path.n >= sizeof profiler - 1 && memcmp(path.p, profiler, sizeof profiler - 1) == 0
               ? "there is no TensorFlow in this server to profile; the metrics page has its "
                 "times, and `slipway run --bench` those of a model"
               : NULL;
}

/* ---- REST routes: TensorFlow Serving's patterns of paths ---- */

struct parts {
    /* p is NULL if the path lacks the part that the member names */
    struct rt_span name, version, label, word;
};

/* Removes "/versions/N" or "/labels/L" from the front of *s, if present. */
static void take_choice(struct rt_span *s, struct parts *out)
{
    struct rt_span rest = *s, found;
    if (srv_route_take(&rest, "/versions/") && srv_route_take_digits(&rest, &found)) {
        out->version = found;
        *s = rest;
        return;
    }
    rest = *s;
    if (srv_route_take(&rest, "/labels/") && srv_route_take_name(&rest, "/:", &found)) {
        out->label = found;
        *s = rest;
    }
}

/* Matches `/v1/models/NAME[/versions/N | /labels/L]:classify|regress|predict`. */
static bool match_post(struct rt_span s, struct parts *out)
{
    *out = (struct parts){0};
    if (!srv_route_take(&s, "/v1/models/") || !srv_route_take_name(&s, "/:", &out->name))
        return false;
    take_choice(&s, out);
    if (s.n == 0 || *s.p != ':')
        return false;
    out->word = rt_span_of(s.p + 1, s.n - 1);
    return rt_span_is(out->word, "predict") || rt_span_is(out->word, "classify") ||
           rt_span_is(out->word, "regress");
}

/* Matches `/v1/models[/NAME][/versions/N | /labels/L][/metadata]`. If a path matches both with and
 * without NAME, it is interpreted with NAME. For example, "metadata" is the NAME in
 * `/v1/models/metadata`. */
static bool match_get(struct rt_span uri, struct parts *out)
{
    for (int with_name = 1; with_name >= 0; with_name--) {
        struct rt_span s = uri;
        *out = (struct parts){0};
        if (!srv_route_take(&s, "/v1/models"))
            return false;
        if (with_name && (!srv_route_take(&s, "/") || !srv_route_take_name(&s, "/:", &out->name)))
            continue;
        take_choice(&s, out);
        struct rt_span rest = s;
        if (srv_route_take(&rest, "/metadata")) {
            out->word = rt_span_of(s.p + 1, s.n - rest.n - 1);
            s = rest;
        }
        if (s.n == 0)
            return true;
    }
    return false;
}

static enum rt_status malformed(const char *method, struct rt_span uri, struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT, "Malformed request: %s %.*s", method, (int)uri.n,
                   (const char *)uri.p);
}

static enum rt_status route(struct srv_route *out, const char *method, struct rt_span uri,
                            struct rt_arena *arena, struct rt_error *err)
{
    struct parts parts;
    enum srv_method m = srv_method_of(method);
    if (m == SRV_OPTIONS) {
        out->target = SRV_TO_OPTIONS;
        return RT_OK;
    }
    if (!(m == SRV_POST && match_post(uri, &parts)) && !(m == SRV_GET && match_get(uri, &parts)))
        return malformed(method, uri, err);
    if (!parts.name.p)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Missing model name in request.");
    if (m == SRV_POST)
        out->endpoint = *parts.word.p == 'p'   ? &predict_call
                        : *parts.word.p == 'c' ? &classify_call
                                               : &regress_call;
    /* Only the lower-case spelling "metadata" requests metadata. Any other spelling requests the
     * model's status. */
    else
        out->endpoint =
            parts.word.p && rt_span_is(parts.word, "metadata") ? &metadata_call : &status_call;
    out->spec.name = parts.name;
    out->spec.label = parts.label;
    if (parts.version.p) {
        out->spec.has_version = true;
        if (!srv_route_version(parts.version, &out->spec.version))
            return rt_fail(err, RT_INVALID_ARGUMENT, "Failed to convert version: %.*s to numeric.",
                           (int)parts.version.n, (const char *)parts.version.p);
    }
    enum rt_status st = srv_route_decode(&out->spec.name, arena, err);
    return st ? st : srv_route_decode(&out->spec.label, arena, err);
}

/* ---- the table ---- */

static const struct srv_endpoint *const endpoints[] = {
    &predict_call,     &classify_call, &regress_call, &multi_inference_call,
    &session_run_call, &metadata_call, &status_call,  &reload_call,
};
/* TensorFlow Serving's health service knows these services without their package. */
static const char *const health_names[] = {"PredictionService", "ModelService", NULL};

const struct srv_protocol srv_tfs = {
    .root = "/v1/",
    .endpoints = endpoints,
    .n_endpoints = sizeof endpoints / sizeof *endpoints,
    .route = route,
    .write_error = srv_json_error,
    .health_names = health_names,
    .why_unknown = why_unknown,
};

const struct srv_inference_steps *srv_tfs_steps(enum srv_api api)
{
    switch (api) {
    case SRV_CLASSIFY:
        return &srv_tfs_classify;
    case SRV_REGRESS:
        return &srv_tfs_regress;
    case SRV_MULTI_INFERENCE:
        return &srv_tfs_multi_inference;
    case SRV_SESSION_RUN:
        return &srv_tfs_session_run;
    default:
        return &srv_tfs_predict;
    }
}
