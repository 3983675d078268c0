/*
 * An imported graph: its nodes in the order of the file, checked against their schemas, with
 * defaults for absent attributes and with edges by index. A graph never changes after import; plans
 * copy what they need and point to its nodes.
 *
 * The body of a function is a graph too. It is instantiated at first use, once for each set of
 * attributes.
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

/* rank -1: unknown; dim -1: unknown. Import refuses a rank above RT_MAX_RANK, except in attributes
 * that nothing reads ("_output_shapes", which is dropped). */
struct rt_shape {
    int rank;
    int64_t dim[RT_MAX_RANK];
};

struct rt_func_ref { /* value of a func attribute */
    const char *name;
    int n_attr;
    const struct rt_named_attr *attr; /* its attributes, sorted by name */
    int depth; /* 1 more than that of the deepest function among its attributes; at most 64 */
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
    int node, out; /* producer's index in the graph, and the output's index */
};

struct rt_node {
    const char *name;   /* unique in its graph */
    const char *device; /* "": none */
    const struct rt_schema *schema;
    const struct rt_op *op;     /* NULL: known to TensorFlow, not implemented here */
    const struct rt_attr *attr; /* its attributes, in the order of the schema */
    /* Attributes that the schema lacks and the runtime uses: their names begin with '_'. */
    const struct rt_named_attr *extra;
    int n_extra;
    int id; /* index in its graph */
    int n_in, n_out, n_ctrl;
    const struct rt_edge *in;
    const int *ctrl;                     /* control inputs: indexes of nodes that must have run */
    const uint8_t *in_dtype, *out_dtype; /* base types, also where the edge is a ref */
    const int *in_first, *out_first;     /* argument k of the schema has the inputs (or outputs)
                                            first[k] to first[k + 1] - 1 */
    uint64_t in_ref;                     /* bit k: input k must be a ref (of the first 64 only) */
    uint64_t out_ref;                    /* bit k: output k is a ref */
};

struct rt_graph {
    const char *name; /* "" for the main graph, else the name of the function */
    int n_nodes;
    const struct rt_node *node;
    const void *by_name; /* struct rt_map, name -> node */
    /* Only for the body of a function: */
    int n_args, n_rets, n_ctrl_rets;
    const int *arg;            /* nodes of op "_Arg", by argument index */
    const struct rt_edge *ret; /* what the function returns, by index */
    const int *ctrl_ret;       /* nodes that must have run before it returns */
    bool is_stateful;
};

const struct rt_node *rt_graph_find(const struct rt_graph *g, const char *name); /* NULL: none */
/* Finds a tensor by its text: "name:k", "name" (output 0), or "^name" for a control edge (out =
 * -1). Refuses unknown names and outputs. */
enum rt_status rt_graph_tensor(const struct rt_graph *g, const char *text, struct rt_edge *out,
                               struct rt_error *err);

/* ---- attributes, by their names in the schema ---- */
/* The typed readers assert that the schema has the attribute, with this type; import has checked
 * the node against the schema. A name that the schema lacks is a bug of the caller. */
const struct rt_attr *rt_attr(const struct rt_node *n, const char *name); /* NULL: not in schema */
int64_t rt_attr_int(const struct rt_node *n, const char *name);
float rt_attr_float(const struct rt_node *n, const char *name);
bool rt_attr_bool(const struct rt_node *n, const char *name);
enum rt_dtype rt_attr_dtype(const struct rt_node *n, const char *name);
struct rt_span rt_attr_str(const struct rt_node *n, const char *name);
const struct rt_shape *rt_attr_shape(const struct rt_node *n, const char *name);
size_t rt_attr_ints(const struct rt_node *n, const char *name, const int64_t **v);
const struct rt_func_ref *rt_attr_func(const struct rt_node *n, const char *name);

struct rt_args { /* the range of inputs or outputs of one schema argument */
    int first, n;
};
struct rt_args rt_in_arg(const struct rt_node *n, int schema_arg);

/* ---- library: the main graph and its functions ---- */
struct rt_library;
struct rt_registry;

/*
 * Imports a serialized tensorflow.GraphDef. Every node is checked against its schema. Refused, with
 * an error that names the node, are ops that TensorFlow does not know, edges to missing nodes,
 * attributes of the wrong type, duplicate names and the like. A cycle must pass through
 * NextIteration.
 * `ops`: where the nodes' rt_op are looked up; must outlive the library.
 */
enum rt_status rt_library_import(struct rt_library **out, struct rt_span graph_def,
                                 const struct rt_registry *ops, struct rt_error *err);
void rt_library_free(struct rt_library *l);
const struct rt_graph *rt_library_main(const struct rt_library *l);
/*
 * *out: the body of a function, with its placeholders replaced by the attributes of `f`. A body is
 * made once for each distinct set of attributes. RT_NOT_FOUND: the library has no function of this
 * name. Recursion is not refused here, but by the depth limit of inlining.
 */
enum rt_status rt_library_instantiate(struct rt_library *l, const struct rt_func_ref *f,
                                      const struct rt_graph **out, struct rt_error *err);

#endif
