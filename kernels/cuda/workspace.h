/*
 * The workspace of a kernel that calls cuDNN or cuBLASLt, in the scratch memory of its run. The
 * libraries want an alignment of 256 bytes, and scratch memory is aligned to 64 bytes only, so a
 * kernel reserves KC_WORKSPACE_ALIGNMENT bytes more than it needs.
 *
 * Threads: pure functions.
 */
#ifndef KC_WORKSPACE_H
#define KC_WORKSPACE_H

#include <stddef.h>
#include <stdint.h>

enum { KC_WORKSPACE_ALIGNMENT = 256 };

/* Returns the first aligned offset behind `bytes` bytes. */
static inline size_t kc_workspace_offset(size_t bytes)
{
    return (bytes + KC_WORKSPACE_ALIGNMENT - 1) & ~(size_t)(KC_WORKSPACE_ALIGNMENT - 1);
}
/* Returns the first aligned address in the scratch memory. */
static inline char *kc_workspace(void *scratch)
{
    return (char *)scratch + (-(uintptr_t)scratch & (KC_WORKSPACE_ALIGNMENT - 1));
}

#endif
