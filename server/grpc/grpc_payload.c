#define ZLIB_CONST /* makes z_stream.next_in a pointer to const */
#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <zlib.h>

#include "runtime/base/clock.h"
#include "server/grpc/grpc_internal.h"
#include "server/grpc/grpc_methods.h"
#include "server/grpc/grpc_stream.h"
#include "server/grpc/h2_frames.h"
#include "server/telemetry/access_log.h"
#include "server/tracing/access.h"
#include "server/tracing/profile.h"
#include "server/tracing/tracer.h"

/* Maximum numbers of bytes that a step of inflating reads and writes. A step takes at most a few
 * milliseconds, although 64 KiB of input may consist of a thousand blocks with their own Huffman
 * codes. */
enum { STEP_IN_BYTES = 64 << 10, STEP_OUT_BYTES = 1 << 20 };
enum { PEEK_BYTES = 4096 }; /* the beginning of a compressed message that srv_call_peek inflates */

/* ---- metadata and deadline ---- */

int64_t srv_call_deadline_ns(const struct srv_call *c)
{
    gpr_timespec t = c->deadline;
    if (gpr_time_cmp(t, gpr_inf_future(t.clock_type)) == 0)
        return RT_NEVER;
    gpr_timespec left =
        gpr_time_sub(gpr_convert_clock_type(t, GPR_CLOCK_MONOTONIC), gpr_now(GPR_CLOCK_MONOTONIC));
    int64_t now = rt_now_ns();
    if (left.tv_sec > (RT_NEVER - now) / 1000000000 - 1)
        return RT_NEVER;
    return now + left.tv_sec * 1000000000 + left.tv_nsec;
}

struct rt_span srv_call_text(struct srv_call *c, grpc_slice slice)
{
    char *text = grpc_slice_to_c_string(slice);
    size_t n = GRPC_SLICE_LENGTH(slice);
    char *copy = rt_arena_strndup(c->arena, text, n);

    gpr_free(text);
    return rt_span_of(copy, copy ? n : 0);
}

struct rt_span srv_call_metadata(struct srv_call *c, const char *key)
{
    for (size_t i = 0; i < c->metadata.count; i++)
        if (grpc_slice_str_cmp(c->metadata.metadata[i].key, key) == 0)
            return srv_call_text(c, c->metadata.metadata[i].value);
    return rt_span_of(NULL, 0);
}

bool srv_call_repeats(const struct srv_call *c, const char *key)
{
    int n = 0;

    for (size_t i = 0; i < c->metadata.count && n < 2; i++)
        n += grpc_slice_str_cmp(c->metadata.metadata[i].key, key) == 0;
    return n > 1;
}

/* ---- the message ---- */

/* The state between two steps of inflating a message. */
struct srv_inflation {
    z_stream z;
    size_t capacity; /* size of c->inflated in bytes */
    size_t slice;
    size_t at; /* number of bytes read from the current slice */
    /* whether the last call of `inflate` filled its output, so that more may follow */
    bool is_full;
    bool has_ended; /* whether the end of the compressed stream was read */
};

static void end_inflation(struct srv_call *c)
{
    if (c->inflation)
        inflateEnd(&c->inflation->z);
    free(c->inflation);
    c->inflation = NULL;
}

static enum rt_status begin_inflation(struct srv_call *c)
{
    c->n_inflated = 0;
    c->inflation = calloc(1, sizeof *c->inflation);
    /* 15 + 32 makes zlib accept a zlib or a gzip header. */
    if (c->inflation && inflateInit2(&c->inflation->z, 15 + 32) == Z_OK)
        return RT_OK;
    free(c->inflation);
    c->inflation = NULL;
    return rt_fail_memory(&c->err, "inflating", 0);
}

static enum rt_status fail_large(struct srv_call *c, size_t limit)
{
    return rt_fail(&c->err, RT_RESOURCE_EXHAUSTED,
                   "the compressed request is larger than --max_body_bytes, %zu bytes, inflated",
                   limit);
}

/* Enlarges c->inflated to at most `limit + 1` bytes. Charges the growth to the budget. */
static enum rt_status grow_inflated(struct srv_call *c, size_t limit)
{
    struct srv_inflation *s = c->inflation;
    size_t capacity = s->capacity ? s->capacity * 2 : 16384;

    if (s->capacity > limit)
        return fail_large(c, limit);
    if (capacity > limit)
        capacity = limit + 1;
    enum rt_status st = srv_call_charge(c, capacity - s->capacity, "the request, inflated,");
    if (st)
        return st;
    unsigned char *p = realloc(c->inflated, capacity);
    if (!p)
        return rt_fail_memory(&c->err, "an inflated request", capacity);
    c->inflated = p;
    s->capacity = capacity;
    return RT_OK;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Calls `inflate` once, on the bytes of `in`. *in_left and *out_left are the numbers of bytes that
 * this step may still read and write. Subtracts the number of bytes read from *in_left, and the
 * number of bytes written from *out_left. */
static enum rt_status inflate_some(struct srv_call *c, struct rt_span in, size_t *in_left,
                                   size_t *out_left)
{
    struct srv_inflation *s = c->inflation;
    const size_t n_in = least(in.n, *in_left);
    const size_t n_out = least(s->capacity - c->n_inflated, *out_left);

    s->z.next_in = in.p;
    s->z.avail_in = (unsigned)n_in;
    s->z.next_out = c->inflated + c->n_inflated;
    s->z.avail_out = (unsigned)n_out;
    const int rc = inflate(&s->z, Z_NO_FLUSH);
    s->at += n_in - s->z.avail_in;
    *in_left -= n_in - s->z.avail_in;
    c->n_inflated += n_out - s->z.avail_out;
    *out_left -= n_out - s->z.avail_out;
    s->is_full = !s->z.avail_out;
    s->has_ended = rc == Z_STREAM_END;
    /* Z_BUF_ERROR only means that `inflate` made no progress. */
    return rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR
               ? RT_OK
               : rt_fail(&c->err, RT_INVALID_ARGUMENT, "the compressed request is broken");
}

static struct rt_span slice_at(const grpc_slice_buffer *b, size_t i)
{
    return rt_span_of(GRPC_SLICE_START_PTR(b->slices[i]), GRPC_SLICE_LENGTH(b->slices[i]));
}

/* Returns the bytes of the current slice that `inflate` has not read, or an empty span at the end
 * of the message. */
static struct rt_span rest_of_input(struct srv_inflation *s, const grpc_slice_buffer *b)
{
    while (s->slice < b->count && s->at == GRPC_SLICE_LENGTH(b->slices[s->slice])) {
        s->slice++;
        s->at = 0;
    }
    if (s->slice == b->count)
        return rt_span_of(NULL, 0);
    const struct rt_span whole = slice_at(b, s->slice);
    return rt_span_of(whole.p + s->at, whole.n - s->at);
}

/* Performs a step of inflating a zlib or gzip stream to at most `limit` bytes. Sets *has_more if
 * the stream has not ended. */
static enum rt_status inflate_step(struct srv_call *c, size_t limit, bool *has_more)
{
    struct srv_inflation *s = c->inflation;
    size_t in_left = STEP_IN_BYTES, out_left = STEP_OUT_BYTES;
    enum rt_status st = RT_OK;

    if (atomic_load_explicit(&c->job.cancelled, memory_order_relaxed))
        return rt_fail(&c->err, RT_CANCELLED, "the client has left");
    while (!st && !s->has_ended) {
        const struct rt_span in = rest_of_input(s, &c->payload->data.raw.slice_buffer);
        if (!in.n && !s->is_full)
            return rt_fail(&c->err, RT_INVALID_ARGUMENT, "the compressed request is cut short");
        if (!in_left || !out_left) {
            *has_more = true;
            return RT_OK;
        }
        if (c->n_inflated == s->capacity)
            st = grow_inflated(c, limit);
        if (!st)
            st = inflate_some(c, in, &in_left, &out_left);
    }
    return !st && c->n_inflated > limit ? fail_large(c, limit) : st;
}

enum rt_status srv_call_charge(struct srv_call *c, size_t bytes, const char *what)
{
    struct srv_budget *b = &c->server->in_flight;
    return srv_budget_take(b, &c->charged, bytes)
               ? RT_OK
               : srv_budget_refused(b, c->charged, bytes, what, &c->err);
}

void srv_call_receive(struct srv_call *c)
{
    const grpc_slice_buffer *b = &c->payload->data.raw.slice_buffer;

    c->n_in += b->length;
    c->payload_status = srv_call_charge(c, b->length + b->count * SRV_H2_PART_BYTES, "the request");
}

void srv_call_drop_payload(struct srv_call *c)
{
    if (c->payload)
        grpc_byte_buffer_destroy(c->payload);
    c->payload = NULL;
    end_inflation(c);
    free(c->inflated);
    c->inflated = NULL;
    c->n_inflated = 0;
    c->is_inflated = false;
}

bool srv_call_inflate(struct srv_call *c)
{
    enum rt_status st = RT_OK;
    bool has_more = false;

    if (c->is_inflated || !c->payload || c->payload->data.raw.compression == GRPC_COMPRESS_NONE)
        return false;
    if (!c->inflation)
        st = begin_inflation(c);
    if (!st)
        st = inflate_step(c, (size_t)c->server->options.max_body_bytes, &has_more);
    if (has_more)
        return true;
    end_inflation(c);
    c->is_inflated = true;
    c->inflate_status = st;
    return false;
}

/* Sets *out to a cursor over the slices of the received message. Returns false if memory runs out.
 */
static bool cursor_of_payload(struct srv_call *c, struct srv_cursor *out)
{
    const grpc_slice_buffer *b = &c->payload->data.raw.slice_buffer;
    struct rt_span *slices = rt_arena_array(c->arena, b->count + 1, sizeof *slices);

    for (size_t i = 0; slices && i < b->count; i++)
        slices[i] = slice_at(b, i);
    *out = srv_cursor_of(slices, slices ? b->length : 0);
    return slices;
}

static bool cursor_of_inflated(struct srv_call *c, struct srv_cursor *out)
{
    struct rt_span *slice = rt_arena_alloc(c->arena, sizeof *slice);

    if (slice)
        *slice = rt_span_of(c->inflated, c->n_inflated);
    *out = srv_cursor_of(slice, slice ? slice->n : 0);
    return slice;
}

/* Inflates up to PEEK_BYTES bytes of a compressed message. Reads at most twice as many, because the
 * blocks of a hostile message may yield nothing. */
static struct srv_cursor peek_inflated(struct srv_call *c)
{
    const grpc_slice_buffer *b = &c->payload->data.raw.slice_buffer;
    struct rt_span *out = rt_arena_alloc(c->arena, sizeof *out);
    unsigned char *to = rt_arena_alloc(c->arena, PEEK_BYTES);
    z_stream z = {.next_out = to, .avail_out = PEEK_BYTES};
    size_t left = 2 * PEEK_BYTES;
    int rc = Z_OK;

    if (!out || !to || inflateInit2(&z, 15 + 32) != Z_OK)
        return srv_cursor_of(NULL, 0);
    /* Z_BUF_ERROR only means that `inflate` made no progress. Of a broken message, the bytes before
     * the error are used. */
    for (size_t i = 0; left && z.avail_out && (rc == Z_OK || rc == Z_BUF_ERROR) && i < b->count;
         i++) {
        const struct rt_span in = slice_at(b, i);
        z.next_in = in.p;
        z.avail_in = (unsigned)least(in.n, left);
        left -= z.avail_in;
        rc = inflate(&z, Z_NO_FLUSH);
    }
    inflateEnd(&z);
    *out = rt_span_of(to, PEEK_BYTES - z.avail_out);
    return srv_cursor_of(out, out->n);
}

struct srv_cursor srv_call_peek(struct srv_call *c)
{
    struct srv_cursor message = srv_cursor_of(NULL, 0);

    if (!c->payload)
        return message;
    if (c->n_inflated)
        cursor_of_inflated(c, &message);
    else if (c->payload->data.raw.compression != GRPC_COMPRESS_NONE)
        return peek_inflated(c);
    else
        cursor_of_payload(c, &message);
    return message;
}

enum rt_status srv_call_open(struct srv_call *c, struct srv_cursor *out)
{
    if (!c->payload)
        return rt_fail(&c->err, RT_INVALID_ARGUMENT, "the call came without a message");
    if (c->payload_status)
        return c->payload_status;
    while (srv_call_inflate(c))
        continue;
    if (c->is_inflated && c->inflate_status)
        return c->inflate_status;
    if (!(c->is_inflated ? cursor_of_inflated(c, out) : cursor_of_payload(c, out)))
        return rt_fail_memory(&c->err, "a request", 0);
    if (c->method->max_bytes && out->left > c->method->max_bytes)
        return rt_fail(&c->err, RT_INVALID_ARGUMENT, "%s takes messages of at most %zu bytes",
                       c->method->path, c->method->max_bytes);
    return RT_OK;
}

/* ---- Trace Context ---- */

static const char traceparent[] = "traceparent", tracestate[] = "tracestate";

static bool has_key(const grpc_metadata *m, const char *key, size_t n)
{
    return GRPC_SLICE_LENGTH(m->key) == n && grpc_slice_str_cmp(m->key, key) == 0;
}

static void take_traceparent(struct srv_call *c, grpc_slice value)
{
    char *text = grpc_slice_to_c_string(value);

    srv_request_span_traceparent(&c->span, rt_span_of(text, GRPC_SLICE_LENGTH(value)));
    gpr_free(text);
}

static void take_tracestate(struct srv_call *c, grpc_slice value)
{
    gpr_free(c->tracestate);
    c->tracestate = grpc_slice_to_c_string(value);
    srv_request_span_tracestate(&c->span, rt_span_of(c->tracestate, GRPC_SLICE_LENGTH(value)));
}

void srv_call_begin_span(struct srv_call *c)
{
    srv_request_span_init(&c->span);
    for (size_t i = 0; i < c->metadata.count; i++) {
        const grpc_metadata *m = &c->metadata.metadata[i];
        if (has_key(m, traceparent, sizeof traceparent - 1))
            take_traceparent(c, m->value);
        else if (has_key(m, tracestate, sizeof tracestate - 1))
            take_tracestate(c, m->value);
    }
    srv_tracer_begin(c->server->tracer, &c->span);
    srv_profile_begin(c->server->profile, &c->span);
}

void srv_call_trace_inference(struct srv_call *c, enum rt_status code)
{
    const struct srv_access a = {.entry = "GRPC",
                                 .api = srv_api_name((enum srv_api)c->method->endpoint->stream_api),
                                 .path = rt_span_str(c->method->path),
                                 .code = code,
                                 .begin_ns = c->job.received_ns,
                                 .end_ns = rt_now_ns(),
                                 .span = &c->span,
                                 .model = c->model,
                                 .version = c->job.version};

    srv_tracer_request(c->server->tracer, &a, &c->job);
    srv_profile_request(c->server->profile, &a, &c->job);
}

void srv_call_end_span(struct srv_call *c)
{
    gpr_free(c->tracestate);
    c->tracestate = NULL;
    if (c->has_response_metadata)
        grpc_slice_unref(c->response_metadata.value);
    c->has_response_metadata = false;
}

grpc_op srv_call_op_metadata(struct srv_call *c)
{
    grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    char text[SRV_TRACEPARENT_TEXT];

    if (!srv_request_span_response(&c->span, text))
        return op;
    c->response_metadata =
        (grpc_metadata){.key = grpc_slice_from_static_buffer(traceparent, sizeof traceparent - 1),
                        .value = grpc_slice_from_copied_buffer(text, sizeof text - 1)};
    c->has_response_metadata = true;
    op.data.send_initial_metadata.metadata = &c->response_metadata;
    op.data.send_initial_metadata.count = 1;
    return op;
}
