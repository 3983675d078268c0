/* Chooses the width of the vectors that device code processes (device/vector.cuh). */
#ifndef KC_VECTOR_H
#define KC_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether device code can read a vector of 4 floats from the address. NULL is allowed, for
 * an operand that is absent. */
static inline bool kc_is_aligned(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

#endif
