/*
 * The macro lists that make many types from one body: X(dtype, C type).
 *
 *     #define X(dt, T) case dt: return fill_##dt(...);
 *     KN_NUMBERS(X)
 */
#ifndef KN_CPU_TYPES_H
#define KN_CPU_TYPES_H

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/cpu/half.h"
#include "runtime/types.h"

#define KN_SIGNED(X)   X(RT_I8, int8_t) X(RT_I16, int16_t) X(RT_I32, int32_t) X(RT_I64, int64_t)
#define KN_UNSIGNED(X) X(RT_U8, uint8_t) X(RT_U16, uint16_t) X(RT_U32, uint32_t) X(RT_U64, uint64_t)
#define KN_INTS(X)     KN_SIGNED(X) KN_UNSIGNED(X)
#define KN_FLOATS(X)   X(RT_F32, float) X(RT_F64, double)
#define KN_HALFS(X)    X(RT_F16, struct kn_half) X(RT_BF16, struct kn_bfloat)
#define KN_COMPLEX(X)  X(RT_C64, float _Complex) X(RT_C128, double _Complex)
#define KN_REALS(X)    KN_INTS(X) KN_FLOATS(X) KN_HALFS(X)
#define KN_NUMBERS(X)  KN_REALS(X) KN_COMPLEX(X)

/* Sets of types, for the `types` of a kernel row: KN_SET(KN_INTS) | RT_T(RT_BOOL). */
#define KN_SET_ROW(dt, T) | RT_T(dt)
#define KN_SET(LIST)      (UINT64_C(0) LIST(KN_SET_ROW))

/* By bytes alone, for what only moves elements: X(bytes, C type). */
#define KN_SIZES(X) X(1, uint8_t) X(2, uint16_t) X(4, uint32_t) X(8, uint64_t)

/*
 * On loops worth vectorising: compiled for several instruction sets, chosen when the program
 * starts. Only where the tool chain can; sanitizers run before the choice could be made.
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KN_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define KN_CLONES
#endif

#endif
