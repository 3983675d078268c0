#include "runtime/session/account.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/core/pool.h"

struct rt_account {
    struct rt_budget *budget;
    size_t estimate;
    atomic_size_t taken; /* number of bytes that the account has taken from the budget */
    atomic_bool serves, was_refused;
};

struct rt_account *rt_account_new(struct rt_budget *budget, size_t estimate)
{
    struct rt_account *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->budget = budget;
    a->estimate = estimate;
    atomic_init(&a->taken, estimate);
    return a;
}

void rt_account_free(struct rt_account *a)
{
    if (a)
        rt_budget_give(a->budget, atomic_load(&a->taken));
    free(a);
}

/* Takes bytes from the budget. Once the model is served, the budget's limit does not apply. */
static bool take(struct rt_account *a, size_t bytes)
{
    if (!atomic_load(&a->serves))
        return rt_budget_take(a->budget, bytes);
    atomic_fetch_add(&a->budget->used, bytes);
    return true;
}

enum rt_status rt_account_follow(struct rt_account *a, size_t held, struct rt_error *err)
{
    const size_t want = held > a->estimate ? held : a->estimate;
    size_t taken = atomic_load(&a->taken);

    while (want != taken) {
        const size_t more = want > taken ? want - taken : 0;
        if (more && !take(a, more)) {
            const size_t used = atomic_load(&a->budget->used);
            atomic_store(&a->was_refused, true);
            return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                           "it holds %zu bytes already, others hold %zu of "
                           "--total_model_memory_limit_bytes=%zu",
                           held, used > taken ? used - taken : 0, a->budget->limit);
        }
        const size_t before = taken;
        if (atomic_compare_exchange_weak(&a->taken, &taken, want)) {
            rt_budget_give(a->budget, before > want ? before - want : 0);
            break;
        }
        rt_budget_give(a->budget, more);
    }
    return RT_OK;
}

void rt_account_serve(struct rt_account *a)
{
    atomic_store(&a->serves, true);
}

size_t rt_account_limit(const struct rt_account *a)
{
    const size_t used = atomic_load(&a->budget->used), limit = a->budget->limit;
    const size_t taken = atomic_load(&a->taken);
    return taken + (limit > used ? limit - used : 0);
}

size_t rt_account_taken(const struct rt_account *a)
{
    return atomic_load(&a->taken);
}

bool rt_account_was_refused(const struct rt_account *a)
{
    return atomic_load(&a->was_refused);
}
