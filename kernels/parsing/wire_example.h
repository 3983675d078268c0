/*
 * tf.Example and tf.SequenceExample read from their wire form, without objects: a reader walks the
 * entries of the feature maps, and lists are decoded straight into a tensor's memory.
 *
 * What is accepted is what TensorFlow's own fast reader accepts, oddities included: a length that
 * points past its surroundings is cut to them; a map entry has exactly two fields; lists are packed
 * in one chunk, or not at all, never both. Unknown fields are skipped in the outer message alone.
 *
 * Input is any bytes; nothing is read outside them, nothing is allocated but strings.
 */
#ifndef KN_CPU_WIRE_EXAMPLE_H
#define KN_CPU_WIRE_EXAMPLE_H

#include "runtime/core/op.h"

struct kn_wire {
    const uint8_t *p, *end;
};

static inline struct kn_wire kn_wire_of(struct rt_span s)
{
    return (struct kn_wire){s.p, s.n ? s.p + s.n : s.p};
}
static inline size_t kn_wire_left(const struct kn_wire *w)
{
    return w->p ? (size_t)(w->end - w->p) : 0;
}
bool kn_wire_long_varint(struct kn_wire *w, uint64_t *v);
static inline bool kn_wire_varint(struct kn_wire *w, uint64_t *v)
{
    if (kn_wire_left(w) && *w->p < 0x80) {
        *v = *w->p++;
        return true;
    }
    return kn_wire_long_varint(w, v);
}
/* The low half of a varint, which is how TensorFlow reads lengths. */
static inline bool kn_wire_length(struct kn_wire *w, uint32_t *n)
{
    uint64_t v;
    bool ok = kn_wire_varint(w, &v);
    *n = ok ? (uint32_t)v : 0;
    return ok;
}
/* A tag of one byte, when it is the next. */
static inline bool kn_wire_tag(struct kn_wire *w, uint8_t tag)
{
    if (!kn_wire_left(w) || *w->p != tag)
        return false;
    w->p++;
    return true;
}
/* A length, then as much of it as there is; w goes behind that. */
bool kn_wire_part(struct kn_wire *w, struct kn_wire *part);
/* A length and exactly that many bytes. */
bool kn_wire_bytes(struct kn_wire *w, struct rt_span *s);
/* Any field of the outer message. False: malformed, or a group. */
bool kn_wire_skip(struct kn_wire *w);

/* ---- any message, as protobuf itself reads it ---- */

enum kn_wire_type { KN_VARINT = 0, KN_FIXED64 = 1, KN_BYTES = 2, KN_FIXED32 = 5 };
struct kn_field {
    uint32_t number;
    enum kn_wire_type type;
    uint64_t value;       /* KN_VARINT, KN_FIXED*: the raw bits */
    struct rt_span bytes; /* KN_BYTES */
};
/* 1: *f is the next field and *rest lies behind it. 0: the end. -1: malformed, or a group. */
int kn_field_next(struct rt_span *rest, struct kn_field *f);

/* ---- Example ---- */

struct kn_example {
    struct kn_wire outer, features; /* features: the map that is being walked */
};
static inline struct kn_example kn_example_of(struct rt_span s)
{
    return (struct kn_example){.outer = kn_wire_of(s)};
}
/* 1: the next entry's name and the bytes of its Feature. 0: the end. -1: malformed. An example may
 * hold several maps (concatenated messages); names may repeat: the last one counts. */
int kn_example_next(struct kn_example *x, struct rt_span *name, struct rt_span *feature);

/* ---- Feature ---- */

/* The type of a Feature's list; takes its tag off. RT_NO_DTYPE: nothing is set. RT_N_DTYPES: an
 * unknown kind. */
enum rt_dtype kn_feature_type(struct rt_span *feature);

/*
 * The list of a Feature behind its tag: at most `room` elements go to dst; *n says how many there
 * are (also without a dst, to count them). False: malformed, or (strings only) more than room, or
 * no memory, in which case *n is -1 and r->err says why. `r` counts the strings; NULL without dst.
 */
bool kn_feature_floats(struct rt_span list, float *dst, int64_t capacity, int64_t *n);
bool kn_feature_ints(struct rt_span list, int64_t *dst, int64_t capacity, int64_t *n);
bool kn_feature_strs(struct rt_run *r, struct rt_span list, struct rt_str *dst, int64_t capacity,
                     int64_t *n);
/* One of the three, for RT_F32, RT_I64 or RT_STRING. */
bool kn_feature_list(struct rt_run *r, enum rt_dtype dtype, struct rt_span list, void *dst,
                     int64_t capacity, int64_t *n);

#endif
