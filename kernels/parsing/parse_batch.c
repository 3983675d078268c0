/*
 * Parses a batch of Examples in two passes. The first pass reads example by example: it writes
 * dense features of fixed shape directly to their output rows, and checks and counts the lists of
 * the other features. The second pass processes one feature at a time and writes these lists to
 * outputs, whose sizes are known after the first pass.
 */
#include "kernels/array/array.h"
#include "kernels/parsing/parse_example.h"
#include "runtime/base/checked.h"

#include <stdlib.h>

/* work per example, and work per byte of an example, in units of rt_run_spend */
enum { EXAMPLE_WORK = 1024, BYTE_WORK = 4 };

/* Prepends "Name: n, Key: k, Index: i.  " to the error message. */
static enum rt_status about(struct kn_parse *s, const struct kn_feature *f)
{
    struct rt_span name = rt_span_str("<unknown>");

    if (rt_tensor_count(&s->r->in[s->l->names]) > 0)
        kn_parse_key(&s->r->in[s->l->names], (int)s->e, &name);
    return rt_fail_prefix(s->r->err, "Name: %.*s, Key: %.*s, Index: %lld.  ", KN_SPAN(name),
                          KN_SPAN(f->name), (long long)s->e);
}

static enum rt_status bad_list(struct kn_parse *s, int64_t n)
{
    if (n < 0)
        return s->r->err->code;
    return rt_fail(s->r->err, RT_INVALID_ARGUMENT, "Can't parse serialized Example.");
}

/* Reads a dense feature of fixed shape into its output row. */
static enum rt_status read_row(struct kn_parse *s, const struct kn_feature *f, struct rt_span list)
{
    int64_t n;

    if (!kn_feature_list(s->r, f->dtype, list, kn_parse_row(s, f, s->e), f->stride, &n)) {
        enum rt_status st = bad_list(s, n);
        return n < 0 ? st : about(s, f);
    }
    if (n == f->stride)
        return RT_OK;
    rt_fail(s->r->err, RT_INVALID_ARGUMENT,
            "Number of %s values != expected.  Values size: %lld but output shape: %s",
            kn_parse_list_name(f->dtype), (long long)n, KN_TEXT(f->shape));
    return about(s, f);
}

/* Checks a list of any length, counts its elements, and records its location. */
static enum rt_status note_list(struct kn_parse *s, const struct kn_feature *f, struct rt_span list,
                                int64_t *n)
{
    if (!kn_feature_list(s->r, f->dtype, list, NULL, INT64_MAX, n))
        return bad_list(s, *n);
    struct kn_parse_part *part = &s->part[f->list * s->n + s->e];
    *part = (struct kn_parse_part){.p = list.p, .bytes = (uint32_t)list.n, .n = *n};
    return RT_OK;
}

static enum rt_status read_feature(struct kn_parse *s, const struct kn_parse_entry *e)
{
    const struct kn_feature *f = &s->map->feature[e->found];
    int64_t *last = &s->last[e->found], n;
    struct rt_span list = e->feature;
    const enum rt_dtype t = kn_feature_type(&list);

    if (t == RT_N_DTYPES)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT, "Unsupported datatype.");
    if (f->kind == KN_DENSE && t == RT_NO_DTYPE)
        return RT_OK;
    /* a later entry of the same name, which takes precedence, has already been read */
    if (*last == s->e + 1)
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
            kn_parse_list_name(f->dtype), (long long)n, KN_TEXT(f->shape));
    return about(s, f);
}

static enum rt_status fill_default(struct kn_parse *s, const struct kn_feature *f)
{
    const struct rt_tensor *v = &s->r->in[f->def];

    if (rt_tensor_count(v) == 0) {
        struct rt_span name = rt_span_str("<unknown>");
        if (rt_tensor_count(&s->r->in[s->l->names]) > 0)
            kn_parse_key(&s->r->in[s->l->names], (int)s->e, &name);
        return rt_fail(
            s->r->err, RT_INVALID_ARGUMENT,
            "Name: %.*s, Feature: %.*s (data type: %s) is required but could not be found.",
            KN_SPAN(name), KN_SPAN(f->name), rt_dtype_name(f->dtype));
    }
    kn_copy(f->dtype, kn_parse_row(s, f, s->e), v->data, f->stride);
    return RT_OK;
}

static enum rt_status read_example(struct kn_parse *s, const struct rt_str *example)
{
    const struct rt_span bytes = rt_span_of(rt_str_data(example), example->n);
    enum rt_status st = RT_OK;

    if (!kn_parse_quick(s, bytes))
        st = kn_parse_entries(s, bytes);
    else
        s->n_entries = 0;

    for (int64_t i = s->n_entries; i-- > 0 && !st;)
        st = read_feature(s, &s->entry[i]);
    for (int k = 0; k < s->map->n_dense && !st; k++)
        if (s->last[k] != s->e + 1 && !s->map->feature[k].is_padded)
            st = fill_default(s, &s->map->feature[k]);
    return st;
}

/* ---- the second pass ---- */

static enum rt_status copy_parts(struct kn_parse *s, const struct kn_feature *f, void *dst,
                                 int64_t step)
{
    const struct kn_parse_part *part = &s->part[f->list * s->n];
    const size_t size = rt_dtype_size(f->dtype);
    char *to = dst;
    int64_t n;

    for (int64_t e = 0; e < s->n; e++) {
        if (part[e].is_short) {
            if (!kn_parse_short(s->r, f->dtype, &part[e], to))
                return bad_list(s, -1);
        } else if (part[e].n &&
                   !kn_feature_list(s->r, f->dtype, rt_span_of(part[e].p, part[e].bytes), to,
                                    part[e].n, &n))
            return bad_list(s, n);
        to += (size_t)(step ? step : part[e].n) * size;
        if (rt_run_spend(s->r, &s->r->left, 16 + part[e].n + (step ? step : 0)))
            return s->r->err->code;
    }
    return RT_OK;
}

static void measure(struct kn_parse *s, const struct kn_feature *f, int64_t *total, int64_t *most)
{
    const struct kn_parse_part *part = &s->part[f->list * s->n];

    *total = *most = 0;
    for (int64_t e = 0; e < s->n; e++) {
        *total += part[e].n;
        *most = part[e].n > *most ? part[e].n : *most;
    }
}

static enum rt_status write_padded(struct kn_parse *s, const struct kn_feature *f)
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
        /* Only the elements after the values are padded, because strings that are written as
         * padding and then replaced would be allocated in vain. */
        const struct kn_parse_part *part = &s->part[f->list * s->n];
        for (int64_t e = 0; e < s->n; e++)
            for (int64_t i = part[e].n; i < most; i++)
                rt_str_copy((struct rt_str *)out + e * most + i, rt_strs(pad));
    } else if (kn_repeat(f->dtype, out, pad->data, all, s->r)) {
        return s->r->err->code;
    }
    return copy_parts(s, f, out, most);
}

static enum rt_status write_sparse(struct kn_parse *s, const struct kn_feature *f)
{
    const struct kn_parse_part *part = &s->part[f->list * s->n];
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

static enum rt_status write_ragged(struct kn_parse *s, const struct kn_feature *f)
{
    const struct kn_parse_part *part = &s->part[f->list * s->n];
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

static enum rt_status write_lists(struct kn_parse *s)
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

static enum rt_status fixed_outputs(struct kn_parse *s)
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

enum rt_status kn_parse_batch(struct kn_parse *s)
{
    const struct kn_feature_map *m = s->map;

    s->capacity = 2 * (int64_t)m->n + 16;
    const size_t n_part = (size_t)(m->n_lists * s->n) * sizeof *s->part;
    const size_t n_last = (size_t)m->n * sizeof *s->last;
    char *p = rt_scratch(s->r, n_part + n_last + (size_t)s->capacity * sizeof *s->entry);
    struct kn_feature_memory memory;
    if (!p)
        return s->r->err->code;
    memory.n = 0;
    s->memory = &memory;
    s->part = (struct kn_parse_part *)(void *)p;
    s->last = (int64_t *)(void *)(p + n_part);
    s->entry = (struct kn_parse_entry *)(void *)(p + n_part + n_last);
    if (kn_zero_chunks(s->r, p, n_part + n_last))
        return s->r->err->code;

    int64_t row = EXAMPLE_WORK; /* work per example, including the writing of its dense features */
    for (int k = 0; k < m->n_dense; k++)
        row = rt_add_saturated(row, 8 + m->feature[k].stride);
    enum rt_status st = fixed_outputs(s);
    for (s->e = 0; s->e < s->n && !st; s->e++) {
        const struct rt_str *example = &rt_strs(&s->r->in[0])[s->e];
        st = read_example(s, example);
        if (!st)
            st = rt_run_spend(s->r, &s->r->left, row + BYTE_WORK * (int64_t)example->n);
    }
    if (!st)
        st = write_lists(s);
    rt_pool_free(s->own_entry);
    return st;
}
