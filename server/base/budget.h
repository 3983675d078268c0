/*
 * The budget of bytes in flight. All requests together may never hold more than
 * --max_bytes_in_flight bytes. The budget counts request bodies, the tensors decoded from them, and
 * responses until they are sent. The rules are the same for every transport. Bytes that do not fit
 * because of other requests are refused with UNAVAILABLE, and the client may retry. Bytes that
 * would not fit even if the request were the only one are refused with RESOURCE_EXHAUSTED and an
 * error text that names the flag.
 *
 * Threads: any thread may call these functions.
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
    /* maximum of `held` in bytes; set before the first request and constant afterwards */
    int64_t limit;
};

/* Charges `bytes` to the budget and adds them to *own, the number of bytes that one request holds.
 * Returns false and charges nothing if the budget has too few bytes left. */
bool srv_budget_take(struct srv_budget *b, size_t *own, size_t bytes);
void srv_budget_give(struct srv_budget *b, size_t *own, size_t bytes);
/* Returns how many bytes of the budget are free. */
size_t srv_budget_left(const struct srv_budget *b);

/* Returns the status code to use when at least `bytes` more could not be charged for a request that
 * already holds `own` bytes. */
enum rt_status srv_budget_code(const struct srv_budget *b, size_t own, size_t bytes);
/* Like srv_budget_code, but also writes an error text about `what`, a noun in the singular. */
enum rt_status srv_budget_refused(const struct srv_budget *b, size_t own, size_t bytes,
                                  const char *what, struct rt_error *err);

/* Accounts for a response message that grows while it is written. The first SRV_FREE_BYTES bytes
 * are not counted. Most responses are not larger and therefore need no access to the budget, which
 * all threads share. SRV_MESSAGE_MOST is protobuf's size limit. */
enum { SRV_FREE_BYTES = 4096, SRV_MESSAGE_MOST = INT32_MAX };
struct srv_growth {
    struct srv_budget *budget;
    size_t *own;
    struct srv_cancellation cancellation;
};
/* The argument `g` of the srv_growth_* functions may be NULL. In that case nothing is counted,
 * and the response cannot be cancelled. */
static inline struct srv_cancellation *srv_growth_cancellation(struct srv_growth *g)
{
    return g ? &g->cancellation : NULL;
}
/* Charges `bytes` to the budget for a message. Fails if the response is cancelled or expired, if
 * the message exceeds SRV_MESSAGE_MOST bytes (`bytes` may be inexact in this case), or if the
 * budget has too few bytes left. */
enum rt_status srv_growth_take(struct srv_growth *g, size_t bytes, struct rt_error *err);
/* Returns why a message of `bytes` bytes could not be written: the response was cancelled or has
 * expired, or memory ran out. */
enum rt_status srv_growth_failed(const struct srv_growth *g, size_t bytes, struct rt_error *err);
/* Like srv_growth_take, for a message that is written into a buffer: reserves `bytes` in `b` on
 * success, and leaves `b` empty on failure. */
enum rt_status srv_growth_open(struct srv_growth *g, struct rt_bytes *b, size_t bytes,
                               struct rt_error *err);
/* Returns a completed message in *out, allocated by malloc, and leaves `b` empty. */
enum rt_status srv_growth_close(const struct srv_growth *g, struct rt_bytes *b, unsigned char **out,
                                size_t *n, struct rt_error *err);

#endif
