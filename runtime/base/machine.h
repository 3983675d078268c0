/* The machine resources that affinity and cgroup limits allow this process to use, and the
 * processor's vector instructions. Threads: any. */
#ifndef RT_BASE_MACHINE_H
#define RT_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the number of usable cores, at least 1: the number of cores in the affinity mask or the
 * cgroup's CPU quota rounded up, whichever is smaller. */
int rt_machine_cores(void);
/* Returns the number of bytes that can still be allocated: MemAvailable, or the cgroup's limit
 * minus its usage without the page cache, whichever is smaller. Returns INT64_MAX if neither can be
 * read. */
int64_t rt_machine_free_memory(void);
/* Returns the resident set size of this process in bytes, or 0 if it cannot be read. */
int64_t rt_machine_resident(void);
/* Levels of vector instructions. A processor has a level if it has all instructions of the level's
 * vector width that the kernels use. Each level includes the previous levels. */
enum rt_vectors { RT_VECTORS_BASE, RT_VECTORS_AVX2, RT_VECTORS_AVX512 };
enum rt_vectors rt_machine_vectors(void);
/* Returns whether the processor has instructions that multiply bfloat16. */
bool rt_machine_has_bf16(void);

#endif
