/*
 * Examples as JSON, the body of :classify and :regress, and their results as JSON. Each example
 * becomes a serialized tf.Example straight from the text; texts of refusals are TensorFlow
 * Serving's.
 *
 * Pure functions; the caller owns text, tensors and buffers.
 */
#ifndef SRV_JSON_EXAMPLES_H
#define SRV_JSON_EXAMPLES_H

#include "server/protocol/tfs/classify.h"
#include "server/json/json.h"

/*
 * The examples as a vector of strings; the context, if there is one, goes before each, which merges
 * the two. Takes at most `max_bytes` (RESOURCE_EXHAUSTED). A value's token says its kind: a string
 * or b64 object is bytes, a number without fraction or exponent and a bool int64, another float.
 */
enum rt_status srv_json_decode_examples(const struct srv_json_doc *doc, size_t max_bytes,
                                        struct rt_tensor *out, struct rt_error *err);

/* {"results": ...} of n examples; ends when it is not `wanted` any more. */
enum rt_status srv_json_encode_scores(struct rt_bytes *out, const struct srv_scoring *s,
                                      const struct rt_tensor *fetches, int64_t n,
                                      struct srv_cancellation *cancellation, struct rt_error *err);

#endif
