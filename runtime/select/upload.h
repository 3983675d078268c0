/*
 * Constants in the memory of a session's accelerator. A constant is uploaded once per session; all
 * plans share the upload.
 *
 * Owner: the session. Threads: any.
 */
#ifndef RT_UPLOAD_H
#define RT_UPLOAD_H

#include "runtime/core/tensor.h"

struct rt_device;
struct rt_device_memory;
struct rt_session;

/* Sets *out to the address of the constant's bytes in the accelerator's memory, valid until
 * rt_uploads_clear. The constant must have a buffer, to which the session keeps a reference. A lazy
 * constant is streamed and not loaded. */
enum rt_status rt_upload_find(struct rt_session *s, const struct rt_tensor *t, void **out,
                              struct rt_error *err);
/* Streams the bytes of a lazy constant to `to`. The constant must have a `stream` function. `to` is
 * in the memory of `device`, or on the host if `device` is NULL. The constant is not loaded. */
enum rt_status rt_stream_constant(const struct rt_session *s, struct rt_device *device,
                                  const struct rt_tensor *t, void *to, struct rt_error *err);
/* Copies a constant of a plain type to memory that the caller frees (RT_DEVICE_WEIGHTS). */
enum rt_status rt_upload_new(struct rt_session *s, const struct rt_tensor *t,
                             struct rt_device_memory *out, struct rt_error *err);
/* Frees the uploads of a session and trims the accelerator's memory. Called when the session ends.
 */
void rt_uploads_clear(struct rt_session *s);

#endif
