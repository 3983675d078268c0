/*
 * Reads and writes TensorFlow's checkpoints ("tensor bundles"). PREFIX.index is a sorted-string
 * table of small protobufs, and the files PREFIX.data-NNNNN-of-NNNNN (shards) hold the bytes.
 * Formats: leveldb's table format; messages of tensorflow/core/protobuf/tensor_bundle.proto. Every
 * length is compared with the bytes that are there, and every checksum is verified.
 *
 * Threads: a checkpoint is immutable after open; any thread may look up and load tensors.
 * Owner: tensors of a checkpoint keep alive what they need of it.
 */
#ifndef RT_CHECKPOINT_H
#define RT_CHECKPOINT_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

struct rt_checkpoint;

/* `prefix`: as RestoreV2 gets it ("DIR/variables/variables"). Reads the whole index, or returns a
 * reference to the checkpoint that is open already for an unchanged file. */
enum rt_status rt_checkpoint_open(struct rt_checkpoint **out, const char *prefix,
                                  struct rt_error *err);
/* As rt_checkpoint_open, with the index in memory (for tests and fuzzing). */
enum rt_status rt_checkpoint_open_index(struct rt_checkpoint **out, const char *prefix,
                                        struct rt_span index, struct rt_error *err);
struct rt_checkpoint *rt_checkpoint_ref(struct rt_checkpoint *c);
void rt_checkpoint_unref(struct rt_checkpoint *c);

struct rt_checkpoint_entry {
    const char *name;
    enum rt_dtype dtype;
    struct rt_shape shape;
    int64_t bytes; /* number of bytes of the tensor in the data files */
    int shard;
    bool is_sliced; /* stored as slices, each with an entry of its own */
};
int rt_checkpoint_count(const struct rt_checkpoint *c);
const struct rt_checkpoint_entry *rt_checkpoint_at(const struct rt_checkpoint *c, int i);
/* Checks that every shard exists and has at least the size that the index needs. */
enum rt_status rt_checkpoint_check_files(const struct rt_checkpoint *c, struct rt_error *err);
/* Checks that the shards which were read have not changed since they were opened (size, time of
 * change). */
enum rt_status rt_checkpoint_check_unchanged(struct rt_checkpoint *c, struct rt_error *err);

/*
 * The run that reads tensors. `check` is called at each megabyte, and at every 16,384th string or
 * slice; a failure of it ends the reading. A NULL run reads to the end. The tensors' memory counts
 * in `pool` (NULL: in none); that of lazy tensors counts once they are loaded.
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
 * *out: the tensor `name`, or a slice of it. `slice`: empty for the whole tensor; else TensorFlow's
 * slice text, e.g. "4 8 0,2:-". Whole tensors of plain types that are stored whole become lazy file
 * ranges (buffer.h), of which nothing is read yet. Sliced tensors and strings are read at once, for
 * `run` (may be NULL). RT_NOT_FOUND: "Key NAME not found in checkpoint". `want`: the dtype that the
 * tensor must have; RT_NO_DTYPE: any.
 */
enum rt_status rt_checkpoint_tensor(struct rt_checkpoint *c, const char *name, struct rt_span slice,
                                    enum rt_dtype want, const struct rt_checkpoint_run *run,
                                    struct rt_tensor *out, struct rt_error *err);

/*
 * Writes a checkpoint of one shard: the tensors' bytes in the given order, the keys sorted. Missing
 * directories are made. Each file appears under its name only when it is complete, the index last.
 * `slices`: NULL, or for each tensor TensorFlow's slice text, if the tensor is a slice of a larger
 * one; empty for a whole tensor.
 */
enum rt_status rt_checkpoint_write(const char *prefix, int n, const char *const *names,
                                   const struct rt_tensor *tensors, const struct rt_span *slices,
                                   struct rt_error *err);
/* Merges several checkpoints into one by moving their shards; the slices of one tensor come under
 * one name. `delete_dirs`: removes the directories of the old prefixes if they are empty then. */
enum rt_status rt_checkpoint_merge(const char *const *prefixes, int n, const char *destination,
                                   bool delete_dirs, struct rt_error *err);

#endif
