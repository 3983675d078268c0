#include "kernels/parsing/wire_example.h"

/* One-byte protobuf tags. A tag combines a field number and a wire type. */
enum {
    TAG_VARINT_1 = 1 << 3,
    TAG_BYTES_1 = 1 << 3 | 2,
    TAG_BYTES_2 = 2 << 3 | 2,
    TAG_BYTES_3 = 3 << 3 | 2,
    TAG_FIXED32_1 = 1 << 3 | 5,
};

bool kn_wire_long_varint(struct kn_wire *w, uint64_t *v)
{
    const size_t left = kn_wire_left(w);
    uint64_t x = 0;

    for (size_t i = 0; i < left && i < 10; i++) {
        x |= (uint64_t)(w->p[i] & 0x7f) << (7 * i);
        if (w->p[i] < 0x80) {
            w->p += i + 1;
            *v = x;
            return true;
        }
    }
    return false;
}

bool kn_wire_part(struct kn_wire *w, struct kn_wire *part)
{
    uint32_t n;

    if (!kn_wire_length(w, &n))
        return false;
    const size_t left = kn_wire_left(w);
    part->p = w->p;
    part->end = n < left ? w->p + n : w->end;
    w->p = part->end;
    return true;
}

bool kn_wire_bytes(struct kn_wire *w, struct rt_span *s)
{
    uint32_t n;

    if (!kn_wire_length(w, &n) || n > kn_wire_left(w))
        return false;
    *s = rt_span_of(w->p, n);
    w->p += n;
    return true;
}

bool kn_wire_skip(struct kn_wire *w)
{
    uint64_t tag, v;
    uint32_t n;

    if (!kn_wire_varint(w, &tag))
        tag = 0; /* as in TensorFlow, a malformed tag is treated as a tag of 0 */
    switch (tag & 7) {
    case 0:
        return kn_wire_varint(w, &v);
    case 1:
    case 5:
        n = (tag & 7) == 1 ? 8 : 4;
        if (kn_wire_left(w) < n)
            return false;
        w->p += n;
        return true;
    case 2:
        if (!kn_wire_length(w, &n))
            return false;
        if (n > INT32_MAX) /* as in TensorFlow, a length above INT32_MAX skips no bytes */
            return true;
        w->p = n < kn_wire_left(w) ? w->p + n : w->end;
        return true;
    default:
        return false;
    }
}

static bool read_field(struct kn_wire *w, struct kn_field *f)
{
    uint64_t tag, n;

    if (!kn_wire_varint(w, &tag) || tag >> 3 == 0 || tag > UINT32_MAX)
        return false;
    *f = (struct kn_field){.number = (uint32_t)(tag >> 3), .type = (enum kn_wire_type)(tag & 7)};
    switch (f->type) {
    case KN_VARINT:
        return kn_wire_varint(w, &f->value);
    case KN_FIXED64:
    case KN_FIXED32:
        n = f->type == KN_FIXED64 ? 8 : 4;
        if (kn_wire_left(w) < n)
            return false;
        memcpy(&f->value, w->p, n); /* protobuf and the processor are both little-endian */
        w->p += n;
        return true;
    case KN_BYTES:
        if (!kn_wire_varint(w, &n) || n > kn_wire_left(w))
            return false;
        f->bytes = rt_span_of(w->p, n);
        w->p += n;
        return true;
    default:
        return false;
    }
}

int kn_field_next(struct rt_span *rest, struct kn_field *f)
{
    struct kn_wire w = kn_wire_of(*rest);

    if (!rest->n)
        return 0;
    if (!read_field(&w, f))
        return -1;
    *rest = rt_span_of(w.p, kn_wire_left(&w));
    return 1;
}

/* ---- Example ---- */

/* Reads a map entry. It must have exactly two fields: the key and the value in either order, or one
 * of them twice. */
static bool read_entry(struct kn_wire *w, struct rt_span *name, struct rt_span *feature)
{
    struct kn_wire e;
    uint64_t tag;

    if (!kn_wire_part(w, &e))
        return false;
    *name = *feature = rt_span_of(NULL, 0);
    for (int k = 0; k < 2; k++) {
        if (!kn_wire_varint(&e, &tag))
            return false;
        struct rt_span *into = (uint32_t)tag == TAG_BYTES_1   ? name
                               : (uint32_t)tag == TAG_BYTES_2 ? feature
                                                              : NULL;
        if (!into || !kn_wire_bytes(&e, into))
            return false;
    }
    return kn_wire_left(&e) == 0;
}

int kn_example_next(struct kn_example *x, struct rt_span *name, struct rt_span *feature)
{
    enum { FIELD_WORK = 8 };

    while (!kn_wire_left(&x->features)) {
        if (x->r && rt_run_spend(x->r, &x->r->left, FIELD_WORK))
            return -2;
        if (!kn_wire_left(&x->outer))
            return 0;
        if (!kn_wire_tag(&x->outer, TAG_BYTES_1)) {
            if (!kn_wire_skip(&x->outer))
                return -1;
        } else if (!kn_wire_part(&x->outer, &x->features)) {
            return -1;
        }
    }
    if (!kn_wire_tag(&x->features, TAG_BYTES_1) || !read_entry(&x->features, name, feature))
        return -1;
    if (x->r && rt_run_spend(x->r, &x->r->left, FIELD_WORK + (int64_t)name->n))
        return -2;
    return 1;
}

/* ---- Feature ---- */

enum rt_dtype kn_feature_type(struct rt_span *feature)
{
    if (!feature->n)
        return RT_NO_DTYPE;
    const uint8_t tag = *feature->p;
    *feature = rt_span_of(feature->p + 1, feature->n - 1);
    switch (tag) {
    case TAG_BYTES_1:
        return RT_STRING;
    case TAG_BYTES_2:
        return RT_F32;
    case TAG_BYTES_3:
        return RT_I64;
    default:
        return RT_N_DTYPES;
    }
}

bool kn_feature_floats(struct rt_span list, float *dst, int64_t capacity, int64_t *n)
{
    struct kn_wire outer = kn_wire_of(list), w;
    uint32_t packed;

    *n = 0;
    if (!kn_wire_part(&outer, &w))
        return false;
    if (!kn_wire_left(&w))
        return true;
    if (kn_wire_tag(&w, TAG_BYTES_1)) {
        if (!kn_wire_length(&w, &packed))
            return false;
        *n = packed / 4;
        const int64_t most = *n < capacity ? *n : capacity;
        if ((uint64_t)most * 4 > kn_wire_left(&w))
            return false;
        if (dst && most > 0)
            memcpy(dst, w.p, (size_t)most * 4);
        return true;
    }
    if (kn_wire_left(&w) % 5 != 0)
        return false;
    *n = (int64_t)(kn_wire_left(&w) / 5);
    for (int64_t i = 0; i < *n; i++, w.p += 5) {
        if (*w.p != TAG_FIXED32_1)
            return false;
        if (dst && i < capacity)
            memcpy(dst + i, w.p + 1, 4);
    }
    return true;
}

bool kn_feature_ints(struct rt_span list, int64_t *dst, int64_t capacity, int64_t *n)
{
    struct kn_wire outer = kn_wire_of(list), w, packed;
    int64_t i = 0;
    uint64_t v;

    *n = 0;
    if (!kn_wire_part(&outer, &w))
        return false;
    if (!kn_wire_left(&w))
        return true;
    const bool is_packed = *w.p == TAG_BYTES_1;
    if (is_packed) {
        w.p++;
        if (!kn_wire_part(&w, &packed))
            return false;
        w = packed;
    }
    for (; kn_wire_left(&w); i++) {
        if ((!is_packed && !kn_wire_tag(&w, TAG_VARINT_1)) || !kn_wire_varint(&w, &v))
            return false;
        if (dst && i < capacity)
            dst[i] = (int64_t)v;
    }
    *n = i;
    return true;
}

bool kn_feature_strs(struct rt_run *r, struct rt_span list, struct rt_str *dst, int64_t capacity,
                     int64_t *n)
{
    struct kn_wire outer = kn_wire_of(list), w;
    struct rt_span s;
    int64_t i = 0;

    *n = 0;
    if (!kn_wire_part(&outer, &w))
        return false;
    for (; kn_wire_left(&w); i++) {
        if (!kn_wire_tag(&w, TAG_BYTES_1) || !kn_wire_bytes(&w, &s) || i >= capacity)
            return false;
        if (dst && !rt_str_set(&dst[i], rt_run_pool(r), s.p, s.n, r->err)) {
            *n = -1;
            return false;
        }
    }
    *n = i;
    return true;
}

bool kn_feature_list(struct rt_run *r, enum rt_dtype dtype, struct rt_span list, void *dst,
                     int64_t capacity, int64_t *n)
{
    switch (dtype) {
    case RT_F32:
        return kn_feature_floats(list, dst, capacity, n);
    case RT_I64:
        return kn_feature_ints(list, dst, capacity, n);
    default:
        return kn_feature_strs(r, list, dst, capacity, n);
    }
}
