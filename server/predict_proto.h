/*
 * Predict's messages, read from and written to the wire by hand: a tensor's bytes are copied once,
 * straight to their place, and nothing is allocated by what a message claims before that has been
 * compared with the bytes that are there.
 *
 * Source: tensorflow_serving/apis/predict.proto, tensorflow/core/framework/tensor.proto.
 * Threads: pure; the caller's arena.
 */
#ifndef SRV_PREDICT_PROTO_H
#define SRV_PREDICT_PROTO_H

#include "runtime/base/bytes.h"
#include "runtime/saved_model.h"
#include "server/map.h"

/* A place in a message that lies in several pieces of memory. */
struct srv_cursor {
    const struct rt_span *slice; /* the current one; the pieces hold at least `left` more bytes */
    size_t off;                  /* in it */
    size_t left;                 /* of the message */
};
struct srv_cursor srv_cursor_of(const struct rt_span *slices, size_t total);

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
/* A ModelSpec alone. */
enum rt_status srv_model_spec_read(struct srv_cursor message, struct srv_model_spec *out,
                                   struct rt_arena *arena, struct rt_error *err);

/*
 * A tensor from a TensorProto. *budget: the most bytes it may take, which is lessened by what it
 * takes. The text says what is wrong with it.
 */
enum rt_status srv_tensor_read(struct srv_cursor message, struct rt_tensor *out, size_t *budget,
                               struct rt_error *err);

/*
 * The request's tensors as the signature's feeds (sig->def->n_inputs, zero before; on failure some
 * may be filled: clear them), and the outputs that are wanted, as indices in the order of the
 * signature. Checks and texts in TensorFlow Serving's order.
 */
enum rt_status srv_predict_bind(const struct srv_predict_request *request,
                                const struct rt_signature *sig, size_t budget,
                                struct rt_tensor *feeds, bool *wanted, struct rt_arena *arena,
                                struct rt_error *err);

struct srv_predict_response {
    const char *model, *signature;
    int64_t version;
    const struct rt_signature *sig;
    const struct rt_tensor *fetches; /* one per output of sig */
    const bool *wanted;              /* per output */
    bool as_content;                 /* tensor_content instead of the typed fields */
};
/* The bytes, from malloc. Fails for types that have no form on the wire. */
enum rt_status srv_predict_write(const struct srv_predict_response *response, unsigned char **out,
                                 size_t *n, struct rt_error *err);

/* Appends a TensorProto with its values in the typed field. */
void srv_tensor_write(struct rt_bytes *out, const struct rt_tensor *t);

/* ---- for small messages ---- */

struct srv_field {
    uint32_t number;
    int type; /* of the wire */
    uint64_t value;
    struct srv_cursor body;
};
enum { SRV_VARINT = 0, SRV_FIXED64 = 1, SRV_BYTES = 2, SRV_FIXED32 = 5 };
/* 1: *f is the next field; 0: the end; -1: not a protobuf. */
int srv_field_next(struct srv_cursor *c, struct srv_field *f);
enum rt_status srv_field_span(const struct srv_field *f, struct rt_span *out,
                              struct rt_arena *arena, struct rt_error *err);
void srv_put_int(struct rt_bytes *out, uint32_t number, uint64_t v); /* nothing for 0 */
void srv_put_bytes(struct rt_bytes *out, uint32_t number, const void *p, size_t n);
static inline void srv_put_text(struct rt_bytes *out, uint32_t number, const char *s)
{
    if (*s)
        srv_put_bytes(out, number, s, strlen(s));
}

#endif
