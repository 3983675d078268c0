/*
 * KN_UNROLL stands before a loop of constant length, so that the array that the loop indexes is
 * kept in registers. It is empty under sanitizers, whose code for each iteration is so large that
 * compilers would take minutes.
 */
#ifndef KN_CPU_UNROLL_H
#define KN_CPU_UNROLL_H

#include "runtime/base/sanitizer.h"

#if RT_HAS_SANITIZER
#define KN_UNROLL
#elif defined(__clang__)
#define KN_UNROLL _Pragma("unroll")
#else
#define KN_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
