/*
 * The calls that the server answers, whatever the transport, and their names.
 * Threads: pure.
 */
#ifndef SRV_API_H
#define SRV_API_H

enum srv_api {
    SRV_PREDICT,
    SRV_CLASSIFY,
    SRV_REGRESS,
    SRV_MULTI_INFERENCE,
    SRV_SESSION_RUN,
    SRV_METADATA,
    SRV_STATUS,
    SRV_OTHER
};

enum {
    SRV_N_JOB_APIS = SRV_METADATA, /* those that become jobs come first */
    SRV_N_APIS = SRV_OTHER + 1,
};

/* "multi_inference", as our metrics and the access log have it; "other" for what is none. */
const char *srv_api_name(enum srv_api api);
/* "MultiInference", as gRPC and TensorFlow Serving's metrics name those that become jobs. */
const char *srv_api_method(enum srv_api api);
/* "predict", as REST's paths and TensorFlow Serving's metrics of them; "" where REST has none. */
const char *srv_api_verb(enum srv_api api);

#endif
