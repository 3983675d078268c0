/*
 * The channel arguments of the gRPC server: first Slipway's own, which include limits against
 * hostile clients, and then those of --grpc_channel_arguments. If a key occurs twice, the core uses
 * the last value, so the flag overrides Slipway's values.
 *
 * Threads: the functions are pure.
 */
#ifndef SRV_GRPC_ARGUMENTS_H
#define SRV_GRPC_ARGUMENTS_H

#include <grpc/grpc.h>

#include "runtime/base/arena.h"
#include "server/config/options.h"

/* Parses "key=value,...". An integer value becomes an integer argument, and any other value a
 * string. Fails with INVALID_ARGUMENT if an entry has no "=" or no key, or if the list has more
 * than `capacity` entries. Keys and strings are allocated in the arena. */
enum rt_status srv_grpc_parse_arguments(const char *text, struct rt_arena *arena, grpc_arg *args,
                                        size_t capacity, size_t *n, struct rt_error *err);
/* Builds the channel arguments. `quota` limits the core's memory for incomplete messages. NULL
 * means no limit. */
enum rt_status srv_grpc_arguments(const struct srv_options *o, grpc_resource_quota *quota,
                                  struct rt_arena *arena, grpc_channel_args *out,
                                  struct rt_error *err);

#endif
