/*
 * What the ops on tensor lists share: list_write.c has those that make and change lists,
 * list_read.c those that read them, list.c the lists and the functions below. Each function that
 * fails has said why in r->err.
 */
#ifndef KN_LIST_INTERNAL_H
#define KN_LIST_INTERNAL_H

#include "kernels/entry.h"
#include "kernels/list/list.h"

/* The list of input k. NULL: it is none. */
struct kn_list *kn_list_input(struct rt_run *r, int k);
/* The list of input 0, whose elements are of the attribute element_dtype. NULL: it is none. */
struct kn_list *kn_list_typed(struct rt_run *r);
enum rt_status kn_list_check_type(struct rt_run *r, const struct kn_list *l, enum rt_dtype want);

/* The list has n items; new ones are not written. False: r->err says why. */
bool kn_list_resize(struct rt_run *r, struct kn_list *l, int64_t n);
/* Items of `to` from `at` on, never written so far, become the first n of `from`. */
enum rt_status kn_list_copy_items(struct rt_run *r, struct kn_list *to, int64_t at,
                                  const struct kn_list *from, int64_t n);
/* The list of input 0 to change: the one there when nobody else holds it, or a copy. `own` holds it
 * until kn_list_write_done, which makes it output k unless st is a failure. NULL: it is none. */
struct kn_list *kn_list_write_begin(struct rt_run *r, struct rt_tensor *own);
enum rt_status kn_list_write_done(struct rt_run *r, int k, struct rt_tensor *own,
                                  enum rt_status st);

/* *s: the element_shape that input shape_in holds, merged with the list's. */
enum rt_status kn_list_merged_shape(struct rt_run *r, const struct kn_list *l, int shape_in,
                                    struct rt_shape *s);
/* *s, as far as it is open, is merged with the shapes of the items that were written. */
enum rt_status kn_list_items_shape(struct rt_run *r, const struct kn_list *l, struct rt_shape *s);
/* *v: the integer that input k holds, which has to be a scalar. `name` is TensorFlow's for it. */
enum rt_status kn_list_scalar(struct rt_run *r, int k, const char *name, int64_t *v);
/* Output k becomes zeros of this shape. */
enum rt_status kn_list_zeros(struct rt_run *r, int k, const struct rt_shape *s);
/* Copies an item of n elements, or zeros for one that was never written, to element `at` of output
 * k. */
enum rt_status kn_list_put_item(struct rt_run *r, int k, int64_t at, const struct rt_tensor *item,
                                int64_t n);

/* Lists are handed on between nodes of one run: proved only when nothing depends on the batch. */
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
