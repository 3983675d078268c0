/*
 * A gRPC call, as used by the handlers of the services. The table of all methods is in
 * grpc_methods.h. The files of the transport, listed in grpc_internal.h, begin and end calls.
 *
 * Threads: a call is used by the thread of its I/O loop, during a turn. Every handler runs on this
 * thread. Other threads may call only the functions marked "any thread", and only between
 * srv_call_expect or srv_call_submit and the response.
 *
 * A handler responds exactly once, in one of three ways:
 *   - immediately, by srv_call_respond or srv_call_fail;
 *   - later, by srv_call_submit or srv_call_expect and then srv_call_respond_expected;
 *   - as a stream, by srv_stream_begin and srv_stream_end.
 */
#ifndef SRV_GRPC_CALL_H
#define SRV_GRPC_CALL_H

#include <grpc/grpc.h>

#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "server/base/list.h"
#include "server/batching/io_loop.h"
#include "server/protocol/tfs/model_spec.h"
#include "server/protocol/tfs/tensor_wire.h"
#include "server/server.h"

struct srv_grpc_loop;
struct srv_grpc_method; /* grpc_methods.h */
struct srv_grpc_port;

enum srv_call_event {
    SRV_EV_CALL,
    SRV_EV_CLOSE,
    SRV_EV_MESSAGE,
    SRV_EV_SENT,
    SRV_EV_WAKE,
    SRV_EV_SHUTDOWN
};

/* An event of a completion queue. The tag of a gRPC operation is the address of its event. */
struct srv_grpc_event {
    enum srv_call_event kind;
    struct srv_call *call;
};

struct srv_stream {
    bool is_open; /* the stream has begun, and the client is still connected */
    /* a message is being sent, so no other message may be sent until `sent` is called */
    bool is_sending;
    bool is_ended;
    bool has_begun; /* the stream counts against the I/O loop's limit for streams */
    bool has_sent;  /* the initial metadata of the response has been sent */
    /* called when a message has been sent; `sent`, `closed` and `look` may be NULL */
    void (*sent)(struct srv_call *c);
    void (*closed)(struct srv_call *c); /* called when the client disconnects or the stream ends */
    void (*look)(struct srv_call *c, bool ending); /* set by srv_stream_watch */
};

/* Events for which a call waits. They depend on the peer and may never occur. */
enum srv_awaited {
    SRV_AWAITS_NOTHING,
    SRV_AWAITS_MESSAGE, /* the complete first message of the call */
    SRV_AWAITS_SENT,    /* the peer has received a message */
    SRV_AWAITS_NEXT,    /* a message of a stream after the first one */
    SRV_AWAITED_MASK = 3,
};

struct srv_call {
    struct srv_link link; /* link in loop->calls */
    /* next call in the free list, in the list loop->watchers, or in the queue of an aside thread */
    struct srv_call *next;
    struct srv_grpc_loop *loop;
    struct srv_io_loop *io_loop;
    struct srv_server *server;
    const struct srv_grpc_method *method; /* the called method, or NULL if no method has the path */

    /* The members below are used by the handler. */
    struct rt_arena *arena; /* arena for the data of the request, reset when the call ends */
    struct rt_error err;    /* the text of the error is allocated in `arena` */
    void *state;            /* the handler's state, allocated in `arena` */
    struct rt_span model;   /* model name in the request, for metrics and access log */
    struct srv_job job;     /* the handle to job.version is released when the call ends */
    int64_t received_ns;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    struct srv_stream stream;

    /* The members below are used by the transport. */
    struct srv_grpc_event on_call, on_close, on_message, on_sent;
    struct srv_grpc_port *port;
    /* requested method, or NULL for unregistered methods */
    const struct srv_grpc_method *posted_as;
    /* number of events still expected after SRV_EV_CALL; used by the I/O loop thread */
    int pending;
    /* Orders the start of a batch on one thread before its completion on another. The core's queue
     * already ensures this order, but the thread sanitizer cannot see it. */
    _Atomic int handed;
    bool counted;        /* whether the call is counted in server->grpc_requests */
    unsigned connection; /* index of the connection's counter in grpc_share.c */
    /* the connection's descriptor, or -1 if unknown because the core accepted the connection */
    int socket;
    bool is_in_metrics; /* whether the call was reported to the metrics */
    grpc_call *call;
    grpc_call_details details;
    grpc_byte_buffer *payload;
    int cancelled;
    char peer[80];      /* the peer's address if the access log is enabled, otherwise "" */
    size_t charged;     /* number of bytes charged to the budget server->in_flight */
    size_t n_in, n_out; /* sizes in bytes of the messages received and sent */
    unsigned char *inflated;
    size_t n_inflated;
    /* result of inflating the message; its error text is in c->err */
    enum rt_status inflate_status;
    bool is_inflated;
    /* value of enum srv_awaited in the low bits, and number of waits begun so far in the other bits
     */
    _Atomic uint32_t awaited;
    /* `awaited`, the time, and the number of bytes that the peer had received, as of the last stall
     * check that found a new wait or progress */
    uint32_t seen_awaited;
    int64_t seen_ns;
    uint64_t seen_taken;
    /* whether the response is large and therefore counted in n_large of its socket */
    bool is_large;
    bool was_cut;                      /* whether the call was cut off before its message arrived */
    void (*aside)(struct srv_call *c); /* the work requested by srv_call_aside */
    /* the two functions of srv_call_detour, and the message that returns the call to the I/O
     * loop */
    struct {
        void (*work)(struct srv_call *c);
        void (*next)(struct srv_call *c);
        struct srv_message back;
    } detour;
    bool close_started;  /* RECV_CLOSE was started */
    bool is_closed;      /* RECV_CLOSE has completed */
    bool came_empty;     /* the call ended before its first message */
    bool may_send_close; /* whether a response sent on the I/O loop thread also starts RECV_CLOSE */
    enum rt_status code; /* status code of the response */
};

/* ---- the message ---- */

/* Inflates the message if it is compressed, charges its bytes to the budget of bytes in flight, and
 * opens the message as a cursor over its slices. The cursor is valid until srv_call_drop_payload or
 * the response. */
enum rt_status srv_call_open(struct srv_call *c, struct srv_cursor *out);
void srv_call_drop_payload(struct srv_call *c);
/* Charges `bytes` to the budget of bytes in flight. `what` names the bytes in the error texts (see
 * server/base/budget.h). */
enum rt_status srv_call_charge(struct srv_call *c, size_t bytes, const char *what);
/* Returns the call's deadline on CLOCK_MONOTONIC, or RT_NEVER. */
int64_t srv_call_deadline_ns(const struct srv_call *c);
/* Copies a text from the core into the arena. Returns a span whose p is NULL if memory runs out.
 * The text is copied because a thread of the core wrote it, in a way that the thread sanitizer
 * cannot follow. */
struct rt_span srv_call_text(struct srv_call *c, grpc_slice slice);
/* Inflates the message if it is compressed. May be called on any thread. srv_call_open returns the
 * resulting status. */
void srv_call_inflate(struct srv_call *c);
/* Returns the value of the metadata with the key `key`. The key must be in lower case. If the
 * client did not send it, p of the value is NULL. */
struct rt_span srv_call_metadata(struct srv_call *c, const char *key);

/* Returns RT_OK if the call may perform admin actions, otherwise PERMISSION_DENIED,
 * UNAUTHENTICATED, or the error from reading the token file. */
enum rt_status srv_grpc_check_admin(struct srv_call *c);

/* ---- responses ---- */

/* Sends the message as the response, and takes ownership of its bytes. */
void srv_call_respond(struct srv_call *c, struct rt_bytes *message);
/* Sends the status `code` with the error text of c->err. */
void srv_call_fail(struct srv_call *c, enum rt_status code);
/* Submits c->job to the scheduler. The caller has set all members except io_loop, arena, owner,
 * done and the times. job.deadline_ns may be set to a time before the call's deadline. */
void srv_call_submit(struct srv_call *c, void (*done)(struct srv_job *job));
/* Announces that another thread will respond. The call delays the drain unless `patient` is set. */
void srv_call_expect(struct srv_call *c, bool patient);
/* Sends the response of a call after srv_call_submit or srv_call_expect. May be called on any
 * thread. Takes ownership of `p`, which must be allocated by malloc. If `p` is NULL and `code` is
 * an error, only a status is sent. The call may already be freed when this function returns. */
void srv_call_respond_expected(struct srv_call *c, void *p, size_t n, enum rt_status code,
                               const char *text);

/* Kinds of slow work. Each kind has its own thread, so that no kind waits for another. */
enum srv_aside { SRV_ASIDE_SMALL, SRV_ASIDE_LARGE, SRV_ASIDE_ADMIN, SRV_N_ASIDES };

/* Runs `work` on the thread for `kind`, after all work queued earlier. May be called only between
 * srv_call_expect and the response, or by srv_call_detour, because both functions count a pending
 * event of the call. */
void srv_call_aside(struct srv_call *c, enum srv_aside kind, void (*work)(struct srv_call *c));
/*
 * Runs `work` on the thread for `kind` and then `next` on the I/O loop thread. A handler calls this
 * function on the I/O loop thread instead of responding, and `next` continues as a handler does. If
 * the client disconnects meanwhile, `work` may be skipped, and `next` is called only for a stream.
 */
void srv_call_detour(struct srv_call *c, enum srv_aside kind, void (*work)(struct srv_call *c),
                     void (*next)(struct srv_call *c));
/* Chooses the thread for work on the call's message by the size of the message before it is
 * inflated, so that a client with large messages does not delay one with small messages. */
enum srv_aside srv_call_aside_of(const struct srv_call *c);

/* ---- streams ---- */

/* Makes the call a stream. Streams do not delay the drain. If the stream is refused, sends the
 * error and returns false. */
bool srv_stream_begin(struct srv_call *c, void (*sent)(struct srv_call *c),
                      void (*closed)(struct srv_call *c));
/* Sends one message on the stream and takes ownership of its bytes. If memory ran out while the
 * message was built, the stream ends with that error. Must not be called if is_sending is set. */
void srv_stream_send(struct srv_call *c, struct rt_bytes *message);
bool srv_call_is_ending(const struct srv_call *c); /* returns whether streams should end */
/* Resets the arena, reads the next message of the stream, and passes the message to `handle`. A
 * stream whose next message is not complete within --request_read_timeout_ms ends with an error. */
void srv_stream_read(struct srv_call *c);
/* Makes the I/O loop call `look` at intervals while the stream is open, so that `look` can send
 * messages without a request. `ending` is set if the server is stopping and the stream should
 * end. Uses the call's member `next`. */
void srv_stream_watch(struct srv_call *c, void (*look)(struct srv_call *c, bool ending));
/* Ends the stream with a status. Must not be called while is_sending is set. */
void srv_stream_end(struct srv_call *c, enum rt_status code, const char *text);

#endif
