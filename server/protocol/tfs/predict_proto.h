/*
 * Handles the protobuf messages of Predict: parses a request, reads its tensors into a signature's
 * feeds, and writes the response.
 *
 * Source: tensorflow_serving/apis/predict.proto.
 * Threads: the functions are pure; parsed data is allocated in the caller's arena.
 */
#ifndef SRV_PREDICT_PROTO_H
#define SRV_PREDICT_PROTO_H

#include "runtime/files/saved_model.h"
#include "runtime/session/session.h"
#include "server/base/budget.h"
#include "server/protocol/tfs/model_spec.h"
#include "server/protocol/tfs/tensor_wire.h"

struct srv_predict_input {
    struct rt_span alias;
    struct srv_cursor tensor; /* a serialized TensorProto */
};

struct srv_predict_request {
    bool has_spec;
    struct srv_model_spec spec;
    int n_inputs; /* the inputs are sorted by alias, without duplicates */
    struct srv_predict_input *inputs;
    int n_filters;
    struct rt_span *filters;
};

/* Parses a request. Spans point into the slices of the message, or into `arena` if their bytes are
 * spread over several slices. */
enum rt_status srv_predict_read(struct srv_cursor message, struct srv_predict_request *out,
                                struct rt_arena *arena, struct rt_error *err);

/*
 * Reads the request's tensors into the feeds of the signature. `feeds` has sig->n_inputs entries,
 * which the caller must zero first, and clear after a failure. Sets wanted[i] to whether the
 * request selects output i of the signature. `call` is the signature's callable, or NULL. If `call`
 * is not NULL, the feeds must have the types of its inputs. The checks are made in TensorFlow
 * Serving's order; the types are checked last.
 */
enum rt_status srv_predict_bind(const struct srv_predict_request *request,
                                const struct rt_signature *sig, const struct rt_callable *call,
                                struct srv_allowance *allowance, struct rt_tensor *feeds,
                                bool *wanted, struct rt_error *err);

struct srv_predict_response {
    struct srv_model_echo echo;
    const struct rt_signature *sig;
    const struct rt_tensor *fetches; /* one tensor per output of the signature */
    /* for each output of the signature, whether the response contains the output */
    const bool *wanted;
    /* whether values are written to tensor_content instead of the typed fields */
    bool as_content;
    /* the budget to which the response is charged, or NULL */
    struct srv_growth *growth;
};
/* Writes a response; *out is allocated by malloc. Fails for types that a TensorProto cannot
 * represent. */
enum rt_status srv_predict_write(const struct srv_predict_response *response, unsigned char **out,
                                 size_t *n, struct rt_error *err);

/* The contents of a PredictRequest for the request log. The log writes the message from the
 * tensors, because the received bytes have been freed. */
struct srv_predict_request_parts {
    struct srv_model_echo echo;
    const struct rt_signature *sig;
    const struct rt_tensor *feeds; /* one tensor per input of the signature */
    /* For each output of sig, whether the client requested it. The message contains an
     * output_filter unless all outputs were requested. */
    const bool *wanted;
};
void srv_predict_write_request(const struct srv_predict_request_parts *parts, struct rt_bytes *out);

#endif
