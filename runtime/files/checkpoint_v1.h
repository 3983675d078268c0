/*
 * Reads TensorFlow's first checkpoint format. Each file is a sorted-string table. The table has a
 * SavedTensorSlices message for each stored slice of a tensor, and a message with an empty key that
 * lists the tensors. Savers of TensorFlow 0.x and Saver(write_version=V1) wrote this format.
 * RestoreV2 reads it if PREFIX.index is missing; Restore and RestoreSlice read only this format.
 *
 * An open checkpoint has only the list of tensors in memory. Each read finds a tensor in the table
 * and decodes it. A file is open only during a read.
 *
 * Threads: a checkpoint is immutable once open. Owner: a checkpoint has a reference count; each
 * caller of rt_checkpoint_v1_open owns a reference. Tensors do not refer to their checkpoint.
 */
#ifndef RT_CHECKPOINT_V1_H
#define RT_CHECKPOINT_V1_H

#include "runtime/files/checkpoint.h"
#include "runtime/files/sstable.h"
#include "runtime/core/tensor.h"

struct rt_checkpoint_v1;

/*
 * Opens a checkpoint. `pattern` is a file name, or a pattern with '?', '*' or '[' in its last
 * component, such as "DIR/model-?????-of-00004" for the files of a sharded saver. A pattern in the
 * last component may have at most 255 bytes, and at most 10,000 files may match. Returns
 * RT_NOT_FOUND if no file matches. If the checkpoint is kept (rt_checkpoint_v1_keep) with the same
 * pool and its files are unchanged, returns a reference to it after calling stat for each file. If
 * the check of `run` fails, returns the check's status. The pool of `run` counts the memory of the
 * checkpoint. `run` may be NULL.
 */
enum rt_status rt_checkpoint_v1_open(struct rt_checkpoint_v1 **out, const char *pattern,
                                     const struct rt_checkpoint_run *run, struct rt_error *err);
/* Opens a checkpoint whose only table is read from `source` instead of a file (for tests and
 * fuzzing). Error messages call the table `name`. */
enum rt_status rt_checkpoint_v1_over(struct rt_checkpoint_v1 **out, const char *name,
                                     const struct rt_sstable_source *source, struct rt_error *err);
void rt_checkpoint_v1_close(struct rt_checkpoint_v1 *c); /* `c` may be NULL */
/* Retains a reference to the checkpoint until rt_checkpoint_v1_keep is called for another
 * checkpoint, or rt_checkpoint_v1_forget is called. Called while a session is loaded, because early
 * TensorFlow graphs often have a RestoreV2 node for each variable, and these nodes run one after
 * another. Not called for the runs of a served session, because nothing would drop the reference,
 * and the checkpoint's list of tensors may take gigabytes. */
void rt_checkpoint_v1_keep(struct rt_checkpoint_v1 *c);
/* Drops the reference that rt_checkpoint_v1_keep has retained. Called when a session has been
 * loaded or is freed, because no further node will read the checkpoint. */
void rt_checkpoint_v1_forget(void);

int rt_checkpoint_v1_count(const struct rt_checkpoint_v1 *c);
const char *rt_checkpoint_v1_name(const struct rt_checkpoint_v1 *c, int i);

/* Reads a tensor or a slice, as rt_checkpoint_tensor does. The tensor is never lazy. */
enum rt_status rt_checkpoint_v1_tensor(const struct rt_checkpoint_v1 *c, const char *name,
                                       struct rt_span slice, enum rt_dtype want,
                                       const struct rt_checkpoint_run *run, struct rt_tensor *out,
                                       struct rt_error *err);

#endif
