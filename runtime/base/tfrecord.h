/*
 * Reads and writes TFRecord files, in which TensorFlow keeps logs, examples and warm-up requests. A
 * record is its length (8 bytes, little-endian), the checksum of the length (4 bytes), the bytes,
 * and their checksum (4 bytes); checksums are masked CRC-32C. Compressed files are not supported.
 *
 * A reader works on bytes in memory, or on a file, which may be larger than memory.
 * Threads: one thread at a time uses a reader.
 */
#ifndef RT_BASE_TFRECORD_H
#define RT_BASE_TFRECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"

enum { RT_TFRECORD_HEADER = 12, RT_TFRECORD_FOOTER = 4 };

/* The header and the footer of a record of n bytes. */
void rt_tfrecord_header(unsigned char out[RT_TFRECORD_HEADER], uint64_t n);
void rt_tfrecord_footer(unsigned char out[RT_TFRECORD_FOOTER], const void *p, size_t n);
/* Appends a whole record, or fails `out` and appends nothing. */
void rt_tfrecord_add(struct rt_bytes *out, const void *p, size_t n);

/* ---- reading ---- */

struct rt_tfrecord; /* a reader */

/* A reader of bytes in memory, which must outlive it. NULL: out of memory. */
struct rt_tfrecord *rt_tfrecord_over(struct rt_span bytes);
/*
 * A reader of a file. A record longer than `max_bytes` is refused before memory is allocated for
 * it. RT_NOT_FOUND and other errors of rt_open_regular_stream: the file cannot be opened; *out is
 * NULL.
 */
enum rt_status rt_tfrecord_open(struct rt_tfrecord **out, const char *path, size_t max_bytes,
                                struct rt_error *err);
void rt_tfrecord_close(struct rt_tfrecord *r); /* NULL is fine */

/*
 * RT_OK: *record is the next record, valid until the next call. RT_OUT_OF_RANGE: the end.
 * RT_DATA_LOSS: "truncated record at N" or "corrupted record at N", N being the record's offset;
 * the records after it are lost. RT_RESOURCE_EXHAUSTED: the record is longer than the limit. After
 * an error or the end every further call returns the same status.
 */
enum rt_status rt_tfrecord_next(struct rt_tfrecord *r, struct rt_span *record,
                                struct rt_error *err);

#endif
