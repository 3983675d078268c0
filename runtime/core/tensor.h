/*
 * Tensors: dense, row-major values over shared buffers.
 *
 * A tensor is plain data: copying the struct does not take a reference, rt_tensor_ref does. A
 * buffer is freed with its last reference, on the thread that drops it, together with the strings
 * or objects that it holds. Data that is allocated here is aligned to 64 bytes; foreign data and
 * views are aligned to an element only.
 *
 * Threads: a buffer's reference count is atomic. Bytes with more than one reference are read only:
 * a writer asks rt_tensor_is_sole() first.
 */
#ifndef RT_TENSOR_H
#define RT_TENSOR_H

#include <stdatomic.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/core/types.h"

enum { RT_MAX_RANK = 8 };

/* ---- elements that are not plain bytes: strings and objects ---- */

struct rt_pool;

/*
 * A text: the bytes of a string that does not fit into its element. A text is immutable once
 * written. Copies of the element share it, and it is freed with the last of them. It counts against
 * the limit of its pool (NULL: no limit).
 */
struct rt_text {
    atomic_size_t refs;
    size_t capacity;                /* bytes that the pool counts: the header and the text */
    _Atomic(struct rt_pool *) pool; /* rt_text_move changes it while others share the text */
    char p[]; /* ends with a NUL, which the string's length does not include */
};

/*
 * An element of a string tensor. All zero is the empty string. Up to 15 bytes are stored in the
 * element itself; a longer string holds a reference to its text. Assignment only moves a string:
 * the source must be zeroed. rt_str_copy copies.
 */
struct rt_str {
    union {
        char in[16];
        struct rt_text *out;
    } u;
    size_t n;
};

static inline const char *rt_str_data(const struct rt_str *s)
{
    return s->n < sizeof s->u.in ? s->u.in : s->u.out->p;
}
/* The bytes that a string of n bytes takes in addition to its element. */
static inline size_t rt_str_counted_bytes(size_t n)
{
    return n < sizeof(struct rt_str) - sizeof(size_t) ? 0 : sizeof(struct rt_text) + n + 1;
}
/* Replaces *s by a copy of n bytes at `p`, which may lie in *s itself. The memory counts in `pool`
 * (NULL: no limit). False: *s is the empty string, and err says which limit was reached. */
bool rt_str_set(struct rt_str *s, struct rt_pool *pool, const void *p, size_t n,
                struct rt_error *err);
/* As rt_str_set, but returns n uninitialised bytes, which the caller fills in before *s is copied.
 * NULL: where rt_str_set returns false. */
char *rt_str_resize(struct rt_str *s, struct rt_pool *pool, size_t n, struct rt_error *err);
/* *dst becomes a copy that shares the text of *src: nothing is allocated. */
void rt_str_copy(struct rt_str *dst, const struct rt_str *src);
void rt_str_clear(struct rt_str *s);

/* An element of a resource or variant tensor is a pointer to an rt_object, with a reference, or
 * NULL. A type of objects has a struct whose first member is the rt_object. */
struct rt_object;
struct rt_object_type {
    const char *name; /* "variable", "hash table", "tensor list" */
    void (*free)(struct rt_object *o);
};
struct rt_object {
    const struct rt_object_type *type;
    struct rt_object *next_dead; /* used by rt_object_unref only */
    atomic_int refs;
};
void rt_object_init(struct rt_object *o, const struct rt_object_type *type); /* one reference */
struct rt_object *rt_object_ref(struct rt_object *o);                        /* NULL is fine */
void rt_object_unref(struct rt_object *o);                                   /* NULL is fine */

/* ---- buffers ---- */

enum rt_buffer_kind { RT_BUF_HEAP, RT_BUF_FOREIGN, RT_BUF_LAZY };

struct rt_device;
struct rt_check;
struct rt_buffer {
    atomic_int refs;
    uint8_t kind;         /* enum rt_buffer_kind */
    uint8_t elem;         /* enum rt_dtype of elements that must be freed: string, resource or
                             variant; else RT_NO_DTYPE */
    size_t size;          /* bytes at data */
    _Atomic(void *) data; /* NULL: lazy and not loaded yet, or no bytes */
    /* The pool that counts the buffer and takes it back; NULL: free(). rt_buffer_move may change it
     * while others share the buffer. */
    _Atomic(struct rt_pool *) pool;
    struct rt_device *device;             /* NULL: host memory */
    void *owner;                          /* foreign and lazy: used by `release` and `load` */
    void (*release)(struct rt_buffer *b); /* foreign and lazy: frees owner (and device memory) */
    /* Lazy: reads the bytes into b->data, 64-byte aligned, and verifies them. Called under a lock;
     * called again after a failure. `check` (NULL: none) is called between pieces, and its failure
     * ends the load. */
    enum rt_status (*load)(struct rt_buffer *b, const struct rt_check *check, struct rt_error *err);
    /* Lazy: passes all bytes to `sink` in pieces, n bytes at offset off, and keeps none of them.
     * The bytes are verified after the last piece. */
    enum rt_status (*stream)(struct rt_buffer *b,
                             enum rt_status (*sink)(void *arg, size_t off, const void *p, size_t n,
                                                    struct rt_error *err),
                             void *arg, struct rt_error *err);
};

/* A bound on the bytes that many pools hold together. A budget outlives its pools. Its owner sets
 * `limit`, and the other members to zero. */
struct rt_budget {
    atomic_size_t used;
    size_t limit;
    struct rt_pool *sharing; /* the pools of this budget; used by pool.c only, as has_surplus */
    /* A pool may have reserved more than it uses. False: none has, so none can give any back. */
    atomic_bool has_surplus;
};
/* Takes n bytes of the budget, or (false) none. A NULL budget has no bound. */
bool rt_budget_take(struct rt_budget *b, size_t n);
void rt_budget_give(struct rt_budget *b, size_t n);

/*
 * A pool allocates the tensors of a run: it recycles freed blocks and counts blocks against a
 * limit. Blocks may be freed on any thread and return to their pool, which lives until the last one
 * has returned.
 */
struct rt_pool *rt_pool_new(size_t limit_bytes); /* NULL: out of memory */
/* The pool's blocks count against the budget too. Called before the first allocation. */
void rt_pool_share(struct rt_pool *p, struct rt_budget *budget);
struct rt_pool *rt_pool_ref(struct rt_pool *p); /* NULL is fine */
void rt_pool_unref(struct rt_pool *p);
void rt_pool_trim(struct rt_pool *p, size_t keep_bytes); /* frees idle blocks beyond keep_bytes */
/*
 * Tell the pool that a run begins, or ends. Between runs the pool keeps idle blocks for the next
 * run: up to twice the peak of the second largest of the last 4 runs, but at least `least` bytes
 * and at most 256 MiB. Recurring shapes so find their memory, also in blocks of other sizes, while
 * the memory of a single huge answer is freed. rt_pool_end returns the most bytes that the pool
 * will keep. Not from two threads at a time. rt_pool_reserved: a number that the pool's owner may
 * use, 0 at first.
 */
size_t *rt_pool_reserved(struct rt_pool *p);
void rt_pool_begin(struct rt_pool *p);
size_t rt_pool_end(struct rt_pool *p, size_t least);
/* Counts memory that a run holds besides tensors against the limit and the budget.
 * RT_RESOURCE_EXHAUSTED: `err` names `what` (with its article, "a list"), the sizes and the flag.
 * One thread at a time. */
enum rt_status rt_pool_charge(struct rt_pool *p, size_t bytes, const char *what,
                              struct rt_error *err);
void rt_pool_discharge(struct rt_pool *p, size_t bytes);
/* As rt_pool_charge and rt_pool_discharge, from any thread, for memory that belongs to no run.
 * `credit`: bytes by which the limit may be exceeded. */
enum rt_status rt_pool_hold(struct rt_pool *p, size_t bytes, size_t credit, const char *what,
                            struct rt_error *err);
void rt_pool_release(struct rt_pool *p, size_t bytes);
/* Allocates n zeroed bytes outside tensors, which count in the pool until rt_pool_free. Any thread
 * may free them. NULL: err names `what` (with its article), the sizes and the flag. */
void *rt_pool_alloc(struct rt_pool *p, size_t n, const char *what, struct rt_error *err);
void rt_pool_free(void *p); /* NULL is fine */
/*
 * A plain pool counts but does not recycle: blocks that return are freed. Its limit, named by
 * `flag` (a string literal) in errors, may be set again while nothing allocates, and raised at any
 * time.
 */
struct rt_pool *rt_pool_new_plain(size_t limit_bytes, const char *flag); /* NULL: out of memory */
void rt_pool_set_limit(struct rt_pool *p, size_t limit_bytes, const char *flag);
void rt_pool_raise_limit(struct rt_pool *p, size_t bytes);
bool rt_pool_has_capacity(const struct rt_pool *p, size_t bytes); /* within the limit */
size_t rt_pool_in_use(struct rt_pool *p);

/* A heap buffer, 64-byte aligned; strings and objects are zeroed, plain bytes are not. `pool` NULL:
 * malloc, counted nowhere. NULL: err is filled. */
struct rt_buffer *rt_buffer_new(struct rt_pool *pool, enum rt_dtype dtype, size_t bytes,
                                struct rt_error *err);
/* A function that says whether an allocation or a load should go on. Strings and objects are
 * zeroed, 24 bytes for each string, so a request with a byte for each string makes 24 bytes of work
 * of every byte: the check is called between pieces of RT_ZERO_PIECE bytes. */
struct rt_check {
    enum rt_status (*check)(void *arg, struct rt_error *err);
    void *arg;
};
enum { RT_ZERO_PIECE = 2 << 20 };
/* As rt_buffer_new, with a check. NULL also if the check fails; err is then the check's. */
struct rt_buffer *rt_buffer_new_checked(struct rt_pool *pool, enum rt_dtype dtype, size_t bytes,
                                        const struct rt_check *check, struct rt_error *err);
/* A text of n bytes, which the caller fills in; with one reference, counted in `pool` (NULL: not).
 * NULL: err says which limit is reached. */
struct rt_text *rt_text_new(struct rt_pool *pool, size_t n, struct rt_error *err);
void rt_text_unref(struct rt_text *t);
/*
 * Moves a heap buffer, or a text, to another pool: its bytes count in `to` and no longer in the
 * pool where they counted before. `to` is a plain pool (rt_pool_new_plain). The caller holds a
 * reference; other threads may hold references and move it at the same time. `credit`: bytes in
 * `to` that the caller is about to free, by which the limit may therefore be exceeded.
 * RT_RESOURCE_EXHAUSTED: nothing has moved. rt_buffer_move does not move the texts of the buffer's
 * elements.
 */
enum rt_status rt_buffer_move(struct rt_buffer *b, struct rt_pool *to, size_t credit,
                              struct rt_error *err);
enum rt_status rt_text_move(struct rt_text *t, struct rt_pool *to, size_t credit,
                            struct rt_error *err);
size_t
rt_buffer_counted_bytes(const struct rt_buffer *b); /* what a pool counts for a heap buffer */
/* A buffer over memory that it does not own. `release(b)` is called with the last reference; it may
 * be NULL. NULL: out of memory. */
struct rt_buffer *rt_buffer_foreign(void *data, size_t bytes, void *owner,
                                    void (*release)(struct rt_buffer *b));
struct rt_buffer *rt_buffer_ref(struct rt_buffer *b);
void rt_buffer_unref(struct rt_buffer *b); /* NULL is fine */

/* ---- tensors ---- */

struct rt_tensor {
    uint8_t dtype; /* enum rt_dtype; RT_NO_DTYPE: no tensor */
    int8_t rank;
    uint16_t alias_of; /* the ref variable that it aliases (runtime/exec/alias.h); 0: none */
    uint32_t storage;  /* that variable's storage number when it was read */
    int64_t dim[RT_MAX_RANK];
    void *data;            /* rt_no_elements() if there are none; NULL: lazy */
    struct rt_buffer *buf; /* NULL: borrowed bytes that outlive the tensor, or no elements */
};

/*
 * Number of elements of a shape. -1: a dimension is negative, or the product of the non-zero
 * dimensions exceeds INT64_MAX. As in NumPy, the rule skips zeros, so that the product of any
 * dimensions of an existing tensor (strides, prefixes, suffixes, sub-shapes) does not overflow,
 * even if the tensor has no elements. TensorFlow creates some of the shapes refused here, and then
 * aborts the process, or fails with an internal error, in the next kernel.
 */
int64_t rt_count(int rank, const int64_t *dim);
/*
 * Refuses shapes that no tensor of this dtype may have: more than RT_MAX_RANK dimensions, or a
 * violation of rt_count's rule with the size of an element as a further factor, so that strides in
 * bytes do not overflow either. Every tensor is checked: rt_tensor_new, rt_out_view and the results
 * of shape inference call this. *bytes: size of all elements; may be NULL.
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
/* Bytes of the texts of a loaded string tensor. A text that adjacent elements share counts once. */
size_t rt_tensor_text_bytes(const struct rt_tensor *t);
/*
 * The data pointer of tensors without elements: aligned like others, never read or written (which
 * AddressSanitizer verifies). Kernels may therefore do pointer arithmetic on the data of any
 * tensor; on NULL it would be undefined behaviour.
 */
void *rt_no_elements(void);
/* A new tensor over a new buffer, after rt_shape_check. *t is overwritten. */
enum rt_status rt_tensor_new(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                             int rank, const int64_t *dim, struct rt_error *err);
/* As rt_tensor_new over rt_buffer_new_checked. */
enum rt_status rt_tensor_new_checked(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                                     int rank, const int64_t *dim, const struct rt_check *check,
                                     struct rt_error *err);
void rt_tensor_ref(struct rt_tensor *dst, const struct rt_tensor *src); /* *dst is overwritten */
void rt_tensor_clear(struct rt_tensor *t); /* drops the reference; *t is zero afterwards */
/* Whether *t holds the only reference to plain heap bytes, so that they may be written. */
bool rt_tensor_is_sole(const struct rt_tensor *t);
/* Loads a lazy tensor, once for all tensors that share the buffer, and sets t->data. */
enum rt_status rt_tensor_load(struct rt_tensor *t, struct rt_error *err);
/* As rt_tensor_load, for a run: a failure of `check` ends the load, and the next caller starts it
 * again. While a thread waits for another one that loads the tensor, its check is not called. */
enum rt_status rt_tensor_load_checked(struct rt_tensor *t, const struct rt_check *check,
                                      struct rt_error *err);
static inline bool rt_tensor_is_lazy(const struct rt_tensor *t)
{
    return t->buf && t->buf->kind == RT_BUF_LAZY && !atomic_load(&t->buf->data);
}
/* Copies n elements; copies of strings and objects share the texts and objects. Strings and objects
 * at dst must be valid, zero for instance. */
void rt_copy_elements(enum rt_dtype dtype, void *dst, const void *src, int64_t n);
/* Copies `src`, which is loaded first if it is lazy, into a new heap buffer. */
enum rt_status rt_tensor_copy(struct rt_tensor *dst, const struct rt_tensor *src,
                              struct rt_pool *pool, struct rt_error *err);
/* *t: a scalar of dtype RT_RESOURCE or RT_VARIANT, in memory of `pool` (NULL: malloc), that holds
 * the caller's reference to `o`. The reference is taken only on success. */
enum rt_status rt_tensor_object(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                                struct rt_object *o, struct rt_error *err);
/* Writes a shape as TensorFlow prints it, "[2,3]", truncated to n bytes; -1 becomes "?". Returns
 * `buffer`. */
const char *rt_shape_text(char *buffer, size_t n, int rank, const int64_t *dim);

static inline const struct rt_str *rt_strs(const struct rt_tensor *t)
{
    return t->data;
}
static inline struct rt_object *rt_tensor_handle(const struct rt_tensor *t) /* of a scalar */
{
    return t->data ? *(struct rt_object *const *)t->data : NULL;
}

#endif
