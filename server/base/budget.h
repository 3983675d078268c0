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

#include "runtime/base/bytes.h"
#include "server/base/cancellation.h"

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

/* A message that is written as an answer. SRV_FREE_BYTES of it are free: most answers are no
 * larger, and need not touch what all threads share. SRV_MESSAGE_MOST is protobuf's limit. */
enum { SRV_FREE_BYTES = 4096, SRV_MESSAGE_MOST = INT32_MAX };
struct srv_growth {
    struct srv_budget *budget;
    size_t *own;
    struct srv_cancellation cancellation;
};
/* `g` NULL: nobody counts, here and below, and the answer is wanted in any case. */
static inline struct srv_cancellation *srv_growth_cancellation(struct srv_growth *g)
{
    return g ? &g->cancellation : NULL;
}
/* Takes the budget for a message of so many bytes. Refused: one that is not wanted any more, one of
 * more than SRV_MESSAGE_MOST (its size need not be exact then), one that the budget has not. */
enum rt_status srv_growth_take(struct srv_growth *g, size_t bytes, struct rt_error *err);
/* Why a message that was to be written is not there: it is not wanted any more, or for want of
 * memory. */
enum rt_status srv_growth_failed(const struct srv_growth *g, size_t bytes, struct rt_error *err);
/* The same for a message that is put into a buffer: room for all of it, or `b` is empty. */
enum rt_status srv_growth_open(struct srv_growth *g, struct rt_bytes *b, size_t bytes,
                               struct rt_error *err);
/* The message, from malloc; `b` is empty then. */
enum rt_status srv_growth_close(const struct srv_growth *g, struct rt_bytes *b, unsigned char **out,
                                size_t *n, struct rt_error *err);

#endif
