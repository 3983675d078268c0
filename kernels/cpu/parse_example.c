/*
 * ParseExample, ParseExampleV2, ParseSingleExample: serialized tf.Examples to tensors.
 *
 * A batch is read once, example by example. Dense features of fixed shape go straight to their
 * row. Of the others the first pass checks and counts, and the second, feature by feature, writes
 * into outputs whose sizes are then known.
 *
 * Features of an example are looked at from the last to the first, since the last of a name
 * counts; so the first complaint is about the last faulty feature, as TensorFlow's.
 */
#include "kernels/cpu/array.h"
#include "kernels/cpu/feature_map.h"
#include "kernels/cpu/wire_example.h"
#include "kernels/entry.h"

#include <stdlib.h>

/* ---- what the node asks for ---- */

/* Inputs and outputs by role; the three ops have them in different places. */
struct layout {
    int version;      /* 1, 2; 0: ParseSingleExample */
    int names;        /* input, or -1 */
    int key[3];       /* per kind: the first input (v1), the vector (v2) */
    int n[3];         /* features per kind */
    int defaults;     /* first input */
    int sparse, vals; /* first outputs: sparse indices; dense values */
    int ragged;       /* first output, values then splits */
};

static struct layout layout_of(const struct rt_node *n)
{
    struct layout l = {.names = 1, .key = {-1, -1, -1}};
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

static enum rt_status check(const struct rt_node *n, struct rt_error *err)
{
    const struct layout l = layout_of(n);
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

/* A scalar or vector of names: element i. False: it is not there. */
static bool key_at(const struct rt_tensor *t, int i, struct rt_span *out)
{
    if (!t || !t->data || rt_tensor_is_lazy(t) || i >= rt_tensor_count(t))
        return false;
    const struct rt_str *s = rt_strs(t) + i;
    *out = rt_span_of(rt_str_data(s), s->n);
    return true;
}

/* The name of feature i of a kind: `in` gives an input's tensor, or NULL. */
static bool name_of(const struct rt_node *n, const struct layout *l, int kind, int i,
                    const struct rt_tensor *(*in)(const void *arg, int k), const void *arg,
                    struct rt_span *out)
{
    if (l->version == 0) {
        *out = rt_attr(n, kind == KN_DENSE ? "dense_keys" : "sparse_keys")->v.strs[i];
        return true;
    }
    const struct rt_tensor *t = in(arg, l->version == 2 ? l->key[kind] : l->key[kind] + i);
    return key_at(t, l->version == 2 ? i : 0, out);
}

/* NULL: out of memory. *unknown: some name is not there, the map is of no use. Names stay where
 * they are. */
static struct kn_feature_map *make_map(const struct rt_node *n, const struct layout *l,
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
    (void)arg;
    return calloc(1, bytes);
}

/* Names that are constants live as long as the plan does. */
static enum rt_status prepare(struct rt_prep *p, void **state)
{
    const struct layout l = layout_of(p->node);
    bool unknown = false;

    for (int kind = 0; l.version && kind < 3; kind++)
        for (int i = 0; i < (l.version == 2 ? 1 : l.n[kind]); i++)
            unknown |= l.n[kind] && !p->in[l.key[kind] + i].value;
    if (unknown) /* run makes its own */
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
        return; /* run refuses it */
    o->shape.rank = n_lead + tail->rank - from;
    for (int i = 0; i < n_lead; i++)
        o->shape.dim[i] = dims[i];
    for (int i = from; i < tail->rank; i++)
        o->shape.dim[n_lead + i - from] = tail->dim[i];
}

static enum rt_status infer(struct rt_infer *x)
{
    const struct layout l = layout_of(x->node);
    const struct rt_shape *s = &x->in[0].shape, *dense = rt_attr(x->node, "dense_shapes")->v.shapes;

    if (s->rank != 1 && (s->rank != 0 || l.version == 1))
        return RT_OK; /* unknown, or run refuses it */
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

/* Dense features of fixed shape: row i is example i's. The others have indices, splits or a width
 * that depend on the whole batch. */
static void rows(struct rt_rows *r)
{
    const struct layout l = layout_of(r->node);
    const struct rt_attr *dense = rt_attr(r->node, "dense_shapes");

    if (kn_rows_settled(r) || !kn_rows_free(r, 1) || r->in_dep[0].kind != RT_DEP_ROWS ||
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

static enum rt_status check_keys(struct rt_run *r, const struct layout *l)
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

static enum rt_status check_defaults(struct rt_run *r, const struct layout *l)
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

static enum rt_status check_inputs(struct rt_run *r, const struct layout *l)
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

/* ---- a run ---- */

struct entry {
    struct rt_span feature;
    int found;
};

/* A list of a feature that is not dense and fixed: where it lies, and how long it is. */
struct part {
    const uint8_t *p;
    size_t bytes;
    int64_t n;
};

struct parse {
    struct rt_run *r;
    const struct layout *l;
    const struct kn_feature_map *map;
    int64_t n; /* examples */
    int64_t e; /* the one at hand */
    struct kn_feature_memory memory;
    struct entry *entry, *own_entry; /* own: grown beyond the scratch */
    int64_t n_entries, room;
    int64_t *last;     /* per feature: the last example that had it, + 1 */
    struct part *part; /* per list and example */
};

static bool grow(struct parse *s)
{
    const int64_t room = 2 * s->room;
    struct entry *more = realloc(s->own_entry, (size_t)room * sizeof *more);

    if (!more)
        return false;
    if (!s->own_entry)
        memcpy(more, s->entry, (size_t)s->n_entries * sizeof *more);
    s->entry = s->own_entry = more;
    s->room = room;
    return true;
}

/* The entries of one example whose names we know. */
static enum rt_status read_entries(struct parse *s, struct rt_span example)
{
    struct kn_example x = kn_example_of(example);
    struct rt_span name, feature;
    int position = 0, more;

    s->n_entries = 0;
    while ((more = kn_example_next(&x, &name, &feature)) > 0) {
        const int found = kn_feature_find(s->map, &s->memory, position, name);
        position += position < KN_REMEMBERED;
        if (found < 0)
            continue;
        if (s->n_entries == s->room && !grow(s))
            return rt_fail_memory(s->r->err, s->r->node->name, (size_t)s->room * sizeof *s->entry);
        s->entry[s->n_entries++] = (struct entry){feature, found};
    }
    if (more < 0)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Could not parse example input, value: '%.*s'", KN_SPAN(example));
    return RT_OK;
}

static const char *list_name(enum rt_dtype t)
{
    return t == RT_F32 ? "float" : t == RT_I64 ? "int64" : "bytes";
}

/* "Name: n, Key: k, Index: i.  " in front of what was said. */
static enum rt_status about(struct parse *s, const struct kn_feature *f)
{
    struct rt_span name = rt_span_str("<unknown>");

    if (rt_tensor_count(&s->r->in[s->l->names]) > 0)
        key_at(&s->r->in[s->l->names], (int)s->e, &name);
    return rt_fail_prefix(s->r->err, "Name: %.*s, Key: %.*s, Index: %lld.  ", KN_SPAN(name),
                          KN_SPAN(f->name), (long long)s->e);
}

static enum rt_status bad_list(struct parse *s, int64_t n)
{
    if (n < 0)
        return rt_fail_memory(s->r->err, s->r->node->name, sizeof(struct rt_str));
    return rt_fail(s->r->err, RT_INVALID_ARGUMENT, "Can't parse serialized Example.");
}

static void *row_of(struct parse *s, const struct kn_feature *f, int64_t e)
{
    const struct rt_tensor *o = &s->r->out[s->l->vals + f->at];

    return f->stride ? kn_at_mut(o, e * f->stride) : NULL;
}

/* A dense feature of fixed shape, into its row. */
static enum rt_status read_row(struct parse *s, const struct kn_feature *f, struct rt_span list)
{
    int64_t n;

    if (!kn_feature_list(f->dtype, list, row_of(s, f, s->e), f->stride, &n)) {
        enum rt_status st = bad_list(s, n);
        return n < 0 ? st : about(s, f);
    }
    if (n == f->stride)
        return RT_OK;
    rt_fail(s->r->err, RT_INVALID_ARGUMENT,
            "Number of %s values != expected.  Values size: %lld but output shape: %s",
            list_name(f->dtype), (long long)n, KN_TEXT(f->shape));
    return about(s, f);
}

/* A list of any length: checked and counted. */
static enum rt_status note_list(struct parse *s, const struct kn_feature *f, struct rt_span list,
                                int64_t *n)
{
    if (!kn_feature_list(f->dtype, list, NULL, INT64_MAX, n))
        return bad_list(s, *n);
    struct part *part = &s->part[f->list * s->n + s->e];
    *part = (struct part){list.p, list.n, *n};
    return RT_OK;
}

static enum rt_status read_feature(struct parse *s, const struct entry *e)
{
    const struct kn_feature *f = &s->map->feature[e->found];
    int64_t *last = &s->last[e->found], n;
    struct rt_span list = e->feature;
    const enum rt_dtype t = kn_feature_type(&list);

    if (t == RT_N_DTYPES)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT, "Unsupported datatype.");
    if (f->kind == KN_DENSE && t == RT_NO_DTYPE)
        return RT_OK;
    if (*last == s->e + 1) /* a later one of this name counts */
        return RT_OK;
    *last = s->e + 1;
    if (t != RT_NO_DTYPE && t != f->dtype) {
        if (f->kind == KN_DENSE)
            rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                    "Data types don't match. Data type: %s but expected type: %s", rt_dtype_name(t),
                    rt_dtype_name(f->dtype));
        else
            rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                    "Data types don't match. Expected type: %s, Actual type: %s",
                    rt_dtype_name(f->dtype), rt_dtype_name(t));
        return about(s, f);
    }
    if (f->kind == KN_DENSE && !f->is_padded)
        return read_row(s, f, list);
    if (t == RT_NO_DTYPE)
        return RT_OK;
    if (note_list(s, f, list, &n))
        return about(s, f);
    if (f->kind != KN_DENSE || (f->stride && n % f->stride == 0))
        return RT_OK;
    rt_fail(s->r->err, RT_INVALID_ARGUMENT,
            "Number of %s values is not a multiple of stride length. Saw %lld values but output "
            "shape is: %s",
            list_name(f->dtype), (long long)n, KN_TEXT(f->shape));
    return about(s, f);
}

static enum rt_status fill_default(struct parse *s, const struct kn_feature *f)
{
    const struct rt_tensor *v = &s->r->in[f->def];

    if (rt_tensor_count(v) == 0) {
        struct rt_span name = rt_span_str("<unknown>");
        if (rt_tensor_count(&s->r->in[s->l->names]) > 0)
            key_at(&s->r->in[s->l->names], (int)s->e, &name);
        return rt_fail(
            s->r->err, RT_INVALID_ARGUMENT,
            "Name: %.*s, Feature: %.*s (data type: %s) is required but could not be found.",
            KN_SPAN(name), KN_SPAN(f->name), rt_dtype_name(f->dtype));
    }
    return kn_copy(f->dtype, row_of(s, f, s->e), v->data, f->stride, s->r->err);
}

static enum rt_status read_example(struct parse *s, const struct rt_str *example)
{
    enum rt_status st = read_entries(s, rt_span_of(rt_str_data(example), example->n));

    for (int64_t i = s->n_entries; i-- > 0 && !st;)
        st = read_feature(s, &s->entry[i]);
    for (int k = 0; k < s->map->n_dense && !st; k++)
        if (s->last[k] != s->e + 1 && !s->map->feature[k].is_padded)
            st = fill_default(s, &s->map->feature[k]);
    return st;
}

/* ---- the second pass ---- */

static enum rt_status copy_parts(struct parse *s, const struct kn_feature *f, void *dst,
                                 int64_t step)
{
    const struct part *part = &s->part[f->list * s->n];
    const size_t size = rt_dtype_size(f->dtype);
    char *to = dst;
    int64_t n;

    for (int64_t e = 0; e < s->n; e++) {
        if (part[e].n &&
            !kn_feature_list(f->dtype, rt_span_of(part[e].p, part[e].bytes), to, part[e].n, &n))
            return bad_list(s, n);
        to += (size_t)(step ? step : part[e].n) * size;
    }
    return RT_OK;
}

static void measure(struct parse *s, const struct kn_feature *f, int64_t *total, int64_t *most)
{
    const struct part *part = &s->part[f->list * s->n];

    *total = *most = 0;
    for (int64_t e = 0; e < s->n; e++) {
        *total += part[e].n;
        *most = part[e].n > *most ? part[e].n : *most;
    }
}

static enum rt_status write_padded(struct parse *s, const struct kn_feature *f)
{
    const struct rt_shape *shape = f->shape;
    const struct rt_tensor *pad = &s->r->in[f->def];
    int64_t dim[RT_MAX_RANK + 1] = {s->n}, total, most;
    const int k = s->l->vals + f->at;

    measure(s, f, &total, &most);
    dim[1] = f->stride ? most / f->stride : 0;
    for (int i = 1; i < shape->rank; i++)
        dim[1 + i] = shape->dim[i];
    void *out = kn_out(s->r, k, shape->rank + 1, dim);
    if (!out)
        return s->r->err->code;
    const int64_t all = rt_tensor_count(&s->r->out[k]);
    if (!all)
        return RT_OK;
    if (f->dtype == RT_STRING) {
        /* Only what stays: a string that is written over would be allocated for nothing. */
        const struct part *part = &s->part[f->list * s->n];
        for (int64_t e = 0; e < s->n; e++)
            for (int64_t i = part[e].n; i < most; i++)
                if (!rt_str_copy((struct rt_str *)out + e * most + i, rt_strs(pad)))
                    return rt_fail_memory(s->r->err, s->r->node->name, rt_strs(pad)->n);
    } else if (kn_repeat(f->dtype, out, pad->data, all, s->r->err)) {
        return s->r->err->code;
    }
    return copy_parts(s, f, out, most);
}

static enum rt_status write_sparse(struct parse *s, const struct kn_feature *f)
{
    const struct part *part = &s->part[f->list * s->n];
    const int n_sparse = s->map->n_sparse;
    int64_t total, most;

    measure(s, f, &total, &most);
    int64_t *index = kn_out(s->r, f->at, 2, (int64_t[]){total, 2});
    void *value = index ? kn_out(s->r, n_sparse + f->at, 1, &total) : NULL;
    int64_t *shape = value ? kn_out(s->r, 2 * n_sparse + f->at, 1, (int64_t[]){2}) : NULL;
    if (!shape)
        return s->r->err->code;
    for (int64_t e = 0; e < s->n; e++)
        for (int64_t i = 0; i < part[e].n; i++, index += 2) {
            index[0] = e;
            index[1] = i;
        }
    shape[0] = s->n;
    shape[1] = most;
    return copy_parts(s, f, value, 0);
}

static enum rt_status write_ragged(struct parse *s, const struct kn_feature *f)
{
    const struct part *part = &s->part[f->list * s->n];
    const int k = s->l->ragged + f->at;
    int64_t total, most, end = 0;

    measure(s, f, &total, &most);
    void *value = kn_out(s->r, k, 1, &total);
    void *splits = value ? kn_out(s->r, k + s->map->n_ragged, 1, (int64_t[]){s->n + 1}) : NULL;
    if (!splits)
        return s->r->err->code;
    for (int64_t e = 0; e <= s->n; e++) {
        kn_put_int(&s->r->out[k + s->map->n_ragged], e, end);
        end += e < s->n ? part[e].n : 0;
    }
    return copy_parts(s, f, value, 0);
}

static enum rt_status write_lists(struct parse *s)
{
    enum rt_status st = RT_OK;

    for (int k = 0; k < s->map->n && !st; k++) {
        const struct kn_feature *f = &s->map->feature[k];
        if (f->kind == KN_SPARSE)
            st = write_sparse(s, f);
        else if (f->kind == KN_RAGGED)
            st = write_ragged(s, f);
        else if (f->is_padded)
            st = write_padded(s, f);
    }
    return st;
}

/* ---- a batch ---- */

static enum rt_status fixed_outputs(struct parse *s)
{
    for (int k = 0; k < s->map->n_dense; k++) {
        const struct kn_feature *f = &s->map->feature[k];
        int64_t dim[RT_MAX_RANK + 1] = {s->n};
        if (f->is_padded)
            continue;
        memcpy(dim + 1, f->shape->dim, (size_t)f->shape->rank * sizeof *dim);
        if (!kn_out(s->r, s->l->vals + k, f->shape->rank + 1, dim))
            return s->r->err->code;
    }
    return RT_OK;
}

static enum rt_status parse_batch(struct parse *s)
{
    const struct kn_feature_map *m = s->map;

    s->room = 2 * (int64_t)m->n + 16;
    const size_t n_part = (size_t)(m->n_lists * s->n) * sizeof *s->part;
    const size_t n_last = (size_t)m->n * sizeof *s->last;
    char *p = rt_scratch(s->r, n_part + n_last + (size_t)s->room * sizeof *s->entry);
    if (!p)
        return s->r->err->code;
    s->part = (struct part *)(void *)p;
    s->last = (int64_t *)(void *)(p + n_part);
    s->entry = (struct entry *)(void *)(p + n_part + n_last);
    memset(p, 0, n_part + n_last);

    enum rt_status st = fixed_outputs(s);
    for (s->e = 0; s->e < s->n && !st; s->e++) {
        st = read_example(s, &rt_strs(&s->r->in[0])[s->e]);
        if (!st && s->e % 256 == 255)
            st = rt_run_check(s->r);
    }
    if (!st)
        st = write_lists(s);
    free(s->own_entry);
    return st;
}

/* ---- one example ---- */

static enum rt_status parse_failed(struct parse *s, const struct kn_feature *f, int64_t n)
{
    const bool counted = f->dtype == RT_STRING && f->list >= 0;

    if (n < 0)
        return rt_fail_memory(s->r->err, s->r->node->name, sizeof(struct rt_str));
    return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                   "Key: %.*s.  Can't parse serialized Example: %s %s_list%s", KN_SPAN(f->name),
                   counted ? "Could not get num elements in" : "Parsing", list_name(f->dtype),
                   counted ? "." : " failed.");
}

/* Outputs of a list of n elements; where its values go, or NULL. */
static void *list_outputs(struct parse *s, const struct kn_feature *f, int64_t n)
{
    int64_t dim[RT_MAX_RANK];

    if (f->kind == KN_DENSE) {
        memcpy(dim, f->shape->dim, (size_t)f->shape->rank * sizeof *dim);
        dim[0] = f->stride ? n / f->stride : 0;
        return kn_out(s->r, s->l->vals + f->at, f->shape->rank, dim);
    }
    if (f->kind == KN_RAGGED) {
        void *value = kn_out(s->r, s->l->ragged + f->at, 1, &n);
        /* One example alone has no splits. */
        return value && kn_out(s->r, s->l->ragged + s->map->n_ragged + f->at, 1, (int64_t[]){0})
                   ? value
                   : NULL;
    }
    int64_t *index = kn_out(s->r, f->at, 2, (int64_t[]){n, 1});
    int64_t *shape = index ? kn_out(s->r, 2 * s->map->n_sparse + f->at, 1, (int64_t[]){1}) : NULL;
    if (!shape)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        index[i] = i;
    shape[0] = n;
    return kn_out(s->r, s->map->n_sparse + f->at, 1, &n);
}

static enum rt_status read_list_alone(struct parse *s, const struct kn_feature *f,
                                      struct rt_span list)
{
    int64_t n;

    if (!kn_feature_list(f->dtype, list, NULL, INT64_MAX, &n))
        return parse_failed(s, f, n);
    if (f->kind == KN_DENSE && (f->stride ? n % f->stride : n) != 0)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Error while parsing feature with key %.*s: number of elements should be "
                       "divisible by %lld, found %lld instead",
                       KN_SPAN(f->name), (long long)f->stride, (long long)n);
    void *value = list_outputs(s, f, n);
    if (!value)
        return s->r->err->code;
    return n == 0 || kn_feature_list(f->dtype, list, value, n, &n) ? RT_OK : parse_failed(s, f, n);
}

static enum rt_status read_alone(struct parse *s, const struct entry *e)
{
    const struct kn_feature *f = &s->map->feature[e->found];
    struct rt_span list = e->feature;
    const enum rt_dtype t = kn_feature_type(&list);
    int64_t n;

    if (t == RT_N_DTYPES)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT, "Unsupported datatype.");
    if (t == RT_NO_DTYPE || s->last[e->found])
        return RT_OK;
    s->last[e->found] = 1;
    if (t != f->dtype)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Key: %.*s.  Data types don't match. %s: %s%s: %s", KN_SPAN(f->name),
                       f->kind == KN_DENSE ? "Data type" : "Expected type",
                       rt_dtype_name(f->kind == KN_DENSE ? t : (enum rt_dtype)f->dtype),
                       f->kind == KN_DENSE ? " but expected type" : ", Actual type",
                       rt_dtype_name(f->kind == KN_DENSE ? (enum rt_dtype)f->dtype : t));
    if (f->list >= 0)
        return read_list_alone(s, f, list);
    if (!kn_feature_list(f->dtype, list, row_of(s, f, 0), f->stride, &n))
        return parse_failed(s, f, n);
    if (n == f->stride)
        return RT_OK;
    return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                   "Key: %.*s.  Can't parse serialized Example: Some %s_list slice was not parsed.",
                   KN_SPAN(f->name), list_name(f->dtype));
}

static enum rt_status missing_alone(struct parse *s, const struct kn_feature *f)
{
    if (f->list >= 0)
        return list_outputs(s, f, 0) ? RT_OK : s->r->err->code;
    const struct rt_tensor *v = &s->r->in[f->def];
    if (rt_tensor_count(v) == 0)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Feature: %.*s (data type: %s) is required but could not be found.",
                       KN_SPAN(f->name), rt_dtype_name(f->dtype));
    return kn_copy(f->dtype, row_of(s, f, 0), v->data, f->stride, s->r->err);
}

static enum rt_status parse_alone(struct parse *s)
{
    const struct kn_feature_map *m = s->map;
    const struct rt_str *example = rt_strs(&s->r->in[0]);
    const size_t n_last = (size_t)m->n * sizeof *s->last;

    s->room = 2 * (int64_t)m->n + 16;
    char *p = rt_scratch(s->r, n_last + (size_t)s->room * sizeof *s->entry);
    if (!p)
        return s->r->err->code;
    s->last = (int64_t *)(void *)p;
    s->entry = (struct entry *)(void *)(p + n_last);
    memset(p, 0, n_last);

    enum rt_status st = RT_OK;
    for (int k = 0; k < m->n_dense && !st; k++)
        if (m->feature[k].list < 0 &&
            !kn_out(s->r, s->l->vals + k, m->feature[k].shape->rank, m->feature[k].shape->dim))
            st = s->r->err->code;
    st = st ? st : read_entries(s, rt_span_of(rt_str_data(example), example->n));
    for (int64_t i = s->n_entries; i-- > 0 && !st;)
        st = read_alone(s, &s->entry[i]);
    for (int k = 0; k < m->n && !st; k++)
        if (!s->last[k])
            st = missing_alone(s, &m->feature[k]);
    free(s->own_entry);
    return st;
}

static enum rt_status run(struct rt_run *r)
{
    const struct layout l = layout_of(r->node);
    struct parse s = {.r = r, .l = &l, .map = r->state, .n = 1};
    struct kn_feature_map *own = NULL;
    bool unknown = false;
    enum rt_status st = check_inputs(r, &l);

    if (st)
        return st;
    if (!s.map) {
        s.map = own = make_map(r->node, &l, input_of_run, r, alloc_of_run, NULL, &unknown);
        if (!own)
            return rt_fail_memory(r->err, r->node->name, sizeof *own);
    }
    if (unknown)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: a key is no scalar", r->node->name);
    else if (s.map->has_twins)
        st = rt_fail(r->err, RT_INTERNAL, "Could not avoid collision. This should not happen.");
    else if (r->in[0].rank == 1) {
        s.n = r->in[0].dim[0];
        st = parse_batch(&s);
    } else
        st = parse_alone(&s);
    free(own);
    return st;
}

#define PARSE(symbol, op_)                                                                         \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .check = check, .infer = infer, .rows = rows},                       \
        .kernels = KN_CPU(op_, #symbol, 0, prepare, run),                                          \
    };
PARSE(parse_example, "ParseExample")
PARSE(parse_example_v2, "ParseExampleV2")
PARSE(parse_single_example, "ParseSingleExample")
