/* Makes the body of a function for one set of attributes. Arguments become nodes, and return values
 * become edges. */
#include "runtime/files/import.h"

#include <string.h>

#include "runtime/core/registry.h"

/* ---- types of arguments ---- */

static const struct rt_attr *named_attr(const struct rt_func_ref *f, const char *name)
{
    for (int i = 0; i < f->n_attr; i++)
        if (strcmp(f->attr[i].name, name) == 0)
            return &f->attr[i].value;
    return NULL;
}

/* Finds the types of an argument's tensors. If the argument has a type_list_attr, this attribute
 * lists the types. Otherwise, the argument has one type, which is fixed or given by type_attr. If
 * the argument has a number_attr, the type is repeated number_attr times. */
enum rt_status im_arg_types(struct rt_arena *arena, const char *function,
                            const Tensorflow__OpDef__ArgDef *a, const struct rt_func_ref *with,
                            const uint8_t **types, int *n, struct rt_error *err)
{
    const char *missing = NULL;
    if (a->type_list_attr[0]) {
        const struct rt_attr *v = named_attr(with, a->type_list_attr);
        if (v && v->type == RT_ATTR_LIST + RT_ATTR_TYPE && v->n <= IM_MAX_ARGS) {
            *types = v->v.types;
            *n = (int)v->n;
            return RT_OK;
        }
        /* The attribute is an empty list of unknown element type. */
        if (v && v->type == RT_ATTR_LIST) {
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
        if (!v || v->type != RT_ATTR_INT || v->v.i < 0 || v->v.i > IM_MAX_ARGS)
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
        return im_no_memory(err);
    memset(t, type, (size_t)count);
    *types = t;
    *n = (int)count;
    return RT_OK;
}

enum rt_status im_all_types(struct im_build *b, struct rt_arena *arena, const char *function,
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
            enum rt_status st = im_arg_types(arena, function, arg[i], with, &types, &count, err);
            if (!st)
                st = im_step(b, err);
            if (st)
                return st;
            if (pass && count)
                memcpy(all + n, types, (size_t)count);
            n += (size_t)count;
        }
        if (!pass && !(all = rt_arena_alloc(arena, n)))
            return im_no_memory(err);
    }
    *out = (struct rt_attr){.type = RT_ATTR_LIST + RT_ATTR_TYPE, .n = n, .v.types = all};
    return RT_OK;
}

/* Adds the signature's default values. An attribute without a given or default value stays missing.
 * A placeholder that refers to a missing attribute causes an error later. */
enum rt_status im_add_defaults(struct im_build *b, const Tensorflow__OpDef *sig,
                               const struct rt_func_ref *given, struct rt_func_ref *with,
                               struct rt_error *err)
{
    struct rt_named_attr *attr =
        rt_arena_array(b->l->arena, (size_t)given->n_attr + sig->n_attr, sizeof *attr);
    if (!attr)
        return im_no_memory(err);
    *with = (struct rt_func_ref){
        .name = given->name, .n_attr = given->n_attr, .attr = attr, .depth = given->depth};
    if (given->n_attr)
        memcpy(attr, given->attr, (size_t)given->n_attr * sizeof *attr);
    for (size_t i = 0; i < sig->n_attr; i++) {
        const Tensorflow__OpDef__AttrDef *a = sig->attr[i];
        enum rt_status st = im_step(b, err);
        if (st)
            return st;
        if (!a->default_value || named_attr(given, a->name))
            continue;
        if (with->n_attr == RT_MAX_FUNC_ATTRS)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Function '%s' has more than %d attributes",
                           given->name, RT_MAX_FUNC_ATTRS);
        struct rt_named_attr *to = &attr[with->n_attr++];
        to->name = rt_arena_strdup(b->l->arena, a->name);
        if (!to->name)
            return im_no_memory(err);
        st = rt_attr_read(&b->reader, a->default_value, RT_ATTR_NONE, &to->value, err);
        if (st)
            return st;
    }
    return RT_OK;
}

/* ---- bodies ---- */

static enum rt_status add_arg_nodes(struct im_build *b, const Tensorflow__OpDef *sig,
                                    const struct rt_attr *types, struct rt_error *err)
{
    const struct rt_schema *s = rt_schema_find("_Arg");
    int *arg = rt_arena_array(b->l->arena, types->n, sizeof *arg);
    if (!arg)
        return im_no_memory(err);
    b->g->arg = arg;
    b->g->n_args = (int)types->n;
    size_t at = 0;
    for (size_t i = 0; i < sig->n_input_arg; i++) {
        const uint8_t *t;
        struct im_arg *a = rt_arena_alloc(b->temp, sizeof *a);
        enum rt_status st = im_arg_types(b->temp, b->function, sig->input_arg[i], b->reader.with,
                                         &t, a ? &a->n : &(int){0}, err);
        if (st)
            return st;
        if (!a)
            return im_no_memory(err);
        a->first = b->n;
        if (rt_map_get(&b->args, sig->input_arg[i]->name))
            return rt_fail(err, RT_INVALID_ARGUMENT, "Function '%s': Duplicated func arg name: %s",
                           b->function, sig->input_arg[i]->name);
        if (!rt_map_put(&b->args, sig->input_arg[i]->name, a))
            return im_no_memory(err);
        for (int k = 0; k < a->n; k++, at++) {
            if ((st = im_step(b, err)))
                return st;
            char *name = a->n == 1 ? sig->input_arg[i]->name
                                   : rt_arena_printf(b->temp, "%s_%d", sig->input_arg[i]->name, k);
            struct rt_node *n = name ? im_new_node(b, name, "") : NULL;
            struct rt_attr *attr = rt_arena_array(b->l->arena, s->n_attr, sizeof *attr);
            int *first = rt_arena_array(b->l->arena, 2, sizeof *first);
            if (!n || !attr || !first)
                return im_no_memory(err);
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

static enum rt_status add_data_rets(struct im_build *b, const Tensorflow__FunctionDef *def,
                                    const struct rt_map *text_of, const struct rt_attr *types,
                                    struct rt_error *err)
{
    const Tensorflow__OpDef *sig = def->signature;
    struct rt_edge *ret = rt_arena_array(b->l->arena, types->n, sizeof *ret);
    if (!ret)
        return im_no_memory(err);
    size_t at = 0;
    for (size_t i = 0; i < sig->n_output_arg; i++) {
        const char *name = sig->output_arg[i]->name, *text = rt_map_get(text_of, name);
        const uint8_t *t;
        int n;
        enum rt_status st =
            im_arg_types(b->temp, b->function, sig->output_arg[i], b->reader.with, &t, &n, err);
        if (st)
            return st;
        if (!text)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Function '%s': Return %s missing.",
                           b->function, name);
        struct im_run r;
        if (!im_resolve(b, text, &r))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Function '%s': return '%s' names '%s', which is not there", b->function,
                           name, text);
        for (int k = 0; k < n; k++, at++) {
            if ((st = im_step(b, err)))
                return st;
            struct rt_edge e = im_run_at(&r, k);
            struct rt_node *from =
                e.node < (r.over_nodes ? b->g->n_args : b->n) ? &b->node[e.node] : NULL;
            bool is_stranger = from && b->pending[e.node].is_stranger;
            if (is_stranger && e.out < IM_MAX_ARGS && from->n_out <= e.out)
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
    return RT_OK;
}

static enum rt_status add_rets(struct im_build *b, const Tensorflow__FunctionDef *def,
                               const struct rt_attr *types, struct rt_error *err)
{
    struct rt_map text_of;
    bool ok = true;
    rt_map_init(&text_of);
    /* If a key occurs several times, its last value is used. */
    enum rt_status st = RT_OK;
    for (size_t k = 0; k < def->n_ret && ok && !st; k++) {
        ok = rt_map_put(&text_of, def->ret[k]->key, def->ret[k]->value);
        st = im_step(b, err);
    }
    if (!st)
        st = ok ? add_data_rets(b, def, &text_of, types, err) : im_no_memory(err);
    rt_map_clear(&text_of);
    if (st)
        return st;
    int *ctrl = rt_arena_array(b->l->arena, def->n_control_ret, sizeof *ctrl);
    if (!ctrl)
        return im_no_memory(err);
    for (size_t i = 0; i < def->n_control_ret; i++) {
        if ((st = im_step(b, err)))
            return st;
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

enum rt_status im_build_body(struct im_build *b, const Tensorflow__FunctionDef *def,
                             const struct rt_func_ref *given, struct rt_error *err)
{
    struct rt_func_ref *with = rt_arena_alloc(b->temp, sizeof *with);
    if (!with)
        return im_no_memory(err);
    const Tensorflow__OpDef *sig = def->signature;
    struct rt_attr in, out;
    enum rt_status st = im_add_defaults(b, sig, given, with, err);
    if (st)
        return st;
    b->reader.with = with;
    st =
        im_all_types(b, b->l->arena, b->function, sig->input_arg, sig->n_input_arg, with, &in, err);
    if (!st)
        st = im_all_types(b, b->temp, b->function, sig->output_arg, sig->n_output_arg, with, &out,
                          err);
    if (st)
        return st;
    if (in.n + def->n_node_def > INT32_MAX / 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Function '%s' is too large", b->function);
    size_t capacity = in.n + def->n_node_def;
    b->node = rt_arena_array(b->l->arena, capacity, sizeof *b->node);
    b->pending = rt_arena_array(b->temp, capacity, sizeof *b->pending);
    if (!b->node || !b->pending)
        return im_no_memory(err);
    st = add_arg_nodes(b, sig, &in, err);
    for (size_t i = 0; i < def->n_node_def && !st; i++)
        st = im_add_node(b, def->node_def[i], err);
    /* A control edge may name an argument, unless a node of the body has the same name. */
    for (int i = 0; i < b->g->n_args && !st; i++) {
        struct rt_node *n = &b->node[b->g->arg[i]];
        st = im_step(b, err);
        if (!st && !rt_map_get(b->names, n->name) && !rt_map_put(b->names, n->name, n))
            st = im_no_memory(err);
    }
    if (!st)
        st = im_connect(b, err);
    if (!st)
        st = add_rets(b, def, &out, err);
    if (!st)
        st = im_finish(b, err);
    b->g->is_stateful = sig->is_stateful;
    return st;
}
