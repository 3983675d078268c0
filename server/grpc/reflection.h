/*
 * gRPC's server reflection: one ServerReflectionRequest answered by one ServerReflectionResponse,
 * of v1 or v1alpha, which are the same on the wire. Nothing here knows gRPC's core.
 *
 * Threads: pure.
 */
#ifndef SRV_REFLECTION_H
#define SRV_REFLECTION_H

#include "runtime/base/arena.h"
#include "server/protocol/tfs/wire.h"

enum { SRV_REFLECTION_MAX_REQUEST = 64 << 10 };

/*
 * `set`: a serialized google.protobuf.FileDescriptorSet. What is asked for and not known is part of
 * the answer; INVALID_ARGUMENT: the request is no message, or too large.
 */
enum rt_status srv_reflection_respond(struct rt_span set, const struct rt_span *services,
                                      int n_services, struct srv_cursor request,
                                      struct rt_bytes *out, struct rt_arena *arena,
                                      struct rt_error *err);

/* The file of that name, or that declares the symbol, in the set. p NULL: none. */
struct rt_span srv_reflection_file(struct rt_span set, struct rt_span name);
struct rt_span srv_reflection_symbol(struct rt_span set, struct rt_span symbol);

#endif
