/*
 * An imported graph. Its nodes are in the order of the file and refer to their inputs by index.
 * Import has checked the nodes against their schemas and set absent attributes to their default
 * values. A graph never changes after import; plans copy what they need and point to its nodes.
 *
 * The body of a function is a graph too. It is instantiated at first use, once for each set of
 * attributes.
 *
 * Owner: graphs and everything they point to are allocated in the arena of their rt_library.
 * Threads: graphs are immutable after import, and rt_library_instantiate takes a lock.
 */
#ifndef RT_GRAPH_H
#define RT_GRAPH_H

#include "runtime/core/schema.h"
#include "runtime/core/tensor.h"

struct rt_op;
struct rt_graph;

/* A shape that may be partly unknown. A rank or dimension of -1 is unknown. Import refuses a rank
 * above RT_MAX_RANK, except in "_output_shapes", an attribute that import drops because nothing
 * reads it. */
struct rt_shape {
    int rank;
    int64_t dim[RT_MAX_RANK];
};

struct rt_func_ref {
    const char *name;
    int n_attr;
    const struct rt_named_attr *attr; /* attributes of the function, sorted by name */
    int depth; /* 1 plus the largest depth of the functions in `attr`; at most 64 */
};

struct rt_attr {
    /* enum rt_attr_type, plus RT_ATTR_LIST for a list, or RT_ATTR_NONE if there is no value */
    uint8_t type;
    size_t n; /* number of elements of a list, or length of a string in bytes */
    union {
        int64_t i;
        float f;
        bool b;
        enum rt_dtype t;
        const char *s; /* a string of n bytes, followed by a NUL */
        struct rt_shape *shape;
        struct rt_tensor *tensor;
        struct rt_func_ref *func;
        const int64_t *ints;             /* list(int) */
        const float *floats;             /* list(float) */
        const bool *bools;               /* list(bool) */
        const uint8_t *types;            /* elements of a list(type), each an enum rt_dtype */
        const struct rt_span *strs;      /* elements of a list(string); a NUL follows each string */
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
    int node, out; /* index of the producer in the graph, and index of the producer's output */
};

struct rt_node {
    const char *name;   /* name, which is unique in the node's graph */
    const char *device; /* device named in the graph, or "" */
    const struct rt_schema *schema;
    const struct rt_op *op; /* NULL if the runtime does not implement the op */
    const struct rt_attr *attr;
    /* Attributes that the runtime uses although they are not in the schema. Their names begin with
     * '_'. */
    const struct rt_named_attr *extra;
    int n_extra;
    int id;
    int n_in, n_out, n_ctrl;
    const struct rt_edge *in;
    /* indexes of the control inputs (nodes that must run before this node) */
    const int *ctrl;
    /* dtypes of the inputs and outputs; the dtype of a ref is its base type */
    const uint8_t *in_dtype, *out_dtype;
    /* Argument k of the schema has the inputs in_first[k] to in_first[k + 1] - 1. out_first lists
     * the outputs in the same way. */
    const int *in_first, *out_first;
    /* Bit k is set if input k must be a ref. Covers only the first 64 inputs. */
    uint64_t in_ref;
    uint64_t out_ref; /* bit k is set if output k is a ref */
};

struct rt_graph {
    const char *name; /* name of the function, or "" for the main graph */
    int n_nodes;
    const struct rt_node *node;
    const void *by_name; /* a struct rt_map from names to nodes */
    /* The members below are set only in the body of a function. */
    int n_args, n_rets, n_ctrl_rets;
    const int *arg; /* nodes of op "_Arg", by argument index */
    const struct rt_edge *ret;
    const int *ctrl_ret; /* indexes of nodes that must have run before the function returns */
    bool is_stateful;
};

/* returns NULL if the graph has no node with this name */
const struct rt_node *rt_graph_find(const struct rt_graph *g, const char *name);
/* Finds a tensor by its name: "name:k", "name" (output 0), or "^name" for a control edge (out is
 * -1). Refuses unknown names and outputs. */
enum rt_status rt_graph_tensor(const struct rt_graph *g, const char *text, struct rt_edge *out,
                               struct rt_error *err);

/* ---- attributes, by their names in the schema ---- */
/* The typed readers assert that the schema has the attribute with the reader's type. Import has
 * checked the node against the schema, so a failed assertion is a bug in the caller. */
/* Returns the attribute with the given name, or NULL if the schema lacks it. */
const struct rt_attr *rt_attr(const struct rt_node *n, const char *name);
int64_t rt_attr_int(const struct rt_node *n, const char *name);
float rt_attr_float(const struct rt_node *n, const char *name);
bool rt_attr_bool(const struct rt_node *n, const char *name);
enum rt_dtype rt_attr_dtype(const struct rt_node *n, const char *name);
struct rt_span rt_attr_str(const struct rt_node *n, const char *name);
const struct rt_shape *rt_attr_shape(const struct rt_node *n, const char *name);
size_t rt_attr_ints(const struct rt_node *n, const char *name, const int64_t **v);
const struct rt_func_ref *rt_attr_func(const struct rt_node *n, const char *name);

struct rt_args { /* the inputs or outputs that belong to one schema argument */
    int first, n;
};
struct rt_args rt_in_arg(const struct rt_node *n, int schema_arg);

/* ---- library: the main graph and its functions ---- */
struct rt_library;
struct rt_registry;

/*
 * Imports a serialized tensorflow.GraphDef and checks every node against its schema. Refuses an
 * invalid graph with an error that names the node. A graph is invalid, for example, if it has an op
 * that TensorFlow does not know, an edge to a missing node, a duplicate name, or a cycle that does
 * not pass through NextIteration. The rt_op of each node is looked up in `ops`, which must outlive
 * the library.
 */
enum rt_status rt_library_import(struct rt_library **out, struct rt_span graph_def,
                                 const struct rt_registry *ops, struct rt_error *err);
/* Imports a graph as rt_library_import does, but calls `check` during the import, and fails if the
 * check fails. `check` may be NULL. */
enum rt_status rt_library_import_checked(struct rt_library **out, struct rt_span graph_def,
                                         const struct rt_registry *ops,
                                         const struct rt_check *check, struct rt_error *err);
void rt_library_free(struct rt_library *l);
const struct rt_graph *rt_library_main(const struct rt_library *l);
/* Returns the size in bytes of the library's graphs and of their tensors. The size grows with each
 * function that is instantiated. */
size_t rt_library_bytes(const struct rt_library *l);
/*
 * Sets *out to the body of a function, with its placeholders replaced by the attributes of `f`. A
 * body is created once for each distinct set of attributes. Returns RT_NOT_FOUND if the library has
 * no function of this name. Recursion is not detected here; the depth limit of inlining rejects it.
 */
enum rt_status rt_library_instantiate(struct rt_library *l, const struct rt_func_ref *f,
                                      const struct rt_graph **out, struct rt_error *err);

#endif
