/*
 * Crossed features: combinations of one value from each column of a row, as strings or hashes. The
 * ops SparseCross* and RaggedCross differ in how they find the values of a row.
 *
 * Threads: a cross belongs to one run.
 */
#ifndef KN_SPARSE_CROSS_H
#define KN_SPARSE_CROSS_H

#include "kernels/array/array.h"

enum kn_cross_how {
    KN_CROSS_TEXT,
    KN_CROSS_HASHED,
    KN_CROSS_KEYED
}; /* KN_CROSS_KEYED is used only by SparseCrossHashed */

struct kn_column {
    const struct rt_tensor *values;
    /* Indices of a sparse column, or row splits of a ragged column. If both are NULL, the column is
     * dense, and `values` is a matrix. */
    const struct rt_tensor *indices, *splits;
    /* `first` is the index of the column's first value in the current row, and `n` the number of
     * the column's values in this row */
    int64_t first, n;
    int64_t at; /* index of the column's value in the current combination */
};

struct kn_cross {
    struct rt_run *r;
    enum kn_cross_how how;
    int n, n_sparse;
    int64_t rows, buckets;
    uint64_t key, salt[2];
    bool is_strong;
    struct rt_span between;
    struct kn_column *column;
    struct kn_reader read; /* checks the deadline while a long string is hashed */
};

/* Moves all columns before the first row. */
void kn_cross_rewind(struct kn_cross *c);
/* Moves the columns to the next combination of a row's values. */
void kn_cross_next(struct kn_cross *c);
/* Returns the work on the current combination, in units of rt_run_spend. */
int64_t kn_cross_work(const struct kn_cross *c);
/* Writes the current combination to element `at` of `value`, which holds strings if c->how is
 * KN_CROSS_TEXT, and otherwise int64 numbers. `left` is the work before the deadline is checked. */
enum rt_status kn_cross_put(struct kn_cross *c, void *value, int64_t at, int64_t *left);

#endif
