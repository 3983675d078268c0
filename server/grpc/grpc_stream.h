/*
 * Streams: gRPC calls with several messages in each direction.
 *
 * Threads: as in grpc_call.h.
 */
#ifndef SRV_GRPC_STREAM_H
#define SRV_GRPC_STREAM_H

#include "server/grpc/grpc_call.h"

/* Makes the call a stream. Streams do not delay the drain. If the stream is refused, sends the
 * error and returns false. */
bool srv_stream_begin(struct srv_call *c, void (*sent)(struct srv_call *c),
                      void (*closed)(struct srv_call *c));
/* Sends one message on the stream and takes ownership of its bytes. If memory ran out while the
 * message was built, ends the stream with an error instead. Must not be called if is_sending is
 * set. */
void srv_stream_send(struct srv_call *c, struct rt_bytes *message);
/* Sends one message as srv_stream_send does. The message consists of a copy of `head`, followed by
 * the bytes of `message`. */
void srv_stream_send_parts(struct srv_call *c, struct rt_span head, struct rt_bytes *message);
bool srv_call_is_ending(const struct srv_call *c); /* returns whether streams should end */
/* Resets the arena, reads the next message of the stream, and passes the message to `handle`. If
 * the message is not complete within --request_read_timeout_ms, the stream ends with an error. */
void srv_stream_read(struct srv_call *c);
/* Makes the I/O loop call `look` at intervals while the stream is open, so that the server can send
 * messages that answer no request. If `ending` is set, the server is stopping and the stream should
 * end. The list of watched streams uses c->next. */
void srv_stream_watch(struct srv_call *c, void (*look)(struct srv_call *c, bool ending));
/* Submits c->job like srv_call_submit, except that the caller must also set received_ns. `done`
 * must call srv_stream_post instead of responding. Afterwards, `next` runs on the I/O loop thread.
 * `next` must call srv_stream_clear_job before the stream's next message is read. */
void srv_stream_submit(struct srv_call *c, void (*done)(struct srv_job *job),
                       void (*next)(struct srv_call *c));
void srv_stream_post(struct srv_call *c); /* May be called on any thread. */
void srv_stream_clear_job(struct srv_call *c);
/* Ends the stream with a status. Must not be called while is_sending is set. */
void srv_stream_end(struct srv_call *c, enum rt_status code, const char *text);

#endif
