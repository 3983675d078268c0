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

/* The largest ratio of a block's size to its size in the file. Snappy's longest element expands 3
 * bytes of input to 64 bytes. */
enum { RT_SSTABLE_EXPANDS = 22 };

/* The maximum length of a key, in bytes. The names of variables, which are the keys of checkpoints,
 * have at most a few hundred bytes. */
enum { RT_SSTABLE_MAX_KEY = 1 << 16 };

struct rt_checkpoint_run;

/* A source of a table's bytes, either memory or a function that reads the bytes. */
struct rt_sstable_source {
    uint64_t size;
    const unsigned char *p; /* bytes of the table, if `read` is NULL */
    enum rt_status (*read)(void *arg, uint64_t offset, void *dst, size_t n, struct rt_error *err);
    void *arg;
    /* The maximum size of an uncompressed block; 0 means INT32_MAX, which is protobuf's limit for a
     * message. */
    size_t max_block;
    /* The run for which the table is read (checkpoint.h). Its check is called for each block and
     * for each RT_SSTABLE_CHECK_BYTES bytes of entries, and its pool counts the memory of blocks.
     * May be NULL. */
    const struct rt_checkpoint_run *run;
};
enum { RT_SSTABLE_CHECK_BYTES = 1 << 17 };

/*
 * Calls `each` for every entry in order. If `each` returns a status other than RT_OK, the read
 * ends. `key` and `value` are valid only during the call. Returns RT_DATA_LOSS if lengths, order,
 * checksums or compression are wrong, or if blocks overlap. Needs memory for the index and one
 * block at a time, each at most RT_SSTABLE_EXPANDS times its size in the file. Time is proportional
 * to the uncompressed bytes, however long the keys are that entries share.
 */
enum rt_status rt_sstable_read(const struct rt_sstable_source *from,
                               enum rt_status (*each)(void *arg, struct rt_span key,
                                                      struct rt_span value, struct rt_error *err),
                               void *arg, struct rt_error *err);

/*
 * Looks up one key by reading the index and one block. Calls `found` with the value. The value is
 * valid only during this call. Returns RT_NOT_FOUND, without a text in *err, if there is no such
 * key. Other errors are those of rt_sstable_read.
 */
enum rt_status rt_sstable_find(const struct rt_sstable_source *from, struct rt_span key,
                               enum rt_status (*found)(void *arg, struct rt_span value,
                                                       struct rt_error *err),
                               void *arg, struct rt_error *err);

struct rt_sstable_writer {
    struct rt_bytes file;  /* the finished blocks; file.failed means that memory ran out */
    struct rt_bytes block; /* the data block under construction */
    struct rt_bytes restarts;
    struct rt_bytes index, index_restarts;
    struct rt_bytes last; /* the last key that was added */
    size_t block_size;
    int n_entries; /* number of entries in the block under construction */
};

/* rt_sstable_add must be called in increasing order of keys. A `block_size` of 0 means TensorFlow's
 * block size of 262144 bytes. */
void rt_sstable_begin(struct rt_sstable_writer *w, size_t block_size);
void rt_sstable_add(struct rt_sstable_writer *w, struct rt_span key, struct rt_span value);
/* Completes the table. w->file then holds the entire file. Returns false if out of memory. */
bool rt_sstable_end(struct rt_sstable_writer *w);
void rt_sstable_clear(struct rt_sstable_writer *w);

#endif
