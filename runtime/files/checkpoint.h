/*
 * Reads and writes TensorFlow's checkpoints ("tensor bundles"). PREFIX.index is a sorted-string
 * table of small protobuf messages, and the files PREFIX.data-NNNNN-of-NNNNN (shards) hold the
 * tensors' bytes. Formats: leveldb's table format; messages of
 * tensorflow/core/protobuf/tensor_bundle.proto. Every length is compared with the bytes present,
 * and every checksum is verified.
 *
 * Threads: a checkpoint is immutable after open; any thread may look up and load tensors.
 * Owner: a tensor keeps alive the parts of its checkpoint that it needs.
 */
#ifndef RT_CHECKPOINT_H
#define RT_CHECKPOINT_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

struct rt_checkpoint;
struct rt_checkpoint_run;
struct rt_sstable_source;

/*
 * Opens a checkpoint. `prefix` is the prefix that RestoreV2 is given, such as
 * "DIR/variables/variables". Reads the complete index, or returns a reference to a checkpoint that
 * was opened with the same pool and is still open, if the file is unchanged. If the check of `run`
 * fails, the read ends. The pool of `run` counts the memory of the index for as long as the
 * checkpoint is referenced. `run` may be NULL.
 */
enum rt_status rt_checkpoint_open(struct rt_checkpoint **out, const char *prefix,
                                  const struct rt_checkpoint_run *run, struct rt_error *err);
/* Opens a checkpoint whose index is read from `index`, for the run of `index` (sstable.h). */
enum rt_status rt_checkpoint_open_index(struct rt_checkpoint **out, const char *prefix,
                                        const struct rt_sstable_source *index,
                                        struct rt_error *err);
struct rt_checkpoint *rt_checkpoint_ref(struct rt_checkpoint *c);
void rt_checkpoint_unref(struct rt_checkpoint *c);

struct rt_checkpoint_entry {
    const char *name;
    enum rt_dtype dtype;
    struct rt_shape shape;
    int64_t bytes; /* size of the tensor in the data files, in bytes */
    int shard;
    bool is_sliced; /* whether the tensor is stored as slices, each with an entry of its own */
};
int rt_checkpoint_count(const struct rt_checkpoint *c);
const struct rt_checkpoint_entry *rt_checkpoint_at(const struct rt_checkpoint *c, int i);
/*
 * Checks that a checkpoint is complete: its index is valid, and every shard exists and has at least
 * the size that the index requires. Adds to *weight_bytes the minimum memory that the loaded
 * tensors need. Keeps one entry of the index in memory at a time. If the check of `run` fails, the
 * read ends. `run` may be NULL.
 */
enum rt_status rt_checkpoint_measure(const char *prefix, const struct rt_checkpoint_run *run,
                                     int64_t *weight_bytes, struct rt_error *err);
/* Checks that the shards that were read have not changed since they were opened. Compares their
 * sizes and times of change. */
enum rt_status rt_checkpoint_check_unchanged(struct rt_checkpoint *c, struct rt_error *err);

/*
 * The run for which an index and tensors are read. `check` is called for each megabyte of a tensor,
 * for every 16,384th string or slice, and for each block and each 128 KiB of entries of an index;
 * if it fails, reading ends. Without a run (NULL), reading never ends early. `pool` counts the
 * memory of the index and the tensors; the memory of a lazy tensor is counted when the tensor is
 * loaded. If `pool` is NULL, the memory is not counted.
 */
struct rt_checkpoint_run {
    enum rt_status (*check)(void *arg, struct rt_error *err);
    void *arg;
    struct rt_pool *pool;
};
static inline enum rt_status rt_checkpoint_run_check(const struct rt_checkpoint_run *run,
                                                     struct rt_error *err)
{
    return run ? run->check(run->arg, err) : RT_OK;
}
static inline struct rt_pool *rt_checkpoint_run_pool(const struct rt_checkpoint_run *run)
{
    return run ? run->pool : NULL;
}

/*
 * Sets *out to the tensor `name`, or to a slice of it. `slice` is TensorFlow's slice text, such as
 * "4 8 0,2:-", or empty for the full tensor. A full tensor of a plain type that is not stored as
 * slices becomes a lazy file range (buffer.h). Its bytes are not read yet. Sliced tensors and
 * strings are read immediately; if the check of `run` fails, the read ends. `run` may be NULL.
 * Returns RT_NOT_FOUND with "Key NAME not found in checkpoint" if the tensor is missing. `want` is
 * the dtype that the tensor must have, or RT_NO_DTYPE for any dtype.
 */
enum rt_status rt_checkpoint_tensor(struct rt_checkpoint *c, const char *name, struct rt_span slice,
                                    enum rt_dtype want, const struct rt_checkpoint_run *run,
                                    struct rt_tensor *out, struct rt_error *err);

/*
 * Writes a checkpoint of one shard, with the tensors' bytes in the given order and the keys sorted.
 * Makes missing directories. Each file appears under its name only when it is complete, and the
 * index appears last. `slices` is NULL, or has a text for each tensor. The text is TensorFlow's
 * slice text if the tensor is a slice of a larger tensor, and empty otherwise.
 */
enum rt_status rt_checkpoint_write(const char *prefix, int n, const char *const *names,
                                   const struct rt_tensor *tensors, const struct rt_span *slices,
                                   struct rt_error *err);
/* Merges several checkpoints into one by moving their shards. The slices of one tensor are combined
 * under its name. With `delete_dirs`, also removes the directories of the old prefixes, if they are
 * then empty. If the check of `run` fails while the indexes are read, nothing has been moved. The
 * pool of `run` counts the memory of the merged index. `run` may be NULL. */
enum rt_status rt_checkpoint_merge(const char *const *prefixes, int n, const char *destination,
                                   bool delete_dirs, const struct rt_checkpoint_run *run,
                                   struct rt_error *err);

#endif
