/*
 * Tensors as JSON, in TensorFlow Serving's two forms: requests are decoded straight into tensor
 * memory, responses written straight from it. Texts of refusals are TensorFlow Serving's.
 *
 * Pure functions; the caller owns text, tensors and buffers. json_tensor.c reads, json_answer.c
 * writes.
 */
#ifndef SRV_JSON_TENSOR_H
#define SRV_JSON_TENSOR_H

#include "runtime/files/saved_model.h"
#include "server/json/json.h"

enum srv_json_form { SRV_JSON_ROW, SRV_JSON_COLUMNAR };

/*
 * The types that have a form in JSON. TensorFlow Serving refuses some of them: half, bfloat16,
 * uint16 and the quantised ones.
 */
static inline bool srv_json_takes(enum rt_dtype d)
{
    const uint64_t types = RT_T(RT_F32) | RT_T(RT_F64) | RT_T(RT_F16) | RT_T(RT_BF16) |
                           RT_T(RT_I32) | RT_T(RT_I16) | RT_T(RT_I8) | RT_T(RT_I64) | RT_T(RT_U8) |
                           RT_T(RT_U16) | RT_T(RT_U32) | RT_T(RT_U64) | RT_T(RT_QI8) |
                           RT_T(RT_QU8) | RT_T(RT_QI16) | RT_T(RT_QU16) | RT_T(RT_QI32) |
                           RT_T(RT_BOOL) | RT_T(RT_STRING);
    return types >> d & 1;
}

/*
 * `signature_name` of a predict, classify or regress request, decoded into the arena: empty when
 * it is not given. INVALID_ARGUMENT when it is no string.
 */
enum rt_status srv_json_signature(const struct srv_json_doc *doc, struct rt_arena *arena,
                                  struct rt_span *out, struct rt_error *err);

/*
 * Fills feeds[i] (zero before) for input i of the signature; on failure those already made are the
 * caller's to clear. No more than `max_bytes` of tensor memory is taken (RESOURCE_EXHAUSTED).
 */
enum rt_status srv_json_decode_predict(const struct srv_json_doc *doc,
                                       const struct rt_signature *signature,
                                       struct rt_span signature_name, size_t max_bytes,
                                       struct rt_tensor *feeds, enum srv_json_form *form,
                                       struct rt_error *err);

/*
 * The response body of all the signature's outputs: {"predictions": ...} or {"outputs": ...}.
 * INVALID_ARGUMENT for what JSON cannot say; ends when the answer is not `wanted` any more.
 */
enum rt_status srv_json_encode_predict(struct rt_bytes *out, const struct rt_signature *signature,
                                       const struct rt_tensor *fetches, enum srv_json_form form,
                                       struct srv_cancellation *cancellation, struct rt_error *err);

/* {"error": "..."}, as TensorFlow Serving lays it out. */
void srv_json_error(struct rt_bytes *out, const char *text);

#endif
