/*
 * Tells when malloc may hold much freed memory. Many small blocks that are freed at once stay in
 * malloc's arenas, and the process keeps its size until malloc_trim gives them back.
 *
 * Threads: any.
 */
#ifndef RT_HEAP_H
#define RT_HEAP_H

#include <stddef.h>

/* How often since the start at least 65,536 strings or blocks were freed at once. Defined in
 * pool.c. */
size_t rt_heap_bursts(void);

#endif
