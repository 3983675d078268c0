/* Parses a single Example. The outputs have no batch dimension. The error messages are TensorFlow's
 * messages for single examples, not those for batches. */
#include "kernels/array/array.h"
#include "kernels/parsing/parse_example.h"

#include <stdlib.h>

static enum rt_status parse_failed(struct kn_parse *s, const struct kn_feature *f, int64_t n)
{
    const bool counted = f->dtype == RT_STRING && f->list >= 0;

    if (n < 0)
        return s->r->err->code;
    return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                   "Key: %.*s.  Can't parse serialized Example: %s %s_list%s", KN_SPAN(f->name),
                   counted ? "Could not get num elements in" : "Parsing",
                   kn_parse_list_name(f->dtype), counted ? "." : " failed.");
}

/* Creates the outputs of a feature whose list has n elements, and returns the memory for its
 * values. On failure, returns NULL and sets r->err. */
static void *list_outputs(struct kn_parse *s, const struct kn_feature *f, int64_t n)
{
    int64_t dim[RT_MAX_RANK];

    if (f->kind == KN_DENSE) {
        memcpy(dim, f->shape->dim, (size_t)f->shape->rank * sizeof *dim);
        dim[0] = f->stride ? n / f->stride : 0;
        return kn_out(s->r, s->l->vals + f->at, f->shape->rank, dim);
    }
    if (f->kind == KN_RAGGED) {
        void *value = kn_out(s->r, s->l->ragged + f->at, 1, &n);
        /* A single example has no row splits, so the output for them is empty. */
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

static enum rt_status read_list_alone(struct kn_parse *s, const struct kn_feature *f,
                                      struct rt_span list)
{
    int64_t n;

    if (!kn_feature_list(s->r, f->dtype, list, NULL, INT64_MAX, &n))
        return parse_failed(s, f, n);
    if (f->kind == KN_DENSE && (f->stride ? n % f->stride : n) != 0)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Error while parsing feature with key %.*s: number of elements should be "
                       "divisible by %lld, found %lld instead",
                       KN_SPAN(f->name), (long long)f->stride, (long long)n);
    void *value = list_outputs(s, f, n);
    if (!value)
        return s->r->err->code;
    return n == 0 || kn_feature_list(s->r, f->dtype, list, value, n, &n) ? RT_OK
                                                                         : parse_failed(s, f, n);
}

static enum rt_status read_alone(struct kn_parse *s, const struct kn_parse_entry *e)
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
    if (!kn_feature_list(s->r, f->dtype, list, kn_parse_row(s, f, 0), f->stride, &n))
        return parse_failed(s, f, n);
    if (n == f->stride)
        return RT_OK;
    return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                   "Key: %.*s.  Can't parse serialized Example: Some %s_list slice was not parsed.",
                   KN_SPAN(f->name), kn_parse_list_name(f->dtype));
}

static enum rt_status missing_alone(struct kn_parse *s, const struct kn_feature *f)
{
    if (f->list >= 0)
        return list_outputs(s, f, 0) ? RT_OK : s->r->err->code;
    const struct rt_tensor *v = &s->r->in[f->def];
    if (rt_tensor_count(v) == 0)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Feature: %.*s (data type: %s) is required but could not be found.",
                       KN_SPAN(f->name), rt_dtype_name(f->dtype));
    kn_copy(f->dtype, kn_parse_row(s, f, 0), v->data, f->stride);
    return RT_OK;
}

enum rt_status kn_parse_alone(struct kn_parse *s)
{
    const struct kn_feature_map *m = s->map;
    const struct rt_str *example = rt_strs(&s->r->in[0]);
    const size_t n_last = (size_t)m->n * sizeof *s->last;

    s->capacity = 2 * (int64_t)m->n + 16;
    char *p = rt_scratch(s->r, n_last + (size_t)s->capacity * sizeof *s->entry);
    if (!p)
        return s->r->err->code;
    s->last = (int64_t *)(void *)p;
    s->entry = (struct kn_parse_entry *)(void *)(p + n_last);
    memset(p, 0, n_last);

    enum rt_status st = RT_OK;
    for (int k = 0; k < m->n_dense && !st; k++)
        if (m->feature[k].list < 0 &&
            !kn_out(s->r, s->l->vals + k, m->feature[k].shape->rank, m->feature[k].shape->dim))
            st = s->r->err->code;
    st = st ? st : kn_parse_entries(s, rt_span_of(rt_str_data(example), example->n));
    for (int64_t i = s->n_entries; i-- > 0 && !st;)
        st = read_alone(s, &s->entry[i]);
    for (int k = 0; k < m->n && !st; k++)
        if (!s->last[k])
            st = missing_alone(s, &m->feature[k]);
    rt_pool_free(s->own_entry);
    return st;
}
