/*
 * KN_UNROLL before a loop of known length, so that the array it goes over becomes registers. Not
 * under sanitizers: they make so much code of each turn that compilers take minutes for it.
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
