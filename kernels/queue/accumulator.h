/*
 * Conditional accumulators: resources that add up gradients until a run takes the sum or the mean
 * of at least as many as it requires. Gradients of an older step than the accumulator's are
 * dropped.
 *
 *   accumulator.c         what dense and sparse accumulators share, and the dense ops
 *   sparse_accumulator.c  gradients that have a slice for each of some indices
 *
 * Threads: an accumulator is locked while it is read or changed.
 */
#ifndef KN_QUEUE_ACCUMULATOR_H
#define KN_QUEUE_ACCUMULATOR_H

#include "kernels/queue/items.h"

struct kn_taker;

enum { KN_SUM, KN_INDICES, KN_COUNTS, KN_ACCUMULATED };

struct kn_accumulator {
    struct rt_object o;
    enum rt_dtype dtype;
    struct rt_shape shape; /* of gradients; may be partial */
    bool is_sparse, takes_mean;
    struct rt_mutex mu;
    /* mu guards all members from here on */
    struct rt_cond changed;
    struct kn_taker *first; /* the runs that wait for gradients, in the order of their arrival */
    int64_t n, step;        /* number of gradients, and the accumulator's global step */
    /* The sum of the gradients. A sparse accumulator also has the indices of the sum's slices, and
     * the number of gradients that each slice holds. */
    struct rt_tensor part[KN_ACCUMULATED];
};

/* Makes the accumulator of a node. */
enum rt_status kn_accumulator_make(const struct rt_node *n, const struct rt_tensor *in,
                                   struct rt_object **out, struct rt_error *err);
/* Returns the accumulator in input 0, or NULL. */
struct kn_accumulator *kn_accumulator_of(struct rt_run *r, bool is_sparse);
/*
 * Calls `add` under the lock, unless the gradient is of an older step, which input 1 holds. `add`
 * changes the sum only if it succeeds.
 */
enum rt_status kn_accumulator_apply(struct rt_run *r, bool is_sparse,
                                    enum rt_status (*add)(struct rt_run *r,
                                                          struct kn_accumulator *a));
/* Waits for as many gradients as input 1 requires, and calls `give` under the lock. */
enum rt_status kn_accumulator_take(struct rt_run *r, bool is_sparse,
                                   enum rt_status (*give)(struct rt_run *r,
                                                          struct kn_accumulator *a));
/* Replaces the sum, and if n is KN_ACCUMULATED also the indices and counts, by the tensors at `t`,
 * or changes nothing if it fails. Drops the references at `t` in both cases. */
enum rt_status kn_accumulator_set(struct rt_run *r, struct kn_accumulator *a, struct rt_tensor *t,
                                  int n);

/* Adds n elements of a and b, or divides n elements of a by a count. */
void kn_add_gradients(enum rt_dtype dtype, void *dst, const void *a, const void *b, int64_t n);
void kn_divide_gradients(enum rt_dtype dtype, void *dst, const void *a, int64_t count, int64_t n);

#endif
