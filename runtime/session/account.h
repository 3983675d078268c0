/*
 * An account is the part of a memory budget that one model occupies. The budget is shared by all
 * models. An account begins with the estimate that admitted the model, and follows the bytes that
 * the model's session holds (rt_session_held) whenever these exceed the estimate.
 *
 * While a model is loaded, its account may not exceed the budget. While it is served, the account
 * may: what requests leave in a model has limits of its own, and the bytes then count against the
 * models that are loaded later.
 *
 * Owner: the loader of a model, which frees the account after the session. Threads: any.
 */
#ifndef RT_ACCOUNT_H
#define RT_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

struct rt_account;
struct rt_budget;

/* Makes an account of `estimate` bytes that the caller has taken from the budget. Returns NULL if
 * memory runs out; the bytes are then still the caller's. */
struct rt_account *rt_account_new(struct rt_budget *budget, size_t estimate);
/* Returns the account's bytes to the budget. `a` may be NULL. */
void rt_account_free(struct rt_account *a);
/* Makes the account occupy `held` bytes, or its estimate if that is more. Fails only while the
 * model is loaded, with RT_RESOURCE_EXHAUSTED if the budget has too few bytes left. */
enum rt_status rt_account_follow(struct rt_account *a, size_t held, struct rt_error *err);
/* Ends loading, after which rt_account_follow never fails. */
void rt_account_serve(struct rt_account *a);
/* Returns the number of bytes that the account may occupy at this time. */
size_t rt_account_limit(const struct rt_account *a);
/* Returns the number of bytes that the account occupies. */
size_t rt_account_taken(const struct rt_account *a);
/* Returns whether rt_account_follow has failed. */
bool rt_account_was_refused(const struct rt_account *a);

#endif
