/*
 * Internal header of import: the structs and functions that its files share.
 *
 *   import.c             the library: main graph, functions by name, bodies made so far
 *   import_node.c        nodes: schema, attributes, types
 *   import_edge.c        edges by name, cycles
 *   import_func.c        bodies of functions
 *   runtime/core/attr.c  attribute values
 *
 * Threads: import of a library runs on one thread; bodies of functions are made under its mu.
 */
#ifndef RT_IMPORT_H
#define RT_IMPORT_H

#include "runtime/core/attr.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/core/graph.h"

#include "tensorflow/core/framework/function.pb-c.h"
#include "tensorflow/core/framework/node_def.pb-c.h"

enum { IM_MAX_ARGS = 1 << 16 }; /* the most inputs, and the most outputs, of one node */

struct im_function {
    const char *name;
    struct rt_span def;       /* FunctionDef */
    struct rt_span signature; /* its OpDef */
    bool is_stateful;
};

struct im_body { /* an instantiated function, or the error */
    const struct rt_graph *graph;
    enum rt_status status;
    const char *text;
};

struct im_name_map {
    struct rt_map map;
    struct im_name_map *next;
};

struct rt_library {
    struct rt_arena *arena;
    const struct rt_registry *ops;
    const struct rt_graph *main;
    struct rt_map functions; /* name -> struct im_function */
    struct rt_mutex mu;
    struct rt_map bodies; /* key -> struct im_body; guarded by mu, as all members below */
    struct rt_held_tensor *held;
    struct im_name_map *names;
    size_t splat_left;
    size_t limit;                /* bytes of the arena, and of the temporary arena of a graph */
    size_t key_limit, key_bytes; /* limit of the keys of bodies, and their bytes now */
};

/* An output of a function, by its name in the function's signature. */
struct im_output {
    const char *name;
    int first, n; /* index of its first tensor among the node's outputs, and number of tensors */
};

/* Data of a node that is needed until its edges are made. */
struct im_pending {
    int n_input;
    char **input;
    bool is_stranger; /* TensorFlow has no such op: its types are unknown */
    int n_outputs;
    struct im_output *output; /* outputs of a call by name, sorted by name; else NULL */
};

struct im_build {
    struct rt_library *l;
    struct rt_arena *temp; /* freed when the graph is made */
    struct rt_graph *g;
    struct rt_node *node;
    struct im_pending *pending;
    int n;
    struct rt_map *names;
    struct rt_attr_reader reader;
    const char *function; /* NULL: the main graph */
    struct rt_map args;   /* name of a function's argument -> struct im_arg */
};

struct im_arg { /* a function's argument: one node of op "_Arg" per tensor */
    int first, n;
};

struct im_run { /* the tensors that an input's text names: n outputs of `node` from `out` on */
    int node, out, n;
    bool over_nodes; /* a function's argument: output `out` of n nodes from `node` on instead */
};

/* ---- import.c ---- */
enum rt_status im_no_memory(struct rt_error *err);
/* *out: the unpacked message, for pb_free; NULL: it was refused. */
enum rt_status im_unpack(void *out, const ProtobufCMessageDescriptor *type, struct rt_span bytes,
                         const char *what, struct rt_error *err);
/* Appends the node's name, and its op if `s` is not NULL, to the error in *err. Returns the
 * code. */
enum rt_status im_name_node(struct im_build *b, const char *name, const struct rt_schema *s,
                            struct rt_error *err);
/* Fails with RT_INVALID_ARGUMENT; the text begins with the node's name, and in a function with the
 * function's too. */
enum rt_status im_fail_node(struct im_build *b, const char *node, struct rt_error *err,
                            const char *fmt, ...) RT_PRINTF(4, 5);
/* The last step, when all edges are made: checks for cycles and runs each op's `check`. */
enum rt_status im_finish(struct im_build *b, struct rt_error *err);

/* ---- import_node.c ---- */
/* Adds an empty node; b->node has capacity for it. NULL: out of memory. */
struct rt_node *im_new_node(struct im_build *b, const char *name, const char *device);
enum rt_status im_add_node(struct im_build *b, const Tensorflow__NodeDef *def,
                           struct rt_error *err);

/* ---- import_edge.c ---- */
/* Finds the tensors that an input's text names. False: there are none. */
bool im_resolve(struct im_build *b, const char *text, struct im_run *r);
struct rt_edge im_run_at(const struct im_run *r, int i); /* its i-th tensor */
enum rt_status im_connect(struct im_build *b, struct rt_error *err);
enum rt_status im_check_cycles(struct im_build *b, struct rt_error *err);

/* ---- import_func.c ---- */
/* The types of the tensors of one argument of a signature, for the attributes of a call. */
enum rt_status im_arg_types(struct rt_arena *arena, const char *function,
                            const Tensorflow__OpDef__ArgDef *a, const struct rt_func_ref *with,
                            const uint8_t **types, int *n, struct rt_error *err);
/* The types of the tensors of all arguments in order, as a list(type). */
enum rt_status im_all_types(struct rt_arena *arena, const char *function,
                            Tensorflow__OpDef__ArgDef **arg, size_t n_arg,
                            const struct rt_func_ref *with, struct rt_attr *out,
                            struct rt_error *err);
/* *with: the given attributes, and the signature's defaults for those that are missing. */
enum rt_status im_add_defaults(struct im_build *b, const Tensorflow__OpDef *sig,
                               const struct rt_func_ref *given, struct rt_func_ref *with,
                               struct rt_error *err);
enum rt_status im_build_body(struct im_build *b, const Tensorflow__FunctionDef *def,
                             const struct rt_func_ref *given, struct rt_error *err);

#endif
