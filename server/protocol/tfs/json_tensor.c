#include "server/protocol/tfs/json_tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "runtime/base/half.h"
#include "server/json/json_number.h"
#include "server/protocol/json_values.h"
#include "server/protocol/tfs/json_refusal.h"

/* ---- decoding: shapes ---- */

/* Determines the dimensions of nested lists from the first element of each list. Returns false if
 * the lists are nested deeper than max_rank. */
static bool shape_of(struct srv_json v, int max_rank, int *rank, int64_t *dim)
{
    *rank = 0;
    while (*v.p == '[') {
        if (*rank == max_rank)
            return false;
        dim[*rank] = srv_json_count(v);
        if (dim[(*rank)++] == 0)
            break;
        v.p = srv_json_first(v);
    }
    return true;
}

static enum rt_status too_deep(struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "JSON Value has lists nested deeper than %d, the largest rank of a tensor",
                   RT_MAX_RANK);
}

/* Returns the number of elements of a tensor of the given shape, at most INT64_MAX. */
static int64_t elements(int rank, const int64_t *dim)
{
    int64_t n = rt_count(rank, dim);
    return n < 0 ? INT64_MAX : n;
}

/* ---- decoding: the fast path ---- */

struct fill {
    const unsigned char *p, *end;
    struct srv_cancellation *cancellation;
    const unsigned char *check; /* place in the text of the next check for cancellation */
    enum rt_dtype dtype;
    int rank;
    const int64_t *dim;
    /* dst is the next element to fill, and dst_end is the end of the tensor's memory */
    unsigned char *dst, *dst_end;
};

/* number of elements of a list that are read between two checks for cancellation */
enum { RUN = 1024 };

/* Checks for cancellation, and sets the place of the next check. It is not part of go_on, which
 * would make the loops slower. */
__attribute__((noinline)) static bool look(struct fill *f, const unsigned char *p)
{
    enum { PIECE = 1 << 18 };
    f->check = p + PIECE;
    return srv_should_continue(f->cancellation, PIECE);
}

/* Returns whether the request is not cancelled. */
static inline bool go_on(struct fill *f, const unsigned char *p)
{
    return p < f->check || look(f, p);
}

/* Cost of storing one string, in bytes, as reported to srv_should_continue. */
enum { STRING_COST = 16 };

static bool fill_string(struct fill *f, struct rt_str *dst, const unsigned char **p)
{
    struct srv_json v = {*p, f->end, f->cancellation};
    struct rt_span token;
    size_t n;
    if (**p == '"') {
        token = srv_json_token(v);
        *p = token.p + token.n;
        if (!srv_should_continue(f->cancellation, token.n + STRING_COST))
            return false;
        if (!memchr(token.p, '\\', token.n))
            return rt_str_set(dst, NULL, token.p + 1, token.n - 2, NULL);
        n = srv_json_unquote_long(NULL, token, f->cancellation);
        char *to = rt_str_resize(dst, NULL, n, NULL);
        if (!to)
            return false;
        return srv_json_unquote_long(to, token, f->cancellation) == n;
    }
    if (!srv_json_is_b64(v, &token) ||
        !srv_should_continue(f->cancellation, token.n + STRING_COST) ||
        !srv_json_unbase64(NULL, &n, token))
        return false;
    char *to = rt_str_resize(dst, NULL, n, NULL);
    if (!to)
        return false;
    *p = srv_json_after(v);
    return srv_json_unbase64(to, &n, token);
}

static bool read_bool(const unsigned char **p, const unsigned char *end, uint8_t *out)
{
    if (end - *p >= 4 && memcmp(*p, "true", 4) == 0) {
        *p += 4;
        *out = 1;
        return true;
    }
    if (end - *p >= 5 && memcmp(*p, "false", 5) == 0) {
        *p += 5;
        *out = 0;
        return true;
    }
    return false;
}

/* Reads at most n comma-separated values at f->p, or one value if `alone` is set. The function that
 * uses this macro returns false if a value is invalid, there are more than n values, or the request
 * is cancelled. */
#define READ_RUN(type, read)                                                                       \
    do {                                                                                           \
        type *to = (type *)(void *)f->dst;                                                         \
        for (;;) {                                                                                 \
            if (i == stop) {                                                                       \
                if (i == n || !go_on(f, p))                                                        \
                    return false;                                                                  \
                stop = n - i < RUN ? n : i + RUN;                                                  \
            }                                                                                      \
            read;                                                                                  \
            i++;                                                                                   \
            p = srv_json_space(p, end);                                                            \
            if (alone || p >= end || *p != ',')                                                    \
                break;                                                                             \
            p = srv_json_space(p + 1, end);                                                        \
        }                                                                                          \
        f->dst += i * (int64_t)sizeof(type);                                                       \
    } while (0)

#define READ_INTEGER(type, low, high)                                                              \
    READ_RUN(type, {                                                                               \
        int64_t value;                                                                             \
        const unsigned char *after = short_integer(p, end, &value);                                \
        if (after && value >= (low) && value <= (high)) {                                          \
            to[i] = (type)value;                                                                   \
        } else {                                                                                   \
            struct srv_number number;                                                              \
            after = srv_number_read(p, end, &number);                                              \
            if (after == p || !srv_json_is_integer_of(f->dtype, &number))                          \
                return false;                                                                      \
            to[i] = (type)number.u;                                                                \
        }                                                                                          \
        p = after;                                                                                 \
    })
#define READ_NUMBER(type, read)                                                                    \
    READ_RUN(type, {                                                                               \
        if (!(p = (read)(p, end, &to[i])))                                                         \
            return false;                                                                          \
    })

/* Reads an integer of up to 17 digits that has neither a fraction nor an exponent. Returns NULL for
 * any other number. */
static inline const unsigned char *short_integer(const unsigned char *p, const unsigned char *end,
                                                 int64_t *out)
{
    bool minus = p < end && *p == '-';
    const unsigned char *start = p += minus;
    int64_t value = 0;
    while (p < end && (unsigned)*p - '0' < 10 && p - start < 18)
        value = value * 10 + (*p++ - '0');
    if (p == start || p - start == 18 || p == end || *p == '.' || (*p | 0x20) == 'e')
        return NULL;
    *out = minus ? -value : value;
    return p;
}

/* Reads a number and rounds it to a 16-bit float type with the function `from`. Returns NULL if
 * there is no number. */
static const unsigned char *read_half(const unsigned char *p, const unsigned char *end,
                                      uint16_t (*from)(double), uint16_t *out)
{
    double d;
    p = srv_double_read(p, end, &d);
    if (p)
        *out = from(d);
    return p;
}

/* Reads at most n values of a list. If `alone` is set, reads one value that is not in a list, and
 * does not read a comma after the value. */
static bool fill_run(struct fill *f, int64_t n, bool alone)
{
    const unsigned char *p = f->p, *end = f->end;
    int64_t i = 0, stop = n < RUN ? n : RUN;
    if (n > (f->dst_end - f->dst) / (int64_t)rt_dtype_size(f->dtype))
        return false;
    switch (f->dtype) {
    case RT_F32:
        READ_NUMBER(float, srv_float_read);
        break;
    case RT_F64:
        READ_NUMBER(double, srv_double_read);
        break;
    case RT_F16:
        READ_RUN(uint16_t, {
            if (!(p = read_half(p, end, rt_half_from, &to[i])))
                return false;
        });
        break;
    case RT_BF16:
        READ_RUN(uint16_t, {
            if (!(p = read_half(p, end, rt_bfloat_from, &to[i])))
                return false;
        });
        break;
    case RT_I32:
    case RT_QI32:
        READ_INTEGER(uint32_t, INT32_MIN, INT32_MAX);
        break;
    case RT_U32:
        READ_INTEGER(uint32_t, 0, UINT32_MAX);
        break;
    case RT_I16: /* int8, uint8 and int16 accept the range of int32 and wrap around */
        READ_INTEGER(uint16_t, INT32_MIN, INT32_MAX);
        break;
    case RT_I8:
    case RT_U8:
        READ_INTEGER(uint8_t, INT32_MIN, INT32_MAX);
        break;
    case RT_U16:
    case RT_QU16:
        READ_INTEGER(uint16_t, 0, UINT16_MAX);
        break;
    case RT_QI16:
        READ_INTEGER(uint16_t, INT16_MIN, INT16_MAX);
        break;
    case RT_QI8:
        READ_INTEGER(uint8_t, INT8_MIN, INT8_MAX);
        break;
    case RT_QU8:
        READ_INTEGER(uint8_t, 0, UINT8_MAX);
        break;
    case RT_I64:
        READ_INTEGER(uint64_t, INT64_MIN, INT64_MAX);
        break;
    case RT_U64:
        READ_INTEGER(uint64_t, 0, INT64_MAX);
        break;
    case RT_BOOL:
        READ_RUN(uint8_t, {
            if (!read_bool(&p, end, &to[i]))
                return false;
        });
        break;
    case RT_STRING:
        READ_RUN(struct rt_str, {
            if ((*p != '"' && *p != '{') || !fill_string(f, &to[i], &p))
                return false;
        });
        break;
    default:
        return false;
    }
    f->p = p;
    return i == n;
}

/* Reads the value at f->p. The value must have the expected shape. */
static bool fill_value(struct fill *f, int level)
{
    if (level == f->rank)
        return *f->p != '[' && fill_run(f, 1, true);
    if (*f->p != '[')
        return false;
    int64_t n = f->dim[level];
    f->p = srv_json_space(f->p + 1, f->end);
    if (f->p >= f->end)
        return false;
    if (*f->p == ']') {
        f->p++;
        return n == 0;
    }
    if (level == f->rank - 1) {
        if (*f->p == '[' || !fill_run(f, n, false))
            return false;
    } else {
        for (int64_t i = 0, stop = n < RUN ? n : RUN;; i++) {
            if (i == stop) {
                if (i == n || !go_on(f, f->p))
                    return false;
                stop = n - i < RUN ? n : i + RUN;
            }
            if (!fill_value(f, level + 1))
                return false;
            f->p = srv_json_space(f->p, f->end);
            if (f->p >= f->end)
                return false;
            if (*f->p != ',') {
                if (i + 1 != n)
                    return false;
                break;
            }
            f->p = srv_json_space(f->p + 1, f->end);
            if (f->p >= f->end)
                return false;
        }
    }
    if (f->p >= f->end || *f->p != ']')
        return false;
    f->p++;
    return level == f->rank - 1 || go_on(f, f->p);
}

/* ---- decoding: requests ---- */

struct input {
    const struct rt_tensor_spec *spec;
    struct rt_tensor *tensor;
    bool started;          /* whether a row has been read */
    bool seen;             /* whether the current row contains this input */
    struct srv_json given; /* the value in columnar form; p is NULL until the value is found */
    int rank;              /* rank of one row, or of the tensor in columnar form */
    int64_t dim[RT_MAX_RANK], size;
    struct fill fill;
};

/*
 * Allocates a tensor with `count` elements. Limits the number of elements to the remaining bytes of
 * the text, because each element takes at least one byte. A larger `count` results only from a
 * ragged list, which is refused when it is read.
 */
static enum rt_status make_tensor(struct input *in, int64_t count, struct srv_json v,
                                  struct srv_allowance *allowance, struct rt_error *err)
{
    enum rt_dtype dtype = in->spec->dtype;
    count = count < v.end - v.p ? count : v.end - v.p;
    size_t bytes = (size_t)count * rt_dtype_size(dtype);
    if (bytes > allowance->left)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "input \"%s\" takes %zu bytes, %zu are left",
                       in->spec->alias, bytes, allowance->left);
    enum rt_status st = srv_allowance_take(allowance, bytes, err);
    if (!st)
        st = rt_tensor_new(in->tensor, NULL, dtype, 1, &count, err);
    if (st)
        return st;
    in->fill = (struct fill){.end = v.end,
                             .cancellation = v.cancellation,
                             .check = v.p,
                             .dtype = dtype,
                             .rank = in->rank,
                             .dim = in->dim,
                             .dst = in->tensor->data};
    in->fill.dst_end = in->fill.dst ? in->fill.dst + bytes : NULL;
    return RT_OK;
}

/* Finds the error in a value that could not be read: a wrong type, a ragged list, or a shape that
 * differs from the shape of the first row. */
static enum rt_status refused(struct input *in, struct srv_json v, int max_rank,
                              struct rt_error *err)
{
    int rank;
    int64_t dim[RT_MAX_RANK], size = 0;
    if (!shape_of(v, max_rank, &rank, dim))
        return too_deep(err);
    enum rt_status st = srv_json_explain(v, 0, rank, dim, in->spec->dtype, &size, err);
    if (st)
        return st;
    if (in->started && size != in->size)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expecting tensor size: %lld but got: %lld",
                       (long long)in->size, (long long)size);
    if (in->started && (rank != in->rank || memcmp(dim, in->dim, (size_t)rank * sizeof *dim))) {
        char want[200], got[200];
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expecting shape %s but got: %s",
                       rt_shape_text(want, sizeof want, in->rank, in->dim),
                       rt_shape_text(got, sizeof got, rank, dim));
    }
    return rt_fail_memory(err, in->spec->alias, 0);
}

/* Reads one row of an input. On success, moves v->p past the row. */
static enum rt_status add_row(struct input *in, struct srv_json *v, int64_t n_rows,
                              struct srv_allowance *allowance, struct rt_error *err)
{
    enum rt_dtype dtype = in->spec->dtype;
    if (!in->started) {
        if (!shape_of(*v, RT_MAX_RANK - 1, &in->rank, in->dim))
            return too_deep(err);
        in->size = elements(in->rank, in->dim);
        if (!srv_json_takes(dtype) && in->size > 0)
            return refused(in, *v, RT_MAX_RANK - 1, err);
        int64_t all[2] = {n_rows, in->size};
        enum rt_status st = make_tensor(in, elements(2, all), *v, allowance, err);
        if (st)
            return st;
    }
    in->fill.p = v->p;
    if (!go_on(&in->fill, v->p) || !fill_value(&in->fill, 0))
        return refused(in, *v, RT_MAX_RANK - 1, err);
    in->started = true;
    v->p = in->fill.p;
    return RT_OK;
}

static struct input *find_alias(struct input *inputs, int n, struct rt_span alias)
{
    const struct rt_tensor_spec *specs = inputs[0].spec;
    const struct rt_tensor_spec *found = rt_tensor_spec_find(specs, n, alias);
    return found ? &inputs[found - specs] : NULL;
}

static struct input *find_input(struct input *inputs, int n, int hint, struct rt_span key)
{
    /* Members usually occur in the signature's order, so the input at `hint` is compared first. */
    struct input *in = &inputs[hint % n];
    if (srv_json_token_is(key, in->spec->alias, strlen(in->spec->alias)))
        return in;
    if (!memchr(key.p, '\\', key.n))
        return find_alias(inputs, n, rt_span_of(key.p + 1, key.n - 2));
    char few[256], *text = key.n <= sizeof few ? few : malloc(key.n);
    if (!text)
        return NULL;
    in = find_alias(inputs, n, rt_span_of(text, srv_json_unquote(text, key)));
    if (text != few)
        free(text);
    return in;
}

static const char *row_prefix(char *buffer, size_t n, int64_t row, struct rt_span key)
{
    if (!key.p) {
        snprintf(buffer, n,
                 "Failed to process element: %lld of 'instances' list. Error: ", (long long)row);
        return buffer;
    }
    char name[128];
    size_t len = key.n > 2 && key.n - 2 < sizeof name ? srv_json_unquote(name, key) : 0;
    if (key.n - 2 >= sizeof name) {
        len = sizeof name - 1;
        memcpy(name, key.p + 1, len);
    }
    snprintf(buffer, n, "Failed to process element: %lld key: %.*s of 'instances' list. Error: ",
             (long long)row, (int)len, name);
    return buffer;
}

/* Converts an error in a row to INVALID_ARGUMENT. The message names the row and the original
 * status. */
static enum rt_status in_row(int64_t row, struct rt_span key, enum rt_status code,
                             struct rt_error *err)
{
    char prefix[256];
    /* the server lacks memory, although the row may be valid */
    if (code == RT_RESOURCE_EXHAUSTED || code == RT_UNAVAILABLE)
        return code;
    rt_fail_prefix(err, "%s%s: ", row_prefix(prefix, sizeof prefix, row, key),
                   rt_status_name(code));
    if (err)
        err->code = RT_INVALID_ARGUMENT;
    return RT_INVALID_ARGUMENT;
}

static enum rt_status wrong_keys(const struct rt_signature *sig, int64_t row, struct srv_json v,
                                 struct rt_error *err)
{
    char names[512], shown[SRV_JSON_SHOWN];
    size_t n = 0;
    names[0] = '\0';
    for (int i = 0; i < sig->n_inputs && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? "," : "",
                              sig->inputs[i].alias);
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "Failed to process element: %lld of 'instances' list. JSON object: %s keys must "
                   "be equal to: %s",
                   (long long)row, srv_json_show(shown, sizeof shown, v), names);
}

/* Reads a row given as an object of named inputs, and moves *v past it. */
static enum rt_status add_object(struct input *inputs, const struct rt_signature *sig,
                                 struct srv_json *v, int64_t row, int64_t n_rows,
                                 struct srv_allowance *allowance, struct rt_error *err)
{
    int n = sig->n_inputs, n_seen = 0, hint = 0;
    const unsigned char *p = srv_json_first(*v), *end = v->end;
    for (int i = 0; i < n; i++)
        inputs[i].seen = false;
    while (p < end && *p == '"') {
        struct srv_json value = {p, end, v->cancellation};
        struct rt_span key = srv_json_token(value);
        p = srv_json_space(key.p + key.n, end);
        value.p = srv_json_space(p < end ? p + 1 : p, end);
        struct input *in = find_input(inputs, n, hint, key);
        enum rt_status st = RT_OK;
        if (!in) {
            char name[200];
            size_t len = key.n - 2 < sizeof name ? srv_json_unquote(name, key) : 0;
            if (!len && key.n > 2) {
                len = sizeof name;
                memcpy(name, key.p + 1, len);
            }
            rt_fail(err, RT_INVALID_ARGUMENT, "JSON object: does not have named input: %.*s",
                    (int)len, name);
            return in_row(row, key, RT_INVALID_ARGUMENT, err);
        }
        if (in->seen) { /* if a key occurs more than once, its first value is used */
            value.p = srv_json_after(value);
        } else {
            st = add_row(in, &value, n_rows, allowance, err);
            if (st)
                return in_row(row, key, st, err);
            in->seen = true;
            n_seen++;
            hint = (int)(in - inputs) + 1;
        }
        p = srv_json_space(value.p, end);
        if (p < end && *p == ',')
            p = srv_json_space(p + 1, end);
    }
    if (n_seen != n)
        return wrong_keys(sig, row, *v, err);
    v->p = p < end ? p + 1 : p;
    return RT_OK;
}

static bool is_named(struct srv_json v)
{
    struct rt_span token;
    return *v.p == '{' && !srv_json_is_b64(v, &token);
}

static enum rt_status decode_rows(const struct srv_json_doc *doc, const struct rt_signature *sig,
                                  struct input *inputs, struct srv_allowance *allowance,
                                  struct rt_error *err)
{
    struct srv_json v = doc->instances;
    v.p = srv_json_first(v);
    enum { ROW_COST = 32 }; /* cost of one row, in bytes, as reported to srv_should_continue */
    bool named = is_named(v);
    if (!named && sig->n_inputs > 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "instances is a plain list, but expecting list of objects as multiple input "
                       "tensors required as per tensorinfo_map");
    int64_t n = doc->n_instances;
    for (int64_t row = 0; row < n; row++) {
        enum rt_status st;
        if (named != is_named(v))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           named ? "Expecting object but got list at item %lld of input list"
                                 : "Expecting value/list but got object at item %lld of input list",
                           (long long)row);
        if (named) {
            st = add_object(inputs, sig, &v, row, n, allowance, err);
        } else {
            st = add_row(&inputs[0], &v, n, allowance, err);
            if (st)
                st = in_row(row, (struct rt_span){0}, st, err);
        }
        if (st)
            return st;
        v.p = srv_json_space(v.p, v.end);
        if (v.p < v.end && *v.p == ',')
            v.p = srv_json_space(v.p + 1, v.end);
        if (!srv_should_continue(v.cancellation, ROW_COST))
            return srv_cancellation_status(v.cancellation, err);
    }
    for (int i = 0; i < sig->n_inputs; i++) {
        struct rt_tensor *t = inputs[i].tensor;
        t->rank = (int8_t)(inputs[i].rank + 1);
        t->dim[0] = n;
        memcpy(t->dim + 1, inputs[i].dim, (size_t)inputs[i].rank * sizeof *t->dim);
    }
    return RT_OK;
}

static enum rt_status decode_whole(struct input *in, struct srv_json v,
                                   struct srv_allowance *allowance, struct rt_error *err)
{
    if (!shape_of(v, RT_MAX_RANK, &in->rank, in->dim))
        return too_deep(err);
    in->size = elements(in->rank, in->dim);
    if (!srv_json_takes(in->spec->dtype) && in->size > 0)
        return refused(in, v, RT_MAX_RANK, err);
    enum rt_status st = make_tensor(in, in->size, v, allowance, err);
    if (st)
        return st;
    in->fill.p = v.p;
    if (!fill_value(&in->fill, 0))
        return refused(in, v, RT_MAX_RANK, err);
    in->tensor->rank = (int8_t)in->rank;
    memcpy(in->tensor->dim, in->dim, sizeof in->dim);
    return RT_OK;
}

static enum rt_status decode_columns(struct srv_json v, const struct rt_signature *sig,
                                     struct input *inputs, struct srv_allowance *allowance,
                                     struct rt_error *err)
{
    if (!is_named(v)) {
        if (sig->n_inputs > 1)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "inputs is a plain value/list, but expecting an object as multiple "
                           "input tensors required as per tensorinfo_map");
        return decode_whole(&inputs[0], v, allowance, err);
    }
    /* All members are found before any value is read, so that errors are reported in the order of
     * the signature. */
    const unsigned char *at = srv_json_first(v);
    struct srv_json value;
    struct rt_span key;
    int n = sig->n_inputs, hint = 0;
    while (srv_json_member(&at, v, &key, &value)) {
        struct input *in = find_input(inputs, n, hint, key);
        if (in && !in->given.p) { /* if a key occurs more than once, its first value is used */
            in->given = value;
            hint = (int)(in - inputs) + 1;
        }
    }
    for (int i = 0; i < n; i++) {
        if (!inputs[i].given.p)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Missing named input: %s in 'inputs' object.",
                           sig->inputs[i].alias);
        enum rt_status st = decode_whole(&inputs[i], inputs[i].given, allowance, err);
        if (st)
            return st;
    }
    return RT_OK;
}

enum rt_status srv_json_signature(const struct srv_json_doc *doc, struct rt_arena *arena,
                                  struct rt_span *out, struct rt_error *err)
{
    *out = rt_span_of("", 0);
    if (!doc->signature_name.p)
        return RT_OK;
    if (*doc->signature_name.p != '"') {
        char shown[SRV_JSON_SHOWN];
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "JSON Value: %s not formatted correctly. 'signature_name' key must be a "
                       "string value.",
                       srv_json_show(shown, sizeof shown, doc->top));
    }
    struct rt_span token = srv_json_token(doc->signature_name);
    char *name = rt_arena_aligned(arena, token.n, 1);
    if (!name)
        return rt_fail_memory(err, "the signature's name", token.n);
    size_t n = srv_json_unquote(name, token);
    name[n] = '\0';
    *out = rt_span_of(name, n);
    return RT_OK;
}

static enum rt_status badly_formed(const struct srv_json_doc *doc, const char *why,
                                   struct rt_error *err)
{
    char shown[SRV_JSON_SHOWN];
    return rt_fail(err, RT_INVALID_ARGUMENT, "JSON Value: %s %s",
                   srv_json_show(shown, sizeof shown, doc->top), why);
}

enum rt_status srv_json_decode_predict(const struct srv_json_doc *doc,
                                       const struct rt_signature *signature,
                                       struct rt_span signature_name,
                                       struct srv_allowance *allowance, struct rt_tensor *feeds,
                                       enum srv_json_form *form, struct rt_error *err)
{
    enum { FEW = 16 };
    int n = signature->n_inputs;
    if (n == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Failed to get input map for signature: %.*s",
                       signature_name.n ? (int)signature_name.n : 7,
                       signature_name.n ? (const char *)signature_name.p : "DEFAULT");
    if (doc->instances.p && doc->inputs.p)
        return badly_formed(
            doc,
            "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ",
            err);
    if (!doc->instances.p && !doc->inputs.p)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Missing 'inputs' or 'instances' key");
    if (doc->instances.p && *doc->instances.p != '[')
        return badly_formed(doc, "Expecting 'instances' to be an list/array", err);
    if (doc->instances.p && doc->n_instances == 0)
        return badly_formed(doc, "No values in 'instances' array", err);

    struct input few[FEW], *inputs = few;
    struct rt_arena *scratch = NULL;
    if (n > FEW) {
        scratch = rt_arena_new(SIZE_MAX);
        inputs = scratch ? rt_arena_array(scratch, (size_t)n, sizeof *inputs) : NULL;
        if (!inputs) {
            rt_arena_free(scratch);
            return rt_fail_memory(err, "the inputs of a request", (size_t)n * sizeof *inputs);
        }
    }
    for (int i = 0; i < n; i++) {
        inputs[i].spec = &signature->inputs[i];
        inputs[i].tensor = &feeds[i];
        inputs[i].started = false;
        inputs[i].given.p = NULL;
    }
    enum rt_status st;
    if (doc->instances.p) {
        *form = SRV_JSON_ROW;
        st = decode_rows(doc, signature, inputs, allowance, err);
    } else {
        *form = SRV_JSON_COLUMNAR;
        st = decode_columns(doc->inputs, signature, inputs, allowance, err);
    }
    rt_arena_free(scratch);
    return st;
}
