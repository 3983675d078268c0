/*
 * Reads TensorFlow's first checkpoint format: files that are each a sorted-string table with a
 * SavedTensorSlices for each stored slice of a tensor, and under the empty key one that lists the
 * tensors. Savers of TensorFlow 0.x and Saver(write_version=V1) wrote it; RestoreV2 reads it where
 * PREFIX.index is missing, Restore and RestoreSlice read nothing else.
 *
 * Only the list is kept; a tensor is looked up in the table and decoded each time. A file is open
 * only while it is read.
 *
 * Threads: immutable after open. Owner: whoever opened it, and those who opened it again meanwhile;
 * tensors that come out stand alone.
 */
#ifndef RT_CHECKPOINT_V1_H
#define RT_CHECKPOINT_V1_H

#include "runtime/files/checkpoint.h"
#include "runtime/files/sstable.h"
#include "runtime/core/tensor.h"

struct rt_checkpoint_v1;

/*
 * `pattern`: the file, or a pattern whose last component has '?', '*' or '[', as sharded savers
 * name them ("DIR/model-?????-of-00004"); at most 10,000 files. NOT_FOUND: no file matches.
 * The one opened last is kept until rt_checkpoint_v1_forget: as long as its files stay as they are,
 * to open it again costs a look at each of them.
 */
enum rt_status rt_checkpoint_v1_open(struct rt_checkpoint_v1 **out, const char *pattern,
                                     struct rt_error *err);
/* The same of one table that lies somewhere else (for tests and fuzzing); `name` stands in errors.
 */
enum rt_status rt_checkpoint_v1_over(struct rt_checkpoint_v1 **out, const char *name,
                                     const struct rt_sstable_source *source, struct rt_error *err);
void rt_checkpoint_v1_close(struct rt_checkpoint_v1 *c); /* NULL is fine */
/* A session is loaded, or gone: what is kept for further nodes that restore is not needed. */
void rt_checkpoint_v1_forget(void);

int rt_checkpoint_v1_count(const struct rt_checkpoint_v1 *c);
const char *rt_checkpoint_v1_name(const struct rt_checkpoint_v1 *c, int i);

/* As rt_checkpoint_tensor; the bytes are there at once. */
enum rt_status rt_checkpoint_v1_tensor(const struct rt_checkpoint_v1 *c, const char *name,
                                       struct rt_span slice, enum rt_dtype want,
                                       const struct rt_checkpoint_run *run, struct rt_tensor *out,
                                       struct rt_error *err);

#endif
