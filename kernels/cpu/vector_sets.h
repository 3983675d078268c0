/*
 * The same loops for several instruction sets: includes the file KN_LOOPS once for each, with
 *   LOOPS(name)    a name of its own for every function
 *   TARGET         the attribute that selects the instruction set
 *   LANES          floats in a vector: 4, 8 or 16
 *   VEC, BITS      vectors of so many floats, or 32-bit integers, at any address
 *   VLOAD, VSTORE  one from, or to, a pointer to floats
 *   INLINE         begins a function that becomes part of its callers
 *   LOOPS(select)  lane by lane: of two vectors the first where all bits are set, as comparisons
 *                  set them, and the second where none is
 * That file ends with `static const KN_LOOPS_TYPE LOOPS(loops)`, the functions that its .c file
 * calls; loops_of says which set's to use. Once in a .c file. Threads: pure.
 */
#ifndef KN_CPU_VECTOR_SETS_H
#define KN_CPU_VECTOR_SETS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/machine.h"

#define VEC          LOOPS(vec)
#define BITS         LOOPS(bits)
#define VLOAD(p)     (*(const VEC *)(p))
#define VSTORE(p, v) (*(VEC *)(p) = (v))
#define INLINE       TARGET static inline __attribute__((always_inline))

#define VECTORS                                                                                    \
    typedef float VEC __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));             \
    typedef int32_t BITS __attribute__((vector_size(LANES * sizeof(int32_t)), aligned(4)));        \
    INLINE VEC LOOPS(select)(BITS yes, VEC a, VEC b)                                               \
    {                                                                                              \
        return (VEC)(((BITS)a & yes) | ((BITS)b & ~yes));                                          \
    }

#define LOOPS(name) base_##name
#define TARGET
#define LANES 4
VECTORS
#include KN_LOOPS
#undef LOOPS
#undef TARGET
#undef LANES

#if defined(__x86_64__)
#define LOOPS(name) avx2_##name
#define TARGET      __attribute__((target("avx2,fma")))
#define LANES       8
VECTORS
#include KN_LOOPS
#undef LOOPS
#undef TARGET
#undef LANES

#define LOOPS(name) avx512_##name
#define TARGET      __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,fma")))
#define LANES       16
VECTORS
#include KN_LOOPS
#undef LOOPS
#undef TARGET
#undef LANES
#endif

/* The loops for this processor, the best first; NULL: it has no more. */
static inline const KN_LOOPS_TYPE *loops_of(int which)
{
    const KN_LOOPS_TYPE *have[3];
    int n = 0;

#if defined(__x86_64__)
    if (rt_machine_vectors() == RT_VECTORS_AVX512)
        have[n++] = &avx512_loops;
    if (rt_machine_vectors() >= RT_VECTORS_AVX2)
        have[n++] = &avx2_loops;
#endif
    have[n++] = &base_loops;
    return which < n ? have[which] : NULL;
}

#endif
