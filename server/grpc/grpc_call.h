/*
 * A gRPC call, as the handlers of the services use it. grpc_methods.h declares the table of
 * methods. The transport (grpc_internal.h) begins and ends calls.
 *
 * Threads: a call belongs to the thread of its I/O loop, which also runs the handler. Other threads
 * may call only the functions whose comments permit any thread. They may do so only after
 * srv_call_expect or srv_call_submit, and before the response.
 *
 * A handler responds exactly once, in one of three ways:
 *   - immediately, by srv_call_respond or srv_call_fail;
 *   - later, by srv_call_submit or srv_call_expect and then srv_call_respond_expected;
 *   - as a stream, by srv_stream_begin and srv_stream_end (grpc_stream.h).
 */
#ifndef SRV_GRPC_CALL_H
#define SRV_GRPC_CALL_H

#include <grpc/grpc.h>

#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "server/base/list.h"
#include "server/batching/io_loop.h"
#include "server/base/wire.h"
#include "server/server.h"
#include "server/tracing/request_span.h"

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
    bool is_open; /* whether the stream has begun and the client is connected */
    /* whether a message is being sent; the next one must wait until `sent` is called */
    bool is_sending;
    bool is_ended;
    /* Whether the stream was counted towards the limits on streams (grpc_share.c). The limits count
     * the stream until the call ends. */
    bool has_begun;
    bool has_sent;            /* whether the response's initial metadata was sent */
    bool is_reading, has_all; /* whether a message is being read, and whether no more will come */
    /* Whether a background thread inflates the message that was read. The thread uses the call's
     * message, arena, error and charge until then. */
    bool is_inflating;
    /* The parts of the stream (grpc_stream.h) in the order of its messages, their number, and the
     * bytes of their messages and responses. `n_taken` counts all parts. */
    struct srv_link parts;
    int n_parts;
    size_t part_bytes;
    uint64_t n_taken;
    size_t most_held; /* the bytes that a large recent part has held at a time */
    /* Number of bytes charged to server->in_flight for the memory of a part beside its message: for
     * the next part, or, in a part, for itself. */
    size_t charged;
    /* Called when a message has been sent. `sent`, `closed` and `look` may be NULL. */
    void (*sent)(struct srv_call *c);
    void (*closed)(struct srv_call *c); /* called when the client disconnects or the stream ends */
    void (*look)(struct srv_call *c, bool ending); /* set by srv_stream_watch */
};

struct srv_call {
    struct srv_link link;
    /* next call in the free list, in loop->watchers, or in the connection's queue for a background
     * thread */
    struct srv_call *next;
    struct srv_call *next_turn; /* next call in the list srv_background_queue.first */
    struct srv_grpc_loop *loop;
    struct srv_io_loop *io_loop;
    struct srv_server *server;
    const struct srv_grpc_method *method; /* the called method, or NULL if no method has the path */

    /* The handler uses the members below. */
    struct rt_arena *arena; /* arena for the data of the request, reset when the call ends */
    struct rt_error err;    /* the error message is allocated in `arena` */
    void *state;            /* the handler's state, allocated in `arena` */
    struct rt_span model;   /* model's name in the message or version; empty until it is read */
    struct srv_job job;     /* the handle to job.version is released when the call ends */
    int64_t received_ns;
    struct srv_request_span span;
    char *tracestate; /* the client's tracestate header, or NULL; freed by gpr_free */
    /* the initial metadata of the response, valid if has_response_metadata is set */
    grpc_metadata response_metadata;
    bool has_response_metadata;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    struct srv_stream stream;
    struct srv_call *stream_of; /* the stream of which this call is a part, or NULL */

    /* The transport uses the members below. */
    struct srv_grpc_event on_call, on_close, on_message, on_sent;
    struct srv_grpc_port *port;
    /* requested method, or NULL for unregistered methods */
    const struct srv_grpc_method *requested_method;
    int pending; /* number of pending events except SRV_EV_CALL; used on the I/O loop thread */
    /* Orders the start of a batch on one thread before its completion on another. The core's queue
     * already ensures this order, but the thread sanitizer cannot see it. */
    _Atomic int batch_order;
    bool counted; /* whether the call is counted in server->grpc_requests */
    /* index of the connection in the arrays of grpc_share.c and grpc_background.c */
    unsigned connection;
    /* the connection's descriptor, or -1 if the connection is encrypted */
    int socket;
    bool is_in_metrics;
    grpc_call *call;
    grpc_call_details details;
    grpc_byte_buffer *payload;
    int cancelled;
    char peer[80];                 /* the peer's address, or "" without an access log */
    size_t charged;                /* number of bytes charged to server->in_flight */
    size_t n_in, n_out;            /* bytes of the messages received (before inflating) and sent;
                                    * the n_in of a part includes the inflated message too */
    size_t quota_in;               /* number of bytes of n_in that a quota has counted */
    enum rt_status payload_status; /* status of charging `payload`; c->err contains the error */
    unsigned char *inflated;
    size_t n_inflated;
    enum rt_status inflate_status; /* status of inflating it; c->err contains the error */
    bool is_inflated;
    /* State of inflating the message between two steps (grpc_payload.c). NULL if the message is not
     * being inflated. */
    struct srv_inflation *inflation;
    /* The low bits are a value of enum srv_awaited. The other bits are the number of waits that
     * have begun. */
    _Atomic uint32_t awaited;
    /* State recorded by the last stall check that found a new wait or new progress: the value of
     * `awaited`, the time of the check, and the number of bytes that the peer had received. */
    uint32_t seen_awaited;
    int64_t seen_ns;
    uint64_t seen_taken;
    bool is_large; /* whether loop->n_large[socket] includes the response */
    bool was_cut;  /* whether the call was cut off before its message arrived */
    bool (*background)(struct srv_call *c); /* the function passed to srv_call_in_background */
    /* arguments of srv_call_detour, and the message that returns the call to the I/O loop */
    struct {
        bool (*work)(struct srv_call *c);
        void (*next)(struct srv_call *c);
        struct srv_message back;
    } detour;
    /* If has_large is set, `large` is a reference to the message of a large response. The reference
     * is released after the core has forgotten the call, so that no thread of the core frees the
     * message. */
    grpc_slice large;
    bool has_large;
    bool close_started;  /* RECV_CLOSE was started */
    bool is_closed;      /* RECV_CLOSE has completed */
    bool came_empty;     /* whether the call ended before its first message arrived */
    bool may_send_close; /* whether a response sent on the I/O loop thread also starts RECV_CLOSE */
    enum rt_status code;
    /* seconds after which the client may retry a call that exceeded its quota, or 0; and the
     * trailing metadata that tells them */
    int64_t retry_s;
    grpc_metadata retry_after;
};

/* ---- the message ---- */

/* Charges the received message to the budget of bytes in flight. The charge includes the memory for
 * the message's slices, because every byte may have its own slice. srv_call_open returns the status
 * of this charge. */
void srv_call_receive(struct srv_call *c);
/* Inflates the message if it is compressed. Sets *out to a cursor over the message's slices. The
 * cursor is valid until srv_call_drop_payload is called or the response is sent. */
enum rt_status srv_call_open(struct srv_call *c, struct srv_cursor *out);
void srv_call_drop_payload(struct srv_call *c);
/* Charges `bytes` to the budget of bytes in flight. `what` names the purpose of the bytes in an
 * error message (server/base/budget.h). */
enum rt_status srv_call_charge(struct srv_call *c, size_t bytes, const char *what);
/* Returns the call's deadline on CLOCK_MONOTONIC, or RT_NEVER. */
int64_t srv_call_deadline_ns(const struct srv_call *c);
/* Copies a string of the core into the arena. If memory runs out, returns a span with p = NULL. The
 * copy is needed because the thread sanitizer does not see the synchronisation between this thread
 * and the core's thread that wrote the string. */
struct rt_span srv_call_text(struct srv_call *c, grpc_slice slice);
/* Inflates the next part of a compressed message, in at most a few milliseconds. Returns whether
 * further calls are needed. May be called on any thread. srv_call_open returns the resulting
 * status. */
bool srv_call_inflate(struct srv_call *c);
/* Returns the value of the metadata `key`, which must be in lower case. Returns a span with p =
 * NULL if the client did not send it. */
struct rt_span srv_call_metadata(struct srv_call *c, const char *key);
/* Returns whether the metadata has the key more than once. */
bool srv_call_repeats(const struct srv_call *c, const char *key);

/* Returns RT_OK if the call may perform admin actions. Otherwise returns PERMISSION_DENIED,
 * UNAUTHENTICATED, or the error from reading the token file. */
enum rt_status srv_grpc_check_admin(struct srv_call *c);

/* ---- responses ---- */

/* Sends `message` as the response, and takes ownership of the bytes. */
void srv_call_respond(struct srv_call *c, struct rt_bytes *message);
/* Sends the status `code` with the error message of c->err. */
void srv_call_fail(struct srv_call *c, enum rt_status code);
/* Makes *err name the arena's limit if this limit caused the failure. srv_call_fail does so. */
void srv_call_name_limit(struct srv_call *c, enum rt_status code, struct rt_error *err);
/* Submits c->job to the scheduler. The caller must set all members except io_loop, arena, owner,
 * done, received_ns, queued_ns, started_ns and finished_ns. If job.deadline_ns is not 0, the
 * earlier of job.deadline_ns and the call's deadline applies. */
void srv_call_submit(struct srv_call *c, void (*done)(struct srv_job *job));
/* Announces that another thread will send the response. Unless `patient` is set, the drain waits
 * for the response. */
void srv_call_expect(struct srv_call *c, bool patient);
/* Sends the response of a call after srv_call_submit or srv_call_expect. May be called on any
 * thread. Takes ownership of `p`, which must be allocated by malloc. If `p` is NULL and `code` is
 * an error, sends only a status. The call may already be freed when this function returns. */
void srv_call_respond_expected(struct srv_call *c, void *p, size_t n, enum rt_status code,
                               const char *text);

/* Kinds of slow work. Each has its own thread. */
enum srv_background {
    SRV_BACKGROUND_SMALL,              /* inflating small messages */
    SRV_BACKGROUND_LARGE,              /* inflating large messages, and reflection */
    SRV_BACKGROUND_FIELDS,             /* reading messages with many fields */
    SRV_BACKGROUND_FREE,               /* freeing large messages */
    SRV_BACKGROUND_DESCRIPTIONS,       /* gathering and writing long descriptions */
    SRV_BACKGROUND_SHORT_DESCRIPTIONS, /* the same for short ones (protocol.h) */
    SRV_BACKGROUND_ADMIN,
    SRV_N_BACKGROUND_KINDS
};

/* Runs `work` on the thread for `kind`, after all earlier work of the same connection. If `work`
 * returns true, it runs again, so that long work can be divided into steps. Before each step for a
 * connection, at most one step for each other connection runs. `work` must return false after it
 * has sent the response or freed the call. May be called only while srv_call_expect or
 * srv_call_detour keeps the call from being freed, or to free a call that has ended. */
void srv_call_in_background(struct srv_call *c, enum srv_background kind,
                            bool (*work)(struct srv_call *c));
/*
 * Runs `work` on the thread for `kind` until `work` returns false, and then `next` on the I/O loop
 * thread. A handler calls this function on the I/O loop thread instead of responding. The rules for
 * handlers (see the top of this file) then apply to `next`. If the client disconnects before `work`
 * returns false, `work` may be skipped, and `next` is called only for a stream.
 */
void srv_call_detour(struct srv_call *c, enum srv_background kind, bool (*work)(struct srv_call *c),
                     void (*next)(struct srv_call *c));

#endif
