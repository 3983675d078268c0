/* Tensor lists, which loops of TensorFlow 2 hold in variant tensors. A shared list is copied before
 * it is changed. Only its array of items is copied: items are references to tensors, so the
 * elements of the tensors are never copied. */
#ifndef KN_LIST_LIST_H
#define KN_LIST_LIST_H

#include "kernels/array/array.h"

struct kn_list {
    struct rt_object o;
    enum rt_dtype elem;
    /* every item must match this shape, in which an unknown rank or dimension is -1 */
    struct rt_shape shape;
    int64_t max; /* maximum number of items, or -1 for no maximum */
    int64_t n, capacity;
    struct rt_tensor *item; /* an item whose dtype is RT_NO_DTYPE was never written */
    /* memory that holds the array `item`; the run's memory pool counts it */
    struct rt_buffer *memory;
};
extern const struct rt_object_type kn_list_type;

/* Returns the list in t, or NULL if the scalar variant t holds something other than a list. */
struct kn_list *kn_list_of(const struct rt_tensor *t);
/* Returns a new list with n unwritten items. On failure, returns NULL and sets r->err. */
struct kn_list *kn_list_new(struct rt_run *r, enum rt_dtype elem, const struct rt_shape *shape,
                            int64_t n);

/* ---- sums (variant_add.c) ---- */

/* Returns whether tensors of this type can be added. */
bool kn_is_number(enum rt_dtype dtype);
/* Makes *out the sum of two tensors of the same shape and the same type, which must be a type of
 * numbers. On failure, *out must be cleared. */
enum rt_status kn_numbers_add(struct rt_run *r, const struct rt_tensor *a,
                              const struct rt_tensor *b, struct rt_tensor *out);
/* Runs AddN on variants. */
enum rt_status kn_variant_add_n(struct rt_run *r);

/* ---- tensor maps (tensor_map.c) ---- */

/* Returns whether t is a scalar variant that holds a tensor map. */
bool kn_is_tensor_map(const struct rt_tensor *t);

/* ---- ragged tensors in variants (ragged_variant.c) ---- */

/* Returns whether t is a scalar variant that holds a ragged tensor. */
bool kn_is_ragged(const struct rt_tensor *t);

/* ---- zeros (variant_zeros.c) ---- */

/* Runs ZerosLike on the scalar variant in input 0. */
enum rt_status kn_variant_zeros_like(struct rt_run *r);

/* ---- partially known shapes ---- */

/* Reads an element_shape input, which is the scalar -1 (unknown rank) or a vector. */
enum rt_status kn_partial_shape(const struct rt_tensor *t, struct rt_shape *out,
                                struct rt_error *err);
bool kn_partial_fits(const struct rt_shape *a, const struct rt_shape *b);
/* Merges b into *a. Returns INVALID_ARGUMENT with TensorFlow's message if the shapes are
 * incompatible. */
enum rt_status kn_partial_merge(struct rt_shape *a, const struct rt_shape *b, struct rt_error *err);
/* Formats a partial shape as TensorFlow does: "[?,2]", "<unknown>". */
#define KN_PARTIAL(s) ((s)->rank < 0 ? "<unknown>" : KN_TEXT(s))

/* ---- items of lists, TensorArrays and stacks ---- */

enum { KN_ITEMS_MAX = 1 << 24 };
/*
 * Refuses resource handles as items. Objects are reference-counted, so a TensorArray that held its
 * own handle, directly or in a list, would never be freed. Returns true if items of this type are
 * allowed, otherwise sets *err. `what` names the owner of the items in messages, such as "a stack".
 */
bool kn_items_check(enum rt_dtype dtype, const char *what, struct rt_error *err);
/*
 * Grows *memory to a capacity of at least n items of `each` bytes, and zeroes the new items. The
 * run's memory pool counts the memory. The existing items move, so their owner must call
 * kn_items_at again. On failure, returns false, sets r->err and changes nothing. `what` names the
 * owner of the items in messages, such as "a stack".
 */
bool kn_items_grow(struct rt_run *r, struct rt_buffer **memory, int64_t *capacity, int64_t n,
                   size_t each, const char *what);
/* Returns NULL if `memory` is NULL. */
static inline void *kn_items_at(const struct rt_buffer *memory)
{
    return memory ? atomic_load(&memory->data) : NULL;
}

/* Makes *dst a tensor that outlives the op. It refers to the memory of t or, if t holds no
 * reference to a buffer, is a copy of t. */
enum rt_status kn_keep(struct rt_run *r, struct rt_tensor *dst, const struct rt_tensor *t);
/* Returns row i of t, as a view that holds no reference. */
struct rt_tensor kn_row(const struct rt_tensor *t, int64_t i);
/* Returns rows [first, first + n) of t, as a view that holds no reference. */
struct rt_tensor kn_rows_of(const struct rt_tensor *t, int64_t first, int64_t n);
void kn_shape_get(const struct rt_tensor *t, struct rt_shape *s);

#endif
