/*
 * TFRecord, the file of records that TensorFlow keeps logs, examples and warm-up requests in: each
 * record is its length (8 bytes, little-endian), the length's checksum (4), the bytes, and their
 * checksum (4); checksums are masked CRC-32C. Files compressed as a whole are not read.
 *
 * Two ways in: over bytes that are in memory, and through a file that may be larger than memory.
 * Threads: whoever holds the reader or the writer.
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

/* What stands before and behind the n bytes of a record. */
void rt_tfrecord_header(unsigned char out[RT_TFRECORD_HEADER], uint64_t n);
void rt_tfrecord_footer(unsigned char out[RT_TFRECORD_FOOTER], const void *p, size_t n);
/* Appends one whole record. */
void rt_tfrecord_add(struct rt_bytes *out, const void *p, size_t n);

/* ---- reading ---- */

struct rt_tfrecord; /* a reader */

/* Over bytes, which must outlive the reader. NULL: out of memory. */
struct rt_tfrecord *rt_tfrecord_over(struct rt_span bytes);
/*
 * Over a file. A record longer than `max_bytes` is refused before it takes memory.
 * NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE: it cannot be opened; *out is then NULL.
 */
enum rt_status rt_tfrecord_open(struct rt_tfrecord **out, const char *path, size_t max_bytes,
                                struct rt_error *err);
void rt_tfrecord_close(struct rt_tfrecord *r); /* NULL is fine */

/*
 * RT_OK: *record is the next one, valid until the next call. OUT_OF_RANGE: there is none any more.
 * DATA_LOSS: "truncated record at N" or "corrupted record at N", N being the record's offset: what
 * follows is lost. RESOURCE_EXHAUSTED: longer than the limit. Each is given again when asked again.
 */
enum rt_status rt_tfrecord_next(struct rt_tfrecord *r, struct rt_span *record,
                                struct rt_error *err);

#endif
