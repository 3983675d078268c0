/*
 * Streams: gRPC calls with several messages in each direction.
 *
 * Threads: as in grpc_call.h.
 */
#ifndef SRV_GRPC_STREAM_H
#define SRV_GRPC_STREAM_H

#include "server/grpc/grpc_call.h"

/* Events for which a call waits. They depend on the peer and may never occur. */
enum srv_awaited {
    SRV_AWAITS_NOTHING,
    SRV_AWAITS_MESSAGE,
    SRV_AWAITS_SENT, /* the event that the peer has received a message */
    SRV_AWAITS_NEXT, /* the arrival of a later message of a stream */
    SRV_AWAITED_MASK = 3,
};

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
/* Resets the arena of a stream that has no parts or whose parts own what they need, reads the next
 * message of the stream, and passes the message to `handle`. If the message is not complete within
 * --request_read_timeout_ms, the stream ends with an error. */
void srv_stream_read(struct srv_call *c);
/* Makes the I/O loop call `look` at intervals while the stream is open, so that the server can send
 * messages that answer no request. If `ending` is set, the server is stopping and the stream should
 * end. The list of watched streams uses c->next. */
void srv_stream_watch(struct srv_call *c, void (*look)(struct srv_call *c, bool ending));
/* Submits the job of a part like srv_call_submit, except that the caller must also set received_ns.
 * `done` must call srv_stream_post instead of responding. Afterwards, `next` runs on the I/O loop
 * thread.
 */
void srv_stream_submit(struct srv_call *c, void (*done)(struct srv_job *job),
                       void (*next)(struct srv_call *c));
void srv_stream_post(struct srv_call *c); /* May be called on any thread. */
/* Ends the stream with a status. Must not be called while is_sending is set. */
void srv_stream_end(struct srv_call *c, enum rt_status code, const char *text);

/*
 * Parts: a stream whose messages are handled at the same time moves each of them into a call of its
 * own, which the core does not know. A part has its own arena, job and span, and lives until it is
 * dropped and its job has ended. The stream sends all messages.
 */
/* Returns whether the next message may be read beside the parts in progress, and charges the budget
 * of bytes in flight for its part. The budget must have room for as many more of the stream's
 * largest recent requests as will be in progress. A stream without parts always has room, so that
 * it cannot wait for ever. */
bool srv_stream_has_room(struct srv_call *c);
/* Records the most bytes that a part has held, for srv_stream_has_room. */
void srv_stream_note_held(struct srv_call *part, size_t bytes);
/* Moves the stream's message into a new last part, so that the next one can be read. Returns NULL
 * if memory runs out. */
struct srv_call *srv_stream_take(struct srv_call *c);
/* Counts the bytes of a part's response while it waits to be sent. */
void srv_stream_hold(struct srv_call *part, size_t bytes);
void srv_stream_drop(struct srv_call *part); /* may free the part and end the stream's call */
static inline struct srv_call *srv_stream_first_part(const struct srv_call *c)
{
    /* `link` is the first member of struct srv_call */
    return c->stream.n_parts ? (struct srv_call *)(void *)c->stream.parts.next : NULL;
}
void srv_stream_cancel_parts(struct srv_call *c);
/* Records for which peer's event the stream waits now (grpc_stall.c). A stream that waits for its
 * own inferences need not send a message. */
void srv_stream_note_wait(struct srv_call *c);

/* ---- grpc_payload.c ---- */

/* Returns a cursor over what can be read, without charging the budget, of a message that is refused
 * before srv_call_open has succeeded: the message, or if it is compressed, its beginning. */
struct srv_cursor srv_call_peek(struct srv_call *c);
/* Reports the end of a stream's inference, which is a part, to the tracer. */
void srv_call_trace_inference(struct srv_call *c, enum rt_status code);

/* ---- grpc_call.c ---- */

struct srv_call *srv_grpc_new_call(struct srv_grpc_loop *loop); /* NULL if memory runs out */
/* Sets the members of a new call that do not depend on how it began. */
void srv_grpc_reset_call(struct srv_call *c);

#endif
