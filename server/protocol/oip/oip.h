/*
 * The Open Inference Protocol, version 2, as spoken by KServe, Triton and OpenVINO: REST below /v2
 * and the gRPC service inference.GRPCInferenceService. A model's name stands for its default
 * signature, and NAME@SIGNATURE for each other one.
 *
 * | file              | purpose                                                       |
 * |-------------------|---------------------------------------------------------------|
 * | oip.c             | calls, routes, errors                                         |
 * | oip_request.c     | what REST and gRPC share: inputs and outputs of a signature   |
 * | oip_tensor.c      | tensors from raw bytes, and their names of types              |
 * | oip_json.c        | requests and responses in JSON, with binary data behind it    |
 * | oip_json_values.c | tensors from arrays in JSON                                   |
 * | oip_proto.c       | requests and responses as messages (proto/inference)          |
 * | oip_describe.c    | health, readiness and metadata                                |
 * | oip_config.c      | the index of the repository, and configurations of models     |
 * | oip_stats.c       | statistics                                                    |
 *
 * Threads: the functions are pure; parsed data is allocated in the arena of the inference.
 */
#ifndef SRV_OIP_H
#define SRV_OIP_H

#include "server/json/json.h"
#include "server/protocol/protocol.h"

extern const struct srv_protocol srv_oip;

#define SRV_OIP_LENGTH_HEADER "Inference-Header-Content-Length"

enum {
    SRV_OIP_MAX_TENSORS = 1024, /* maximum number of inputs, and of outputs, of a request */
};

/* An input of a request. Exactly one of the sources of values is set. */
struct srv_oip_input {
    struct rt_span name;
    enum rt_dtype dtype;
    int rank;
    int64_t dim[RT_MAX_RANK];
    struct srv_json data; /* p is NULL if there is no such source */
    bool is_raw, has_contents;
    size_t raw_bytes;         /* over REST: the parameter binary_data_size */
    struct srv_cursor values; /* the raw bytes, or an InferTensorContents message */
};

/* A requested output. */
struct srv_oip_output {
    struct rt_span name;
    bool is_binary; /* whether the values follow the JSON text as bytes */
};

struct srv_oip_request {
    struct rt_span id; /* p is NULL if the request has none */
    int n_inputs, n_outputs;
    struct srv_oip_input *inputs;
    struct srv_oip_output *outputs;
    bool is_binary; /* whether outputs are binary if the request does not name them */
    /* whether the body has no JSON, and is the only input of the signature; srv_oip_bind then makes
     * the input from `body` */
    bool is_raw_body;
    struct srv_cursor body;
    /* Set by srv_oip_bind: the outputs of the response in their order, as indices of the
     * signature's outputs, and whether each is binary. */
    int n_order;
    int *order;
    bool *order_is_binary;
};

/* ---- oip_request.c ---- */

/* Splits NAME@SIGNATURE at the last '@', and reads the version, which may be empty. The spans of
 * *spec point into `name`. */
enum rt_status srv_oip_read_spec(struct rt_span name, struct rt_span version,
                                 struct srv_model_spec *spec, struct rt_error *err);
/* Returns the name that srv_oip_read_spec has split. */
struct rt_span srv_oip_full_name(const struct srv_model_spec *spec);
/* Implement steps of srv_inference_steps. */
enum rt_status srv_oip_not_found(const struct srv_inference *inf, enum rt_status st,
                                 struct rt_error *err);
enum rt_status srv_oip_resolve(struct srv_inference *inf, struct rt_error *err);
enum rt_status srv_oip_bind(struct srv_inference *inf, struct rt_error *err);
/* Sets the error of a model or version that is not served. */
enum rt_status srv_oip_fail_model(const struct srv_model_spec *spec, struct rt_error *err);
/* Fails with INVALID_ARGUMENT and a sentence about the input `name`, for example "input \"x\" has
 * no datatype". */
enum rt_status srv_oip_fail_input(struct rt_error *err, struct rt_span name, const char *fmt, ...)
    RT_PRINTF(3, 4);
/* Refuses a parameter that asks for what this server does not do. `is_set` is false for values that
 * ask for nothing, such as a sequence_id of 0. */
enum rt_status srv_oip_check_parameter(struct rt_span name, bool is_set, struct rt_error *err);

/* ---- oip_tensor.c ---- */

/* Returns RT_NO_DTYPE for an unknown name. */
enum rt_dtype srv_oip_dtype(struct rt_span name);
/* Returns the protocol's name of a type, such as "FP32", or NULL if it has none. */
const char *srv_oip_dtype_name(enum rt_dtype dtype);
/* Fills *out with the values of an input. *budget is reduced by the size of the tensor. */
enum rt_status srv_oip_tensor_read(const struct srv_oip_input *in, struct rt_tensor *out,
                                   size_t *budget, struct rt_error *err);
/* Charges `bytes` to *budget. */
enum rt_status srv_oip_take(size_t *budget, size_t bytes, struct rt_span name,
                            struct rt_error *err);
/* The size of a tensor as raw bytes, and the function that appends them. Writing stops when
 * `cancellation`, which may be NULL, reports that the response is cancelled. */
size_t srv_oip_raw_bytes(const struct rt_tensor *t);
void srv_oip_write_raw(struct rt_bytes *out, const struct rt_tensor *t,
                       struct srv_cancellation *cancellation);

/* ---- oip_proto.c ---- */

/* Appends the dimensions of a shape as packed int64. */
void srv_oip_put_dims(struct rt_bytes *out, int rank, const int64_t *dim);

/* ---- oip_json_values.c, oip_proto.c ---- */

/* Fill the tensor, whose shape is the input's, from the input's values. */
enum rt_status srv_oip_fill_json(const struct srv_oip_input *in, struct rt_tensor *t,
                                 size_t *budget, struct rt_error *err);
enum rt_status srv_oip_fill_contents(const struct srv_oip_input *in, struct rt_tensor *t,
                                     size_t *budget, struct rt_error *err);

/* ---- oip_describe.c ---- */

/* What is said about a model: the signature that d->spec names, and the versions that are ready. */
struct srv_oip_model {
    const struct rt_signature *sig;
    int n_versions;
    int64_t *versions;
};
/* Reads a message whose field 1 is the name of a model, and field 2 its version, into d->spec. */
enum rt_status srv_oip_read_model(struct srv_description *d);
/* Finds the version and the signature that d->spec names. d->state receives a srv_oip_model. */
enum rt_status srv_oip_find_model(struct srv_description *d);

extern const struct srv_inference_steps srv_oip_infer_json, srv_oip_infer;
extern const struct srv_description_steps srv_oip_live_json, srv_oip_ready_json,
    srv_oip_server_json, srv_oip_model_ready_json, srv_oip_model_json, srv_oip_index_json,
    srv_oip_config_json, srv_oip_stats_json;
extern const struct srv_description_steps srv_oip_live, srv_oip_ready, srv_oip_server,
    srv_oip_model_ready, srv_oip_model, srv_oip_index, srv_oip_config, srv_oip_stats;

#endif
