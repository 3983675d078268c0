/*
 * Reads and writes TensorFlow's checkpoints ("tensor bundles"). PREFIX.index is a sorted-string
 * table of small protobuf messages, and the files PREFIX.data-NNNNN-of-NNNNN (shards) hold the
 * tensors' bytes. The table has leveldb's format, and the messages are those of
 * tensorflow/core/protobuf/tensor_bundle.proto. Every length is checked against the number of bytes
 * available, and every checksum is verified.
 *
 * Threads: a checkpoint is immutable once open; any thread may look up and load tensors.
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
 * "DIR/variables/variables". If a checkpoint that was read from the same, unchanged file with the
 * same pool is still open, returns a reference to it. Otherwise reads the complete index. If the
 * check of `run` fails, returns its status. The pool of `run` counts the memory of the index while
 * the checkpoint is referenced. `run` may be NULL.
 */
enum rt_status rt_checkpoint_open(struct rt_checkpoint **out, const char *prefix,
                                  const struct rt_checkpoint_run *run, struct rt_error *err);
/* Opens a checkpoint whose index is read from the source `index`. index->run has the meaning of
 * `run` in rt_checkpoint_open. */
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
    bool is_sliced; /* whether the tensor is stored as slices, each with its own entry */
};
int rt_checkpoint_count(const struct rt_checkpoint *c);
const struct rt_checkpoint_entry *rt_checkpoint_at(const struct rt_checkpoint *c, int i);
/* Returns the entry of the tensor `name`, or NULL if there is none. */
const struct rt_checkpoint_entry *rt_checkpoint_find(const struct rt_checkpoint *c,
                                                     const char *name);
/*
 * Checks that a checkpoint is complete: its index is valid, and every shard exists and has at least
 * the size that the index requires. Adds the minimum size in bytes of the loaded tensors to
 * *weight_bytes. Keeps only one entry of the index in memory at a time. If the check of `run`
 * fails, returns the check's status. `run` may be NULL.
 */
enum rt_status rt_checkpoint_measure(const char *prefix, const struct rt_checkpoint_run *run,
                                     int64_t *weight_bytes, struct rt_error *err);
/* Checks that the shards that were read have not changed since they were opened. Compares sizes and
 * modification times. */
enum rt_status rt_checkpoint_check_unchanged(struct rt_checkpoint *c, struct rt_error *err);

/*
 * The run for which an index and tensors are read or written. If it is NULL, there is no check and
 * no pool.
 *
 * `check` is called at least for each megabyte of a tensor, for every 16,384th string or slice, for
 * each written tensor, for each file name that is compared with a pattern, and for each 4 MB of a
 * block and each 128 KiB of entries of an index. If `check` fails, reading or writing stops.
 *
 * `pool` counts the memory of the index and of the tensors that are read; a lazy tensor is counted
 * when it is loaded. If `pool` is NULL, the memory is not counted.
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
/* Sets *check to the check of `run`, and returns `check`. Returns NULL if `run` is NULL. */
static inline const struct rt_check *rt_checkpoint_run_as_check(const struct rt_checkpoint_run *run,
                                                                struct rt_check *check)
{
    *check = run ? (struct rt_check){run->check, run->arg} : (struct rt_check){NULL, NULL};
    return run ? check : NULL;
}
static inline struct rt_pool *rt_checkpoint_run_pool(const struct rt_checkpoint_run *run)
{
    return run ? run->pool : NULL;
}

/*
 * Sets *out to the tensor `name`, or to a slice of it. `slice` is a slice in TensorFlow's text
 * form, such as "4 8 0,2:-", or empty for the full tensor. `want` is the dtype that the tensor must
 * have, or RT_NO_DTYPE for any dtype. A full tensor of a plain type that is not stored as slices
 * becomes a lazy file range (buffer.h), whose bytes are not read yet. Sliced tensors and strings
 * are read immediately. If the check of `run` fails, returns its status. `run` may be NULL. Returns
 * RT_NOT_FOUND with "Key NAME not found in checkpoint" if the tensor is missing.
 */
enum rt_status rt_checkpoint_tensor(struct rt_checkpoint *c, const char *name, struct rt_span slice,
                                    enum rt_dtype want, const struct rt_checkpoint_run *run,
                                    struct rt_tensor *out, struct rt_error *err);

/*
 * Writes a checkpoint of one shard, with the tensors' bytes in the given order and the keys sorted.
 * Creates missing directories. Each file gets its final name only when it is complete; the index
 * gets its name last. Fails if the file system would not keep its reserve (rt_file_check_space in
 * file.h). `slices` is NULL or has one span for each tensor: the slice in TensorFlow's text form if
 * the tensor is a slice of a larger tensor, and otherwise an empty span. If the check of `run`
 * fails, returns the check's status. A failed call leaves no temporary files. `run` may be NULL.
 */
enum rt_status rt_checkpoint_write(const char *prefix, int n, const char *const *names,
                                   const struct rt_tensor *tensors, const struct rt_span *slices,
                                   const struct rt_checkpoint_run *run, struct rt_error *err);
/*
 * Merges several checkpoints into one by moving their shards. The slices of a tensor are combined
 * under the tensor's name. If `delete_dirs` is true, also removes the directories of the old
 * prefixes if these directories have become empty. A call that fails leaves the shards where they
 * were: before it moves the first one, it checks that all can be moved, and if a later move fails
 * nevertheless, it moves the others back. If the check of `run` fails, returns the check's status.
 * The pool of `run` counts the memory of the merged index. `run` may be
 * NULL.
 */
enum rt_status rt_checkpoint_merge(const char *const *prefixes, int n, const char *destination,
                                   bool delete_dirs, const struct rt_checkpoint_run *run,
                                   struct rt_error *err);

#endif
