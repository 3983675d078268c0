/*
 * Reads and writes sorted-string tables, in leveldb's table format. TensorFlow uses them for the
 * indexes of checkpoints.
 *
 * A file has data blocks, an empty metadata block, the index block, and a footer of 48 bytes
 * (handles of the last two blocks, padding, magic number). A block consists of entries, restart
 * points and the number of restart points. The key of an entry omits the prefix that it shares with
 * the preceding key. A restart point is the offset of an entry with a full key. A block is followed
 * by a byte for the type of compression (0 for none, 1 for snappy) and by the masked CRC-32C of the
 * stored block and that byte.
 *
 * These functions process bytes and do no I/O of their own.
 */
#ifndef RT_SSTABLE_H
#define RT_SSTABLE_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"

/* The largest ratio of a block's uncompressed size to its compressed size. Snappy's densest element
 * turns 3 bytes into 64 bytes. */
enum { RT_SSTABLE_EXPANDS = 22 };

/* The maximum length of a key, in bytes. The keys of checkpoints are names of variables, and such a
 * name has at most a few hundred bytes. */
enum { RT_SSTABLE_MAX_KEY = 1 << 16 };

struct rt_checkpoint_run;

/* A source of a table's bytes: memory, or a function that reads the bytes. */
struct rt_sstable_source {
    uint64_t size;
    const unsigned char *p; /* bytes of the table, if `read` is NULL */
    enum rt_status (*read)(void *arg, uint64_t offset, void *dst, size_t n, struct rt_error *err);
    void *arg;
    /* The maximum size of an uncompressed block, in bytes. 0 means INT32_MAX, which is the maximum
     * size of a protobuf message. */
    size_t max_block;
    /* The run for which the table is read (checkpoint.h). Its check is called for each block and
     * for each RT_SSTABLE_CHECK_BYTES bytes of entries, and its pool counts the memory of blocks.
     * May be NULL. */
    const struct rt_checkpoint_run *run;
};
enum { RT_SSTABLE_CHECK_BYTES = 1 << 17 };

/*
 * Calls `each` for every entry in order. If `each` returns a status other than RT_OK, stops and
 * returns that status. `key` and `value` are valid only during the call. Returns RT_DATA_LOSS if a
 * length, a checksum, the order of the keys or the compressed data is invalid, or if blocks
 * overlap. Needs memory for the index and one block at a time, each at most RT_SSTABLE_EXPANDS
 * times its size in the file. The time is proportional to the number of uncompressed bytes, even if
 * entries share long keys.
 */
enum rt_status rt_sstable_read(const struct rt_sstable_source *from,
                               enum rt_status (*each)(void *arg, struct rt_span key,
                                                      struct rt_span value, struct rt_error *err),
                               void *arg, struct rt_error *err);

/*
 * Looks up one key by reading the index and one block. Calls `found` with the value, which is valid
 * only during this call. If there is no such key, returns RT_NOT_FOUND without setting a message in
 * *err. Other errors are those of rt_sstable_read.
 */
enum rt_status rt_sstable_find(const struct rt_sstable_source *from, struct rt_span key,
                               enum rt_status (*found)(void *arg, struct rt_span value,
                                                       struct rt_error *err),
                               void *arg, struct rt_error *err);

/*
 * A finder looks up several keys of one table. A finder retains the index, and the block of the
 * last key. Keys in one block therefore need one read, and keys in increasing order need one pass
 * over the blocks. The source's function and run must stay valid. Threads: one at a time.
 */
struct rt_sstable_finder;
enum rt_status rt_sstable_finder_new(struct rt_sstable_finder **out,
                                     const struct rt_sstable_source *from, struct rt_error *err);
void rt_sstable_finder_free(struct rt_sstable_finder *f); /* `f` may be NULL */
/* Looks up a key as rt_sstable_find does. After an error, the finder may be used again. */
enum rt_status rt_sstable_finder_find(struct rt_sstable_finder *f, struct rt_span key,
                                      enum rt_status (*found)(void *arg, struct rt_span value,
                                                              struct rt_error *err),
                                      void *arg, struct rt_error *err);

/* A writer of tables. Its memory is that of the index and of one restart point for every 16
 * entries, and, without a sink, that of the table. */
struct rt_sstable_writer {
    /* the table, or the part of the table that the sink has not received; file.failed means that
     * memory ran out */
    struct rt_bytes file;
    uint64_t size;     /* size of the table so far, in bytes */
    uint64_t block_at; /* offset of the current block */
    uint32_t crc;      /* checksum of the current block */
    struct rt_bytes restarts;
    struct rt_bytes index, index_restarts;
    struct rt_bytes last;
    size_t block_size;
    int n_entries;
    /* Receives the bytes of the table in order; NULL to collect them in `file`. */
    enum rt_status (*sink)(void *arg, const void *p, size_t n, struct rt_error *err);
    void *sink_arg;
    enum rt_status status; /* the sink's first failure */
    struct rt_error *err;
};

/* Keys must be added in increasing order. If `block_size` is 0, TensorFlow's block size of 262144
 * bytes is used. */
void rt_sstable_begin(struct rt_sstable_writer *w, size_t block_size);
/* Begins a table that is written to `sink`. Each call of `sink` has about a megabyte, except for
 * the last. If a call fails, there is no further call. */
void rt_sstable_begin_sink(struct rt_sstable_writer *w,
                           enum rt_status (*sink)(void *arg, const void *p, size_t n,
                                                  struct rt_error *err),
                           void *arg, struct rt_error *err);
void rt_sstable_add(struct rt_sstable_writer *w, struct rt_span key, struct rt_span value);
/* Adds an entry whose value has `n` bytes. They follow in calls of rt_sstable_put. */
void rt_sstable_add_key(struct rt_sstable_writer *w, struct rt_span key, uint64_t n);
void rt_sstable_put(struct rt_sstable_writer *w, const void *p, size_t n);
/* Completes the table. Without a sink, w->file then contains the complete table. Returns false if
 * out of memory, or if the sink has failed (w->status). */
bool rt_sstable_end(struct rt_sstable_writer *w);
void rt_sstable_clear(struct rt_sstable_writer *w);

#endif
