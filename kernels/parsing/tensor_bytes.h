/*
 * The bytes of a TensorProto, as TensorFlow writes them for a tensor. SerializeTensor,
 * SerializeSparse and the summary ops write these bytes.
 */
#ifndef KN_PARSING_TENSOR_BYTES_H
#define KN_PARSING_TENSOR_BYTES_H

#include "runtime/core/run.h"

/* The field of the TensorProto that holds the strings of a string tensor. */
enum kn_strings { KN_STRING_FIELD /* string_val */, KN_STRING_CONTENT /* tensor_content */ };
/* Sets *out to the TensorProto of `t`, which is loaded and holds numbers or strings. */
enum rt_status kn_tensor_to_bytes(struct rt_run *r, const struct rt_tensor *t,
                                  enum kn_strings strings, struct rt_str *out);

#endif
