/*
 * Aliases are tensors that share a ref variable's own buffer. When a TensorFlow 1 graph reads a ref
 * variable, TensorFlow returns the variable's buffer, not a copy. Views share that buffer.
 * Assignments that keep the number of elements, additions and scatters write to the buffer, so a
 * node that reads a view after such a write sees the written bytes.
 *
 * Slipway never writes to a buffer that has other references, because other runs may be reading it;
 * the variable gets a new buffer instead. A tensor that was read from a ref variable, and each view
 * of it, carries the number of the variable and the variable's storage number at that time
 * (rt_tensor.alias_of, rt_tensor.storage). Code that reads the tensor first calls rt_alias_follow,
 * which replaces the tensor's buffer with the variable's current buffer. An assignment that changes
 * the number of elements gives the variable a new storage number. Tensors that were read before the
 * assignment then keep their bytes, as in TensorFlow.
 *
 * Threads: the thread of the run. Owner: the run owns its list of ref variables.
 */
#ifndef RT_ALIAS_H
#define RT_ALIAS_H

#include "runtime/session/resource.h"

struct rt_aliases {
    /* `alias_of == k + 1` refers to `variable[k]`; the list holds a reference to each variable */
    struct rt_variable **variable;
    int n, capacity;
    bool is_needed; /* whether the run writes ref variables; if not, `variable` stays empty */
};

/* Reads a ref variable as rt_variable_read does. If the run writes ref variables, *out is an alias
 * of the variable. */
enum rt_status rt_alias_read(struct rt_aliases *a, struct rt_variable *v, struct rt_tensor *out,
                             const struct rt_check *check, struct rt_error *err);
void rt_alias_update(const struct rt_aliases *a, struct rt_tensor *t);
/* If *t is an alias, replaces its buffer with the current buffer of the variable. The caller owns
 * *t. */
static inline void rt_alias_follow(const struct rt_aliases *a, struct rt_tensor *t)
{
    if (t->alias_of)
        rt_alias_update(a, t);
}
void rt_aliases_clear(struct rt_aliases *a);

#endif
