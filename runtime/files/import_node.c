/* Makes the nodes of a graph, with their names, schemas, attributes and types. import_edge.c makes
 * the edges. */
#include "runtime/files/import.h"

#include <stdlib.h>
#include <string.h>

#include "proto/unpack.h"
#include "runtime/base/sort.h"
#include "runtime/core/op.h"

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

/* Determines, from the node's attributes, the tensors of each argument and the types of these
 * tensors. */
static enum rt_status expand_args(struct im_build *b, const struct rt_node *n,
                                  const struct rt_arg_schema *arg, int n_args, int *n_tensors,
                                  const int **first, const uint8_t **dtype, uint64_t *refs,
                                  struct rt_error *err)
{
    int *at = rt_arena_array(b->l->arena, (size_t)n_args + 1, sizeof *at);
    if (!at)
        return im_no_memory(err);
    int64_t total = 0;
    for (int k = 0; k < n_args; k++) {
        const struct rt_arg_schema *a = &arg[k];
        int64_t count = a->number_attr >= 0 ? n->attr[a->number_attr].v.i
                        : a->list_attr >= 0 ? (int64_t)n->attr[a->list_attr].n
                                            : 1;
        if (count < 0 || count > IM_MAX_ARGS - total)
            return rt_fail(err, RT_INVALID_ARGUMENT, "argument '%s' stands for %lld tensors",
                           a->name, (long long)count);
        at[k] = (int)total;
        total += count;
    }
    at[n_args] = (int)total;
    uint8_t *types = rt_arena_alloc(b->l->arena, (size_t)total);
    if (!types)
        return im_no_memory(err);
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

/* Finds the values of the schema's attributes in a NodeDef. Sets value[k] to the value of attribute
 * k. The elements of `value` must be NULL before the call; value[k] stays NULL if the NodeDef lacks
 * attribute k. If a key occurs several times, its last value is used, as in a protobuf map. */
static enum rt_status find_attrs(struct im_build *b, const struct rt_schema *s,
                                 const Tensorflow__NodeDef *def,
                                 const Tensorflow__AttrValue **value, struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (size_t i = 0; i < def->n_attr && !st; i++) {
        const int k = rt_schema_attr(s, def->attr[i]->key);
        if (k >= 0)
            value[k] = def->attr[i]->value;
        st = im_step(b, err);
    }
    return st;
}

/* Reads the attributes that the schema lists. Other attributes are ignored, as in TensorFlow. */
static enum rt_status read_attrs(struct im_build *b, struct rt_node *n,
                                 const Tensorflow__NodeDef *def, struct rt_error *err)
{
    const struct rt_schema *s = n->schema;
    struct rt_attr *attr = rt_arena_array(b->l->arena, s->n_attr, sizeof *attr);
    const Tensorflow__AttrValue **value = rt_arena_array(b->temp, s->n_attr, sizeof *value);
    if (!attr || !value)
        return im_no_memory(err);
    n->attr = attr;
    enum rt_status st = find_attrs(b, s, def, value, err);
    for (int i = 0; i < s->n_attr && !st; i++) {
        const struct rt_attr_schema *a = &s->attr[i];
        const Tensorflow__AttrValue *v = value[i];
        if (v) {
            st = rt_attr_read(&b->reader, v, a->type, &attr[i], err);
            if (st) {
                rt_fail_prefix(err, "attr '%s': ", a->name);
                return im_name_node(b, n->name, s, err);
            }
            st = rt_attr_check(&b->reader, a, &attr[i], err);
        } else if (a->has_default) {
            st = rt_attr_default(&b->reader, a, &attr[i], err);
        } else {
            rt_fail(err, RT_INVALID_ARGUMENT, "NodeDef missing attr '%s' from Op<name=%s>", a->name,
                    s->name);
            return im_name_node(b, n->name, NULL, err);
        }
        if (st)
            return im_name_node(b, n->name, s, err);
    }
    if (st)
        return st;
    if (strcmp(s->name, "Const") == 0) {
        enum rt_dtype want = rt_attr_dtype(n, "dtype");
        const struct rt_tensor *t = rt_attr(n, "value")->v.tensor;
        if (t->dtype != want) {
            rt_fail(err, RT_INVALID_ARGUMENT, "the value is of type %s, attr 'dtype' says %s",
                    rt_dtype_name((enum rt_dtype)t->dtype), rt_dtype_name(want));
            return im_name_node(b, n->name, s, err);
        }
    }
    return RT_OK;
}

/* Adds a node. b->node must have capacity for it. */
struct rt_node *im_new_node(struct im_build *b, const char *name, const char *device)
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

/* ---- calls by name ---- */

static int by_name_then_place(const void *a, const void *b)
{
    const struct im_output *x = a, *y = b;
    const int by_name = strcmp(x->name, y->name);
    return by_name ? by_name : (x->first > y->first) - (x->first < y->first);
}

/* Lists the outputs of a function call with their names in the function's signature. The list is
 * sorted for binary search, because a function may have up to 65,536 outputs, and a graph may refer
 * to all of them. */
static enum rt_status name_outputs(struct im_build *b, struct im_pending *p,
                                   const Tensorflow__OpDef *sig, const struct rt_func_ref *with,
                                   struct rt_error *err)
{
    p->output = rt_arena_array(b->temp, sig->n_output_arg, sizeof *p->output);
    if (!p->output)
        return im_no_memory(err);
    int first = 0;
    for (size_t i = 0; i < sig->n_output_arg; i++) {
        const uint8_t *types;
        int n;
        enum rt_status st = im_step(b, err);
        if (!st)
            st = im_arg_types(b->temp, sig->name, sig->output_arg[i], with, &types, &n, err);
        if (st)
            return st;
        const char *name = rt_arena_strdup(b->temp, sig->output_arg[i]->name);
        if (!name)
            return im_no_memory(err);
        p->output[i] = (struct im_output){name, first, n};
        first += n;
    }
    p->n_outputs = (int)sig->n_output_arg;
    return rt_sort_alloc(p->output, sig->n_output_arg, sizeof *p->output, by_name_then_place,
                         "a signature", b->l->check, err);
}

static enum rt_status signature_of(struct im_build *b, const struct im_function *f,
                                   const Tensorflow__OpDef **out, struct rt_error *err)
{
    Tensorflow__OpDef *sig;

    *out = rt_map_get(&b->signatures, f->name);
    if (*out)
        return RT_OK;
    const enum rt_status st =
        im_unpack(b->l, &sig, &tensorflow__op_def__descriptor, f->signature, f->name, err);
    if (st)
        return st;
    if (!rt_map_put(&b->signatures, f->name, sig)) {
        pb_free(sig);
        return im_no_memory(err);
    }
    *out = sig;
    return RT_OK;
}

/* Turns a node whose op is the name of a function into a PartitionedCall. Early TensorFlow graphs
 * have such nodes. */
static enum rt_status call_by_name(struct im_build *b, struct rt_node *n,
                                   const struct im_function *f, const Tensorflow__NodeDef *def,
                                   struct rt_error *err)
{
    n->schema = rt_schema_find(f->is_stateful ? "StatefulPartitionedCall" : "PartitionedCall");
    const struct rt_schema *s = n->schema;
    struct rt_attr *attr = rt_arena_array(b->l->arena, s->n_attr, sizeof *attr);
    struct rt_func_ref *ref = rt_arena_alloc(b->l->arena, sizeof *ref);
    if (!attr || !ref)
        return im_no_memory(err);
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
        return im_no_memory(err);
    for (size_t i = 0; i < def->n_attr; i++) {
        entry[i] = &entries[i];
        tensorflow__name_attr_list__attr_entry__init(entry[i]);
        entry[i]->key = def->attr[i]->key;
        entry[i]->value = def->attr[i]->value;
        const enum rt_status ended = im_step(b, err);
        if (ended)
            return ended;
    }
    list.name = def->op;
    list.n_attr = def->n_attr;
    list.attr = entry;
    const Tensorflow__OpDef *sig;
    struct rt_func_ref with;
    enum rt_status st = rt_func_ref_read(&b->reader, &list, ref, err);
    if (!st)
        st = signature_of(b, f, &sig, err);
    if (!st)
        st = im_add_defaults(b, sig, ref, &with, err);
    if (!st)
        st = im_all_types(b, b->l->arena, f->name, sig->input_arg, sig->n_input_arg, &with,
                          &attr[rt_schema_attr(s, "Tin")], err);
    if (!st)
        st = im_all_types(b, b->l->arena, f->name, sig->output_arg, sig->n_output_arg, &with,
                          &attr[rt_schema_attr(s, "Tout")], err);
    if (!st)
        st = name_outputs(b, &b->pending[n->id], sig, &with, err);
    attr[rt_schema_attr(s, "f")] = (struct rt_attr){.type = RT_ATTR_FUNC, .n = 1, .v.func = ref};
    return st ? im_name_node(b, n->name, s, err) : RT_OK;
}

/* ---- any node ---- */

enum rt_status im_add_node(struct im_build *b, const Tensorflow__NodeDef *def, struct rt_error *err)
{
    if (!b->function && !is_name(def->name))
        return im_fail_node(b, def->name, err, "Node name contains invalid characters");
    if (rt_map_get(b->names, def->name)) {
        enum rt_status st = rt_fail(err, RT_INVALID_ARGUMENT, "Node '%s' is not unique", def->name);
        if (b->function)
            rt_fail_prefix(err, "Function '%s': ", b->function);
        return st;
    }
    struct im_pending *p = &b->pending[b->n];
    struct rt_node *n = im_new_node(b, def->name, def->device);
    if (!n || !rt_map_put(b->names, n->name, n))
        return im_no_memory(err);

    p->input = rt_arena_array(b->temp, def->n_input, sizeof *p->input);
    if (!p->input)
        return im_no_memory(err);
    bool ctrl = false;
    for (size_t i = 0; i < def->n_input; i++) {
        if (ctrl && def->input[i][0] != '^')
            return im_fail_node(b, n->name, err,
                                "Control dependencies must come after regular dependencies");
        ctrl = def->input[i][0] == '^';
        p->input[i] = rt_arena_strdup(b->temp, def->input[i]);
        if (!p->input[i])
            return im_no_memory(err);
        n->n_ctrl += ctrl;
        const enum rt_status ended = im_step(b, err);
        if (ended)
            return ended;
    }
    if (def->n_input > INT32_MAX)
        return im_fail_node(b, n->name, err, "too many inputs");
    p->n_input = (int)def->n_input;

    n->schema = rt_schema_find(def->op);
    const struct im_function *f = n->schema ? NULL : rt_map_get(&b->l->functions, def->op);
    enum rt_status st;
    if (f) {
        st = call_by_name(b, n, f, def, err);
    } else if (n->schema) {
        st = read_attrs(b, n, def, err);
    } else {
        /* An unknown op is refused only when a plan needs it, because a model may contain training
         * ops that are never run in serving. */
        struct rt_schema *s = rt_arena_alloc(b->l->arena, sizeof *s);
        if (!s)
            return im_no_memory(err);
        s->name = rt_arena_strdup(b->l->arena, def->op);
        if (!s->name)
            return im_no_memory(err);
        n->schema = s;
        p->is_stranger = true;
        n->n_in = p->n_input - n->n_ctrl;
        static const int none[1];
        n->in_first = n->out_first = none;
        uint8_t *types = rt_arena_alloc(b->l->arena, (size_t)n->n_in);
        if (!types)
            return im_no_memory(err);
        n->in_dtype = types; /* The arena zeroes the array, so each type is RT_NO_DTYPE. */
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
    return st ? im_name_node(b, n->name, n->schema, err) : RT_OK;
}
