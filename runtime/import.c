/*
 * GraphDef and FunctionDef into rt_graph: rt_library_* of graph.h.
 *
 * A graph is made in passes: nodes one by one (schema, attributes, types; the message of a node is
 * forgotten at once, so that a frozen model's weights are in memory no more than twice), then
 * edges, for which all names must be there, then the search for cycles.
 */
#include "runtime/graph.h"

#include <stdlib.h>
#include <string.h>

#include "proto/unpack.h"
#include "proto/wire.h"
#include "runtime/attr.h"
#include "runtime/base/bytes.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/op.h"

#include "tensorflow/core/framework/function.pb-c.h"
#include "tensorflow/core/framework/graph.pb-c.h"

enum {
    GRAPH_VERSION = 2474, /* of TensorFlow 2.21: what min_consumer is compared with */
    MAX_ARGS = 1 << 16,   /* inputs, and outputs, of one node */
};
static const size_t splat_total = (size_t)4 << 30;

struct function {
    const char *name;
    struct rt_span def;       /* FunctionDef */
    struct rt_span signature; /* its OpDef */
    bool is_stateful;
};

struct body { /* a function instantiated, or why it could not be */
    const struct rt_graph *graph;
    enum rt_status status;
    const char *text;
};

struct name_map {
    struct rt_map map;
    struct name_map *next;
};

struct rt_library {
    struct rt_arena *arena;
    const struct rt_registry *ops;
    const struct rt_graph *main;
    struct rt_map functions; /* name -> struct function */
    struct rt_mutex mu;
    struct rt_map bodies; /* key -> struct body; guarded by mu, and so is all below */
    struct rt_held_tensor *held;
    struct name_map *names;
    size_t splat_left;
};

/* What a node needs until its edges are there. */
struct pending {
    int n_input;
    char **input;
    bool is_stranger; /* an op that TensorFlow does not have: nothing is known of its types */
    /* A call by name: how the function itself names its outputs, and where each begins. */
    int n_outputs;
    const char **output;
    int *output_first;
};

struct build {
    struct rt_library *l;
    struct rt_arena *temp; /* until the graph is there */
    struct rt_graph *g;
    struct rt_node *node;
    struct pending *pending;
    int n, room;
    struct rt_map *names;
    struct rt_attr_reader reader;
    const char *function; /* NULL: the main graph */
    struct rt_map args;   /* of a function: argument's name -> struct arg */
};

struct arg { /* a function's argument: one node of op "_Arg" per tensor */
    int first, n;
};

static enum rt_status no_memory(struct rt_error *err)
{
    return rt_fail(err, RT_RESOURCE_EXHAUSTED, "out of memory for the graph");
}

/* ---- reasons ---- */

static enum rt_status not_parsed(struct rt_error *err, const char *what)
{
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s is damaged: its bytes are no such message", what);
}

/* *out: the message, for pb_free. */
static enum rt_status unpack(void *out, const ProtobufCMessageDescriptor *type,
                             struct rt_span bytes, const char *what, struct rt_error *err)
{
    void *message = pb_unpack(type, bytes, what, err);
    memcpy(out, &message, sizeof message);
    return message ? RT_OK : err ? err->code : RT_INVALID_ARGUMENT;
}

/* Goes on from what stands in *err to the node it is about. */
static enum rt_status name_node(struct build *b, const char *name, const struct rt_schema *s,
                                struct rt_error *err)
{
    if (!err)
        return RT_INVALID_ARGUMENT;
    struct rt_bytes t;
    rt_bytes_init(&t, 64 << 10);
    rt_bytes_adds(&t, rt_error_text(err));
    rt_bytes_addf(&t, "; NodeDef: ");
    if (b->function)
        rt_bytes_addf(&t, "{{function_node %s}} ", b->function);
    rt_bytes_addf(&t, "{{node %s}}", name);
    if (s)
        rt_bytes_addf(&t, "; Op<name=%s>", s->name);
    enum rt_status code = err->code;
    rt_fail(err, code, "%s", t.p ? t.p : "out of memory");
    rt_bytes_clear(&t);
    return code;
}

/* "Node 'a': " before what is told; in a function its name too. */
static enum rt_status fail_node(struct build *b, const char *node, struct rt_error *err,
                                const char *fmt, ...) RT_PRINTF(4, 5);
static enum rt_status fail_node(struct build *b, const char *node, struct rt_error *err,
                                const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    enum rt_status st = rt_vfail(err, RT_INVALID_ARGUMENT, fmt, ap);
    va_end(ap);
    if (b->function)
        rt_fail_prefix(err, "Function '%s', node '%s': ", b->function, node);
    else
        rt_fail_prefix(err, "Node '%s': ", node);
    return st;
}

/* ---- nodes ---- */

static bool is_name(const char *s)
{
    if (!*s)
        return false;
    for (const char *p = s; *p; p++) {
        bool ok = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                  (*p >= '0' && *p <= '9') || *p == '.' || *p == '_' || *p == '>' ||
                  (p > s && (*p == '-' || *p == '/' || *p == '\\'));
        if (!ok)
            return false;
    }
    return true;
}

/* Every argument's range and types, from the attributes. */
static enum rt_status expand_args(struct build *b, const struct rt_node *n,
                                  const struct rt_arg_schema *arg, int n_args, int *n_tensors,
                                  const int **first, const uint8_t **dtype, uint64_t *refs,
                                  struct rt_error *err)
{
    int *at = rt_arena_array(b->l->arena, (size_t)n_args + 1, sizeof *at);
    if (!at)
        return no_memory(err);
    int64_t total = 0;
    for (int k = 0; k < n_args; k++) {
        const struct rt_arg_schema *a = &arg[k];
        int64_t count = a->number_attr >= 0 ? n->attr[a->number_attr].v.i
                        : a->list_attr >= 0 ? (int64_t)n->attr[a->list_attr].n
                                            : 1;
        if (count < 0 || count > MAX_ARGS - total)
            return rt_fail(err, RT_INVALID_ARGUMENT, "argument '%s' stands for %lld tensors",
                           a->name, (long long)count);
        at[k] = (int)total;
        total += count;
    }
    at[n_args] = (int)total;
    uint8_t *types = rt_arena_alloc(b->l->arena, (size_t)total);
    if (!types)
        return no_memory(err);
    *refs = 0;
    for (int k = 0; k < n_args; k++)
        for (int i = at[k]; i < at[k + 1]; i++) {
            const struct rt_arg_schema *a = &arg[k];
            types[i] = a->list_attr >= 0   ? n->attr[a->list_attr].v.types[i - at[k]]
                       : a->type_attr >= 0 ? (uint8_t)n->attr[a->type_attr].v.t
                                           : a->type;
            if (!a->is_ref)
                continue;
            if (i >= 64)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "argument '%s' is a reference beyond the 64th", a->name);
            *refs |= UINT64_C(1) << i;
        }
    *n_tensors = (int)total;
    *first = at;
    *dtype = types;
    return RT_OK;
}

static const Tensorflow__AttrValue *find_attr(const Tensorflow__NodeDef *def, const char *name)
{
    for (size_t i = 0; i < def->n_attr; i++)
        if (strcmp(def->attr[i]->key, name) == 0)
            return def->attr[i]->value;
    return NULL;
}

/* Attributes by the schema. Others are left: TensorFlow tolerates them too. */
static enum rt_status read_attrs(struct build *b, struct rt_node *n, const Tensorflow__NodeDef *def,
                                 struct rt_error *err)
{
    const struct rt_schema *s = n->schema;
    struct rt_attr *attr = rt_arena_array(b->l->arena, s->n_attr, sizeof *attr);
    if (!attr)
        return no_memory(err);
    n->attr = attr;
    for (int i = 0; i < s->n_attr; i++) {
        const struct rt_attr_schema *a = &s->attr[i];
        const Tensorflow__AttrValue *v = find_attr(def, a->name);
        enum rt_status st;
        if (v) {
            st = rt_attr_read(&b->reader, v, a->type, &attr[i], err);
            if (st) {
                rt_fail_prefix(err, "attr '%s': ", a->name);
                return name_node(b, n->name, s, err);
            }
            st = rt_attr_check(a, &attr[i], err);
        } else if (a->has_default) {
            st = rt_attr_default(&b->reader, a, &attr[i], err);
        } else {
            rt_fail(err, RT_INVALID_ARGUMENT, "NodeDef missing attr '%s' from Op<name=%s>", a->name,
                    s->name);
            return name_node(b, n->name, NULL, err);
        }
        if (st)
            return name_node(b, n->name, s, err);
    }
    if (strcmp(s->name, "Const") == 0) {
        enum rt_dtype want = rt_attr_dtype(n, "dtype");
        const struct rt_tensor *t = rt_attr(n, "value")->v.tensor;
        if (t->dtype != want) {
            rt_fail(err, RT_INVALID_ARGUMENT, "the value is of type %s, attr 'dtype' says %s",
                    rt_dtype_name((enum rt_dtype)t->dtype), rt_dtype_name(want));
            return name_node(b, n->name, s, err);
        }
    }
    return RT_OK;
}

/* Adds an empty node; the room is there. */
static struct rt_node *new_node(struct build *b, const char *name, const char *device)
{
    struct rt_node *n = &b->node[b->n];
    *n = (struct rt_node){.id = b->n};
    n->name = rt_arena_strdup(b->l->arena, name);
    n->device = *device ? rt_arena_strdup(b->l->arena, device) : "";
    if (!n->name || !n->device)
        return NULL;
    b->n++;
    return n;
}

static enum rt_status call_by_name(struct build *b, struct rt_node *n, const struct function *f,
                                   const Tensorflow__NodeDef *def, struct rt_error *err);

static enum rt_status add_node(struct build *b, const Tensorflow__NodeDef *def,
                               struct rt_error *err)
{
    if (!b->function && !is_name(def->name))
        return fail_node(b, def->name, err, "Node name contains invalid characters");
    if (rt_map_get(b->names, def->name)) {
        enum rt_status st = rt_fail(err, RT_INVALID_ARGUMENT, "Node '%s' is not unique", def->name);
        if (b->function)
            rt_fail_prefix(err, "Function '%s': ", b->function);
        return st;
    }
    struct pending *p = &b->pending[b->n];
    struct rt_node *n = new_node(b, def->name, def->device);
    if (!n || !rt_map_put(b->names, n->name, n))
        return no_memory(err);

    p->input = rt_arena_array(b->temp, def->n_input, sizeof *p->input);
    if (!p->input)
        return no_memory(err);
    bool ctrl = false;
    for (size_t i = 0; i < def->n_input; i++) {
        if (ctrl && def->input[i][0] != '^')
            return fail_node(b, n->name, err,
                             "Control dependencies must come after regular dependencies");
        ctrl = def->input[i][0] == '^';
        p->input[i] = rt_arena_strdup(b->temp, def->input[i]);
        if (!p->input[i])
            return no_memory(err);
        n->n_ctrl += ctrl;
    }
    if (def->n_input > INT32_MAX)
        return fail_node(b, n->name, err, "too many inputs");
    p->n_input = (int)def->n_input;

    n->schema = rt_schema_find(def->op);
    const struct function *f = n->schema ? NULL : rt_map_get(&b->l->functions, def->op);
    enum rt_status st;
    if (f) {
        st = call_by_name(b, n, f, def, err);
    } else if (n->schema) {
        st = read_attrs(b, n, def, err);
    } else {
        /* Refused only when a plan reaches it: a model may carry training ops it never serves. */
        struct rt_schema *s = rt_arena_alloc(b->l->arena, sizeof *s);
        if (!s)
            return no_memory(err);
        s->name = rt_arena_strdup(b->l->arena, def->op);
        if (!s->name)
            return no_memory(err);
        n->schema = s;
        p->is_stranger = true;
        n->n_in = p->n_input - n->n_ctrl;
        static const int none[1];
        n->in_first = n->out_first = none;
        uint8_t *types = rt_arena_alloc(b->l->arena, (size_t)n->n_in);
        if (!types)
            return no_memory(err);
        n->in_dtype = types; /* RT_NO_DTYPE */
        return RT_OK;
    }
    if (st)
        return st;
    n->op = b->l->ops ? rt_registry_op(b->l->ops, n->schema->name) : NULL;
    st = expand_args(b, n, n->schema->in, n->schema->n_in, &n->n_in, &n->in_first, &n->in_dtype,
                     &n->in_ref, err);
    if (!st)
        st = expand_args(b, n, n->schema->out, n->schema->n_out, &n->n_out, &n->out_first,
                         &n->out_dtype, &n->out_ref, err);
    return st ? name_node(b, n->name, n->schema, err) : RT_OK;
}

/* ---- a function's arguments ---- */

static const struct rt_attr *named_attr(const struct rt_func_ref *f, const char *name)
{
    for (int i = 0; i < f->n_attr; i++)
        if (strcmp(f->attr[i].name, name) == 0)
            return &f->attr[i].value;
    return NULL;
}

/* The types of one argument of a signature, given the call's attributes. */
static enum rt_status arg_types(struct rt_arena *arena, const char *function,
                                const Tensorflow__OpDef__ArgDef *a, const struct rt_func_ref *with,
                                const uint8_t **types, int *n, struct rt_error *err)
{
    const char *missing = NULL;
    if (a->type_list_attr[0]) {
        const struct rt_attr *v = named_attr(with, a->type_list_attr);
        if (v && v->type == RT_ATTR_LIST + RT_ATTR_TYPE && v->n <= MAX_ARGS) {
            *types = v->v.types;
            *n = (int)v->n;
            return RT_OK;
        }
        if (v && v->type == RT_ATTR_LIST) { /* empty, of no known type */
            *types = NULL;
            *n = 0;
            return RT_OK;
        }
        missing = a->type_list_attr;
    }
    int64_t count = 1;
    uint8_t type = (uint8_t)rt_dtype_from_wire((int)a->type, NULL);
    if (!missing && a->number_attr[0]) {
        const struct rt_attr *v = named_attr(with, a->number_attr);
        if (!v || v->type != RT_ATTR_INT || v->v.i < 0 || v->v.i > MAX_ARGS)
            missing = a->number_attr;
        else
            count = v->v.i;
    }
    if (!missing && a->type_attr[0]) {
        const struct rt_attr *v = named_attr(with, a->type_attr);
        if (!v || v->type != RT_ATTR_TYPE)
            missing = a->type_attr;
        else
            type = (uint8_t)v->v.t;
    }
    if (missing)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Attr %s is not found from %s", missing, function);
    if (type == RT_NO_DTYPE)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Function '%s': argument '%s' has no type",
                       function, a->name);
    uint8_t *t = rt_arena_alloc(arena, (size_t)count);
    if (!t)
        return no_memory(err);
    memset(t, type, (size_t)count);
    *types = t;
    *n = (int)count;
    return RT_OK;
}

static enum rt_status all_types(struct rt_arena *arena, const char *function,
                                Tensorflow__OpDef__ArgDef **arg, size_t n_arg,
                                const struct rt_func_ref *with, struct rt_attr *out,
                                struct rt_error *err)
{
    uint8_t *all = NULL;
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        n = 0;
        for (size_t i = 0; i < n_arg; i++) {
            const uint8_t *types;
            int count;
            enum rt_status st = arg_types(arena, function, arg[i], with, &types, &count, err);
            if (st)
                return st;
            if (pass && count)
                memcpy(all + n, types, (size_t)count);
            n += (size_t)count;
        }
        if (!pass && !(all = rt_arena_alloc(arena, n)))
            return no_memory(err);
    }
    *out = (struct rt_attr){.type = RT_ATTR_LIST + RT_ATTR_TYPE, .n = n, .v.types = all};
    return RT_OK;
}

/* `with`: the attributes given, and the signature's defaults for those that are not. */
static enum rt_status add_defaults(struct build *b, const Tensorflow__OpDef *sig,
                                   const struct rt_func_ref *given, struct rt_func_ref *with,
                                   struct rt_error *err)
{
    struct rt_named_attr *attr =
        rt_arena_array(b->l->arena, (size_t)given->n_attr + sig->n_attr, sizeof *attr);
    if (!attr)
        return no_memory(err);
    *with = (struct rt_func_ref){given->name, given->n_attr, attr};
    if (given->n_attr)
        memcpy(attr, given->attr, (size_t)given->n_attr * sizeof *attr);
    for (size_t i = 0; i < sig->n_attr; i++) {
        const Tensorflow__OpDef__AttrDef *a = sig->attr[i];
        if (!a->default_value || named_attr(given, a->name))
            continue;
        struct rt_named_attr *to = &attr[with->n_attr++];
        to->name = rt_arena_strdup(b->l->arena, a->name);
        if (!to->name)
            return no_memory(err);
        enum rt_status st =
            rt_attr_read(&b->reader, a->default_value, RT_ATTR_NONE, &to->value, err);
        if (st)
            return st;
    }
    return RT_OK;
}

/* Outputs of a call by name, by the function's own names. */
static enum rt_status name_outputs(struct build *b, struct pending *p, const Tensorflow__OpDef *sig,
                                   const struct rt_func_ref *with, struct rt_error *err)
{
    p->output = rt_arena_array(b->temp, sig->n_output_arg, sizeof *p->output);
    p->output_first = rt_arena_array(b->temp, sig->n_output_arg + 1, sizeof *p->output_first);
    if (!p->output || !p->output_first)
        return no_memory(err);
    for (size_t i = 0; i < sig->n_output_arg; i++) {
        const uint8_t *types;
        int n;
        enum rt_status st =
            arg_types(b->temp, sig->name, sig->output_arg[i], with, &types, &n, err);
        if (st)
            return st;
        p->output[i] = rt_arena_strdup(b->temp, sig->output_arg[i]->name);
        if (!p->output[i])
            return no_memory(err);
        p->output_first[i + 1] = p->output_first[i] + n;
    }
    p->n_outputs = (int)sig->n_output_arg;
    return RT_OK;
}

/* A node whose op is a function of the library (graphs of the first generation) becomes a call. */
static enum rt_status call_by_name(struct build *b, struct rt_node *n, const struct function *f,
                                   const Tensorflow__NodeDef *def, struct rt_error *err)
{
    n->schema = rt_schema_find(f->is_stateful ? "StatefulPartitionedCall" : "PartitionedCall");
    const struct rt_schema *s = n->schema;
    struct rt_attr *attr = rt_arena_array(b->l->arena, s->n_attr, sizeof *attr);
    struct rt_func_ref *ref = rt_arena_alloc(b->l->arena, sizeof *ref);
    if (!attr || !ref)
        return no_memory(err);
    n->attr = attr;
    for (int i = 0; i < s->n_attr; i++)
        if (s->attr[i].has_default) {
            enum rt_status st = rt_attr_default(&b->reader, &s->attr[i], &attr[i], err);
            if (st)
                return st;
        }
    Tensorflow__NameAttrList list;
    tensorflow__name_attr_list__init(&list);
    Tensorflow__NameAttrList__AttrEntry *entries =
        rt_arena_array(b->temp, def->n_attr, sizeof *entries);
    Tensorflow__NameAttrList__AttrEntry **entry =
        rt_arena_array(b->temp, def->n_attr, sizeof *entry);
    if (!entries || !entry)
        return no_memory(err);
    for (size_t i = 0; i < def->n_attr; i++) {
        entry[i] = &entries[i];
        tensorflow__name_attr_list__attr_entry__init(entry[i]);
        entry[i]->key = def->attr[i]->key;
        entry[i]->value = def->attr[i]->value;
    }
    list.name = def->op;
    list.n_attr = def->n_attr;
    list.attr = entry;
    Tensorflow__OpDef *sig = NULL;
    struct rt_func_ref with;
    enum rt_status st = rt_func_ref_read(&b->reader, &list, ref, err);
    if (!st)
        st = unpack(&sig, &tensorflow__op_def__descriptor, f->signature, f->name, err);
    if (!st)
        st = add_defaults(b, sig, ref, &with, err);
    if (!st)
        st = all_types(b->l->arena, f->name, sig->input_arg, sig->n_input_arg, &with,
                       &attr[rt_schema_attr(s, "Tin")], err);
    if (!st)
        st = all_types(b->l->arena, f->name, sig->output_arg, sig->n_output_arg, &with,
                       &attr[rt_schema_attr(s, "Tout")], err);
    if (!st)
        st = name_outputs(b, &b->pending[n->id], sig, &with, err);
    attr[rt_schema_attr(s, "f")] = (struct rt_attr){.type = RT_ATTR_FUNC, .n = 1, .v.func = ref};
    pb_free(sig);
    return st ? name_node(b, n->name, s, err) : RT_OK;
}

/* ---- edges ---- */

/* Decimal digits; -1 for anything else. */
static int parse_index(const char *s)
{
    int v = 0;
    if (!*s)
        return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || v > INT32_MAX / 10 - 1)
            return -1;
        v = v * 10 + (*s - '0');
    }
    return v;
}

struct run { /* what an input's text stands for: `n` outputs of `node`, or of nodes in a row */
    int node, out, n;
    bool over_nodes; /* a function's argument: one node per tensor */
};

/* "name", "name:k". */
static bool resolve_main(struct build *b, const char *text, struct run *r)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    const struct rt_node *node = rt_map_getn(b->names, text, n);
    int out = colon ? parse_index(colon + 1) : 0;
    if (!node || out < 0)
        return false;
    *r = (struct run){node->id, out, 1, false};
    return true;
}

/* "arg", "arg:k", "node:output", "node:output:k". */
static bool resolve_body(struct build *b, const char *text, struct run *r)
{
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    const struct arg *arg = rt_map_getn(&b->args, text, n);
    int index = colon ? parse_index(colon + 1) : -1;
    if (arg && (!colon || index >= 0)) {
        if (index >= arg->n)
            return false;
        *r = (struct run){arg->first + (index < 0 ? 0 : index), 0, index < 0 ? arg->n : 1, true};
        return true;
    }
    const struct rt_node *node = rt_map_getn(b->names, text, n);
    if (!node || !colon)
        return false;
    const char *output = colon + 1, *last = strchr(output, ':');
    size_t len = last ? (size_t)(last - output) : strlen(output);
    index = last ? parse_index(last + 1) : -1;
    if (last && index < 0)
        return false;
    if (b->pending[node->id].is_stranger) {
        *r = (struct run){node->id, index < 0 ? 0 : index, 1, false};
        return true;
    }
    const struct pending *p = &b->pending[node->id];
    for (int k = 0; k < (p->output ? p->n_outputs : node->schema->n_out); k++) {
        const char *name = p->output ? p->output[k] : node->schema->out[k].name;
        const int *first = p->output ? p->output_first : node->out_first;
        if (strlen(name) != len || memcmp(name, output, len) != 0)
            continue;
        int count = first[k + 1] - first[k];
        if (index >= count)
            return false;
        *r = (struct run){node->id, first[k] + (index < 0 ? 0 : index), index < 0 ? count : 1,
                          false};
        return true;
    }
    return false;
}

static bool resolve(struct build *b, const char *text, struct run *r)
{
    return b->function ? resolve_body(b, text, r) : resolve_main(b, text, r);
}

static struct rt_edge run_at(const struct run *r, int i)
{
    return r->over_nodes ? (struct rt_edge){r->node + i, 0} : (struct rt_edge){r->node, r->out + i};
}

static enum rt_status wrong_count(struct build *b, const struct rt_node *n, int given,
                                  struct rt_error *err)
{
    struct rt_bytes t;
    rt_bytes_init(&t, 16 << 10);
    for (int i = 0; i < n->n_in; i++)
        rt_bytes_addf(&t, "%s%s%s", i ? ", " : "", rt_dtype_name((enum rt_dtype)n->in_dtype[i]),
                      i < 64 && n->in_ref >> i & 1 ? "_ref" : "");
    rt_fail(err, RT_INVALID_ARGUMENT,
            "NodeDef expected inputs '%s' do not match %d inputs specified; Op<name=%s>",
            t.p ? t.p : "", given, n->schema->name);
    rt_bytes_clear(&t);
    return name_node(b, n->name, NULL, err);
}

/* The output must be there, and of the type that input k of n takes. */
static enum rt_status check_edge(struct build *b, const struct rt_node *n, int k, struct rt_edge e,
                                 struct rt_error *err)
{
    struct rt_node *from = &b->node[e.node];
    if (b->pending[e.node].is_stranger) {
        if (e.out >= MAX_ARGS)
            return fail_node(b, n->name, err, "Connecting to invalid output %d of source node %s",
                             e.out, from->name);
        if (from->n_out <= e.out)
            from->n_out = e.out + 1;
        return RT_OK;
    }
    if (e.out >= from->n_out)
        return fail_node(b, n->name, err,
                         "Connecting to invalid output %d of source node %s which has %d outputs.",
                         e.out, from->name, from->n_out);
    if (b->pending[n->id].is_stranger)
        return RT_OK;
    enum rt_dtype got = (enum rt_dtype)from->out_dtype[e.out];
    enum rt_dtype want = (enum rt_dtype)n->in_dtype[k];
    bool got_ref = e.out < 64 && from->out_ref >> e.out & 1;
    bool want_ref = k < 64 && n->in_ref >> k & 1;
    if (got == want && (got_ref || !want_ref))
        return RT_OK;
    enum rt_status st =
        rt_fail(err, RT_INVALID_ARGUMENT,
                "Input %d of node %s was passed %s%s from %s:%d incompatible with expected %s%s.",
                k, n->name, rt_dtype_name(got), got_ref ? "_ref" : "", from->name, e.out,
                rt_dtype_name(want), want_ref ? "_ref" : "");
    if (b->function)
        rt_fail_prefix(err, "Function '%s': ", b->function);
    return st;
}

static enum rt_status connect_node(struct build *b, struct rt_node *n, struct rt_error *err)
{
    struct pending *p = &b->pending[n->id];
    struct rt_edge *in = rt_arena_array(b->l->arena, (size_t)n->n_in, sizeof *in);
    int *ctrl = rt_arena_array(b->l->arena, (size_t)n->n_ctrl, sizeof *ctrl);
    if (!in || !ctrl)
        return no_memory(err);
    n->in = in;
    n->ctrl = ctrl;
    int n_data = p->n_input - n->n_ctrl, n_in = 0;
    for (int i = 0; i < p->n_input; i++) {
        const char *text = p->input[i];
        if (i >= n_data) {
            const struct rt_node *from = rt_map_get(b->names, text + 1);
            if (!from)
                return fail_node(b, n->name, err, "Unknown input node '%s'", text);
            ctrl[i - n_data] = from->id;
            continue;
        }
        struct run r;
        if (!resolve(b, text, &r))
            return fail_node(b, n->name, err, "Unknown input node '%s'", text);
        if (p->is_stranger)
            r.n = r.n < 1 ? 0 : 1;
        for (int k = 0; k < r.n; k++, n_in++) {
            if (n_in >= n->n_in)
                return wrong_count(b, n, n_data > n_in ? n_data : n_in + r.n - k, err);
            in[n_in] = run_at(&r, k);
            enum rt_status st = check_edge(b, n, n_in, in[n_in], err);
            if (st)
                return st;
        }
    }
    if (p->is_stranger)
        n->n_in = n_in;
    return n_in == n->n_in ? RT_OK : wrong_count(b, n, n_in, err);
}

/* ---- cycles ---- */

static bool is_op(const struct rt_node *n, const char *a, const char *b)
{
    return strcmp(n->schema->name, a) == 0 || strcmp(n->schema->name, b) == 0;
}

/* Whether input k of n is a loop's way back, the only edge that may close a cycle. */
static bool is_back_edge(const struct build *b, const struct rt_node *n, int k)
{
    return is_op(n, "Merge", "RefMerge") &&
           is_op(&b->node[n->in[k].node], "NextIteration", "RefNextIteration");
}

/* A node on a cycle, found by going back from `i` over nodes that wait: `waits` of a node is
 * above 0 for as long as something before it waits too. */
static int node_on_cycle(const struct build *b, const int *waits, int i)
{
    for (int steps = 0; steps < b->n; steps++) {
        const struct rt_node *n = &b->node[i];
        int before = -1;
        for (int k = 0; k < n->n_in && before < 0; k++)
            if (waits[n->in[k].node] > 0 && !is_back_edge(b, n, k))
                before = n->in[k].node;
        for (int k = 0; k < n->n_ctrl && before < 0; k++)
            if (waits[n->ctrl[k]] > 0)
                before = n->ctrl[k];
        if (before < 0)
            break;
        i = before;
    }
    return i;
}

static enum rt_status check_cycles(struct build *b, struct rt_error *err)
{
    size_t n_edges = 0;
    for (int i = 0; i < b->n; i++)
        n_edges += (size_t)b->node[i].n_in + (size_t)b->node[i].n_ctrl;
    int *waits = rt_arena_array(b->temp, (size_t)b->n, sizeof *waits);
    int *ready = rt_arena_array(b->temp, (size_t)b->n, sizeof *ready);
    size_t *first = rt_arena_array(b->temp, (size_t)b->n + 2, sizeof *first);
    int *to = rt_arena_array(b->temp, n_edges, sizeof *to);
    if (!waits || !ready || !first || !to)
        return no_memory(err);

    /* Consumers of node i: to[first[i]] up to to[first[i + 1]]; counted one place further, so that
     * filling moves the starts into their places. */
    for (int fill = 0; fill < 2; fill++) {
        for (int i = 0; i < b->n; i++) {
            const struct rt_node *n = &b->node[i];
            for (int k = 0; k < n->n_in + n->n_ctrl; k++) {
                bool data = k < n->n_in;
                if (data && is_back_edge(b, n, k))
                    continue;
                int from = data ? n->in[k].node : n->ctrl[k - n->n_in];
                if (fill) {
                    to[first[from + 1]++] = i;
                } else {
                    first[from + 2]++;
                    waits[i]++;
                }
            }
        }
        for (int i = 0; !fill && i < b->n; i++)
            first[i + 2] += first[i + 1];
    }
    int n_ready = 0;
    for (int i = 0; i < b->n; i++)
        if (!waits[i])
            ready[n_ready++] = i;
    for (int at = 0; at < n_ready; at++)
        for (size_t e = first[ready[at]]; e < first[ready[at] + 1]; e++)
            if (--waits[to[e]] == 0)
                ready[n_ready++] = to[e];
    if (n_ready == b->n)
        return RT_OK;
    for (int i = 0; i < b->n; i++)
        if (waits[i] > 0) {
            enum rt_status st =
                rt_fail(err, RT_INVALID_ARGUMENT, "%d nodes in a cycle, '%s' is one of them",
                        b->n - n_ready, b->node[node_on_cycle(b, waits, i)].name);
            if (b->function)
                rt_fail_prefix(err, "Function '%s': ", b->function);
            return st;
        }
    return RT_OK;
}

/* ---- a graph ---- */

static enum rt_status start(struct build *b, struct rt_library *l, const char *function,
                            size_t n_nodes, struct rt_error *err)
{
    *b = (struct build){.l = l, .function = function};
    if (n_nodes > INT32_MAX / 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a graph of %zu nodes", n_nodes);
    b->temp = rt_arena_new(SIZE_MAX);
    if (!b->temp)
        return no_memory(err);
    struct name_map *names = rt_arena_alloc(l->arena, sizeof *names);
    b->g = rt_arena_alloc(l->arena, sizeof *b->g);
    b->node = rt_arena_array(l->arena, n_nodes, sizeof *b->node);
    b->pending = rt_arena_array(b->temp, n_nodes, sizeof *b->pending);
    if (!names || !b->g || !b->node || !b->pending)
        return no_memory(err);
    names->next = l->names;
    l->names = names;
    b->names = &names->map;
    b->room = (int)n_nodes;
    b->g->name = function ? function : "";
    b->g->by_name = b->names;
    b->reader =
        (struct rt_attr_reader){.arena = l->arena, .held = &l->held, .splat_left = &l->splat_left};
    return RT_OK;
}

static enum rt_status connect_all(struct build *b, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    for (int i = 0; i < b->n && !st; i++)
        st = connect_node(b, &b->node[i], err);
    return st;
}

/* Once all edges are there: cycles and each op's own rules. */
static enum rt_status finish(struct build *b, struct rt_error *err)
{
    for (int i = 0; i < b->n; i++)
        if (b->pending[i].is_stranger) {
            uint8_t *types = rt_arena_alloc(b->l->arena, (size_t)b->node[i].n_out);
            if (!types)
                return no_memory(err);
            b->node[i].out_dtype = types; /* RT_NO_DTYPE */
        }
    enum rt_status st = check_cycles(b, err);
    for (int i = 0; i < b->n && !st; i++) {
        const struct rt_node *n = &b->node[i];
        if (n->op && n->op->check) {
            st = n->op->check(n, err);
            if (st)
                name_node(b, n->name, NULL, err);
        }
    }
    b->g->node = b->node;
    b->g->n_nodes = b->n;
    return st;
}

static void end(struct build *b)
{
    rt_arena_free(b->temp);
    rt_map_clear(&b->args);
}

/* ---- the main graph ---- */

/* Name, signature and statefulness of a FunctionDef, without reading the rest. */
static enum rt_status add_function(struct rt_library *l, struct rt_span def, struct rt_error *err)
{
    struct function *f = rt_arena_alloc(l->arena, sizeof *f);
    unsigned char *copy = rt_arena_aligned(l->arena, def.n, 16);
    if (!f || !copy)
        return no_memory(err);
    memcpy(copy, def.p, def.n);
    f->def = rt_span_of(copy, def.n);
    f->name = "";
    struct pb_field x;
    for (struct rt_span rest = f->def; rest.n;) {
        if (pb_field_next(&rest, &x) < 0)
            return not_parsed(err, "a function of the library");
        if (x.number == 1 && x.type == PB_BYTES)
            f->signature = x.bytes;
    }
    for (struct rt_span rest = f->signature; rest.n;) {
        if (pb_field_next(&rest, &x) < 0)
            return not_parsed(err, "the signature of a function of the library");
        if (x.number == 1 && x.type == PB_BYTES) {
            f->name = rt_arena_strndup(l->arena, (const char *)x.bytes.p, x.bytes.n);
            if (!f->name)
                return no_memory(err);
        }
        if (x.number == 17 && x.type == PB_VARINT)
            f->is_stateful = x.value != 0;
    }
    if (rt_schema_find(f->name))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Cannot add function '%s' because an op with the same name already exists.",
                       f->name);
    const struct function *other = rt_map_get(&l->functions, f->name);
    if (other && !rt_span_eq(other->def, f->def))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Cannot add function '%s' because a different function with the same name "
                       "already exists.",
                       f->name);
    return other || rt_map_put(&l->functions, f->name, f) ? RT_OK : no_memory(err);
}

static enum rt_status add_functions(struct rt_library *l, struct rt_span library,
                                    struct rt_error *err)
{
    struct pb_field f;
    while (library.n) {
        if (pb_field_next(&library, &f) < 0)
            return not_parsed(err, "the library of functions");
        if (f.number == 1 && f.type == PB_BYTES) {
            enum rt_status st = add_function(l, f.bytes, err);
            if (st)
                return st;
        }
    }
    return RT_OK;
}

static enum rt_status check_versions(struct rt_span bytes, struct rt_error *err)
{
    Tensorflow__VersionDef *v;
    enum rt_status st =
        unpack(&v, &tensorflow__version_def__descriptor, bytes, "the GraphDef's version", err);
    if (st)
        return st;
    if (v->min_consumer > GRAPH_VERSION)
        st = rt_fail(err, RT_INVALID_ARGUMENT,
                     "GraphDef min consumer version %d above current version %d.",
                     (int)v->min_consumer, GRAPH_VERSION);
    for (size_t i = 0; i < v->n_bad_consumers && !st; i++)
        if (v->bad_consumers[i] == GRAPH_VERSION)
            st = rt_fail(err, RT_INVALID_ARGUMENT, "GraphDef disallows consumer version %d.",
                         GRAPH_VERSION);
    pb_free(v);
    return st;
}

static enum rt_status import_main(struct rt_library *l, struct rt_span graph_def,
                                  struct rt_error *err)
{
    size_t n_nodes = 0;
    struct pb_field f;
    for (struct rt_span rest = graph_def; rest.n;) {
        if (pb_field_next(&rest, &f) < 0)
            return not_parsed(err, "the GraphDef");
        n_nodes += f.number == 1 && f.type == PB_BYTES;
    }
    struct build b;
    enum rt_status st = start(&b, l, NULL, n_nodes, err);
    /* Functions first: a node may name one as its op. */
    for (struct rt_span rest = graph_def; rest.n && !st;) {
        pb_field_next(&rest, &f);
        if (f.number == 2 && f.type == PB_BYTES)
            st = add_functions(l, f.bytes, err);
        else if (f.number == 4 && f.type == PB_BYTES)
            st = check_versions(f.bytes, err);
    }
    for (struct rt_span rest = graph_def; rest.n && !st;) {
        pb_field_next(&rest, &f);
        if (f.number != 1 || f.type != PB_BYTES)
            continue;
        Tensorflow__NodeDef *def;
        st =
            unpack(&def, &tensorflow__node_def__descriptor, f.bytes, "a node of the GraphDef", err);
        if (!st)
            st = add_node(&b, def, err);
        pb_free(def);
    }
    if (!st)
        st = connect_all(&b, err);
    if (!st)
        st = finish(&b, err);
    if (!st)
        l->main = b.g;
    end(&b);
    return st;
}

enum rt_status rt_library_import(struct rt_library **out, struct rt_span graph_def,
                                 const struct rt_registry *ops, struct rt_error *err)
{
    struct rt_library *l = calloc(1, sizeof *l);
    if (!l)
        return no_memory(err);
    rt_mutex_init(&l->mu);
    l->ops = ops;
    l->splat_left = splat_total;
    l->arena = rt_arena_new(SIZE_MAX);
    enum rt_status st = l->arena ? import_main(l, graph_def, err) : no_memory(err);
    if (st) {
        rt_library_free(l);
        return st;
    }
    *out = l;
    return RT_OK;
}

void rt_library_free(struct rt_library *l)
{
    if (!l)
        return;
    rt_attr_drop(l->held);
    for (struct name_map *m = l->names; m; m = m->next)
        rt_map_clear(&m->map);
    rt_map_clear(&l->functions);
    rt_map_clear(&l->bodies);
    rt_mutex_clear(&l->mu);
    rt_arena_free(l->arena);
    free(l);
}

const struct rt_graph *rt_library_main(const struct rt_library *l)
{
    return l->main;
}

/* ---- functions ---- */

static enum rt_status add_arg_nodes(struct build *b, const Tensorflow__OpDef *sig,
                                    const struct rt_attr *types, struct rt_error *err)
{
    const struct rt_schema *s = rt_schema_find("_Arg");
    int *arg = rt_arena_array(b->l->arena, types->n, sizeof *arg);
    if (!arg)
        return no_memory(err);
    b->g->arg = arg;
    b->g->n_args = (int)types->n;
    size_t at = 0;
    for (size_t i = 0; i < sig->n_input_arg; i++) {
        const uint8_t *t;
        struct arg *a = rt_arena_alloc(b->temp, sizeof *a);
        enum rt_status st = arg_types(b->temp, b->function, sig->input_arg[i], b->reader.with, &t,
                                      a ? &a->n : &(int){0}, err);
        if (st)
            return st;
        if (!a)
            return no_memory(err);
        a->first = b->n;
        if (rt_map_get(&b->args, sig->input_arg[i]->name))
            return rt_fail(err, RT_INVALID_ARGUMENT, "Function '%s': Duplicated func arg name: %s",
                           b->function, sig->input_arg[i]->name);
        if (!rt_map_put(&b->args, sig->input_arg[i]->name, a))
            return no_memory(err);
        for (int k = 0; k < a->n; k++, at++) {
            char *name = a->n == 1 ? sig->input_arg[i]->name
                                   : rt_arena_printf(b->temp, "%s_%d", sig->input_arg[i]->name, k);
            struct rt_node *n = name ? new_node(b, name, "") : NULL;
            struct rt_attr *attr = rt_arena_array(b->l->arena, s->n_attr, sizeof *attr);
            int *first = rt_arena_array(b->l->arena, 2, sizeof *first);
            if (!n || !attr || !first)
                return no_memory(err);
            n->schema = s;
            n->op = b->l->ops ? rt_registry_op(b->l->ops, s->name) : NULL;
            n->attr = attr;
            attr[rt_schema_attr(s, "T")] = (struct rt_attr){
                .type = RT_ATTR_TYPE, .n = 1, .v.t = (enum rt_dtype)types->v.types[at]};
            attr[rt_schema_attr(s, "index")] =
                (struct rt_attr){.type = RT_ATTR_INT, .n = 1, .v.i = (int64_t)at};
            first[1] = 1;
            n->in_first = first;
            n->out_first = first;
            n->n_out = 1;
            n->out_dtype = &types->v.types[at];
            n->in_dtype = &types->v.types[at];
            arg[at] = n->id;
        }
    }
    return RT_OK;
}

static enum rt_status add_rets(struct build *b, const Tensorflow__FunctionDef *def,
                               const struct rt_attr *types, struct rt_error *err)
{
    const Tensorflow__OpDef *sig = def->signature;
    struct rt_edge *ret = rt_arena_array(b->l->arena, types->n, sizeof *ret);
    if (!ret)
        return no_memory(err);
    size_t at = 0;
    for (size_t i = 0; i < sig->n_output_arg; i++) {
        const char *name = sig->output_arg[i]->name, *text = NULL;
        const uint8_t *t;
        int n;
        enum rt_status st =
            arg_types(b->temp, b->function, sig->output_arg[i], b->reader.with, &t, &n, err);
        if (st)
            return st;
        for (size_t k = 0; k < def->n_ret; k++)
            if (strcmp(def->ret[k]->key, name) == 0)
                text = def->ret[k]->value;
        if (!text)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Function '%s': Return %s missing.",
                           b->function, name);
        struct run r;
        if (!resolve(b, text, &r))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Function '%s': return '%s' names '%s', which is not there", b->function,
                           name, text);
        for (int k = 0; k < n; k++, at++) {
            struct rt_edge e = run_at(&r, k);
            struct rt_node *from =
                e.node < (r.over_nodes ? b->g->n_args : b->n) ? &b->node[e.node] : NULL;
            bool is_stranger = from && b->pending[e.node].is_stranger;
            if (is_stranger && e.out < MAX_ARGS && from->n_out <= e.out)
                from->n_out = e.out + 1;
            if (!from || e.out >= from->n_out)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Function '%s': return '%s' is %d tensors, '%s' has less",
                               b->function, name, n, text);
            if (!is_stranger && from->out_dtype[e.out] != t[k])
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Function '%s': return '%s' is %s, the signature says %s",
                               b->function, name,
                               rt_dtype_name((enum rt_dtype)from->out_dtype[e.out]),
                               rt_dtype_name((enum rt_dtype)t[k]));
            ret[at] = e;
        }
    }
    b->g->ret = ret;
    b->g->n_rets = (int)types->n;

    int *ctrl = rt_arena_array(b->l->arena, def->n_control_ret, sizeof *ctrl);
    if (!ctrl)
        return no_memory(err);
    for (size_t i = 0; i < def->n_control_ret; i++) {
        const struct rt_node *n = rt_map_get(b->names, def->control_ret[i]->value);
        if (!n)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Function '%s': control return '%s' names '%s', which is not there",
                           b->function, def->control_ret[i]->key, def->control_ret[i]->value);
        ctrl[i] = n->id;
    }
    b->g->ctrl_ret = ctrl;
    b->g->n_ctrl_rets = (int)def->n_control_ret;
    return RT_OK;
}

static enum rt_status build_body(struct build *b, const Tensorflow__FunctionDef *def,
                                 const struct rt_func_ref *given, struct rt_error *err)
{
    struct rt_func_ref *with = rt_arena_alloc(b->temp, sizeof *with);
    if (!with)
        return no_memory(err);
    const Tensorflow__OpDef *sig = def->signature;
    struct rt_attr in, out;
    enum rt_status st = add_defaults(b, sig, given, with, err);
    if (st)
        return st;
    b->reader.with = with;
    st = all_types(b->l->arena, b->function, sig->input_arg, sig->n_input_arg, with, &in, err);
    if (!st)
        st = all_types(b->temp, b->function, sig->output_arg, sig->n_output_arg, with, &out, err);
    if (st)
        return st;
    if (in.n + def->n_node_def > INT32_MAX / 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Function '%s' is too large", b->function);
    size_t room = in.n + def->n_node_def;
    b->node = rt_arena_array(b->l->arena, room, sizeof *b->node);
    b->pending = rt_arena_array(b->temp, room, sizeof *b->pending);
    if (!b->node || !b->pending)
        return no_memory(err);
    st = add_arg_nodes(b, sig, &in, err);
    for (size_t i = 0; i < def->n_node_def && !st; i++)
        st = add_node(b, def->node_def[i], err);
    /* An argument's node is found by name too, where no node of the body has that name. */
    for (int i = 0; i < b->g->n_args && !st; i++) {
        struct rt_node *n = &b->node[b->g->arg[i]];
        if (!rt_map_get(b->names, n->name) && !rt_map_put(b->names, n->name, n))
            st = no_memory(err);
    }
    if (!st)
        st = connect_all(b, err);
    if (!st)
        st = add_rets(b, def, &out, err);
    if (!st)
        st = finish(b, err);
    b->g->is_stateful = sig->is_stateful;
    return st;
}

static void key_of(struct rt_bytes *key, const struct rt_func_ref *f);

static void key_attr(struct rt_bytes *key, const struct rt_attr *a)
{
    rt_bytes_addc(key, (char)a->type);
    rt_bytes_add(key, &a->n, sizeof a->n);
    switch (a->type) {
    case RT_ATTR_STRING:
        rt_bytes_add(key, a->v.s, a->n);
        break;
    case RT_ATTR_INT:
        rt_bytes_add(key, &a->v.i, sizeof a->v.i);
        break;
    case RT_ATTR_FLOAT:
        rt_bytes_add(key, &a->v.f, sizeof a->v.f);
        break;
    case RT_ATTR_BOOL:
        rt_bytes_add(key, &a->v.b, sizeof a->v.b);
        break;
    case RT_ATTR_TYPE:
        rt_bytes_add(key, &a->v.t, sizeof a->v.t);
        break;
    case RT_ATTR_SHAPE:
        rt_bytes_add(key, a->v.shape, sizeof *a->v.shape);
        break;
    case RT_ATTR_FUNC:
        key_of(key, a->v.func);
        break;
    case RT_ATTR_LIST + RT_ATTR_STRING:
        for (size_t i = 0; i < a->n; i++) {
            rt_bytes_add(key, &a->v.strs[i].n, sizeof a->v.strs[i].n);
            rt_bytes_add(key, a->v.strs[i].p, a->v.strs[i].n);
        }
        break;
    case RT_ATTR_LIST + RT_ATTR_INT:
        rt_bytes_add(key, a->v.ints, a->n * sizeof *a->v.ints);
        break;
    case RT_ATTR_LIST + RT_ATTR_FLOAT:
        rt_bytes_add(key, a->v.floats, a->n * sizeof *a->v.floats);
        break;
    case RT_ATTR_LIST + RT_ATTR_BOOL:
        rt_bytes_add(key, a->v.bools, a->n * sizeof *a->v.bools);
        break;
    case RT_ATTR_LIST + RT_ATTR_TYPE:
        rt_bytes_add(key, a->v.types, a->n);
        break;
    case RT_ATTR_LIST + RT_ATTR_SHAPE:
        rt_bytes_add(key, a->v.shapes, a->n * sizeof *a->v.shapes);
        break;
    case RT_ATTR_LIST + RT_ATTR_FUNC:
        for (size_t i = 0; i < a->n; i++)
            key_of(key, &a->v.funcs[i]);
        break;
    case RT_ATTR_LIST:
    case RT_ATTR_NONE:
        break;
    default: /* tensors: the same one only */
        rt_bytes_add(key, &a->v.tensor, sizeof a->v.tensor);
        break;
    }
}

/* The same bytes for the same attributes in whatever order; name and lengths keep it unambiguous.
 * Names of attributes are few, so the next greater one is searched. */
static void key_of(struct rt_bytes *key, const struct rt_func_ref *f)
{
    rt_bytes_add(key, f->name, strlen(f->name) + 1);
    const char *last = NULL;
    for (int done = 0; done < f->n_attr; done++) {
        const struct rt_named_attr *next = NULL;
        for (int i = 0; i < f->n_attr; i++) {
            const struct rt_named_attr *a = &f->attr[i];
            if ((!last || strcmp(a->name, last) > 0) && (!next || strcmp(a->name, next->name) < 0))
                next = a;
        }
        if (!next)
            break;
        last = next->name;
        rt_bytes_add(key, last, strlen(last) + 1);
        key_attr(key, &next->value);
    }
    rt_bytes_addc(key, '\n');
}

static enum rt_status make_body(struct rt_library *l, const struct function *f,
                                const struct rt_func_ref *ref, struct body *out,
                                struct rt_error *err)
{
    struct build b;
    Tensorflow__FunctionDef *def = NULL;
    enum rt_status st = start(&b, l, f->name, 0, err);
    if (!st)
        st = unpack(&def, &tensorflow__function_def__descriptor, f->def, f->name, err);
    if (!st && !def->signature)
        st = rt_fail(err, RT_INVALID_ARGUMENT, "Function '%s' has no signature", f->name);
    if (!st)
        st = build_body(&b, def, ref, err);
    if (!st)
        out->graph = b.g;
    pb_free(def);
    end(&b);
    return st;
}

enum rt_status rt_library_instantiate(struct rt_library *l, const struct rt_func_ref *ref,
                                      const struct rt_graph **out, struct rt_error *err)
{
    const struct function *f = rt_map_get(&l->functions, ref->name);
    if (!f)
        return rt_fail(err, RT_NOT_FOUND, "Function %s is not defined.", ref->name);
    struct rt_bytes key;
    rt_bytes_init(&key, 16 << 20);
    key_of(&key, ref);
    if (key.failed) {
        rt_bytes_clear(&key);
        return no_memory(err);
    }

    struct rt_error why = {.arena = err ? err->arena : NULL};
    rt_mutex_lock(&l->mu);
    struct body *body = rt_map_getn(&l->bodies, key.p, key.n);
    if (!body) {
        body = rt_arena_alloc(l->arena, sizeof *body);
        if (body && rt_map_putn(&l->bodies, key.p, key.n, body)) {
            body->status = make_body(l, f, ref, body, &why);
            if (body->status)
                body->text = rt_arena_strdup(l->arena, rt_error_text(&why));
        } else {
            body = NULL;
        }
    }
    rt_mutex_unlock(&l->mu);
    rt_bytes_clear(&key);
    if (!body)
        return no_memory(err);
    if (body->status)
        return rt_fail(err, body->status, "%s", body->text ? body->text : "out of memory");
    *out = body->graph;
    return RT_OK;
}
