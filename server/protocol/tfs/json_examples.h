/*
 * Parses the examples in the JSON bodies of :classify and :regress, and writes the results. Each
 * example is converted directly from the text to a serialized tf.Example. Error messages are
 * TensorFlow Serving's.
 *
 * All functions are pure; the caller owns the text, the tensors and the buffers.
 */
#ifndef SRV_JSON_EXAMPLES_H
#define SRV_JSON_EXAMPLES_H

#include "server/protocol/tfs/classify.h"
#include "server/json/json.h"

/*
 * Converts the examples to a vector of serialized tf.Examples. If there is a context, it precedes
 * each example, so that protobuf merges the two messages. Takes the memory for the examples from
 * `allowance`, and while it works also that for the example that it writes. Fails with
 * RESOURCE_EXHAUSTED if the allowance is too small.
 *
 * The JSON tokens of a feature's values determine the kind of the feature. Strings and b64 objects
 * are bytes. Booleans, and numbers without a fraction or an exponent, are int64. All other numbers
 * are float.
 */
enum rt_status srv_json_decode_examples(const struct srv_json_doc *doc,
                                        struct srv_allowance *allowance, struct rt_tensor *out,
                                        struct rt_error *err);

/* Writes {"results": ...} for n examples. Stops when `cancellation` reports that the response is
 * cancelled. */
enum rt_status srv_json_encode_scores(struct rt_bytes *out, const struct srv_scoring *s,
                                      const struct rt_tensor *fetches, int64_t n,
                                      struct srv_cancellation *cancellation, struct rt_error *err);

#endif
