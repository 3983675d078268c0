/*
 * Fused ops: ops that no file may name. A pass of runtime/fusion puts them into a plan, a kernel
 * runs them, and a header of their own in runtime/fusion, which both include, is all that the two
 * share. It lists the op's inputs, outputs and attributes once:
 *
 *     #define RT_SCALE_INPUTS(IN, op)                                                            \
 *         IN(op, X, x, ONE)                                                                      \
 *         IN(op, BY, by, ONE)                                                                    \
 *         IN(op, OFFSET, offset, OPTIONAL)
 *     #define RT_SCALE_OUTPUTS(OUT) OUT(y)
 *     #define RT_SCALE_ATTRS(ATTR)                                                               \
 *         ATTR(INT, axis)                                                                        \
 *         ATTR(BOOL, divides)
 *     RT_FUSED_OP(RT_SCALE, rt_scale, "_Scale")
 *
 * RT_FUSED_OP makes of these lists:
 *
 *     RT_SCALE_X, RT_SCALE_BY, RT_SCALE_OFFSET, RT_SCALE_N_IN    the inputs' places
 *     struct rt_scale        a field for each attribute, and `in`: which input of the node each of
 *                            the op's inputs is; -1: an OPTIONAL one that this node does not have
 *     rt_scale_schema        what the kernel's rt_op.own points to
 *     rt_scale_read(n, &s)   fills struct rt_scale from a node
 *     rt_scale_op(&s)        the other way: what pl_put_fused (runtime/ir/rewrite.h) makes a node
 *                            of; it ignores `in`, which follows from the edges it is given
 *
 * The pass:
 *
 *     const struct pl_edge in[RT_SCALE_N_IN] = {
 *         [RT_SCALE_X] = x, [RT_SCALE_BY] = by, [RT_SCALE_OFFSET] = pl_no_edge};
 *     const struct rt_scale scale = {.axis = 1, .divides = true};
 *     st = pl_put_fused(g, node, n, rt_scale_op(&scale), in, RT_SCALE_N_IN, err);
 *
 * The kernel:
 *
 *     struct rt_scale s;
 *     rt_scale_read(p->node, &s);
 *     const float *offset = s.in.offset < 0 ? NULL : r->in[s.in.offset].data;
 *
 *     .op = {.name = "_Scale", .infer = infer, .rows = rows, .own = &rt_scale_schema}
 *
 * A name that only one side knows does not compile. An op whose schema is not that of its name is
 * refused when it is registered, and pl_put_fused refuses one that a kernel has registered with
 * another schema than the pass's header has.
 *
 * Kinds of inputs:
 *     ONE        is always there
 *     OPTIONAL   may be left out; those behind it move up
 *     LIST       as many as there are, perhaps none; only the last
 * Kinds of attributes, and their fields:
 *     INT int64_t, FLOAT float, BOOL bool, ENUM int (an enumeration that stands in the header)
 *     STRING const char *, which must live as long as the plan: pl_keep_text
 *     INTS struct rt_ints, likewise
 * All outputs are float32. Inputs may have any type.
 */
#ifndef RT_FUSED_OP_H
#define RT_FUSED_OP_H

#include <assert.h>
#include <string.h>

#include "runtime/core/graph.h"

struct rt_ints {
    size_t n;
    const int64_t *v;
};

enum {
    RT_FUSED_MOST_ATTRS = 24,
    RT_FUSED_MOST_INPUTS = 64, /* of a node, a list's included */
};

/* What a pass asks for. The schema's last attribute, "inputs", has a bit for each of the op's
 * inputs that is there; pl_put_fused sets it. */
struct rt_fused_op {
    const struct rt_schema *schema;
    struct rt_attr attr[RT_FUSED_MOST_ATTRS]; /* by the schema's index */
    uint64_t optional;                        /* bit k: input k may be left out */
    bool has_list;                            /* the last input is a list */
};

/* ---- kinds of attributes: field, schema, and both directions ---- */

#define RT_FUSED_FIELD_INT    int64_t
#define RT_FUSED_FIELD_ENUM   int
#define RT_FUSED_FIELD_FLOAT  float
#define RT_FUSED_FIELD_BOOL   bool
#define RT_FUSED_FIELD_STRING const char *
#define RT_FUSED_FIELD_INTS   struct rt_ints

#define RT_FUSED_TYPE_INT    RT_ATTR_INT
#define RT_FUSED_TYPE_ENUM   RT_ATTR_INT
#define RT_FUSED_TYPE_FLOAT  RT_ATTR_FLOAT
#define RT_FUSED_TYPE_BOOL   RT_ATTR_BOOL
#define RT_FUSED_TYPE_STRING RT_ATTR_STRING
#define RT_FUSED_TYPE_INTS   (RT_ATTR_INT | RT_ATTR_LIST)

/* The attribute at this place, which the generated reader knows; that it is the one of this name
 * and type holds unless the node was made without pl_put_fused. */
static inline const struct rt_attr *rt_fused_attr(const struct rt_node *n, int at, const char *name,
                                                  int type)
{
    assert(at < n->schema->n_attr && strcmp(n->schema->attr[at].name, name) == 0 &&
           n->attr[at].type == type);
    return &n->attr[at];
}

static inline int64_t rt_fused_get_INT(const struct rt_attr *a)
{
    return a->v.i;
}
static inline int rt_fused_get_ENUM(const struct rt_attr *a)
{
    return (int)a->v.i;
}
static inline float rt_fused_get_FLOAT(const struct rt_attr *a)
{
    return a->v.f;
}
static inline bool rt_fused_get_BOOL(const struct rt_attr *a)
{
    return a->v.b;
}
static inline const char *rt_fused_get_STRING(const struct rt_attr *a)
{
    return a->v.s;
}
static inline struct rt_ints rt_fused_get_INTS(const struct rt_attr *a)
{
    return (struct rt_ints){a->n, a->v.ints};
}

static inline struct rt_attr rt_fused_of_INT(int64_t v)
{
    return (struct rt_attr){.type = RT_ATTR_INT, .v.i = v};
}
static inline struct rt_attr rt_fused_of_ENUM(int v)
{
    return rt_fused_of_INT(v);
}
static inline struct rt_attr rt_fused_of_FLOAT(float v)
{
    return (struct rt_attr){.type = RT_ATTR_FLOAT, .v.f = v};
}
static inline struct rt_attr rt_fused_of_BOOL(bool v)
{
    return (struct rt_attr){.type = RT_ATTR_BOOL, .v.b = v};
}
static inline struct rt_attr rt_fused_of_STRING(const char *v)
{
    v = v ? v : "";
    return (struct rt_attr){.type = RT_ATTR_STRING, .n = strlen(v), .v.s = v};
}
static inline struct rt_attr rt_fused_of_INTS(struct rt_ints v)
{
    return (struct rt_attr){.type = RT_ATTR_INT | RT_ATTR_LIST, .n = v.n, .v.ints = v.v};
}

/* ---- what RT_FUSED_OP makes of each row ---- */
/* clang-format off */

#define RT_FUSED_BIT_ONE       0
#define RT_FUSED_BIT_OPTIONAL  1
#define RT_FUSED_BIT_LIST      0
#define RT_FUSED_LIST_ONE      0
#define RT_FUSED_LIST_OPTIONAL 0
#define RT_FUSED_LIST_LIST     1

#define RT_FUSED_PLACE(op, ID, name, kind)    op##_##ID,
#define RT_FUSED_INDEX(op, ID, name, kind)    int name;
#define RT_FUSED_ARG(op, ID, name_, kind)     RT_FUSED_OUT(name_)
#define RT_FUSED_OUT(name_)                                                                        \
    {.name = #name_, .type_attr = -1, .number_attr = -1, .list_attr = -1},
#define RT_FUSED_FIELD(kind, name)            RT_FUSED_FIELD_##kind name;
#define RT_FUSED_ATTR(kind, name_)            {.name = #name_, .type = RT_FUSED_TYPE_##kind},
#define RT_FUSED_OPTIONAL(op, ID, name, kind) | (uint64_t)RT_FUSED_BIT_##kind << op##_##ID
#define RT_FUSED_HAS_LIST(op, ID, name, kind) || RT_FUSED_LIST_##kind
#define RT_FUSED_READ(kind, name)                                                                  \
    out->name = rt_fused_get_##kind(rt_fused_attr(n, at++, #name, RT_FUSED_TYPE_##kind));
#define RT_FUSED_FIND(op, ID, name, kind) out->in.name = there >> op##_##ID & 1 ? input++ : -1;
#define RT_FUSED_SET(kind, name)          op.attr[at++] = rt_fused_of_##kind(of->name);
/* clang-format on */

#define RT_FUSED_OP(ID, id, op_name)                                                               \
    enum { ID##_INPUTS(RT_FUSED_PLACE, ID) ID##_N_IN };                                            \
    struct id {                                                                                    \
        ID##_ATTRS(RT_FUSED_FIELD) struct {                                                        \
            ID##_INPUTS(RT_FUSED_INDEX, ID)                                                        \
        } in;                                                                                      \
    };                                                                                             \
    static const struct rt_arg_schema id##_ins[] = {ID##_INPUTS(RT_FUSED_ARG, ID)};                \
    static const struct rt_arg_schema id##_outs[] = {ID##_OUTPUTS(RT_FUSED_OUT)};                  \
    static const struct rt_attr_schema id##_attrs[] = {                                            \
        ID##_ATTRS(RT_FUSED_ATTR){.name = "inputs", .type = RT_ATTR_INT}};                         \
    static const struct rt_schema id##_schema = {.name = (op_name),                                \
                                                 .in = id##_ins,                                   \
                                                 .out = id##_outs,                                 \
                                                 .attr = id##_attrs,                               \
                                                 .n_in = sizeof id##_ins / sizeof *id##_ins,       \
                                                 .n_out = sizeof id##_outs / sizeof *id##_outs,    \
                                                 .n_attr =                                         \
                                                     sizeof id##_attrs / sizeof *id##_attrs};      \
    static inline void id##_read(const struct rt_node *n, struct id *out)                          \
    {                                                                                              \
        int at = 0, input = 0;                                                                     \
        ID##_ATTRS(RT_FUSED_READ) const uint64_t there =                                           \
            (uint64_t)rt_fused_get_INT(rt_fused_attr(n, at, "inputs", RT_ATTR_INT));               \
        ID##_INPUTS(RT_FUSED_FIND, ID)                                                             \
    }                                                                                              \
    static inline struct rt_fused_op id##_op(const struct id *of)                                  \
    {                                                                                              \
        struct rt_fused_op op = {.schema = &id##_schema,                                           \
                                 .optional = 0 ID##_INPUTS(RT_FUSED_OPTIONAL, ID),                 \
                                 .has_list = 0 ID##_INPUTS(RT_FUSED_HAS_LIST, ID)};                \
        int at = 0;                                                                                \
        ID##_ATTRS(RT_FUSED_SET) op.attr[at] = rt_fused_of_INT(0);                                 \
        return op;                                                                                 \
    }                                                                                              \
    _Static_assert(sizeof id##_attrs / sizeof *id##_attrs <= RT_FUSED_MOST_ATTRS,                  \
                   "more attributes than a fused op may have")

#endif
