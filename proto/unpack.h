/*
 * Unpacks a protobuf of a stranger. protobuf-c follows nested messages by recursion without a
 * limit, so a small message could overflow the stack: here the depth is looked at first.
 */
#ifndef PB_UNPACK_H
#define PB_UNPACK_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

enum { PB_MAX_DEPTH = 100 }; /* as protobuf's own default */

/*
 * The message, to be freed by pb_free. NULL: err says why (INVALID_ARGUMENT; `what` names the
 * bytes: "saved_model.pb"). Strings end in NUL but may hold any other bytes.
 */
void *pb_unpack(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                struct rt_error *err);
void pb_free(void *message); /* NULL is fine */

#endif
