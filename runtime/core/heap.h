/*
 * Detects when malloc may hold a large amount of freed memory. When many small blocks are freed
 * together, they stay in malloc's arenas, and the process does not shrink until malloc_trim returns
 * them to the system.
 *
 * Threads: any.
 */
#ifndef RT_HEAP_H
#define RT_HEAP_H

#include <stddef.h>

/* Returns how many times, since the process started, at least 65,536 strings or blocks were freed
 * together. Defined in pool.c. */
size_t rt_heap_bursts(void);

#endif
