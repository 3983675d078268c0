#include "runtime/core/graph.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/map.h"

const struct rt_node *rt_graph_find(const struct rt_graph *g, const char *name)
{
    return rt_map_get(g->by_name, name);
}

/* Parses a string of decimal digits. Returns -1 if the string is empty, has other characters, or
 * exceeds INT32_MAX. */
static int parse_index(const char *s)
{
    int64_t v = 0;
    if (!*s)
        return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return -1;
        v = v * 10 + (*s - '0');
        if (v > INT32_MAX)
            return -1;
    }
    return (int)v;
}

enum rt_status rt_graph_tensor(const struct rt_graph *g, const char *text, struct rt_edge *out,
                               struct rt_error *err)
{
    bool is_ctrl = text[0] == '^';
    const char *name = text + is_ctrl;
    const char *colon = strrchr(name, ':');
    size_t n = strlen(name);
    int index = is_ctrl ? -1 : 0;
    if (colon && !is_ctrl) {
        index = parse_index(colon + 1);
        n = (size_t)(colon - name);
        if (index < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "\"%s\" is no tensor name: after ':' stands the number of an output",
                           text);
    }
    const struct rt_node *node = rt_map_getn(g->by_name, name, n);
    if (!node)
        return rt_fail(err, RT_NOT_FOUND, "\"%s\": the graph has no node \"%.*s\"", text, (int)n,
                       name);
    if (index >= node->n_out)
        return rt_fail(err, RT_INVALID_ARGUMENT, "\"%s\": node \"%s\" of op %s has %d outputs",
                       text, node->name, node->schema->name, node->n_out);
    *out = (struct rt_edge){node->id, index};
    return RT_OK;
}

const struct rt_attr *rt_attr(const struct rt_node *n, const char *name)
{
    int i = rt_schema_attr(n->schema, name);
    return i < 0 ? NULL : &n->attr[i];
}

static const struct rt_attr *get(const struct rt_node *n, const char *name, int type)
{
    const struct rt_attr *a = rt_attr(n, name);
    assert(a && a->type == type);
    return a;
}

int64_t rt_attr_int(const struct rt_node *n, const char *name)
{
    return get(n, name, RT_ATTR_INT)->v.i;
}

float rt_attr_float(const struct rt_node *n, const char *name)
{
    return get(n, name, RT_ATTR_FLOAT)->v.f;
}

bool rt_attr_bool(const struct rt_node *n, const char *name)
{
    return get(n, name, RT_ATTR_BOOL)->v.b;
}

enum rt_dtype rt_attr_dtype(const struct rt_node *n, const char *name)
{
    return get(n, name, RT_ATTR_TYPE)->v.t;
}

struct rt_span rt_attr_str(const struct rt_node *n, const char *name)
{
    const struct rt_attr *a = get(n, name, RT_ATTR_STRING);
    return rt_span_of(a->v.s, a->n);
}

const struct rt_shape *rt_attr_shape(const struct rt_node *n, const char *name)
{
    return get(n, name, RT_ATTR_SHAPE)->v.shape;
}

size_t rt_attr_ints(const struct rt_node *n, const char *name, const int64_t **v)
{
    const struct rt_attr *a = get(n, name, RT_ATTR_LIST + RT_ATTR_INT);
    *v = a->v.ints;
    return a->n;
}

const struct rt_func_ref *rt_attr_func(const struct rt_node *n, const char *name)
{
    return get(n, name, RT_ATTR_FUNC)->v.func;
}

struct rt_args rt_in_arg(const struct rt_node *n, int schema_arg)
{
    assert(schema_arg >= 0 && schema_arg < n->schema->n_in);
    int first = n->in_first[schema_arg];
    return (struct rt_args){first, n->in_first[schema_arg + 1] - first};
}
