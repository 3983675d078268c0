/*
 * Sparse tensors in coordinate format. A sparse tensor consists of three tensors: int64 indices
 * [n, rank], values [n] and shape [rank]. These helpers check, compare and sort the indices.
 */
#ifndef KN_SPARSE_COO_H
#define KN_SPARSE_COO_H

#include "kernels/array/array.h"

/* The cost of moving one value, in units of rt_run_spend. A value may be a string, and copying a
 * string takes about 50 ns. */
enum { KN_COO_WORK = 128 };

struct kn_coo {
    const struct rt_tensor *indices, *values, *shape;
    int64_t n, rank;
    const int64_t *at;  /* the indices, an array [n, rank] */
    const int64_t *dim; /* the shape */
};

/* Returns a description of a sparse tensor that consists of three inputs. kn_coo_check checks
 * whether the shapes of the three inputs match. */
struct kn_coo kn_coo_of(const struct rt_tensor *indices, const struct rt_tensor *values,
                        const struct rt_tensor *shape);
enum rt_status kn_coo_check(struct rt_run *r, const struct kn_coo *s);
/* Checks that no dimension is negative, and that the product of the dimensions fits into int64. */
enum rt_status kn_coo_check_shape(struct rt_run *r, const int64_t *dim, int64_t rank);
/* Checks that all indices are inside the shape. */
enum rt_status kn_coo_check_inside(struct rt_run *r, const struct kn_coo *s);

/* Compares two rows of indices in lexicographic order. Returns a negative number, 0 or a positive
 * number if `a` precedes, equals or follows `b`. */
int kn_coo_compare(const int64_t *a, const int64_t *b, int64_t rank);

/* Formats n integers for error messages, as "[1,-2]". */
const char *kn_coo_text(char *buf, size_t size, const int64_t *v, int64_t n);
/* Checks that all indices are inside the shape, in lexicographic order and different. The number of
 * columns of the indices must be the length of the shape. */
enum rt_status kn_coo_check_rows(struct rt_run *r, const struct kn_coo *s);

/* One value of a sparse tensor in a sorted list: its row of indices and its position. */
struct kn_coo_place {
    const int64_t *row;
    const int64_t *order; /* the dimensions in order of significance, or NULL for 0, 1, ... */
    int64_t rank, at;
};
/* Sorts the values by their indices. Equal indices keep their relative order. The result is scratch
 * memory of the run. Returns NULL, with the reason in r->err, on failure. */
struct kn_coo_place *kn_coo_sort(struct rt_run *r, const int64_t *at, int64_t n, int64_t rank,
                                 const int64_t *order);

/* Copies element `from` of src to element `to` of base. */
static inline void kn_coo_copy(enum rt_dtype dtype, void *base, int64_t to, const void *src,
                               int64_t from)
{
    const size_t size = rt_dtype_size(dtype);

    kn_copy(dtype, (char *)base + (size_t)to * size, (const char *)src + (size_t)from * size, 1);
}

#endif
