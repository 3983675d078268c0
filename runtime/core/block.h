/*
 * Blocks of memory for buffers. A block is one allocation that contains the buffer's header and its
 * data. Size classes are a quarter of a power of two apart, so at most a fifth of a block is
 * unused. Unused pages are never touched.
 */
#ifndef RT_BLOCK_H
#define RT_BLOCK_H

#include "runtime/core/buffer.h"

enum {
    RT_BLOCK_ALIGN = 64,   /* alignment of a block's data, in bytes */
    RT_BLOCK_HEADER = 128, /* distance from a block to its data, in bytes */
    RT_BLOCK_SMALL = 4,    /* number of small size classes (64, 128, 192 and 256 bytes) */
    RT_BLOCK_MAX_EXP = 46, /* the largest size class has `2^47` bytes */
    RT_BLOCK_CLASSES = RT_BLOCK_SMALL + (RT_BLOCK_MAX_EXP - 8 + 1) * 4,
};

struct rt_block {
    struct rt_buffer b;
    size_t capacity;       /* number of bytes of the data */
    struct rt_block *next; /* next block of an idle list */
    void *base;            /* the pointer that the allocator returned */
};

/* Returns the size class for n bytes, and sets *capacity to the size of the class. Returns -1 if n
 * is too large. */
int rt_block_class(size_t n, size_t *capacity);
/* Returns the number of bytes that a block of this capacity occupies. */
size_t rt_block_footprint(size_t capacity);
/* Allocates a block, of which only `capacity` and `base` are set. Large blocks are page-locked if
 * an accelerator is used (core/pinned.h). Returns NULL if out of memory. */
struct rt_block *rt_block_new(size_t capacity);
void rt_block_free(struct rt_block *k);

#endif
