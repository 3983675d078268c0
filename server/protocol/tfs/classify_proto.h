/*
 * The protobuf messages of Classify, Regress and MultiInference. Examples are passed on as
 * serialized bytes: only the model's own ops parse them.
 *
 * Source: tensorflow_serving/apis/{input,classification,regression,inference}.proto. Threads:
 * pure; memory is from the caller's arena.
 */
#ifndef SRV_CLASSIFY_PROTO_H
#define SRV_CLASSIFY_PROTO_H

#include "server/base/budget.h"
#include "server/protocol/tfs/classify.h"
#include "server/protocol/tfs/model_spec.h"
#include "server/protocol/tfs/wire.h"

struct srv_inference_task { /* a task of a MultiInference */
    bool has_spec;
    struct srv_model_spec spec;
    struct rt_span method;
};

/* A ClassificationRequest or RegressionRequest (model_spec and input), or a MultiInferenceRequest
 * (tasks and input). */
struct srv_examples_request {
    bool has_spec;
    struct srv_model_spec spec;
    struct srv_cursor input; /* an Input; empty if the request has none */
    int n_tasks;
    struct srv_inference_task *tasks;
};

/* Parses a request. Spans point into the slices, or into `arena` if the bytes cross slices. */
enum rt_status srv_examples_read(struct srv_cursor message, bool is_multi,
                                 struct srv_examples_request *out, struct rt_arena *arena,
                                 struct rt_error *err);

/*
 * Makes the examples of an Input a vector of strings. With a context, each string is the bytes of
 * the context followed by those of the example, which protobuf parses as one merged message.
 * INVALID_ARGUMENT "Input is empty."; takes at most `budget` bytes.
 */
enum rt_status srv_examples_bind(struct srv_cursor input, size_t budget, struct rt_tensor *out,
                                 struct rt_error *err);

/* Writes a ClassificationResponse or RegressionResponse of `n` examples; *out is from malloc. */
enum rt_status srv_scoring_write(const struct srv_scoring *s, const struct rt_tensor *fetches,
                                 int64_t n, const struct srv_model_echo *echo,
                                 struct srv_growth *growth, unsigned char **out, size_t *n_out,
                                 struct rt_error *err);
/* Writes a MultiInferenceResponse; `echo` has an entry per scoring. */
enum rt_status srv_multi_write(const struct srv_scoring *s, int n_scorings,
                               const struct rt_tensor *fetches, int64_t n,
                               const struct srv_model_echo *echo, struct srv_growth *growth,
                               unsigned char **out, size_t *n_out, struct rt_error *err);

/* Appends a ClassificationRequest or RegressionRequest (both have the same fields) of the examples.
 */
void srv_examples_write_request(const struct srv_model_echo *echo, const struct rt_tensor *examples,
                                struct rt_bytes *out);
/* Appends a MultiInferenceRequest of the examples. */
void srv_multi_write_request(const struct srv_scoring *s, int n_scorings,
                             const struct srv_model_echo *echo, const struct rt_tensor *examples,
                             struct rt_bytes *out);

#endif
