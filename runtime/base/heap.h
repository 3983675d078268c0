/*
 * Memory from malloc, for blocks that may be large. New memory is expensive because of its page
 * faults: for a request with a tensor of some hundred kilobytes, they take more time than
 * everything else together. Freed large blocks are therefore kept for a few seconds, and the next
 * ones are taken from them. Blocks of all kinds share these idle blocks.
 *
 * Threads: any thread may call these functions.
 */
#ifndef RT_BASE_HEAP_H
#define RT_BASE_HEAP_H

#include <stddef.h>

enum {
    RT_HEAP_LARGE = 64 << 10,    /* smallest size in bytes of a large block */
    RT_HEAP_IDLE_MOST = 64 << 20 /* maximum number of bytes of all idle blocks */
};

/* Sets malloc's policy for the process. Called once, before other threads start. */
void rt_heap_set_policy(void);

/* Allocates at least n bytes, aligned as malloc aligns them. A block that is used again has at most
 * `n * 3 / 2` bytes. Both rt_heap_free and free() free the block,
 * but free() does not keep it. Returns NULL if out of memory. */
void *rt_heap_alloc(size_t n);
/* Frees a block that rt_heap_alloc, rt_heap_resize or malloc returned, or keeps it as idle. Does
 * nothing if `p` is NULL. */
void rt_heap_free(void *p);
/* Allocates n bytes and moves the first `used` bytes of `p` there. `p` may be NULL if `used` is 0.
 * Frees `p`, except if memory runs out: then the function returns NULL, and `p` is unchanged. */
void *rt_heap_resize(void *p, size_t used, size_t n);

/* Returns the number of bytes of all idle blocks. */
size_t rt_heap_idle(void);
/* Frees the blocks that have been idle since before the previous call. The server's manager calls
 * this function every two seconds while there are idle blocks. The commands never call it. */
void rt_heap_trim(void);

/* Returns how often since the process started 65,536 or more strings or blocks were freed together.
 * malloc retains their memory until malloc_trim returns it to the system. */
size_t rt_heap_bursts(void);
/* Called after n strings or blocks were freed together. */
void rt_heap_freed_together(size_t n);

#endif
