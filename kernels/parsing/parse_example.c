/*
 * ParseExample, ParseExampleV2 and ParseSingleExample convert serialized tf.Examples to tensors.
 * This file reads the nodes' attributes, infers shapes and checks inputs.
 */
#include "kernels/array/array.h"
#include "kernels/parsing/parse_example.h"
#include "kernels/entry.h"

#include <stdlib.h>

/* ---- attributes of the node ---- */

static struct kn_parse_layout layout_of(const struct rt_node *n)
{
    struct kn_parse_layout l = {.names = 1, .key = {-1, -1, -1}};
    const char *name = n->schema->name;

    if (name[5] == 'S') {
        l.names = -1;
        l.defaults = 1;
        l.n[KN_DENSE] = (int)rt_attr(n, "dense_keys")->n;
        l.n[KN_SPARSE] = (int)rt_attr(n, "sparse_keys")->n;
    } else if (name[12]) {
        l.version = 2;
        l.key[KN_SPARSE] = 2;
        l.key[KN_DENSE] = 3;
        l.key[KN_RAGGED] = 4;
        l.defaults = 5;
        l.n[KN_DENSE] = (int)rt_attr(n, "Tdense")->n;
        l.n[KN_SPARSE] = (int)rt_attr_int(n, "num_sparse");
        l.n[KN_RAGGED] = (int)rt_attr(n, "ragged_value_types")->n;
    } else {
        l.version = 1;
        l.n[KN_DENSE] = (int)rt_attr_int(n, "Ndense");
        l.n[KN_SPARSE] = (int)rt_attr_int(n, "Nsparse");
        l.key[KN_SPARSE] = 2;
        l.key[KN_DENSE] = 2 + l.n[KN_SPARSE];
        l.defaults = l.key[KN_DENSE] + l.n[KN_DENSE];
    }
    l.vals = 3 * l.n[KN_SPARSE];
    l.ragged = l.vals + l.n[KN_DENSE];
    return l;
}

static enum rt_status parse_example_check(const struct rt_node *n, struct rt_error *err)
{
    const struct kn_parse_layout l = layout_of(n);
    const char *len = l.version == 0 ? "len(sparse_keys)" : "num_sparse";
    const struct rt_attr *shapes = rt_attr(n, "dense_shapes");
    bool padded;
    int64_t stride;

    if ((size_t)l.n[KN_SPARSE] != rt_attr(n, "sparse_types")->n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "len(sparse_keys) != len(sparse_types)");
    if (l.version == 0 && rt_attr_int(n, "num_sparse") != l.n[KN_SPARSE])
        return rt_fail(err, RT_INVALID_ARGUMENT, "num_sparse (%lld) is not %s (%d)",
                       (long long)rt_attr_int(n, "num_sparse"), len, l.n[KN_SPARSE]);
    if ((size_t)l.n[KN_DENSE] != rt_attr(n, "Tdense")->n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "len(dense_keys) != len(dense_types)");
    if ((size_t)l.n[KN_DENSE] != shapes->n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "len(dense_keys) != len(dense_shapes)");
    if (l.version == 2 && rt_attr(n, "ragged_split_types")->n != (size_t)l.n[KN_RAGGED])
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "len(ragged_value_types) != len(ragged_split_types)");
    for (size_t d = 0; d < shapes->n; d++)
        if (!kn_dense_shape(&shapes->v.shapes[d], &padded, &stride))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "dense_shapes[%zu] has unknown rank or unknown inner dimensions: %s", d,
                           KN_TEXT(&shapes->v.shapes[d]));
    return RT_OK;
}

bool kn_parse_key(const struct rt_tensor *t, int i, struct rt_span *out)
{
    if (!t || !t->data || rt_tensor_is_lazy(t) || i >= rt_tensor_count(t))
        return false;
    const struct rt_str *s = rt_strs(t) + i;
    *out = rt_span_of(rt_str_data(s), s->n);
    return true;
}

/* Sets *out to the name of feature i of the given kind. Returns false if the name is not known. The
 * callback `in` returns the tensor of input k, or NULL if its value is not known. */
static bool name_of(const struct rt_node *n, const struct kn_parse_layout *l, int kind, int i,
                    const struct rt_tensor *(*in)(const void *arg, int k), const void *arg,
                    struct rt_span *out)
{
    if (l->version == 0) {
        *out = rt_attr(n, kind == KN_DENSE ? "dense_keys" : "sparse_keys")->v.strs[i];
        return true;
    }
    const struct rt_tensor *t = in(arg, l->version == 2 ? l->key[kind] : l->key[kind] + i);
    return kn_parse_key(t, l->version == 2 ? i : 0, out);
}

/* Creates the feature map, which refers to the names in attributes and inputs without copying them.
 * Returns NULL if memory runs out. If a name is not available, sets *unknown to true, and the map
 * must not be used. */
static struct kn_feature_map *make_map(const struct rt_node *n, const struct kn_parse_layout *l,
                                       const struct rt_tensor *(*in)(const void *arg, int k),
                                       const void *arg, void *(*alloc)(void *, size_t),
                                       void *alloc_arg, bool *unknown)
{
    static const char *const types[] = {"Tdense", "sparse_types", "ragged_value_types"};
    struct kn_feature_map *m = kn_feature_map_new(l->n[0] + l->n[1] + l->n[2], alloc, alloc_arg);
    int k = 0;

    *unknown = false;
    for (int kind = 0; m && kind < 3; kind++)
        for (int i = 0; i < l->n[kind]; i++, k++) {
            struct kn_feature *f = &m->feature[k];
            f->kind = (uint8_t)kind;
            f->dtype = rt_attr(n, types[kind])->v.types[i];
            if (!name_of(n, l, kind, i, in, arg, &f->name))
                *unknown = true;
            if (kind == KN_DENSE) {
                f->shape = &rt_attr(n, "dense_shapes")->v.shapes[i];
                kn_dense_shape(f->shape, &f->is_padded, &f->stride);
                f->def = l->defaults + i;
            } else if (kind == KN_RAGGED) {
                f->splits = rt_attr(n, "ragged_split_types")->v.types[i];
            }
        }
    if (m && !*unknown)
        kn_feature_map_index(m);
    return m;
}

static const struct rt_tensor *input_of_prep(const void *arg, int k)
{
    return ((const struct rt_prep *)arg)->in[k].value;
}

static const struct rt_tensor *input_of_run(const void *arg, int k)
{
    return &((const struct rt_run *)arg)->in[k];
}

static void *alloc_of_prep(void *arg, size_t bytes)
{
    return rt_prep_alloc(arg, bytes);
}

static void *alloc_of_run(void *arg, size_t bytes)
{
    return rt_run_alloc(arg, bytes);
}

/* Makes the map at compile time if the names are constants, which live as long as the plan. */
static enum rt_status parse_example_prepare(struct rt_prep *p, void **state)
{
    const struct kn_parse_layout l = layout_of(p->node);
    bool unknown = false;

    for (int kind = 0; l.version && kind < 3; kind++)
        for (int i = 0; i < (l.version == 2 ? 1 : l.n[kind]); i++)
            unknown |= l.n[kind] && !p->in[l.key[kind] + i].value;
    if (unknown) /* without constant names, parse_example_run makes a map in each run */
        return RT_OK;
    struct kn_feature_map *m = make_map(p->node, &l, input_of_prep, p, alloc_of_prep, p, &unknown);
    if (!m)
        return p->err->code;
    *state = unknown ? NULL : m;
    return RT_OK;
}

/* ---- shapes ---- */

static void lead(struct rt_info *o, int n_lead, const int64_t *dims, const struct rt_shape *tail,
                 int from)
{
    if (n_lead + tail->rank - from > RT_MAX_RANK)
        return; /* the op reports the invalid rank when it runs */
    o->shape.rank = n_lead + tail->rank - from;
    for (int i = 0; i < n_lead; i++)
        o->shape.dim[i] = dims[i];
    for (int i = from; i < tail->rank; i++)
        o->shape.dim[n_lead + i - from] = tail->dim[i];
}

static enum rt_status parse_example_infer(struct rt_infer *x)
{
    const struct kn_parse_layout l = layout_of(x->node);
    const struct rt_shape *s = &x->in[0].shape, *dense = rt_attr(x->node, "dense_shapes")->v.shapes;

    if (s->rank != 1 && (s->rank != 0 || l.version == 1))
        /* the rank is unknown, or invalid and refused when the op runs */
        return RT_OK;
    const bool is_batch = s->rank == 1;
    const int64_t indices[2] = {-1, 1 + is_batch}, some = -1,
                  n[2] = {is_batch ? s->dim[0] : -1, -1};
    for (int k = 0; k < l.n[KN_SPARSE]; k++) {
        kn_set_shape(&x->out[k], 2, indices);
        kn_set_shape(&x->out[l.n[KN_SPARSE] + k], 1, &some);
        kn_set_vector(&x->out[2 * l.n[KN_SPARSE] + k], 1 + is_batch);
    }
    for (int k = 0; k < l.n[KN_DENSE]; k++) {
        const bool padded = dense[k].rank > 0 && dense[k].dim[0] < 0;
        lead(&x->out[l.vals + k], is_batch + padded, is_batch ? n : n + 1, &dense[k], padded);
    }
    for (int k = 0; k < l.n[KN_RAGGED]; k++) {
        kn_set_shape(&x->out[l.ragged + k], 1, &some);
        if (!is_batch || n[0] >= 0)
            kn_set_vector(&x->out[l.ragged + l.n[KN_RAGGED] + k], is_batch ? n[0] + 1 : 0);
    }
    return RT_OK;
}

/* Marks the outputs for dense features of fixed shape as row-wise, because their row i depends only
 * on example i. The other outputs are indices, row splits, or values padded to a width that depends
 * on the complete batch. */
static void rows(struct rt_rows *r)
{
    const struct kn_parse_layout l = layout_of(r->node);
    const struct rt_attr *dense = rt_attr(r->node, "dense_shapes");

    if (kn_rows_independent(r) || !kn_rows_free(r, 1) || r->in_dep[0].kind != RT_DEP_ROWS ||
        r->in_dep[0].axis != 0 || r->in[0].shape.rank != 1)
        return;
    for (int k = 0; k < l.n[KN_DENSE]; k++)
        if (dense->v.shapes[k].rank == 0 || dense->v.shapes[k].dim[0] >= 0)
            r->out_dep[l.vals + k] = (struct rt_dep){RT_DEP_ROWS, 0};
}

/* ---- checks of inputs ---- */

static bool is_compatible(const struct rt_shape *s, const struct rt_tensor *t)
{
    if (s->rank != t->rank)
        return false;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] >= 0 && s->dim[i] != t->dim[i])
            return false;
    return true;
}

static enum rt_status check_keys(struct rt_run *r, const struct kn_parse_layout *l)
{
    static const struct {
        const char *keys, *want;
    } text[] = {[KN_DENSE] = {"dense_keys", "len(dense_types)"},
                [KN_SPARSE] = {"sparse_keys", "num_sparse"},
                [KN_RAGGED] = {"ragged_keys", "len(ragged_value_types)"}};

    for (int kind = 0; kind < 3; kind++) {
        const int64_t have = rt_tensor_count(&r->in[l->key[kind]]);
        if (have != l->n[kind])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Expected len(%s) == %s but got: %lld vs. %d", text[kind].keys,
                           text[kind].want, (long long)have, l->n[kind]);
    }
    return RT_OK;
}

static enum rt_status check_defaults(struct rt_run *r, const struct kn_parse_layout *l)
{
    const struct rt_shape *shape = rt_attr(r->node, "dense_shapes")->v.shapes;

    for (int d = 0; d < l->n[KN_DENSE]; d++) {
        const struct rt_tensor *v = &r->in[l->defaults + d];
        const int64_t n = rt_tensor_count(v);
        if (shape[d].rank > 0 && shape[d].dim[0] < 0) {
            if (n != 1)
                return rt_fail(
                    r->err, RT_INVALID_ARGUMENT,
                    "dense_shape[%d] is a variable length shape: %s, therefore "
                    "def_value[%d] must contain a single element (the padding element).  "
                    "But its shape is: %s",
                    d, KN_TEXT(&shape[d]), d, KN_TEXT(v));
        } else if (n > 0 && !is_compatible(&shape[d], v)) {
            return rt_fail(
                r->err, RT_INVALID_ARGUMENT,
                "def_value[%d].shape() == %s is not compatible with dense_shapes_[%d] == %s", d,
                KN_TEXT(v), d, KN_TEXT(&shape[d]));
        }
    }
    return RT_OK;
}

static enum rt_status check_inputs(struct rt_run *r, const struct kn_parse_layout *l)
{
    static const char *const wants[] = {"scalar", "vector", "scalar or vector"};
    const struct rt_tensor *in = &r->in[0];

    if (l->version == 2 ? in->rank > 1 : in->rank != l->version)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected serialized to be a %s, got shape: %s",
                       wants[l->version], KN_TEXT(in));
    if (l->names >= 0) {
        const struct rt_tensor *names = &r->in[l->names];
        if (rt_tensor_count(names) > 0 &&
            (names->rank != in->rank || (in->rank && names->dim[0] != in->dim[0])))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Expected names have the same shape as serialized: name.shape=%s, "
                           "serialized.shape=%s",
                           KN_TEXT(names), KN_TEXT(in));
    }
    enum rt_status st = l->version == 2 ? check_keys(r, l) : RT_OK;
    return st ? st : check_defaults(r, l);
}

/* ---- shared by batches and single examples ---- */

static bool grow(struct kn_parse *s)
{
    const int64_t capacity = 2 * s->capacity;
    struct kn_parse_entry *more = rt_run_alloc(s->r, (size_t)capacity * sizeof *more);

    if (!more)
        return false;
    memcpy(more, s->entry, (size_t)s->n_entries * sizeof *more);
    rt_pool_free(s->own_entry);
    s->entry = s->own_entry = more;
    s->capacity = capacity;
    return true;
}

/* Records every entry of the example whose name is in the feature map, including repeated names. */
enum rt_status kn_parse_entries(struct kn_parse *s, struct rt_span example)
{
    struct kn_example x = kn_example_of(example, s->r);
    struct rt_span name, feature;
    int more;

    s->n_entries = 0;
    while ((more = kn_example_next(&x, &name, &feature)) > 0) {
        const int found = kn_feature_map_find(s->map, name);
        if (found < 0)
            continue;
        if (s->n_entries == s->capacity && !grow(s))
            return s->r->err->code;
        s->entry[s->n_entries++] = (struct kn_parse_entry){feature, found};
    }
    if (more == -2)
        return s->r->err->code;
    if (more < 0)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Could not parse example input, value: '%.*s'", KN_SPAN(example));
    return RT_OK;
}

const char *kn_parse_list_name(enum rt_dtype t)
{
    return t == RT_F32 ? "float" : t == RT_I64 ? "int64" : "bytes";
}

/* Returns the address of row e of the output for a dense feature with a fixed shape. */
void *kn_parse_row(struct kn_parse *s, const struct kn_feature *f, int64_t e)
{
    const struct rt_tensor *o = &s->r->out[s->l->vals + f->at];

    return f->stride ? kn_at_mut(o, e * f->stride) : NULL;
}

/* ---- a run ---- */

static enum rt_status parse_example_run(struct rt_run *r)
{
    const struct kn_parse_layout l = layout_of(r->node);
    struct kn_parse s = {.r = r, .l = &l, .map = r->state, .n = 1};
    struct kn_feature_map *own = NULL;
    bool unknown = false;
    enum rt_status st = check_inputs(r, &l);

    if (st)
        return st;
    if (!s.map) {
        s.map = own = make_map(r->node, &l, input_of_run, r, alloc_of_run, r, &unknown);
        if (!own)
            return r->err->code;
    }
    if (unknown)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: a key is no scalar", r->node->name);
    else if (s.map->has_twins)
        st = rt_fail(r->err, RT_INTERNAL, "Could not avoid collision. This should not happen.");
    else if (r->in[0].rank == 1) {
        s.n = r->in[0].dim[0];
        st = kn_parse_batch(&s);
    } else
        st = kn_parse_alone(&s);
    rt_pool_free(own);
    return st;
}

#define PARSE(symbol, op_)                                                                         \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_),                                                                      \
               .check = parse_example_check,                                                       \
               .infer = parse_example_infer,                                                       \
               .rows = rows},                                                                      \
        .kernels = KN_CPU(op_, #symbol, 0, parse_example_prepare, parse_example_run),              \
    };
PARSE(parse_example, "ParseExample")
PARSE(parse_example_v2, "ParseExampleV2")
PARSE(parse_single_example, "ParseSingleExample")
