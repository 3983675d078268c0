#include "runtime/exec/alias.h"

#include <stdlib.h>

/* Returns the number of variable `v` in the list, starting at 1. Adds the variable if it is new.
 * Returns 0 if memory runs out or the list holds UINT16_MAX variables. */
static uint16_t number_of(struct rt_aliases *a, struct rt_variable *v)
{
    for (int k = a->n; k > 0; k--)
        if (a->variable[k - 1] == v)
            return (uint16_t)k;
    if (a->n == UINT16_MAX)
        return 0;
    if (a->n == a->capacity) {
        const int capacity = a->capacity ? a->capacity * 2 : 8;
        struct rt_variable **more = realloc(a->variable, (size_t)capacity * sizeof(*more));
        if (!more)
            return 0;
        a->variable = more;
        a->capacity = capacity;
    }
    rt_object_ref((struct rt_object *)v);
    a->variable[a->n++] = v;
    return (uint16_t)a->n;
}

enum rt_status rt_alias_read(struct rt_aliases *a, struct rt_variable *v, struct rt_tensor *out,
                             const struct rt_check *check, struct rt_error *err)
{
    const enum rt_status st = rt_variable_read(v, true, out, check, err);
    if (st || !a->is_needed)
        return st;
    out->alias_of = number_of(a, v);
    if (out->alias_of)
        return RT_OK;
    rt_tensor_clear(out);
    return rt_fail_memory(err, "a run", (size_t)a->n * sizeof(*a->variable));
}

void rt_alias_update(const struct rt_aliases *a, struct rt_tensor *t)
{
    rt_variable_follow(a->variable[t->alias_of - 1], t);
}

void rt_aliases_clear(struct rt_aliases *a)
{
    for (int k = 0; k < a->n; k++)
        rt_object_unref((struct rt_object *)a->variable[k]);
    free(a->variable);
    *a = (struct rt_aliases){0};
}
