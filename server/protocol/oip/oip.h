/*
 * The Open Inference Protocol, version 2, which KServe, Triton and OpenVINO also implement. It
 * consists of a REST API below /v2 and the gRPC service inference.GRPCInferenceService. A request
 * for the model NAME uses the model's default signature. A request for NAME@SIGNATURE uses the
 * named signature.
 *
 * | file              | purpose                                                       |
 * |-------------------|---------------------------------------------------------------|
 * | oip.c             | calls, routes, errors                                         |
 * | oip_request.c     | what REST and gRPC share: inputs and outputs of a signature   |
 * | oip_tensor.c      | tensors from raw bytes, and the names of data types           |
 * | oip_json.c        | requests and responses in JSON, with binary data after it     |
 * | oip_json_values.c | tensors from arrays in JSON                                   |
 * | oip_proto.c       | requests and responses as messages (proto/inference)          |
 * | oip_describe.c    | health, readiness, metadata; calls that are refused by name   |
 * | oip_config.c      | the index of the repository, and configurations of models     |
 * | oip_stats.c       | statistics                                                    |
 * | oip_admin.c       | loading and unloading models                                  |
 * | oip_classes.c     | outputs as the classes with the highest values                |
 * | oip_regions.c     | registering shared memory                                     |
 * | oip_log.c         | settings of the log                                           |
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
    /* maximum number of inputs in a request; the number of outputs has the same limit */
    SRV_OIP_MAX_TENSORS = 1024,
};

/* The location of a tensor's values in shared memory. name.p is NULL if the values are not in
 * shared memory. */
struct srv_oip_region {
    struct rt_span name;
    uint64_t offset, bytes;
    bool has_bytes;
};

/* The value of a parameter. */
struct srv_oip_value {
    bool is_bool, is_number, is_text;
    bool is_set; /* whether the value is neither false, 0 nor "" */
    uint64_t number;
    struct rt_span text; /* allocated in the arena */
};

/* An input of a request. Exactly one of the sources of values is set. */
struct srv_oip_input {
    struct rt_span name;
    enum rt_dtype dtype;
    int rank;
    int64_t dim[RT_MAX_RANK];
    struct srv_json data;
    bool is_raw, has_contents;
    size_t raw_bytes;         /* over REST: the parameter binary_data_size */
    struct srv_cursor values; /* the raw bytes, or an InferTensorContents message */
    struct srv_oip_region region;
    /* index of the signature's input; set by srv_oip_bind if the values are in shared memory */
    int feed;
};

/* A requested output. */
struct srv_oip_output {
    struct rt_span name;
    bool is_binary; /* whether the values follow the JSON text as bytes */
    struct srv_oip_region region;
    /* the parameter `classification`; 0 if the request lacks it */
    uint64_t n_classes;
};

struct srv_oip_request {
    struct rt_span id; /* p is NULL if the request has no id */
    int n_inputs, n_outputs;
    struct srv_oip_input *inputs;
    struct srv_oip_output *outputs;
    bool is_binary; /* whether outputs are binary by default */
    /* The parameter triton_enable_empty_final_response: whether the response, which is always the
     * only one to its request, has the parameter triton_final_response in a stream. */
    bool marks_final;
    /* Whether the body contains the raw bytes of the signature's only input instead of JSON.
     * srv_oip_bind then makes the input from `body`. */
    bool is_raw_body;
    struct srv_cursor body;
    /* The outputs of the response: their indices among the signature's outputs, and for each output
     * whether its values are sent as binary data. Set by srv_oip_bind. */
    int n_order;
    int *order;
    bool *order_is_binary;
    /* NULL for an output that the request does not name */
    const struct srv_oip_output **order_output;
    struct rt_tensor *classes; /* set by srv_oip_make_classes for outputs that have n_classes */
};

/* ---- oip_request.c ---- */

/* Splits NAME@SIGNATURE at the last '@', and parses the version, which may be empty. The spans of
 * *spec point into `name`. */
enum rt_status srv_oip_read_spec(struct rt_span name, struct rt_span version,
                                 struct srv_model_spec *spec, struct rt_error *err);
/* Returns NAME@SIGNATURE, or NAME if the request names no signature. */
struct rt_span srv_oip_full_name(const struct srv_model_spec *spec);
/* These functions implement steps of srv_inference_steps. */
enum rt_status srv_oip_not_found(const struct srv_inference *inf, enum rt_status st,
                                 struct rt_error *err);
enum rt_status srv_oip_resolve(struct srv_inference *inf, struct rt_error *err);
/* Sets the error of a signature that the version does not have, which names those that it has. */
enum rt_status srv_oip_fail_signature(const struct srv_version *version, struct rt_span wanted,
                                      struct rt_error *err);
enum rt_status srv_oip_bind(struct srv_inference *inf, struct rt_error *err);
/* Sets the error of a model or version that is not ready. The message includes the state of the
 * highest requested version that `manager` knows, and that version's error. `manager` may be NULL.
 */
enum rt_status srv_oip_fail_version(struct srv_manager *manager, const struct srv_model_spec *spec,
                                    struct rt_arena *arena, struct rt_error *err);
/* Fails with INVALID_ARGUMENT. The message begins with the name of the input, for example "input
 * \"x\" has no datatype". */
enum rt_status srv_oip_fail_input(struct rt_error *err, struct rt_span name, const char *fmt, ...)
    RT_PRINTF(3, 4);
/* Applies a parameter of the request: timeout or priority. Refuses a value that is no integer of at
 * least 0, and other parameters as srv_oip_check_parameter does. */
enum rt_status srv_oip_request_parameter(struct srv_inference *inf, struct rt_span name,
                                         const struct srv_oip_value *v, struct rt_error *err);
/* Refuses a parameter for an unsupported feature. `is_set` is false for values that do not request
 * the feature, such as a sequence_id of 0. These values are accepted. */
enum rt_status srv_oip_check_parameter(struct rt_span name, bool is_set, struct rt_error *err);

/* ---- oip_request.c: shared memory ---- */

/* Stores a parameter of an input or output. n_classes is NULL for an input. */
enum rt_status srv_oip_tensor_parameter(struct srv_oip_region *region, uint64_t *n_classes,
                                        struct rt_span name, const struct srv_oip_value *v,
                                        struct rt_error *err);
/* Checks the parameters for shared memory of the input or output `name`. */
enum rt_status srv_oip_check_region(const struct srv_oip_region *region, struct rt_span name,
                                    struct rt_error *err);
/* Creates the tensor of an input in shared memory. job->prepare reads the values later, on a
 * worker. */
enum rt_status srv_oip_bind_region(struct srv_inference *inf, struct srv_oip_input *in,
                                   struct rt_tensor *out, struct srv_allowance *allowance,
                                   struct rt_error *err);
/* If the request names a region for an output, writes the output to this region. */
enum rt_status srv_oip_write_regions(const struct srv_inference *inf, struct rt_error *err);
/* Returns whether output i of the response is in shared memory. */
static inline bool srv_oip_in_region(const struct srv_oip_request *r, int i)
{
    return r->order_output[i] && r->order_output[i]->region.name.p;
}

/* ---- oip_classes.c ---- */

bool srv_oip_has_classes(enum rt_dtype dtype); /* whether tensors of this type have classes */
/* Computes the classes of the outputs for which the request has the parameter `classification`. */
enum rt_status srv_oip_make_classes(const struct srv_inference *inf, struct rt_error *err);
void srv_oip_clear_classes(struct srv_inference *inf);
/* Returns output i of the response: the classes, or the tensor itself. */
const struct rt_tensor *srv_oip_result(const struct srv_inference *inf, int i);

/* ---- oip_tensor.c ---- */

/* Returns the data type with this name in the protocol, or RT_NO_DTYPE if there is none. */
enum rt_dtype srv_oip_dtype(struct rt_span name);
/* Returns the protocol's name of a type, such as "FP32". Returns NULL if the protocol has no name
 * for the type. */
const char *srv_oip_dtype_name(enum rt_dtype dtype);
bool srv_oip_is_utf8(struct rt_span s);
/* Sets the error of a datatype that does not exist, which names those that do. */
enum rt_status srv_oip_fail_dtype(struct rt_span name, struct rt_error *err);
/* Sets the error of an input whose shape rt_shape_check refuses with `why`. */
enum rt_status srv_oip_fail_size(const struct srv_oip_input *in, const struct rt_error *why,
                                 struct rt_error *err);
/* Reads the values of an input into *out. Takes the size of the tensor from `allowance`. */
enum rt_status srv_oip_tensor_read(const struct srv_oip_input *in, struct rt_tensor *out,
                                   struct srv_allowance *allowance, struct rt_error *err);
/* Fills the tensor from the raw bytes in in->values. The tensor has the input's shape. */
enum rt_status srv_oip_fill_raw(const struct srv_oip_input *in, struct rt_tensor *t,
                                struct srv_allowance *allowance, struct rt_error *err);
/* Takes `bytes` bytes from `allowance` for the input `name`. */
enum rt_status srv_oip_take(struct srv_allowance *allowance, size_t bytes, struct rt_span name,
                            struct rt_error *err);
/* These functions return the size of a tensor's raw bytes and append the raw bytes. Writing stops
 * when `cancellation` reports that the response is cancelled. `cancellation` may be NULL. */
size_t srv_oip_raw_bytes(const struct rt_tensor *t);
void srv_oip_write_raw(struct rt_bytes *out, const struct rt_tensor *t,
                       struct srv_cancellation *cancellation);

/* ---- oip_proto.c ---- */

/* Appends the dimensions of a shape as packed varints. srv_oip_put_shape appends -1 for an unknown
 * rank, which the protocol cannot express. */
void srv_oip_put_dims(struct rt_bytes *out, int rank, const int64_t *dim);
void srv_oip_put_shape(struct rt_bytes *out, const struct rt_shape *shape);

/* ---- oip_json.c ---- */

/* Reads a string, decoded into `arena`. `what` names the value in error messages. */
enum rt_status srv_oip_json_text(struct srv_json v, const char *what, struct rt_arena *arena,
                                 struct rt_span *out, struct rt_error *err);
/* Reads an integer of at least 0. `what` names the value in error messages. */
enum rt_status srv_oip_json_size(struct srv_json v, const char *what, int64_t *out,
                                 struct rt_error *err);

/* Begins element i of a list, or an object that is not in a list if `i` is 0, with its name. */
void srv_oip_json_begin(struct rt_bytes *out, int i, const char *name, size_t n_name);
/* Appends a member that is the list of the dimensions, or, for an unknown rank, of -1. */
void srv_oip_json_dims(struct rt_bytes *out, const char *key, int rank, const int64_t *dim);

/* ---- oip_json_values.c, oip_proto.c ---- */

/* These functions read the values of the input into the tensor, which has the shape of the
 * input. */
enum rt_status srv_oip_fill_json(const struct srv_oip_input *in, struct rt_tensor *t,
                                 struct srv_allowance *allowance, struct rt_error *err);
enum rt_status srv_oip_fill_contents(const struct srv_oip_input *in, struct rt_tensor *t,
                                     struct srv_allowance *allowance, struct rt_error *err);

/* ---- oip_admin.c ---- */

/* Reads a request to load (`is_on`) or to unload a model. In JSON, the path names the model. */
enum rt_status srv_oip_read_switch(struct srv_action *a, bool is_on, bool is_json);

extern const struct srv_inference_steps srv_oip_infer_json, srv_oip_infer;
extern const struct srv_description_steps srv_oip_live_json, srv_oip_ready_json,
    srv_oip_server_json, srv_oip_model_ready_json, srv_oip_model_json, srv_oip_index_json,
    srv_oip_config_json, srv_oip_stats_json, srv_oip_log_json, srv_oip_refuse_trace,
    srv_oip_refuse_cuda, srv_oip_regions_json, srv_oip_regions;
extern const struct srv_description_steps srv_oip_live, srv_oip_ready, srv_oip_server,
    srv_oip_model_ready, srv_oip_model, srv_oip_index, srv_oip_config, srv_oip_stats;
extern const struct srv_stream_steps srv_oip_stream;
extern const struct srv_action_steps srv_oip_load_json, srv_oip_unload_json, srv_oip_load,
    srv_oip_unload, srv_oip_set_log_json, srv_oip_log, srv_oip_region_register_json,
    srv_oip_region_register, srv_oip_region_unregister_json, srv_oip_region_unregister;

#endif
