/*
 * Reads and writes TFRecord files, TensorFlow's format for logs, examples and warm-up requests. A
 * record consists of its length (8 bytes, little-endian), the checksum of the length (4 bytes), the
 * data, and the checksum of the data (4 bytes). Checksums are masked CRC-32C. Compressed files are
 * not supported.
 *
 * A reader reads either bytes in memory or a file. The file may be larger than memory.
 * Threads: a reader is used by one thread at a time.
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

/* Writes the header and the footer of a record of n bytes. */
void rt_tfrecord_header(unsigned char out[RT_TFRECORD_HEADER], uint64_t n);
void rt_tfrecord_footer(unsigned char out[RT_TFRECORD_FOOTER], const void *p, size_t n);
/* Appends a complete record, or marks `out` as failed and appends nothing. */
void rt_tfrecord_add(struct rt_bytes *out, const void *p, size_t n);

/* ---- reading ---- */

/* Sets *n to the length that a header states. Returns false if its checksum is wrong. */
bool rt_tfrecord_length(const unsigned char header[RT_TFRECORD_HEADER], uint64_t *n);
/* Returns the masked checksum of the data that a footer states. */
uint32_t rt_tfrecord_checksum(const unsigned char footer[RT_TFRECORD_FOOTER]);

struct rt_tfrecord;

/* Makes a reader of bytes in memory. The bytes must outlive the reader. Returns NULL if out of
 * memory. */
struct rt_tfrecord *rt_tfrecord_over(struct rt_span bytes);
/*
 * Makes a reader of a file. The reader refuses a record longer than `max_bytes` before allocating
 * memory for the record. If the file cannot be opened, returns RT_NOT_FOUND or another error of
 * rt_open_regular_stream, and sets *out to NULL.
 */
enum rt_status rt_tfrecord_open(struct rt_tfrecord **out, const char *path, size_t max_bytes,
                                struct rt_error *err);
void rt_tfrecord_close(struct rt_tfrecord *r); /* does nothing if `r` is NULL */

/*
 * Reads the next record into *record, which is valid until the next call. Returns RT_OUT_OF_RANGE
 * if there are no more records, and RT_RESOURCE_EXHAUSTED if the record exceeds the limit. If the
 * file is damaged, returns RT_DATA_LOSS with "truncated record at N" or "corrupted record at N",
 * where N is the record's offset. All later records are then lost. After an error or the end, every
 * further call returns the same status.
 */
enum rt_status rt_tfrecord_next(struct rt_tfrecord *r, struct rt_span *record,
                                struct rt_error *err);
/* Returns the length of the next record as its header states it, after comparison with the limit.
 * Returns 0 at the end and after an error, which rt_tfrecord_next then returns. */
uint64_t rt_tfrecord_next_bytes(struct rt_tfrecord *r);
/* Like rt_tfrecord_next for a reader of a file, but moves the record to *out. The reader reuses the
 * memory of *out, so that the record is not copied. */
enum rt_status rt_tfrecord_take(struct rt_tfrecord *r, struct rt_bytes *out, struct rt_error *err);

#endif
