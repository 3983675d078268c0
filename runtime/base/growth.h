/*
 * Limits on the memory of data that is decoded from untrusted bytes. A limit is a fixed number of
 * bytes plus a multiple of the input's size. Every reader of a model or a message has such a limit,
 * so that the memory cost of a file is bounded by its size. Threads: any.
 */
#ifndef RT_BASE_GROWTH_H
#define RT_BASE_GROWTH_H

#include <stddef.h>
#include <stdint.h>

/* Returns `free_bytes + bytes * factor`, or SIZE_MAX if that overflows. */
static inline size_t rt_growth_limit(size_t free_bytes, size_t bytes, size_t factor)
{
    size_t limit;
    return __builtin_mul_overflow(bytes, factor, &limit) ||
                   __builtin_add_overflow(limit, free_bytes, &limit)
               ? SIZE_MAX
               : limit;
}

#endif
