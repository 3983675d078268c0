/*
 * Detects the sanitizer with which gcc or clang compiles the code. RT_HAS_ASAN, RT_HAS_TSAN and
 * RT_HAS_SANITIZER (either of the two) are 0 or 1. RT_POISON makes AddressSanitizer report every
 * access to the given bytes. Without AddressSanitizer, RT_POISON does nothing.
 */
#ifndef RT_BASE_SANITIZER_H
#define RT_BASE_SANITIZER_H

#if defined(__SANITIZE_ADDRESS__)
#define RT_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RT_HAS_ASAN 1
#endif
#endif
#if !defined(RT_HAS_ASAN)
#define RT_HAS_ASAN 0
#endif

#if RT_HAS_ASAN
#include <sanitizer/asan_interface.h>
#define RT_POISON(p, n) __asan_poison_memory_region(p, n)
#else
#define RT_POISON(p, n) ((void)(p), (void)(n))
#endif

#if defined(__SANITIZE_THREAD__)
#define RT_HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RT_HAS_TSAN 1
#endif
#endif
#if !defined(RT_HAS_TSAN)
#define RT_HAS_TSAN 0
#endif

#define RT_HAS_SANITIZER (RT_HAS_ASAN || RT_HAS_TSAN)

#endif
