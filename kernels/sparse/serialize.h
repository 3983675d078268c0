/*
 * What the ops that pack and unpack sparse tensors share: serialised sparse tensors (serialize.c)
 * and maps of sparse tensors that stay in a session (sparse_map.c).
 *
 * Owner: as each function says. Threads: all data belongs to a single run.
 */
#ifndef KN_SPARSE_SERIALIZE_H
#define KN_SPARSE_SERIALIZE_H

#include "kernels/sparse/coo.h"

enum { KN_INDICES_PART, KN_VALUES_PART, KN_SHAPE_PART, KN_SPARSE_PARTS };

/* Checks the ranks of the three parts of a sparse tensor that are inputs 0 to 2. */
enum rt_status kn_sparse_check_ranks(struct rt_run *r, const struct kn_coo *s);
/* Checks that a sparse tensor of at least two dimensions can be split into its rows: the indices
 * are inside the shape and sorted. */
enum rt_status kn_sparse_check_rows(struct rt_run *r, const struct kn_coo *s);
/* Returns the number of values, beginning with value `at`, whose first index is `row`. */
int64_t kn_sparse_row_length(const struct kn_coo *s, int64_t at, int64_t row);
/* Makes the indices and the shape of row values [at, at + n) of a sparse tensor, without the first
 * dimension. `part` is zeroed, and the caller clears it even after a failure. part[KN_VALUES_PART]
 * becomes a view that holds no reference. */
enum rt_status kn_sparse_row(struct rt_run *r, const struct kn_coo *s, int64_t at, int64_t n,
                             struct rt_tensor part[KN_SPARSE_PARTS]);
/*
 * Sets outputs 0 to 2 to the sparse tensor that consists of n sparse tensors of equal rank. The
 * tensors `part[3 * i]` to `part[3 * i + 2]` are sparse tensor i. Each index is preceded by the
 * position of its sparse tensor in an array with dimensions dim[0], ..., dim[n_dims - 1].
 */
enum rt_status kn_sparse_join(struct rt_run *r, const struct rt_tensor *part, int64_t n,
                              const int64_t *dim, int n_dims);

#endif
