/*
 * The structs and functions that the source files for reading checkpoints (checkpoint.h) share:
 *
 *   checkpoint.c         opens index files and lists the open checkpoints
 *   checkpoint_index.c   reads an index
 *   checkpoint_data.c    reads and verifies the bytes of an entry
 *   checkpoint_tensor.c  makes lazy tensors, string tensors, and tensors from slices
 *
 * Owner: an entry belongs to its checkpoint. Threads: a checkpoint is immutable once it is open,
 * except for its shards, each of which is opened once under the checkpoint's lock.
 */
#ifndef RT_CHECKPOINT_INTERNAL_H
#define RT_CHECKPOINT_INTERNAL_H

#include <sys/stat.h>

#include "runtime/base/arena.h"
#include "runtime/base/thread.h"
#include "runtime/core/slice.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/sstable.h"

struct rt_bundle_entry {
    struct rt_checkpoint_entry pub;
    struct rt_span key;
    int64_t offset;
    uint32_t crc; /* masked checksum, as stored in the index */
    int n_parts;
    const struct rt_slice *parts;
    const char *why_not; /* reason why the tensor cannot be read, or NULL if it can be read */
};

struct rt_bundle_shard {
    /* descriptor of the file, or -1 if the file is not open; guarded by the checkpoint's mu until
     * the file is open */
    int fd;
    struct stat s;
};

struct rt_checkpoint {
    atomic_int refs;
    char *prefix;
    struct rt_arena *arena;
    struct rt_pool *pool; /* pool that counts `held` bytes for the index; may be NULL */
    size_t held;
    bool is_swapped; /* whether the data files' byte order is opposite to this machine's */
    int n_shards, n_entries, n_public, capacity;
    struct rt_bundle_entry *entry; /* entries sorted by key, so that slices precede named tensors */
    int first_public;
    struct rt_mutex mu;
    struct rt_bundle_shard *shard;
    struct rt_checkpoint *next; /* link of open_list; guarded by open_mu */
    /* The result of stat on the index file. It is all zero if the checkpoint is not in
     * open_list. */
    struct stat index;
};

/* ---- checkpoint.c ---- */

/* Opens the index file `path` as *source, which refers to `fd` and `run`. On RT_OK the caller must
 * close *fd. */
enum rt_status rt_bundle_open_index(const char *path, const struct rt_checkpoint_run *run, int *fd,
                                    struct stat *info, struct rt_sstable_source *source,
                                    struct rt_error *err);

/* ---- checkpoint_index.c ---- */

/* Returns the entry with this key, or NULL if there is none. */
const struct rt_bundle_entry *rt_bundle_find(const struct rt_checkpoint *c, struct rt_span key);
/* Reads a checkpoint's index as rt_checkpoint_measure does. */
enum rt_status rt_bundle_measure(const char *prefix, const struct rt_sstable_source *index,
                                 int64_t *weight_bytes, struct rt_error *err);

/* ---- checkpoint_data.c ---- */

enum { RT_BUNDLE_WINDOW = 1 << 20 }; /* number of bytes read at a time */

/* Checks that the entry lies inside its shard. `size` has a number for each shard, which is the
 * size of the file, or -1 until the first entry of the shard is checked. */
enum rt_status rt_bundle_check_file(const struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                    int64_t *size, struct rt_error *err);
/* Opens the entry's shard unless it is open already, and checks that the entry lies inside it. */
enum rt_status rt_bundle_open_shard(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                    int *fd, struct rt_error *err);
/* Reads n bytes of the entry from offset `off`. `fd` is the descriptor of its shard. */
enum rt_status rt_bundle_read(struct rt_checkpoint *c, const struct rt_bundle_entry *e, int fd,
                              size_t off, void *dst, size_t n, struct rt_error *err);
/* Compares `crc`, the checksum of all bytes of an entry, with the stored checksum. */
enum rt_status rt_bundle_check_sum(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                   uint32_t crc, struct rt_error *err);
/* Reads and verifies all bytes of a plain entry. If the check of `run` fails, the read ends. `run`
 * may be NULL. */
enum rt_status rt_bundle_read_all(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                  const struct rt_checkpoint_run *run, void *dst,
                                  struct rt_error *err);
/*
 * Converts verified bytes to the form that kernels rely on. Bools become 0 or 1, and numbers get
 * this machine's byte order. `bytes` must be a multiple of the element size.
 */
void rt_bundle_make_native(const struct rt_checkpoint *c, enum rt_dtype dtype, void *data,
                           size_t bytes);

#endif
