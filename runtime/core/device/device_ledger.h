/*
 * The ledger of an accelerator's memory: how many bytes each session has reserved for its constants
 * but not allocated yet, and which memory of ending sessions is promised to which load. A
 * reservation binds only other reservations. Memory of runs, and constants of shapes that a served
 * session compiles later, are not refused because of one.
 *
 * A load that replaces versions may need memory that these versions still hold. Each of them
 * promises its memory to one load. What an ending session frees becomes part of the reservation of
 * the session to which it is promised, so that no third session takes it.
 *
 * Owner: each session has a claim for each of its accelerators. Threads: any.
 */
#ifndef RT_DEVICE_LEDGER_H
#define RT_DEVICE_LEDGER_H

#include "runtime/core/device/device_memory.h"

/* A session's entry in the ledger. Zero before rt_device_reserve. The ledger's lock guards all
 * members. */
struct rt_device_claim {
    struct rt_device_claim *next;
    bool is_listed;
    uint64_t load;    /* number of the load that made the session, or 0 */
    int64_t reserved; /* bytes that are reserved and not allocated yet */
    int64_t missing;  /* bytes that are to be reserved as soon as they are free */
    bool has_ended;   /* whether the load has ended while bytes were missing */
    uint64_t heir;    /* number of the load to which memory is promised, or 0 */
    int64_t promised; /* promised bytes that have not been freed yet */
};

/*
 * Reserves `bytes` bytes for the session that load `load` makes. Fails with RT_RESOURCE_EXHAUSTED
 * if they are not left. If they will be left when the memory that is promised to the load is freed,
 * sets *waits and reserves all but the promised bytes, which the claim then misses. Asks the
 * driver, which may wait for the accelerator.
 */
enum rt_status rt_device_reserve(struct rt_device *d, struct rt_device_claim *c, uint64_t load,
                                 int64_t bytes, bool *waits, struct rt_error *err);
/* Returns whether all bytes of the claim are reserved or allocated. Tries to reserve the missing
 * bytes. Asks the driver only if bytes are missing. */
bool rt_device_claim_is_complete(struct rt_device *d, struct rt_device_claim *c);
/* Gives back what is reserved and not allocated, unless bytes are missing. */
void rt_device_release(struct rt_device *d, struct rt_device_claim *c);
/* Removes the claim from the ledger, with all that is reserved for it. What is promised to its load
 * stays promised until the load has ended, because the load may begin again. */
void rt_device_claim_end(struct rt_device *d, struct rt_device_claim *c);

/* Promises `bytes` bytes that the claim's session holds to a load, unless they are promised
 * already. */
void rt_device_promise(struct rt_device *d, struct rt_device_claim *c, int64_t bytes,
                       uint64_t load);
/* Withdraws what is promised to the load, unless its session waits for the memory. Called when the
 * load has ended. */
void rt_device_end_promises(struct rt_device *d, uint64_t load);

#endif
