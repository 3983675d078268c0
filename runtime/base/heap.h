/*
 * Memory from malloc, for blocks that may be large. New memory is expensive because of its page
 * faults: for a request with a tensor of some hundred kilobytes, they take more time than
 * everything else together. Freed large blocks are therefore kept for a few seconds, and the next
 * ones are taken from them. Blocks of all kinds share these idle blocks.
 *
 * Threads: any thread may call these functions, except where one says otherwise.
 */
#ifndef RT_BASE_HEAP_H
#define RT_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* What rt_heap_trim has measured. It begins with zeros. */
struct rt_heap_trims {
    int64_t at, cpu_ns;  /* time of the last call, and processor time of the process at that time */
    int64_t returned_at; /* time at which memory was last returned to the system */
    int64_t least;       /* least number of resident bytes in no allocated block since then */
};
/*
 * Frees the blocks that have been idle since before the previous call, and returns to the system
 * the memory that malloc retains after smaller blocks were freed. malloc's locks are held
 * meanwhile, so this happens only if that memory has grown by 4 MiB, and either the process has
 * used less than a tenth of a core since the previous call or the last time was ten seconds ago.
 * With `at_once` it happens in any case.
 *
 * The server's manager calls this function every two seconds. The commands never call it. One
 * thread at a time may call it.
 */
void rt_heap_trim(struct rt_heap_trims *t, bool at_once);

#endif
