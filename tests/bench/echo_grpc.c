/*
 * A minimal echo server on gRPC C core, as a reference for the speed of Slipway's gRPC server. One
 * thread serves one completion queue, Predict is a registered method, and every message is sent
 * back unchanged. `echo_grpc PORT` runs until its standard input ends.
 */
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { POSTED = 16 };

struct call {
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_byte_buffer *payload;
    int cancelled, is_begun;
};

static grpc_server *server;
static grpc_completion_queue *queue;
static void *method;

static void post(struct call *c)
{
    c->is_begun = 0;
    c->payload = NULL;
    grpc_metadata_array_init(&c->metadata);
    grpc_server_request_registered_call(server, method, &c->call, &c->deadline, &c->metadata,
                                        &c->payload, queue, queue, c);
}

static void answer(struct call *c)
{
    grpc_op ops[4] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = c->payload},
        {.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
        {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &c->cancelled}};
    c->is_begun = 1;
    if (!c->payload)
        ops[1] = ops[3];
    grpc_call_start_batch(c->call, ops, c->payload ? 4 : 3, c, NULL);
}

static void end(struct call *c)
{
    if (c->payload)
        grpc_byte_buffer_destroy(c->payload);
    grpc_metadata_array_destroy(&c->metadata);
    grpc_call_unref(c->call);
}

static void *wait_for_end(void *arg)
{
    char c;
    while (read(0, &c, 1) > 0)
        ;
    exit(0);
    return arg;
}

int main(int argc, char **argv)
{
    char address[64];
    pthread_t thread;
    grpc_server_credentials *plain = NULL;

    if (argc != 2) {
        fprintf(stderr, "usage: echo_grpc PORT\n");
        return 2;
    }
    snprintf(address, sizeof address, "127.0.0.1:%s", argv[1]);
    grpc_init();
    server = grpc_server_create(NULL, NULL);
    queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server, queue, NULL);
    method = grpc_server_register_method(server, "/tensorflow.serving.PredictionService/Predict",
                                         NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    plain = grpc_insecure_server_credentials_create();
    if (!grpc_server_add_http2_port(server, address, plain)) {
        fprintf(stderr, "cannot listen on %s\n", address);
        return 1;
    }
    grpc_server_start(server);
    if (pthread_create(&thread, NULL, wait_for_end, NULL))
        return 1;
    for (int i = 0; i < POSTED; i++)
        post(calloc(1, sizeof(struct call)));
    for (;;) {
        grpc_event e = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        struct call *c = e.tag;
        if (e.type != GRPC_OP_COMPLETE)
            return 0;
        if (!c->is_begun && e.success) {
            answer(c);
            continue;
        }
        if (c->is_begun)
            end(c);
        post(c);
    }
}
