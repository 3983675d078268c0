/*
 * Lists of types, from which one macro makes code for many types. A list expands to X(dtype, C
 * type) for each of its types, for example:
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
#include "runtime/base/sanitizer.h"
#include "runtime/core/types.h"

#ifndef CMPLX /* glibc defines CMPLX for GCC only */
#define CMPLX(re, im)  __builtin_complex((double)(re), (double)(im))
#define CMPLXF(re, im) __builtin_complex((float)(re), (float)(im))
#endif

/* Each of these macros expands to M(dtype, C type, ...) for each type of its list. */
#define KN_FOR_SIGNED(M, ...)                                                                      \
    M(RT_I8, int8_t, __VA_ARGS__)                                                                  \
    M(RT_I16, int16_t, __VA_ARGS__)                                                                \
    M(RT_I32, int32_t, __VA_ARGS__)                                                                \
    M(RT_I64, int64_t, __VA_ARGS__)
#define KN_FOR_UNSIGNED(M, ...)                                                                    \
    M(RT_U8, uint8_t, __VA_ARGS__)                                                                 \
    M(RT_U16, uint16_t, __VA_ARGS__)                                                               \
    M(RT_U32, uint32_t, __VA_ARGS__)                                                               \
    M(RT_U64, uint64_t, __VA_ARGS__)
#define KN_FOR_I32_I64(M, ...) M(RT_I32, int32_t, __VA_ARGS__) M(RT_I64, int64_t, __VA_ARGS__)
#define KN_FOR_WIDE(M, ...)    M(RT_F32, float, __VA_ARGS__) M(RT_F64, double, __VA_ARGS__)
#define KN_FOR_HALFS(M, ...)                                                                       \
    M(RT_F16, struct kn_half, __VA_ARGS__) M(RT_BF16, struct kn_bfloat, __VA_ARGS__)
#define KN_FOR_COMPLEX(M, ...)                                                                     \
    M(RT_C64, float _Complex, __VA_ARGS__) M(RT_C128, double _Complex, __VA_ARGS__)
#define KN_FOR_BOOL(M, ...)           M(RT_BOOL, bool, __VA_ARGS__)
#define KN_FOR_INTS(M, ...)           KN_FOR_SIGNED(M, __VA_ARGS__) KN_FOR_UNSIGNED(M, __VA_ARGS__)
#define KN_FOR_FLOATS(M, ...)         KN_FOR_WIDE(M, __VA_ARGS__) KN_FOR_HALFS(M, __VA_ARGS__)
#define KN_FOR_REALS(M, ...)          KN_FOR_INTS(M, __VA_ARGS__) KN_FOR_FLOATS(M, __VA_ARGS__)
#define KN_FOR_NUMBERS(M, ...)        KN_FOR_REALS(M, __VA_ARGS__) KN_FOR_COMPLEX(M, __VA_ARGS__)
#define KN_FOR_FLOATS_COMPLEX(M, ...) KN_FOR_FLOATS(M, __VA_ARGS__) KN_FOR_COMPLEX(M, __VA_ARGS__)

#define KN_ROW_X(dt, T, X) X(dt, T)
#define KN_SIGNED(X)       KN_FOR_SIGNED(KN_ROW_X, X)
#define KN_UNSIGNED(X)     KN_FOR_UNSIGNED(KN_ROW_X, X)
#define KN_INTS(X)         KN_FOR_INTS(KN_ROW_X, X)
#define KN_FLOATS(X)       KN_FOR_WIDE(KN_ROW_X, X)
#define KN_HALFS(X)        KN_FOR_HALFS(KN_ROW_X, X)
#define KN_COMPLEX(X)      KN_FOR_COMPLEX(KN_ROW_X, X)
#define KN_REALS(X)        KN_FOR_REALS(KN_ROW_X, X)
#define KN_NUMBERS(X)      KN_FOR_NUMBERS(KN_ROW_X, X)

/* KN_SET makes a set of types from a list, for the `types` of a struct rt_kernel, as in
 * `KN_SET(KN_INTS) | RT_T(RT_BOOL)`. */
#define KN_SET_ROW(dt, T) | RT_T(dt)
#define KN_SET(LIST)      (UINT64_C(0) LIST(KN_SET_ROW))

/*
 * KN_C is the type in which values of a type are computed. It is float for the half-precision
 * types, whose results are rounded after each operation. For every other type, it is the type
 * itself. KN_U is like KN_C for floating-point types. For integers, it is an unsigned type, so that
 * sums and products wrap around without undefined behaviour. KN_GET and KN_PUT convert an element
 * to the type of the computation and back.
 */
#define KN_C(dt)          KN_C_##dt
#define KN_C_RT_I8        int8_t
#define KN_C_RT_I16       int16_t
#define KN_C_RT_I32       int32_t
#define KN_C_RT_I64       int64_t
#define KN_C_RT_U8        uint8_t
#define KN_C_RT_U16       uint16_t
#define KN_C_RT_U32       uint32_t
#define KN_C_RT_U64       uint64_t
#define KN_C_RT_F32       float
#define KN_C_RT_F64       double
#define KN_C_RT_F16       float
#define KN_C_RT_BF16      float
#define KN_C_RT_C64       float _Complex
#define KN_C_RT_C128      double _Complex
#define KN_C_RT_BOOL      bool
#define KN_U(dt)          KN_U_##dt
#define KN_U_RT_I8        uint32_t
#define KN_U_RT_I16       uint32_t
#define KN_U_RT_I32       uint32_t
#define KN_U_RT_I64       uint64_t
#define KN_U_RT_U8        uint32_t
#define KN_U_RT_U16       uint32_t
#define KN_U_RT_U32       uint32_t
#define KN_U_RT_U64       uint64_t
#define KN_U_RT_F32       float
#define KN_U_RT_F64       double
#define KN_U_RT_F16       float
#define KN_U_RT_BF16      float
#define KN_U_RT_C64       float _Complex
#define KN_U_RT_C128      double _Complex
#define KN_GET(dt, v)     KN_GET_##dt(v)
#define KN_GET_RT_I8(v)   (v)
#define KN_GET_RT_I16(v)  (v)
#define KN_GET_RT_I32(v)  (v)
#define KN_GET_RT_I64(v)  (v)
#define KN_GET_RT_U8(v)   (v)
#define KN_GET_RT_U16(v)  (v)
#define KN_GET_RT_U32(v)  (v)
#define KN_GET_RT_U64(v)  (v)
#define KN_GET_RT_F32(v)  (v)
#define KN_GET_RT_F64(v)  (v)
#define KN_GET_RT_F16(v)  kn_from_f16(v)
#define KN_GET_RT_BF16(v) kn_from_bf16(v)
#define KN_GET_RT_C64(v)  (v)
#define KN_GET_RT_C128(v) (v)
#define KN_GET_RT_BOOL(v) (v)
#define KN_PUT(dt, v)     KN_PUT_##dt(v)
#define KN_PUT_RT_I8(v)   ((int8_t)(v))
#define KN_PUT_RT_I16(v)  ((int16_t)(v))
#define KN_PUT_RT_I32(v)  ((int32_t)(v))
#define KN_PUT_RT_I64(v)  ((int64_t)(v))
#define KN_PUT_RT_U8(v)   ((uint8_t)(v))
#define KN_PUT_RT_U16(v)  ((uint16_t)(v))
#define KN_PUT_RT_U32(v)  ((uint32_t)(v))
#define KN_PUT_RT_U64(v)  ((uint64_t)(v))
#define KN_PUT_RT_F32(v)  ((float)(v))
#define KN_PUT_RT_F64(v)  ((double)(v))
#define KN_PUT_RT_F16(v)  kn_to_f16((float)(v))
#define KN_PUT_RT_BF16(v) kn_to_bf16((float)(v))
#define KN_PUT_RT_C64(v)  (v)
#define KN_PUT_RT_C128(v) (v)
#define KN_PUT_RT_BOOL(v) ((bool)(v))

/* Rounds v to type dt if dt is a half-precision type. Used between two steps of an operation, where
 * TensorFlow rounds too. */
#define KN_ROUND(dt, v) KN_GET(dt, KN_PUT(dt, v))

/* Returns v, or 0 if v is subnormal. The processor treats subnormal numbers as 0
 * (rt_flush_subnormals), but library functions that read the bits of a number do not. */
#define KN_FLUSH(v) ((v) + 0)

/* Types identified only by size, for kernels that only move elements: X(bytes, C type). */
#define KN_SIZES(X) X(1, uint8_t) X(2, uint16_t) X(4, uint32_t) X(8, uint64_t)

/*
 * Marks a function whose loops are worth vectorising. The function is compiled for several
 * instruction sets, one of which is selected at program start. The selection requires toolchain
 * support. Sanitizer builds compile the function only once, because the selection would run before
 * the sanitizers are initialised.
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !RT_HAS_SANITIZER
#define KN_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define KN_CLONES
#endif

/* Like KN_CLONES, but only for the types that most models use. For other types, three copies of the
 * code are not worthwhile. */
#define KN_FAST(dt) KN_FAST_##dt
#define KN_FAST_RT_I8
#define KN_FAST_RT_I16
#define KN_FAST_RT_I32 KN_CLONES
#define KN_FAST_RT_I64 KN_CLONES
#define KN_FAST_RT_U8
#define KN_FAST_RT_U16
#define KN_FAST_RT_U32
#define KN_FAST_RT_U64
#define KN_FAST_RT_F32  KN_CLONES
#define KN_FAST_RT_F64  KN_CLONES
#define KN_FAST_RT_F16  KN_CLONES
#define KN_FAST_RT_BF16 KN_CLONES
#define KN_FAST_RT_C64
#define KN_FAST_RT_C128
#define KN_FAST_RT_BOOL

/* Precedes a loop that reads element i before it writes element i, and lets the compiler vectorise
 * the loop although its output may overlap an input. */
#if defined(__clang__)
#define KN_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define KN_IVDEP _Pragma("GCC ivdep")
#else
#define KN_IVDEP
#endif

#endif
