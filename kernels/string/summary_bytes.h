/*
 * Writes the bytes of Summary messages, which TensorBoard reads. Summary ops return these bytes,
 * and the ops that write event files put them into events.
 *
 * Threads: all data belongs to a single run.
 */
#ifndef KN_STRING_SUMMARY_BYTES_H
#define KN_STRING_SUMMARY_BYTES_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "runtime/core/run.h"

/* Tags of the wire format, which are number * 8 + wire type: the values of a Summary, and the tag
 * of a value. */
enum { KN_SUMMARY_VALUE = 0x0a, KN_SUMMARY_TAG = 0x0a };

void kn_put_varint(struct rt_bytes *b, uint64_t v);
/* Writes the tag and the length of a field that consists of n bytes. */
void kn_put_length(struct rt_bytes *b, char tag, size_t n);
/* Writes a whole field of n bytes to a buffer of the run (kn_text_begin). Checks the deadline while
 * it writes a long one. */
enum rt_status kn_put_bytes(struct rt_run *r, struct rt_bytes *b, char tag, const void *p,
                            size_t n);
/* Returns the size of a field of n bytes, with its tag and its length. */
size_t kn_field_size(size_t n);
/* Copies the message in `b` to the scalar output 0, and frees the buffer. */
enum rt_status kn_put_summary(struct rt_run *r, struct rt_bytes *b);

/*
 * The functions below append values to the Summary message in a buffer of the run (kn_text_begin).
 * The caller must check afterwards whether the buffer has failed.
 */

/* Appends a value with element i of a tensor of real numbers, rounded to a float. */
void kn_put_scalar_value(struct rt_bytes *b, struct rt_span tag, const struct rt_tensor *numbers,
                         int64_t i);
/* Appends a value with the histogram of a tensor of real numbers or booleans. NaN and infinities
 * are refused with TensorFlow's messages, in which `what` is the word for a histogram, and `name`
 * the name of the node or the tag. */
enum rt_status kn_put_histogram_value(struct rt_run *r, struct rt_bytes *b, struct rt_span tag,
                                      const struct rt_tensor *numbers, const char *what,
                                      struct rt_span name);
/* Appends a value with a tensor. `metadata` is a SummaryMetadata message, or NULL. */
enum rt_status kn_put_tensor_value(struct rt_run *r, struct rt_bytes *b, struct rt_span tag,
                                   const struct rt_tensor *t, const struct rt_span *metadata);
/* Appends a value for each of the first `most` images of a tensor of shape [images, height, width,
 * channels], as a PNG file. `bad_color` is a vector of bytes. Checks the shape, but not the type of
 * the images. */
enum rt_status kn_put_image_values(struct rt_run *r, struct rt_bytes *b, struct rt_span tag,
                                   const struct rt_tensor *images,
                                   const struct rt_tensor *bad_color, int64_t most);
/* Checks that `bad_color` is a vector. */
enum rt_status kn_check_bad_color(const struct rt_tensor *bad_color, struct rt_error *err);
/* Appends a value for each of the first `most` sounds of a float tensor of shape [sounds, frames]
 * or [sounds, frames, channels], as a WAV file. */
enum rt_status kn_put_audio_values(struct rt_run *r, struct rt_bytes *b, struct rt_span tag,
                                   const struct rt_tensor *sounds, float rate, int64_t most);

#endif
