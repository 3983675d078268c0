#include "kernels/parsing/message_scan.h"

#include "kernels/parsing/wire_example.h"
#include "kernels/string/text.h"

enum { START_GROUP = 3, END_GROUP = 4, MAX_DEPTH = 100 };

static bool skip_bytes(struct kn_wire *w, uint64_t n)
{
    if (n > kn_wire_left(w))
        return false;
    w->p += n;
    return true;
}

/* Skips the value of a field that is not a group. */
static bool skip_value(struct kn_wire *w, uint64_t tag)
{
    uint64_t v;
    uint32_t length;

    switch (tag & 7) {
    case KN_VARINT:
        return kn_wire_varint(w, &v);
    case KN_FIXED64:
        return skip_bytes(w, 8);
    case KN_BYTES:
        return kn_wire_length(w, &length) && length <= INT32_MAX && skip_bytes(w, length);
    case KN_FIXED32:
        return skip_bytes(w, 4);
    default:
        return false;
    }
}

/* As in TensorFlow, only the low 32 bits of a tag count. */
static bool read_tag(struct kn_wire *w, uint64_t *tag)
{
    uint32_t low;

    if (!kn_wire_length(w, &low))
        return false;
    *tag = low;
    return low >> 3 != 0;
}

static enum rt_status data_loss(struct rt_run *r, const char *text)
{
    return rt_fail(r->err, RT_DATA_LOSS, "%s", text);
}

/* Skips the value of the field with this tag, including all fields of a group and its end. Sets
 * *content to the bytes of a group before its end. Fails with `failure` if the value is malformed.
 */
static enum rt_status skip_field(struct rt_run *r, struct kn_wire *w, uint64_t tag,
                                 const char *failure, struct rt_span *content)
{
    uint64_t open[MAX_DEPTH];
    int depth = 0;
    const uint8_t *start = w->p;

    if (tag >> 3 == 0)
        return data_loss(r, failure);
    if ((tag & 7) != START_GROUP)
        return skip_value(w, tag) ? RT_OK : data_loss(r, failure);
    open[depth++] = tag >> 3;
    while (depth) {
        const uint8_t *before = w->p;
        if (!read_tag(w, &tag))
            return data_loss(r, failure);
        if ((tag & 7) == END_GROUP) {
            if (open[--depth] != tag >> 3)
                return data_loss(r, failure);
            *content = rt_span_of(start, (size_t)(before - start));
        } else if ((tag & 7) == START_GROUP) {
            if (depth == MAX_DEPTH)
                return data_loss(r, failure);
            open[depth++] = tag >> 3;
        } else if (!skip_value(w, tag)) {
            return data_loss(r, failure);
        }
        if (rt_run_spend(r, &r->left, 8))
            return r->err->code;
    }
    return RT_OK;
}

/* Sets e->n to the number of elements of a packed field. */
static enum rt_status count_packed(struct rt_run *r, enum kn_field_type type, struct kn_elements *e)
{
    const size_t size = kn_field_bytes(type);
    struct kn_wire w = kn_wire_of(e->bytes);
    uint64_t v;

    if (size && e->bytes.n % size != 0)
        return rt_fail(r->err, RT_DATA_LOSS, "Illegal data length for packed fixed-size type: %zu",
                       e->bytes.n);
    for (e->n = (int64_t)(size ? e->bytes.n / size : 0); !size && kn_wire_left(&w); e->n++) {
        if (!kn_wire_varint(&w, &v))
            return data_loss(r, "Corrupt packed varint");
        if (rt_run_spend(r, &r->left, 1))
            return r->err->code;
    }
    return RT_OK;
}

/* Reads the packed elements of a field, from their length on. As in TensorFlow, the length may
 * not exceed INT32_MAX, and only a length of 0 is accepted for a group field. */
static enum rt_status read_packed(struct rt_run *r, enum kn_field_type type, struct kn_wire *w,
                                  struct kn_elements *e)
{
    uint64_t length;

    if (!kn_wire_varint(w, &length) || length > INT32_MAX)
        return data_loss(r, "CollectField: Failed reading packed size");
    if (length > kn_wire_left(w))
        return data_loss(r, "ReadPackedValues: Skipping packed field failed");
    if (type == KN_F_GROUP && length)
        return data_loss(r, "TYPE_GROUP encountered as packed");
    e->bytes = rt_span_of(w->p, length);
    e->is_packed = true;
    w->p += length;
    return count_packed(r, type, e);
}

/* Reads the field with this tag, which the node names. A field of another wire type than the
 * descriptor's is skipped. */
static enum rt_status read_field(struct rt_run *r, enum kn_field_type type, uint64_t tag,
                                 struct kn_wire *w, struct kn_elements *e)
{
    const uint64_t wire_type = (uint64_t)kn_field_wire_type(type), found = tag & 7;
    struct kn_wire value = *w;
    uint32_t length;

    if (found == KN_BYTES && wire_type != KN_BYTES)
        return read_packed(r, type, w, e);
    const enum rt_status st =
        skip_field(r, w, tag,
                   found == wire_type ? "ReadValue: Failed skipping field when counting"
                                      : "CollectField: Failed skipping malformed field",
                   &e->bytes);
    if (st || found != wire_type)
        return st;
    e->n = 1;
    if (wire_type == KN_BYTES && kn_wire_length(&value, &length))
        e->bytes = rt_span_of(value.p, length);
    else if (wire_type != START_GROUP)
        e->bytes = rt_span_of(value.p, (size_t)(w->p - value.p));
    return RT_OK;
}

enum rt_status kn_scan_message(struct rt_run *r, const struct kn_proto_fields *f,
                               struct rt_span message, const struct kn_scan *scan)
{
    struct kn_wire w = kn_wire_of(message);
    uint64_t tag;

    while (kn_wire_left(&w)) {
        struct kn_elements e = {0};
        const uint8_t *start = w.p;
        uint32_t low; /* as in TensorFlow, only the low 32 bits of a tag count */
        if (!kn_wire_length(&w, &low) || low == 0 || (low & 7) == END_GROUP)
            return data_loss(r, "CountFields: Failed to consume entire buffer");
        tag = low;
        const int index = kn_proto_field(f, (uint32_t)(tag >> 3));
        enum rt_status st =
            index >= 0 ? read_field(r, f->field[index].type, tag, &w, &e)
                       : skip_field(r, &w, tag, "Failed skipping unrequested field", &e.bytes);
        if (!st && index >= 0)
            st = scan->visit(scan->arg, index, &e);
        if (!st)
            st = rt_run_spend(r, &r->left, 8 + (w.p - start));
        if (st)
            return st;
    }
    return RT_OK;
}

bool kn_elements_next(enum kn_field_type type, struct kn_elements *e, uint64_t *bits)
{
    const size_t size = kn_field_bytes(type);
    struct kn_wire w = kn_wire_of(e->bytes);

    *bits = 0;
    if (size) {
        if (e->bytes.n < size)
            return false;
        memcpy(bits, w.p, size); /* protobuf and the processor are both little-endian */
        w.p += size;
    } else if (!kn_wire_varint(&w, bits)) {
        return false;
    }
    e->bytes = rt_span_of(w.p, kn_wire_left(&w));
    return true;
}

/* Appends the value of the field with this tag, which is not a group, with the smallest varints.
 * The buffer has room for it. */
static enum rt_status add_value(struct rt_run *r, struct kn_wire *w, uint64_t tag,
                                struct rt_bytes *b)
{
    struct kn_wire from = *w;
    uint32_t length;
    uint64_t v;

    if (!skip_value(w, tag))
        return rt_fail(r->err, RT_INTERNAL, "a group was read, but is malformed");
    if ((tag & 7) == KN_VARINT && kn_wire_varint(&from, &v))
        rt_bytes_add_varint(b, v);
    else if ((tag & 7) == KN_BYTES && kn_wire_length(&from, &length))
        rt_bytes_add_varint(b, length);
    const size_t n = (size_t)(w->p - from.p);
    const enum rt_status st = kn_copy_text(r, &r->left, b->p + b->n, (const char *)from.p, n);
    b->n += n;
    return st;
}

enum rt_status kn_add_group(struct rt_run *r, uint32_t number, struct rt_span content,
                            struct rt_bytes *b)
{
    struct kn_wire w = kn_wire_of(content);
    uint64_t tag;

    if (!rt_bytes_reserve(b, content.n + KN_GROUP_TAGS))
        return kn_text_failed(b);
    rt_bytes_add_varint(b, (uint64_t)number << 3 | START_GROUP);
    while (kn_wire_left(&w)) {
        if (!read_tag(&w, &tag))
            return rt_fail(r->err, RT_INTERNAL, "a group was read, but is malformed");
        rt_bytes_add_varint(b, tag);
        const bool has_value = (tag & 7) != START_GROUP && (tag & 7) != END_GROUP;
        if ((has_value && add_value(r, &w, tag, b)) || rt_run_spend(r, &r->left, 8))
            return r->err->code;
    }
    rt_bytes_add_varint(b, (uint64_t)number << 3 | END_GROUP);
    return RT_OK;
}
