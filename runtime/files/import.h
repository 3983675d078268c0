/*
 * The structs and functions shared by the source files of import. These files are:
 *
 *   import.c             makes the library: main graph, functions by name, instantiated bodies
 *   import_node.c        makes nodes: schema, attributes, types
 *   import_edge.c        makes edges from names, and finds cycles
 *   import_func.c        makes the bodies of functions
 *   runtime/core/attr.c  reads attribute values
 *
 * Threads: a library is imported on one thread; bodies of functions are made under the library's
 * mu.
 */
#ifndef RT_IMPORT_H
#define RT_IMPORT_H

#include "proto/wire.h"
#include "runtime/base/pieces.h"
#include "runtime/core/attr.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/core/graph.h"

#include "tensorflow/core/framework/function.pb-c.h"
#include "tensorflow/core/framework/node_def.pb-c.h"

/* maximum number of inputs, and of outputs, of a node */
enum { IM_MAX_ARGS = 1 << 16 };

struct im_function {
    const char *name;
    struct rt_span def;       /* serialized FunctionDef of the function */
    struct rt_span signature; /* serialized OpDef of the function */
    bool is_stateful;
};

struct im_body { /* an instantiated function, or the error of its instantiation */
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
    /* The check that is called during the import and while the bodies of functions are made. May be
     * NULL. During the import, it is the caller's check. After rt_library_set_check, it is
     * `later`. */
    const struct rt_check *check;
    struct rt_check later;
    const struct rt_registry *ops;
    const struct rt_graph *main;
    struct rt_map functions; /* maps names to struct im_function */
    /* total size of the arena and of the tensors in `held`, in bytes */
    atomic_size_t bytes;
    struct rt_mutex mu;
    struct rt_map bodies; /* maps keys to struct im_body; guarded by mu, like all members below */
    struct rt_held_tensor *held;
    struct im_name_map *names;
    size_t splat_left;
    /* limit on the size of the arena and of the temporary arena of each graph, in bytes */
    size_t limit;
    /* limit on the total size of the keys of `bodies`, and the current total size, both in bytes */
    size_t key_limit, key_bytes;
};

/* An output of a function, with its name in the function's signature. */
struct im_output {
    const char *name;
    /* the output's tensors are the outputs `first` to `first + n - 1` of the node */
    int first, n;
};

/* What the import stores about a node until the node's edges are made. */
struct im_pending {
    int n_input;
    char **input;
    /* whether TensorFlow has no op of this name, so that the node's types are unknown */
    bool is_stranger;
    int n_outputs;
    /* named outputs of a function call, sorted by name; NULL if the node is not a function call */
    struct im_output *output;
};

struct im_build {
    struct rt_library *l;
    struct rt_arena *temp; /* temporary arena, freed once the graph is made */
    struct rt_graph *g;
    struct rt_node *node;
    struct im_pending *pending;
    int n;
    struct rt_map *names;
    struct rt_attr_reader reader;
    const char *function; /* name of the function, or NULL for the main graph */
    size_t n_steps;       /* number of calls of im_step */
    struct rt_map args;   /* maps the name of each of the function's arguments to a struct im_arg */
    /* Maps the names of functions that nodes call by name to the unpacked OpDefs of the functions.
     * Each signature is thus unpacked once, however many nodes call the function. */
    struct rt_map signatures;
};

struct im_arg { /* an argument of a function, with one node of op "_Arg" per tensor */
    int first, n;
};

/* The tensors to which the name of an input refers: outputs `out` to `out + n - 1` of `node`. */
struct im_run {
    int node, out, n;
    /* Whether the name refers to an argument of a function. The tensors are then output 0 of each
     * of the nodes `node` to `node + n - 1`. */
    bool over_nodes;
};

/* ---- import.c ---- */
/* Sets the check that rt_library_instantiate calls regularly. A failed check ends the call. The
 * check must be valid as long as the library. No other thread may use the library yet. */
void rt_library_set_check(struct rt_library *l, struct rt_check check);
enum rt_status im_no_memory(struct rt_error *err);
/* Counts a step of the work. Calls the library's check after every RT_TICK_STEPS steps. */
static inline enum rt_status im_step(struct im_build *b, struct rt_error *err)
{
    return rt_check_tick(b->l->check, ++b->n_steps, err);
}
/* Reads the next field of a message as pb_field_next does. Calls the check regularly. Sets *more to
 * whether there was a field. If the message is malformed, the error names `what`. */
enum rt_status im_next_field(const struct rt_library *l, struct rt_span *rest, size_t *n_fields,
                             struct pb_field *f, bool *more, const char *what,
                             struct rt_error *err);
/* Unpacks a message. Sets *out to the message, or to NULL on failure. The caller frees *out with
 * pb_free. */
enum rt_status im_unpack(const struct rt_library *l, void *out,
                         const ProtobufCMessageDescriptor *type, struct rt_span bytes,
                         const char *what, struct rt_error *err);
/* Appends the node's name and, if `s` is not NULL, the name of the node's op to the error message.
 * Returns the error's code. */
enum rt_status im_name_node(struct im_build *b, const char *name, const struct rt_schema *s,
                            struct rt_error *err);
/* Returns RT_INVALID_ARGUMENT. The error message begins with the node's name, after the function's
 * name if the node is in a function. */
enum rt_status im_fail_node(struct im_build *b, const char *node, struct rt_error *err,
                            const char *fmt, ...) RT_PRINTF(4, 5);
/* Finishes a graph whose edges have been made. Checks for cycles and runs each op's `check`. */
enum rt_status im_finish(struct im_build *b, struct rt_error *err);

/* ---- import_node.c ---- */
/* Adds an empty node. b->node must have capacity for it. Returns NULL if out of memory. */
struct rt_node *im_new_node(struct im_build *b, const char *name, const char *device);
enum rt_status im_add_node(struct im_build *b, const Tensorflow__NodeDef *def,
                           struct rt_error *err);

/* ---- import_edge.c ---- */
/* Finds the tensors to which `text`, the name of an input, refers. Returns false if there are
 * none. */
bool im_resolve(struct im_build *b, const char *text, struct im_run *r);
struct rt_edge im_run_at(const struct im_run *r, int i);
enum rt_status im_connect(struct im_build *b, struct rt_error *err);
enum rt_status im_check_cycles(struct im_build *b, struct rt_error *err);

/* ---- import_func.c ---- */
/* Finds the types of the tensors of argument `a` of a signature. `with` contains the attributes of
 * the call. */
enum rt_status im_arg_types(struct rt_arena *arena, const char *function,
                            const Tensorflow__OpDef__ArgDef *a, const struct rt_func_ref *with,
                            const uint8_t **types, int *n, struct rt_error *err);
/* Sets *out to the list(type) of the types of all arguments' tensors, in order. */
enum rt_status im_all_types(struct im_build *b, struct rt_arena *arena, const char *function,
                            Tensorflow__OpDef__ArgDef **arg, size_t n_arg,
                            const struct rt_func_ref *with, struct rt_attr *out,
                            struct rt_error *err);
/* Sets *with to the given attributes, plus the signature's defaults for missing attributes. */
enum rt_status im_add_defaults(struct im_build *b, const Tensorflow__OpDef *sig,
                               const struct rt_func_ref *given, struct rt_func_ref *with,
                               struct rt_error *err);
enum rt_status im_build_body(struct im_build *b, const Tensorflow__FunctionDef *def,
                             const struct rt_func_ref *given, struct rt_error *err);

#endif
