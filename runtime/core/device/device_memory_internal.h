/*
 * The account of an accelerator's memory, which device_memory.c and device_ledger.c share.
 *
 * Owner: the accelerator. Threads: any.
 */
#ifndef RT_DEVICE_MEMORY_INTERNAL_H
#define RT_DEVICE_MEMORY_INTERNAL_H

#include "runtime/base/thread.h"
#include "runtime/core/device/device_ledger.h"

enum {
    LEAST_BITS = 9, /* The smallest allocation for a tensor has 2^LEAST_BITS bytes. */
    /* Sizes between two powers of two are rounded up to one of STEPS equal steps. */
    STEPS_BITS = 2,
    STEPS = 1 << STEPS_BITS,
    N_CLASSES = (64 - LEAST_BITS) * STEPS,
};

struct cached {
    struct cached *next;
    void *address;
};

struct rt_device_budget {
    struct rt_mutex mu;
    struct rt_device_counts counts;
    struct cached *cached[N_CLASSES]; /* freed memory, by size class */
    struct rt_device_claim *claims;   /* the ledger; guarded by mu */
    /* Held by a thread that makes a reservation, while it asks the driver how much is free. */
    struct rt_mutex reserving;
};

/* Takes `bytes` bytes, or as many as there are, from the claim's reservation. Returns how many. */
int64_t rt_device_claim_take(struct rt_device_budget *b, struct rt_device_claim *c, size_t bytes)
    RT_REQUIRES(b->mu);
/* Adds bytes that the claim's session has freed to the reservation of the session to which they are
 * promised. */
void rt_device_claim_freed(struct rt_device_budget *b, struct rt_device_claim *c, size_t bytes)
    RT_REQUIRES(b->mu);

#endif
