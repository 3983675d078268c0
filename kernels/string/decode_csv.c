/* DecodeCSV splits records into fields (RFC 4180, with TensorFlow's exceptions) and parses them. */
#include "kernels/string/each.h"
#include "kernels/string/parse.h"

struct csv {
    bool has_quotes;
    char delimiter;
    struct rt_span na_value;
    const int64_t *selected; /* indices of the selected fields, or NULL for all fields */
    int64_t n_selected;
};

struct record {
    struct rt_run *r;
    const struct csv *csv;
    const char *p, *end;
    bool is_stored; /* whether fields are stored, or only checked and counted */
    int64_t index;
    int64_t left;          /* countdown of rt_run_spend */
    struct rt_bytes field; /* contents of the current field, if it is quoted */
};

/* Reads the contents of an unquoted field, and advances past the delimiter that follows the
 * field. */
static enum rt_status plain_field(struct record *c, struct rt_span *out)
{
    const char *from = c->p;

    for (; c->p < c->end && *c->p != c->csv->delimiter; c->p++)
        if ((c->csv->has_quotes && *c->p == '"') || *c->p == '\n' || *c->p == '\r')
            return rt_fail(c->r->err, RT_INVALID_ARGUMENT,
                           "Unquoted fields cannot have quotes/CRLFs inside");
        else if ((c->p - from) % KN_TEXT_CHUNK == KN_TEXT_CHUNK - 1 &&
                 rt_run_spend(c->r, &c->left, 4 * KN_TEXT_CHUNK))
            return c->r->err->code;
    *out = rt_span_of(from, (size_t)(c->p - from));
    c->p++;
    return RT_OK;
}

/* Reads the contents of a field whose opening quote has been read, and advances past the delimiter
 * that follows the field. */
static enum rt_status quoted_field(struct record *c, struct rt_span *out)
{
    c->field.n = 0;
    while (c->end - c->p > 1 && (c->p[0] != '"' || c->p[1] != c->csv->delimiter)) {
        if (c->p[0] == '"' && c->p[1] != '"')
            return rt_fail(c->r->err, RT_INVALID_ARGUMENT,
                           "Quote inside a string has to be escaped by another quote");
        rt_bytes_addc(&c->field, c->p[0]);
        c->p += c->p[0] == '"' ? 2 : 1;
        if (c->field.n % (KN_TEXT_CHUNK / 8) == 0 && rt_run_spend(c->r, &c->left, KN_TEXT_CHUNK))
            return c->r->err->code;
    }
    if (c->p >= c->end || *c->p != '"' || (c->p + 1 < c->end && c->p[1] != c->csv->delimiter))
        return rt_fail(c->r->err, RT_INVALID_ARGUMENT,
                       "Quoted field has to end with quote followed by delim or end");
    c->p += 2;
    *out = rt_span_of(c->field.p, c->field.n);
    return c->field.failed ? kn_text_failed(&c->field) : RT_OK;
}

/* Stores a field, or the default if the field is empty, in output k. */
static enum rt_status put_field(struct record *c, int k, struct rt_span text)
{
    struct rt_run *r = c->r;
    const struct rt_tensor *def = &r->in[1 + k];
    const enum rt_dtype dtype = kn_dtype(&r->out[k]);
    void *o = kn_at_mut(&r->out[k], c->index);
    const char *p = (const char *)text.p;
    int64_t v = 0;
    bool ok = true;

    if (text.n == 0 || rt_span_eq(text, c->csv->na_value)) {
        if (rt_tensor_count(def) != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Field %d is required but missing in record %lld!", k,
                           (long long)c->index);
        kn_copy(dtype, o, def->data, 1);
        return RT_OK;
    }
    if (dtype == RT_STRING)
        return kn_set_text(r, &c->left, o, p, text.n);
    if (rt_run_spend(r, &c->left, KN_STRING_WORK + 4 * (int64_t)text.n))
        return r->err->code;
    if (dtype == RT_F32) {
        ok = kn_parse_float(p, text.n, o);
    } else if (dtype == RT_F64) {
        ok = kn_parse_double(p, text.n, o);
    } else {
        ok = kn_parse_i64(p, text.n, &v) && (dtype == RT_I64 || (v >= INT32_MIN && v <= INT32_MAX));
        kn_put_int(&r->out[k], c->index, ok ? v : 0);
    }
    if (ok)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "Field %d in record %lld is not a valid %s: %.*s",
                   k, (long long)c->index, rt_dtype_name(dtype), (int)(text.n < 200 ? text.n : 200),
                   p);
}

/* Reads the fields of a record and, if c->is_stored, stores the selected ones. Sets *n to their
 * number. */
static enum rt_status read_record(struct record *c, int64_t *n)
{
    const struct csv *csv = c->csv;
    const struct rt_str *s = &rt_strs(&c->r->in[0])[c->index];
    const char *from = rt_str_data(s);
    enum rt_status st = RT_OK;
    int64_t at = 0; /* index of the current field */
    bool is_wanted = false;

    *n = 0;
    c->p = from;
    c->end = from + s->n;
    while (c->p < c->end && !st) {
        struct rt_span text = {0};
        if (*c->p == '\n' || *c->p == '\r') {
            c->p++;
            st = rt_run_spend(c->r, &c->left, 1);
            continue;
        }
        if (csv->has_quotes && *c->p == '"') {
            c->p++;
            st = quoted_field(c, &text);
        } else {
            st = plain_field(c, &text);
        }
        is_wanted = !csv->selected || csv->selected[*n] == at;
        if (!st && is_wanted && c->is_stored)
            st = put_field(c, (int)*n, text);
        *n += is_wanted;
        at++;
        if (!st)
            st = rt_run_spend(c->r, &c->left, KN_STRING_WORK + (int64_t)text.n);
        if (csv->selected && *n == csv->n_selected)
            return st;
    }
    if (st || from == c->end || c->end[-1] != csv->delimiter)
        return st;
    /* A delimiter at the end is followed by an empty field. */
    is_wanted = !csv->selected || csv->selected[*n] == at;
    if (is_wanted && c->is_stored)
        st = put_field(c, (int)*n, (struct rt_span){0});
    *n += is_wanted;
    return st;
}

/* Reads the attributes. Fails if TensorFlow's kernel refuses their values. */
static enum rt_status read_attrs(const struct rt_node *n, struct csv *out, struct rt_error *err)
{
    const struct rt_span delimiter = rt_attr_str(n, "field_delim");

    out->has_quotes = rt_attr_bool(n, "use_quote_delim");
    out->na_value = rt_attr_str(n, "na_value");
    out->n_selected = (int64_t)rt_attr_ints(n, "select_cols", &out->selected);
    if (out->n_selected == 0)
        out->selected = NULL;
    if (out->selected && out->n_selected != n->n_out)
        return rt_fail(err, RT_INVALID_ARGUMENT, "select_cols should match output size");
    for (int64_t i = 0; i < out->n_selected; i++) {
        if (i > 0 && out->selected[i - 1] >= out->selected[i])
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "select_cols should be strictly increasing indices");
    }
    if (out->selected && out->selected[0] < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "select_cols should be non-negative indices");
    if (delimiter.n != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "field_delim should be only 1 char");
    out->delimiter = (char)delimiter.p[0];
    return RT_OK;
}

static enum rt_status check_defaults(struct rt_run *r)
{
    for (int k = 0; k < r->n_out; k++) {
        const struct rt_tensor *def = &r->in[1 + k];
        if (def->rank > 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Each record default should be at most rank 1");
        if (rt_tensor_count(def) > 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "There should only be 1 default per field but field %d has %lld", k,
                           (long long)rt_tensor_count(def));
    }
    return RT_OK;
}

static enum rt_status csv_run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0];
    struct csv csv;
    struct record c = {.r = r, .csv = &csv, .left = RT_WORK};
    enum rt_status st = read_attrs(r->node, &csv, r->err);

    if (!st)
        st = check_defaults(r);
    for (int k = 0; k < r->n_out && !st; k++)
        if (!kn_out(r, k, in->rank, in->dim))
            st = r->err->code;
    if (st)
        return st;
    kn_text_begin(&c.field, r);
    for (; c.index < rt_tensor_count(in) && !st; c.index++) {
        int64_t n;
        c.is_stored = false;
        st = read_record(&c, &n);
        if (!st && n != r->n_out)
            st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                         "Expect %d fields but have %lld in record %lld", r->n_out, (long long)n,
                         (long long)c.index);
        c.is_stored = true;
        if (!st)
            st = read_record(&c, &n);
    }
    kn_text_end(&c.field);
    return st;
}

const struct kn_entry kn_decode_csv = {
    .op = {.name = "DecodeCSV", .infer = kn_infer_each, .rows = rt_rows_same},
    .kernels =
        KN_KERNELS({.op = "DecodeCSV", .device = "CPU", .name = "decode_csv", .run = csv_run}),
};
