/*
 * Buffers: the memory that tensors share. A heap buffer is a block of a pool or of malloc, a
 * foreign buffer lies over memory that something else owns, and a lazy one reads its bytes when
 * they are first needed.
 *
 * Owner: counted by references. The last one frees the buffer, on the thread that drops it,
 * together with the strings or objects that it holds. Threads: the count is atomic. Bytes with more
 * than one reference are read only.
 */
#ifndef RT_BUFFER_H
#define RT_BUFFER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/core/types.h"

struct rt_device;
struct rt_pool;

/* A function that says whether an allocation or a load should go on. Strings and objects are
 * zeroed, 24 bytes for each string, so a request with a byte for each string makes 24 bytes of work
 * of every byte: the check is called between pieces of RT_ZERO_PIECE bytes. */
struct rt_check {
    enum rt_status (*check)(void *arg, struct rt_error *err);
    void *arg;
};
enum { RT_ZERO_PIECE = 2 << 20 };

enum rt_buffer_kind { RT_BUF_HEAP, RT_BUF_FOREIGN, RT_BUF_LAZY };

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

/* A heap buffer, 64-byte aligned; strings and objects are zeroed, plain bytes are not. `pool` NULL:
 * malloc, counted nowhere. NULL: err is filled. */
struct rt_buffer *rt_buffer_new(struct rt_pool *pool, enum rt_dtype dtype, size_t bytes,
                                struct rt_error *err);
/* As rt_buffer_new, with a check. NULL also if the check fails; err is then the check's. */
struct rt_buffer *rt_buffer_new_checked(struct rt_pool *pool, enum rt_dtype dtype, size_t bytes,
                                        const struct rt_check *check, struct rt_error *err);
/* What a pool counts for a heap buffer. */
size_t rt_buffer_counted_bytes(const struct rt_buffer *b);
/* A buffer over memory that it does not own. `release(b)` is called with the last reference; it may
 * be NULL. NULL: out of memory. */
struct rt_buffer *rt_buffer_foreign(void *data, size_t bytes, void *owner,
                                    void (*release)(struct rt_buffer *b));
struct rt_buffer *rt_buffer_ref(struct rt_buffer *b);
void rt_buffer_unref(struct rt_buffer *b); /* NULL is fine */

/*
 * Moves a heap buffer to another pool: its bytes count in `to` and no longer in the pool where they
 * counted before. `to` is a plain pool (rt_pool_new_plain). The caller holds a reference; other
 * threads may hold references and move the buffer at the same time. `credit`: bytes in `to` that
 * the caller is about to free, by which the limit may therefore be exceeded. RT_RESOURCE_EXHAUSTED:
 * nothing has moved. The texts of the buffer's elements are not moved (rt_text_move).
 */
enum rt_status rt_buffer_move(struct rt_buffer *b, struct rt_pool *to, size_t credit,
                              struct rt_error *err);

#endif
