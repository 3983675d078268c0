#include "clients/cli/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/cli/convert.h"

enum { MAX_HEADER = 1 << 20 };
static const char magic[] = "\x93NUMPY";

bool cl_is_npy(struct rt_span file)
{
    return file.n >= 6 && memcmp(file.p, magic, 6) == 0;
}

/* ---- the header: a dict as Python prints it ---- */

struct header {
    char order, kind; /* byte order '<' or '>', and kind 'f', 'i', 'u', 'b', 'c', 'S' or 'U' */
    int64_t width;    /* size of an element in the type, for example 4 in "<f4" */
    bool is_fortran;
    int rank;
    int64_t dim[SLIPWAY_MAX_RANK];
};

/* Returns the text after 'key': in a header, or NULL if the key is missing. A header is a
 * NUL-terminated Python dict. */
static const char *value_of(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = text; (p = strstr(p, key)); p += n)
        if (p > text && (p[-1] == '\'' || p[-1] == '"') && p[n] == p[-1]) {
            p += n + 1;
            p += strspn(p, " ");
            if (*p != ':')
                return NULL;
            return p + 1 + strspn(p + 1, " ");
        }
    return NULL;
}

/* Parses a number of at most 18 digits. Returns -1 if the text does not begin with a number. */
static int64_t number(const char **p)
{
    int64_t v = 0;
    const char *start = *p;
    while (**p >= '0' && **p <= '9' && *p - start < 18)
        v = v * 10 + (*(*p)++ - '0');
    return *p == start || (**p >= '0' && **p <= '9') ? -1 : v;
}

static bool read_descr(const char *p, struct header *h)
{
    if (!p || (*p != '\'' && *p != '"'))
        return false;
    char quote = *p++;
    h->order = *p == '<' || *p == '>' || *p == '|' || *p == '=' ? *p++ : '<';
    h->kind = *p ? *p++ : '?';
    h->width = number(&p);
    return *p == quote && h->width >= 0;
}

static bool read_dims(const char *p, struct header *h)
{
    if (!p || *p++ != '(')
        return false;
    for (h->rank = 0;;) {
        p += strspn(p, " ,");
        if (*p == ')')
            return true;
        if (h->rank == SLIPWAY_MAX_RANK || (h->dim[h->rank++] = number(&p)) < 0)
            return false;
        if (*p == 'L') /* Python 2 appends an L to long integers */
            p++;
        if (*p != ',' && *p != ')' && *p != ' ')
            return false;
    }
}

static enum rt_status read_header(struct rt_span *file, struct header *h, struct rt_arena *arena,
                                  struct rt_error *err)
{
    if (file->n < 10 || !cl_is_npy(*file))
        return rt_fail(err, RT_INVALID_ARGUMENT, "not a .npy file");
    size_t at = file->p[6] == 1 ? 10 : 12, n = file->p[8] | (size_t)file->p[9] << 8;
    if (file->p[6] < 1 || file->p[6] > 3 || file->n < at)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a .npy file of version %d", file->p[6]);
    if (at == 12)
        n |= (size_t)file->p[10] << 16 | (size_t)file->p[11] << 24;
    if (n > file->n - at || n > MAX_HEADER)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the .npy file's header is cut off");
    const char *text = rt_arena_strndup(arena, (const char *)file->p + at, n);
    if (!text)
        return rt_fail_memory(err, "a header", n);
    const char *fortran = value_of(text, "fortran_order");
    if (!read_descr(value_of(text, "descr"), h))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the .npy file's elements are not of one plain type");
    if (!fortran || !read_dims(value_of(text, "shape"), h))
        return rt_fail(err, RT_INVALID_ARGUMENT, "the .npy file's header cannot be read");
    h->is_fortran = strncmp(fortran, "True", 4) == 0;
    file->p += at + n;
    file->n -= at + n;
    return RT_OK;
}

static int dtype_of(const struct header *h)
{
    static const struct {
        char kind;
        int width, dtype;
    } all[] = {
        {'f', 2, SLIPWAY_HALF},      {'f', 4, SLIPWAY_FLOAT},       {'f', 8, SLIPWAY_DOUBLE},
        {'i', 1, SLIPWAY_INT8},      {'i', 2, SLIPWAY_INT16},       {'i', 4, SLIPWAY_INT32},
        {'i', 8, SLIPWAY_INT64},     {'u', 1, SLIPWAY_UINT8},       {'u', 2, SLIPWAY_UINT16},
        {'u', 4, SLIPWAY_UINT32},    {'u', 8, SLIPWAY_UINT64},      {'b', 1, SLIPWAY_BOOL},
        {'c', 8, SLIPWAY_COMPLEX64}, {'c', 16, SLIPWAY_COMPLEX128},
    };
    if (h->kind == 'S' || h->kind == 'U')
        return SLIPWAY_STRING;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].kind == h->kind && all[i].width == h->width)
            return all[i].dtype;
    return 0;
}

/* ---- elements ---- */

static void swap(unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        unsigned char c = p[i];
        p[i] = p[n - 1 - i];
        p[n - 1 - i] = c;
    }
}

static bool is_last_index(const struct slipway_tensor *t, int64_t *index)
{
    for (int d = t->rank - 1; d >= 0; d--) {
        if (++index[d] < t->dim[d])
            return false;
        index[d] = 0;
    }
    return true;
}

/* Returns the position of the element with the indices index[0], index[1], ... in an array in
 * column-major (Fortran) order. */
static int64_t fortran_place(const struct slipway_tensor *t, const int64_t *index)
{
    int64_t at = 0;
    for (int d = t->rank - 1; d >= 0; d--)
        at = at * t->dim[d] + index[d];
    return at;
}

static struct slipway_string bytes_of(const unsigned char *p, size_t width, struct rt_arena *arena)
{
    while (width && !p[width - 1])
        width--;
    return (struct slipway_string){rt_arena_strndup(arena, (const char *)p, width), width};
}

/* Converts a UCS-4 string to UTF-8. Invalid code points become U+FFFD. */
static struct slipway_string text_of(const unsigned char *p, size_t width, bool is_big,
                                     struct rt_arena *arena)
{
    struct rt_bytes utf8;
    rt_bytes_init(&utf8, SIZE_MAX);
    size_t n = width / 4, kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t c = 0;
        for (size_t k = 0; k < 4; k++)
            c |= (uint32_t)p[i * 4 + (is_big ? 3 - k : k)] << (8 * k);
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            c = 0xfffd;
        if (c)
            rt_bytes_add_utf8(&utf8, c);
        else
            rt_bytes_addc(&utf8, '\0');
        if (c)
            kept = utf8.n; /* drops trailing NULs, which are padding */
    }
    struct slipway_string s = {NULL, kept};
    if (!utf8.failed)
        s.p = rt_arena_strndup(arena, utf8.p ? utf8.p : "", kept);
    rt_bytes_clear(&utf8);
    return s;
}

enum rt_status cl_npy_read(struct rt_span file, struct rt_arena *arena, struct slipway_tensor *out,
                           struct rt_error *err)
{
    struct header h = {0};
    enum rt_status st = read_header(&file, &h, arena, err);
    if (st)
        return st;
    out->dtype = dtype_of(&h);
    out->rank = h.rank;
    out->data = NULL;
    memcpy(out->dim, h.dim, sizeof h.dim);
    if (!out->dtype)
        return rt_fail(err, RT_INVALID_ARGUMENT, "elements of type %c%lld are not read here",
                       h.kind >= ' ' && h.kind < 127 ? h.kind : '?', (long long)h.width);
    int64_t count = slipway_count(out);
    size_t width = h.kind == 'U' ? (size_t)h.width * 4 : (size_t)h.width;
    /* Strings of length 0 occupy memory but no bytes of the file, so their number has its own
     * limit. */
    if (count < 0 || (uint64_t)count > file.n / (width ? width : 1) + (width ? 0 : 4096))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the .npy file has too few bytes for what its header says");
    size_t size = slipway_dtype_size(out->dtype);
    char *data = rt_arena_array(arena, (size_t)count, size);
    if (count && !data)
        return rt_fail_memory(err, "an array", (size_t)count * size);
    out->data = count ? data : NULL;
    int64_t index[SLIPWAY_MAX_RANK] = {0};
    size_t part = h.kind == 'c' ? width / 2 : width;
    for (int64_t i = 0; i < count; i++) {
        int64_t from = h.is_fortran ? fortran_place(out, index) : i;
        const unsigned char *src = file.p + (size_t)from * width;
        char *dst = data + (size_t)i * size;
        if (out->dtype == SLIPWAY_STRING) {
            struct slipway_string s = h.kind == 'S' ? bytes_of(src, width, arena)
                                                    : text_of(src, width, h.order == '>', arena);
            if (!s.p)
                return rt_fail_memory(err, "a string", width);
            memcpy(dst, &s, sizeof s);
        } else {
            memcpy(dst, src, width);
            for (size_t k = 0; h.order == '>' && k < width; k += part)
                swap((unsigned char *)dst + k, part);
            if (out->dtype == SLIPWAY_BOOL)
                *dst = *dst != 0;
        }
        if (h.is_fortran)
            (void)is_last_index(out, index);
    }
    return RT_OK;
}

/* ---- writing ---- */

static const char *descr_of(const struct slipway_tensor *t, size_t string_width, char *buffer,
                            size_t n)
{
    switch (t->dtype) {
    case SLIPWAY_FLOAT:
    case SLIPWAY_BFLOAT16:
        return "<f4";
    case SLIPWAY_DOUBLE:
        return "<f8";
    case SLIPWAY_HALF:
        return "<f2";
    case SLIPWAY_INT8:
        return "|i1";
    case SLIPWAY_INT16:
        return "<i2";
    case SLIPWAY_INT32:
        return "<i4";
    case SLIPWAY_INT64:
        return "<i8";
    case SLIPWAY_UINT8:
        return "|u1";
    case SLIPWAY_UINT16:
        return "<u2";
    case SLIPWAY_UINT32:
        return "<u4";
    case SLIPWAY_UINT64:
        return "<u8";
    case SLIPWAY_BOOL:
        return "|b1";
    case SLIPWAY_COMPLEX64:
        return "<c8";
    case SLIPWAY_COMPLEX128:
        return "<c16";
    case SLIPWAY_STRING:
        snprintf(buffer, n, "|S%zu", string_width);
        return buffer;
    default:
        return NULL;
    }
}

enum rt_status cl_npy_write(struct rt_bytes *out, const struct slipway_tensor *t,
                            struct rt_error *err)
{
    char buffer[32];
    size_t longest = 1;
    int64_t count = slipway_count(t);
    const struct slipway_string *s = t->data;
    for (int64_t i = 0; t->dtype == SLIPWAY_STRING && i < count; i++)
        longest = s[i].n > longest ? s[i].n : longest;
    const char *descr = descr_of(t, longest, buffer, sizeof buffer);
    if (!descr || count < 0)
        return rt_fail(err, RT_UNIMPLEMENTED, "a .npy file cannot hold a %s",
                       slipway_dtype_name(t->dtype));
    struct rt_bytes text;
    rt_bytes_init(&text, 4096);
    rt_bytes_addf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < t->rank; i++)
        rt_bytes_addf(&text, "%lld,%s", (long long)t->dim[i], i + 1 < t->rank ? " " : "");
    rt_bytes_adds(&text, "), }");
    while ((10 + text.n + 1) % 64 && !text.failed)
        rt_bytes_addc(&text, ' ');
    rt_bytes_addc(&text, '\n');
    const unsigned char head[4] = {1, 0, (unsigned char)text.n, (unsigned char)(text.n >> 8)};
    rt_bytes_add(out, magic, 6);
    rt_bytes_add(out, head, 4);
    rt_bytes_add(out, text.p, text.n);
    out->failed |= text.failed;
    rt_bytes_clear(&text);
    if (t->dtype != SLIPWAY_STRING && t->dtype != SLIPWAY_BFLOAT16 && count)
        rt_bytes_add(out, t->data, (size_t)count * slipway_dtype_size(t->dtype));
    for (int64_t i = 0; t->dtype == SLIPWAY_BFLOAT16 && i < count; i++) {
        float f = (float)cl_get_real(t->dtype, (const char *)t->data + 2 * (size_t)i);
        rt_bytes_add(out, &f, sizeof f);
    }
    for (int64_t i = 0; t->dtype == SLIPWAY_STRING && i < count; i++) {
        if (s[i].n)
            rt_bytes_add(out, s[i].p, s[i].n);
        for (size_t k = s[i].n; k < longest && !out->failed; k++)
            rt_bytes_addc(out, '\0');
    }
    return out->failed ? rt_fail_memory(err, "a .npy file", out->n) : RT_OK;
}
