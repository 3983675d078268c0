/*
 * How much memory bytes of a stranger may become: a fixed share that is free, and so many bytes for
 * each byte given. Whatever reads a model or a message holds itself to such a limit, so that what a
 * file costs is known from its size.
 */
#ifndef RT_BASE_GROWTH_H
#define RT_BASE_GROWTH_H

#include <stddef.h>
#include <stdint.h>

/* free_bytes + bytes * factor, SIZE_MAX where that cannot be said. */
static inline size_t rt_growth_limit(size_t free_bytes, size_t bytes, size_t factor)
{
    size_t limit;
    return __builtin_mul_overflow(bytes, factor, &limit) ||
                   __builtin_add_overflow(limit, free_bytes, &limit)
               ? SIZE_MAX
               : limit;
}

#endif
