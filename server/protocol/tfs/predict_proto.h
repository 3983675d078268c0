/*
 * The protobuf messages of Predict: parsing a request, its tensors as a signature's feeds, the
 * response.
 *
 * Source: tensorflow_serving/apis/predict.proto. Threads: pure; memory is from the caller's arena.
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
    struct srv_cursor tensor; /* a TensorProto */
};

struct srv_predict_request {
    bool has_spec;
    struct srv_model_spec spec;
    int n_inputs; /* sorted by alias, without duplicates */
    struct srv_predict_input *inputs;
    int n_filters;
    struct rt_span *filters;
};

/* Parses a request. Spans point into the slices, or into `arena` if the bytes cross slices. */
enum rt_status srv_predict_read(struct srv_cursor message, struct srv_predict_request *out,
                                struct rt_arena *arena, struct rt_error *err);

/*
 * Reads the request's tensors into the feeds of the signature (`feeds` has sig->def->n_inputs
 * entries, zero before; after a failure the caller clears them). Sets `wanted` for each output, in
 * the signature's order. `call`: the signature's callable, whose types the feeds must have; NULL:
 * they may have any. Checks and error texts are in TensorFlow Serving's order, the types last.
 */
enum rt_status srv_predict_bind(const struct srv_predict_request *request,
                                const struct rt_signature *sig, const struct rt_callable *call,
                                size_t budget, struct rt_tensor *feeds, bool *wanted,
                                struct rt_error *err);

struct srv_predict_response {
    struct srv_model_echo echo;
    const struct rt_signature *sig;
    const struct rt_tensor *fetches; /* one tensor per output of sig */
    const bool *wanted;              /* whether each output of sig is written */
    bool as_content;                 /* values go into tensor_content instead of the typed fields */
    struct srv_growth *growth;       /* NULL: the bytes are not charged */
};
/* Writes a response; *out is from malloc. Fails for types that a TensorProto cannot hold. */
enum rt_status srv_predict_write(const struct srv_predict_response *response, unsigned char **out,
                                 size_t *n, struct rt_error *err);

/* A request written again from its tensors, because the request log does not keep a request's
 * bytes. */
struct srv_predict_request_parts {
    struct srv_model_echo echo;
    const struct rt_signature *sig;
    const struct rt_tensor *feeds; /* one tensor per input of sig */
    /* whether each output of sig is wanted; written as output_filter unless all are true */
    const bool *wanted;
};
void srv_predict_write_request(const struct srv_predict_request_parts *parts, struct rt_bytes *out);

#endif
