#include "clients/cli/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/cli/convert.h"
#include "runtime/base/base64.h"
#include "runtime/base/bytes.h"

/* ---- reading ---- */

/* Returns the length of an unquoted NaN or Infinity at p, or 0 if there is none. */
static size_t bare_word(const unsigned char *p, size_t n)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity", "Inf", "-Inf"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t len = strlen(words[i]);
        if (n >= len && memcmp(p, words[i], len) == 0)
            return len;
    }
    return 0;
}

/* Copies a JSON text, with quotes around NaN and Infinity so that jansson can parse it. */
static void quote_bare_words(struct rt_span text, struct rt_bytes *out)
{
    bool in_string = false;
    size_t copied = 0;
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = text.p[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == 'N' || c == 'I' || c == '-')) {
            size_t n = bare_word(text.p + i, text.n - i);
            if (!n)
                continue;
            rt_bytes_add(out, text.p + copied, i - copied);
            rt_bytes_addc(out, '"');
            rt_bytes_add(out, text.p + i, n);
            rt_bytes_addc(out, '"');
            i += n - 1;
            copied = i + 1;
        }
    }
    if (copied < text.n)
        rt_bytes_add(out, text.p + copied, text.n - copied);
}

enum rt_status cl_json_load(struct rt_span text, json_t **out, struct rt_error *err)
{
    struct rt_bytes quoted;
    json_error_t why;
    *out = NULL;
    if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
        text = rt_span_of(text.p + 3, text.n - 3);
    rt_bytes_init(&quoted, SIZE_MAX);
    quote_bare_words(text, &quoted);
    if (quoted.failed) {
        rt_bytes_clear(&quoted);
        return rt_fail_memory(err, "JSON", text.n);
    }
    *out = json_loadb(quoted.p ? quoted.p : "", quoted.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    rt_bytes_clear(&quoted);
    return *out ? RT_OK
                : rt_fail(err, RT_INVALID_ARGUMENT, "not JSON: line %d column %d: %s", why.line,
                          why.column, why.text);
}

static const json_t *b64_of(const json_t *v)
{
    const json_t *text = json_object_size(v) == 1 ? json_object_get(v, "b64") : NULL;
    return json_is_string(text) ? text : NULL;
}

/* Decodes a base64 string. Returns NULL if the text is not base64 or memory runs out. */
static char *from_base64(const json_t *text, size_t *n, struct rt_arena *arena)
{
    struct rt_span s = rt_span_of(json_string_value(text), json_string_length(text));
    char *out = rt_arena_alloc(arena, s.n + 1);
    return out && rt_base64_read(out, n, s) ? out : NULL;
}

static bool is_leaf(const json_t *v)
{
    return !json_is_array(v);
}

struct fill {
    struct slipway_tensor *t;
    struct rt_arena *arena;
    char *at;
    size_t size;
    struct rt_error *err;
};

static bool put_leaf(struct fill *f, const json_t *v)
{
    int dtype = f->t->dtype;
    if (dtype == SLIPWAY_STRING) {
        struct slipway_string s = {0};
        const json_t *b64 = b64_of(v);
        if (b64)
            s.p = from_base64(b64, &s.n, f->arena);
        else if (json_is_string(v)) {
            s.n = json_string_length(v);
            s.p = rt_arena_strndup(f->arena, json_string_value(v), s.n);
        }
        memcpy(f->at, &s, sizeof s);
        return s.p != NULL;
    }
    if (json_is_integer(v) && dtype != SLIPWAY_BOOL)
        return cl_set_integer(dtype, f->at, json_integer_value(v));
    if (json_is_boolean(v) && dtype == SLIPWAY_BOOL)
        return cl_set_integer(dtype, f->at, json_is_true(v));
    if (!cl_is_real(dtype))
        return false;
    if (json_is_real(v))
        return cl_set_real(dtype, f->at, json_real_value(v));
    if (!json_is_string(v))
        return false;
    const char *word = json_string_value(v);
    bool minus = *word == '-';
    if (strcmp(word, "NaN") == 0)
        return cl_set_real(dtype, f->at, (double)NAN);
    if (strncmp(word + minus, "Inf", 3) != 0)
        return false;
    return cl_set_real(dtype, f->at, minus ? -(double)INFINITY : (double)INFINITY);
}

static enum rt_status put_values(struct fill *f, const json_t *v, int depth)
{
    const struct slipway_tensor *t = f->t;
    if (depth == t->rank) {
        if (!is_leaf(v) || !put_leaf(f, v)) {
            char *shown = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
            rt_fail(f->err, RT_INVALID_ARGUMENT, "\"%s\": %.60s is no %s", t->name,
                    shown ? shown : "a value", slipway_dtype_name(t->dtype));
            free(shown);
            return RT_INVALID_ARGUMENT;
        }
        f->at += f->size;
        return RT_OK;
    }
    if (!json_is_array(v) || (int64_t)json_array_size(v) != t->dim[depth])
        return rt_fail(f->err, RT_INVALID_ARGUMENT,
                       "\"%s\": the lists at level %d are not all of %lld elements", t->name,
                       depth + 1, (long long)t->dim[depth]);
    enum rt_status st = RT_OK;
    for (size_t i = 0; i < json_array_size(v) && !st; i++)
        st = put_values(f, json_array_get(v, i), depth + 1);
    return st;
}

static enum rt_status read_tensor(const json_t *v, const struct slipway_input *spec,
                                  struct rt_arena *arena, struct slipway_tensor *t,
                                  struct rt_error *err)
{
    *t = (struct slipway_tensor){.name = spec->name, .dtype = spec->dtype};
    size_t size = slipway_dtype_size(spec->dtype);
    if (!size || spec->dtype == SLIPWAY_COMPLEX64 || spec->dtype == SLIPWAY_COMPLEX128)
        return rt_fail(err, RT_UNIMPLEMENTED, "\"%s\": JSON has no form of %s", spec->name,
                       slipway_dtype_name(spec->dtype));
    for (const json_t *p = v; json_is_array(p); p = json_array_get(p, 0)) {
        if (t->rank == SLIPWAY_MAX_RANK)
            return rt_fail(err, RT_INVALID_ARGUMENT, "\"%s\": lists nested deeper than %d",
                           spec->name, SLIPWAY_MAX_RANK);
        t->dim[t->rank++] = (int64_t)json_array_size(p);
        if (!json_array_size(p))
            break;
    }
    int64_t count = slipway_count(t);
    struct fill f = {.t = t, .arena = arena, .size = size, .err = err};
    f.at = count < 0 ? NULL : rt_arena_array(arena, (size_t)count + 1, size);
    if (!f.at)
        return rt_fail_memory(err, "a tensor", (size_t)count * size);
    t->data = count ? f.at : NULL;
    return put_values(&f, v, 0);
}

enum rt_status cl_check_name(const char *name, const struct slipway_input *specs, int n_specs,
                             struct rt_error *err)
{
    struct rt_bytes known;
    for (int i = 0; i < n_specs; i++)
        if (strcmp(specs[i].name, name) == 0)
            return RT_OK;
    rt_bytes_init(&known, 1 << 16);
    for (int i = 0; i < n_specs; i++)
        rt_bytes_addf(&known, "%s\"%s\"", i ? ", " : "", specs[i].name);
    rt_fail(err, RT_INVALID_ARGUMENT, "the signature has no \"%s\", but %s", name,
            known.failed ? "others"
            : n_specs    ? known.p
                         : "nothing");
    rt_bytes_clear(&known);
    return RT_INVALID_ARGUMENT;
}

/* Reads tensors in the column format, which is an object with a value for each spec. If there is
 * one spec, `columns` may instead be the value of this spec. */
static enum rt_status read_columns(json_t *columns, const struct slipway_input *specs, int n_specs,
                                   struct rt_arena *arena, struct slipway_tensor *out, int *n_out,
                                   struct rt_error *err)
{
    if (!json_is_object(columns) || b64_of(columns)) {
        if (n_specs != 1)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%d tensors are wanted, each by its name",
                           n_specs);
        *n_out = 1;
        return read_tensor(columns, &specs[0], arena, out, err);
    }
    size_t used = 0;
    for (int i = 0; i < n_specs; i++) {
        const json_t *v = json_object_get(columns, specs[i].name);
        if (!v)
            continue;
        used++;
        enum rt_status st = read_tensor(v, &specs[i], arena, &out[(*n_out)++], err);
        if (st)
            return st;
    }
    const char *name;
    json_t *v;
    if (used == json_object_size(columns))
        return RT_OK;
    json_object_foreach(columns, name, v)
    {
        enum rt_status st = cl_check_name(name, specs, n_specs, err);
        if (st)
            return st;
    }
    return RT_OK;
}

/* Reads tensors in the row format. A row is an object with a value for each spec. If there is one
 * spec, a row may instead be the value of this spec. */
static enum rt_status read_rows(const json_t *rows, const struct slipway_input *specs, int n_specs,
                                struct rt_arena *arena, struct slipway_tensor *out, int *n_out,
                                struct rt_error *err)
{
    const json_t *first = json_array_get(rows, 0);
    if (!json_is_array(rows))
        return rt_fail(err, RT_INVALID_ARGUMENT, "the rows are not a list");
    bool named = json_is_object(first) && !b64_of(first);
    if (!named && n_specs != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%d tensors are wanted, each by its name",
                       n_specs);
    enum rt_status st = RT_OK;
    for (int i = 0; i < n_specs && !st; i++) {
        json_t *column = json_array();
        for (size_t r = 0; r < json_array_size(rows) && !st; r++) {
            json_t *row = json_array_get(rows, r);
            json_t *v = named ? json_object_get(row, specs[i].name) : row;
            if (!v || json_array_append(column, v) != 0)
                st = rt_fail(err, RT_INVALID_ARGUMENT, "row %zu has no \"%s\"", r, specs[i].name);
        }
        if (!st)
            st = read_tensor(column, &specs[i], arena, &out[(*n_out)++], err);
        json_decref(column);
    }
    return st;
}

enum rt_status cl_json_tensors(const json_t *body, const char *row_key, const char *column_key,
                               const struct slipway_input *specs, int n_specs,
                               struct rt_arena *arena, struct slipway_tensor **out, int *n_out,
                               bool *is_row, struct rt_error *err)
{
    const json_t *rows = json_object_get(body, row_key);
    json_t *columns = json_object_get(body, column_key);
    *n_out = 0;
    *is_row = rows != NULL;
    if (!(*out = rt_arena_array(arena, (size_t)n_specs + 1, sizeof **out)))
        return rt_fail_memory(err, "tensors", (size_t)n_specs * sizeof **out);
    if (rows)
        return read_rows(rows, specs, n_specs, arena, *out, n_out, err);
    if (columns)
        return read_columns(columns, specs, n_specs, arena, *out, n_out, err);
    return rt_fail(err, RT_INVALID_ARGUMENT, "neither \"%s\" nor \"%s\" is there", row_key,
                   column_key);
}

/* ---- writing ---- */

static void put_base64(struct rt_bytes *out, const unsigned char *p, size_t n)
{
    rt_bytes_adds(out, "{\"b64\": \"");
    rt_base64_write(out, p, n);
    rt_bytes_adds(out, "\"}");
}

void cl_json_text(struct rt_bytes *out, const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    const size_t before = out->n;
    rt_bytes_addc(out, '"');
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '"' || p[i] == '\\') {
            rt_bytes_addc(out, '\\');
            rt_bytes_addc(out, (char)p[i]);
        } else if (p[i] == '\n')
            rt_bytes_adds(out, "\\n");
        else if (p[i] < 0x20)
            rt_bytes_addf(out, "\\u%04x", p[i]);
        else
            rt_bytes_addc(out, (char)p[i]);
    }
    rt_bytes_addc(out, '"');
    for (size_t at = before, length; at < out->n; at += length) {
        length = (size_t)rt_utf8_length((const unsigned char *)out->p + at);
        if (length == 0) {
            out->n = before;
            put_base64(out, p, n);
            return;
        }
    }
}

void cl_json_real(struct rt_bytes *out, double v, bool is_double)
{
    char text[40];
    if (isnan(v)) {
        rt_bytes_adds(out, "NaN");
        return;
    }
    if (isinf(v)) {
        rt_bytes_adds(out, v < 0 ? "-Infinity" : "Infinity");
        return;
    }
    snprintf(text, sizeof text, "%g", v);
    if (is_double ? strtod(text, NULL) != v : strtof(text, NULL) != (float)v)
        snprintf(text, sizeof text, is_double ? "%.17g" : "%.9g", v);
    rt_bytes_adds(out, text);
    if (!strpbrk(text, ".e"))
        rt_bytes_adds(out, ".0");
}

static void put_element(struct rt_bytes *out, int dtype, const void *p)
{
    int64_t i = 0;
    uint64_t u = 0;
    switch (dtype) {
    case SLIPWAY_STRING: {
        const struct slipway_string *s = p;
        cl_json_text(out, s->p, s->n);
        break;
    }
    case SLIPWAY_BOOL:
        rt_bytes_adds(out, *(const unsigned char *)p ? "true" : "false");
        break;
    case SLIPWAY_INT64:
        memcpy(&i, p, sizeof i);
        rt_bytes_addf(out, "%lld", (long long)i);
        break;
    case SLIPWAY_UINT64:
        memcpy(&u, p, sizeof u);
        rt_bytes_addf(out, "%llu", (unsigned long long)u);
        break;
    case SLIPWAY_COMPLEX64:
    /* TensorFlow Serving has no JSON format for complex numbers. This client writes pairs of
     * numbers. */
    case SLIPWAY_COMPLEX128: {
        int part = dtype == SLIPWAY_COMPLEX64 ? SLIPWAY_FLOAT : SLIPWAY_DOUBLE;
        rt_bytes_addc(out, '[');
        cl_json_real(out, cl_get_real(part, p), part == SLIPWAY_DOUBLE);
        rt_bytes_adds(out, ", ");
        cl_json_real(out, cl_get_real(part, (const char *)p + slipway_dtype_size(part)),
                     part == SLIPWAY_DOUBLE);
        rt_bytes_addc(out, ']');
        break;
    }
    default:
        if (cl_is_integer(dtype))
            rt_bytes_addf(out, "%lld", (long long)cl_get_real(dtype, p));
        else
            cl_json_real(out, cl_get_real(dtype, p), dtype == SLIPWAY_DOUBLE);
    }
}

/* Writes the elements at *at as JSON lists, one level of nesting per dimension from `depth` on.
 * Advances *at past these elements. */
static void put_part(struct rt_bytes *out, const struct slipway_tensor *t, int depth,
                     const char **at)
{
    if (depth >= t->rank) {
        put_element(out, t->dtype, *at);
        *at += slipway_dtype_size(t->dtype);
        return;
    }
    rt_bytes_addc(out, '[');
    for (int64_t i = 0; i < t->dim[depth] && !out->failed; i++) {
        if (i)
            rt_bytes_adds(out, ", ");
        put_part(out, t, depth + 1, at);
    }
    rt_bytes_addc(out, ']');
}

static void put_columns(struct rt_bytes *out, const struct slipway_tensor *t, int n)
{
    for (int i = 0; i < n; i++) {
        const char *at = t[i].data;
        if (n > 1) {
            rt_bytes_adds(out, i ? ", " : "{");
            cl_json_text(out, t[i].name, strlen(t[i].name));
            rt_bytes_adds(out, ": ");
        }
        put_part(out, &t[i], 0, &at);
    }
    if (n != 1)
        rt_bytes_adds(out, n ? "}" : "{}");
}

void cl_json_request(struct rt_bytes *out, const char *signature,
                     const struct slipway_tensor *inputs, int n)
{
    rt_bytes_addc(out, '{');
    if (signature) {
        rt_bytes_adds(out, "\"signature_name\": ");
        cl_json_text(out, signature, strlen(signature));
        rt_bytes_adds(out, ", ");
    }
    rt_bytes_adds(out, "\"inputs\": ");
    put_columns(out, inputs, n);
    rt_bytes_addc(out, '}');
}

void cl_json_response(struct rt_bytes *out, const struct slipway_tensor *t, int n, bool rows)
{
    enum { MAX_OUTPUTS = 1024 };
    const char *at[MAX_OUTPUTS];
    rows = rows && n > 0 && n <= MAX_OUTPUTS;
    for (int i = 0; i < n && rows; i++) {
        rows = t[i].rank > 0 && t[i].dim[0] == t[0].dim[0];
        at[i] = t[i].data;
    }
    rt_bytes_adds(out, rows ? "{\"predictions\": [" : "{\"outputs\": ");
    if (!rows)
        put_columns(out, t, n);
    for (int64_t r = 0; rows && r < t[0].dim[0] && !out->failed; r++) {
        if (r)
            rt_bytes_adds(out, ", ");
        for (int i = 0; i < n; i++) {
            if (n > 1) {
                rt_bytes_adds(out, i ? ", " : "{");
                cl_json_text(out, t[i].name, strlen(t[i].name));
                rt_bytes_adds(out, ": ");
            }
            put_part(out, &t[i], 1, &at[i]);
        }
        if (n > 1)
            rt_bytes_addc(out, '}');
    }
    rt_bytes_adds(out, rows ? "]}" : "}");
}
