/*
 * A gRPC call as the handlers of the services see it. grpc_methods.c holds the one table of
 * methods. grpc_internal.h lists the files of the transport, which begin and end calls.
 *
 * Threads: a call belongs to the thread of its I/O loop, where every handler runs, inside a turn.
 * Other threads may call only the functions marked "any thread", and only between srv_call_expect
 * or srv_call_submit and the response.
 *
 * A handler responds exactly once, in one of three ways:
 *   - at once, by srv_call_respond or srv_call_fail;
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

struct srv_call;
struct srv_grpc_loop;
struct srv_grpc_port;

/* How the core delivers calls of a method. The handler decides whether a call has one message or
 * several, in either direction. */
enum srv_grpc_kind {
    SRV_GRPC_REGISTERED, /* registered with the core unless the method is off; the path is not
                            compared */
    SRV_GRPC_BY_PATH,    /* not registered with the core: the call's path selects it */
};

enum { SRV_NOT_COUNTED = -1 };

struct srv_grpc_method {
    const char *path; /* "/package.Service/Method" */
    enum srv_grpc_kind kind;
    int api; /* the enum srv_api that metrics count a call as, or SRV_NOT_COUNTED */
    /* The largest message in bytes; a larger one is refused, so that reading a message never
     * blocks the I/O loop for long. 0: only --max_body_bytes limits messages. */
    size_t max_bytes;
    /* Gets the first message, and every further message that the handler requests by
     * srv_stream_read. The end of the client's messages is a call without payload. */
    void (*handle)(struct srv_call *c);
    /* Why the method is off with these options, for the error (UNIMPLEMENTED), or NULL if it is
     * on. A NULL pointer: the method is always on. */
    const char *(*off)(const struct srv_options *o);
};
/* The methods of a server. srv_grpc_start gets them as an argument, so that the transport depends
 * on no service. */
struct srv_grpc_methods {
    const struct srv_grpc_method *row;
    int n; /* at most SRV_GRPC_MAX_METHODS */
    /* The reason why no method has this path, for the error (UNIMPLEMENTED). */
    const char *(*why_unknown)(struct rt_span path);
};
enum { SRV_GRPC_MAX_SERVICES = 32 };
/* Writes the name of each service that has a method that is on, once, to `out`, which has
 * SRV_GRPC_MAX_SERVICES entries. Returns the number of services. */
int srv_grpc_services(const struct srv_options *o, struct rt_span *out);

enum srv_call_event {
    SRV_EV_CALL,
    SRV_EV_CLOSE,
    SRV_EV_MESSAGE,
    SRV_EV_SENT,
    SRV_EV_WAKE,
    SRV_EV_SHUTDOWN
};

/* An event of the completion queue. The tag of an operation is the address of its event. */
struct srv_grpc_event {
    enum srv_call_event kind;
    struct srv_call *call;
};

struct srv_stream {
    bool is_open;    /* the call has begun, and the client is still connected */
    bool is_sending; /* nothing else may be sent before `sent` is called */
    bool is_ended;
    bool has_begun;                     /* counts against the I/O loop's limit of streams */
    bool has_sent;                      /* the initial metadata was sent */
    void (*sent)(struct srv_call *c);   /* a message was sent; this and the next two may be NULL */
    void (*closed)(struct srv_call *c); /* the client has gone, or everything was sent */
    void (*look)(struct srv_call *c, bool ending); /* see srv_stream_watch */
};

/* What a call waits for from its peer. A peer may never provide it. */
enum srv_awaited {
    SRV_AWAITS_NOTHING,
    SRV_AWAITS_MESSAGE, /* the whole first message of the call */
    SRV_AWAITS_SENT,    /* the peer takes a message */
    SRV_AWAITED_MASK = 3,
};

struct srv_call {
    struct srv_link link; /* in loop->calls */
    /* link in one list: free calls, watchers, or the queue of an aside thread */
    struct srv_call *next;
    struct srv_grpc_loop *loop;
    struct srv_io_loop *io_loop;
    struct srv_server *server;
    const struct srv_grpc_method *method; /* NULL: the path is unknown */

    /* For the handler. */
    struct rt_arena *arena; /* reset when the call ends */
    struct rt_error err;    /* its text is in `arena` */
    void *state;            /* the handler's state, in `arena` */
    struct rt_span model;   /* model name of the request, once read; for metrics and log */
    struct srv_job job;     /* job.version: held by srv_hold, released when the call ends */
    int64_t received_ns;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    struct srv_stream stream;

    /* For the transport. */
    struct srv_grpc_event on_call, on_close, on_message, on_sent;
    struct srv_grpc_port *port;
    const struct srv_grpc_method *posted_as; /* registered method; NULL: any other */
    int pending; /* events yet to come, without the first; I/O loop thread only */
    /* A batch that another thread starts completes through the core's queue, which orders the two
     * threads. This store and load tell the thread sanitizer of that order. */
    _Atomic int handed;
    bool counted;        /* the call counts in server->grpc_requests */
    unsigned connection; /* index of its connection's counter, see grpc_share.c */
    int socket;          /* descriptor; -1: not known yet, the core accepted the connection */
    bool is_in_metrics;  /* was reported to the metrics */
    grpc_call *call;
    grpc_call_details details;
    grpc_byte_buffer *payload;
    int cancelled;
    char peer[80];      /* the peer's address for the access log, else empty */
    size_t charged;     /* bytes taken from the budget server->in_flight */
    size_t n_in, n_out; /* message bytes in and out */
    unsigned char *inflated;
    size_t n_inflated;
    enum rt_status inflate_status; /* result of inflating the message; its text is in c->err */
    bool is_inflated;
    _Atomic uint32_t awaited; /* an srv_awaited in the low bits, above it the number of waits */
    uint32_t seen_awaited;    /* the last stall check: `awaited`, the time, and the bytes taken */
    int64_t seen_ns;
    uint64_t seen_taken;
    /* the response is large and counts in n_large of its socket */
    bool is_large;
    bool was_cut;                      /* was cut off before its message arrived */
    void (*aside)(struct srv_call *c); /* the work of srv_call_aside */
    struct srv_message loop_message;   /* brings the call back from the aside thread */
    bool close_started;                /* RECV_CLOSE was started */
    bool is_closed;                    /* RECV_CLOSE has completed */
    bool may_send_close; /* a response sent on the loop thread starts RECV_CLOSE, too */
    enum rt_status code; /* status of the response */
};

/* ---- the message ---- */

/* Opens the message as a cursor over its slices, inflated if it is compressed. The bytes are
 * charged to the budget of bytes in flight. The cursor is valid until srv_call_drop_payload or the
 * response. */
enum rt_status srv_call_open(struct srv_call *c, struct srv_cursor *out);
void srv_call_drop_payload(struct srv_call *c);
/* Charges `bytes` for `what` to the budget of bytes in flight. Fails as server/base/budget.h
 * describes. */
enum rt_status srv_call_charge(struct srv_call *c, size_t bytes, const char *what);
/* The call's deadline on CLOCK_MONOTONIC, or RT_NEVER. */
int64_t srv_call_deadline_ns(const struct srv_call *c);
/* Copies text that the core received into the arena; p NULL: out of memory. The text is not read
 * in place, because a thread of the core wrote it in a way that the thread sanitizer cannot
 * follow. */
struct rt_span srv_call_text(struct srv_call *c, grpc_slice slice);
/* Any thread: inflates the message if it is compressed. srv_call_open returns the resulting status.
 */
void srv_call_inflate(struct srv_call *c);
/* The value of the metadata `key`, which is in lower case; p NULL: the client did not send it. */
struct rt_span srv_call_metadata(struct srv_call *c, const char *key);

/* Whether the call may perform admin actions. If not, PERMISSION_DENIED, UNAUTHENTICATED, or the
 * error of reading the token file. */
enum rt_status srv_grpc_check_admin(struct srv_call *c);

/* ---- responses ---- */

/* Sends the message and takes its bytes. */
void srv_call_respond(struct srv_call *c, struct rt_bytes *message);
/* Sends the status `code` with the text of c->err. */
void srv_call_fail(struct srv_call *c, enum rt_status code);
/* Gives c->job to the scheduler. The caller has set everything but io_loop, arena, owner, done and
 * the times. A job.deadline_ns that the caller has set counts if it is before the call's deadline.
 */
void srv_call_submit(struct srv_call *c, void (*done)(struct srv_job *job));
/* Announces a response that any thread sends later. A `patient` call does not delay the drain. */
void srv_call_expect(struct srv_call *c, bool patient);
/* Any thread. Takes `p` (malloc); NULL with a code sends only a status. The call may be freed when
 * this function returns. */
void srv_call_respond_expected(struct srv_call *c, void *p, size_t n, enum rt_status code,
                               const char *text);

/* Kinds of slow work, by what it may wait for. Each kind has one thread. */
enum srv_aside { SRV_ASIDE_SMALL, SRV_ASIDE_LARGE, SRV_ASIDE_ADMIN, SRV_N_ASIDES };

/* Runs `work` on the aside thread of `kind`, after the work queued there before. Call it between
 * srv_call_expect and the response. */
void srv_call_aside(struct srv_call *c, enum srv_aside kind, void (*work)(struct srv_call *c));

/* ---- streams ---- */

/* Makes the call a stream, which does not delay the drain. False: refused; the error was sent. */
bool srv_stream_begin(struct srv_call *c, void (*sent)(struct srv_call *c),
                      void (*closed)(struct srv_call *c));
/* Sends one message and takes its bytes. If building the message failed, the stream ends with that
 * error. Not while is_sending. */
void srv_stream_send(struct srv_call *c, struct rt_bytes *message);
bool srv_call_is_ending(const struct srv_call *c); /* the server stops: streams should end */
/* Resets the arena and reads the next message, which `handle` gets. A stream may be idle without
 * limit. */
void srv_stream_read(struct srv_call *c);
/* For streams that send without being asked: the I/O loop calls `look` at intervals while the
 * stream is open. `ending`: the server stops and the stream should end. Uses the call's `next`. */
void srv_stream_watch(struct srv_call *c, void (*look)(struct srv_call *c, bool ending));
/* Ends the stream with a status. Not while is_sending. */
void srv_stream_end(struct srv_call *c, enum rt_status code, const char *text);

/* ---- the handlers ---- */

void srv_grpc_inference(struct srv_call *c);
const char *srv_grpc_session_off(const struct srv_options *o);
void srv_grpc_get_model_metadata(struct srv_call *c);
void srv_grpc_get_model_status(struct srv_call *c);
void srv_grpc_reload_config(struct srv_call *c);
void srv_grpc_health_check(struct srv_call *c);
void srv_grpc_health_watch(struct srv_call *c);
void srv_grpc_reflect(struct srv_call *c);
const char *srv_grpc_reflection_off(const struct srv_options *o);
const char *srv_grpc_health_off(const struct srv_options *o);

#endif
