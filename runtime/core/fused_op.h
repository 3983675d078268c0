/*
 * Declares fused ops, which are internal ops: no model file may name them. A pass of runtime/fusion
 * puts a fused op into the compiler's graph, and a kernel runs it. The pass and the kernel share
 * only the op's header in runtime/fusion, which lists the op's inputs, outputs and attributes once:
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
 * RT_FUSED_OP generates from these lists:
 *
 *     RT_SCALE_X, RT_SCALE_BY, RT_SCALE_OFFSET, RT_SCALE_N_IN    the inputs' indexes
 *     struct rt_scale        a field for each attribute, and in `in` the node's input index of each
 *                            of the op's inputs, or -1 for an OPTIONAL input that the node lacks
 *     rt_scale_schema        the schema, for the kernel's rt_op.internal_schema
 *     rt_scale_read(n, &s)   fills struct rt_scale from a node
 *     rt_scale_op(&s)        makes, from struct rt_scale, the struct rt_fused_op that pl_put_fused
 *                            (runtime/ir/rewrite.h) expects. The member `in` is ignored, because
 *                            the edges given to pl_put_fused determine it
 *
 * Example of a pass:
 *
 *     const struct pl_edge in[RT_SCALE_N_IN] = {
 *         [RT_SCALE_X] = x, [RT_SCALE_BY] = by, [RT_SCALE_OFFSET] = pl_no_edge};
 *     const struct rt_scale scale = {.axis = 1, .divides = true};
 *     st = pl_put_fused(g, node, n, rt_scale_op(&scale), in, RT_SCALE_N_IN, err);
 *
 * Example of a kernel:
 *
 *     struct rt_scale s;
 *     rt_scale_read(p->node, &s);
 *     const float *offset = s.in.offset < 0 ? NULL : r->in[s.in.offset].data;
 *
 *     .op = {.name = "_Scale", .infer = infer, .rows = rows, .internal_schema = &rt_scale_schema}
 *
 * Code that uses a name that is not in the header does not compile. The registry refuses an op
 * whose name differs from that of its schema. pl_put_fused refuses an op if the kernel has
 * registered it with a schema other than that of the pass's header.
 *
 * Kinds of inputs:
 *     ONE        every node has the input
 *     OPTIONAL   a node may lack the input; the indexes of later inputs are then lower
 *     LIST       any number of inputs, including none; only for the op's last input
 * Kinds of attributes, and the types of their fields:
 *     INT int64_t, FLOAT float, BOOL bool, ENUM int (an enumeration of the same header)
 *     STRING const char *, which must live as long as the plan (pl_keep_text)
 *     INTS struct rt_ints, whose array must live as long as the plan
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
    /* maximum number of inputs of a node, including the elements of a list */
    RT_FUSED_MOST_INPUTS = 64,
};

/* A fused op that a pass gives to pl_put_fused. pl_put_fused sets the schema's last attribute,
 * "inputs", a bit set of the op's inputs that the node has. */
struct rt_fused_op {
    const struct rt_schema *schema;
    struct rt_attr attr[RT_FUSED_MOST_ATTRS]; /* values of the attributes, in the schema's order */
    uint64_t optional;                        /* bit k is set if input k is optional */
    bool has_list;
};

/* ---- kinds of attributes: field, schema type, reading from and writing to struct rt_attr ---- */

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

/* Returns attribute `at` of the node, for the reader that RT_FUSED_OP generates. The assertion
 * holds for every node that pl_put_fused has made. */
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

/* ---- what RT_FUSED_OP generates from each row of the lists ---- */
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
