/*
 * Inside of import: what its parts share while a graph is made.
 *
 *   import.c       the library: main graph, functions by name, bodies made so far
 *   import_node.c  nodes: schema, attributes, types
 *   import_edge.c  edges by name, cycles
 *   import_func.c  bodies of functions
 *   attr.c         attribute values
 */
#ifndef RT_IMPORT_H
#define RT_IMPORT_H

#include "runtime/core/attr.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/core/graph.h"

#include "tensorflow/core/framework/function.pb-c.h"
#include "tensorflow/core/framework/node_def.pb-c.h"

enum { IM_MAX_ARGS = 1 << 16 }; /* inputs, and outputs, of one node */

struct im_function {
    const char *name;
    struct rt_span def;       /* FunctionDef */
    struct rt_span signature; /* its OpDef */
    bool is_stateful;
};

struct im_body { /* a function instantiated, or why it could not be */
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
    struct rt_map bodies; /* key -> struct im_body; guarded by mu, and so is all below */
    struct rt_held_tensor *held;
    struct im_name_map *names;
    size_t splat_left;
    size_t limit; /* bytes that the arena may hold, and what is only there while a graph is made */
    size_t key_limit, key_bytes; /* what the keys of bodies may take, and what they do */
};

/* An output of a function, as the function itself names it. */
struct im_output {
    const char *name;
    int first, n; /* among the node's outputs */
};

/* What a node needs until its edges are there. */
struct im_pending {
    int n_input;
    char **input;
    bool is_stranger; /* an op that TensorFlow does not have: nothing is known of its types */
    int n_outputs;
    struct im_output *output; /* of a call by name, by their names; else NULL */
};

struct im_build {
    struct rt_library *l;
    struct rt_arena *temp; /* until the graph is there */
    struct rt_graph *g;
    struct rt_node *node;
    struct im_pending *pending;
    int n;
    struct rt_map *names;
    struct rt_attr_reader reader;
    const char *function; /* NULL: the main graph */
    struct rt_map args;   /* of a function: argument's name -> struct im_arg */
};

struct im_arg { /* a function's argument: one node of op "_Arg" per tensor */
    int first, n;
};

struct im_run { /* what an input's text stands for: `n` outputs of `node`, or of nodes in a row */
    int node, out, n;
    bool over_nodes; /* a function's argument: one node per tensor */
};

/* ---- import.c ---- */
enum rt_status im_no_memory(struct rt_error *err);
/* *out: the message, for pb_free; NULL when it is refused. */
enum rt_status im_unpack(void *out, const ProtobufCMessageDescriptor *type, struct rt_span bytes,
                         const char *what, struct rt_error *err);
/* Goes on from what stands in *err to the node it is about; `s` may be NULL. */
enum rt_status im_name_node(struct im_build *b, const char *name, const struct rt_schema *s,
                            struct rt_error *err);
/* "Node 'a': " before what is told; in a function its name too. INVALID_ARGUMENT. */
enum rt_status im_fail_node(struct im_build *b, const char *node, struct rt_error *err,
                            const char *fmt, ...) RT_PRINTF(4, 5);
/* Once all edges are there: cycles and each op's own rules. */
enum rt_status im_finish(struct im_build *b, struct rt_error *err);

/* ---- import_node.c ---- */
/* An empty node; the room is there. NULL: out of memory. */
struct rt_node *im_new_node(struct im_build *b, const char *name, const char *device);
enum rt_status im_add_node(struct im_build *b, const Tensorflow__NodeDef *def,
                           struct rt_error *err);

/* ---- import_edge.c ---- */
/* What an input's text stands for. False: nothing. */
bool im_resolve(struct im_build *b, const char *text, struct im_run *r);
struct rt_edge im_run_at(const struct im_run *r, int i); /* the i-th tensor of it */
enum rt_status im_connect(struct im_build *b, struct rt_error *err);
enum rt_status im_check_cycles(struct im_build *b, struct rt_error *err);

/* ---- import_func.c ---- */
/* The types of one argument of a signature, given the call's attributes. */
enum rt_status im_arg_types(struct rt_arena *arena, const char *function,
                            const Tensorflow__OpDef__ArgDef *a, const struct rt_func_ref *with,
                            const uint8_t **types, int *n, struct rt_error *err);
/* Those of all arguments in a row, as a list(type). */
enum rt_status im_all_types(struct rt_arena *arena, const char *function,
                            Tensorflow__OpDef__ArgDef **arg, size_t n_arg,
                            const struct rt_func_ref *with, struct rt_attr *out,
                            struct rt_error *err);
/* `with`: the attributes given, and the signature's defaults for those that are not. */
enum rt_status im_add_defaults(struct im_build *b, const Tensorflow__OpDef *sig,
                               const struct rt_func_ref *given, struct rt_func_ref *with,
                               struct rt_error *err);
enum rt_status im_build_body(struct im_build *b, const Tensorflow__FunctionDef *def,
                             const struct rt_func_ref *given, struct rt_error *err);

#endif
