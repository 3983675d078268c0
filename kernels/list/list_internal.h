/*
 * Functions that the tensor list ops share. list_write.c contains the ops that create and change
 * lists, and list_read.c the ops that read them. list.c contains the lists and most functions
 * below. A function that fails sets r->err.
 */
#ifndef KN_LIST_INTERNAL_H
#define KN_LIST_INTERNAL_H

#include "kernels/entry.h"
#include "kernels/list/list.h"

/* Returns TensorFlow's description of the value of a scalar variant, for error messages. */
const char *kn_variant_text(const struct rt_tensor *t);
/* Returns TensorFlow's name for the type of the value of a scalar variant. */
const char *kn_variant_type(const struct rt_tensor *t);
/* Returns the list in input k, or NULL if input k is not a list. */
struct kn_list *kn_list_input(struct rt_run *r, int k);
/* Returns the list in input 0, or NULL if input 0 is not a list or its element type differs from
 * the attribute element_dtype. */
struct kn_list *kn_list_typed(struct rt_run *r);
enum rt_status kn_list_check_type(struct rt_run *r, const struct kn_list *l, enum rt_dtype want);

/* Resizes the list to n items. New items are unwritten. On failure, returns false and sets
 * r->err. */
bool kn_list_resize(struct rt_run *r, struct kn_list *l, int64_t n);
/* Copies the first n items of `from` to the unwritten items [at, at + n) of `to`. */
enum rt_status kn_list_copy_items(struct rt_run *r, struct kn_list *to, int64_t at,
                                  const struct kn_list *from, int64_t n);
/* Begins a change of the list in input 0. Returns the list itself if nothing else refers to it,
 * otherwise a copy, or NULL on failure. `own` holds the returned list until kn_list_write_done. If
 * st is RT_OK, kn_list_write_done makes the list output k. */
struct kn_list *kn_list_write_begin(struct rt_run *r, struct rt_tensor *own);
enum rt_status kn_list_write_done(struct rt_run *r, int k, struct rt_tensor *own,
                                  enum rt_status st);

/* Merges the list's element shape with the element_shape in input shape_in, and sets *s to the
 * result. */
enum rt_status kn_list_merged_shape(struct rt_run *r, const struct kn_list *l, int shape_in,
                                    struct rt_shape *s);
/* Merges the shapes of the written items into *s, unless *s is already fully known. */
enum rt_status kn_list_items_shape(struct rt_run *r, const struct kn_list *l, struct rt_shape *s);
/* Sets *v to the integer in input k, which must be a scalar. `name` is TensorFlow's name for the
 * input. */
enum rt_status kn_list_scalar(struct rt_run *r, int k, const char *name, int64_t *v);
/* Makes output k a zero tensor of shape s. */
enum rt_status kn_list_zeros(struct rt_run *r, int k, const struct rt_shape *s);
/* Copies an item of n elements into output k, starting at element `at` of the output. An unwritten
 * item yields zeros. */
enum rt_status kn_list_put_item(struct rt_run *r, int k, int64_t at, const struct rt_tensor *item,
                                int64_t n);

/* The cost of allocating a tensor, about 100 ns, in units of rt_run_spend. */
enum { KN_ITEM_WORK = 1024 };

/* ---- sums (variant_add.c and the files of the objects) ---- */

/* `depth` counts the variants that contain the operands. It is at most KN_VARIANTS_DEEP, because
 * the functions recurse. TensorFlow has no limit. */
enum { KN_VARIANTS_DEEP = 64 };

/* Makes *out the sum of two items. An unwritten item counts as zero. */
enum rt_status kn_item_add(struct rt_run *r, const struct rt_tensor *a, const struct rt_tensor *b,
                           int depth, struct rt_tensor *out);
/* Makes *out the sum of two scalar variants. */
enum rt_status kn_variant_add(struct rt_run *r, const struct rt_tensor *a,
                              const struct rt_tensor *b, int depth, struct rt_tensor *out);
/* Makes *out the sum of two variants that hold tensor maps. */
enum rt_status kn_tensor_map_add(struct rt_run *r, const struct rt_tensor *a,
                                 const struct rt_tensor *b, int depth, struct rt_object **out);
/* Makes *out the sum of two variants that hold ragged tensors. */
enum rt_status kn_ragged_add(struct rt_run *r, const struct rt_tensor *a, const struct rt_tensor *b,
                             int depth, struct rt_object **out);
/* Makes *out the sum of two variants that hold optionals. */
enum rt_status kn_optional_add(struct rt_run *r, const struct rt_tensor *a,
                               const struct rt_tensor *b, int depth, struct rt_object **out);

/* ---- zeros (variant_zeros.c and the files of the objects) ---- */

/* Makes *out zeros in the shape of item t, or of the objects in it. */
enum rt_status kn_item_zeros(struct rt_run *r, const struct rt_tensor *t, int depth,
                             struct rt_tensor *out);
/* Makes *out a list of zeros in the shapes of the items of the list in t. */
enum rt_status kn_list_of_zeros(struct rt_run *r, const struct rt_tensor *t, int depth,
                                struct rt_object **out);
/* Makes *out an empty tensor map, which is TensorFlow's zero. */
enum rt_status kn_tensor_map_zeros(struct rt_run *r, struct rt_object **out);
/* Makes *out a ragged tensor of zeros with the row splits of the ragged tensor in t. */
enum rt_status kn_ragged_zeros(struct rt_run *r, const struct rt_tensor *t, struct rt_object **out);
/* Makes *out an optional of zeros in the shapes of the components of the optional in t. */
enum rt_status kn_optional_zeros(struct rt_run *r, const struct rt_tensor *t, int depth,
                                 struct rt_object **out);

/* ---- optionals (optional.c) ---- */

/* Returns whether t is a scalar variant that holds an optional. */
bool kn_is_optional(const struct rt_tensor *t);
/* Returns whether t is a scalar variant that holds an optional without a value. */
bool kn_is_empty_optional(const struct rt_tensor *t);

/* ---- composite tensors (composite.c) ---- */

/* Returns whether t is a scalar variant that holds a composite tensor. */
bool kn_is_composite(const struct rt_tensor *t);

/* Implements rt_op.rows for the list ops. A list cannot be split into rows of the batch, so a node
 * is row-wise only if none of its inputs depends on the batch. */
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
