/*
 * The APIs of TensorFlow Serving that the server answers, over any transport, and their names.
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
    SRV_N_JOB_APIS = SRV_METADATA, /* the APIs whose requests become jobs come first */
    SRV_N_APIS = SRV_OTHER + 1,
};

/* A name such as "multi_inference", for the server's own metrics and the access log; "other" for no
 * API. */
const char *srv_api_name(enum srv_api api);
/* A name such as "MultiInference", for gRPC and TensorFlow Serving's metrics of APIs that become
 * jobs. */
const char *srv_api_method(enum srv_api api);
/* A name such as "predict", for REST paths and TensorFlow Serving's metrics of them; "" if REST has
 * none. */
const char *srv_api_verb(enum srv_api api);

#endif
