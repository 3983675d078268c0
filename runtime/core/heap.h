/*
 * Detects when malloc may retain a large amount of freed memory. Small blocks that are freed
 * together stay in malloc's arenas until malloc_trim returns them to the system.
 *
 * Threads: any.
 */
#ifndef RT_HEAP_H
#define RT_HEAP_H

#include <stddef.h>

/* Returns the number of times since the process started that 65,536 or more strings or blocks were
 * freed together. Defined in pool.c. */
size_t rt_heap_bursts(void);

#endif
