/*
 * Reads TensorFlow's first checkpoint format. Each file is a sorted-string table with a
 * SavedTensorSlices message for each stored slice of a tensor, and under the empty key a message
 * that lists the tensors. Savers of TensorFlow 0.x and Saver(write_version=V1) wrote this format.
 * RestoreV2 reads it if PREFIX.index is missing; Restore and RestoreSlice read only this format.
 *
 * A checkpoint in memory holds only the list of tensors. Each read looks a tensor up in the table
 * and decodes it. A file is open only while it is read.
 *
 * Threads: a checkpoint is immutable after open. Owner: a checkpoint has a reference count; each
 * caller of rt_checkpoint_v1_open owns a reference. Tensors do not refer to their checkpoint.
 */
#ifndef RT_CHECKPOINT_V1_H
#define RT_CHECKPOINT_V1_H

#include "runtime/files/checkpoint.h"
#include "runtime/files/sstable.h"
#include "runtime/core/tensor.h"

struct rt_checkpoint_v1;

/*
 * Opens a checkpoint. `pattern` is the name of its file, or a pattern whose last component has '?',
 * '*' or '[', because sharded savers write several files ("DIR/model-?????-of-00004"). At most
 * 10,000 files may match. Returns RT_NOT_FOUND if no file matches. The checkpoint opened last is
 * kept until rt_checkpoint_v1_forget; as long as its files are unchanged, opening it again costs
 * one stat per file, if the pool of `run` is the same. If the check of `run` fails, reading ends.
 * The pool of `run` counts the memory of the checkpoint. `run` may be NULL.
 */
enum rt_status rt_checkpoint_v1_open(struct rt_checkpoint_v1 **out, const char *pattern,
                                     const struct rt_checkpoint_run *run, struct rt_error *err);
/* Opens a checkpoint of one table that is not in a file (for tests and fuzzing). Error texts call
 * the table `name`. */
enum rt_status rt_checkpoint_v1_over(struct rt_checkpoint_v1 **out, const char *name,
                                     const struct rt_sstable_source *source, struct rt_error *err);
void rt_checkpoint_v1_close(struct rt_checkpoint_v1 *c); /* `c` may be NULL */
/* Drops the checkpoint that was opened last. Called when a session has been loaded or is freed,
 * because no more nodes will restore from the checkpoint. */
void rt_checkpoint_v1_forget(void);

int rt_checkpoint_v1_count(const struct rt_checkpoint_v1 *c);
const char *rt_checkpoint_v1_name(const struct rt_checkpoint_v1 *c, int i);

/* Reads a tensor, or a slice of one, as rt_checkpoint_tensor does. The tensor is never lazy. */
enum rt_status rt_checkpoint_v1_tensor(const struct rt_checkpoint_v1 *c, const char *name,
                                       struct rt_span slice, enum rt_dtype want,
                                       const struct rt_checkpoint_run *run, struct rt_tensor *out,
                                       struct rt_error *err);

#endif
