/*
 * Aliases: tensors that are a ref variable's own buffer. TensorFlow 1 hands out the buffer of such
 * a variable, not a copy, where the variable is read (mostly by one Identity that all readers
 * share), and hands it on through views. Assignments that keep the number of elements, additions
 * and scatters write to that buffer, so whatever reads a view behind them sees what they wrote.
 *
 * Here a buffer that others hold is never written, since readers of other runs may be at work on
 * it: the variable takes a new one. A tensor that was read from a ref variable carries the number
 * of the variable and the storage that it was (rt_tensor.alias_of, rt_tensor.storage), and so do
 * its views. Whoever reads such a tensor calls rt_alias_follow first, which exchanges the buffer
 * for the variable's present one. An assignment of another number of elements gives the variable
 * another storage: what was read before keeps its bytes, as in TensorFlow.
 *
 * Threads: that of the run. Owner: the list is the run's.
 */
#ifndef RT_ALIAS_H
#define RT_ALIAS_H

#include "runtime/session/resource.h"

/* The ref variables that a run which may write such variables has read. */
struct rt_aliases {
    struct rt_variable **variable; /* number k + 1 is variable[k]; each has a reference */
    int n, capacity;
    bool is_needed; /* the run writes; else nothing is ever listed */
};

/* rt_variable_read of a ref variable: *out is an alias if aliases are needed. */
enum rt_status rt_alias_read(struct rt_aliases *a, struct rt_variable *v, struct rt_tensor *out,
                             struct rt_error *err);
void rt_alias_update(const struct rt_aliases *a, struct rt_tensor *t);
/* *t, which the caller owns, gets the bytes that its variable has now. */
static inline void rt_alias_follow(const struct rt_aliases *a, struct rt_tensor *t)
{
    if (t->alias_of)
        rt_alias_update(a, t);
}
void rt_aliases_clear(struct rt_aliases *a);

#endif
