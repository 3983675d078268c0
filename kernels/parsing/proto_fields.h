/*
 * The fields that a node of DecodeProtoV2 or EncodeProto names, in the state that `prepare` makes.
 *
 * Owner: the prepared kernel. Threads: read-only after `prepare`.
 */
#ifndef KN_PARSING_PROTO_FIELDS_H
#define KN_PARSING_PROTO_FIELDS_H

#include "kernels/parsing/message_type.h"
#include "runtime/core/op.h"

struct kn_proto_fields {
    int n;
    const struct rt_span *name;
    struct kn_message_field *field;
    /* The fields in the order of their numbers. Fields that are named twice are in the order of the
     * attribute. */
    struct kn_numbered {
        uint32_t number;
        int index;
    } * by_number;
};

/* Reads the attributes descriptor_source, message_type and field_names. */
enum rt_status kn_proto_fields(struct rt_prep *p, struct kn_proto_fields **out);
/* Returns the index of the first named field with this number, or -1. */
int kn_proto_field(const struct kn_proto_fields *f, uint32_t number);

#endif
