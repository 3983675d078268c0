/*
 * The channel arguments of the gRPC server: first Slipway's own, among them limits against hostile
 * clients, then those of --grpc_channel_arguments. The core lets the last value of a key win, so
 * the flag overrides Slipway's values.
 *
 * Threads: pure.
 */
#ifndef SRV_GRPC_ARGUMENTS_H
#define SRV_GRPC_ARGUMENTS_H

#include <grpc/grpc.h>

#include "runtime/base/arena.h"
#include "server/config/options.h"

/* Parses "key=value,...". A value that is an integer becomes an integer argument, any other a
 * string. INVALID_ARGUMENT names an entry without "=" or without a key, and a list of more than
 * `capacity` entries. Keys and strings live in the arena. */
enum rt_status srv_grpc_parse_arguments(const char *text, struct rt_arena *arena, grpc_arg *args,
                                        size_t capacity, size_t *n, struct rt_error *err);
/* `quota` bounds the memory in which the core holds incomplete messages; NULL: no bound. */
enum rt_status srv_grpc_arguments(const struct srv_options *o, grpc_resource_quota *quota,
                                  struct rt_arena *arena, grpc_channel_args *out,
                                  struct rt_error *err);

#endif
