/*
 * KN_UNROLL before a loop of known length, so that the array it goes over becomes registers. Not
 * under sanitizers: they make so much code of each turn that compilers take minutes for it.
 */
#ifndef KN_CPU_UNROLL_H
#define KN_CPU_UNROLL_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KN_UNROLL
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KN_UNROLL
#endif
#endif
#if !defined(KN_UNROLL)
#define KN_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
