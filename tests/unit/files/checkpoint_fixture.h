/*
 * A fixture for tests of checkpoints. It holds two checkpoints that TensorFlow 2.21 wrote
 * (tests/goldens/checkpoint), the tensors of these checkpoints, and damaged copies of the files.
 * The copies are in the temporary directory (tests/support/folder.h).
 */
#ifndef TESTS_UNIT_FILES_CHECKPOINT_FIXTURE_H
#define TESTS_UNIT_FILES_CHECKPOINT_FIXTURE_H

#include "tests/support/test.h"

#include "runtime/files/checkpoint.h"
#include "tests/support/folder.h"

/* A checkpoint with 13 tensors of many types in one shard. */
#define CK_PLAIN "tests/goldens/checkpoint/plain"
/* A checkpoint with the tensor "w", whose slices are in several shards. */
#define CK_SLICED "tests/goldens/checkpoint/sliced"
#define CK_WHOLE  rt_span_of(NULL, 0) /* a slice that covers the complete tensor */

/* Set-up and tear-down functions of a cmocka group. They make and remove the temporary
 * directory. */
int ck_set_up(void **state);
int ck_tear_down(void **state);

/* Returns the checkpoint's entry with the given name, or NULL. */
const struct rt_checkpoint_entry *ck_entry(const struct rt_checkpoint *c, const char *name);
/* Reads a tensor into *t. Loads the bytes of `slice`, or of the complete tensor if `slice` is NULL.
 * The caller must clear *t afterwards. */
void ck_get(struct rt_checkpoint *c, const char *name, enum rt_dtype dtype, const char *slice,
            struct rt_tensor *t);
/* Fails the test unless `c` has the same tensors as CK_PLAIN, with the same names and bytes. */
void ck_assert_as_plain(struct rt_checkpoint *c);
/* Copies a file without its last `cut` bytes. If `flip` >= 0, inverts bit `flip` of the copy. */
void ck_copy_file(const char *from, const char *to, size_t cut, int flip);

int ck_n_files(const char *folder); /* returns the number of files in the folder */

/* Receives the bytes that a lazy tensor of at most 64 bytes streams, and checks that they arrive in
 * order. */
struct ck_collected {
    char bytes[64];
    size_t n;
};
enum rt_status ck_collect(void *arg, size_t off, const void *p, size_t n, struct rt_error *err);

#endif
