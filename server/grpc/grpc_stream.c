/* Implements streams: calls with several messages in each direction. */
#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "server/grpc/grpc_internal.h"
#include "server/grpc/grpc_stream.h"
#include "server/metrics/metrics.h"
#include "server/tracing/profile.h"
#include "server/tracing/tracer.h"

bool srv_stream_begin(struct srv_call *c, void (*sent)(struct srv_call *c),
                      void (*closed)(struct srv_call *c))
{
    if (c->is_closed) {
        srv_call_fail(c, rt_fail(&c->err, RT_CANCELLED, "the client has gone"));
        return false;
    }
    if (!srv_stream_open_share(c)) {
        srv_metrics_event(c->server->metrics, "grpc_call_refused");
        srv_call_fail(c, rt_fail(&c->err, RT_RESOURCE_EXHAUSTED,
                                 "%s: too many streams are open, in all and on this connection",
                                 c->method->path));
        return false;
    }
    srv_grpc_uncount(c); /* an open stream must not delay the end of the drain */
    c->stream =
        (struct srv_stream){.is_open = true, .has_begun = true, .sent = sent, .closed = closed};
    srv_list_init(&c->stream.parts);
    if (!c->close_started)
        srv_grpc_start_close(c);
    return true;
}

void srv_stream_watch(struct srv_call *c, void (*look)(struct srv_call *c, bool ending))
{
    c->stream.look = look;
    c->next = c->loop->watchers;
    c->loop->watchers = c;
}

void srv_stream_unwatch(struct srv_call *c)
{
    struct srv_call **at = &c->loop->watchers;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

bool srv_call_is_ending(const struct srv_call *c)
{
    return atomic_load(&c->loop->grpc->quiesced);
}

static void stream_batch(struct srv_call *c, const grpc_op *ops, size_t n)
{
    c->stream.is_sending = true;
    c->pending++;
    srv_call_awaits(c, SRV_AWAITS_SENT);
    srv_grpc_start_batch(c, ops, n, &c->on_sent);
}

void srv_stream_send(struct srv_call *c, struct rt_bytes *message)
{
    srv_stream_send_parts(c, rt_span_of(NULL, 0), message);
}

void srv_stream_send_parts(struct srv_call *c, struct rt_span head, struct rt_bytes *message)
{
    grpc_op ops[2];
    size_t n = 0, len = 0;

    if (message->failed) { /* memory ran out, so an error is sent instead of an empty message */
        struct rt_error err = {.arena = NULL}; /* c->err may belong to a background thread */
        rt_bytes_clear(message);
        rt_fail_memory(&err, "the response", message->limit);
        srv_stream_end(c, err.code, rt_error_text(&err));
        return;
    }
    char *p = rt_bytes_take(message, &len);
    grpc_byte_buffer *buffer = srv_grpc_message_of(head, p, len);
    c->n_out += head.n + len;
    if (!c->stream.has_sent)
        ops[n++] = srv_call_op_metadata(c);
    ops[n++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = buffer};
    c->stream.has_sent = true;
    stream_batch(c, ops, n);
    grpc_byte_buffer_destroy(buffer);
}

void srv_stream_end(struct srv_call *c, enum rt_status code, const char *text)
{
    grpc_slice details = code ? srv_grpc_details_of(text) : grpc_empty_slice();
    grpc_op ops[2];
    size_t n = 0;

    if (!c->stream.has_sent)
        ops[n++] = srv_call_op_metadata(c);
    ops[n++] = srv_grpc_op_status(code, &details);
    c->code = code;
    c->stream.has_sent = c->stream.is_ended = true;
    stream_batch(c, ops, n);
    grpc_slice_unref(details);
}

void srv_stream_read(struct srv_call *c)
{
    srv_call_drop_payload(c);
    srv_budget_give(&c->server->in_flight, &c->charged, c->charged);
    rt_arena_reset(c->arena);
    c->err = (struct rt_error){.arena = c->arena};
    c->stream.is_reading = true;
    srv_grpc_read_message(c, SRV_AWAITS_NEXT);
}

/* ---- jobs of streams ---- */

static void take_job(struct srv_io_loop *io_loop, struct srv_message *back)
{
    struct srv_call *c =
        (struct srv_call *)(void *)((char *)back - offsetof(struct srv_call, detour.back));

    (void)io_loop;
    c->detour.next(c);
    srv_grpc_unpend(c);
}

void srv_stream_submit(struct srv_call *c, void (*done)(struct srv_job *job),
                       void (*next)(struct srv_call *c))
{
    struct srv_job *job = &c->job;
    const int64_t own = job->deadline_ns, deadline_ns = srv_call_deadline_ns(c);

    job->io_loop = c->io_loop;
    job->arena = c->arena;
    job->owner = c;
    job->done = done;
    job->err.arena = c->arena;
    job->deadline_ns = own && own < deadline_ns ? own : deadline_ns;
    c->detour.next = next;
    c->detour.back.receive = take_job;
    c->pending++; /* for take_job */
    srv_job_submit(job);
}

void srv_stream_post(struct srv_call *c)
{
    srv_message_post(c->io_loop, &c->detour.back);
}

/* ---- parts ---- */

/* Moves the received message, and what was charged for it. */
static void move_message(struct srv_call *part, struct srv_call *c)
{
    part->payload = c->payload;
    part->payload_status = c->payload_status;
    part->inflated = c->inflated;
    part->n_inflated = c->n_inflated;
    part->inflate_status = c->inflate_status;
    part->is_inflated = c->is_inflated;
    part->n_in = c->payload->data.raw.slice_buffer.length + c->n_inflated;
    part->charged = c->charged;
    if (part->payload_status || (part->is_inflated && part->inflate_status))
        rt_error_copy(&part->err, &c->err);
    c->err = (struct rt_error){.arena = c->arena};
    c->payload = NULL;
    c->inflated = NULL;
    c->n_inflated = c->charged = 0;
    c->is_inflated = false;
}

bool srv_stream_has_room(struct srv_call *c)
{
    /* memory of a part: the call, and the first block of its arena */
    enum { PART_BYTES = sizeof(struct srv_call) + SRV_FREE_BYTES };

    if (!c->stream.n_parts)
        return true;
    if (srv_budget_left(&c->server->in_flight) / ((size_t)c->stream.n_parts + 1) <
        c->stream.most_held)
        return false;
    return c->stream.charged ||
           srv_budget_take(&c->server->in_flight, &c->stream.charged, PART_BYTES);
}

void srv_stream_note_held(struct srv_call *part, size_t bytes)
{
    struct srv_stream *s = &part->stream_of->stream;

    /* the decrease forgets a large request after some small ones */
    s->most_held -= s->most_held / 8;
    if (s->most_held < bytes)
        s->most_held = bytes;
}

struct srv_call *srv_stream_take(struct srv_call *c)
{
    struct srv_call *part = srv_grpc_new_call(c->loop);

    if (!part)
        return NULL;
    srv_grpc_reset_call(part);
    part->stream_of = c;
    part->call = NULL;
    part->method = part->requested_method = c->method;
    grpc_metadata_array_init(&part->metadata);
    part->close_started = true; /* the core reports to the stream that the client has left */
    part->stream =
        (struct srv_stream){.is_open = true, .has_begun = true, .charged = c->stream.charged};
    c->stream.charged = 0;
    part->deadline = c->deadline;
    part->connection = c->connection;
    part->socket = -1;
    /* the drain must wait until the part ends, although it does not wait for the stream */
    atomic_fetch_add(&c->server->grpc_requests, 1);
    part->counted = true;
    move_message(part, c);
    /* The response's metadata names the span of the first inference. The others have spans of their
     * own, in the same trace if the client named one. */
    part->span = c->span;
    if (c->stream.n_taken++)
        srv_tracer_begin(c->server->tracer, &part->span);
    srv_profile_begin(c->server->profile, &part->span);
    part->pending = 1; /* srv_stream_drop subtracts it */
    c->pending++;      /* the end of the part subtracts it */
    srv_list_append(&c->stream.parts, &part->link);
    c->stream.n_parts++;
    c->stream.part_bytes += part->n_in;
    srv_stream_note_held(part, 2 * part->n_in); /* a message and its tensors */
    return part;
}

void srv_stream_hold(struct srv_call *part, size_t bytes)
{
    part->n_out = bytes;
    part->stream_of->stream.part_bytes += bytes;
}

void srv_stream_drop(struct srv_call *part)
{
    struct srv_stream *s = &part->stream_of->stream;

    s->n_parts--;
    s->part_bytes -= part->n_in + part->n_out;
    srv_list_remove(&part->link);
    srv_grpc_unpend(part);
}

void srv_stream_cancel_parts(struct srv_call *c)
{
    for (struct srv_link *at = c->stream.parts.next; at != &c->stream.parts; at = at->next) {
        struct srv_call *part = (struct srv_call *)(void *)at;
        atomic_store_explicit(&part->job.cancelled, true, memory_order_relaxed);
    }
}

void srv_stream_note_wait(struct srv_call *c)
{
    const struct srv_stream *s = &c->stream;
    const enum srv_awaited what = s->is_sending                  ? SRV_AWAITS_SENT
                                  : s->is_reading && !s->n_parts ? SRV_AWAITS_NEXT
                                                                 : SRV_AWAITS_NOTHING;

    if ((atomic_load_explicit(&c->awaited, memory_order_relaxed) & SRV_AWAITED_MASK) != what)
        srv_call_awaits(c, what);
}
