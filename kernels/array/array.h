/*
 * What the array ops share: shapes and integer values of inputs, outputs allocated from shape
 * inference, and one n-dimensional strided copy to which most of these ops reduce.
 */
#ifndef KN_ARRAY_ARRAY_H
#define KN_ARRAY_ARRAY_H

#include "runtime/core/op.h"

/* ---- shape inference ---- */

bool kn_shape_known(const struct rt_shape *s); /* defined in kernels/math/elementwise.c */
/* Whether the shapes of all inputs are exact, and the values of the inputs whose bits are set in
 * `values` are known. */
bool kn_known(const struct rt_infer *x, uint64_t values);
void kn_set_shape(struct rt_info *o, int rank, const int64_t *dim);
void kn_set_vector(struct rt_info *o, int64_t n);
int64_t kn_shape_total(const struct rt_shape *s); /* -1: the product overflows */
/* The text of a shape, as "[2,3]", for errors. */
#define KN_SHAPE_TEXT 192
#define KN_TEXT(s)    rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, (s)->rank, (s)->dim)

/* Output 0 has the shape of input 0. */
enum rt_status kn_infer_copy(struct rt_infer *x);
/* The shape of n inputs concatenated along an axis; unknown if the shape of any input is. */
enum rt_status kn_concat_shape(const struct rt_info *in, int n, int64_t axis, struct rt_shape *out,
                               struct rt_error *err);
/* Every output is a scalar. */
enum rt_status kn_infer_scalars(struct rt_infer *x);

/* ---- integers ---- */

/* Element i of an integer or bool tensor. Returns 0 for a tensor without elements, in case a
 * caller did not refuse it. */
int64_t kn_int_at(const struct rt_tensor *t, int64_t i);
/*
 * The value of an input that must be a single number. False: the tensor has another shape, and the
 * caller refuses it with TensorFlow's text. kn_scalar accepts scalars only. kn_single accepts one
 * element in any shape, for ops whose TensorFlow kernels do so (found by running them:
 * tests/conformance/acceptance.py). Both read integers and bool; kn_scalar_float reads a scalar of
 * floats.
 */
bool kn_scalar(const struct rt_tensor *t, int64_t *v);
bool kn_single(const struct rt_tensor *t, int64_t *v);
bool kn_scalar_float(const struct rt_tensor *t, double *v);
/* Copies all elements of a tensor to v. Returns their number, or -1 if there are more than max. */
int kn_ints(const struct rt_tensor *t, int64_t *v, int max);
/* ---- attributes that several families have ---- */

/* Checks the `container` attribute of a node that makes a table or a TensorFlow 1 variable:
 * letters, digits, '.', and, except as the first character, '-' and '/'. TensorFlow does not check
 * the container of a VarHandleOp. */
enum rt_status kn_check_container(const struct rt_node *n, struct rt_error *err);
/* Reads the node's bad_indices_policy. *skips: elements with an index out of bounds are left out.
 * An unknown policy is an error, as in TensorFlow when it makes the kernel. */
enum rt_status kn_bad_indices(const struct rt_node *n, bool *skips, struct rt_error *err);

/* ---- positions ---- */

/* The position of element i of t as text: "[1,0]"; empty for a scalar. */
const char *kn_place_text(char *buf, size_t n, const struct rt_tensor *t, int64_t i);
/*
 * Reports that the i-th tuple of `depth` indices lies outside of `into`: "indices[1] = [0, 7] does
 * not index into shape [2,3]". The first `outer` dimensions of `index` count the tuples. `node`:
 * the node of a gather, whose text says "param shape" and ends with the node's name; else NULL.
 */
enum rt_status kn_fail_outside(struct rt_error *err, const struct rt_tensor *index, int outer,
                               int depth, int64_t i, const struct rt_tensor *into,
                               const struct rt_node *node);
void kn_put_int(struct rt_tensor *t, int64_t i, int64_t v); /* for integer tensors */

/* ---- outputs ---- */

/* Returns the memory of output k with this shape: the output that shape inference allocated, or a
 * new one. NULL: r->err is set. */
void *kn_out(struct rt_run *r, int k, int rank, const int64_t *dim);
/* Allocates the outputs that do not exist yet, with shapes from `infer` for the present inputs. */
enum rt_status kn_outputs(struct rt_run *r, enum rt_status (*infer)(struct rt_infer *x));
/* Runs the checks and shape inference of `infer` for the present inputs without allocating: fills
 * out[0..n_out). */
enum rt_status kn_infer_now(struct rt_run *r, enum rt_status (*infer)(struct rt_infer *x),
                            struct rt_info *out);
/* As rt_out_view, but also for an output that was already placed over that input. */
enum rt_status kn_view(struct rt_run *r, int k, int in, int rank, const int64_t *dim);
/*
 * Makes output 0 a reference to input `in` where TensorFlow forwards the input's buffer. This is
 * visible only where the input is an alias of a variable (runtime/exec/alias.h). False: the input
 * is no alias, and the caller must copy it.
 */
bool kn_hand_on(struct rt_run *r, int in);
/* Makes output k a view of shape `dim` into input `in` from element `first` on. The elements must
 * be contiguous, and the input must own them by rt_tensor.buf. */
enum rt_status kn_out_slice(struct rt_run *r, int k, int in, int64_t first, int rank,
                            const int64_t *dim);

/* Whether a row of n elements is a multiple of 64 bytes: TensorFlow shares the buffer of such rows
 * instead of copying. */
bool kn_is_aligned(enum rt_dtype dtype, int64_t n);

/* ---- copies ---- */

enum { KN_WALK_RANK = 2 * RT_MAX_RANK + 2 };
/* dst[sum of i * dst] = src[sum of i * src] for all index vectors i within dim; strides are in
 * elements. */
struct kn_walk {
    int rank;
    int64_t dim[KN_WALK_RANK], dst[KN_WALK_RANK], src[KN_WALK_RANK];
};
/* Sets row-major strides. */
void kn_strides(int rank, const int64_t *dim, int64_t *stride);
/* Copies by a walk. dst must be initialised for strings and objects. Stops early if the run should
 * end. */
enum rt_status kn_walk_copy(enum rt_dtype dtype, const struct kn_walk *w, void *dst,
                            const void *src, struct rt_run *r);
/* Copies by a walk into memory that outlives the run: it always completes. */
void kn_walk_write(enum rt_dtype dtype, const struct kn_walk *w, void *dst, const void *src);
/* Copies n elements; dst must be initialised. */
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
 * Copy and clear what may be large, in chunks of one or a few milliseconds, after each of which the
 * run is checked.
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
/* Writes the element at src n times. */
enum rt_status kn_repeat(enum rt_dtype dtype, void *dst, const void *src, int64_t n,
                         struct rt_run *r);
/* Writes the bytes of the element that TensorFlow calls one. False: the type has none. */
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

/* ---- row-wise analysis ---- */

/* If no input has rows of the batch, gives every output the strongest dependence of any input.
 * True: that settled the outputs. */
bool kn_rows_independent(struct rt_rows *r);
void kn_rows_set(struct rt_rows *r, enum rt_dep_kind kind, int axis); /* for every output */
/* Whether no input from `first` on depends on the batch. */
bool kn_rows_free(const struct rt_rows *r, int first);

#endif
