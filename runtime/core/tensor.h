/*
 * Tensors are dense, row-major values in shared buffers.
 *
 * A tensor is plain data. Copying the struct does not take a reference to its buffer (buffer.h);
 * rt_tensor_ref does. Data allocated by the runtime is aligned to 64 bytes; foreign data and views
 * are aligned only to an element. Elements that are not plain bytes are strings (str.h) and objects
 * (object.h).
 *
 * Threads: a buffer's reference count is atomic. Bytes with more than one reference are read-only;
 * a writer must check rt_tensor_is_sole() first.
 */
#ifndef RT_TENSOR_H
#define RT_TENSOR_H

#include <stdatomic.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/core/buffer.h"
#include "runtime/core/object.h"
#include "runtime/core/pool.h"
#include "runtime/core/str.h"
#include "runtime/core/types.h"

enum { RT_MAX_RANK = 8 };

struct rt_tensor {
    uint8_t dtype; /* enum rt_dtype; RT_NO_DTYPE means that there is no tensor */
    int8_t rank;
    /* Number of the ref variable that shares its buffer with the tensor (struct rt_aliases), or
     * 0. */
    uint16_t alias_of;
    uint32_t storage; /* the variable's storage number at the time when the tensor was read from
                       * it */
    int64_t dim[RT_MAX_RANK];
    /* the elements, rt_no_elements() if there are none, or NULL if the tensor is lazy */
    void *data;
    /* buffer of the elements; NULL if there are no elements or they are borrowed from memory that
     * outlives the tensor */
    struct rt_buffer *buf;
};

/*
 * Returns the number of elements of a shape. Returns -1 if a dimension is negative, or if the
 * product of the non-zero dimensions exceeds INT64_MAX. The product leaves out zeros, as in NumPy,
 * so that products of some of the dimensions (strides, prefixes, suffixes, sub-shapes) do not
 * overflow even if the tensor has no elements. TensorFlow accepts some shapes that this function
 * refuses, but its next kernel then aborts the process or fails with an internal error.
 */
int64_t rt_count(int rank, const int64_t *dim);
/*
 * Refuses shapes with more than RT_MAX_RANK dimensions, and shapes that rt_count refuses. The
 * element size counts as a further dimension, so that byte strides do not overflow either.
 * rt_tensor_new, rt_out_view and shape inference call this function, so the shape of every tensor
 * is checked. If `bytes` is not NULL, sets *bytes to the size of all elements.
 */
enum rt_status rt_shape_check(enum rt_dtype dtype, int rank, const int64_t *dim, size_t *bytes,
                              struct rt_error *err);
static inline int64_t rt_tensor_count(const struct rt_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}
static inline size_t rt_tensor_bytes(const struct rt_tensor *t)
{
    return (size_t)rt_tensor_count(t) * rt_dtype_size((enum rt_dtype)t->dtype);
}
/* Returns the total size of the texts of a loaded string tensor, in bytes. A text that adjacent
 * elements share is counted once. */
size_t rt_tensor_text_bytes(const struct rt_tensor *t);
/*
 * Returns the data pointer of tensors without elements. It is aligned like other data and never
 * dereferenced (AddressSanitizer verifies this). Kernels may therefore do pointer arithmetic on the
 * data of any tensor; arithmetic on NULL would be undefined behaviour.
 */
void *rt_no_elements(void);
/* Makes a tensor with a new buffer, if rt_shape_check accepts the shape. Overwrites *t. */
enum rt_status rt_tensor_new(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                             int rank, const int64_t *dim, struct rt_error *err);
/* Makes a tensor as rt_tensor_new does, but allocates its buffer with rt_buffer_new_checked. */
enum rt_status rt_tensor_new_checked(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                                     int rank, const int64_t *dim, const struct rt_check *check,
                                     struct rt_error *err);
/* overwrites *dst, which need not be valid */
void rt_tensor_ref(struct rt_tensor *dst, const struct rt_tensor *src);
void rt_tensor_clear(struct rt_tensor *t); /* drops the reference and zeroes *t */
/* Returns whether *t may be written: its bytes are on the host, are not foreign, and have no
 * reference except that of *t. */
bool rt_tensor_is_sole(const struct rt_tensor *t);
/* Loads a lazy tensor and sets t->data. All tensors that share the buffer are loaded once. */
enum rt_status rt_tensor_load(struct rt_tensor *t, struct rt_error *err);
/* Loads a tensor during a run, as rt_tensor_load does. If `check` fails, the load fails, and the
 * next call starts a new load. A thread that waits for another thread's load does not call
 * `check`. */
enum rt_status rt_tensor_load_checked(struct rt_tensor *t, const struct rt_check *check,
                                      struct rt_error *err);
static inline bool rt_tensor_is_lazy(const struct rt_tensor *t)
{
    return t->buf && t->buf->kind == RT_BUF_LAZY && !atomic_load(&t->buf->data);
}
/* Copies n elements. Copies of strings and objects share texts and objects with `src`. Strings and
 * objects at dst must be valid before the call; zeroed elements are valid. */
void rt_copy_elements(enum rt_dtype dtype, void *dst, const void *src, int64_t n);
/* Copies `src` into a new heap buffer. Loads `src` first if it is lazy. */
enum rt_status rt_tensor_copy(struct rt_tensor *dst, const struct rt_tensor *src,
                              struct rt_pool *pool, struct rt_error *err);
/* Makes *t a scalar of dtype RT_RESOURCE or RT_VARIANT that holds the caller's reference to `o`.
 * The memory of the scalar comes from `pool`, or from malloc if `pool` is NULL. On failure, the
 * caller keeps the reference. */
enum rt_status rt_tensor_object(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                                struct rt_object *o, struct rt_error *err);
/* Writes a shape to `buffer` in TensorFlow's format, such as "[2,3]" or "[?,3]", where "?" stands
 * for -1. Truncates the text to n bytes. Returns `buffer`. */
const char *rt_shape_text(char *buffer, size_t n, int rank, const int64_t *dim);

static inline const struct rt_str *rt_strs(const struct rt_tensor *t)
{
    return t->data;
}
/* Returns the object of a scalar resource or variant tensor. */
static inline struct rt_object *rt_tensor_handle(const struct rt_tensor *t)
{
    return t->data ? *(struct rt_object *const *)t->data : NULL;
}

#endif
