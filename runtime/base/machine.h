/* The machine resources that affinity and cgroup limits allow this process to use, and the
 * processor's vector instructions. Threads: any. */
#ifndef RT_BASE_MACHINE_H
#define RT_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the number of usable cores, at least 1. This is the smaller of two numbers: the cores in
 * the affinity mask, and the cgroup's CPU quota, rounded up. */
int rt_machine_cores(void);
/* Returns the number of bytes that can still be allocated. This number is the smaller of two
 * values: MemAvailable, and the cgroup's limit minus the cgroup's usage without the page cache.
 * Returns INT64_MAX if neither value can be read. */
int64_t rt_machine_free_memory(void);
/* Returns the resident set size of this process in bytes, or 0 if it cannot be read. */
int64_t rt_machine_resident(void);
/* Vector instruction sets. A level means that the processor has all instructions of the level's
 * vector width that the kernels use. Each level includes the levels before it. */
enum rt_vectors { RT_VECTORS_BASE, RT_VECTORS_AVX2, RT_VECTORS_AVX512 };
enum rt_vectors rt_machine_vectors(void);
/* Returns whether the processor has instructions that multiply bfloat16. */
bool rt_machine_has_bf16(void);

#endif
