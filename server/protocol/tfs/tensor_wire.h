/*
 * TensorProto on the wire: a tensor's bytes are copied once, straight to their place, and no more
 * memory is taken than the message's own bytes or the caller's budget justify.
 *
 * Source: tensorflow/core/framework/tensor.proto.
 * Threads: pure.
 */
#ifndef SRV_TENSOR_WIRE_H
#define SRV_TENSOR_WIRE_H

#include "runtime/core/tensor.h"
#include "server/base/cancellation.h"
#include "server/protocol/tfs/wire.h"

/*
 * A tensor from a TensorProto. *budget: the most bytes it may take, which is lessened by what it
 * takes; RESOURCE_EXHAUSTED: not enough is left, and nothing was expanded. The text says what is
 * wrong with the message.
 *
 * One value may stand for all of a shape, so that 41 bytes of a message are 256 MiB of a tensor.
 * A type other than `wanted`, which the call refuses in any case, is therefore not expanded: *out
 * has that type and no elements. RT_NO_DTYPE: any type is wanted.
 */
enum rt_status srv_tensor_read(struct srv_cursor message, enum rt_dtype expected,
                               struct rt_tensor *out, size_t *budget, struct rt_error *err);

bool srv_tensor_has_wire(enum rt_dtype dtype); /* false: it has no form on the wire */

/*
 * The sizes of a tensor's message and of its parts; as_content: in tensor_content instead of the
 * typed field. A message of more than INT32_MAX bytes, which protobuf has none of, is not measured
 * to its end: it must not be emitted. Nor must one that was not wanted any more by then.
 */
struct srv_tensor_layout {
    size_t shape, values, tensor;
};
struct srv_tensor_layout srv_tensor_lay_out(const struct rt_tensor *t, bool as_content,
                                            struct srv_cancellation *cancellation);
/* The place behind it. What is not wanted any more is not written to its end. */
unsigned char *srv_tensor_emit(unsigned char *p, const struct rt_tensor *t, bool as_content,
                               const struct srv_tensor_layout *l,
                               struct srv_cancellation *cancellation);

/* Appends a TensorProto with its values in the typed field. `l`: its layout. */
void srv_tensor_write(struct rt_bytes *out, const struct rt_tensor *t,
                      const struct srv_tensor_layout *l, struct srv_cancellation *cancellation);

#endif
