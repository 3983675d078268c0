#include "runtime/base/tfrecord.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/regular_file.h"

enum {
    FIRST_CAPACITY = 1 << 16
}; /* The buffer grows with the number of bytes read, not with the length that a record claims. */

struct rt_tfrecord {
    FILE *file;          /* NULL if the reader reads bytes in memory */
    struct rt_span rest; /* the unread bytes in memory; empty if the reader reads a file */
    unsigned char *buf;
    size_t capacity, max_bytes;
    uint64_t offset;
    bool has_header; /* whether `length` is the length of the next record */
    uint64_t length;
    enum rt_status ended; /* the status with which reading ended; RT_OK until then */
    char why[160];
};

static void put32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t get(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static uint32_t checksum(const void *p, size_t n)
{
    return rt_crc32c_mask(rt_crc32c(0, p, n));
}

void rt_tfrecord_header(unsigned char out[RT_TFRECORD_HEADER], uint64_t n)
{
    put32(out, (uint32_t)n);
    put32(out + 4, (uint32_t)(n >> 32));
    put32(out + 8, checksum(out, 8));
}

void rt_tfrecord_footer(unsigned char out[RT_TFRECORD_FOOTER], const void *p, size_t n)
{
    put32(out, checksum(p, n));
}

bool rt_tfrecord_length(const unsigned char header[RT_TFRECORD_HEADER], uint64_t *n)
{
    *n = get(header, 8);
    return get(header + 8, 4) == checksum(header, 8);
}

uint32_t rt_tfrecord_checksum(const unsigned char footer[RT_TFRECORD_FOOTER])
{
    return (uint32_t)get(footer, 4);
}

void rt_tfrecord_add(struct rt_bytes *out, const void *p, size_t n)
{
    unsigned char frame[RT_TFRECORD_HEADER];
    if (n > SIZE_MAX - RT_TFRECORD_HEADER - RT_TFRECORD_FOOTER ||
        !rt_bytes_reserve(out, n + RT_TFRECORD_HEADER + RT_TFRECORD_FOOTER)) {
        out->failed = true;
        return;
    }
    rt_tfrecord_header(frame, n);
    rt_bytes_add(out, frame, RT_TFRECORD_HEADER);
    if (n)
        rt_bytes_add(out, p, n);
    rt_tfrecord_footer(frame, p, n);
    rt_bytes_add(out, frame, RT_TFRECORD_FOOTER);
}

struct rt_tfrecord *rt_tfrecord_over(struct rt_span bytes)
{
    struct rt_tfrecord *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->rest = bytes;
    r->max_bytes = SIZE_MAX;
    return r;
}

enum rt_status rt_tfrecord_open(struct rt_tfrecord **out, const char *path, size_t max_bytes,
                                struct rt_error *err)
{
    FILE *f;
    enum rt_status st = rt_open_regular_stream(path, &f, err);

    *out = NULL;
    if (st)
        return st;
    struct rt_tfrecord *r = calloc(1, sizeof *r);
    if (!r) {
        fclose(f);
        return rt_fail_memory(err, "a reader of records", sizeof *r);
    }
    r->file = f;
    r->max_bytes = max_bytes;
    *out = r;
    return RT_OK;
}

void rt_tfrecord_close(struct rt_tfrecord *r)
{
    if (!r)
        return;
    if (r->file)
        fclose(r->file);
    free(r->buf);
    free(r);
}

static enum rt_status end(struct rt_tfrecord *r, enum rt_status status, const char *what)
{
    r->ended = status;
    snprintf(r->why, sizeof r->why, "%s at %llu", what, (unsigned long long)r->offset);
    return status;
}

/* Returns the next n bytes, or NULL if out of memory. *got is less than n only at the end of the
 * input. */
static const unsigned char *take(struct rt_tfrecord *r, size_t n, size_t *got)
{
    if (!r->file) {
        const unsigned char *p = r->rest.p;
        *got = n < r->rest.n ? n : r->rest.n;
        r->rest.p = p ? p + *got : p;
        r->rest.n -= *got;
        return p ? p : (const unsigned char *)"";
    }
    for (*got = 0;;) {
        if (*got == r->capacity || !r->buf) {
            size_t capacity = r->capacity ? r->capacity * 2 : FIRST_CAPACITY;
            if (capacity > n && n > r->capacity)
                capacity = n;
            unsigned char *p = realloc(r->buf, capacity);
            if (!p)
                return NULL;
            r->buf = p;
            r->capacity = capacity;
        }
        size_t want = (n < r->capacity ? n : r->capacity) - *got;
        size_t now = want ? fread(r->buf + *got, 1, want, r->file) : 0;
        *got += now;
        if (now < want || *got == n)
            return r->buf;
    }
}

static enum rt_status read_header(struct rt_tfrecord *r)
{
    size_t got;
    const unsigned char *p = take(r, RT_TFRECORD_HEADER, &got);
    if (!p)
        return end(r, RT_RESOURCE_EXHAUSTED, "out of memory for the record");
    if (r->file && ferror(r->file))
        return end(r, RT_UNAVAILABLE, "the file cannot be read");
    if (!got)
        return end(r, RT_OUT_OF_RANGE, "the end of the records");
    if (got < RT_TFRECORD_HEADER)
        return end(r, RT_DATA_LOSS, "truncated record");
    uint64_t n;
    if (!rt_tfrecord_length(p, &n))
        return end(r, RT_DATA_LOSS, "corrupted record (is this a TFRecord file?)");
    if (n > r->max_bytes)
        return end(r, RT_RESOURCE_EXHAUSTED, "a record longer than the limit");
    if (n > SIZE_MAX - RT_TFRECORD_FOOTER)
        return end(r, RT_DATA_LOSS, "truncated record");
    r->length = n;
    r->has_header = true;
    return RT_OK;
}

static enum rt_status read_record(struct rt_tfrecord *r, struct rt_span *record)
{
    enum rt_status st = r->has_header ? RT_OK : read_header(r);
    size_t got;

    if (st)
        return st;
    r->has_header = false;
    const uint64_t n = r->length;
    const unsigned char *p = take(r, (size_t)n + RT_TFRECORD_FOOTER, &got);
    if (!p)
        return end(r, RT_RESOURCE_EXHAUSTED, "out of memory for the record");
    if (r->file && ferror(r->file))
        return end(r, RT_UNAVAILABLE, "the file cannot be read");
    if (got < n + RT_TFRECORD_FOOTER)
        return end(r, RT_DATA_LOSS, "truncated record");
    if (rt_tfrecord_checksum(p + n) != checksum(p, (size_t)n))
        return end(r, RT_DATA_LOSS, "corrupted record");
    *record = rt_span_of(p, (size_t)n);
    r->offset += RT_TFRECORD_HEADER + n + RT_TFRECORD_FOOTER;
    return RT_OK;
}

enum rt_status rt_tfrecord_next(struct rt_tfrecord *r, struct rt_span *record, struct rt_error *err)
{
    enum rt_status st = r->ended ? r->ended : read_record(r, record);
    return st ? rt_fail(err, st, "%s", r->why) : RT_OK;
}

uint64_t rt_tfrecord_next_bytes(struct rt_tfrecord *r)
{
    if (!r->ended && !r->has_header)
        read_header(r);
    return r->has_header ? r->length : 0;
}

enum rt_status rt_tfrecord_take(struct rt_tfrecord *r, struct rt_bytes *out, struct rt_error *err)
{
    struct rt_span record;
    const enum rt_status st = rt_tfrecord_next(r, &record, err);

    if (st)
        return st;
    unsigned char *p = (unsigned char *)out->p;
    const size_t capacity = out->capacity;
    out->p = (char *)r->buf;
    out->capacity = r->capacity;
    out->n = record.n;
    out->p[out->n] = '\0'; /* replaces the first byte of the footer */
    r->buf = p;
    r->capacity = p ? capacity : 0;
    return RT_OK;
}
