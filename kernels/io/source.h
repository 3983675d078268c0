/*
 * The bytes of a file that an op reads piece by piece, during several runs. A compressed file is
 * inflated. Between two runs no descriptor is open, because a model may have many readers: the file
 * is opened again where it is needed, and must still be the same one.
 *
 * Owner: the reader that holds the source. Its memory counts towards the session's state
 * (runtime/session/state.h). Threads: one run at a time.
 */
#ifndef KN_IO_SOURCE_H
#define KN_IO_SOURCE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "runtime/core/op.h"
#include "runtime/core/str.h"

enum kn_compression { KN_PLAIN, KN_ZLIB, KN_GZIP };

/* The bytes from `first` to `end` of a buffer that rt_pool_alloc has made. */
struct kn_buffered {
    unsigned char *p;
    size_t first, end, capacity;
};

/* A source is closed if all members are zero. */
struct kn_source {
    bool is_open;
    int fd; /* the open descriptor, or -1; used only if is_open */
    enum kn_compression compression;
    struct rt_str name;
    struct stat info;            /* of the file when it was first opened */
    int64_t at;                  /* offset of the first byte of the file that is not buffered */
    bool file_ended, ended;      /* whether the file and its inflated bytes have been buffered */
    struct kn_buffered bytes;    /* bytes for the reader */
    struct kn_buffered deflated; /* bytes of a compressed file that are not inflated yet */
    struct z_stream_s *z;
    int z_error; /* zlib's error that ended inflating, or 0 */
};

/* Opens a file that the model may read. If the call fails, the source stays closed. */
enum rt_status kn_source_open(struct rt_run *r, struct kn_source *s, struct rt_span name,
                              enum kn_compression compression);
/* Closes the descriptor at the end of a run. */
void kn_source_pause(struct kn_source *s);
void kn_source_close(struct kn_source *s); /* the source may be closed already */

/* Sets *out to the next n bytes without consuming them, or to all that are left if there are fewer.
 * The bytes are valid until the next call. The memory grows with the bytes that are there, not with
 * n. */
enum rt_status kn_source_peek(struct rt_run *r, struct kn_source *s, size_t n, struct rt_span *out);
/* Consumes n bytes that kn_source_peek has returned. */
void kn_source_consume(struct kn_source *s, size_t n);
/* Consumes n bytes. Sets *skipped to the number of bytes that were there. */
enum rt_status kn_source_skip(struct rt_run *r, struct kn_source *s, int64_t n, int64_t *skipped);
/* Returns the largest number of bytes that can be left. */
int64_t kn_source_most_left(const struct kn_source *s);

/* Reads the first n bytes of an open file, whose name is for messages. */
enum rt_status kn_read_bytes(struct rt_run *r, int fd, struct rt_span name, void *dst, size_t n);
/* Reads a file that the model may read, as a whole, into *out. */
enum rt_status kn_read_whole(struct rt_run *r, struct rt_span name, struct rt_str *out);

#endif
