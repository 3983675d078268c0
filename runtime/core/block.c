#include "runtime/core/block.h"

#include <stdlib.h>

#include "runtime/base/heap.h"
#include "runtime/core/pinned.h"

_Static_assert(sizeof(struct rt_block) <= RT_BLOCK_HEADER, "header of a block");
_Static_assert(RT_BLOCK_HEADER % RT_BLOCK_ALIGN == 0, "data is aligned");

static bool is_small(size_t capacity)
{
    return capacity <= RT_BLOCK_SMALL * RT_BLOCK_ALIGN;
}

int rt_block_class(size_t n, size_t *capacity)
{
    if (is_small(n)) {
        int k = n ? (int)((n - 1) / RT_BLOCK_ALIGN) : 0;
        *capacity = (size_t)(k + 1) * RT_BLOCK_ALIGN;
        return k;
    }
    int e = 63 - __builtin_clzll((unsigned long long)(n - 1));
    if (e > RT_BLOCK_MAX_EXP)
        return -1;
    size_t step = (size_t)1 << (e - 2);
    /* position of the size class within its power of two, 0 to 3 */
    size_t quarter = (n - 1) / step - 4;
    *capacity = (quarter + 5) * step;
    return RT_BLOCK_SMALL + (e - 8) * 4 + (int)quarter;
}

size_t rt_block_footprint(size_t capacity)
{
    return RT_BLOCK_HEADER + capacity + RT_BLOCK_ALIGN - 1;
}

/* Aligns the block itself, because posix_memalign does not find freed blocks of the same size:
 * it looks for larger ones, cuts them to size, and so divides the heap. */
struct rt_block *rt_block_new(size_t capacity)
{
    const size_t bytes = rt_block_footprint(capacity);
    void *base = NULL;
    if (capacity >= RT_PINNED_LEAST)
        base = rt_pinned_alloc(bytes);
    if (!base)
        base = rt_heap_alloc(bytes);
    if (!base)
        return NULL;
    struct rt_block *k = (struct rt_block *)(((uintptr_t)base + RT_BLOCK_ALIGN - 1) &
                                             ~(uintptr_t)(RT_BLOCK_ALIGN - 1));
    k->capacity = capacity;
    k->base = base;
    return k;
}

void rt_block_free(struct rt_block *k)
{
    if (k->capacity < RT_PINNED_LEAST || !rt_pinned_free(k->base))
        rt_heap_free(k->base);
}
