/*
 * Writes the bytes of Summary messages, which TensorBoard reads. Summary ops return these bytes.
 *
 * Threads: all data belongs to a single run.
 */
#ifndef KN_STRING_SUMMARY_BYTES_H
#define KN_STRING_SUMMARY_BYTES_H

#include "runtime/base/bytes.h"
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

#endif
