/*
 * Reads a TensorFlow checkpoint ("tensor bundle"): PREFIX.index, a sorted-string table of small
 * protobufs, and PREFIX.data-NNNNN-of-NNNNN, the bytes. Formats: leveldb's table format; messages
 * of tensorflow/core/protobuf/tensor_bundle.proto. Every length is compared with the bytes there
 * are, every checksum verified.
 *
 * Threads: immutable after open; lookups and loads from any thread.
 * Owner: tensors that come out keep what they need of the checkpoint alive.
 */
#ifndef RT_CHECKPOINT_H
#define RT_CHECKPOINT_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

struct rt_checkpoint;

/* `prefix` as RestoreV2 gets it ("DIR/variables/variables"). Reads the index whole,
 * or joins whoever has the same file open. */
enum rt_status rt_checkpoint_open(struct rt_checkpoint **out, const char *prefix,
                                  struct rt_error *err);
/* As rt_checkpoint_open, the index from memory (for tests and fuzzing). */
enum rt_status rt_checkpoint_open_index(struct rt_checkpoint **out, const char *prefix,
                                        struct rt_span index, struct rt_error *err);
struct rt_checkpoint *rt_checkpoint_ref(struct rt_checkpoint *c);
void rt_checkpoint_unref(struct rt_checkpoint *c);

struct rt_checkpoint_entry {
    const char *name;
    enum rt_dtype dtype;
    struct rt_shape shape;
    int64_t bytes; /* of it in the data files */
    int shard;
    bool is_sliced; /* stored in parts, each an entry of its own */
};
int rt_checkpoint_count(const struct rt_checkpoint *c);
const struct rt_checkpoint_entry *rt_checkpoint_at(const struct rt_checkpoint *c, int i);
/* Every shard is there with at least the size that the index says. */
enum rt_status rt_checkpoint_check_files(const struct rt_checkpoint *c, struct rt_error *err);
/* The shards that were read from are as they were when they were opened (size, time of change). */
enum rt_status rt_checkpoint_check_unchanged(struct rt_checkpoint *c, struct rt_error *err);

/*
 * On whose behalf tensors are read. `check` is asked at each megabyte, and at each of some thousand
 * strings or parts; what it fails with ends the reading. NULL: it goes on to the end. The memory of
 * the tensors counts in `pool` (NULL: in none), that of lazy ones once they are in memory.
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
 * The tensor `name`, or its part `slice` ("" for the whole; else TensorFlow's slice text, e.g.
 * "4 8 0,2:-"). Plain whole tensors are lazy file ranges (tensor.h): nothing is read yet. Sliced
 * and string tensors are read at once, for `run` (NULL is fine). NOT_FOUND: "Key NAME not found in
 * checkpoint". `want`: the type it must have, RT_NO_DTYPE for any.
 */
enum rt_status rt_checkpoint_tensor(struct rt_checkpoint *c, const char *name, struct rt_span slice,
                                    enum rt_dtype want, const struct rt_checkpoint_run *run,
                                    struct rt_tensor *out, struct rt_error *err);

/*
 * Writes a checkpoint of one shard: bytes in the order given, keys sorted. Directories on the way
 * are made; the files appear whole, the index last. `slices`: NULL, or per tensor TensorFlow's
 * slice text: the tensor is then that part of a larger one ("" for a whole one).
 */
enum rt_status rt_checkpoint_write(const char *prefix, int n, const char *const *names,
                                   const struct rt_tensor *tensors, const struct rt_span *slices,
                                   struct rt_error *err);
/* Moves the shards of several checkpoints into one of as many shards; parts of one tensor come
 * together. `delete_dirs`: removes the old prefixes' directories when they are empty then. */
enum rt_status rt_checkpoint_merge(const char *const *prefixes, int n, const char *destination,
                                   bool delete_dirs, struct rt_error *err);

#endif
