#include "server/grpc/grpc_arguments.h"

#include <string.h>

#include "server/base/number.h"

enum {
    MAX_ARGS = 100,
    /* Maximum number of concurrent calls on one connection. The client must delay further calls.
     * When a connection ends, a core thread ends its calls one after another. Each call takes 30
     * microseconds, and the thread handles no other events meanwhile. */
    MAX_STREAMS = 1024,
    /* Maximum time for a connection's TLS handshake and HTTP/2 settings. After this time, the
     * connection is closed. */
    HANDSHAKE_MS = 10000,
    /* Keepalive pings detect and close connections whose clients vanished without closing them. */
    KEEPALIVE_MS = 60000,
    KEEPALIVE_TIMEOUT_MS = 20000,
    /* Minimum interval between the pings of a client, even if the client has no calls. With the
     * core's default of five minutes, many legitimate clients would be disconnected with
     * "too_many_pings". */
    PING_INTERVAL_MS = 5000,
    PING_STRIKES = 2, /* number of premature pings after which the client is disconnected */
};

static grpc_arg integer(const char *key, int value)
{
    return (grpc_arg){
        .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

enum rt_status srv_grpc_parse_arguments(const char *text, struct rt_arena *arena, grpc_arg *args,
                                        size_t capacity, size_t *n, struct rt_error *err)
{
    *n = 0;
    char *at = rt_arena_strdup(arena, text);
    if (!at)
        return rt_fail_memory(err, "--grpc_channel_arguments", strlen(text));
    for (char *comma; at && *at; at = comma ? comma + 1 : NULL) {
        comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        char *equals = strchr(at, '=');
        int64_t number;
        if (!equals || equals == at)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "--grpc_channel_arguments: \"%s\" is not of the form key=value", at);
        if (*n == capacity)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "--grpc_channel_arguments: more than %zu of them", capacity);
        *equals = '\0';
        grpc_arg *a = &args[(*n)++];
        *a = (grpc_arg){.type = GRPC_ARG_STRING, .key = at, .value.string = equals + 1};
        if (srv_parse_int64(equals + 1, strlen(equals + 1), &number) && number <= INT32_MAX &&
            number >= INT32_MIN)
            *a = integer(at, (int)number);
    }
    return RT_OK;
}

enum rt_status srv_grpc_arguments(const struct srv_options *o, grpc_resource_quota *quota,
                                  struct rt_arena *arena, grpc_channel_args *out,
                                  struct rt_error *err)
{
    int64_t limit = o->max_body_bytes < INT32_MAX ? o->max_body_bytes : INT32_MAX;
    const grpc_arg ours[] = {
        /* With SO_REUSEPORT, a second server could listen on the same port and receive half of the
         * connections. */
        integer(GRPC_ARG_ALLOW_REUSEPORT, 0),
        integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)limit),
        integer(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        /* The server inflates messages itself. The core would inflate a complete message before
         * checking its size. */
        integer(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        /* The server enforces deadlines itself. The core's timer would cancel a call at its
         * deadline, even while its response is being sent, and the call would end with the status
         * CANCELLED. */
        integer(GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0),
        integer(GRPC_ARG_MAX_CONCURRENT_STREAMS, MAX_STREAMS),
        integer(GRPC_ARG_MAX_METADATA_SIZE,
                (int)(o->max_header_bytes < INT32_MAX ? o->max_header_bytes : INT32_MAX)),
        integer(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS),
        integer(GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS),
        integer(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS),
        integer(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        integer(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        integer(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, PING_INTERVAL_MS),
        integer(GRPC_ARG_HTTP2_MAX_PING_STRIKES, PING_STRIKES),
    };
    enum { N_OURS = sizeof ours / sizeof ours[0] };
    grpc_arg *args = rt_arena_array(arena, MAX_ARGS + N_OURS + 1, sizeof *args);
    size_t n = 0;

    if (!args)
        return rt_fail_memory(err, "the arguments of gRPC", 0);
    memcpy(args, ours, sizeof ours);
    enum rt_status st = srv_grpc_parse_arguments(o->grpc_channel_arguments, arena, args + N_OURS,
                                                 MAX_ARGS, &n, err);
    n += N_OURS;
    if (quota)
        args[n++] = (grpc_arg){.type = GRPC_ARG_POINTER,
                               .key = (char *)(uintptr_t)GRPC_ARG_RESOURCE_QUOTA,
                               .value.pointer = {quota, grpc_resource_quota_arg_vtable()}};
    *out = (grpc_channel_args){.num_args = n, .args = args};
    return st;
}
