/*
 * The APIs of the server, and their names. They are TensorFlow Serving's APIs and the inference
 * calls of other protocols. Threads: the functions are pure, so any thread may call them.
 */
#ifndef SRV_API_H
#define SRV_API_H

enum srv_api {
    SRV_PREDICT,
    SRV_CLASSIFY,
    SRV_REGRESS,
    SRV_MULTI_INFERENCE,
    SRV_SESSION_RUN,
    SRV_INFER, /* inference of the Open Inference Protocol */
    SRV_METADATA,
    SRV_STATUS,
    SRV_OTHER
};

enum {
    /* number of APIs whose requests become jobs; these APIs come first in srv_api */
    SRV_N_JOB_APIS = SRV_METADATA,
    SRV_N_APIS = SRV_OTHER + 1,
};

/* Returns a name such as "multi_inference", for the server's own metrics and the access log.
 * Returns "other" for SRV_OTHER. */
const char *srv_api_name(enum srv_api api);
/* Returns a name such as "MultiInference". gRPC uses this name. TensorFlow Serving's metrics also
 * use it, for APIs whose requests become jobs. */
const char *srv_api_method(enum srv_api api);
/* Returns a name such as "predict". REST paths use this name. TensorFlow Serving's metrics also use
 * it, for REST requests. Returns "" if the API is not available over REST. */
const char *srv_api_verb(enum srv_api api);

#endif
