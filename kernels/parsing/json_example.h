/*
 * tf.Examples in JSON, rewritten in protobuf's wire format. As TensorFlow's parser does, this one
 * also accepts strings in single quotes, keys without quotes, a comma after the last element,
 * numbers in quotes, a single value in place of an array, arrays in arrays, and names of fields in
 * both forms (int64List and int64_list). Fields are written in the order of the text.
 *
 * Threads: any; all data belongs to a single call.
 */
#ifndef KN_PARSING_JSON_EXAMPLE_H
#define KN_PARSING_JSON_EXAMPLE_H

#include "kernels/array/array.h"
#include "runtime/base/bytes.h"

/*
 * Appends the Example to *out. `text` and `hashes` are buffers for the contents of strings and for
 * the keys of a map. The deadline is checked through `t`, which may be NULL. Fails with
 * INVALID_ARGUMENT and a text in *err if the JSON is invalid, and with t->st if the run must end.
 * If a buffer has failed, the result is INTERNAL, and the caller reports the buffer's reason.
 */
struct kn_json_buffers {
    struct rt_bytes *out, *text, *hashes;
};
enum rt_status kn_example_from_json(struct rt_span json, const struct kn_json_buffers *b,
                                    struct kn_reader *t, const struct rt_check *check,
                                    struct rt_error *err);

#endif
