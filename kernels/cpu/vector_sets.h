/*
 * Compiles the same loops for several instruction sets: includes the file KN_LOOPS once for each
 * set, with these definitions:
 *   LOOPS(name)    a function's name for this instruction set
 *   TARGET         the attribute that selects the instruction set
 *   SET_SSE, SET_AVX2, SET_AVX512
 *                  at most one of these macros is defined; it determines which intrinsics may be
 *                  used and how many registers there are (LANES does not determine these, because
 *                  several instruction sets may have the same number of lanes)
 *   LANES          number of floats in a vector: 4, 8 or 16
 *   VEC, BITS      types of vectors of LANES floats or 32-bit integers, at any address
 *   VLOAD, VSTORE  load or store a vector by a pointer to floats
 *   INLINE         begins a function that is inlined into its callers
 *   LOOPS(select)  selects for each lane from the first of two vectors if all bits of a mask's lane
 *                  are set (as comparisons set them), and from the second if none is set
 *   LOOPS(load_some), LOOPS(store_some)
 *                  load or store only the first n floats, 1 to LANES; a loaded vector's other lanes
 *                  are those of `rest`
 * KN_LOOPS ends with `static const KN_LOOPS_TYPE LOOPS(loops)`, a table of functions for its .c
 * file; loops_of returns the table of the set to use. The .c file sets KN_LOOPS_OF to the name of
 * the function that returns the tables to other files. The module's internal header
 * (depthwise_internal.h, for example) declares that function and KN_LOOPS_TYPE, so that unit tests
 * can run the loops of every set. A .c file includes this header once. Threads: any; the loops are
 * pure functions.
 *
 * A new instruction set needs
 *   1. a member of rt_vectors and a test of the processor in runtime/base/machine.[ch], after the
 *      sets that it contains, because code that tests `>= RT_VECTORS_AVX2` relies on the order
 *   2. a block below, like those of the other sets, and a line in loops_of, best set first. A
 *      KN_LOOPS file without code for the set's SET_ macro uses loops for any LANES, without
 *      intrinsics
 *   3. a target of KN_CLONES in types.h, for the loops that compilers vectorise
 *   4. a case in kn_packed_gemm_is_fast in packed_gemm.c, which returns whether Slipway's GEMM
 *      is faster than the libraries'
 *   5. a name in feature_level of runtime/select/autotune.c, because a kernel choice made for
 *      another set is not reused
 *   6. OpenBLAS's name for processors with the set in gemm.c, if they are x86 processors
 * The unit tests of all loops run on every set that the processor has.
 */
#ifndef KN_CPU_VECTOR_SETS_H
#define KN_CPU_VECTOR_SETS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

/* Defines load_some and store_some, which copy through a buffer in memory. */
#define SOME_BY_MEMORY                                                                             \
    INLINE VEC LOOPS(load_some)(const float *p, int n, VEC rest)                                   \
    {                                                                                              \
        float some[LANES];                                                                         \
        if (n == LANES)                                                                            \
            return VLOAD(p);                                                                       \
        VSTORE(some, rest);                                                                        \
        memcpy(some, p, (size_t)n * sizeof *p);                                                    \
        return VLOAD(some);                                                                        \
    }                                                                                              \
    INLINE void LOOPS(store_some)(float *p, VEC v, int n)                                          \
    {                                                                                              \
        float some[LANES];                                                                         \
        if (n == LANES) {                                                                          \
            VSTORE(p, v);                                                                          \
        } else {                                                                                   \
            VSTORE(some, v);                                                                       \
            memcpy(p, some, (size_t)n * sizeof *p);                                                \
        }                                                                                          \
    }

#define LOOPS(name) base_##name
#define TARGET
#define LANES 4
#if defined(__SSE__)
#define SET_SSE
#endif
VECTORS
SOME_BY_MEMORY
#include KN_LOOPS
#undef SET_SSE
#undef LOOPS
#undef TARGET
#undef LANES

#if defined(__x86_64__)
#define LOOPS(name) avx2_##name
#define TARGET      __attribute__((target("avx2,fma")))
#define LANES       8
#define SET_AVX2
VECTORS
SOME_BY_MEMORY
#include KN_LOOPS
#undef SET_AVX2
#undef LOOPS
#undef TARGET
#undef LANES

#define LOOPS(name) avx512_##name
#define TARGET      __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,fma")))
#define LANES       16
#define SET_AVX512
VECTORS
INLINE VEC LOOPS(load_some)(const float *p, int n, VEC rest)
{
    return (VEC)_mm512_mask_loadu_ps((__m512)rest, (__mmask16)((1u << n) - 1), p);
}
INLINE void LOOPS(store_some)(float *p, VEC v, int n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}
#include KN_LOOPS
#undef SET_AVX512
#undef LOOPS
#undef TARGET
#undef LANES
#endif

/* Returns the loops for instruction set number `which` of the processor, or NULL if the processor
 * has no set with this number. Set 0 is the best set. */
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

const KN_LOOPS_TYPE *KN_LOOPS_OF(int which)
{
    return loops_of(which);
}

#endif
