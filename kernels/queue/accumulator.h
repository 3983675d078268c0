/*
 * Conditional accumulators: resources that add up gradients. A run waits until the accumulator has
 * as many gradients as the run requires, and then takes their sum or mean. A gradient is dropped if
 * its step is older than the accumulator's step.
 *
 *   accumulator.c         the functions that dense and sparse accumulators share, and the dense ops
 *   sparse_accumulator.c  the sparse ops; a sparse gradient has slices for some indices only
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
    struct rt_shape shape; /* the shape of a gradient, which may be partly unknown */
    bool is_sparse, takes_mean;
    struct rt_mutex mu;
    /* mu guards all members from here on */
    struct rt_cond changed;
    struct kn_taker *first; /* the runs that wait for gradients, in the order of their arrival */
    int64_t n, step;        /* number of gradients in the sum, and the accumulator's step */
    /* The sum of the gradients. A sparse accumulator also has the index of each slice of the sum,
     * and the number of gradients that were added to the slice. */
    struct rt_tensor part[KN_ACCUMULATED];
};

/* Makes the accumulator of a node. */
enum rt_status kn_accumulator_make(const struct rt_make *make, struct rt_object **out);
/* Returns the accumulator in input 0. On failure, returns NULL and sets r->err. */
struct kn_accumulator *kn_accumulator_of(struct rt_run *r, bool is_sparse);
/*
 * Calls `add` with the accumulator locked, unless the gradient's step (input 1) is older than the
 * accumulator's step. `add` must change the sum only if it succeeds.
 */
enum rt_status kn_accumulator_apply(struct rt_run *r, bool is_sparse,
                                    enum rt_status (*add)(struct rt_run *r,
                                                          struct kn_accumulator *a));
/* Waits until the accumulator has as many gradients as input 1 requires, and then calls `give` with
 * the accumulator locked. */
enum rt_status kn_accumulator_take(struct rt_run *r, bool is_sparse,
                                   enum rt_status (*give)(struct rt_run *r,
                                                          struct kn_accumulator *a));
/* Replaces the first n elements of a->part by the tensors at `t`. If the call fails, changes
 * nothing. Drops the references at `t` in any case. */
enum rt_status kn_accumulator_set(struct rt_run *r, struct kn_accumulator *a, struct rt_tensor *t,
                                  int n);

/* kn_add_gradients adds n elements of a and b. kn_divide_gradients divides n elements of a by
 * `count`. */
void kn_add_gradients(enum rt_dtype dtype, void *dst, const void *a, const void *b, int64_t n);
void kn_divide_gradients(enum rt_dtype dtype, void *dst, const void *a, int64_t count, int64_t n);

#endif
