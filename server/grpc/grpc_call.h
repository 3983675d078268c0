/*
 * A gRPC call as the handlers of the services see it. What they serve is one table
 * (grpc_methods.c); how calls come and go is the transport's (grpc_parts.h).
 *
 * Threads: a call belongs to its loop thread, where every handler runs, inside a turn. Only what
 * says "any thread" may be called elsewhere, and only between srv_call_expect or srv_call_submit
 * and the answer.
 *
 * A handler answers exactly once: srv_call_respond or srv_call_fail at once; srv_call_submit or
 * srv_call_expect, and srv_call_respond_expected later; or srv_stream_begin and srv_stream_end.
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

/* How a call comes. Whether it has one message or more, either way, is its handler's. */
enum srv_grpc_kind {
    SRV_GRPC_REGISTERED, /* with the core, while it is not off: the message comes along with it */
    SRV_GRPC_BY_PATH,    /* the message is read after the call */
};

enum { SRV_NOT_COUNTED = -1 };

struct srv_grpc_method {
    const char *path; /* "/package.Service/Method" */
    enum srv_grpc_kind kind;
    int api; /* enum srv_api: what it counts as; SRV_NOT_COUNTED: not at all */
    /* A larger message is refused, so that reading one never holds the loop up; 0: --max_body_bytes
     * alone limits it. */
    size_t max_bytes;
    /* Gets the first message, and each one more that it asks for (srv_stream_read), the client's
     * end of them without payload. */
    void (*handle)(struct srv_call *c);
    /* NULL: always there. Else why the method is not (UNIMPLEMENTED), or NULL. */
    const char *(*off)(const struct srv_options *o);
};
/* What a server answers: the transport is given it, so that it knows no service. */
struct srv_grpc_methods {
    const struct srv_grpc_method *row;
    int n; /* at most SRV_GRPC_MAX_METHODS */
    /* Why there is no method of this path, for the refusal (UNIMPLEMENTED). */
    const char *(*why_unknown)(struct rt_span path);
};
enum { SRV_GRPC_MAX_SERVICES = 32 };
/* The services of the methods that are there, each once: how many. */
int srv_grpc_services(const struct srv_options *o, struct rt_span *out);

enum srv_call_event {
    SRV_EV_CALL,
    SRV_EV_CLOSE,
    SRV_EV_MESSAGE,
    SRV_EV_SENT,
    SRV_EV_WAKE,
    SRV_EV_SHUTDOWN
};

/* What an event means. Its address is the tag. */
struct srv_grpc_event {
    enum srv_call_event kind;
    struct srv_call *call;
};

struct srv_stream {
    bool is_open;    /* begun, and the client is there */
    bool is_sending; /* nothing else may be sent until `sent` */
    bool is_ended;
    bool has_begun;                                /* and counts against the loop's limit */
    bool has_sent;                                 /* the initial metadata */
    void (*sent)(struct srv_call *c);              /* NULL is fine, so below */
    void (*closed)(struct srv_call *c);            /* the client has gone, or all is sent */
    void (*look)(struct srv_call *c, bool ending); /* see srv_stream_watch */
};

/* What a call waits for that its peer may never do. */
enum srv_awaited {
    SRV_AWAITS_NOTHING,
    SRV_AWAITS_MESSAGE, /* a call's first message, whole */
    SRV_AWAITS_SENT,    /* that the peer takes a message */
    SRV_AWAITED_MASK = 3,
};

struct srv_call {
    struct srv_link link;  /* in loop->calls */
    struct srv_call *next; /* free calls, those that watch, or those that wait to go aside */
    struct srv_grpc_loop *loop;
    struct srv_io_loop *io_loop;
    struct srv_server *server;
    const struct srv_grpc_method *method; /* NULL: unknown */

    /* for the handler */
    struct rt_arena *arena; /* emptied when the call is over */
    struct rt_error err;    /* in that arena */
    void *state;            /* the handler's own, in the arena */
    struct rt_span model;   /* the name asked for, once known, for metrics and log */
    struct srv_job job;     /* job.version: set with srv_hold, released at the call's end */
    int64_t received_ns;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    struct srv_stream stream;

    /* the transport's */
    struct srv_grpc_event on_call, on_close, on_message, on_sent;
    struct srv_grpc_port *port;
    const struct srv_grpc_method *posted_as; /* a registered one; NULL: catch-all */
    int pending; /* events to come, the first one not counted; loop thread only */
    /* A batch started on another thread comes back through the core's queue, which orders the two;
     * this says the same where the thread sanitizer can see it. */
    _Atomic int handed;
    bool counted;        /* in server->grpc_requests */
    unsigned connection; /* its counter, see grpc_share.c */
    int socket;          /* -1: not known yet, for the core has accepted it */
    bool is_in_metrics;  /* to the metrics */
    grpc_call *call;
    grpc_call_details details;
    grpc_byte_buffer *payload;
    int cancelled;
    char peer[80];      /* for the access log, else empty */
    size_t charged;     /* of the bytes in flight */
    size_t n_in, n_out; /* bytes of messages */
    unsigned char *inflated;
    size_t n_inflated;
    enum rt_status inflate_status; /* of the message, once it was inflated; c->err has the text */
    bool is_inflated;
    _Atomic uint32_t awaited; /* an srv_awaited, and above it a count of the waits */
    uint32_t seen_awaited;    /* at the last look for stalls: this, when, and how much was taken */
    int64_t seen_ns;
    uint64_t seen_taken;
    bool is_large;                     /* its socket counts its large answer */
    bool was_cut;                      /* before its message came */
    void (*aside)(struct srv_call *c); /* see srv_call_aside */
    struct srv_message loop_message;   /* back from there */
    bool close_started;                /* RECV_CLOSE is under way */
    bool is_closed;                    /* and has come */
    bool may_send_close; /* the answer, given on the loop thread, takes RECV_CLOSE with it */
    enum rt_status code; /* of the answer */
};

/* ---- the message ---- */

/* The message, inflated if need be, as a cursor over its slices; its bytes are charged against the
 * bytes in flight. Valid until srv_call_drop_payload or the answer. */
enum rt_status srv_call_open(struct srv_call *c, struct srv_cursor *out);
void srv_call_drop_payload(struct srv_call *c);
/* Takes `bytes` of the bytes in flight, for `what`; fails as server/base/budget.h has it. */
enum rt_status srv_call_charge(struct srv_call *c, size_t bytes, const char *what);
/* CLOCK_MONOTONIC, or RT_NEVER. */
int64_t srv_call_deadline_ns(const struct srv_call *c);
/* What the core received, copied into the arena. p NULL: no memory. Not read where it lies: it was
 * written in a thread of the core's, in a way that the thread sanitizer cannot follow. */
struct rt_span srv_call_text(struct srv_call *c, grpc_slice slice);
/* Any thread: inflates the message, if it is compressed; srv_call_open says how that went. */
void srv_call_inflate(struct srv_call *c);
/* The value of the metadata `key` (lower case). p NULL: not sent. */
struct rt_span srv_call_metadata(struct srv_call *c, const char *key);

/* Whether the call may do what an operator does; else PERMISSION_DENIED or UNAUTHENTICATED. */
enum rt_status srv_grpc_check_admin(struct srv_call *c);

/* ---- answers ---- */

/* Takes the bytes. */
void srv_call_respond(struct srv_call *c, struct rt_bytes *message);
/* With the text of c->err. */
void srv_call_fail(struct srv_call *c, enum rt_status code);
/* Gives c->job, complete but for net, arena, owner, done and times, to the scheduler. A deadline_ns
 * of its own counts if it is before the call's. */
void srv_call_submit(struct srv_call *c, void (*done)(struct srv_job *job));
/* The answer comes later, from any thread. It does not hold up draining if `patient`. */
void srv_call_expect(struct srv_call *c, bool patient);
/* Any thread. Takes `p` (malloc); NULL with a code: only a status. The call may be gone when this
 * returns. */
void srv_call_respond_expected(struct srv_call *c, void *p, size_t n, enum rt_status code,
                               const char *text);

/* What takes long, by what it may wait for: each kind has a thread of its own. */
enum srv_aside { SRV_ASIDE_SMALL, SRV_ASIDE_LARGE, SRV_ASIDE_ADMIN, SRV_N_ASIDES };

/* Runs `work` on a thread beside the loops, between srv_call_expect and the answer, after what was
 * given to the same kind before. */
void srv_call_aside(struct srv_call *c, enum srv_aside kind, void (*work)(struct srv_call *c));

/* ---- streams ---- */

/* False: refused, and answered so. A stream does not hold up draining. */
bool srv_stream_begin(struct srv_call *c, void (*sent)(struct srv_call *c),
                      void (*closed)(struct srv_call *c));
/* One message; takes the bytes. Where they have failed, the stream ends so. Not while is_sending.
 */
void srv_stream_send(struct srv_call *c, struct rt_bytes *message);
bool srv_call_is_ending(const struct srv_call *c); /* the server is: streams should end */
/* Asks for the next message: `handle` gets it. Empties the arena. A stream may be idle: there is no
 * limit of time. */
void srv_stream_read(struct srv_call *c);
/* For what sends unasked: `look` comes once in a while, as long as the stream is open; `ending`:
 * the server is, and the stream should. Takes the call's `next`. */
void srv_stream_watch(struct srv_call *c, void (*look)(struct srv_call *c, bool ending));
/* Not while is_sending. */
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
