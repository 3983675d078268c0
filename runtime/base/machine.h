/* The resources of the machine that this process may use, by affinity and cgroup limits, and the
 * processor's vector instructions. Threads: any. */
#ifndef RT_BASE_MACHINE_H
#define RT_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* Number of cores: the smaller of the affinity mask and the cgroup's CPU quota (rounded up), at
 * least 1. */
int rt_machine_cores(void);
/* Bytes that can still be allocated: the smaller of MemAvailable and the cgroup's limit minus its
 * use, without the cgroup's page cache. INT64_MAX: neither can be read. */
int64_t rt_machine_free_memory(void);
/* Resident bytes of this process; 0: they cannot be read. */
int64_t rt_machine_resident(void);
/* The widest vectors for which the processor has every instruction that our kernels use. Each level
 * includes those before it. */
enum rt_vectors { RT_VECTORS_BASE, RT_VECTORS_AVX2, RT_VECTORS_AVX512 };
enum rt_vectors rt_machine_vectors(void);
/* Whether the processor has instructions that multiply bfloat16. */
bool rt_machine_has_bf16(void);

#endif
