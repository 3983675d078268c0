#include "runtime/core/schema.h"

#include <string.h>

/* Macros for the rows of table.inc. Compound literals at file scope have static storage, so the
 * table needs no initialisation at startup. */
/* clang-format off */
#define IS(name, type)       {name, type, -1, -1, -1, 0}
#define OF(name, attr)       {name, RT_NO_DTYPE, attr, -1, -1, 0}
#define ARG(...)             {__VA_ARGS__}
#define MUST(name, kind)     {name, kind, 0, 0, 0, 0, 0, 0, 0}
#define HAS(name, kind, def) {name, kind, 1, 0, 0, 0, 0, 0, def}
#define ATTR(...)            {__VA_ARGS__}
#define NONE                 NULL
#define ARGS(...)            (const struct rt_arg_schema[]){__VA_ARGS__}
#define ATTRS(...)           (const struct rt_attr_schema[]){__VA_ARGS__}
#define OP(name, n_in, n_out, n_attr, in, out, attr) {name, in, out, attr, n_in, n_out, n_attr},
/* clang-format on */

static const struct rt_schema table[] = {
#include "runtime/core/schema/table.inc"
};

enum { N_OPS = (int)(sizeof table / sizeof table[0]) };

const struct rt_schema *rt_schema_find(const char *op)
{
    int low = 0, high = N_OPS;
    while (low < high) {
        int mid = low + (high - low) / 2;
        int order = strcmp(op, table[mid].name);
        if (order == 0)
            return &table[mid];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

int rt_schema_attr(const struct rt_schema *s, const char *name)
{
    for (int i = 0; i < s->n_attr; i++)
        if (strcmp(s->attr[i].name, name) == 0)
            return i;
    return -1;
}

int rt_schema_count(void)
{
    return N_OPS;
}

const struct rt_schema *rt_schema_at(int i)
{
    return &table[i];
}
