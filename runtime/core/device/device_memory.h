/*
 * The memory of an accelerator: a limit for all sessions together, counts per use, and a cache of
 * freed memory. The cache exists because allocating and freeing GPU memory may take longer than a
 * run of a small model.
 *
 * Owner: the accelerator. Threads: any.
 */
#ifndef RT_DEVICE_MEMORY_H
#define RT_DEVICE_MEMORY_H

#include <stdint.h>

#include "runtime/core/device.h"

enum rt_device_use {
    RT_DEVICE_WEIGHTS, /* constants and packed constants of sessions */
    RT_DEVICE_BLOCKS,
    RT_DEVICE_TENSORS, /* values that leave a region */
    RT_DEVICE_USES
};

struct rt_device_memory {
    void *address; /* NULL if nothing is allocated */
    size_t bytes;  /* number of counted bytes; at least the requested number */
};

/* Allocates memory, aligned to 64 bytes, whose contents are undefined. If the accelerator has too
 * little memory, or the limit is reached, frees the cache and tries once more. Fails with
 * RT_RESOURCE_EXHAUSTED if the second try fails too. `what` names the purpose in the error
 * message. */
enum rt_status rt_device_alloc(struct rt_device *d, enum rt_device_use use, size_t bytes,
                               const char *what, struct rt_device_memory *out,
                               struct rt_error *err);
/* Frees memory that was allocated for `use`, and sets m->address to NULL. Does nothing if
 * m->address is NULL. Work that uses the memory must have ended. Memory of tensors goes to the
 * cache. */
void rt_device_free(struct rt_device *d, enum rt_device_use use, struct rt_device_memory *m);
/* Allocate and free memory for constants of the session whose claim in the ledger is `c`
 * (device_ledger.h). What is allocated leaves the claim's reservation. */
struct rt_device_claim;
enum rt_status rt_device_alloc_constant(struct rt_device *d, struct rt_device_claim *c,
                                        size_t bytes, const char *what,
                                        struct rt_device_memory *out, struct rt_error *err);
void rt_device_free_constant(struct rt_device *d, struct rt_device_claim *c,
                             struct rt_device_memory *m);
/* Frees the memory in the cache, so that other processes can use it. Called when a session ends. */
void rt_device_trim(struct rt_device *d);

struct rt_device_counts {
    int64_t used[RT_DEVICE_USES]; /* bytes in use */
    int64_t cached;
    int64_t limit; /* limit on the sum of the used and the cached bytes */
};
struct rt_device_counts rt_device_counts(struct rt_device *d);
/* Returns how many bytes may still be allocated, by the limit and by what the driver says is free.
 * Asks the driver, which may wait for the accelerator. */
int64_t rt_device_left(struct rt_device *d);
/* Returns whether the limit permits that each stream has a block of `bytes` bytes, beside the
 * weights that are in use now. */
bool rt_device_blocks_fit(struct rt_device *d, size_t bytes);

/* Only device.c calls these functions. rt_device_budget_begin returns false if memory runs out,
 * after freeing what it has made. */
bool rt_device_budget_begin(struct rt_device *d, size_t limit);
void rt_device_budget_end(struct rt_device *d);

#endif
