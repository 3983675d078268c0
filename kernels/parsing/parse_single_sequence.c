/*
 * ParseSingleSequenceExample converts one tf.SequenceExample to tensors. The op occurs in graphs
 * from before TensorFlow 1.13. Unlike its successors, it follows protobuf's rules: fields may have
 * any order, unknown fields are skipped, and lists may have any number of chunks, packed or not.
 */
#include "kernels/array/array.h"
#include "kernels/parsing/parse_sequence.h"
#include "kernels/parsing/wire_example.h"
#include "kernels/entry.h"
#include "runtime/base/bytes.h"

#include <stdio.h>
#include <stdlib.h>

struct single {
    struct rt_run *r;
    /* the two halves of the example: the context and the feature lists */
    struct kn_sequence_half half[2];
    /* for the context and the feature lists, the bytes of each Feature or FeatureList */
    struct rt_span *found[2];
    bool *is_there[2];
    struct rt_span name; /* the example's name, for error messages */
};

/* ---- a Feature ---- */

static enum rt_dtype kind_of(uint32_t field)
{
    return field == 1 ? RT_STRING : field == 2 ? RT_F32 : field == 3 ? RT_I64 : RT_NO_DTYPE;
}

/* The destination of a list's elements. The first `capacity` elements are written to dst, unless
 * dst is NULL or the type of the elements differs from `dtype`. */
struct sink {
    enum rt_dtype dtype;
    struct rt_run *r; /* the run whose memory pool counts strings, or NULL if dst is NULL */
    void *dst;
    int64_t capacity;
    bool no_memory; /* set, together with r->err, if memory runs out */
};

static void put_int(struct sink *s, int64_t at, uint64_t v)
{
    if (s->dst && s->dtype == RT_I64 && at < s->capacity)
        ((int64_t *)s->dst)[at] = (int64_t)v;
}

static void put_float(struct sink *s, int64_t at, const void *p)
{
    if (s->dst && s->dtype == RT_F32 && at < s->capacity)
        memcpy((float *)s->dst + at, p, 4);
}

static void put_str(struct sink *s, int64_t at, struct rt_span v)
{
    if (s->dst && s->dtype == RT_STRING && at < s->capacity)
        s->no_memory |=
            !rt_str_set((struct rt_str *)s->dst + at, rt_run_pool(s->r), v.p, v.n, s->r->err);
}

/* Reads field 1 of a list, which holds one element or packed elements. Returns false if the field
 * is malformed. */
static bool read_values(enum rt_dtype kind, const struct kn_field *f, struct sink *s, int64_t *n)
{
    uint64_t v;
    struct rt_span rest = f->bytes;

    if (kind == RT_STRING && f->type == KN_BYTES) {
        put_str(s, (*n)++, rest);
    } else if (kind == RT_F32 && f->type == KN_FIXED32) {
        const uint32_t bits = (uint32_t)f->value;
        put_float(s, (*n)++, &bits);
    } else if (kind == RT_F32 && f->type == KN_BYTES) {
        if (rest.n % 4 != 0)
            return false;
        for (size_t i = 0; i < rest.n; i += 4)
            put_float(s, (*n)++, rest.p + i);
    } else if (kind == RT_I64 && f->type == KN_VARINT) {
        put_int(s, (*n)++, f->value);
    } else if (kind == RT_I64 && f->type == KN_BYTES) {
        for (struct kn_wire w = kn_wire_of(rest); kn_wire_left(&w);) {
            if (!kn_wire_varint(&w, &v))
                return false;
            put_int(s, (*n)++, v);
        }
    }
    return true;
}

/* Reads the elements of the list in a Feature. Sets *kind to the type of the list, or to
 * RT_NO_DTYPE if there is none. Returns false if the Feature is malformed. */
static bool read_feature(struct rt_span feature, struct sink *s, enum rt_dtype *kind, int64_t *n)
{
    struct kn_field f, g;
    int more, inner;

    *kind = RT_NO_DTYPE;
    *n = 0;
    while ((more = kn_field_next(&feature, &f)) > 0) {
        const enum rt_dtype of = f.type == KN_BYTES ? kind_of(f.number) : RT_NO_DTYPE;
        if (of == RT_NO_DTYPE)
            continue;
        /* the lists form a oneof, so a list of another type replaces earlier ones */
        if (of != *kind)
            *n = 0;
        *kind = of;
        while ((inner = kn_field_next(&f.bytes, &g)) > 0)
            if (g.number == 1 && !read_values(of, &g, s, n))
                return false;
        if (inner < 0)
            return false;
    }
    return more == 0;
}

static bool is_feature(struct rt_span feature)
{
    struct sink none = {0};
    enum rt_dtype kind;
    int64_t n;

    return read_feature(feature, &none, &kind, &n);
}

/* ---- the message ---- */

static bool is_utf8(struct rt_span s)
{
    for (size_t i = 0; i < s.n;) {
        const unsigned char c = s.p[i];
        const size_t n = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
        uint32_t v = n == 1 ? c : n ? c & (0x7fu >> n) : 0;
        if (n == 0 || n > s.n - i)
            return false;
        for (size_t k = 1; k < n; k++) {
            if (s.p[i + k] >> 6 != 2)
                return false;
            v = v << 6 | (s.p[i + k] & 0x3f);
        }
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        if (v < least[n] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
            return false;
        i += n;
    }
    return true;
}

static bool is_feature_list(struct rt_span list)
{
    struct kn_field f;
    int more;

    while ((more = kn_field_next(&list, &f)) > 0)
        if (f.number == 1 && f.type == KN_BYTES && !is_feature(f.bytes))
            return false;
    return more == 0;
}

static bool read_map(struct single *s, int half, struct rt_span map)
{
    struct kn_field f, g;
    int more, inner;

    while ((more = kn_field_next(&map, &f)) > 0) {
        struct rt_span key = {0}, value = {0};
        if (f.number != 1 || f.type != KN_BYTES)
            continue;
        while ((inner = kn_field_next(&f.bytes, &g)) > 0) {
            if (g.number == 1 && g.type == KN_BYTES)
                key = g.bytes;
            else if (g.number == 2 && g.type == KN_BYTES)
                value = g.bytes;
        }
        if (inner < 0 || !is_utf8(key) || !(half ? is_feature_list(value) : is_feature(value)))
            return false;
        const int k = kn_feature_map_find(s->half[half].map, key);
        if (k >= 0) {
            s->found[half][k] = value;
            s->is_there[half][k] = true;
        }
    }
    return more == 0;
}

/* the work of reading a field of the message, in units of rt_run_spend */
enum { FIELD_WORK = 8 };

static enum rt_status read_message(struct single *s)
{
    const struct rt_str *example = rt_strs(&s->r->in[0]);
    const struct rt_span whole = rt_span_of(rt_str_data(example), example->n);
    struct rt_span rest = whole;
    struct kn_field f;
    int more;

    while ((more = kn_field_next(&rest, &f)) > 0) {
        if (rt_run_spend(s->r, &s->r->left, FIELD_WORK))
            return s->r->err->code;
        if (f.type == KN_BYTES && (f.number == 1 || f.number == 2) &&
            !read_map(s, (int)f.number - 1, f.bytes)) {
            more = -1;
            break;
        }
    }
    if (more < 0)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Could not parse example input, value: '%.*s'", KN_SPAN(whole));
    return RT_OK;
}

/* ---- error text for a Feature of the wrong type ---- */

static void add(struct rt_bytes *b, const char *text)
{
    rt_bytes_add(b, text, strlen(text));
}

static void add_escaped(struct rt_bytes *b, const struct rt_str *s)
{
    static const char plain[] = "\n\r\t\"'\\", names[] = "nrt\"'\\";
    const char *p = rt_str_data(s);
    char text[8];

    add(b, "\"");
    for (size_t i = 0; i < s->n; i++) {
        const unsigned char c = (unsigned char)p[i];
        const char *at = c ? strchr(plain, c) : NULL;
        if (at)
            snprintf(text, sizeof text, "\\%c", names[at - plain]);
        else
            snprintf(text, sizeof text, c >= 0x20 && c < 0x7f ? "%c" : "\\%03o", c);
        add(b, text);
    }
    add(b, "\"");
}

static void add_element(struct rt_bytes *b, const struct rt_tensor *t, int64_t i)
{
    char text[32];

    if (t->dtype == RT_STRING) {
        add_escaped(b, &rt_strs(t)[i]);
        return;
    }
    if (t->dtype == RT_I64) {
        snprintf(text, sizeof text, "%lld", (long long)kn_int_at(t, i));
    } else {
        const float v = ((const float *)t->data)[i];
        snprintf(text, sizeof text, "%.6g", (double)v);
        float back = 0;
        if (sscanf(text, "%f", &back) != 1 || back < v || back > v)
            snprintf(text, sizeof text, "%.9g", (double)v);
    }
    add(b, text);
}

/* Sets the error for a Feature of the wrong type. The message shows the Feature in protobuf's text
 * format. */
static enum rt_status wrong_type(struct single *s, const char *what, const struct kn_feature *f,
                                 struct rt_span feature, int64_t row)
{
    static const char *const lists[] = {
        [RT_F32] = "float_list", [RT_STRING] = "bytes_list", [RT_I64] = "int64_list"};
    struct sink sink = {0};
    struct rt_tensor t = {0};
    struct rt_bytes text;
    enum rt_dtype kind;
    char index[40] = "";
    int64_t n;

    rt_bytes_init(&text, 1 << 16);
    read_feature(feature, &sink, &kind, &n);
    if (kind && rt_tensor_new(&t, NULL, kind, 1, &n, s->r->err) == RT_OK) {
        sink = (struct sink){.dtype = kind, .r = s->r, .dst = t.data, .capacity = n};
        read_feature(feature, &sink, &kind, &n);
        add(&text, lists[kind]);
        add(&text, " {\n");
        for (int64_t i = 0; i < n && text.n < 4096; i++) {
            add(&text, "  value: ");
            add_element(&text, &t, i);
            add(&text, "\n");
        }
        add(&text, "}\n");
    }
    rt_tensor_clear(&t);
    if (row >= 0)
        snprintf(index, sizeof index, ", Index: %lld", (long long)row);
    enum rt_status st = rt_fail(
        s->r->err, RT_INVALID_ARGUMENT,
        "Name: %.*s, %s: %.*s%s.  Data types don't match. Expected type: %s  Feature is: %.*s",
        KN_SPAN(s->name), what, KN_SPAN(f->name), index, rt_dtype_name(f->dtype), (int)text.n,
        (const char *)text.p);
    rt_bytes_clear(&text);
    return st;
}

/* ---- outputs ---- */

static enum rt_status copy_dense(struct single *s, const char *what, const struct kn_feature *f,
                                 struct rt_span feature, int64_t row, void *out)
{
    struct sink sink = {.dtype = f->dtype, .r = s->r, .dst = out, .capacity = f->stride};
    enum rt_dtype kind;
    int64_t n;

    read_feature(feature, &sink, &kind, &n);
    if (kind != f->dtype)
        return wrong_type(s, what, f, feature, row);
    if (n != f->stride)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Name: %.*s, Key%s %.*s, Index: %lld.  Number of %s values != expected.  "
                       "%calues size: %lld but output shape: %s",
                       KN_SPAN(s->name), kind == RT_STRING ? "" : ":", KN_SPAN(f->name),
                       (long long)(row < 0 ? 0 : row),
                       kind == RT_STRING ? "bytes" : rt_dtype_name(kind),
                       kind == RT_STRING ? 'V' : 'v', (long long)n, KN_TEXT(f->shape));
    return sink.no_memory ? s->r->err->code : RT_OK;
}

static enum rt_status context_dense(struct single *s, const struct kn_feature *f, int k)
{
    const struct rt_tensor *def = &s->r->in[f->def];
    void *out = kn_out(s->r, s->half[0].dense + f->at, f->shape->rank, f->shape->dim);

    if (!out)
        return s->r->err->code;
    if (s->is_there[0][k])
        return copy_dense(s, "Context feature", f, s->found[0][k], -1, f->stride ? out : NULL);
    if (rt_tensor_count(def) == 0)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Name: %.*s, Context feature '%.*s' is required but could not be found.",
                       KN_SPAN(s->name), KN_SPAN(f->name));
    kn_copy(f->dtype, out, def->data, f->stride);
    return RT_OK;
}

static enum rt_status context_sparse(struct single *s, const struct kn_feature *f, int k)
{
    const struct kn_sequence_half *h = &s->half[0];
    struct sink sink = {.dtype = f->dtype, .r = s->r};
    enum rt_dtype kind;
    int64_t n;

    read_feature(s->found[0][k], &sink, &kind, &n);
    if (kind != RT_NO_DTYPE && kind != f->dtype)
        return wrong_type(s, "Context feature", f, s->found[0][k], -1);
    int64_t *index = kn_out(s->r, h->indices + f->at, 2, (int64_t[]){n, 1});
    void *value = index ? kn_out(s->r, h->values + f->at, 1, &n) : NULL;
    int64_t *shape = value ? kn_out(s->r, h->shapes + f->at, 1, (int64_t[]){1}) : NULL;
    if (!shape)
        return s->r->err->code;
    shape[0] = n;
    for (int64_t i = 0; i < n; i++)
        index[i] = i;
    sink = (struct sink){.dtype = f->dtype, .r = s->r, .dst = value, .capacity = n};
    read_feature(s->found[0][k], &sink, &kind, &n);
    return sink.no_memory ? s->r->err->code : RT_OK;
}

/* Removes the next Feature from a FeatureList. Returns false if there is none. */
static bool next_row(struct rt_span *list, struct rt_span *feature)
{
    struct kn_field f;

    while (kn_field_next(list, &f) > 0)
        if (f.number == 1 && f.type == KN_BYTES) {
            *feature = f.bytes;
            return true;
        }
    return false;
}

static bool may_miss(const struct single *s, const struct kn_feature *f)
{
    const struct rt_tensor *names = &s->r->in[1];

    for (int64_t i = 0; i < names->dim[0]; i++)
        if (rt_span_eq(rt_span_of(rt_str_data(&rt_strs(names)[i]), rt_strs(names)[i].n), f->name))
            return true;
    return false;
}

static enum rt_status list_dense(struct single *s, const struct kn_feature *f, int k)
{
    struct rt_span list = s->found[1][k], feature;
    int64_t dim[RT_MAX_RANK + 1] = {0};
    enum rt_status st = RT_OK;

    if (!s->is_there[1][k] && !may_miss(s, f))
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Name: %.*s, Feature list '%.*s' is required but could not be found.  Did "
                       "you mean to include it in feature_list_dense_missing_assumed_empty or "
                       "feature_list_dense_defaults?",
                       KN_SPAN(s->name), KN_SPAN(f->name));
    while (next_row(&list, &feature))
        dim[0]++;
    memcpy(dim + 1, f->shape->dim, (size_t)f->shape->rank * sizeof *dim);
    char *out = kn_out(s->r, s->half[1].dense + f->at, f->shape->rank + 1, dim);
    if (!out)
        return s->r->err->code;
    list = s->found[1][k];
    for (int64_t row = 0; !st && next_row(&list, &feature); row++) {
        st = copy_dense(s, "Feature list", f, feature, row, f->stride ? out : NULL);
        out += (size_t)f->stride * rt_dtype_size(f->dtype);
    }
    return st;
}

static enum rt_status list_sparse(struct single *s, const struct kn_feature *f, int k)
{
    const struct kn_sequence_half *h = &s->half[1];
    struct rt_span list = s->found[1][k], feature;
    struct sink sink = {.dtype = f->dtype, .r = s->r};
    int64_t total = 0, most = 0, rows = 0, n;
    enum rt_dtype kind;

    for (; next_row(&list, &feature); rows++) {
        read_feature(feature, &sink, &kind, &n);
        if (kind != RT_NO_DTYPE && kind != f->dtype)
            return wrong_type(s, "Feature List", f, feature, rows);
        total += n;
        most = n > most ? n : most;
    }
    int64_t *index = kn_out(s->r, h->indices + f->at, 2, (int64_t[]){total, 2});
    void *value = index ? kn_out(s->r, h->values + f->at, 1, &total) : NULL;
    int64_t *shape = value ? kn_out(s->r, h->shapes + f->at, 1, (int64_t[]){2}) : NULL, at = 0;
    if (!shape)
        return s->r->err->code;
    shape[0] = rows;
    shape[1] = most;
    list = s->found[1][k];
    for (int64_t row = 0; next_row(&list, &feature); row++) {
        sink.dst = (char *)value + (size_t)at * rt_dtype_size(f->dtype);
        sink.capacity = total - at;
        read_feature(feature, &sink, &kind, &n);
        for (int64_t i = 0; i < n; i++, at++) {
            index[2 * at] = row;
            index[2 * at + 1] = i;
        }
    }
    return sink.no_memory ? s->r->err->code : RT_OK;
}

/* ---- a run ---- */

static enum rt_status check_inputs(struct single *s)
{
    const struct rt_tensor *names = &s->r->in[1], *debug = &s->r->in[s->r->n_in - 1];
    enum rt_status st = kn_half_make(s->r, "context_", &s->half[0]);

    st = st ? st : kn_half_make(s->r, "feature_list_", &s->half[1]);
    if (st)
        return st;
    if (names->rank != 1)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Expected feature_list_dense_missing_assumed_empty to be a vector, got "
                       "shape: %s",
                       KN_TEXT(names));
    s->name = rt_span_str("<unknown>");
    if (rt_tensor_count(debug) > 0) {
        if (debug->rank != 0)
            return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                           "Expected debug_name to be a scalar, got shape: %s", KN_TEXT(debug));
        s->name = rt_span_of(rt_str_data(rt_strs(debug)), rt_strs(debug)->n);
    }
    if (s->r->in[0].rank != 0)
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "Expected serialized to be a scalar, got shape: %s", KN_TEXT(&s->r->in[0]));
    return kn_half_defaults(s->r, &s->half[0]);
}

static enum rt_status parse(struct single *s)
{
    static enum rt_status (*const write[2][2])(struct single * s, const struct kn_feature *f,
                                               int k) = {{context_dense, context_sparse},
                                                         {list_dense, list_sparse}};
    const size_t n[2] = {(size_t)s->half[0].map->n, (size_t)s->half[1].map->n};
    const size_t size = (n[0] + n[1]) * (sizeof *s->found[0] + sizeof *s->is_there[0]);
    char *p = rt_scratch(s->r, size + 1);

    if (!p)
        return s->r->err->code;
    memset(p, 0, size);
    s->found[0] = (struct rt_span *)(void *)p;
    s->found[1] = s->found[0] + n[0];
    s->is_there[0] = (bool *)(s->found[1] + n[1]);
    s->is_there[1] = s->is_there[0] + n[0];
    enum rt_status st = read_message(s);
    for (int half = 0; half < 2; half++)
        for (int k = 0; k < (int)n[half] && !st; k++) {
            const struct kn_feature *f = &s->half[half].map->feature[k];
            /* If several features share a name, read_map records the bytes of the first one
             * only. */
            const int first = kn_feature_map_find(s->half[half].map, f->name);
            s->found[half][k] = s->found[half][first];
            s->is_there[half][k] = s->is_there[half][first];
            st = write[half][f->kind == KN_SPARSE](s, f, k);
        }
    return st;
}

static enum rt_status parse_single_sequence_run(struct rt_run *r)
{
    struct single s = {.r = r};
    enum rt_status st = check_inputs(&s);

    st = st ? st : parse(&s);
    rt_pool_free(s.half[0].map);
    rt_pool_free(s.half[1].map);
    return st;
}

const struct kn_entry kn_parse_single_sequence_example = {
    .op = {.name = "ParseSingleSequenceExample", .check = kn_half_check},
    .kernels = KN_CPU("ParseSingleSequenceExample", "parse_single_sequence_example", 0, NULL,
                      parse_single_sequence_run),
};
