/*
 * What the array families share: shapes and index vectors of inputs, outputs made from `infer`,
 * and one n-dimensional strided copy that most of them come down to.
 */
#ifndef KN_CPU_ARRAY_H
#define KN_CPU_ARRAY_H

#include "runtime/core/op.h"

/* ---- what infer sees ---- */

bool kn_shape_known(const struct rt_shape *s); /* elementwise.c */
/* Every input's shape is exact; `values` is a set of inputs whose values must be known too. */
bool kn_known(const struct rt_infer *x, uint64_t values);
void kn_set_shape(struct rt_info *o, int rank, const int64_t *dim);
void kn_set_vector(struct rt_info *o, int64_t n);
int64_t kn_shape_total(const struct rt_shape *s); /* -1: overflow */
/* "[2,3]" of a shape, for error texts. */
#define KN_SHAPE_TEXT 192
#define KN_TEXT(s)    rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, (s)->rank, (s)->dim)

/* out 0 has input 0's shape. */
enum rt_status kn_infer_copy(struct rt_infer *x);
/* The shape of n inputs joined along an axis; unknown while one of theirs is. */
enum rt_status kn_concat_shape(const struct rt_info *in, int n, int64_t axis, struct rt_shape *out,
                               struct rt_error *err);
/* every output is a scalar. */
enum rt_status kn_infer_scalars(struct rt_infer *x);

/* ---- integers ---- */

/* Element i of any integer or bool tensor; 0 of a tensor that has none, should a caller have
 * forgotten to refuse it. */
int64_t kn_int_at(const struct rt_tensor *t, int64_t i);
/*
 * The value of an input that is one number; false: the tensor has another shape, and the caller
 * refuses it in TensorFlow's words. kn_scalar takes a scalar only. kn_single takes one element
 * in any shape: for the ops whose kernels in TensorFlow do so (found by running them:
 * tests/conformance/acceptance.py). Integers and bool; kn_scalar_float: a scalar of floats.
 */
bool kn_scalar(const struct rt_tensor *t, int64_t *v);
bool kn_single(const struct rt_tensor *t, int64_t *v);
bool kn_scalar_float(const struct rt_tensor *t, double *v);
/* All elements of a tensor; their number, or -1 when there are more than max. */
int kn_ints(const struct rt_tensor *t, int64_t *v, int max);
/* ---- attributes that several families have ---- */

/* `container` of a node that makes a table or a TensorFlow 1 variable: letters, digits, '.', and,
 * but for the first, '-' and '/'. TensorFlow does not look at that of a VarHandleOp. */
enum rt_status kn_check_container(const struct rt_node *n, struct rt_error *err);
/* bad_indices_policy of the node: *skips, an index outside leaves its element out. An unknown
 * policy is refused, as TensorFlow does when it makes the kernel. */
enum rt_status kn_bad_indices(const struct rt_node *n, bool *skips, struct rt_error *err);

/* ---- places ---- */

/* Where element i of t is: "[1,0]"; nothing for a scalar. */
const char *kn_place_text(char *buf, size_t n, const struct rt_tensor *t, int64_t i);
/*
 * Refuses the i-th tuple of `depth` indices that lies outside of `into`: "indices[1] = [0, 7] does
 * not index into shape [2,3]". The first `outer` dimensions of `index` count the tuples. `node`:
 * of a gather, whose text says "param shape" and ends in the node's name; else NULL.
 */
enum rt_status kn_fail_outside(struct rt_error *err, const struct rt_tensor *index, int outer,
                               int depth, int64_t i, const struct rt_tensor *into,
                               const struct rt_node *node);
void kn_put_int(struct rt_tensor *t, int64_t i, int64_t v); /* of an integer tensor */

/* ---- outputs ---- */

/* Output k with this shape: the one infer's answer allocated, or a new one. NULL: r->err. */
void *kn_out(struct rt_run *r, int k, int rank, const int64_t *dim);
/* Allocates outputs that are not there yet by asking infer with the inputs as they are now. */
enum rt_status kn_outputs(struct rt_run *r, enum rt_status (*infer)(struct rt_infer *x));
/* The same checks and shapes at run time, without outputs: fills out[0..n_out). */
enum rt_status kn_infer_now(struct rt_run *r, enum rt_status (*infer)(struct rt_infer *x),
                            struct rt_info *out);
/* rt_out_view that copes with an output that was laid over that input. */
enum rt_status kn_view(struct rt_run *r, int k, int in, int rank, const int64_t *dim);
/*
 * Output 0 is input `in` where TensorFlow hands its buffer on, which shows only where the input is
 * an alias of a variable (runtime/exec/alias.h). False: it is none, and a copy is to be made.
 */
bool kn_hand_on(struct rt_run *r, int in);
/* Output k is a view of n elements of input `in`, from element `first`, when it is contiguous
 * and of plain ownership. */
enum rt_status kn_out_slice(struct rt_run *r, int k, int in, int64_t first, int rank,
                            const int64_t *dim);

/* Rows of n elements are multiples of 64 bytes: TensorFlow shares whole ones instead of copying. */
bool kn_is_aligned(enum rt_dtype dtype, int64_t n);

/* ---- copies ---- */

enum { KN_WALK_RANK = 2 * RT_MAX_RANK + 2 };
/* dst[sum i*dst] = src[sum i*src] for all i in dim; strides in elements. */
struct kn_walk {
    int rank;
    int64_t dim[KN_WALK_RANK], dst[KN_WALK_RANK], src[KN_WALK_RANK];
};
/* Row-major strides. */
void kn_strides(int rank, const int64_t *dim, int64_t *stride);
/* dst must be initialised for strings and objects. Ends in between when the run should end. */
enum rt_status kn_walk_copy(enum rt_dtype dtype, const struct kn_walk *w, void *dst,
                            const void *src, struct rt_run *r);
/* The same into what outlives the run: always to the end. */
void kn_walk_write(enum rt_dtype dtype, const struct kn_walk *w, void *dst, const void *src);
/* n elements, dst initialised. */
static inline void kn_copy(enum rt_dtype dtype, void *dst, const void *src, int64_t n)
{
    if (n <= 0)
        return;
    if (rt_dtype_is_plain(dtype))
        memcpy(dst, src, (size_t)n * rt_dtype_size(dtype));
    else
        rt_copy_elements(dtype, dst, src, n);
}
/*
 * The same, and clearing, for what may be large: in pieces of a millisecond or a few, after each of
 * which the run is asked whether it should end.
 */
enum rt_status kn_copy_chunks(struct rt_run *r, enum rt_dtype dtype, void *dst, const void *src,
                              int64_t n);
enum rt_status kn_zero_chunks(struct rt_run *r, void *dst, size_t bytes);
static inline enum rt_status kn_copy_run(struct rt_run *r, enum rt_dtype dtype, void *dst,
                                         const void *src, int64_t n)
{
    enum { FEW = 4096 };

    if (n > FEW)
        return kn_copy_chunks(r, dtype, dst, src, n);
    kn_copy(dtype, dst, src, n);
    return RT_OK;
}
/* n times the element at src. */
enum rt_status kn_repeat(enum rt_dtype dtype, void *dst, const void *src, int64_t n,
                         struct rt_run *r);
/* The element that TensorFlow calls one, as bytes; false for types that have none. */
bool kn_one(enum rt_dtype dtype, void *elem);

static inline const void *kn_at(const struct rt_tensor *t, int64_t i)
{
    return (const char *)t->data + (size_t)i * rt_dtype_size((enum rt_dtype)t->dtype);
}
static inline void *kn_at_mut(const struct rt_tensor *t, int64_t i)
{
    return (char *)t->data + (size_t)i * rt_dtype_size((enum rt_dtype)t->dtype);
}
static inline enum rt_dtype kn_dtype(const struct rt_tensor *t)
{
    return (enum rt_dtype)t->dtype;
}

/* ---- rows ---- */

/* No input depends on the batch: neither does any output. True when that settled it. */
bool kn_rows_independent(struct rt_rows *r);
void kn_rows_set(struct rt_rows *r, enum rt_dep_kind kind, int axis); /* every output */
/* Inputs from `first` on do not depend on the batch. */
bool kn_rows_free(const struct rt_rows *r, int first);

#endif
