/*
 * An account is the part of a memory budget that one model occupies. All models share the budget.
 * At first, an account occupies the estimate with which the model was admitted. Whenever the
 * model's session holds more bytes than the estimate (rt_session_held), the account occupies the
 * bytes that the session holds.
 *
 * While a model is being loaded, its account may not exceed the budget. Once the model is served,
 * its account may exceed the budget, because separate limits apply to the memory that requests
 * leave in a model. The additional bytes reduce the memory for models that are loaded later.
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

/* Makes an account of `estimate` bytes, which the caller must have taken from the budget. Returns
 * NULL if memory runs out; the caller must then return the bytes to the budget. */
struct rt_account *rt_account_new(struct rt_budget *budget, size_t estimate);
/* Returns the account's bytes to the budget. `a` may be NULL. */
void rt_account_free(struct rt_account *a);
/* Makes the account occupy `held` bytes, or its estimate if that is larger. Fails only during
 * loading, with RT_RESOURCE_EXHAUSTED if the budget has too few bytes left. */
enum rt_status rt_account_follow(struct rt_account *a, size_t held, struct rt_error *err);
/* Must be called when loading ends. From then on, rt_account_follow never fails. */
void rt_account_serve(struct rt_account *a);
/* Returns the largest number of bytes that the account may currently occupy. */
size_t rt_account_limit(const struct rt_account *a);
size_t rt_account_taken(const struct rt_account *a);
bool rt_account_was_refused(const struct rt_account *a);

#endif
