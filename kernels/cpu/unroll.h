/*
 * KN_UNROLL precedes a loop with a constant trip count, so that the array indexed in the loop stays
 * in registers. The macro is empty under sanitizers. Their instrumentation makes each iteration so
 * large that compilation would take minutes.
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
