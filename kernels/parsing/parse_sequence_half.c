#include "kernels/array/array.h"
#include "kernels/parsing/parse_sequence.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const kinds[] = {
    [KN_DENSE] = "dense", [KN_SPARSE] = "sparse", [KN_RAGGED] = "ragged"};

static int named(const struct rt_arg_schema *a, int n, const char *prefix, const char *name)
{
    const size_t len = strlen(prefix);

    for (int i = 0; i < n; i++)
        if (strncmp(a[i].name, prefix, len) == 0 && strcmp(a[i].name + len, name) == 0)
            return i;
    return -1;
}

int kn_input_named(const struct rt_node *n, const char *prefix, const char *name)
{
    const int i = named(n->schema->in, n->schema->n_in, prefix, name);

    return i < 0 ? -1 : n->in_first[i];
}

int kn_output_named(const struct rt_node *n, const char *prefix, const char *name)
{
    const int i = named(n->schema->out, n->schema->n_out, prefix, name);

    return i < 0 ? -1 : n->out_first[i];
}

/* Returns attribute `name` for the features of kind `kind`, or NULL if the op has no such
 * attribute. `prefix` selects the context or the feature lists. */
static const struct rt_attr *attr(const struct rt_node *n, const char *prefix, const char *kind,
                                  const char *name)
{
    char text[64];

    if (prefix[0] == 'c' && strcmp(kind, "dense") == 0 && strcmp(name, "_types") == 0)
        return rt_attr(n, "Tcontext_dense");
    snprintf(text, sizeof text, "%s%s%s", prefix, kind, name);
    return rt_attr(n, text);
}

static const struct rt_attr *types_of(const struct rt_node *n, const char *prefix, int kind)
{
    return attr(n, prefix, kinds[kind], kind == KN_RAGGED ? "_value_types" : "_types");
}

static int count_of(const struct rt_node *n, const char *prefix, int kind)
{
    const struct rt_attr *types = types_of(n, prefix, kind);

    return types ? (int)types->n : 0;
}

/* Fails if an attribute (Ncontext_sparse, ...) gives a number of features that differs from the
 * length of the list of types. The op's schema computes the number of outputs from the attribute,
 * and the kernel computes it from the list. */
static enum rt_status check_counts(const struct rt_node *n, const char *prefix, int kind,
                                   struct rt_error *err)
{
    const int n_types = count_of(n, prefix, kind);
    const struct rt_attr *keys = attr(n, prefix, kinds[kind], "_keys");
    char text[64];

    if (keys && keys->n != (size_t)n_types)
        return rt_fail(err, RT_INVALID_ARGUMENT, "len(%s%s_keys) != len(%s%s_types)", prefix,
                       kinds[kind], prefix, kinds[kind]);
    snprintf(text, sizeof text, "N%s%s", prefix, kinds[kind]);
    if (rt_attr(n, text) && rt_attr_int(n, text) != n_types)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "num_%s%s (%lld) must match the size of %s%s_%s "
                       "(%d)",
                       prefix, kinds[kind], (long long)rt_attr_int(n, text), prefix, kinds[kind],
                       keys ? "keys" : "types", n_types);
    return RT_OK;
}

static enum rt_status check_half(const struct rt_node *n, const char *prefix, struct rt_error *err)
{
    const struct rt_attr *shapes = attr(n, prefix, "dense", "_shapes");

    for (int kind = 0; kind < 3; kind++) {
        enum rt_status st = check_counts(n, prefix, kind, err);
        if (st)
            return st;
    }
    if ((int)shapes->n != count_of(n, prefix, KN_DENSE))
        return rt_fail(err, RT_INVALID_ARGUMENT, "len(%sdense_keys) != len(%sdense_shapes)", prefix,
                       prefix);
    for (size_t i = 0; i < shapes->n; i++)
        if (rt_count(shapes->v.shapes[i].rank, shapes->v.shapes[i].dim) < 0 ||
            shapes->v.shapes[i].rank < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%sdense_shapes[%zu] is not known: %s", prefix,
                           i, KN_TEXT(&shapes->v.shapes[i]));
    const struct rt_attr *ragged = types_of(n, prefix, KN_RAGGED);
    if (ragged && ragged->n != attr(n, prefix, "ragged", "_split_types")->n)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "len(%sragged_value_types) != len(%sragged_split_types)", prefix, prefix);
    return RT_OK;
}

enum rt_status kn_half_check(const struct rt_node *n, struct rt_error *err)
{
    enum rt_status st = check_half(n, "context_", err);

    return st ? st : check_half(n, "feature_list_", err);
}

static enum rt_status name_of(struct rt_run *r, const char *prefix, int kind, int i,
                              struct rt_span *out)
{
    const struct rt_attr *keys = attr(r->node, prefix, kinds[kind], "_keys");
    char text[64];

    if (keys) {
        *out = keys->v.strs[i];
        return RT_OK;
    }
    snprintf(text, sizeof text, "%s_keys", kinds[kind]);
    const bool alone = r->node->schema->name[5] == 'S' && r->node->schema->name[6] == 'i';
    const int first = kn_input_named(r->node, prefix, text);
    const struct rt_tensor *t = &r->in[alone ? first + i : first];
    if (alone && t->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected %s%s_keys[%d] to be a scalar, got shape: %s", prefix, kinds[kind],
                       i, KN_TEXT(t));
    const struct rt_str *s = rt_strs(t) + (alone ? 0 : i);
    *out = rt_span_of(rt_str_data(s), s->n);
    return RT_OK;
}

/* Refuses vectors of keys (ParseSequenceExampleV2) whose length differs from the number of
 * types. */
static enum rt_status check_lengths(struct rt_run *r, const char *prefix)
{
    for (int kind = 0; kind < 3; kind++) {
        static const char *const against[2][3] = {
            {"len(Tcontext_dense)", "Ncontext_sparse", "len(context_ragged_value_types)"},
            {"Nfeature_list_dense", "Nfeature_list_sparse",
             "len(feature_list_ragged_value_types)"}};
        char text[64];
        snprintf(text, sizeof text, "%s_keys", kinds[kind]);
        const int k = kn_input_named(r->node, prefix, text);
        if (k < 0 || rt_tensor_count(&r->in[k]) == count_of(r->node, prefix, kind))
            continue;
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected len(%s%s) to match %s", prefix, text,
                       against[prefix[0] == 'f'][kind]);
    }
    return RT_OK;
}

static void *alloc_of_run(void *arg, size_t bytes)
{
    return rt_run_alloc(arg, bytes);
}

static enum rt_status fill_map(struct rt_run *r, struct kn_sequence_half *h)
{
    const struct rt_node *n = r->node;
    const int defaults = h->prefix[0] == 'c' ? kn_input_named(n, "context_", "dense_defaults") : -1;
    const struct rt_attr *shapes = attr(n, h->prefix, "dense", "_shapes");
    int k = 0;

    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < count_of(n, h->prefix, kind); i++, k++) {
            struct kn_feature *f = &h->map->feature[k];
            f->kind = (uint8_t)kind;
            f->dtype = types_of(n, h->prefix, kind)->v.types[i];
            f->def = kind == KN_DENSE && defaults >= 0 ? defaults + i : -1;
            if (kind == KN_DENSE) {
                f->shape = &shapes->v.shapes[i];
                f->stride = rt_count(f->shape->rank, f->shape->dim);
            }
            if (kind == KN_RAGGED)
                f->splits = attr(n, h->prefix, "ragged", "_split_types")->v.types[i];
            enum rt_status st = name_of(r, h->prefix, kind, i, &f->name);
            if (st)
                return st;
        }
    kn_feature_map_index(h->map);
    return RT_OK;
}

enum rt_status kn_half_make(struct rt_run *r, const char *prefix, struct kn_sequence_half *h)
{
    const struct rt_node *n = r->node;
    const bool alone = n->schema->name[5] == 'S' && n->schema->name[6] == 'i';
    enum rt_status st = alone ? RT_OK : check_lengths(r, prefix);

    if (st)
        return st;
    h->prefix = prefix;
    h->indices = kn_output_named(n, prefix, "sparse_indices");
    h->values = kn_output_named(n, prefix, "sparse_values");
    h->shapes = kn_output_named(n, prefix, "sparse_shapes");
    h->dense = kn_output_named(n, prefix, "dense_values");
    h->lengths = kn_output_named(n, prefix, "dense_lengths");
    h->ragged = kn_output_named(n, prefix, "ragged_values");
    h->splits =
        kn_output_named(n, prefix, prefix[0] == 'c' ? "ragged_row_splits" : "ragged_outer_splits");
    h->inner = kn_output_named(n, prefix, "ragged_inner_splits");
    h->map = kn_feature_map_new(
        count_of(n, prefix, 0) + count_of(n, prefix, 1) + count_of(n, prefix, 2), alloc_of_run, r);
    if (!h->map)
        return r->err->code;
    return fill_map(r, h);
}

enum rt_status kn_half_defaults(struct rt_run *r, const struct kn_sequence_half *context)
{
    const bool alone = r->node->schema->name[6] == 'i';

    for (int k = 0; k < context->map->n_dense; k++) {
        const struct kn_feature *f = &context->map->feature[k];
        const struct rt_tensor *v = &r->in[f->def];
        if (rt_tensor_count(v) > 0 &&
            (v->rank != f->shape->rank ||
             (v->rank && memcmp(v->dim, f->shape->dim, (size_t)v->rank * sizeof *v->dim) != 0)))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%s[%d].shape() == %s != context_dense_shapes%s[%d] == %s",
                           alone ? "def_value" : "default_value", k, KN_TEXT(v), alone ? "_" : "",
                           k, KN_TEXT(f->shape));
    }
    return RT_OK;
}
