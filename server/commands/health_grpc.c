#include "server/commands/health_grpc.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <stdio.h>

struct answer {
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *message; /* response message, or NULL if none was received */
    grpc_status_code code;
    grpc_slice text;
};

/* Returns whether a HealthCheckResponse has the status SERVING (1). Field 1 is the status, whose
 * value takes one byte. */
static bool is_serving(grpc_byte_buffer *message)
{
    grpc_byte_buffer_reader reader;

    if (!message || !grpc_byte_buffer_reader_init(&reader, message))
        return false;
    grpc_slice s = grpc_byte_buffer_reader_readall(&reader);
    const uint8_t *p = GRPC_SLICE_START_PTR(s);
    const bool serving = GRPC_SLICE_LENGTH(s) == 2 && p[0] == 0x08 && p[1] == 1;
    grpc_slice_unref(s);
    grpc_byte_buffer_reader_destroy(&reader);
    return serving;
}

/* Sends an empty HealthCheckRequest, which queries the health of the whole server. */
static void exchange(grpc_call *call, grpc_completion_queue *cq, struct answer *a)
{
    grpc_slice nothing = grpc_empty_slice();
    grpc_byte_buffer *request = grpc_raw_byte_buffer_create(&nothing, 1);
    grpc_op op[6] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = request},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &a->initial},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &a->message},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &a->trailing,
                                        .status = &a->code,
                                        .status_details = &a->text}},
    };

    if (grpc_call_start_batch(call, op, sizeof op / sizeof op[0], call, NULL) == GRPC_CALL_OK)
        grpc_completion_queue_pluck(cq, call, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    grpc_byte_buffer_destroy(request);
}

static enum rt_status ask(grpc_channel *channel, struct rt_error *err)
{
    grpc_completion_queue *cq = grpc_completion_queue_create_for_pluck(NULL);
    grpc_call *call = grpc_channel_create_call(
        channel, NULL, GRPC_PROPAGATE_DEFAULTS, cq,
        grpc_slice_from_static_string("/grpc.health.v1.Health/Check"), NULL,
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(4, GPR_TIMESPAN)), NULL);
    struct answer a = {.code = GRPC_STATUS_INTERNAL, .text = grpc_empty_slice()};
    enum rt_status st = RT_OK;

    grpc_metadata_array_init(&a.initial);
    grpc_metadata_array_init(&a.trailing);
    exchange(call, cq, &a);
    if (a.code != GRPC_STATUS_OK)
        st = rt_fail(err, (enum rt_status)a.code, "%.*s", (int)GRPC_SLICE_LENGTH(a.text),
                     (const char *)GRPC_SLICE_START_PTR(a.text));
    else if (!is_serving(a.message))
        st = rt_fail(err, RT_UNAVAILABLE, "grpc.health.v1.Health says that it is not serving");
    if (a.message)
        grpc_byte_buffer_destroy(a.message);
    grpc_slice_unref(a.text);
    grpc_metadata_array_destroy(&a.initial);
    grpc_metadata_array_destroy(&a.trailing);
    grpc_call_unref(call);
    grpc_completion_queue_destroy(cq);
    return st;
}

enum rt_status srv_health_by_grpc(int64_t port, struct rt_error *err)
{
    char target[64];

    snprintf(target, sizeof target, "ipv4:127.0.0.1:%lld", (long long)port);
    grpc_init();
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(target, plain, NULL);
    const enum rt_status st = ask(channel, err);
    grpc_channel_destroy(channel);
    grpc_channel_credentials_release(plain);
    grpc_shutdown();
    return st;
}
