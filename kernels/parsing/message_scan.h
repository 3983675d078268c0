/*
 * Walks through the fields of a serialised message whose type is known from descriptors.
 *
 * The message may be any sequence of bytes. Threads: all data belongs to a single run.
 */
#ifndef KN_PARSING_MESSAGE_SCAN_H
#define KN_PARSING_MESSAGE_SCAN_H

#include "kernels/parsing/proto_fields.h"
#include "runtime/base/bytes.h"

/* Elements of one field that are adjacent in the message: one element, or all of a packed field. */
struct kn_elements {
    int64_t n;
    struct rt_span bytes; /* the elements without tags and length */
    bool is_packed;
};

/* What is called with the elements of each field that the node names. `index` is the field's. */
struct kn_scan {
    enum rt_status (*visit)(void *arg, int index, const struct kn_elements *e);
    void *arg;
};
enum rt_status kn_scan_message(struct rt_run *r, const struct kn_proto_fields *f,
                               struct rt_span message, const struct kn_scan *scan);
/* Reads the bits of the next number and removes it from *e. Returns false at the end. */
bool kn_elements_next(enum kn_field_type type, struct kn_elements *e, uint64_t *bits);
/* Appends a group with its tags. `content` is what kn_elements holds of it. As in TensorFlow, all
 * tags, lengths and numbers in the group are written as varints of the smallest size. At most
 * content.n + KN_GROUP_TAGS bytes are appended. */
enum { KN_GROUP_TAGS = 10 };
enum rt_status kn_add_group(struct rt_run *r, uint32_t number, struct rt_span content,
                            struct rt_bytes *b);

#endif
