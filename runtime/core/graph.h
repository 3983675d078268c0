/*
 * A graph as imported: nodes in the order of the file, checked against the schema, attributes
 * resolved with their defaults, edges by index. Never changed afterwards; plans copy what they
 * need and point to its nodes.
 *
 * A function's body is a graph too, instantiated per (name, attributes) when first asked for.
 *
 * Owner: graphs and everything they point to live in the arena of their rt_library.
 * Threads: immutable after import; rt_library_instantiate locks.
 */
#ifndef RT_GRAPH_H
#define RT_GRAPH_H

#include "runtime/core/schema.h"
#include "runtime/core/tensor.h"

struct rt_op;
struct rt_graph;

/* rank -1: unknown; dim -1: unknown. A rank above RT_MAX_RANK is refused at import, except in
 * attributes that nothing reads ("_output_shapes" is dropped). */
struct rt_shape {
    int rank;
    int64_t dim[RT_MAX_RANK];
};

struct rt_func_ref { /* value of a func attribute */
    const char *name;
    int n_attr;
    const struct rt_named_attr *attr; /* attributes passed to it, in the order of their names */
    int depth; /* 1 more than that of the deepest function among them; at most 64 */
};

struct rt_attr {
    uint8_t type; /* enum rt_attr_type, with RT_ATTR_LIST for lists; RT_ATTR_NONE: absent */
    size_t n;     /* elements of a list, bytes of a string */
    union {
        int64_t i;
        float f;
        bool b;
        enum rt_dtype t;
        const char *s; /* n bytes, then NUL */
        struct rt_shape *shape;
        struct rt_tensor *tensor;
        struct rt_func_ref *func;
        const int64_t *ints;             /* list(int) */
        const float *floats;             /* list(float) */
        const bool *bools;               /* list(bool) */
        const uint8_t *types;            /* list(type), enum rt_dtype */
        const struct rt_span *strs;      /* list(string), each followed by NUL */
        const struct rt_shape *shapes;   /* list(shape) */
        const struct rt_func_ref *funcs; /* list(func) */
        const struct rt_tensor *tensors; /* list(tensor) */
    } v;
};

struct rt_named_attr {
    const char *name;
    struct rt_attr value;
};

struct rt_edge {
    int node, out; /* producer's index in the graph, and which of its outputs */
};

struct rt_node {
    const char *name;   /* in its own graph */
    const char *device; /* "" when none */
    const struct rt_schema *schema;
    const struct rt_op *op;     /* NULL: known to TensorFlow, not implemented here */
    const struct rt_attr *attr; /* by the schema's index, n_attr of them */
    /* Attributes outside the schema that matter (those that begin with '_' and are known). */
    const struct rt_named_attr *extra;
    int n_extra;
    int id; /* index in its graph */
    int n_in, n_out, n_ctrl;
    const struct rt_edge *in;
    const int *ctrl;                     /* indexes of the nodes that must have run */
    const uint8_t *in_dtype, *out_dtype; /* base types, also where the edge is a ref */
    const int *in_first, *out_first;     /* per schema arg: where its range begins; one more at
                                            the end, so that range k is [first[k], first[k+1]) */
    uint64_t in_ref;                     /* bit k: input k wants a ref (only the first 64 can) */
    uint64_t out_ref;                    /* bit k: output k is a ref */
};

struct rt_graph {
    const char *name; /* "" for the main graph, else the function's */
    int n_nodes;
    const struct rt_node *node;
    const void *by_name; /* struct rt_map, name -> node */
    /* A function's body only: */
    int n_args, n_rets, n_ctrl_rets;
    const int *arg;            /* nodes of op "_Arg", by position */
    const struct rt_edge *ret; /* what it returns, by position */
    const int *ctrl_ret;       /* nodes that must have run */
    bool is_stateful;
};

const struct rt_node *rt_graph_find(const struct rt_graph *g, const char *name); /* or NULL */
/* "name:k", "name" (output 0) or "^name" (out = -1). Refuses unknown names and outputs. */
enum rt_status rt_graph_tensor(const struct rt_graph *g, const char *text, struct rt_edge *out,
                               struct rt_error *err);

/* ---- attributes; by the schema's name of the attribute ---- */
/* Present and of that type by the schema: import has checked it. A missing name is our bug. */
const struct rt_attr *rt_attr(const struct rt_node *n, const char *name); /* NULL: not in schema */
int64_t rt_attr_int(const struct rt_node *n, const char *name);
float rt_attr_float(const struct rt_node *n, const char *name);
bool rt_attr_bool(const struct rt_node *n, const char *name);
enum rt_dtype rt_attr_dtype(const struct rt_node *n, const char *name);
struct rt_span rt_attr_str(const struct rt_node *n, const char *name);
const struct rt_shape *rt_attr_shape(const struct rt_node *n, const char *name);
size_t rt_attr_ints(const struct rt_node *n, const char *name, const int64_t **v);
const struct rt_func_ref *rt_attr_func(const struct rt_node *n, const char *name);

struct rt_args { /* a variadic input or output is a range */
    int first, n;
};
struct rt_args rt_in_arg(const struct rt_node *n, int schema_arg);

/* ---- library: the main graph and its functions ---- */
struct rt_library;
struct rt_registry;

/*
 * Imports a serialized tensorflow.GraphDef. Every node is checked against its schema; an op that
 * TensorFlow does not know, an edge to a missing node, a wrong attribute type, a duplicate name
 * and the like are refused by name. Cycles are legal only through NextIteration.
 * `ops`: which ops have an rt_op; must outlive the library.
 */
enum rt_status rt_library_import(struct rt_library **out, struct rt_span graph_def,
                                 const struct rt_registry *ops, struct rt_error *err);
void rt_library_free(struct rt_library *l);
const struct rt_graph *rt_library_main(const struct rt_library *l);
/*
 * The body of a function for these attributes (its placeholders replaced), made once per distinct
 * set. NOT_FOUND when the library has no such function. Bodies that call themselves are refused
 * when inlining meets its depth limit, not here.
 */
enum rt_status rt_library_instantiate(struct rt_library *l, const struct rt_func_ref *f,
                                      const struct rt_graph **out, struct rt_error *err);

#endif
