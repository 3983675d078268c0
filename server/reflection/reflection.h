/*
 * gRPC server reflection: decodes a ServerReflectionRequest and writes a ServerReflectionResponse.
 * The versions v1 and v1alpha have the same wire format. This module does not use gRPC's core.
 *
 * Threads: the functions are pure, so any thread may call them.
 */
#ifndef SRV_REFLECTION_H
#define SRV_REFLECTION_H

#include "runtime/base/arena.h"
#include "server/base/wire.h"

enum { SRV_REFLECTION_MAX_REQUEST = 16 << 10 };

/*
 * Writes the response to a request. `set` is a serialized google.protobuf.FileDescriptorSet. A
 * request for an unknown name succeeds, with an error in its response. Fails with INVALID_ARGUMENT
 * if the request is malformed or too large.
 */
enum rt_status srv_reflection_respond(struct rt_span set, const struct rt_span *services,
                                      int n_services, struct srv_cursor request,
                                      struct rt_bytes *out, struct rt_arena *arena,
                                      struct rt_error *err);

/* Returns the file called `name` in `set`, or a span with p = NULL if `set` has no such file. */
struct rt_span srv_reflection_file(struct rt_span set, struct rt_span name);
/* Returns the file in `set` that declares `symbol`, or a span with p = NULL if no file does. */
struct rt_span srv_reflection_symbol(struct rt_span set, struct rt_span symbol);

#endif
