/*
 * The protobuf messages of Classify, Regress and MultiInference. The examples stay serialized,
 * because only the model's own ops parse them.
 *
 * Source: tensorflow_serving/apis/{input,classification,regression,inference}.proto.
 * Threads: the functions are pure; parsed data is allocated in the caller's arena.
 */
#ifndef SRV_CLASSIFY_PROTO_H
#define SRV_CLASSIFY_PROTO_H

#include "server/base/budget.h"
#include "server/protocol/tfs/classify.h"
#include "server/protocol/tfs/model_spec.h"
#include "server/base/wire.h"

struct srv_inference_task {
    bool has_spec;
    struct srv_model_spec spec;
    struct rt_span method;
};

/* A parsed ClassificationRequest or RegressionRequest (with model_spec and input), or a parsed
 * MultiInferenceRequest (with tasks and input). */
struct srv_examples_request {
    bool has_spec;
    struct srv_model_spec spec;
    struct srv_cursor input; /* a serialized Input, or empty if the request has none */
    int n_tasks;
    struct srv_inference_task *tasks;
};

/* Parses a request. Spans point into the slices of the message, or into `arena` if their bytes are
 * spread over several slices. */
enum rt_status srv_examples_read(struct srv_cursor message, bool is_multi,
                                 struct srv_examples_request *out, struct rt_arena *arena,
                                 struct rt_error *err);

/*
 * Converts the examples of an Input to a vector of strings. If there is a context, each string
 * consists of the bytes of the context followed by those of the example; protobuf parses such a
 * string as one merged message. Takes the bytes from `allowance`. Fails with RESOURCE_EXHAUSTED if
 * the allowance is too small, and with INVALID_ARGUMENT "Input is empty." if there are no examples.
 */
enum rt_status srv_examples_bind(struct srv_cursor input, struct srv_allowance *allowance,
                                 struct rt_tensor *out, struct rt_error *err);

/* Writes the ClassificationResponse or RegressionResponse for n examples; *out is allocated by
 * malloc. */
enum rt_status srv_scoring_write(const struct srv_scoring *s, const struct rt_tensor *fetches,
                                 int64_t n, const struct srv_model_echo *echo,
                                 struct srv_growth *growth, unsigned char **out, size_t *n_out,
                                 struct rt_error *err);
/* Writes a MultiInferenceResponse. `echo` has one entry per element of `s`, and *out is allocated
 * by malloc. */
enum rt_status srv_multi_write(const struct srv_scoring *s, int n_scorings,
                               const struct rt_tensor *fetches, int64_t n,
                               const struct srv_model_echo *echo, struct srv_growth *growth,
                               unsigned char **out, size_t *n_out, struct rt_error *err);

/* Appends a ClassificationRequest or RegressionRequest with the given examples. Both messages have
 * the same fields. */
void srv_examples_write_request(const struct srv_model_echo *echo, const struct rt_tensor *examples,
                                struct rt_bytes *out);
void srv_multi_write_request(const struct srv_scoring *s, int n_scorings,
                             const struct srv_model_echo *echo, const struct rt_tensor *examples,
                             struct rt_bytes *out);

#endif
