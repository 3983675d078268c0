/*
 * Buffers are the memory that tensors share. A heap buffer is a block from a pool or from malloc. A
 * foreign buffer covers memory that another module owns. A lazy buffer reads its bytes when they
 * are first needed.
 *
 * Owner: a buffer has a reference count. The thread that drops the last reference frees the buffer,
 * together with the strings or objects in it. Threads: the count is atomic. Bytes with more than
 * one reference are read-only.
 */
#ifndef RT_BUFFER_H
#define RT_BUFFER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/check.h"
#include "runtime/core/types.h"

struct rt_device;
struct rt_pool;

/* An allocation that zeroes strings or objects calls its check after every RT_ZERO_PIECE bytes.
 * Zeroing can take long, because a one-byte string in a request becomes an element of 24 bytes. */
enum { RT_ZERO_PIECE = 2 << 20 };

enum rt_buffer_kind { RT_BUF_HEAP, RT_BUF_FOREIGN, RT_BUF_LAZY };

struct rt_buffer {
    atomic_int refs;
    uint8_t kind; /* enum rt_buffer_kind */
    /* The enum rt_dtype of the elements if they must be freed (string, resource or variant), and
     * otherwise RT_NO_DTYPE. */
    uint8_t elem;
    size_t size;
    /* NULL if the buffer has no bytes, or is lazy and not loaded */
    _Atomic(void *) data;
    /* The pool that counts the buffer and to which the buffer returns, or NULL if free() frees the
     * buffer. rt_buffer_move may change the pool while other threads share the buffer. */
    _Atomic(struct rt_pool *) pool;
    struct rt_device *device; /* device that stores the bytes, or NULL for host memory */
    void *owner;              /* used by `release` and `load` of a foreign or lazy buffer */
    /* frees a foreign or lazy buffer's `owner`, and the buffer's device memory */
    void (*release)(struct rt_buffer *b);
    /* Reads the bytes of a lazy buffer into b->data (aligned to 64 bytes) and verifies them. Called
     * under a lock, and may be called again after a failure. Calls `check` between chunks, and
     * fails if `check` fails. `check` may be NULL. */
    enum rt_status (*load)(struct rt_buffer *b, const struct rt_check *check, struct rt_error *err);
    /* Passes all bytes of a lazy buffer to `sink` in chunks, without storing them. Each call of
     * `sink` receives the n bytes that begin at offset `off` of the buffer. The bytes are verified
     * after the last chunk. */
    enum rt_status (*stream)(struct rt_buffer *b,
                             enum rt_status (*sink)(void *arg, size_t off, const void *p, size_t n,
                                                    struct rt_error *err),
                             void *arg, struct rt_error *err);
};

/* Allocates a heap buffer, 64-byte aligned. Strings and objects are zeroed; bytes of plain types
 * are not. If `pool` is NULL, the buffer comes from malloc and is not counted. Returns NULL on
 * failure, with the reason in err. */
struct rt_buffer *rt_buffer_new(struct rt_pool *pool, enum rt_dtype dtype, size_t bytes,
                                struct rt_error *err);
/* Allocates a buffer as rt_buffer_new does, but calls `check` while it zeroes the buffer. If
 * `check` fails, returns NULL, with the error of `check` in err. */
struct rt_buffer *rt_buffer_new_checked(struct rt_pool *pool, enum rt_dtype dtype, size_t bytes,
                                        const struct rt_check *check, struct rt_error *err);
/* Returns the number of bytes that a heap buffer adds to its pool's count. */
size_t rt_buffer_counted_bytes(const struct rt_buffer *b);
/* Makes a foreign buffer, which covers memory that it does not own. If `release` is not NULL,
 * `release(b)` is called when the last reference is dropped. Returns NULL if out of memory. */
struct rt_buffer *rt_buffer_foreign(void *data, size_t bytes, void *owner,
                                    void (*release)(struct rt_buffer *b));
struct rt_buffer *rt_buffer_ref(struct rt_buffer *b);
void rt_buffer_unref(struct rt_buffer *b); /* does nothing if `b` is NULL */

/*
 * Moves a heap buffer to another pool, so that its bytes are counted in `to` instead of the
 * previous pool. `to` must be a plain pool (rt_pool_new_plain). The caller must hold a reference;
 * other threads may hold references and move the buffer at the same time. `credit` is the number of
 * bytes in `to` that the caller is about to free; the limit may be exceeded by that number. If the
 * call fails with RT_RESOURCE_EXHAUSTED, the buffer has not been moved. The bytes of long strings
 * in the buffer are never moved (see rt_text_move).
 */
enum rt_status rt_buffer_move(struct rt_buffer *b, struct rt_pool *to, size_t credit,
                              struct rt_error *err);

#endif
