/* Ops that fill a HashTable once, from tensors or from a text file. */
#include "kernels/lookup/table.h"

#include "kernels/array/hash_set.h"
#include "kernels/io/lines.h"
#include "kernels/list/list.h"
#include "kernels/string/parse.h"
#include "kernels/string/text.h"
#include "runtime/base/checked.h"

#include <stdio.h>
#include <stdlib.h>

#define WRITE(symbol, op_, run_)                                                                   \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_WRITES},                                                \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, run_),                                            \
    };

static void value_text(char *buf, size_t n, enum rt_dtype dtype, const void *p)
{
    switch (dtype) {
    case RT_STRING:
        snprintf(buf, n, "%.*s", (int)((const struct rt_str *)p)->n, rt_str_data(p));
        break;
    case RT_F32:
        snprintf(buf, n, "%g", (double)*(const float *)p);
        break;
    case RT_F64:
        snprintf(buf, n, "%g", *(const double *)p);
        break;
    default: {
        const struct rt_tensor t = {.dtype = (uint8_t)dtype, .data = (void *)(uintptr_t)p};
        snprintf(buf, n, "%lld", (long long)kn_int_at(&t, 0));
    }
    }
}

/* Adds one pair. A repeated pair is accepted, but a different value for an existing key is
 * refused. */
static enum rt_status fill_one(struct rt_run *r, int64_t *left, struct kn_table *t, const void *key,
                               const void *value)
{
    int64_t item = 0;
    bool was = false;
    char k[80], a[80], b[80];
    struct kn_reader read = {.r = r, .left = left};
    enum rt_status st = kn_table_put(r, left, t, key, value, false, &item, &was);

    if (!st && was)
        st = rt_run_spend(r, left, kn_text_work(t->value_type, value, 1));
    if (st || !was || kn_same_element(t->value_type, kn_table_value(t, item), value, &read) ||
        read.st)
        return st ? st : read.st;
    value_text(k, sizeof k, t->key_type, key);
    value_text(a, sizeof a, t->value_type, kn_table_value(t, item));
    value_text(b, sizeof b, t->value_type, value);
    return rt_fail(r->err, RT_FAILED_PRECONDITION,
                   "HashTable has different value for same key. Key %s has %s and trying to add "
                   "value %s",
                   k, a, b);
}

/* Moves the pairs of `fresh` into the table. If the table is already filled, leaves it unchanged
 * and sets *is_first to false. */
static enum rt_status publish(struct rt_run *r, struct kn_table *t, struct kn_table *fresh,
                              bool *is_first)
{
    if (kn_table_lock(r, t))
        return r->err->code;
    *is_first = !atomic_load(&t->filled);
    if (*is_first) {
        kn_table_replace(t, fresh);
        atomic_store_explicit(&t->filled, true, memory_order_release);
    }
    return kn_table_unlock(t, RT_OK);
}

/* Checks a repeated initialization, with n pairs, of a table that is already filled. Like
 * TensorFlow, fails if n differs from the number of pairs in the table. The table does not
 * change. */
static enum rt_status fill_again(struct rt_run *r, const struct kn_table *t, int64_t n)
{
    return n == t->n_live ? RT_OK
                          : rt_fail(r->err, RT_FAILED_PRECONDITION,
                                    "Table was already initialized with different data.");
}

static struct kn_table *fixed_table_of(struct rt_run *r)
{
    struct kn_table *t = kn_table_of(r);

    if (t && t->is_mutable) {
        rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the table is not one that is initialized",
                r->node->schema->name);
        return NULL;
    }
    return t;
}

enum rt_status kn_table_fill(struct rt_run *r, struct kn_table *t, const struct rt_tensor *keys,
                             const struct rt_tensor *values)
{
    struct kn_table fresh;
    int64_t left = RT_WORK;
    bool is_first = true;

    const int64_t n = rt_tensor_count(keys);
    if (n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "keys and values cannot be empty tensors.");
    if (atomic_load(&t->filled))
        return fill_again(r, t, n);
    enum rt_status st = kn_table_fresh(r, t, &fresh);
    for (int64_t i = 0; i < n && !st; i++)
        st = fill_one(r, &left, &fresh, kn_at(keys, i), kn_at(values, i));
    if (!st)
        st = publish(r, t, &fresh, &is_first);
    if (!is_first)
        st = fill_again(r, t, n);
    kn_table_fresh_end(&fresh);
    return st;
}

static enum rt_status init_run(struct rt_run *r)
{
    struct kn_table *t = fixed_table_of(r);
    const struct rt_tensor *keys = &r->in[1], *values = &r->in[2];

    if (!t)
        return r->err->code;
    enum rt_status st = kn_table_types(r, t);
    if (st)
        return st;
    if (keys->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Keys must be a vector, but received shape%s",
                       KN_TEXT(keys));
    if (values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Values must be a vector, but received shape%s",
                       KN_TEXT(values));
    if (keys->dim[0] != values->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Keys and values must have the same size %lld vs %lld",
                       (long long)keys->dim[0], (long long)values->dim[0]);
    return kn_table_fill(r, t, keys, values);
}

WRITE(initialize_table, "InitializeTable", init_run)
WRITE(initialize_table_v2, "InitializeTableV2", init_run)

/* ---- from a text file ---- */

enum { WHOLE_LINE = -2, LINE_NUMBER = -1 };

/* Converts a field of a line to an element of type `dtype`. If `index` is LINE_NUMBER, the element
 * is the sum of the line number and `offset`. */
static enum rt_status field_value(enum rt_dtype dtype, int64_t index, int64_t line_no,
                                  int64_t offset, struct rt_span field, struct rt_tensor *elem,
                                  struct rt_error *err)
{
    int64_t i = rt_add_wrapped(line_no, offset);
    const char *p = (const char *)field.p;
    /* As in TensorFlow, a number ends at a NUL byte. */
    const size_t n_digits = strnlen(p, field.n);

    if (dtype == RT_STRING) {
        if (index == LINE_NUMBER)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Type of the table must be int64 for the line number");
        return rt_str_set(elem->data, NULL, p, field.n, err) ? RT_OK : err->code;
    }
    if (dtype == RT_F32 || dtype == RT_F64) {
        double d = 0;
        float f = 0;
        const bool ok =
            dtype == RT_F32 ? kn_parse_float(p, n_digits, &f) : kn_parse_double(p, n_digits, &d);
        if (!ok)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Field %.*s in line %lld is not a valid %s.",
                           (int)field.n, p, (long long)line_no, rt_dtype_name(dtype));
        if (dtype == RT_F32)
            *(float *)elem->data = f;
        else
            *(double *)elem->data = d;
        return RT_OK;
    }
    if (dtype != RT_I32 && dtype != RT_I64)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Data type %s not supported.",
                       rt_dtype_name(dtype));
    if (index != LINE_NUMBER &&
        (!kn_parse_i64(p, n_digits, &i) || (dtype == RT_I32 && i != (int32_t)i)))
        return rt_fail(err, RT_INVALID_ARGUMENT, "Field %.*s in line %lld is not a valid %s.",
                       (int)field.n, p, (long long)line_no, rt_dtype_name(dtype));
    kn_put_int(elem, 0, i);
    return RT_OK;
}

/* Sets *out to field `index` of a line. Returns false if the line has fewer fields. */
static bool field_of(const char *line, size_t n, char delimiter, int64_t index, struct rt_span *out)
{
    const char *p = line, *end = line + n;

    if (index < 0) {
        *out = rt_span_of(line, n);
        return true;
    }
    for (int64_t k = 0;; k++) {
        const char *d = memchr(p, delimiter, (size_t)(end - p));
        if (k == index) {
            *out = rt_span_of(p, (size_t)((d ? d : end) - p));
            return true;
        }
        if (!d)
            return false;
        p = d + 1;
    }
}

static int64_t columns(const char *line, size_t n, char delimiter)
{
    int64_t k = 1;

    for (size_t i = 0; i < n; i++)
        k += line[i] == delimiter;
    return k;
}

struct text_file {
    int64_t key_index, value_index, vocab_size, offset;
    char delimiter;
};

static enum rt_status one_line(struct rt_run *r, int64_t *left, struct kn_table *fresh,
                               const struct text_file *f, const char *path, const char *line,
                               size_t n, int64_t line_no)
{
    /* Each row of buf has capacity for one element of any type, including a string. */
    uint64_t buf[2][4] = {{0}};
    struct rt_tensor elem[2];
    const enum rt_dtype type[2] = {fresh->key_type, fresh->value_type};
    const int64_t index[2] = {f->key_index, f->value_index};
    enum rt_status st = RT_OK;

    _Static_assert(sizeof(struct rt_str) <= sizeof buf[0], "an element fits");
    for (int i = 0; i < 2 && !st; i++) {
        struct rt_span field;
        elem[i] = (struct rt_tensor){.dtype = (uint8_t)type[i], .data = buf[i]};
        if (!field_of(line, n, f->delimiter, index[i], &field))
            st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                         "Invalid number of columns in %s line %lld (%.*s) : expected at least "
                         "%lld got %lld",
                         path, (long long)line_no, (int)n, line,
                         (long long)rt_add_saturated(index[0] > index[1] ? index[0] : index[1], 1),
                         (long long)columns(line, n, f->delimiter));
        else
            st = field_value(type[i], index[i], line_no, f->offset, field, &elem[i], r->err);
    }
    if (!st)
        st = fill_one(r, left, fresh, buf[0], buf[1]);
    for (int i = 0; i < 2; i++)
        kn_table_drop(type[i], buf[i], 1);
    return st;
}

/* Checks a file after some of its lines were read. Fails if the file has too few lines, or
 * vocab_size is 0. Like TensorFlow, reports an empty file even if vocab_size is 0. */
static enum rt_status check_end(const struct text_file *f, struct kn_lines *l, bool first_only)
{
    struct rt_error *err = l->r->err;
    const bool is_empty = l->n == 0 && getc_unlocked(l->file) == EOF;

    if (ferror(l->file))
        return rt_fail(err, RT_DATA_LOSS, "%s: reading failed", l->path);
    if (is_empty && f->vocab_size <= 0)
        return rt_fail(err, RT_OUT_OF_RANGE, "Read less bytes than requested: %s is empty",
                       l->path);
    if (f->vocab_size == 0)
        return rt_fail(err, RT_OUT_OF_RANGE, "Finished reading 0 of lines from %s", l->path);
    if (l->n < f->vocab_size && (is_empty || !first_only))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Invalid vocab_size in %s: expected %lld but got %lld", l->path,
                       (long long)f->vocab_size, (long long)l->n);
    return RT_OK;
}

/* Adds the pairs in the lines of file `path` to `fresh`. If `first_only` is set, opens the file and
 * reads its first line only. */
static enum rt_status read_lines(struct rt_run *r, struct kn_table *fresh,
                                 const struct text_file *f, struct rt_span path, bool first_only)
{
    struct kn_lines l;
    bool any = true;
    enum rt_status st = kn_lines_open(&l, r, path);

    if (st)
        return st;
    while (!st && (f->vocab_size < 0 || l.n < f->vocab_size) && !(first_only && l.n == 1)) {
        st = kn_lines_next(&l, &any);
        if (st || !any)
            break;
        if (l.line.n == 0)
            st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                         "Invalid content in %s: empty line found at position %lld.", l.path,
                         (long long)ftell(l.file));
        else
            st = one_line(r, &r->left, fresh, f, l.path, l.line.p, l.line.n, l.n - 1);
    }
    if (!st)
        st = check_end(f, &l, first_only);
    kn_lines_close(&l);
    return st;
}

enum rt_status kn_table_read_words(struct rt_run *r, struct kn_table *fresh, struct rt_span path,
                                   int64_t vocab_size)
{
    const struct text_file f = {
        .key_index = WHOLE_LINE, .value_index = LINE_NUMBER, .vocab_size = vocab_size};

    return read_lines(r, fresh, &f, path, false);
}

static enum rt_status init_file_run(struct rt_run *r)
{
    struct kn_table *t = fixed_table_of(r);
    const struct rt_tensor *name = &r->in[1];
    const struct rt_span delimiter = rt_attr_str(r->node, "delimiter");
    struct text_file f = {.key_index = rt_attr_int(r->node, "key_index"),
                          .value_index = rt_attr_int(r->node, "value_index"),
                          .vocab_size = rt_attr_int(r->node, "vocab_size")};

    if (!t)
        return r->err->code;
    f.offset = rt_attr(r->node, "offset") ? rt_attr_int(r->node, "offset") : 0;
    if (name->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "filename should be a single string, but got %s", KN_TEXT(name));
    if (delimiter.n != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "delimiter should be only 1 char");
    f.delimiter = (char)delimiter.p[0];
    const struct rt_str *s = rt_strs(name);
    if (f.key_index == LINE_NUMBER && t->key_type != RT_I64)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Key index for line number requires table key dtype of int64, got %s",
                       rt_dtype_name(t->key_type));
    if (f.value_index == LINE_NUMBER && t->value_type != RT_I64)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Value index for line number requires table value dtype of int64, got %s",
                       rt_dtype_name(t->value_type));
    if (f.key_index == WHOLE_LINE && t->key_type != RT_STRING)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Key index for whole line requires string or integer table key, got %s",
                       rt_dtype_name(t->key_type));
    if (f.value_index == WHOLE_LINE && t->value_type != RT_STRING)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Value index for whole line requires table value dtype of string, got %s",
                       rt_dtype_name(t->value_type));
    struct kn_table fresh;
    enum rt_status st = kn_table_fresh(r, t, &fresh);
    /* A filled table does not change, but the first line of the file is still read, because
     * TensorFlow refuses a file that cannot be read. */
    const bool filled = atomic_load(&t->filled);
    bool ignored;
    if (!st)
        st = read_lines(r, &fresh, &f, rt_span_of(rt_str_data(s), s->n), filled);
    if (!st && !filled)
        st = publish(r, t, &fresh, &ignored);
    kn_table_fresh_end(&fresh);
    return st;
}

WRITE(initialize_table_from_text_file, "InitializeTableFromTextFile", init_file_run)
WRITE(initialize_table_from_text_file_v2, "InitializeTableFromTextFileV2", init_file_run)
