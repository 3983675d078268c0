#include "proto/wire.h"

enum { MAX_TAG_BYTES = 5 }; /* as in protobuf */

bool pb_varint(struct rt_span *rest, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < rest->n && i < 10; i++) {
        v |= (uint64_t)(rest->p[i] & 127) << (7 * i);
        if (rest->p[i] < 128) {
            rest->p += i + 1;
            rest->n -= i + 1;
            *out = v;
            return true;
        }
    }
    return false;
}

static bool take(struct rt_span *rest, uint64_t n, struct rt_span *out)
{
    if (n > rest->n)
        return false;
    *out = rt_span_of(rest->p, (size_t)n);
    rest->p += n;
    rest->n -= (size_t)n;
    return true;
}

static uint64_t little_endian(struct rt_span s)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++)
        v |= (uint64_t)s.p[i] << (8 * i);
    return v;
}

int pb_field_next(struct rt_span *rest, struct pb_field *f)
{
    struct rt_span left = *rest, fixed;
    uint64_t tag, n;

    if (!left.n)
        return 0;
    if (!pb_varint(&left, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return -1;
    if (rest->n - left.n > MAX_TAG_BYTES)
        return -1;
    *f = (struct pb_field){.number = (uint32_t)(tag >> 3), .type = (enum pb_wire_type)(tag & 7)};
    switch (f->type) {
    case PB_VARINT:
        if (!pb_varint(&left, &f->value))
            return -1;
        break;
    case PB_FIXED64:
    case PB_FIXED32:
        if (!take(&left, f->type == PB_FIXED64 ? 8 : 4, &fixed))
            return -1;
        f->value = little_endian(fixed);
        break;
    case PB_BYTES:
        if (!pb_varint(&left, &n) || !take(&left, n, &f->bytes))
            return -1;
        break;
    default:
        return -1;
    }
    f->whole = rt_span_of(rest->p, rest->n - left.n);
    *rest = left;
    return 1;
}

int pb_entry_next(struct rt_span *rest, uint32_t number, struct rt_span *name,
                  struct rt_span *value)
{
    struct pb_field f, g;
    int more;

    while ((more = pb_field_next(rest, &f)) > 0) {
        if (f.number != number || f.type != PB_BYTES)
            continue;
        *name = *value = rt_span_str("");
        while ((more = pb_field_next(&f.bytes, &g)) > 0)
            if (g.type == PB_BYTES && g.number == 1)
                *name = g.bytes;
            else if (g.type == PB_BYTES && g.number == 2)
                *value = g.bytes;
        return more < 0 ? -1 : 1;
    }
    return more;
}
