/*
 * This module converts tensors from and to JSON, in TensorFlow Serving's row and columnar forms. It
 * decodes requests directly into tensor memory and encodes responses directly from it. Error
 * messages are TensorFlow Serving's.
 *
 * All functions are pure; the caller owns the text, the tensors and the buffers. json_tensor.c
 * decodes requests, and json_response.c encodes responses.
 */
#ifndef SRV_JSON_TENSOR_H
#define SRV_JSON_TENSOR_H

#include "runtime/files/saved_model.h"
#include "server/base/budget.h"
#include "server/json/json.h"

enum srv_json_form { SRV_JSON_ROW, SRV_JSON_COLUMNAR };

/*
 * Decodes the member `signature_name` of a Predict, Classify or Regress request into the arena.
 * *out is empty if the request has no such member. Fails with INVALID_ARGUMENT if the member is not
 * a string.
 */
enum rt_status srv_json_signature(const struct srv_json_doc *doc, struct rt_arena *arena,
                                  struct rt_span *out, struct rt_error *err);

/*
 * Decodes the inputs of the signature into `feeds`. The caller must zero the feeds first, and clear
 * them after a failure. Takes the memory for the elements of the tensors from `allowance`. Fails
 * with RESOURCE_EXHAUSTED if the allowance is too small.
 */
enum rt_status srv_json_decode_predict(const struct srv_json_doc *doc,
                                       const struct rt_signature *signature,
                                       struct rt_span signature_name,
                                       struct srv_allowance *allowance, struct rt_tensor *feeds,
                                       enum srv_json_form *form, struct rt_error *err);

/*
 * Writes a response body with all outputs of the signature: {"predictions": ...} or {"outputs":
 * ...}. Fails with INVALID_ARGUMENT if JSON cannot express the outputs. Stops when `cancellation`
 * reports that the response is cancelled.
 */
enum rt_status srv_json_encode_predict(struct rt_bytes *out, const struct rt_signature *signature,
                                       const struct rt_tensor *fetches, enum srv_json_form form,
                                       struct srv_cancellation *cancellation, struct rt_error *err);

/* Writes {"error": "..."} in TensorFlow Serving's format. */
void srv_json_error(struct rt_bytes *out, const char *text);

#endif
