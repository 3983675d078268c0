/*
 * ParseSequenceExample and ParseSequenceExampleV2 convert a serialized tf.SequenceExample, or a
 * batch of them, to tensors.
 *
 * The first pass reads the examples and records the bytes of the requested features. The second
 * pass counts each feature over all examples. The third pass makes the outputs and writes the
 * values.
 */
#include "kernels/array/array.h"
#include "kernels/parsing/parse_sequence.h"
#include "kernels/parsing/wire_example.h"
#include "kernels/entry.h"

#include <stdlib.h>

enum { TAG_1 = 0x0a, TAG_2 = 0x12 }; /* protobuf tags of fields 1 and 2 with wire type LEN */

struct proto { /* The bytes of a feature in one example. */
    struct rt_span bytes;
    bool is_there;
};

struct total {
    int64_t most;     /* maximum number of elements in an example or in the default */
    int64_t elements; /* number of elements in all examples */
    int64_t rows;     /* for feature lists, number of rows in all examples */
};

struct sequence {
    struct rt_run *r;
    bool is_batch;
    int64_t n;
    /* the two halves of the example: the context and the feature lists */
    struct kn_sequence_half half[2];
    /* for the context and the feature lists, the bytes of each feature in each example */
    struct proto *proto[2];
    struct total *total[2];
    /* approximate work per example, and work left until the next deadline check (rt_run_spend) */
    int64_t each, left;
};

/* the work of reading a field of an example, in units of rt_run_spend */
enum { FIELD_WORK = 8 };

static struct rt_span name_of(const struct sequence *s, int64_t e)
{
    const struct rt_tensor *names = &s->r->in[1];

    if (rt_tensor_count(names) == 0)
        return rt_span_str("<unknown>");
    return rt_span_of(rt_str_data(&rt_strs(names)[e]), rt_strs(names)[e].n);
}

/* ---- the list of a Feature ---- */

enum { MALFORMED = -1, NO_MEMORY = -2 };

/* Reads the Feature at w up to the end of its list, and writes the elements to dst unless dst is
 * NULL. Returns the number of elements, MALFORMED if the list is malformed or has another type, or
 * NO_MEMORY, with the reason in r->err, if memory runs out. */
static int64_t read_list(struct rt_run *r, struct kn_wire *w, enum rt_dtype dtype, void *dst)
{
    const uint8_t tag = dtype == RT_STRING ? 0x0a : dtype == RT_F32 ? 0x12 : 0x1a;
    struct kn_wire list, packed;
    const uint8_t *start = w->p + 1;
    uint32_t length;
    int64_t n;

    if (!kn_wire_tag(w, tag) || !kn_wire_length(w, &length))
        return -1;
    w->p = start;
    if (!kn_wire_part(w, &list))
        return -1;
    if (length == 0)
        return 0;
    if (dtype != RT_STRING && !kn_wire_left(&list))
        return -1;
    struct rt_span whole = rt_span_of(start, (size_t)(list.end - start));
    /* The number of packed floats is not checked, but the last float must have all four bytes. */
    if (dtype == RT_F32 && *list.p == TAG_1) {
        list.p++;
        if (!kn_wire_part(&list, &packed) || kn_wire_left(&packed) % 4 != 0)
            return -1;
        if (dst && kn_wire_left(&packed))
            memcpy(dst, packed.p, kn_wire_left(&packed));
        return (int64_t)(kn_wire_left(&packed) / 4);
    }
    return kn_feature_list(r, dtype, whole, dst, INT64_MAX, &n) ? n : n < 0 ? NO_MEMORY : MALFORMED;
}

static enum rt_status wrong_type(struct sequence *s, const struct kn_feature *f, int64_t e,
                                 int64_t row)
{
    if (row < 0)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Name: %.*s, Context feature: %.*s.  Data types don't match. Expected type: "
                       "%s",
                       KN_SPAN(name_of(s, e)), KN_SPAN(f->name), rt_dtype_name(f->dtype));
    return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                   "Name: %.*s, Feature list: %.*s, Index: %lld.  Data types don't match. Expected "
                   "type: %s",
                   KN_SPAN(name_of(s, e)), KN_SPAN(f->name), (long long)row,
                   rt_dtype_name(f->dtype));
}

static enum rt_status bad_list(struct sequence *s, const struct kn_feature *f, int64_t e)
{
    return rt_fail(s->r->err, RT_INVALID_ARGUMENT, "Error in sequence feature %.*s in example %.*s",
                   KN_SPAN(f->name), KN_SPAN(name_of(s, e)));
}

/* Reads the next row of a feature list, and sets *n to the row's number of elements. Writes the
 * elements to dst unless dst is NULL. */
static enum rt_status read_row(struct sequence *s, const struct kn_feature *f, int64_t e,
                               struct kn_wire *w, int64_t row, void *dst, int64_t *n)
{
    struct kn_wire part;
    uint32_t length = 0;
    const uint8_t *start = w->p + 1;

    *n = 0;
    if (!kn_wire_tag(w, TAG_1) || !kn_wire_length(w, &length))
        return bad_list(s, f, e);
    if (length == 0)
        return RT_OK;
    if (length == 1)
        return bad_list(s, f, e);
    w->p = start;
    if (!kn_wire_part(w, &part))
        return bad_list(s, f, e);
    const bool is_odd = length == 2 && kn_wire_left(&part) == 2 && part.p[1] != 0;
    *n = is_odd ? MALFORMED : read_list(s->r, &part, f->dtype, dst);
    if (*n == NO_MEMORY)
        return s->r->err->code;
    if (*n < 0)
        return wrong_type(s, f, e, row);
    if (kn_wire_left(&part)) /* bytes after the list are read as the next row */
        w->p = part.p;
    return RT_OK;
}

/* ---- first pass: find the features ---- */

static enum rt_status bad_message(struct sequence *s, int64_t e)
{
    return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                   "Invalid protocol message input, example id: %.*s", KN_SPAN(name_of(s, e)));
}

static bool note_entries(struct sequence *s, int half, int64_t e, struct kn_wire *w)
{
    const struct kn_feature_map *m = s->half[half].map;
    struct kn_wire map, entry;
    struct rt_span key, value;

    if (!kn_wire_part(w, &map))
        return false;
    while (kn_wire_left(&map)) {
        if (!kn_wire_tag(&map, TAG_1) || !kn_wire_part(&map, &entry) ||
            !kn_wire_tag(&entry, TAG_1) || !kn_wire_bytes(&entry, &key) ||
            !kn_wire_tag(&entry, TAG_2) || !kn_wire_bytes(&entry, &value) || kn_wire_left(&entry))
            return false;
        const int k = kn_feature_map_find(m, key);
        if (k >= 0)
            s->proto[half][k * s->n + e] = (struct proto){value, true};
    }
    return true;
}

static enum rt_status note_example(struct sequence *s, int64_t e)
{
    const struct rt_str *example = &rt_strs(&s->r->in[0])[e];
    struct kn_wire w = kn_wire_of(rt_span_of(rt_str_data(example), example->n));

    while (kn_wire_left(&w)) {
        if (rt_run_spend(s->r, &s->left, FIELD_WORK))
            return s->r->err->code;
        const int half = kn_wire_tag(&w, TAG_1) ? 0 : kn_wire_tag(&w, TAG_2) ? 1 : 2;
        if (half < 2 ? !note_entries(s, half, e, &w) : !kn_wire_skip(&w))
            return bad_message(s, e);
    }
    return RT_OK;
}

/* Copies to each feature the bytes that note_entries recorded for the first feature of the same
 * name. */
static void note_twins(struct sequence *s, int half)
{
    const struct kn_feature_map *m = s->half[half].map;

    for (int k = 0; k < m->n && m->has_twins; k++) {
        const int first = kn_feature_map_find(m, m->feature[k].name);
        if (first != k)
            memcpy(s->proto[half] + k * s->n, s->proto[half] + first * s->n,
                   (size_t)s->n * sizeof(struct proto));
    }
}

/* ---- second pass: count elements and rows ---- */

static enum rt_status count_feature(struct sequence *s, int half, int k)
{
    const struct kn_feature *f = &s->half[half].map->feature[k];
    struct total *t = &s->total[half][k];

    *t = (struct total){.most = f->def >= 0 ? rt_tensor_count(&s->r->in[f->def]) : 0};
    for (int64_t e = 0; e < s->n; e++) {
        if (rt_run_spend(s->r, &s->left, s->each))
            return s->r->err->code;
        const struct proto *p = &s->proto[half][k * s->n + e];
        struct kn_wire w = kn_wire_of(p->bytes);
        int64_t of_example = 0, n, rows = 0;
        if (p->bytes.n == 0)
            continue;
        if (half == 0) {
            of_example = read_list(s->r, &w, f->dtype, NULL);
            if (of_example < 0)
                return wrong_type(s, f, e, -1);
        }
        for (; half == 1 && kn_wire_left(&w); rows++) {
            enum rt_status st = read_row(s, f, e, &w, rows, NULL, &n);
            if (st)
                return st;
            of_example += n;
        }
        t->elements += of_example;
        t->rows += rows;
        t->most = of_example > t->most ? of_example : t->most;
    }
    return RT_OK;
}

/* ---- third pass: write the outputs ---- */

static void *after(void *p, const struct kn_feature *f, int64_t n)
{
    return (char *)p + (size_t)n * rt_dtype_size(f->dtype);
}

/* Makes output k. Its dimensions are the batch size (if there is a batch), `first` (unless it is
 * negative), and those of the feature's shape. */
static void *dense_out(struct sequence *s, int k, const struct kn_feature *f, int64_t first)
{
    int64_t dim[RT_MAX_RANK + 2];
    int rank = 0;

    if (s->is_batch)
        dim[rank++] = s->n;
    if (first >= 0)
        dim[rank++] = first;
    for (int i = 0; i < f->shape->rank; i++)
        dim[rank++] = f->shape->dim[i];
    return kn_out(s->r, k, rank, dim);
}

static enum rt_status write_context_dense(struct sequence *s, const struct kn_feature *f)
{
    const int k = (int)(f - s->half[0].map->feature);
    const struct total *t = &s->total[0][k];
    const struct rt_tensor *def = &s->r->in[f->def];

    if (t->most != f->stride)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Inconsistent max number of elements for feature %.*s: expected %lld, but "
                       "found %lld",
                       KN_SPAN(f->name), (long long)f->stride, (long long)t->most);
    char *out = dense_out(s, s->half[0].dense + f->at, f, -1);
    if (!out)
        return s->r->err->code;
    for (int64_t e = 0; e < s->n; e++, out = after(out, f, f->stride)) {
        if (rt_run_spend(s->r, &s->left, s->each))
            return s->r->err->code;
        const struct proto *p = &s->proto[0][k * s->n + e];
        struct kn_wire w = kn_wire_of(p->bytes);
        int64_t n = 0;
        if (!p->is_there) {
            n = rt_tensor_count(def);
            if (n == 0)
                return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                               "Feature: %.*s (data type: %s) is required but could not be found.",
                               KN_SPAN(f->name), rt_dtype_name(f->dtype));
            kn_copy(f->dtype, out, def->data, n);
        } else if (p->bytes.n) {
            /* read_list writes at most `most` elements, for which `out` has capacity */
            n = read_list(s->r, &w, f->dtype, f->stride ? out : NULL);
            if (n == NO_MEMORY)
                return s->r->err->code;
        }
        if (n != f->stride)
            return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                           "Unexpected number of elements in example %.*s", KN_SPAN(name_of(s, e)));
    }
    return RT_OK;
}

static enum rt_status write_context_sparse(struct sequence *s, const struct kn_feature *f)
{
    const struct kn_sequence_half *h = &s->half[0];
    const int k = (int)(f - h->map->feature);
    const int64_t total = s->total[0][k].elements, width = 1 + s->is_batch;
    int64_t *index = kn_out(s->r, h->indices + f->at, 2, (int64_t[]){total, width}), most = 0;
    void *value = index ? kn_out(s->r, h->values + f->at, 1, &total) : NULL;
    int64_t *shape = value ? kn_out(s->r, h->shapes + f->at, 1, &width) : NULL;

    if (!shape)
        return s->r->err->code;
    for (int64_t e = 0; e < s->n; e++) {
        if (rt_run_spend(s->r, &s->left, s->each))
            return s->r->err->code;
        struct kn_wire w = kn_wire_of(s->proto[0][k * s->n + e].bytes);
        const int64_t n = kn_wire_left(&w) ? read_list(s->r, &w, f->dtype, value) : 0;
        /* The list was counted before, so it is well formed, and read_list fails only if memory
         * runs out. */
        if (n < 0)
            return s->r->err->code;
        value = after(value, f, n);
        for (int64_t i = 0; i < n; i++) {
            if (s->is_batch)
                *index++ = e;
            *index++ = i;
        }
        most = n > most ? n : most;
    }
    if (s->is_batch)
        shape[0] = s->n;
    shape[width - 1] = most;
    return RT_OK;
}

/* Creates the output for row splits, and sets its first element to 0. For a single example, the
 * output is a scalar. */
static struct rt_tensor *splits_out(struct sequence *s, int k, int64_t n)
{
    void *p = kn_out(s->r, k, s->is_batch, (int64_t[]){n + 1});

    if (!p)
        return NULL;
    kn_put_int(&s->r->out[k], 0, 0);
    return &s->r->out[k];
}

static enum rt_status write_context_ragged(struct sequence *s, const struct kn_feature *f)
{
    const struct kn_sequence_half *h = &s->half[0];
    const int k = (int)(f - h->map->feature);
    void *value = kn_out(s->r, h->ragged + f->at, 1, &s->total[0][k].elements);
    struct rt_tensor *splits = value ? splits_out(s, h->splits + f->at, s->n) : NULL;
    int64_t end = 0;

    if (!splits)
        return s->r->err->code;
    for (int64_t e = 0; e < s->n; e++) {
        if (rt_run_spend(s->r, &s->left, s->each))
            return s->r->err->code;
        struct kn_wire w = kn_wire_of(s->proto[0][k * s->n + e].bytes);
        const int64_t n = kn_wire_left(&w) ? read_list(s->r, &w, f->dtype, value) : 0;
        /* The list was counted before, so it is well formed, and read_list fails only if memory
         * runs out. */
        if (n < 0)
            return s->r->err->code;
        value = after(value, f, n);
        end += n;
        if (s->is_batch)
            kn_put_int(splits, e + 1, end);
    }
    return RT_OK;
}

static enum rt_status write_list_dense(struct sequence *s, const struct kn_feature *f)
{
    const struct kn_sequence_half *h = &s->half[1];
    const int k = (int)(f - h->map->feature);
    const int64_t most = s->total[1][k].most;

    if (f->stride ? most % f->stride : most) {
        struct rt_shape all = {.rank = 1, .dim = {-1}};
        for (int i = 0; i < f->shape->rank && all.rank < RT_MAX_RANK; i++)
            all.dim[all.rank++] = f->shape->dim[i];
        return rt_fail(
            s->r->err, RT_INVALID_ARGUMENT,
            "Feature list '%.*s' has an unexpected number of values.  Total values size: "
            "%lld is not consistent with output shape: %s",
            KN_SPAN(f->name), (long long)most, KN_TEXT(&all));
    }
    void *out = dense_out(s, h->dense + f->at, f, f->stride ? most / f->stride : 0);
    int64_t *lengths = NULL;
    if (out && h->lengths >= 0)
        lengths = kn_out(s->r, h->lengths + f->at, s->is_batch, &s->n);
    if (!lengths)
        return s->r->err->code;
    for (int64_t e = 0; e < s->n; e++) {
        if (rt_run_spend(s->r, &s->left, s->each))
            return s->r->err->code;
        const struct proto *p = &s->proto[1][k * s->n + e];
        struct kn_wire w = kn_wire_of(p->bytes);
        int64_t rows = 0, n, had = 0;
        if (!p->is_there && !f->may_miss)
            return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                           "Name: %.*s, Feature list '%.*s' is required but could not be found.  "
                           "Did you mean to include it in feature_list_dense_missing_assumed_empty "
                           "or feature_list_dense_defaults?",
                           KN_SPAN(name_of(s, e)), KN_SPAN(f->name));
        for (; kn_wire_left(&w); rows++, had += n) {
            enum rt_status st = read_row(s, f, e, &w, rows, after(out, f, had), &n);
            if (st)
                return st;
            if (n != f->stride)
                return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                               "Name: %.*s, Key: %.*s, Index: %lld.  Number of values != expected. "
                               " values size: %lld but output shape: %s",
                               KN_SPAN(name_of(s, e)), KN_SPAN(f->name), (long long)rows,
                               (long long)n, KN_TEXT(f->shape));
        }
        lengths[e] = rows;
        if (f->dtype != RT_STRING && most > had &&
            kn_zero_chunks(s->r, after(out, f, had),
                           (size_t)(most - had) * rt_dtype_size(f->dtype)))
            return s->r->err->code;
        out = after(out, f, most);
    }
    return RT_OK;
}

static enum rt_status write_list_sparse(struct sequence *s, const struct kn_feature *f)
{
    const struct kn_sequence_half *h = &s->half[1];
    const int k = (int)(f - h->map->feature);
    const int64_t total = s->total[1][k].elements, width = 2 + s->is_batch;
    int64_t *index = kn_out(s->r, h->indices + f->at, 2, (int64_t[]){total, width});
    void *value = index ? kn_out(s->r, h->values + f->at, 1, &total) : NULL;
    int64_t *shape = value ? kn_out(s->r, h->shapes + f->at, 1, &width) : NULL;
    int64_t most_rows = 0, most = 0, n;

    if (!shape)
        return s->r->err->code;
    for (int64_t e = 0; e < s->n; e++) {
        if (rt_run_spend(s->r, &s->left, s->each))
            return s->r->err->code;
        struct kn_wire w = kn_wire_of(s->proto[1][k * s->n + e].bytes);
        int64_t row = 0;
        for (; kn_wire_left(&w); row++) {
            enum rt_status st = read_row(s, f, e, &w, row, value, &n);
            if (st)
                return st;
            value = after(value, f, n);
            for (int64_t i = 0; i < n; i++) {
                if (s->is_batch)
                    *index++ = e;
                *index++ = row;
                *index++ = i;
            }
            most = n > most ? n : most;
        }
        most_rows = row > most_rows ? row : most_rows;
    }
    if (s->is_batch)
        *shape++ = s->n;
    shape[0] = most_rows;
    shape[1] = most;
    return RT_OK;
}

static enum rt_status write_list_ragged(struct sequence *s, const struct kn_feature *f)
{
    const struct kn_sequence_half *h = &s->half[1];
    const int k = (int)(f - h->map->feature);
    const struct total *t = &s->total[1][k];
    void *value = kn_out(s->r, h->ragged + f->at, 1, &t->elements);
    void *inner = value ? kn_out(s->r, h->inner + f->at, 1, (int64_t[]){t->rows + 1}) : NULL;
    struct rt_tensor *outer = inner ? splits_out(s, h->splits + f->at, s->n) : NULL;
    int64_t rows = 0, end = 0, n;

    if (!outer)
        return s->r->err->code;
    kn_put_int(&s->r->out[h->inner + f->at], 0, 0);
    for (int64_t e = 0; e < s->n; e++) {
        if (rt_run_spend(s->r, &s->left, s->each))
            return s->r->err->code;
        struct kn_wire w = kn_wire_of(s->proto[1][k * s->n + e].bytes);
        for (int64_t row = 0; kn_wire_left(&w); row++) {
            enum rt_status st = read_row(s, f, e, &w, row, value, &n);
            if (st)
                return st;
            value = after(value, f, n);
            end += n;
            kn_put_int(&s->r->out[h->inner + f->at], ++rows, end);
        }
        if (s->is_batch)
            kn_put_int(outer, e + 1, rows);
    }
    return RT_OK;
}

/* Writes all outputs. The outputs for the dense, sparse and ragged features of the context come
 * first, followed by the outputs for the feature lists. */
static enum rt_status write_outputs(struct sequence *s)
{
    static enum rt_status (*const write[2][3])(struct sequence * s, const struct kn_feature *f) = {
        {write_context_dense, write_context_sparse, write_context_ragged},
        {write_list_dense, write_list_sparse, write_list_ragged}};
    enum rt_status st = RT_OK;

    for (int half = 0; half < 2; half++)
        for (int k = 0; k < s->half[half].map->n && !st; k++) {
            const struct kn_feature *f = &s->half[half].map->feature[k];
            st = write[half][f->kind](s, f);
        }
    return st;
}

/* ---- a run ---- */

/* Refuses two features of the context, or two of the feature lists, that have the same name but
 * different kinds or types. */
static enum rt_status check_twins(struct sequence *s, int half)
{
    const struct kn_feature_map *m = s->half[half].map;

    for (int k = 0; k < m->n && m->has_twins; k++) {
        const struct kn_feature *f = &m->feature[k];
        const struct kn_feature *first = &m->feature[kn_feature_map_find(m, f->name)];
        if (first->kind != f->kind)
            return rt_fail(s->r->err, RT_INVALID_ARGUMENT, "%s feature %.*s cannot be both %s",
                           half ? "Sequence" : "Context", KN_SPAN(f->name),
                           first->kind == KN_SPARSE ? "ragged and sparse" : "dense and sparse");
        if (first->dtype != f->dtype)
            return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                           "%s feature %.*s cannot be both %s and %s",
                           half ? "Sequence" : "Context", KN_SPAN(f->name),
                           rt_dtype_name(first->dtype), rt_dtype_name(f->dtype));
    }
    return RT_OK;
}

static void mark_optional(struct sequence *s)
{
    const struct rt_node *n = s->r->node;
    const int k = kn_input_named(n, "feature_list_", "dense_missing_assumed_empty");
    const struct rt_attr *names =
        k < 0 ? rt_attr(n, "feature_list_dense_missing_assumed_empty") : NULL;
    struct kn_feature_map *m = s->half[1].map;

    for (int i = 0; i < m->n_dense; i++) {
        if (k >= 0)
            m->feature[i].may_miss = kn_int_at(&s->r->in[k], i) != 0;
        for (size_t j = 0; names && j < names->n; j++)
            m->feature[i].may_miss |= rt_span_eq(names->v.strs[j], m->feature[i].name);
    }
}

static enum rt_status check_inputs(struct sequence *s)
{
    const struct rt_tensor *in = &s->r->in[0], *names = &s->r->in[1];
    const int k = kn_input_named(s->r->node, "feature_list_", "dense_missing_assumed_empty");

    if (in->rank > 1)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Expected serialized to be a scalar or vector, got shape: %s", KN_TEXT(in));
    s->is_batch = in->rank == 1;
    s->n = rt_tensor_count(in);
    enum rt_status st = kn_half_make(s->r, "context_", &s->half[0]);
    st = st ? st : kn_half_make(s->r, "feature_list_", &s->half[1]);
    if (!st && k >= 0 && rt_tensor_count(&s->r->in[k]) != s->half[1].map->n_dense)
        st = rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                     "Expected len(feature_list_dense_missing_assumed_empty to match "
                     "Nfeature_list_dense");
    st = st ? st : kn_half_defaults(s->r, &s->half[0]);
    if (!st && rt_tensor_count(names) > 0 && rt_tensor_count(names) != s->n)
        st = rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                     "example_names must be empty or have the correct number of elements");
    st = st ? st : check_twins(s, 0);
    return st ? st : check_twins(s, 1);
}

static enum rt_status parse(struct sequence *s)
{
    const int n[2] = {s->half[0].map->n, s->half[1].map->n};
    const size_t protos = (size_t)(n[0] + n[1]) * (size_t)s->n * sizeof(struct proto);
    const size_t totals = (size_t)(n[0] + n[1]) * sizeof(struct total);
    char *p = rt_scratch(s->r, protos + totals + 1);
    enum rt_status st = RT_OK;

    if (!p)
        return s->r->err->code;
    memset(p, 0, protos + totals);
    s->proto[0] = (struct proto *)(void *)p;
    s->proto[1] = s->proto[0] + n[0] * s->n;
    s->total[0] = (struct total *)(void *)(p + protos);
    s->total[1] = s->total[0] + n[0];
    mark_optional(s);
    const struct rt_tensor *serialized = &s->r->in[0];
    s->each = 256 + (int64_t)(s->n ? rt_tensor_text_bytes(serialized) / (size_t)s->n : 0);
    s->left = RT_WORK;
    for (int64_t e = 0; e < s->n && !st; e++) {
        st = note_example(s, e);
        if (!st)
            st = rt_run_spend(s->r, &s->left, s->each);
    }
    for (int half = 0; half < 2; half++) {
        note_twins(s, half);
        for (int k = 0; k < n[half] && !st; k++)
            st = count_feature(s, half, k);
    }
    return st ? st : write_outputs(s);
}

static enum rt_status parse_sequence_run(struct rt_run *r)
{
    struct sequence s = {.r = r};
    enum rt_status st = check_inputs(&s);

    st = st ? st : parse(&s);
    rt_pool_free(s.half[0].map);
    rt_pool_free(s.half[1].map);
    return st;
}

static enum rt_status parse_sequence_infer(struct rt_infer *x)
{
    const struct rt_attr *shapes = rt_attr(x->node, "context_dense_shapes");
    const int dense = kn_output_named(x->node, "context_", "dense_values");
    const int lengths = kn_output_named(x->node, "feature_list_", "dense_lengths");
    const struct rt_shape *in = &x->in[0].shape;

    if (in->rank < 0 || in->rank > 1)
        return RT_OK;
    for (size_t k = 0; k < shapes->n; k++) {
        struct rt_shape *o = &x->out[dense + (int)k].shape;
        if (shapes->v.shapes[k].rank + in->rank > RT_MAX_RANK)
            continue;
        o->rank = shapes->v.shapes[k].rank + in->rank;
        o->dim[0] = in->dim[0];
        for (int i = 0; i < shapes->v.shapes[k].rank; i++)
            o->dim[in->rank + i] = shapes->v.shapes[k].dim[i];
    }
    for (size_t k = 0; k < rt_attr(x->node, "feature_list_dense_types")->n; k++)
        x->out[lengths + (int)k].shape = *in;
    return RT_OK;
}

/* Marks the op as row-wise in the outputs for dense context features and in the lengths of feature
 * lists. Row i of these outputs depends only on example i. The feature lists themselves are padded
 * to the longest list of the batch. */
static void rows(struct rt_rows *r)
{
    const int dense = kn_output_named(r->node, "context_", "dense_values");
    const int lengths = kn_output_named(r->node, "feature_list_", "dense_lengths");

    if (kn_rows_independent(r) || !kn_rows_free(r, 1) || r->in_dep[0].kind != RT_DEP_ROWS ||
        r->in_dep[0].axis != 0 || r->in[0].shape.rank != 1)
        return;
    for (size_t k = 0; k < rt_attr(r->node, "Tcontext_dense")->n; k++)
        r->out_dep[dense + (int)k] = (struct rt_dep){RT_DEP_ROWS, 0};
    for (size_t k = 0; k < rt_attr(r->node, "feature_list_dense_types")->n; k++)
        r->out_dep[lengths + (int)k] = (struct rt_dep){RT_DEP_ROWS, 0};
}

#define PARSE(symbol, op_)                                                                         \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_),                                                                      \
               .check = kn_half_check,                                                             \
               .infer = parse_sequence_infer,                                                      \
               .rows = rows},                                                                      \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, parse_sequence_run),                              \
    };
PARSE(parse_sequence_example, "ParseSequenceExample")
PARSE(parse_sequence_example_v2, "ParseSequenceExampleV2")
