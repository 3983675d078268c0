/*
 * The bytes that requests hold at a time, against --max_bytes_in_flight: bodies, the tensors made
 * of them, and their answers until these are sent. One rule for every transport: what does not fit
 * beside the others is UNAVAILABLE, and may be asked again; what would not fit if the request were
 * alone is RESOURCE_EXHAUSTED, in a sentence that names the flag.
 *
 * Threads: any.
 */
#ifndef SRV_BUDGET_H
#define SRV_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

struct srv_budget {
    _Atomic int64_t held;
    int64_t limit; /* set before the first request */
};

/* `own` is what one request holds. False: nothing was taken. */
bool srv_budget_take(struct srv_budget *b, size_t *own, size_t bytes);
void srv_budget_give(struct srv_budget *b, size_t *own, size_t bytes);
/* How much more would be given now. */
size_t srv_budget_left(const struct srv_budget *b);

/* Why a request that holds `own` was not given `bytes` more, or at least as many. */
enum rt_status srv_budget_code(const struct srv_budget *b, size_t own, size_t bytes);
/* The same with a sentence about `what`, a singular. */
enum rt_status srv_budget_refused(const struct srv_budget *b, size_t own, size_t bytes,
                                  const char *what, struct rt_error *err);

/* An answer as it grows. The first SRV_FREE_BYTES of each buffer are free: most answers are no
 * larger, and need not touch what all threads share. */
enum { SRV_FREE_BYTES = 4096 };
struct srv_growth {
    struct srv_budget *budget;
    size_t *own;
    size_t refused; /* what was asked for last in vain; 0: nothing was */
};
/* rt_bytes' question; arg: the srv_growth. */
bool srv_growth_take(void *arg, size_t room, size_t wanted);
/* A buffer of `room` bytes is gone. `g` NULL: nobody counts, here and below. */
void srv_growth_give(struct srv_growth *g, size_t room);
/* The buffer could not be had: because it was refused, or for want of memory. */
enum rt_status srv_growth_failed(const struct srv_growth *g, size_t bytes, struct rt_error *err);

#endif
