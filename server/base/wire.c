#include "server/base/wire.h"

#include <string.h>

#include "runtime/base/arena.h"

/* ---- reading ---- */

struct srv_cursor srv_cursor_of(const struct rt_span *slices, size_t total)
{
    return (struct srv_cursor){.slice = slices, .left = total};
}

/* Returns the number of contiguous bytes at the cursor. It is 0 only at the end of the message. */
static size_t contiguous_bytes(struct srv_cursor *c)
{
    if (!c->left)
        return 0;
    while (c->off == c->slice->n) {
        c->slice++;
        c->off = 0;
    }
    size_t n = c->slice->n - c->off;
    return n < c->left ? n : c->left;
}

bool srv_cursor_copy(struct srv_cursor *c, void *dst, size_t n)
{
    char *to = dst;
    if (n > c->left)
        return false;
    if (n && c->off < c->slice->n && n <= c->slice->n - c->off) {
        if (to)
            memcpy(to, c->slice->p + c->off, n);
        c->off += n;
        c->left -= n;
        return true;
    }
    while (n) {
        size_t k = contiguous_bytes(c);
        if (k > n)
            k = n;
        if (to) {
            memcpy(to, c->slice->p + c->off, k);
            to += k;
        }
        c->off += k;
        c->left -= k;
        n -= k;
    }
    return true;
}

bool srv_cursor_varint(struct srv_cursor *c, uint64_t *out)
{
    uint64_t v = 0;
    size_t n = contiguous_bytes(c);
    const unsigned char *p = n ? c->slice->p + c->off : NULL;
    for (size_t i = 0; i < n && i < 10; i++) {
        v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
        if (p[i] < 0x80) {
            c->off += i + 1;
            c->left -= i + 1;
            *out = v;
            return true;
        }
    }
    if (n >= 10)
        return false;
    v = 0; /* The varint may continue in the next slice, so it is read byte by byte. */
    for (unsigned i = 0; i < 10; i++) {
        unsigned char b;
        if (!srv_cursor_copy(c, &b, 1))
            return false;
        v |= (uint64_t)(b & 0x7f) << (7 * i);
        if (b < 0x80) {
            *out = v;
            return true;
        }
    }
    return false;
}

int srv_field_next(struct srv_cursor *c, struct srv_field *f)
{
    enum { FIELD_COST = 16 }; /* cost of one field, in bytes, as reported to srv_should_continue */
    uint64_t tag, n;
    uint32_t v32;

    if (!c->left)
        return 0;
    if (c->fields_left && --*c->fields_left < 0)
        return -1;
    if (!srv_should_continue(c->cancellation, FIELD_COST))
        return -1;
    if (!srv_cursor_varint(c, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return -1;
    f->number = (uint32_t)tag >> 3;
    f->type = (int)(tag & 7);
    switch (f->type) {
    case SRV_VARINT:
        return srv_cursor_varint(c, &f->value) ? 1 : -1;
    case SRV_FIXED64:
        return srv_cursor_copy(c, &f->value, 8) ? 1 : -1;
    case SRV_FIXED32:
        if (!srv_cursor_copy(c, &v32, 4))
            return -1;
        f->value = v32;
        return 1;
    case SRV_BYTES:
        if (!srv_cursor_varint(c, &n) || n > c->left)
            return -1;
        f->body = *c;
        f->body.left = (size_t)n;
        return srv_cursor_copy(c, NULL, (size_t)n) ? 1 : -1;
    }
    return -1; /* groups are refused, because they do not occur in these messages */
}

enum rt_status srv_cursor_span(struct srv_cursor c, struct rt_span *out, struct rt_arena *arena,
                               struct rt_error *err)
{
    size_t n = c.left;
    if (!n) {
        *out = rt_span_of("", 0);
        return RT_OK;
    }
    if (contiguous_bytes(&c) == n) {
        *out = rt_span_of(c.slice->p + c.off, n);
        return RT_OK;
    }
    unsigned char *p = rt_arena_alloc(arena, n);
    if (!p)
        return rt_fail_memory(err, "a name in a request", n);
    srv_cursor_copy(&c, p, n);
    *out = rt_span_of(p, n);
    return RT_OK;
}

enum rt_status srv_field_span(const struct srv_field *f, struct rt_span *out,
                              struct rt_arena *arena, struct rt_error *err)
{
    return srv_cursor_span(f->body, out, arena, err);
}

enum rt_status srv_wire_malformed(struct rt_error *err, const char *what)
{
    return rt_fail(err, RT_INVALID_ARGUMENT, "the request is not well formed protobuf: %s", what);
}

/* ---- writing ---- */

size_t srv_varint_size(uint64_t v)
{
    return (size_t)((64 - __builtin_clzll(v | 1)) + 6) / 7;
}

unsigned char *srv_write_varint(unsigned char *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (unsigned char)(v | 0x80);
        v >>= 7;
    }
    *p++ = (unsigned char)v;
    return p;
}

unsigned char *srv_write_tag(unsigned char *p, uint32_t number, enum srv_wire_type type)
{
    return srv_write_varint(p, (uint64_t)number << 3 | type);
}

unsigned char *srv_write_head(unsigned char *p, uint32_t number, size_t n)
{
    return srv_write_varint(srv_write_tag(p, number, SRV_BYTES), n);
}

unsigned char *srv_write_bytes(unsigned char *p, uint32_t number, const void *bytes, size_t n)
{
    p = srv_write_head(p, number, n);
    if (n)
        memcpy(p, bytes, n);
    return p + n;
}

static size_t tag_size(uint32_t number)
{
    return srv_varint_size((uint64_t)number << 3);
}

size_t srv_bytes_size(uint32_t number, size_t n)
{
    return tag_size(number) + srv_varint_size(n) + n;
}

void srv_put_int(struct rt_bytes *out, uint32_t number, uint64_t v)
{
    unsigned char buffer[20], *p = buffer;
    if (!v)
        return;
    p = srv_write_varint(srv_write_tag(p, number, SRV_VARINT), v);
    rt_bytes_add(out, buffer, (size_t)(p - buffer));
}

void srv_put_float(struct rt_bytes *out, uint32_t number, float v)
{
    unsigned char buffer[20], *p = buffer;
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (!bits)
        return;
    p = srv_write_tag(p, number, SRV_FIXED32);
    /* the wire format and all supported machines are little-endian */
    memcpy(p, &bits, sizeof bits);
    rt_bytes_add(out, buffer, (size_t)(p - buffer) + sizeof bits);
}

void srv_put_head(struct rt_bytes *out, uint32_t number, size_t n)
{
    unsigned char buffer[20], *p = buffer;
    p = srv_write_head(p, number, n);
    rt_bytes_add(out, buffer, (size_t)(p - buffer));
}

void srv_put_bytes(struct rt_bytes *out, uint32_t number, const void *bytes, size_t n)
{
    srv_put_head(out, number, n);
    rt_bytes_add(out, bytes, n);
}

void srv_put_message(struct rt_bytes *out, uint32_t number, struct rt_bytes *message)
{
    srv_put_bytes(out, number, message->p, message->n);
    out->failed |= message->failed;
    out->no_memory |= message->no_memory;
    message->n = 0;
}
