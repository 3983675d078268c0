/*
 * The structs and functions shared by the source files that read checkpoints (checkpoint.h). These
 * files are:
 *
 *   checkpoint.c         opens index files and lists the open checkpoints
 *   checkpoint_index.c   reads an index
 *   checkpoint_data.c    reads and verifies the bytes of an entry
 *   checkpoint_tensor.c  makes lazy tensors, string tensors, and tensors from slices
 *
 * Owner: an entry belongs to its checkpoint. Threads: a checkpoint is immutable once it is open,
 * except for its shards, which are opened under the checkpoint's lock.
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
    const char *why_not;    /* reason why the tensor cannot be read, or NULL if it can be read */
    enum rt_status refusal; /* status of a read if why_not is set */
};

struct rt_bundle_shard {
    /* Descriptor of the file, or -1 if the file is not kept open. Does not change once it is set.
     * Guarded by the checkpoint's mu. */
    int fd;
    bool was_opened; /* guarded by the checkpoint's mu */
    /* The result of fstat when the file was first opened. Set under the checkpoint's mu, and
     * constant once `was_opened` is true. */
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
    struct rt_bundle_entry *entry; /* entries sorted by key; slices precede named tensors */
    int first_public;
    struct rt_mutex mu;
    struct rt_bundle_shard *shard;
    struct rt_checkpoint *next; /* next open checkpoint in the list; guarded by open_mu */
    /* The result of stat on the index file. All members are zero if the checkpoint is not in a list
     * of open checkpoints. */
    struct stat index;
};

/* ---- checkpoint.c ---- */

/* Opens the index file `path`. Sets *info to the result of fstat. Sets *source to a source that
 * reads the file; the source stores the pointers `fd` and `run`. On RT_OK, the caller must close
 * *fd. */
enum rt_status rt_bundle_open_index(const char *path, const struct rt_checkpoint_run *run, int *fd,
                                    struct stat *info, struct rt_sstable_source *source,
                                    struct rt_error *err);

/* ---- checkpoint_index.c ---- */

/* maximum number of shards of a checkpoint */
enum { RT_BUNDLE_MAX_SHARDS = 100000 };

/* Returns the entry with this key, or NULL if there is none. */
const struct rt_bundle_entry *rt_bundle_find(const struct rt_checkpoint *c, struct rt_span key);
/* Reads a checkpoint's index as rt_checkpoint_measure does. */
enum rt_status rt_bundle_measure(const char *prefix, const struct rt_sstable_source *index,
                                 int64_t *weight_bytes, struct rt_error *err);

/* ---- checkpoint_data.c ---- */

/* size in bytes of the windows in which plain tensors are read */
enum { RT_BUNDLE_WINDOW = 1 << 20 };

/* Checks that the entry lies inside its shard. `size` contains the file size of each shard, or -1
 * for a shard without a checked entry. */
enum rt_status rt_bundle_check_file(const struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                    int64_t *size, struct rt_error *err);
/*
 * Opens the entry's shard unless it is kept open, and checks that the entry lies inside it. On
 * RT_OK, the caller must pass *fd to rt_bundle_close_shard. Returns RT_DATA_LOSS if the path no
 * longer names the file that was first opened, or if the file has been modified. All checkpoints
 * together keep at most 1,024 shards open, and at most an eighth of RLIMIT_NOFILE, because a model
 * may have 100,000 shards and connections need descriptors too. A shard beyond these limits is
 * opened for each call.
 */
enum rt_status rt_bundle_open_shard(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                    int *fd, struct rt_error *err);
/* Closes a descriptor that rt_bundle_open_shard returned, unless the shard is kept open. */
void rt_bundle_close_shard(struct rt_checkpoint *c, const struct rt_bundle_entry *e, int fd);
/* Checks, as rt_bundle_open_shard does, that the entry's shard can be read. */
enum rt_status rt_bundle_check_shard(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                     struct rt_error *err);
/* Closes the shards that are kept open. No other thread may use the checkpoint. */
void rt_bundle_close_kept(struct rt_checkpoint *c);
/* Reads n bytes of the entry from offset `off`. `fd` is the descriptor of the entry's shard. */
enum rt_status rt_bundle_read(struct rt_checkpoint *c, const struct rt_bundle_entry *e, int fd,
                              size_t off, void *dst, size_t n, struct rt_error *err);
/* Compares `crc`, the checksum of all bytes of an entry, with the stored checksum. Returns
 * RT_DATA_LOSS if they differ. */
enum rt_status rt_bundle_check_sum(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                   uint32_t crc, struct rt_error *err);
/* Reads and verifies all bytes of a plain entry, and converts them as rt_bundle_make_native does.
 * If the check of `run` fails, returns its status. `run` may be NULL. */
enum rt_status rt_bundle_read_all(struct rt_checkpoint *c, const struct rt_bundle_entry *e,
                                  const struct rt_checkpoint_run *run, void *dst,
                                  struct rt_error *err);
/*
 * Converts stored bytes to the representation that kernels expect: bools become 0 or 1, and
 * numbers are converted to this machine's byte order. `bytes` must be a multiple of the element
 * size.
 */
void rt_bundle_make_native(const struct rt_checkpoint *c, enum rt_dtype dtype, void *data,
                           size_t bytes);

#endif
