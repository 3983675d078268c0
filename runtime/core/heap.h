/*
 * Detects when malloc may hold much freed memory. When many small blocks are freed at once, they
 * stay in malloc's arenas, and the process does not shrink until malloc_trim returns them to the
 * system.
 *
 * Threads: any.
 */
#ifndef RT_HEAP_H
#define RT_HEAP_H

#include <stddef.h>

/* Returns how often since the start at least 65,536 strings or blocks were freed at once. Defined
 * in pool.c. */
size_t rt_heap_bursts(void);

#endif
