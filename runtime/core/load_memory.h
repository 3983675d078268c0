/*
 * The part of a budget that loads may use. All pools of a budget that count as a load's together
 * reserve at most `limit / RT_LOAD_PART` of its bytes. Loads that hold much memory, for example in
 * their initialisation, thus cannot make served models refuse requests. A session that has the
 * budget to itself may use all of it.
 *
 * Threads: any.
 */
#ifndef RT_LOAD_MEMORY_H
#define RT_LOAD_MEMORY_H

#include <stdbool.h>

struct rt_pool;

enum { RT_LOAD_PART = 2 };

/* Makes the pool, which must share a budget, count as a load's, or no longer. What the pool has
 * reserved is kept, although the limit may then be exceeded. */
void rt_pool_count_as_load(struct rt_pool *p, bool yes);

#endif
