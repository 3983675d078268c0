/* What this process may use of the machine: affinity and cgroup limits, not the host's size. */
#ifndef RT_BASE_MACHINE_H
#define RT_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* Cores: the smaller of the affinity mask and the cgroup's CPU quota (rounded up), at least 1. */
int rt_machine_cores(void);
/* Bytes that can still be allocated: the smaller of MemAvailable and the cgroup's limit less its
 * use (page cache of the cgroup not counted as use). INT64_MAX when nothing can be read. */
int64_t rt_machine_free_memory(void);
/* Resident bytes of this process; 0 when it cannot be read. */
int64_t rt_machine_resident(void);
/* The widest vectors that the processor has, with all that our loops use; each has all before. */
enum rt_vectors { RT_VECTORS_BASE, RT_VECTORS_AVX2, RT_VECTORS_AVX512 };
enum rt_vectors rt_machine_vectors(void);
/* The processor multiplies bfloat16. */
bool rt_machine_has_bf16(void);

#endif
