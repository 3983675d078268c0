/*
 * Predict's messages: the parts of a request, its tensors as a signature's feeds, the response.
 *
 * Source: tensorflow_serving/apis/predict.proto.
 * Threads: pure; the caller's arena.
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
    int n_inputs; /* sorted by alias, each once */
    struct srv_predict_input *inputs;
    int n_filters;
    struct rt_span *filters;
};

/* Finds the parts. Spans point into the slices, or into `arena` where one crosses a border. */
enum rt_status srv_predict_read(struct srv_cursor message, struct srv_predict_request *out,
                                struct rt_arena *arena, struct rt_error *err);

/*
 * The request's tensors as the signature's feeds (sig->def->n_inputs, zero before; on failure some
 * may be filled: clear them), and the outputs that are wanted, as indices in the order of the
 * signature. `call`: the signature's, whose types the feeds must have; NULL: they may have any.
 * Checks and texts in TensorFlow Serving's order, the types last.
 */
enum rt_status srv_predict_bind(const struct srv_predict_request *request,
                                const struct rt_signature *sig, const struct rt_callable *call,
                                size_t budget, struct rt_tensor *feeds, bool *wanted,
                                struct rt_error *err);

struct srv_predict_response {
    struct srv_model_echo echo;
    const struct rt_signature *sig;
    const struct rt_tensor *fetches; /* one per output of sig */
    const bool *wanted;              /* per output */
    bool as_content;                 /* tensor_content instead of the typed fields */
    struct srv_growth *growth;       /* NULL: the bytes are not counted */
};
/* The bytes, from malloc. Fails for types that have no form on the wire. */
enum rt_status srv_predict_write(const struct srv_predict_response *response, unsigned char **out,
                                 size_t *n, struct rt_error *err);

/* A request made anew from what was bound: the log of a request does not keep its bytes. */
struct srv_predict_request_parts {
    struct srv_model_echo echo;
    const struct rt_signature *sig;
    const struct rt_tensor *feeds; /* one per input of sig */
    const bool *wanted;            /* per output of sig: the filter, unless all are */
};
void srv_predict_write_request(const struct srv_predict_request_parts *parts, struct rt_bytes *out);

#endif
