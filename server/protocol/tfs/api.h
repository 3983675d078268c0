/*
 * The names of the APIs that the server implements over at least one transport: TensorFlow
 * Serving's, and the inference of other protocols. Threads: the functions are pure, so any thread
 * may call them.
 */
#ifndef SRV_API_H
#define SRV_API_H

enum srv_api {
    SRV_PREDICT,
    SRV_CLASSIFY,
    SRV_REGRESS,
    SRV_MULTI_INFERENCE,
    SRV_SESSION_RUN,
    SRV_INFER, /* of the Open Inference Protocol */
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
/* Returns a name such as "MultiInference". It is used for gRPC, and in TensorFlow Serving's metrics
 * for APIs whose requests become jobs. */
const char *srv_api_method(enum srv_api api);
/* Returns a name such as "predict". It is used in REST paths, and in TensorFlow Serving's metrics
 * for REST requests. Returns "" if the API is not available over REST. */
const char *srv_api_verb(enum srv_api api);

#endif
