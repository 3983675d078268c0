#include "runtime/core/slice.h"

#include <stdio.h>

/* ---- text ---- */

static bool number(struct rt_span *s, int64_t *out)
{
    int64_t v = 0;
    size_t i = 0;
    for (; i < s->n && s->p[i] >= '0' && s->p[i] <= '9'; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s->p[i] - '0', &v))
            return false;
    if (!i)
        return false;
    s->p += i;
    s->n -= i;
    *out = v;
    return true;
}

static bool skip(struct rt_span *s, char c)
{
    if (!s->n || s->p[0] != (unsigned char)c)
        return false;
    s->p++;
    s->n--;
    return true;
}

/* Parses a number with an optional minus sign. */
static bool signed_number(struct rt_span *s, int64_t *out)
{
    const bool is_negative = skip(s, '-');

    if (!number(s, out))
        return false;
    *out = is_negative ? -*out : *out;
    return true;
}

/* Removes the text up to the next colon, or to the end, from the start of `s`, and returns it. */
static struct rt_span next_extent(struct rt_span *s)
{
    const unsigned char *colon = memchr(s->p, ':', s->n);
    const size_t n = colon ? (size_t)(colon - s->p) : s->n;
    const struct rt_span extent = rt_span_of(s->p, n);

    s->p += colon ? n + 1 : n;
    s->n -= colon ? n + 1 : n;
    return extent;
}

/* Parses the string `s`, which must be a complete slice such as "0,2:-". The slice of a scalar is
 * an empty string. Empty extents are skipped, as in TensorFlow. */
static enum rt_status parse_extents(struct rt_span s, struct rt_slice *out, struct rt_error *err)
{
    const struct rt_span whole = s;
    *out = (struct rt_slice){0};
    while (s.n) {
        const struct rt_span extent = next_extent(&s);
        struct rt_span rest = extent;
        int64_t start = 0, length = -1;
        if (!extent.n)
            continue;
        if (out->rank == RT_MAX_RANK)
            return rt_fail(err, RT_UNIMPLEMENTED, "a slice of more than %d dimensions",
                           RT_MAX_RANK);
        if (!rt_span_is(extent, "-")) {
            if (!signed_number(&rest, &start) || !skip(&rest, ',') ||
                !signed_number(&rest, &length) || rest.n)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Expected a pair of numbers or '-' but got '%.*s': string = %.*s",
                               (int)extent.n, (const char *)extent.p, (int)whole.n,
                               (const char *)whole.p);
            if (start < 0 || length <= 0)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Expected non-negative start and positive length but got start = "
                               "%lld, length = %lld: string = %.*s",
                               (long long)start, (long long)length, (int)whole.n,
                               (const char *)whole.p);
        }
        out->start[out->rank] = start;
        out->length[out->rank++] = length;
    }
    return RT_OK;
}

/* Returns the first dimension in which the slice is not inside the tensor, or the rank. */
static int first_outside(const struct rt_slice *s, const int64_t *dim)
{
    int i = 0;

    while (i < s->rank &&
           (s->length[i] == -1 || (s->start[i] <= dim[i] && s->length[i] <= dim[i] - s->start[i])))
        i++;
    return i;
}

enum rt_status rt_slice_parse(struct rt_span text, int *rank, int64_t dim[RT_MAX_RANK],
                              struct rt_slice *out, struct rt_error *err)
{
    struct rt_span s = text;
    bool any = false;
    char buffer[128], part[128];
    enum rt_status st;

    if (text.n > 1024)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a slice text of %zu bytes", text.n);
    *rank = 0;
    while (memchr(s.p, ' ', s.n)) {
        any = true;
        if (*rank == RT_MAX_RANK)
            return rt_fail(err, RT_UNIMPLEMENTED, "a slice of more than %d dimensions",
                           RT_MAX_RANK);
        if (!number(&s, &dim[*rank]) || !skip(&s, ' '))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Non numerical dimension in shape_and_slice: %.*s", (int)text.n,
                           (const char *)text.p);
        ++*rank;
    }
    if (!any)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Need least two elements in shape_and_slice specification: %.*s",
                       (int)text.n, (const char *)text.p);
    st = parse_extents(s, out, err);
    if (st)
        return st;
    rt_shape_text(buffer, sizeof buffer, *rank, dim);
    rt_slice_text(part, sizeof part, out);
    if (out->rank != *rank)
        return rt_fail(err, RT_INTERNAL, "Mismatching ranks: shape = %s, slice = %s", buffer, part);
    const int outside = first_outside(out, dim);
    if (outside < *rank)
        return rt_fail(err, RT_INTERNAL,
                       "Extent in dimension %d out of bounds: shape = %s, slice = %s", outside,
                       buffer, part);
    return RT_OK;
}

const char *rt_slice_text(char *buffer, size_t n, const struct rt_slice *s)
{
    size_t at = 0;
    if (n)
        buffer[0] = 0;
    for (int i = 0; i < s->rank && at < n; i++) {
        const char *colon = i ? ":" : "";
        int k = s->length[i] < 0 ? snprintf(buffer + at, n - at, "%s-", colon)
                                 : snprintf(buffer + at, n - at, "%s%lld,%lld", colon,
                                            (long long)s->start[i], (long long)s->length[i]);
        at += (size_t)k;
    }
    return buffer;
}

bool rt_slice_resolve(struct rt_slice *s, int rank, const int64_t *dim)
{
    if (s->rank != rank)
        return false;
    for (int i = 0; i < rank; i++) {
        if (s->length[i] == -1 && s->start[i] == 0)
            s->length[i] = dim[i];
        else if (s->start[i] < 0 || s->length[i] < 0 || s->start[i] > dim[i] ||
                 s->length[i] > dim[i] - s->start[i])
            return false;
    }
    return true;
}

/* ---- keys ---- */

/* Encodes v: first the number of its significant bytes, then these bytes, most significant
 * first. */
static void put_unsigned(struct rt_bytes *out, uint64_t v)
{
    int n = 0;
    while (n < 8 && v >> (8 * n))
        n++;
    rt_bytes_addc(out, (char)n);
    while (n--)
        rt_bytes_addc(out, (char)(v >> (8 * n) & 255));
}

/* Encodes v in n bytes: n one bits, a zero bit, and the value in `7n - 1` bits. A negative v is
 * encoded as the bitwise complement of the code of ~v. */
static void put_signed(struct rt_bytes *out, int64_t v)
{
    uint64_t bits = v < 0 ? ~(uint64_t)v : (uint64_t)v;
    unsigned char code[10] = {0};
    int n = 1;

    while (n < 10 && bits >> (7 * n - 1))
        n++;
    for (int i = 0; i < n && i < 8; i++)
        code[n - 1 - i] = (unsigned char)(bits >> (8 * i) & 255);
    for (int i = 0; i < n; i++)
        code[i / 8] |= (unsigned char)(128 >> i % 8);
    for (int i = 0; i < n; i++)
        rt_bytes_addc(out, (char)(v < 0 ? code[i] ^ 255 : code[i]));
}

void rt_slice_key(struct rt_bytes *out, struct rt_span name, const struct rt_slice *s)
{
    put_unsigned(out, 0);
    for (size_t i = 0; i < name.n; i++) {
        rt_bytes_addc(out, (char)name.p[i]);
        if (name.p[i] == 0 || name.p[i] == 255)
            rt_bytes_addc(out, (char)(name.p[i] ^ 255));
    }
    rt_bytes_add(out, "\0\1", 2);
    put_unsigned(out, (uint64_t)s->rank);
    for (int i = 0; i < s->rank; i++) {
        put_signed(out, s->start[i]);
        put_signed(out, s->length[i]);
    }
}

bool rt_slice_from_proto(struct rt_slice *out, int rank, const Tensorflow__TensorSliceProto *p)
{
    if (rank < 0 || p->n_extent != (size_t)rank)
        return false;
    *out = (struct rt_slice){.rank = rank};
    for (int i = 0; i < rank; i++) {
        const Tensorflow__TensorSliceProto__Extent *x = p->extent[i];
        bool has = x->has_length_hack_case ==
                   TENSORFLOW__TENSOR_SLICE_PROTO__EXTENT__HAS_LENGTH_HACK_LENGTH;
        out->start[i] = x->start;
        out->length[i] = has ? x->length : -1;
    }
    return true;
}

/* ---- copying ---- */

int64_t rt_slice_overlap(const struct rt_slice *a, const struct rt_slice *b)
{
    int64_t n = 1;
    for (int i = 0; i < a->rank; i++) {
        int64_t first = a->start[i] > b->start[i] ? a->start[i] : b->start[i];
        int64_t end_a = a->start[i] + a->length[i], end_b = b->start[i] + b->length[i];
        int64_t k = (end_a < end_b ? end_a : end_b) - first;
        if (k <= 0)
            return 0;
        n *= k;
    }
    return n;
}

/* Number of bytes that are copied between two checks. Each row counts as ROW_BYTES more bytes,
 * because computing its address takes as long as copying about ROW_BYTES bytes. */
enum { COPY_BYTES = 1 << 20, ROW_BYTES = 64 };

/* Exchanges n bytes of two areas that do not overlap. */
static void swap_bytes(char *a, char *b, size_t n)
{
    char temp[1024];

    for (size_t at = 0; at < n; at += sizeof temp) {
        const size_t piece = n - at < sizeof temp ? n - at : sizeof temp;
        memcpy(temp, a + at, piece);
        memcpy(a + at, b + at, piece);
        memcpy(b + at, temp, piece);
    }
}

struct copy {
    size_t elem_size;
    bool swaps; /* whether elements are exchanged instead of copied */
    const struct rt_check *check;
    size_t n_unchecked; /* number of bytes copied since the last check */
};

/* Copies n bytes of complete elements. Does not stop within an element. */
static enum rt_status copy_row(struct copy *c, char *dst, char *src, size_t n, struct rt_error *err)
{
    const size_t most = COPY_BYTES - COPY_BYTES % c->elem_size;
    enum rt_status st = RT_OK;

    c->n_unchecked += ROW_BYTES;
    for (size_t at = 0; at < n && !st; at += most) {
        const size_t piece = n - at < most ? n - at : most;
        if (c->swaps)
            swap_bytes(dst + at, src + at, piece);
        else
            memcpy(dst + at, src + at, piece);
        c->n_unchecked += piece;
        if (c->n_unchecked < most)
            continue;
        c->n_unchecked = 0;
        st = rt_check_call(c->check, err);
    }
    return st;
}

static enum rt_status copy_part(struct copy *c, char *dst, const struct rt_slice *want, char *src,
                                const struct rt_slice *have, int64_t *n_copied,
                                struct rt_error *err)
{
    int rank = want->rank;
    int64_t first[RT_MAX_RANK], n[RT_MAX_RANK], at[RT_MAX_RANK] = {0}, total = 1;

    *n_copied = 0;
    for (int i = 0; i < rank; i++) {
        int64_t a = want->start[i] > have->start[i] ? want->start[i] : have->start[i];
        int64_t end_want = want->start[i] + want->length[i];
        int64_t end_have = have->start[i] + have->length[i];
        first[i] = a;
        n[i] = (end_want < end_have ? end_want : end_have) - a;
        if (n[i] <= 0)
            return RT_OK;
        total *= n[i];
    }
    size_t row = rank ? (size_t)n[rank - 1] * c->elem_size : c->elem_size;
    for (;;) {
        int64_t to = 0, from = 0;
        for (int i = 0; i < rank; i++) {
            to = to * want->length[i] + first[i] + at[i] - want->start[i];
            from = from * have->length[i] + first[i] + at[i] - have->start[i];
        }
        const enum rt_status st = copy_row(c, dst + (size_t)to * c->elem_size,
                                           src + (size_t)from * c->elem_size, row, err);
        if (st)
            return st;
        int i = rank - 2;
        while (i >= 0 && ++at[i] == n[i])
            at[i--] = 0;
        if (i < 0)
            break;
    }
    *n_copied = total;
    return RT_OK;
}

enum rt_status rt_slice_copy(void *dst, const struct rt_slice *want, const void *src,
                             const struct rt_slice *have, size_t elem_size,
                             const struct rt_check *check, int64_t *n_copied, struct rt_error *err)
{
    struct copy c = {.elem_size = elem_size, .check = check};

    return copy_part(&c, dst, want, (char *)(uintptr_t)src, have, n_copied, err);
}

enum rt_status rt_slice_swap(void *dst, const struct rt_slice *want, void *src,
                             const struct rt_slice *have, size_t elem_size,
                             const struct rt_check *check, int64_t *n_swapped, struct rt_error *err)
{
    struct copy c = {.elem_size = elem_size, .swaps = true, .check = check};

    return copy_part(&c, dst, want, src, have, n_swapped, err);
}
