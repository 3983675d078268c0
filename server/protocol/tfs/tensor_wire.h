/*
 * Reads and writes TensorProto messages. Reading copies a tensor's bytes once, directly to their
 * destination. The size of the message and the caller's allowance bound the memory that reading
 * allocates.
 *
 * Source: tensorflow/core/framework/tensor.proto.
 * Threads: the functions are pure, so any thread may call them.
 */
#ifndef SRV_TENSOR_WIRE_H
#define SRV_TENSOR_WIRE_H

#include "runtime/core/tensor.h"
#include "server/base/budget.h"
#include "server/base/wire.h"

/*
 * Reads a tensor from a TensorProto. Takes the bytes that the tensor occupies from `allowance`
 * before memory is allocated. If the allowance is too small, fails with RESOURCE_EXHAUSTED, or with
 * the status with which the budget refuses the charge.
 *
 * One value may stand for all elements of a tensor, so a message of 41 bytes may encode a tensor of
 * 256 MiB. If the tensor's type is not `expected`, *out receives the type and no elements, because
 * the caller refuses the tensor. If `expected` is RT_NO_DTYPE, any type is accepted.
 */
enum rt_status srv_tensor_read(struct srv_cursor message, enum rt_dtype expected,
                               struct rt_tensor *out, struct srv_allowance *allowance,
                               struct rt_error *err);

/* Returns whether a TensorProto can represent tensors of the type. */
bool srv_tensor_has_wire(enum rt_dtype dtype);

/*
 * Computes the sizes in bytes of a TensorProto (`tensor`), of its shape and of its values. If
 * `as_content` is set, the values are in tensor_content instead of the typed field. Measuring stops
 * when the size exceeds INT32_MAX bytes, the maximum size of a protobuf message, or when
 * `cancellation` reports that the response is cancelled. In both cases, the caller must not write
 * the message.
 */
struct srv_tensor_layout {
    size_t shape, values, tensor;
};
struct srv_tensor_layout srv_tensor_lay_out(const struct rt_tensor *t, bool as_content,
                                            struct srv_cancellation *cancellation);
/* Writes the message and returns the address of the byte after it. Writing stops when
 * `cancellation` reports that the response is cancelled. */
unsigned char *srv_tensor_emit(unsigned char *p, const struct rt_tensor *t, bool as_content,
                               const struct srv_tensor_layout *l,
                               struct srv_cancellation *cancellation);

/* Appends a TensorProto with its values in the typed field. `l` is the result of srv_tensor_lay_out
 * for as_content = false. */
void srv_tensor_write(struct rt_bytes *out, const struct rt_tensor *t,
                      const struct srv_tensor_layout *l, struct srv_cancellation *cancellation);

#endif
