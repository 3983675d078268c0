/*
 * Helpers that the array ops share. The helpers read shapes and integer values of inputs, and
 * allocate outputs. Most array ops use the n-dimensional strided copy that this header also
 * declares.
 */
#ifndef KN_ARRAY_ARRAY_H
#define KN_ARRAY_ARRAY_H

#include "runtime/core/op.h"

/* ---- shape inference ---- */

/* Returns whether the shape is fully known. Defined in kernels/math/elementwise.c. */
bool kn_shape_known(const struct rt_shape *s);
/* Returns whether the shapes of all inputs are exact, and the values of the inputs whose bits are
 * set in `values` are known. */
bool kn_known(const struct rt_infer *x, uint64_t values);
void kn_set_shape(struct rt_info *o, int rank, const int64_t *dim);
void kn_set_vector(struct rt_info *o, int64_t n);
/* the product of the dimensions, or -1 if it overflows */
int64_t kn_shape_total(const struct rt_shape *s);
/* Formats a shape for error messages, for example "[2,3]". */
#define KN_SHAPE_TEXT 192
#define KN_TEXT(s)    rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, (s)->rank, (s)->dim)

/* Gives output 0 the shape of input 0. */
enum rt_status kn_infer_copy(struct rt_infer *x);
/* Computes the shape of n inputs concatenated along an axis. The result is unknown if the shape of
 * any input is unknown. */
enum rt_status kn_concat_shape(const struct rt_info *in, int n, int64_t axis, struct rt_shape *out,
                               struct rt_error *err);
enum rt_status kn_infer_scalars(struct rt_infer *x);

/* ---- integers ---- */

/* Returns element i of an integer or bool tensor, or 0 if the tensor has no elements. */
int64_t kn_int_at(const struct rt_tensor *t, int64_t i);
/*
 * Reads the value of an input that must be a single number. Returns false if the tensor does not
 * contain exactly one number; the caller then reports the error with TensorFlow's message.
 *
 * kn_scalar accepts scalars only. kn_single accepts a single element in any shape, for ops whose
 * TensorFlow kernels accept it, as tests/conformance/acceptance.py has found. kn_scalar and
 * kn_single read integers and bool. kn_scalar_float reads a floating-point scalar.
 */
bool kn_scalar(const struct rt_tensor *t, int64_t *v);
bool kn_single(const struct rt_tensor *t, int64_t *v);
bool kn_scalar_float(const struct rt_tensor *t, double *v);
/* Copies all elements of a tensor to v. Returns the number of elements, or -1 if the tensor has
 * more than `max`. */
int kn_ints(const struct rt_tensor *t, int64_t *v, int max);
/* ---- attributes that several families have ---- */

/* Checks the `container` attribute of a node that creates a table or a TensorFlow 1 variable. The
 * container may consist of letters, digits, '.', '-' and '/', but '-' and '/' may not be the first
 * character. TensorFlow does not check the container of a VarHandleOp. */
enum rt_status kn_check_container(const struct rt_node *n, struct rt_error *err);
/* Fails with INVALID_ARGUMENT, in TensorFlow's words, unless the value of attribute `name` fits an
 * int32. */
enum rt_status kn_check_i32(const char *name, int64_t value, struct rt_error *err);
/* Reads the node's bad_indices_policy. Sets *skips to whether elements with an index out of bounds
 * must be skipped. An unknown policy is an error, as in TensorFlow's kernel constructor. */
enum rt_status kn_bad_indices(const struct rt_node *n, bool *skips, struct rt_error *err);

/* ---- positions ---- */

/* Formats the position of element i of t, for example "[1,0]". The text is empty for a scalar. */
const char *kn_place_text(char *buf, size_t n, const struct rt_tensor *t, int64_t i);
/*
 * Fails, with a message such as "indices[1] = [0, 7] does not index into shape [2,3]", because the
 * i-th tuple of `depth` indices is out of bounds for the tensor `into`. The first `outer`
 * dimensions of `index` enumerate the tuples. For a gather op, `node` is the op's node, and the
 * message contains "param shape" and ends with the node's name. For other ops, `node` is NULL.
 */
enum rt_status kn_fail_outside(struct rt_error *err, const struct rt_tensor *index, int outer,
                               int depth, int64_t i, const struct rt_tensor *into,
                               const struct rt_node *node);
void kn_put_int(struct rt_tensor *t, int64_t i, int64_t v); /* `t` must be an integer tensor */

/* ---- outputs ---- */

/* Returns the memory of output k, which has shape `dim`. Allocates the output if shape inference
 * has not done so. Returns NULL and sets r->err on failure. */
void *kn_out(struct rt_run *r, int k, int rank, const int64_t *dim);
/* Allocates the outputs that do not exist yet, with the shapes that `infer` computes from the run's
 * actual inputs. */
enum rt_status kn_outputs(struct rt_run *r, enum rt_status (*infer)(struct rt_infer *x));
/* Runs `infer` on the run's actual inputs without allocating outputs, and writes the outputs' types
 * and shapes to out[0], ..., out[n_out - 1]. */
enum rt_status kn_infer_now(struct rt_run *r, enum rt_status (*infer)(struct rt_infer *x),
                            struct rt_info *out);
/* Like rt_out_view, but also accepts an output that already uses the memory of input `in`. */
enum rt_status kn_view(struct rt_run *r, int k, int in, int rank, const int64_t *dim);
/*
 * Makes output 0 a reference to input `in` if the input is an alias of a variable
 * (runtime/exec/alias.h), because a copy would then differ visibly from TensorFlow's result.
 * Returns false for any other input, which the caller must copy.
 */
bool kn_hand_on(struct rt_run *r, int in);
/* Makes output k a view of shape `dim` into input `in`, starting at element `first`. The elements
 * of the view must be contiguous, and the input must own them through rt_tensor.buf. */
enum rt_status kn_out_slice(struct rt_run *r, int k, int in, int64_t first, int rank,
                            const int64_t *dim);

/* Returns whether the size of a row of n elements is a multiple of 64 bytes. TensorFlow shares the
 * buffer of such rows instead of copying them. */
bool kn_is_aligned(enum rt_dtype dtype, int64_t n);

/* ---- copies ---- */

enum { KN_WALK_RANK = 2 * RT_MAX_RANK + 2 };
/* A strided copy. For all index vectors i within `dim`, the element at offset sum(i * src) of the
 * source is copied to offset sum(i * dst) of the destination. Strides are in elements. */
struct kn_walk {
    int rank;
    int64_t dim[KN_WALK_RANK], dst[KN_WALK_RANK], src[KN_WALK_RANK];
};
/* Sets row-major strides. */
void kn_strides(int rank, const int64_t *dim, int64_t *stride);
/* Performs the strided copy `w`. If the elements are strings or objects, those at dst must be
 * initialised. Fails if the run has been cancelled or its deadline has passed. */
enum rt_status kn_walk_copy(enum rt_dtype dtype, const struct kn_walk *w, void *dst,
                            const void *src, struct rt_run *r);
/* Performs the strided copy `w` without deadline checks, and therefore always completes it. dst may
 * outlive the run. */
void kn_walk_write(enum rt_dtype dtype, const struct kn_walk *w, void *dst, const void *src);
/* Copies n elements to dst, whose elements must be initialised. */
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
 * These functions copy and clear large arrays in chunks. They check the deadline after each chunk,
 * which takes at most a few milliseconds.
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
/* Returns the work of reading n strings, in units of rt_run_spend: the sum of their lengths.
 * Returns 0 for elements of other types. Strings may share their bytes, so the sum may be far
 * larger than the memory that they occupy. */
static inline int64_t kn_text_work(enum rt_dtype dtype, const void *p, int64_t n)
{
    int64_t work = 0;

    for (int64_t i = 0; dtype == RT_STRING && i < n; i++)
        work += (int64_t)((const struct rt_str *)p)[i].n;
    return work;
}
/*
 * Functions that read, copy or compare a long string check the deadline after each KN_TEXT_CHUNK
 * bytes. If the run has been cancelled or its deadline has passed, `st` is no longer RT_OK, and the
 * function returns early with an undefined result.
 */
enum { KN_TEXT_CHUNK = 1 << 20 };
struct kn_reader {
    struct rt_run *r;
    int64_t *left; /* the countdown that rt_run_spend decrements */
    enum rt_status st;
};
/* Counts `bytes` bytes of a string as processed. Returns false if the run has been cancelled or its
 * deadline has passed. Always returns true if `t` is NULL. */
static inline bool kn_read_on(struct kn_reader *t, size_t bytes)
{
    if (t && !t->st)
        t->st = rt_run_spend(t->r, t->left, (int64_t)bytes);
    return !t || !t->st;
}
/* Returns the size of the next chunk of a string of which n bytes are left. */
static inline size_t kn_text_chunk(size_t n)
{
    return n < KN_TEXT_CHUNK ? n : KN_TEXT_CHUNK;
}
/* Copies the n bytes at src, which may be NULL if n is 0. *left counts down to the next deadline
 * check (rt_run_spend). */
enum rt_status kn_copy_long_text(struct rt_run *r, int64_t *left, char *dst, const char *src,
                                 size_t n);
static inline enum rt_status kn_copy_text(struct rt_run *r, int64_t *left, char *dst,
                                          const void *src, size_t n)
{
    if (n > KN_TEXT_CHUNK)
        return kn_copy_long_text(r, left, dst, src, n);
    if (n)
        memcpy(dst, src, n);
    return rt_run_spend(r, left, (int64_t)n);
}
/* Returns whether two strings of n bytes are equal. Only strings longer than KN_TEXT_CHUNK are
 * counted as work. */
bool kn_same_text(const char *a, const char *b, size_t n, struct kn_reader *t);
/* Writes n copies of the element at src to dst. */
enum rt_status kn_repeat(enum rt_dtype dtype, void *dst, const void *src, int64_t n,
                         struct rt_run *r);
/* Writes to `elem` the value with which TensorFlow's OnesLike fills a tensor. Returns false if the
 * type has none. */
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

/* Determines the strongest row dependence among the inputs. If this dependence is RT_DEP_ROWS,
 * returns false. Otherwise assigns the dependence to every output and returns true. */
bool kn_rows_independent(struct rt_rows *r);
void kn_rows_set(struct rt_rows *r, enum rt_dep_kind kind, int axis);
/* Returns whether input `first` and all later inputs do not depend on the batch. */
bool kn_rows_free(const struct rt_rows *r, int first);

#endif
