/*
 * The budget for the bytes in flight. All requests together may hold at most --max_bytes_in_flight
 * bytes. The budget counts request bodies, the tensors decoded from them, and responses until they
 * are sent. The rules are the same for every transport. A charge that does not fit because of other
 * requests is refused with UNAVAILABLE, and the client may retry. A charge that would not fit even
 * without other requests is refused with RESOURCE_EXHAUSTED, and the error message names the flag.
 *
 * A sixteenth of the budget is a reserve for small requests, which hold at most SRV_SMALL_BYTES.
 * Without the reserve, a few clients that do not read large responses could occupy the entire
 * budget. The server would then refuse all other requests until it cuts these clients off. A budget
 * of less than 16 MiB has no reserve.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_BUDGET_H
#define SRV_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "server/base/cancellation.h"

enum { SRV_SMALL_BYTES = 64 << 10 };

struct srv_budget {
    _Atomic int64_t held;
    /* maximum value of `held` in bytes; constant after the first request */
    int64_t limit;
};

/* Charges `bytes` to the budget and adds them to *own, the number of bytes that one request holds.
 * Returns false and charges nothing if the budget has too few bytes left. */
bool srv_budget_take(struct srv_budget *b, size_t *own, size_t bytes);
void srv_budget_give(struct srv_budget *b, size_t *own, size_t bytes);
/* Returns how many bytes a request may take if it holds no bytes yet. */
size_t srv_budget_left(const struct srv_budget *b);

/*
 * The memory that the decoders of one request, or the writers of its response, may take. A decoder
 * calls srv_allowance_take before it allocates, so that requests decoded at the same time cannot
 * together hold more than the budget allows.
 */
struct srv_allowance {
    size_t left;               /* number of bytes that may still be taken */
    struct srv_budget *budget; /* the budget that is charged, or NULL */
    size_t *own;               /* number of bytes that the request holds; unused without a budget */
    const char *what;          /* names the bytes in error messages, as in srv_budget_refused */
    size_t taken;              /* number of bytes that were taken */
    size_t charged;            /* number of bytes charged to the budget: at least `taken` */
};
/* Takes `bytes` bytes, which must not exceed allowance->left. Charges the budget in steps of up to
 * SRV_SMALL_BYTES bytes, so that taking a few bytes often needs few accesses to the budget. */
enum rt_status srv_allowance_take(struct srv_allowance *allowance, size_t bytes,
                                  struct rt_error *err);
/* Gives back `bytes` of the bytes that were taken. */
void srv_allowance_give(struct srv_allowance *allowance, size_t bytes);
/* Corrects the number of taken bytes to `bytes`, the number of bytes that are in use, and charges
 * the budget for exactly these. */
enum rt_status srv_allowance_settle(struct srv_allowance *allowance, size_t bytes,
                                    struct rt_error *err);

/* Returns the status of a refused charge of at least `bytes` bytes. The request already holds `own`
 * bytes. */
enum rt_status srv_budget_code(const struct srv_budget *b, size_t own, size_t bytes);
/* Like srv_budget_code, but also sets the error message. `what` is a singular noun phrase that
 * describes the bytes. */
enum rt_status srv_budget_refused(const struct srv_budget *b, size_t own, size_t bytes,
                                  const char *what, struct rt_error *err);

/* Returns `code`, the status of a failed step. If the step failed because the request's arena
 * reached its limit of `limit` bytes, the error message then names the limit. `what` names the
 * requests with this limit. */
enum rt_status srv_name_arena_limit(struct rt_arena *arena, size_t limit, const char *what,
                                    enum rt_status code, struct rt_error *err);

/* Charges a response message that grows while it is written. The first SRV_FREE_BYTES bytes are
 * free, so most responses need no access to the budget, which all threads share. SRV_MESSAGE_MOST
 * is protobuf's size limit. */
enum { SRV_FREE_BYTES = 4096, SRV_MESSAGE_MOST = INT32_MAX };
struct srv_growth {
    struct srv_budget *budget;
    size_t *own;
    struct srv_cancellation cancellation;
};
/* The argument `g` of the srv_growth_* functions may be NULL. Nothing is then charged, and the
 * response cannot be cancelled. */
static inline struct srv_cancellation *srv_growth_cancellation(struct srv_growth *g)
{
    return g ? &g->cancellation : NULL;
}
/* Charges the `bytes` bytes of a message to the budget. Fails if the response was cancelled or its
 * deadline has passed, if the message is longer than SRV_MESSAGE_MOST bytes, or if the budget has
 * too few bytes left. A size above SRV_MESSAGE_MOST may be inexact. */
enum rt_status srv_growth_take(struct srv_growth *g, size_t bytes, struct rt_error *err);
/* Returns why a message of `bytes` bytes could not be written: because the response was cancelled
 * or has expired, or because memory ran out. */
enum rt_status srv_growth_failed(const struct srv_growth *g, size_t bytes, struct rt_error *err);
/* Like srv_growth_take, but also reserves `bytes` bytes in the buffer `b`. After a failure, `b` is
 * empty. */
enum rt_status srv_growth_open(struct srv_growth *g, struct rt_bytes *b, size_t bytes,
                               struct rt_error *err);
/* Moves the completed message from `b` to *out, which is allocated by malloc. */
enum rt_status srv_growth_close(const struct srv_growth *g, struct rt_bytes *b, unsigned char **out,
                                size_t *n, struct rt_error *err);

#endif
