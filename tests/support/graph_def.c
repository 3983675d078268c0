#include "tests/support/graph_def.h"

#include <stdint.h>
#include <stdlib.h>

#include "runtime/core/types.h"

enum { LIMIT = 1 << 24 };

static void put_varint(struct rt_bytes *b, uint64_t v)
{
    for (; v > 127; v >>= 7)
        rt_bytes_addc(b, (char)(v & 127) | (char)128);
    rt_bytes_addc(b, (char)v);
}

static void put_int(struct rt_bytes *b, int field, int64_t v)
{
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, (uint64_t)v);
}

static void put_bytes(struct rt_bytes *b, int field, const void *p, size_t n)
{
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, n);
    rt_bytes_add(b, p, n);
}

static void put_str(struct rt_bytes *b, int field, const char *s, size_t n)
{
    put_bytes(b, field, s, n);
}

static void put_message(struct rt_bytes *b, int field, struct rt_bytes *m)
{
    put_bytes(b, field, m->p, m->n);
    rt_bytes_clear(m);
}

static struct rt_bytes empty(void)
{
    struct rt_bytes b;
    rt_bytes_init(&b, LIMIT);
    return b;
}

static int dtype_of(const char *s, size_t n)
{
    for (int d = 1; d < RT_N_DTYPES; d++) {
        const char *name = rt_dtype_name((enum rt_dtype)d);
        if (strlen(name) == n && memcmp(name, s, n) == 0)
            return d;
    }
    return 0;
}

static void put_float(struct rt_bytes *b, int field, float f)
{
    put_varint(b, (uint64_t)field << 3 | 5);
    rt_bytes_add(b, &f, sizeof f);
}

/* Appends to the message the shape at the start of `s`, such as "<2,-1>" or "<?>". Returns the text
 * after the shape. */
static const char *put_shape(struct rt_bytes *b, int field, const char *s)
{
    struct rt_bytes shape = empty();
    s++;
    if (*s == '?') {
        put_int(&shape, 3, 1);
        s++;
    }
    while (*s && *s != '>') {
        char *end;
        struct rt_bytes dim = empty();
        put_int(&dim, 1, strtoll(s, &end, 10));
        put_message(&shape, 2, &dim);
        s = end + (*end == ',');
    }
    put_message(b, field, &shape);
    return *s ? s + 1 : s;
}

static void put_tensor(struct rt_bytes *b, int field, const char *s, size_t n)
{
    struct rt_bytes t = empty();
    size_t word = 0;
    while (word < n && s[word] != '<')
        word++;
    int dtype = dtype_of(s, word);
    put_int(&t, 1, dtype);
    const char *values = put_shape(&t, 2, s + word), *end = s + n;
    values += *values == ':';
    while (values < end) {
        char *after;
        if (dtype == RT_F32)
            put_float(&t, 5, strtof(values, &after));
        else if (dtype == RT_I64)
            put_int(&t, 10, strtoll(values, &after, 10));
        else if (dtype == RT_BOOL)
            put_int(&t, 11, strtoll(values, &after, 10));
        else
            put_int(&t, 7, strtoll(values, &after, 10));
        if (after == values)
            break;
        values = after + (*after == ',');
    }
    put_message(b, field, &t);
}

static void put_attrs(struct rt_bytes *b, int field, const char *s, char end);

/*
 * Writes one value into an AttrValue, or into its ListValue. Both messages have the same field
 * numbers except for functions.
 */
static void put_value(struct rt_bytes *v, const char *s, size_t n, bool in_list)
{
    const char *open;
    if (n == 0 || *s == '!')
        return;
    if (*s == '[') {
        struct rt_bytes list = empty();
        for (size_t i = 1; i + 1 < n;) {
            size_t len = 0;
            for (int depth = 0; i + len + 1 < n; len++) {
                char c = s[i + len];
                depth += (c == '<' || c == '(') - (c == '>' || c == ')');
                if (c == ',' && depth == 0)
                    break;
            }
            put_value(&list, s + i, len, true);
            i += len + 1;
        }
        put_message(v, 1, &list);
    } else if (*s == '\'') {
        put_str(v, 2, s + 1, n - 2);
    } else if (*s == '$') {
        put_str(v, 9, s + 1, n - 1);
    } else if (*s == '@') {
        struct rt_bytes f = empty();
        open = memchr(s, '(', n);
        put_str(&f, 1, s + 1, open ? (size_t)(open - s - 1) : n - 1);
        if (open)
            put_attrs(&f, 2, open + 1, ')');
        put_message(v, in_list ? 9 : 10, &f);
    } else if (*s == '<') {
        put_shape(v, 7, s);
    } else if (memchr(s, '<', n)) {
        put_tensor(v, 8, s, n);
    } else if (dtype_of(s, n)) {
        put_int(v, 6, dtype_of(s, n));
    } else if ((n == 4 && !memcmp(s, "true", 4)) || (n == 5 && !memcmp(s, "false", 5))) {
        put_int(v, 5, *s == 't');
    } else if (s[n - 1] == 'f') {
        put_float(v, 4, strtof(s, NULL));
    } else {
        put_int(v, 3, strtoll(s, NULL, 10));
    }
}

static void put_attrs(struct rt_bytes *b, int field, const char *s, char end)
{
    while (*s && *s != end) {
        size_t key = strcspn(s, "="), n = 0;
        const char *value = s + key + 1;
        for (int depth = 0, quoted = 0; value[n]; n++) {
            char c = value[n];
            quoted ^= c == '\'';
            if (depth == 0 && !quoted && (c == ' ' || (end && c == end)))
                break;
            depth += (c == '(') - (c == ')');
        }
        struct rt_bytes entry = empty(), v = empty();
        put_str(&entry, 1, s, key);
        put_value(&v, value, n, false);
        put_message(&entry, 2, &v);
        put_message(b, field, &entry);
        s = value + n;
        while (*s == ' ')
            s++;
    }
}

static void put_node(struct rt_bytes *out, int field, const char *name, const char *op,
                     const char *inputs, const char *attrs)
{
    struct rt_bytes n = empty();
    put_str(&n, 1, name, strlen(name));
    size_t op_len = strcspn(op, "@");
    put_str(&n, 2, op, op_len);
    while (*inputs) {
        size_t len = strcspn(inputs, " ");
        put_str(&n, 3, inputs, len);
        inputs += len + (inputs[len] == ' ');
    }
    if (op[op_len])
        put_str(&n, 4, op + op_len + 1, strlen(op + op_len + 1));
    put_attrs(&n, 5, attrs, '\0');
    put_message(out, field, &n);
}

void gd_node(struct rt_bytes *graph, const char *name, const char *op, const char *inputs,
             const char *attrs)
{
    put_node(graph, 1, name, op, inputs, attrs);
}

void gd_lines(struct rt_bytes *graph, const struct gd_line *lines, const struct gd_line *other)
{
    for (; lines->name; lines++) {
        const struct gd_line *l = other && strcmp(other->name, lines->name) == 0 ? other : lines;
        gd_node(graph, l->name, l->op, l->inputs, l->attrs);
    }
}

/* Returns the number of characters before the first `end`. A sanitizer's strcspn would first
 * compute the length of the complete text. */
static size_t until(const char *s, char end)
{
    size_t n = 0;

    while (s[n] && s[n] != end)
        n++;
    return n;
}

static void put_args(struct rt_bytes *sig, int field, const char *s)
{
    while (*s) {
        struct rt_bytes arg = empty();
        size_t name = until(s, ':'), n = until(s, ' ');
        put_str(&arg, 1, s, name);
        const char *type = s + name + 1, *star = memchr(type, '*', n - name - 1);
        if (star == type) {
            put_str(&arg, 6, type + 1, n - name - 2);
        } else {
            if (star) {
                put_str(&arg, 5, type, (size_t)(star - type));
                type = star + 1;
            }
            size_t len = n - (size_t)(type - s);
            if (dtype_of(type, len))
                put_int(&arg, 3, dtype_of(type, len));
            else
                put_str(&arg, 4, type, len);
        }
        put_message(sig, field, &arg);
        s += n + (s[n] == ' ');
    }
}

static void put_map(struct rt_bytes *f, int field, const char *s)
{
    while (*s) {
        struct rt_bytes entry = empty();
        size_t key = until(s, '='), n = until(s, ' ');
        put_str(&entry, 1, s, key);
        put_str(&entry, 2, s + key + 1, n - key - 1);
        put_message(f, field, &entry);
        s += n + (s[n] == ' ');
    }
}

void gd_function(struct rt_bytes *graph, const char *name, const char *args, const char *outs,
                 const struct rt_bytes *nodes, const char *rets, const char *ctrl_rets)
{
    struct rt_bytes lib = empty(), f = empty(), sig = empty();
    put_str(&sig, 1, name, strlen(name));
    put_args(&sig, 2, args);
    put_args(&sig, 3, outs);
    put_message(&f, 1, &sig);
    /* A node is field 1 of a GraphDef and field 3 of a FunctionDef. */
    for (size_t at = 0; nodes && at < nodes->n;) {
        size_t start = ++at, n = 0;
        for (int shift = 0;; shift += 7) {
            unsigned char c = (unsigned char)nodes->p[at++];
            n |= (size_t)(c & 127) << shift;
            if (c < 128)
                break;
        }
        rt_bytes_addc(&f, (char)(3 << 3 | 2));
        rt_bytes_add(&f, nodes->p + start, at - start + n);
        at += n;
    }
    put_map(&f, 4, rets);
    put_map(&f, 6, ctrl_rets);
    put_message(&lib, 1, &f);
    put_message(graph, 2, &lib);
}

struct rt_span gd_span(const struct rt_bytes *b)
{
    return rt_span_of(b->p, b->n);
}
