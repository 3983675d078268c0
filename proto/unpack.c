#include "proto/unpack.h"

#include "proto/wire.h"

enum verdict { FINE, TOO_DEEP, BROKEN };

static enum verdict look(const ProtobufCMessageDescriptor *d, struct rt_span rest, int depth)
{
    const ProtobufCFieldDescriptor *known = NULL;
    struct pb_field f;
    int more;

    if (depth > PB_MAX_DEPTH)
        return TOO_DEEP;
    while ((more = pb_field_next(&rest, &f)) > 0) {
        if (!known || known->id != f.number)
            known = protobuf_c_message_descriptor_get_field(d, f.number);
        if (known && known->type == PROTOBUF_C_TYPE_MESSAGE && f.type == PB_BYTES) {
            enum verdict v = look(known->descriptor, f.bytes, depth + 1);
            if (v != FINE)
                return v;
        }
    }
    return more < 0 ? BROKEN : FINE;
}

void *pb_unpack(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                struct rt_error *err)
{
    void *m = NULL;

    switch (look(d, bytes, 1)) {
    case TOO_DEEP:
        rt_fail(err, RT_INVALID_ARGUMENT, "%s: messages nested deeper than %d", what, PB_MAX_DEPTH);
        return NULL;
    case FINE:
        m = protobuf_c_message_unpack(d, NULL, bytes.n, bytes.p);
        break;
    case BROKEN:
        break;
    }
    if (!m)
        rt_fail(err, RT_INVALID_ARGUMENT, "%s: not a %s", what, d->name);
    return m;
}

void pb_free(void *message)
{
    protobuf_c_message_free_unpacked(message, NULL);
}
