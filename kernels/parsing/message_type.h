/*
 * Fields of message types that a serialized google.protobuf.FileDescriptorSet describes, for
 * DecodeProtoV2 and EncodeProto.
 *
 * The set may be any sequence of bytes. Threads: the functions are pure.
 */
#ifndef KN_PARSING_MESSAGE_TYPE_H
#define KN_PARSING_MESSAGE_TYPE_H

#include "runtime/base/span.h"
#include "runtime/core/types.h"

/* The values of google.protobuf.FieldDescriptorProto.Type. */
enum kn_field_type {
    KN_F_DOUBLE = 1,
    KN_F_FLOAT,
    KN_F_INT64,
    KN_F_UINT64,
    KN_F_INT32,
    KN_F_FIXED64,
    KN_F_FIXED32,
    KN_F_BOOL,
    KN_F_STRING,
    KN_F_GROUP,
    KN_F_MESSAGE,
    KN_F_BYTES,
    KN_F_UINT32,
    KN_F_ENUM,
    KN_F_SFIXED32,
    KN_F_SFIXED64,
    KN_F_SINT32,
    KN_F_SINT64,
};

struct kn_message_field {
    uint32_t number;
    enum kn_field_type type;
    bool is_repeated, is_packed;
    /* The default of a number, as bits in the form that kn_field_put takes. In a repeated field of
     * an enum type, it is the first value of the enum. */
    uint64_t number_default;
    /* The default of a string. In the default of a field of type KN_F_BYTES, bytes are escaped as
     * in C. */
    struct rt_span text_default;
};

/* A message type. The spans point into the set. */
struct kn_message {
    struct rt_span set;  /* the set that describes the type */
    struct rt_span body; /* the DescriptorProto of the type */
    bool is_proto3;
    bool is_packed; /* whether repeated numbers are packed unless a field's options say otherwise */
};
/* Finds a message type by its full name. Returns false if the set does not describe it. */
bool kn_message_find(struct rt_span set, struct rt_span name, struct kn_message *out);
/* Finds a field by its name. Returns false if the type has no valid field with this name. */
bool kn_message_field(const struct kn_message *m, struct rt_span name,
                      struct kn_message_field *out);
/* Returns the number of bytes that kn_message_field has read to find the field *f. The bytes of the
 * set are among them if they hold the default of an enum. */
size_t kn_message_field_cost(const struct kn_message *m, const struct kn_message_field *f);
/* Undoes C escapes. `to` has as many bytes as `text`. Returns the number of bytes written. */
size_t kn_unescape(struct rt_span text, char *to);

/* Returns the wire type of an element, as in the low 3 bits of its tag. */
int kn_field_wire_type(enum kn_field_type type);
/* Returns the number of bytes of an element on the wire, or 0 if elements differ in size. */
size_t kn_field_bytes(enum kn_field_type type);
/* Returns whether tensors of this type may hold the elements of a field. */
bool kn_field_accepts(enum kn_field_type type, enum rt_dtype dtype);
const char *kn_field_type_name(enum kn_field_type type);
/* Returns the name of the type without its form on the wire: "int32" for KN_F_SINT32. */
const char *kn_field_number_name(enum kn_field_type type);
/* Converts a number from its bits on the wire to a tensor's element at `to`. The bits of a type
 * with a fixed size are the low bytes of `bits`. */
void kn_field_put(enum kn_field_type type, uint64_t bits, enum rt_dtype dtype, void *to);
/* Converts a tensor's element to its bits on the wire. */
uint64_t kn_field_take(enum kn_field_type type, enum rt_dtype dtype, const void *from);

#endif
