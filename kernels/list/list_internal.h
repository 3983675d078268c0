/*
 * Functions that the ops on tensor lists share. list_write.c holds the ops that make and change
 * lists, list_read.c the ops that read them, list.c the lists and the functions below. Each
 * function that fails fills r->err.
 */
#ifndef KN_LIST_INTERNAL_H
#define KN_LIST_INTERNAL_H

#include "kernels/entry.h"
#include "kernels/list/list.h"

/* The list in input k. NULL: input k is no list. */
struct kn_list *kn_list_input(struct rt_run *r, int k);
/* The list in input 0. NULL: input 0 is no list, or its elements are not of the type of the
 * attribute element_dtype. */
struct kn_list *kn_list_typed(struct rt_run *r);
enum rt_status kn_list_check_type(struct rt_run *r, const struct kn_list *l, enum rt_dtype want);

/* Changes the list to n items; new items are unwritten. False: r->err is filled. */
bool kn_list_resize(struct rt_run *r, struct kn_list *l, int64_t n);
/* Copies the first n items of `from` to the items of `to` from index `at` on, which must be
 * unwritten. */
enum rt_status kn_list_copy_items(struct rt_run *r, struct kn_list *to, int64_t at,
                                  const struct kn_list *from, int64_t n);
/* Prepares the list of input 0 for a change: uses the list itself when nothing else refers to it,
 * otherwise a copy. `own` holds the list until kn_list_write_done, which makes it output k unless
 * st is a failure. NULL: input 0 is no list. */
struct kn_list *kn_list_write_begin(struct rt_run *r, struct rt_tensor *own);
enum rt_status kn_list_write_done(struct rt_run *r, int k, struct rt_tensor *own,
                                  enum rt_status st);

/* *s: the shape in the element_shape input shape_in, merged with the list's element shape. */
enum rt_status kn_list_merged_shape(struct rt_run *r, const struct kn_list *l, int shape_in,
                                    struct rt_shape *s);
/* Merges the shapes of the written items into *s where *s is not fully known. */
enum rt_status kn_list_items_shape(struct rt_run *r, const struct kn_list *l, struct rt_shape *s);
/* *v: the integer in input k, which has to be a scalar. `name` is TensorFlow's name of the
 * input. */
enum rt_status kn_list_scalar(struct rt_run *r, int k, const char *name, int64_t *v);
/* Makes output k a tensor of zeros of this shape. */
enum rt_status kn_list_zeros(struct rt_run *r, int k, const struct rt_shape *s);
/* Copies an item of n elements to output k from element `at` on. An unwritten item is copied as
 * zeros. */
enum rt_status kn_list_put_item(struct rt_run *r, int k, int64_t at, const struct rt_tensor *item,
                                int64_t n);

/* Row rule of the list ops. Lists pass between nodes of one run, so a node is row-wise only when
 * none of its inputs depends on the batch. */
static inline void kn_rows_sizes(struct rt_rows *r)
{
    kn_rows_independent(r);
}

#define KN_LIST_OP(symbol, op_, infer_, run_)                                                      \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = (infer_), .rows = kn_rows_sizes},                           \
        .kernels = KN_KERNELS(                                                                     \
            {.op = (op_), .device = "CPU", .name = #symbol, .flags = RT_K_VIEWS, .run = (run_)}),  \
    };

#endif
