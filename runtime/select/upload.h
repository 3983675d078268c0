/*
 * Constants in the memory of a session's accelerators. A constant is uploaded once per session and
 * accelerator, and all plans share the upload. An upload is freed with the last region that uses
 * it, so a region that is given up, for example for lack of memory, leaves nothing behind.
 *
 * Owner: the regions, by reference counting. Threads: any.
 */
#ifndef RT_UPLOAD_H
#define RT_UPLOAD_H

#include "runtime/core/tensor.h"

struct rt_device;
struct rt_device_memory;
struct rt_session;

struct rt_upload;
/* Sets *out to a new reference to the upload of the constant to accelerator `d`, which is made if
 * there is none. The constant must have a buffer, to which the upload keeps a reference. A lazy
 * constant is streamed and not loaded. */
enum rt_status rt_upload_ref(struct rt_session *s, struct rt_device *d, const struct rt_tensor *t,
                             struct rt_upload **out, struct rt_error *err);
void rt_upload_unref(struct rt_session *s, struct rt_upload *u);
void *rt_upload_address(const struct rt_upload *u);
/* Streams the bytes of a lazy constant to `to`. The constant must have a `stream` function. `to` is
 * in the memory of `device`, or on the host if `device` is NULL. The constant is not loaded. */
enum rt_status rt_stream_constant(const struct rt_session *s, struct rt_device *device,
                                  const struct rt_tensor *t, void *to, struct rt_error *err);
/* Copies a constant of a plain type to memory that the caller frees with rt_constant_free. */
enum rt_status rt_upload_new(struct rt_session *s, struct rt_device *d, const struct rt_tensor *t,
                             struct rt_device_memory *out, struct rt_error *err);
/* Allocates memory of accelerator `d` for a constant of the session, and frees it. Fails with
 * RT_RESOURCE_EXHAUSTED if options.accelerators.limit would be exceeded. */
enum rt_status rt_constant_alloc(struct rt_session *s, struct rt_device *d, size_t bytes,
                                 const char *what, struct rt_device_memory *out,
                                 struct rt_error *err);
void rt_constant_free(struct rt_session *s, struct rt_device *d, struct rt_device_memory *m);
/* Admits regions whose activations take `bytes` bytes of accelerator `d`, as often as the session
 * may run there at a time. Fails with RT_RESOURCE_EXHAUSTED if these bytes and the constants would
 * exceed options.accelerators.limit. The session's largest admitted bytes count until it ends,
 * because the accelerator's streams keep their blocks. */
enum rt_status rt_activations_admit(struct rt_session *s, struct rt_device *d, size_t bytes,
                                    struct rt_error *err);
/* Frees the map of the uploads, to which no references are left, trims the accelerators' memory,
 * and ends the session's claims to it. Called when the session ends. */
void rt_uploads_clear(struct rt_session *s);

#endif
