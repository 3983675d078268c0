/*
 * Reads tf.Example and tf.SequenceExample from their wire format without building message objects.
 * A reader iterates over the entries of the feature maps, and lists are decoded directly into a
 * tensor's memory.
 *
 * The reader accepts the same input as TensorFlow's own fast parser, with its peculiarities:
 *
 * - A length beyond the end of the enclosing message is truncated there.
 * - A map entry has exactly two fields.
 * - A list is either packed in one chunk or not packed at all.
 * - Unknown fields are skipped only in the outer message.
 *
 * The input may be any sequence of bytes. No byte outside it is read, and memory is allocated only
 * for strings.
 */
#ifndef KN_PARSING_WIRE_EXAMPLE_H
#define KN_PARSING_WIRE_EXAMPLE_H

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
/* Reads a varint and keeps only its low 32 bits, as TensorFlow does for lengths. */
static inline bool kn_wire_length(struct kn_wire *w, uint32_t *n)
{
    uint64_t v;
    bool ok = kn_wire_varint(w, &v);
    *n = ok ? (uint32_t)v : 0;
    return ok;
}
/* Consumes the next byte if it equals the one-byte tag `tag`. */
static inline bool kn_wire_tag(struct kn_wire *w, uint8_t tag)
{
    if (!kn_wire_left(w) || *w->p != tag)
        return false;
    w->p++;
    return true;
}
/* Reads a length n. Sets *part to the next n bytes of w, or to fewer if w ends earlier, and
 * advances w past them. */
bool kn_wire_part(struct kn_wire *w, struct kn_wire *part);
/* Reads a length n and exactly n bytes. Returns false if w has fewer bytes. */
bool kn_wire_bytes(struct kn_wire *w, struct rt_span *s);
/* Skips a field of the outer message. Returns false if the field is malformed or a group. */
bool kn_wire_skip(struct kn_wire *w);

/* ---- any message, with protobuf's own rules ---- */

enum kn_wire_type { KN_VARINT = 0, KN_FIXED64 = 1, KN_BYTES = 2, KN_FIXED32 = 5 };
struct kn_field {
    uint32_t number;
    enum kn_wire_type type;
    /* the value's raw bits if `type` is KN_VARINT, KN_FIXED64 or KN_FIXED32 */
    uint64_t value;
    struct rt_span bytes; /* bytes of a KN_BYTES field */
};
/* Returns 1, with the next field in *f and the bytes after it in *rest. Returns 0 at the end of the
 * message, or -1 for a malformed field or a group. */
int kn_field_next(struct rt_span *rest, struct kn_field *f);

/* ---- Example ---- */

struct kn_example {
    struct kn_wire outer, features; /* `features` is the feature map that is being read */
    struct rt_run *r;               /* run whose deadline is checked, or NULL */
};
static inline struct kn_example kn_example_of(struct rt_span s, struct rt_run *r)
{
    return (struct kn_example){.outer = kn_wire_of(s), .r = r};
}
/*
 * Returns 1 with the name and the Feature bytes of the next entry, 0 at the end of the example, or
 * -1 if the example is malformed. Returns -2, with the reason in r->err, if the run has been
 * cancelled or its deadline has passed. An example may contain several maps (concatenated
 * messages). Names may repeat; the last entry with a name takes precedence.
 */
int kn_example_next(struct kn_example *x, struct rt_span *name, struct rt_span *feature);

/* ---- Feature ---- */

/* Consumes the tag of a Feature's list and returns the type of the list, RT_NO_DTYPE if the Feature
 * is empty, or RT_N_DTYPES if the type is unknown. */
enum rt_dtype kn_feature_type(struct rt_span *feature);

/*
 * These functions read the list of a Feature, whose tag has been consumed, and set *n to its number
 * of elements. At most `capacity` elements are written to dst, and none if dst is NULL. Each
 * function returns false if the list is malformed or, for strings, has more than `capacity`
 * elements. If memory runs out, the function returns false, with *n set to -1 and the reason in
 * r->err. The memory pool of `r` counts the strings. `r` may be NULL if dst is NULL.
 */
bool kn_feature_floats(struct rt_span list, float *dst, int64_t capacity, int64_t *n);
bool kn_feature_ints(struct rt_span list, int64_t *dst, int64_t capacity, int64_t *n);
bool kn_feature_strs(struct rt_run *r, struct rt_span list, struct rt_str *dst, int64_t capacity,
                     int64_t *n);
/* Calls kn_feature_floats, kn_feature_ints or kn_feature_strs, depending on dtype. */
bool kn_feature_list(struct rt_run *r, enum rt_dtype dtype, struct rt_span list, void *dst,
                     int64_t capacity, int64_t *n);

#endif
