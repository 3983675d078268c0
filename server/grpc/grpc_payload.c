#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <zlib.h>

#include "runtime/base/clock.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_methods.h"

void srv_call_drop_payload(struct srv_call *c)
{
    if (c->payload)
        grpc_byte_buffer_destroy(c->payload);
    c->payload = NULL;
    free(c->inflated);
    c->inflated = NULL;
    c->is_inflated = false;
}

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

/* ---- the message ---- */

/* Inflates one zlib or gzip stream to at most `limit` bytes. The memory is charged to the budget as
 * it grows. */
static enum rt_status inflate_slices(struct srv_call *c, const grpc_slice_buffer *slices,
                                     size_t limit, size_t *n_out)
{
    z_stream z = {.next_in = NULL};
    size_t capacity = 0, have = 0;
    int rc = Z_OK;
    enum rt_status st = RT_OK;

    /* The value 15 + 32 makes zlib accept a zlib or a gzip header. */
    if (inflateInit2(&z, 15 + 32) != Z_OK)
        return rt_fail_memory(&c->err, "inflating", 0);
    for (size_t i = 0; i < slices->count && rc != Z_STREAM_END && !st; i++) {
        z.next_in = GRPC_SLICE_START_PTR(slices->slices[i]);
        z.avail_in = (unsigned)GRPC_SLICE_LENGTH(slices->slices[i]);
        do {
            if (have == capacity) {
                if (capacity > limit) {
                    st = rt_fail(&c->err, RT_RESOURCE_EXHAUSTED,
                                 "the compressed request is larger than --max_body_bytes, %zu "
                                 "bytes, inflated",
                                 limit);
                    break;
                }
                capacity = capacity ? capacity * 2 : 16384;
                if (capacity > limit)
                    capacity = limit + 1;
                st = srv_call_charge(c, capacity - have, "the request, inflated,");
                if (st)
                    break;
                unsigned char *p = realloc(c->inflated, capacity);
                if (!p) {
                    st = rt_fail_memory(&c->err, "an inflated request", capacity);
                    break;
                }
                c->inflated = p;
            }
            z.next_out = c->inflated + have;
            z.avail_out = capacity - have > UINT32_MAX ? UINT32_MAX : (unsigned)(capacity - have);
            rc = inflate(&z, Z_NO_FLUSH);
            have = (size_t)(z.next_out - c->inflated);
        } while (rc == Z_OK && (z.avail_in || have == capacity));
        if (!st && rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
            st = rt_fail(&c->err, RT_INVALID_ARGUMENT, "the compressed request is broken");
    }
    inflateEnd(&z);
    if (!st && rc != Z_STREAM_END)
        st = rt_fail(&c->err, RT_INVALID_ARGUMENT, "the compressed request is cut short");
    if (!st && have > limit)
        st = rt_fail(&c->err, RT_RESOURCE_EXHAUSTED,
                     "the compressed request is larger than --max_body_bytes, %zu bytes, inflated",
                     limit);
    *n_out = have;
    return st;
}

enum rt_status srv_call_charge(struct srv_call *c, size_t bytes, const char *what)
{
    struct srv_budget *b = &c->server->in_flight;
    return srv_budget_take(b, &c->charged, bytes)
               ? RT_OK
               : srv_budget_refused(b, c->charged, bytes, what, &c->err);
}

static struct rt_span slice_at(const grpc_slice_buffer *b, size_t i)
{
    return rt_span_of(GRPC_SLICE_START_PTR(b->slices[i]), GRPC_SLICE_LENGTH(b->slices[i]));
}

void srv_call_inflate(struct srv_call *c)
{
    if (c->is_inflated || !c->payload || c->payload->data.raw.compression == GRPC_COMPRESS_NONE)
        return;
    c->is_inflated = true;
    c->n_inflated = 0;
    c->inflate_status = inflate_slices(c, &c->payload->data.raw.slice_buffer,
                                       (size_t)c->server->options.max_body_bytes, &c->n_inflated);
}

enum rt_status srv_call_open(struct srv_call *c, struct srv_cursor *out)
{
    struct rt_span *slices;
    size_t total = 0, n;
    enum rt_status st;

    if (!c->payload)
        return rt_fail(&c->err, RT_INVALID_ARGUMENT, "the call came without a message");
    const grpc_slice_buffer *b = &c->payload->data.raw.slice_buffer;
    c->n_in += b->length;
    st = srv_call_charge(c, b->length, "the request");
    if (st)
        return st;
    srv_call_inflate(c);
    if (c->is_inflated && c->inflate_status)
        return c->inflate_status;
    n = c->is_inflated ? 1 : b->count;
    slices = rt_arena_array(c->arena, n + 1, sizeof *slices);
    if (!slices)
        return rt_fail_memory(&c->err, "a request", n * sizeof *slices);
    if (c->is_inflated) {
        slices[0] = rt_span_of(c->inflated, total = c->n_inflated);
    } else {
        for (size_t i = 0; i < n; i++)
            total += (slices[i] = slice_at(b, i)).n;
    }
    if (c->method->max_bytes && total > c->method->max_bytes)
        return rt_fail(&c->err, RT_INVALID_ARGUMENT, "%s takes messages of at most %zu bytes",
                       c->method->path, c->method->max_bytes);
    *out = srv_cursor_of(slices, total);
    return RT_OK;
}
