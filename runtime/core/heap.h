/*
 * What malloc keeps for itself: very many small pieces that were freed lie in its arenas, and the
 * process stays as large as they were until malloc_trim gives them back.
 *
 * Threads: any.
 */
#ifndef RT_HEAP_H
#define RT_HEAP_H

#include <stddef.h>

/* How often, since the start, tens of thousands of strings or of blocks were freed at once. In
 * pool.c. */
size_t rt_heap_bursts(void);

#endif
