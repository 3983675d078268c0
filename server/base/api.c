#include "server/base/api.h"

static const struct {
    const char *name, *method, *verb;
} apis[SRV_N_APIS] = {
    [SRV_PREDICT] = {"predict", "Predict", "predict"},
    [SRV_CLASSIFY] = {"classify", "Classify", "classify"},
    [SRV_REGRESS] = {"regress", "Regress", "regress"},
    [SRV_MULTI_INFERENCE] = {"multi_inference", "MultiInference", ""},
    [SRV_SESSION_RUN] = {"session_run", "SessionRun", ""},
    [SRV_INFER] = {"infer", "ModelInfer", "infer"},
    [SRV_METADATA] = {"metadata", "", ""},
    [SRV_STATUS] = {"status", "", ""},
    [SRV_OTHER] = {"other", "", ""},
};

static enum srv_api known(enum srv_api api)
{
    return (unsigned)api < SRV_N_APIS ? api : SRV_OTHER;
}

const char *srv_api_name(enum srv_api api)
{
    return apis[known(api)].name;
}

const char *srv_api_method(enum srv_api api)
{
    return apis[known(api)].method;
}

const char *srv_api_verb(enum srv_api api)
{
    return apis[known(api)].verb;
}
