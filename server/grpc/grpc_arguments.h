/*
 * The arguments of the gRPC server's channels: ours, with limits against clients that mean no good,
 * then those of --grpc_channel_arguments, which come last and so win.
 *
 * Threads: pure.
 */
#ifndef SRV_GRPC_ARGUMENTS_H
#define SRV_GRPC_ARGUMENTS_H

#include <grpc/grpc.h>

#include "runtime/base/arena.h"
#include "server/config/options.h"

/* "key=value,...": an integer where the value is one, else a string. Refused by name: an entry
 * without "=" or key, or more than there is room for. Everything lives in the arena. */
enum rt_status srv_grpc_parse_arguments(const char *text, struct rt_arena *arena, grpc_arg *args,
                                        size_t capacity, size_t *n, struct rt_error *err);
/* `quota`: what the core may hold of messages that are not whole yet; NULL: no bound. */
enum rt_status srv_grpc_arguments(const struct srv_options *o, grpc_resource_quota *quota,
                                  struct rt_arena *arena, grpc_channel_args *out,
                                  struct rt_error *err);

#endif
