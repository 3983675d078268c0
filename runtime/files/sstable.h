/*
 * A sorted-string table as TensorFlow writes its checkpoint indexes: leveldb's table format.
 *
 * File: data blocks, a block of meta data (empty), the index block, a footer of 48 bytes (where
 * those two blocks are, padding, magic number). Block: entries whose keys leave out what they share
 * with the key before, the places where a full key stands, their count; then a byte of compression
 * type (0: none, 1: snappy) and the masked CRC-32C of the block as it is stored and of the type.
 *
 * Functions of bytes; no I/O here.
 */
#ifndef RT_SSTABLE_H
#define RT_SSTABLE_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"

/* A block has at most so many times the bytes that it takes in the file: snappy's longest element
 * writes 64 bytes from 3 bytes of input. */
enum { RT_SSTABLE_EXPANDS = 22 };

/*
 * Calls `each` for every entry in order; another status than RT_OK ends it. `key` is good for the
 * call only, and so is `value`. DATA_LOSS: lengths, order, checksums or compression are wrong, or
 * the blocks overlap. Memory: one block at a time, of at most RT_SSTABLE_EXPANDS times its bytes
 * in the file.
 */
enum rt_status rt_sstable_read(struct rt_span file,
                               enum rt_status (*each)(void *arg, struct rt_span key,
                                                      struct rt_span value, struct rt_error *err),
                               void *arg, struct rt_error *err);

/* Where a table's bytes are: in memory, or behind a function that reads them. */
struct rt_sstable_source {
    uint64_t size;
    const unsigned char *p; /* used when `read` is NULL */
    enum rt_status (*read)(void *arg, uint64_t offset, void *dst, size_t n, struct rt_error *err);
    void *arg;
};

/*
 * Looks one key up, by reading the index and one block: `found` gets its value, good for the call
 * only. NOT_FOUND, without a text in *err: no such key. Others as rt_sstable_read.
 */
enum rt_status rt_sstable_find(const struct rt_sstable_source *from, struct rt_span key,
                               enum rt_status (*found)(void *arg, struct rt_span value,
                                                       struct rt_error *err),
                               void *arg, struct rt_error *err);

struct rt_sstable_writer {
    struct rt_bytes file;  /* what is finished; `failed` when memory or the limit is out */
    struct rt_bytes block; /* the data block in the making */
    struct rt_bytes restarts;
    struct rt_bytes index, index_restarts;
    struct rt_bytes last; /* the key before */
    size_t block_size;
    int n_entries; /* of this block */
};

/* Entries are added in increasing order of keys. `block_size`: 0 for TensorFlow's, 262144. */
void rt_sstable_begin(struct rt_sstable_writer *w, size_t block_size);
void rt_sstable_add(struct rt_sstable_writer *w, struct rt_span key, struct rt_span value);
/* The whole file is in w->file. False: out of memory. */
bool rt_sstable_end(struct rt_sstable_writer *w);
void rt_sstable_clear(struct rt_sstable_writer *w);

#endif
