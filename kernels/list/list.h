/*
 * Tensor lists: what flows along variant edges of TF2 loops. A list's spine is copied when it is
 * changed while shared; its items are references to tensors, never copied.
 */
#ifndef KN_CPU_LIST_H
#define KN_CPU_LIST_H

#include "kernels/array/array.h"

struct kn_list {
    struct rt_object o;
    enum rt_dtype elem;
    struct rt_shape shape; /* what every item must fit; rank -1, dim -1: open */
    int64_t max;           /* most items, -1: no limit */
    int64_t n, capacity;
    struct rt_tensor *item;   /* dtype RT_NO_DTYPE: never written */
    struct rt_buffer *memory; /* of the items, counted like a tensor's */
};
extern const struct rt_object_type kn_list_type;

/* NULL: the scalar variant holds something else. */
struct kn_list *kn_list_of(const struct rt_tensor *t);
/* A fresh list with n unwritten items. NULL: r->err says why. */
struct kn_list *kn_list_new(struct rt_run *r, enum rt_dtype elem, const struct rt_shape *shape,
                            int64_t n);

/* ZerosLike of a list (input 0): a list of zeros. */
enum rt_status kn_list_zeros_like(struct rt_run *r);

/* ---- shapes that are known in part ---- */

/* From an element_shape input: -1 or a vector. */
enum rt_status kn_partial_shape(const struct rt_tensor *t, struct rt_shape *out,
                                struct rt_error *err);
bool kn_partial_fits(const struct rt_shape *a, const struct rt_shape *b);
/* *a becomes what both say; TensorFlow's refusal when they differ. */
enum rt_status kn_partial_merge(struct rt_shape *a, const struct rt_shape *b, struct rt_error *err);
/* As TensorFlow writes it: "[?,2]", "<unknown>". */
#define KN_PARTIAL(s) ((s)->rank < 0 ? "<unknown>" : KN_TEXT(s))

/* ---- items, for lists, TensorArrays and stacks ---- */

enum { KN_ITEMS_MAX = 1 << 24 };
/*
 * Handles of resources are no items: a TensorArray that holds its own handle, itself or in a list,
 * would never be freed, since objects are counted by references. True: the elements may be kept.
 * False: *err says that they may not. `what` names their owner, with its article.
 */
bool kn_items_check(enum rt_dtype dtype, const char *what, struct rt_error *err);
/*
 * Room for at least n items of `each` bytes in *memory, which the run's pool counts; what is new is
 * zero. The items that were there move: their owner asks kn_items_at again. False: r->err says why,
 * nothing has changed. `what` names their owner, with its article.
 */
bool kn_items_grow(struct rt_run *r, struct rt_buffer **memory, int64_t *capacity, int64_t n,
                   size_t each, const char *what);
static inline void *kn_items_at(const struct rt_buffer *memory) /* NULL: there are none */
{
    return memory ? atomic_load(&memory->data) : NULL;
}

/* *dst becomes a lasting reference to t (borrowed bytes are copied). */
enum rt_status kn_keep(struct rt_run *r, struct rt_tensor *dst, const struct rt_tensor *t);
/* Item i of t's first dimension, a view (not a reference). */
struct rt_tensor kn_row(const struct rt_tensor *t, int64_t i);
/* Rows [first, first + n) of t, a view (not a reference). */
struct rt_tensor kn_rows_of(const struct rt_tensor *t, int64_t first, int64_t n);
void kn_shape_get(const struct rt_tensor *t, struct rt_shape *s);

#endif
