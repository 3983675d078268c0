/*
 * Reads and writes ModelSpec messages. In a request or a response, a ModelSpec names a model, a
 * version or label, and a signature.
 *
 * Source: tensorflow_serving/apis/model.proto.
 */
#ifndef SRV_MODEL_SPEC_H
#define SRV_MODEL_SPEC_H

#include "runtime/base/arena.h"
#include "server/base/serving_map.h"
#include "server/base/wire.h"

/* Merges a serialized ModelSpec into *out. Spans point into the message, or into the arena. */
enum rt_status srv_model_spec_read(struct srv_cursor message, struct srv_model_spec *out,
                                   struct rt_arena *arena, struct rt_error *err);

/* The ModelSpec of a response. It contains the name of the executed signature and the number of the
 * version, but never a label. */
struct srv_model_echo {
    const char *model, *signature;
    int64_t version;
};
/* These functions measure the ModelSpec as field `number` of a message, write the field to
 * memory, or append it to a buffer. */
size_t srv_model_echo_size(const struct srv_model_echo *echo, uint32_t number);
unsigned char *srv_model_echo_write(unsigned char *p, const struct srv_model_echo *echo,
                                    uint32_t number);
void srv_model_echo_put(struct rt_bytes *out, const struct srv_model_echo *echo, uint32_t number);

#endif
