/*
 * Tensors: dense, row-major values over shared buffers.
 *
 * A tensor is plain data: copying the struct does not take a reference, rt_tensor_ref does. A
 * buffer is freed with its last reference, on whichever thread that happens; what it holds
 * (strings, objects) goes with it. Data is aligned to its element only when it is foreign or a
 * view, to 64 bytes when it was allocated here.
 *
 * Threads: a buffer's count is atomic; its bytes are shared read-only as soon as two hold it. Who
 * would write asks rt_tensor_is_sole() first.
 */
#ifndef RT_TENSOR_H
#define RT_TENSOR_H

#include <stdatomic.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/core/types.h"

enum { RT_MAX_RANK = 8 };

/* ---- elements that are not plain bytes ---- */

struct rt_pool;

/*
 * The bytes of a string that does not fit into its element: immutable once written, shared by every
 * element that was copied from the first, freed with the last. They count against the limit of the
 * pool that they came from (NULL: against none).
 */
struct rt_text {
    atomic_size_t refs;
    size_t capacity;                /* what the pool counts: the header and the bytes */
    _Atomic(struct rt_pool *) pool; /* rt_text_move changes it while others share the text */
    char p[];                       /* ends in a NUL that the string's length does not count */
};

/*
 * One element of a string tensor. All zero is the empty string. Up to 15 bytes lie inside, longer
 * strings hold a reference to their text. Never copied by assignment, except to move it (then zero
 * the source).
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
/* What a string of n bytes takes beside its element. */
static inline size_t rt_str_counted_bytes(size_t n)
{
    return n < sizeof(struct rt_str) - sizeof(size_t) ? 0 : sizeof(struct rt_text) + n + 1;
}
/* Drops what was there, copies n bytes into memory of `pool` (NULL: of nobody's limit). False: *s
 * is the empty string, and err says which limit was reached. `p` may lie in *s itself. */
bool rt_str_set(struct rt_str *s, struct rt_pool *pool, const void *p, size_t n,
                struct rt_error *err);
/* As rt_str_set, but leaves n bytes to fill in, before anybody copies *s. NULL: as false. */
char *rt_str_resize(struct rt_str *s, struct rt_pool *pool, size_t n, struct rt_error *err);
/* *dst shares the text of *src: nothing is allocated. */
void rt_str_copy(struct rt_str *dst, const struct rt_str *src);
void rt_str_clear(struct rt_str *s);

/* One element of a resource or variant tensor points to one of these (or NULL); holds a reference.
 * Embed it first in a struct of your own. */
struct rt_object;
struct rt_object_type {
    const char *name; /* "variable", "hash table", "tensor list" */
    void (*free)(struct rt_object *o);
};
struct rt_object {
    const struct rt_object_type *type;
    struct rt_object *next_dead; /* rt_object_unref's alone */
    atomic_int refs;
};
void rt_object_init(struct rt_object *o, const struct rt_object_type *type); /* refs 1 */
struct rt_object *rt_object_ref(struct rt_object *o);                        /* NULL is fine */
void rt_object_unref(struct rt_object *o);                                   /* NULL is fine */

/* ---- buffers ---- */

enum rt_buffer_kind { RT_BUF_HEAP, RT_BUF_FOREIGN, RT_BUF_LAZY };

struct rt_device;
struct rt_check;
struct rt_buffer {
    atomic_int refs;
    uint8_t kind;         /* enum rt_buffer_kind */
    uint8_t elem;         /* enum rt_dtype of what must be freed with it: string, resource, variant;
                             else RT_NO_DTYPE */
    size_t size;          /* bytes at data */
    _Atomic(void *) data; /* NULL: lazy and not loaded yet, or no bytes */
    /* Where it goes back to, NULL: free(). rt_buffer_move changes it while others share the buffer.
     */
    _Atomic(struct rt_pool *) pool;
    struct rt_device *device;             /* NULL: host memory */
    void *owner;                          /* foreign and lazy: for `release` and `load` */
    void (*release)(struct rt_buffer *b); /* foreign and lazy: frees owner (and device memory) */
    /* Lazy: brings the bytes into b->data, 64-byte aligned, verified; called under a lock, until it
     * succeeds. `check` (NULL: none) is asked between pieces, and what it fails with ends it. */
    enum rt_status (*load)(struct rt_buffer *b, const struct rt_check *check, struct rt_error *err);
    /* Lazy: reads [off, off + n) without keeping it. The whole is verified only by `stream`. */
    enum rt_status (*stream)(struct rt_buffer *b,
                             enum rt_status (*sink)(void *arg, size_t off, const void *p, size_t n,
                                                    struct rt_error *err),
                             void *arg, struct rt_error *err);
};

/* A bound on what many pools hold together. Outlives them. Set `limit`, the rest to zero. */
struct rt_budget {
    atomic_size_t used;
    size_t limit;
    struct rt_pool *sharing; /* pool.c's, and so is the next */
    /* Some pool may have reserved more than it uses. False: to ask them all is of no use. */
    atomic_bool has_surplus;
};
/* Takes n bytes of it, or none. A NULL budget has no bound. */
bool rt_budget_take(struct rt_budget *b, size_t n);
void rt_budget_give(struct rt_budget *b, size_t n);

/*
 * Where a run's outputs come from: recycles blocks, counts them against a limit. Freed blocks of
 * any thread come back to it; it lives until the last of them is back.
 */
struct rt_pool *rt_pool_new(size_t limit_bytes); /* NULL: out of memory */
/* What is out counts against the budget too; before the first block. */
void rt_pool_share(struct rt_pool *p, struct rt_budget *budget);
struct rt_pool *rt_pool_ref(struct rt_pool *p); /* NULL is fine */
void rt_pool_unref(struct rt_pool *p);
void rt_pool_trim(struct rt_pool *p, size_t keep_bytes); /* gives idle blocks back to the system */
/*
 * A run begins, or ends. Between runs what comes back waits for the next one: twice what the second
 * largest of the last runs held, so that recurring shapes find their memory (in blocks of other
 * sizes too), while a single huge answer gives its own back; but at least `least` bytes.
 * Not from two threads at a time. rt_pool_end tells how many bytes will wait at most.
 */
size_t *rt_pool_reserved(struct rt_pool *p); /* a number of its owner's; 0 at first */
void rt_pool_begin(struct rt_pool *p);
size_t rt_pool_end(struct rt_pool *p, size_t least);
/* What a run holds besides tensors counts like them, against the limit and the budget.
 * RT_RESOURCE_EXHAUSTED: `err` names `what`, with its article, the sizes and the flag. One thread
 * at a time. */
enum rt_status rt_pool_charge(struct rt_pool *p, size_t bytes, const char *what,
                              struct rt_error *err);
void rt_pool_discharge(struct rt_pool *p, size_t bytes);
/* The same from any thread, for memory that is no run's. `credit`: bytes by which the limit may be
 * exceeded. */
enum rt_status rt_pool_hold(struct rt_pool *p, size_t bytes, size_t credit, const char *what,
                            struct rt_error *err);
void rt_pool_release(struct rt_pool *p, size_t bytes);
/* n zeroed bytes that are no tensor and count like one until rt_pool_free, which any thread may
 * call. NULL: err names `what`, with its article, the sizes and the flag. */
void *rt_pool_alloc(struct rt_pool *p, size_t n, const char *what, struct rt_error *err);
void rt_pool_free(void *p); /* NULL is fine */
/*
 * A pool that recycles nothing: what comes back to it goes to the system. Its limit, named by
 * `flag` (a literal), may be set again while nothing allocates, and raised at any time.
 */
struct rt_pool *rt_pool_new_plain(size_t limit_bytes, const char *flag); /* NULL: out of memory */
void rt_pool_set_limit(struct rt_pool *p, size_t limit_bytes, const char *flag);
void rt_pool_raise_limit(struct rt_pool *p, size_t bytes);
bool rt_pool_has_capacity(const struct rt_pool *p, size_t bytes); /* of its limit */
size_t rt_pool_in_use(struct rt_pool *p);

/* 64-byte aligned, not zeroed (zeroed for strings and objects). `pool` may be NULL: malloc. */
struct rt_buffer *rt_buffer_new(struct rt_pool *pool, enum rt_dtype dtype, size_t bytes,
                                struct rt_error *err);
/* Whether what allocates should go on. Strings and objects are zeroed, 24 bytes for a string: a run
 * that has a byte of its input for each of them is asked between pieces of RT_ZERO_PIECE bytes. */
struct rt_check {
    enum rt_status (*check)(void *arg, struct rt_error *err);
    void *arg;
};
enum { RT_ZERO_PIECE = 2 << 20 };
/* As rt_buffer_new, which asks nobody. NULL also when check fails: err is its. */
struct rt_buffer *rt_buffer_new_checked(struct rt_pool *pool, enum rt_dtype dtype, size_t bytes,
                                        const struct rt_check *check, struct rt_error *err);
/* A text of n bytes to fill in, refs 1, counted by `pool`. NULL: err says which limit is reached.
 */
struct rt_text *rt_text_new(struct rt_pool *pool, size_t n, struct rt_error *err);
void rt_text_unref(struct rt_text *t);
/*
 * What the buffer, or the text, takes counts in the pool `to` from now on and no longer in the one
 * that it was allocated from. `to` recycles nothing (rt_pool_new_plain). The caller holds a
 * reference; others may hold, and move, it at the same time. `credit`: bytes in `to` that the
 * caller is about to free and that may therefore be exceeded. RT_RESOURCE_EXHAUSTED: nothing moved.
 * rt_buffer_move: of heap buffers only; the texts of its elements stay where they are.
 */
enum rt_status rt_buffer_move(struct rt_buffer *b, struct rt_pool *to, size_t credit,
                              struct rt_error *err);
enum rt_status rt_text_move(struct rt_text *t, struct rt_pool *to, size_t credit,
                            struct rt_error *err);
size_t
rt_buffer_counted_bytes(const struct rt_buffer *b); /* what a pool counts for a heap buffer */
/* Bytes of somebody else; `release(b)` is called when the last reference goes, may be NULL. */
struct rt_buffer *rt_buffer_foreign(void *data, size_t bytes, void *owner,
                                    void (*release)(struct rt_buffer *b));
struct rt_buffer *rt_buffer_ref(struct rt_buffer *b);
void rt_buffer_unref(struct rt_buffer *b); /* NULL is fine */

/* ---- tensors ---- */

struct rt_tensor {
    uint8_t dtype; /* enum rt_dtype; RT_NO_DTYPE: no tensor */
    int8_t rank;
    uint16_t alias_of; /* of a ref variable's own bytes (runtime/exec/alias.h): which; 0: of none */
    uint32_t storage;  /* the variable's storage that it is */
    int64_t dim[RT_MAX_RANK];
    void *data;            /* rt_no_elements() without elements; NULL: lazy */
    struct rt_buffer *buf; /* NULL: borrowed bytes that outlive the tensor, or no elements */
};

/*
 * Number of elements of a shape. -1: a dimension is negative, or the product of the dimensions that
 * are not 0 exceeds INT64_MAX. The rule leaves zeros out, as NumPy's does, so that a tensor without
 * elements has no part whose product wraps: strides, prefixes, suffixes and sub-shapes of a tensor
 * that exists can be multiplied unchecked. TensorFlow lets some of these shapes be created and then
 * ends the process, or fails with an internal error, in the next kernel.
 */
int64_t rt_count(int rank, const int64_t *dim);
/*
 * Whether a tensor of this type and shape may exist: at most RT_MAX_RANK dimensions, rt_count's
 * rule, and the same with the size of an element as a further factor, so that strides in bytes fit
 * too. Every tensor passes here: rt_tensor_new, rt_out_view, and what infer answers. *bytes: of the
 * elements; may be NULL.
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
/* Of a loaded string tensor: what its texts take. One that neighbours share counts once. */
size_t rt_tensor_text_bytes(const struct rt_tensor *t);
/*
 * Where the data of a tensor without elements points: aligned like any other, never to be read or
 * written, which AddressSanitizer watches. Kernels may therefore form and advance pointers into any
 * tensor; with NULL that would be undefined.
 */
void *rt_no_elements(void);
/* A new tensor over a new buffer; checks rank, dims and the product. *t is overwritten. */
enum rt_status rt_tensor_new(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                             int rank, const int64_t *dim, struct rt_error *err);
/* As rt_tensor_new over rt_buffer_new_checked. */
enum rt_status rt_tensor_new_checked(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                                     int rank, const int64_t *dim, const struct rt_check *check,
                                     struct rt_error *err);
void rt_tensor_ref(struct rt_tensor *dst, const struct rt_tensor *src); /* *dst is overwritten */
void rt_tensor_clear(struct rt_tensor *t); /* drops the reference; *t is zero afterwards */
/* We hold the only reference to plain heap bytes, so they may be written. */
bool rt_tensor_is_sole(const struct rt_tensor *t);
/* If lazy, brings it into memory (once for all who share it) and sets t->data. */
enum rt_status rt_tensor_load(struct rt_tensor *t, struct rt_error *err);
/* The same for a run: `check` ends it, and the next who wants the bytes begins anew. Who waits for
 * another to bring the same tensor is not asked. */
enum rt_status rt_tensor_load_checked(struct rt_tensor *t, const struct rt_check *check,
                                      struct rt_error *err);
static inline bool rt_tensor_is_lazy(const struct rt_tensor *t)
{
    return t->buf && t->buf->kind == RT_BUF_LAZY && !atomic_load(&t->buf->data);
}
/* Element-wise copy of n elements: texts of strings and objects are shared. dst is initialised
 * (zero for strings and objects). */
void rt_copy_elements(enum rt_dtype dtype, void *dst, const void *src, int64_t n);
/* The same into a new heap buffer, after a lazy `src` is loaded. */
enum rt_status rt_tensor_copy(struct rt_tensor *dst, const struct rt_tensor *src,
                              struct rt_pool *pool, struct rt_error *err);
/* A scalar of `pool` (NULL: malloc) that holds a reference to `o`, of type RT_RESOURCE or
 * RT_VARIANT; takes the caller's reference only on success. */
enum rt_status rt_tensor_object(struct rt_tensor *t, struct rt_pool *pool, enum rt_dtype dtype,
                                struct rt_object *o, struct rt_error *err);
/* "[2,3]", cut to room; as TensorFlow prints shapes. -1 dims print as "?". */
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
