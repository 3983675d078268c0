#include "server/grpc/h2_frames.h"

#include <string.h>

enum {
    DATA = 0,
    HEADERS = 1,
    RST_STREAM = 3,
    SETTINGS = 4,
    WINDOW_UPDATE = 8,
    CONTINUATION = 9,
    ACK = 1, /* flags of HTTP/2 frames */
    END_STREAM = 1,

    PER_MS = 5,
    PER_STREAM = 9,
    PER_MESSAGE = 8, /* for each message of a stream after the first */
    /* Maximum number of small frames of a complete message that cost nothing. Some clients send a
     * message's prefix in a frame of its own. */
    FREE_FRAMES = 2,
    RESET_COST = 13,
    REKEY_COST = SRV_H2_BUDGET / SRV_H2_MAX_REKEYS,
    SENT_UNIT = 256,
    DATA_UNIT = 1024,
    BLOCK_UNIT = 4096,
    OTHER_UNIT = 64,
};

void srv_h2_frames_init(struct srv_h2_frames *f, uint32_t max_block, int64_t now_ms, uint64_t sent)
{
    *f = (struct srv_h2_frames){
        .filled_ms = now_ms, .filled_sent = sent, .budget = SRV_H2_BUDGET, .max_block = max_block};
}

void srv_h2_frames_clear(struct srv_h2_frames *f)
{
    srv_h2_uploads_clear(&f->uploads);
}

/* Reads a number of 31 bits, which follow a reserved bit. */
static uint32_t number_of(const uint8_t *p)
{
    return ((uint32_t)p[0] & 0x7f) << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t stream_of(const uint8_t *p)
{
    return number_of(p + 5);
}

static uint32_t length_of(const uint8_t *p)
{
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

/* ---- bodies ---- */

static void earn(struct srv_h2_frames *f, uint64_t n)
{
    uint64_t headroom = (uint64_t)(SRV_H2_BUDGET - f->budget);

    f->budget += (int32_t)(n < headroom ? n : headroom);
}

static void leave_unpaid(struct srv_h2_frames *f, uint64_t n)
{
    n += f->unpaid;
    f->unpaid = n < SRV_H2_RETAINED_BYTES ? (uint32_t)n : SRV_H2_RETAINED_BYTES;
}

static void end_upload(struct srv_h2_frames *f, uint32_t stream)
{
    leave_unpaid(f, srv_h2_uploads_end(&f->uploads, stream));
}

/* Handles the end of a body. The server waits for a message that is the only one of its stream, but
 * further messages may remain in the core's memory. After the end of the body, the core grants no
 * more window, so they count until the server ends the stream. */
static void end_body(struct srv_h2_frames *f, uint32_t stream)
{
    const struct srv_h2_upload *at = srv_h2_uploads_find(&f->uploads, stream);

    if (at && !at->n_before_mark && !at->n_after_mark)
        end_upload(f, stream);
}

static void end_taken(struct srv_h2_frames *f, struct srv_h2_upload *at)
{
    const struct srv_h2_taken taken = srv_h2_uploads_take(&f->uploads, at);

    leave_unpaid(f, taken.bytes);
    earn(f, (uint64_t)taken.n * PER_MESSAGE);
}

/* Counts n bytes that were read. If they belong to a counted body, adds n, `unpaid` and
 * SRV_H2_PART_BYTES to the body's count. Otherwise adds n to `unpaid`. */
static void count(struct srv_h2_frames *f, const uint8_t *p, uint32_t n)
{
    struct srv_h2_upload *at =
        f->data_stream ? srv_h2_uploads_find(&f->uploads, f->data_stream) : NULL;

    if (!at) {
        leave_unpaid(f, n);
        return;
    }
    const uint64_t memory = (uint64_t)n + f->unpaid + SRV_H2_PART_BYTES;
    f->unpaid = 0;
    if (srv_h2_uploads_add(&f->uploads, at, p, n, memory)) {
        earn(f, at->spent);
        at->spent = 0;
    }
    end_taken(f, at);
}

/* Handles the end of a frame's payload. */
static void end_data(struct srv_h2_frames *f)
{
    if (f->data_stream && f->data_ends)
        end_body(f, f->data_stream);
    f->data_stream = 0;
}

/* ---- the budget ---- */

static bool spend(struct srv_h2_frames *f, uint32_t n)
{
    /* n is at most `2^18`: one unit for a frame of less than 16 MiB, and one per 64 bytes of the
     * frame */
    f->budget -= (int32_t)n;
    return f->budget >= 0;
}

void srv_h2_frames_fill(struct srv_h2_frames *f, int64_t now_ms, uint64_t sent)
{
    uint64_t units = (sent - f->filled_sent) / SENT_UNIT;

    earn(f, units);
    f->filled_sent += units * SENT_UNIT;
    if (now_ms <= f->filled_ms)
        return;
    earn(f, (uint64_t)(now_ms - f->filled_ms) * PER_MS);
    f->filled_ms = now_ms;
}

static enum srv_h2_verdict take_headers(struct srv_h2_frames *f, uint32_t stream)
{
    bool ends = f->frame[4] & END_STREAM;

    f->block = f->skip;
    if (f->block > f->max_block)
        return SRV_H2_LARGE_BLOCK;
    if (!f->has_settings_ack && ++f->n_streams > SRV_H2_MAX_STREAMS_BEFORE_ACK)
        return SRV_H2_NO_SETTINGS_ACK;
    if (ends)
        end_body(f, stream);
    if (stream <= f->last_stream)
        return spend(f, 1) ? SRV_H2_GOES_ON : SRV_H2_FLOOD;
    f->last_stream = stream;
    if (!ends)
        srv_h2_uploads_begin(&f->uploads, stream);
    earn(f, PER_STREAM);
    return SRV_H2_GOES_ON;
}

static enum srv_h2_verdict take_continuation(struct srv_h2_frames *f)
{
    uint32_t cost = 1 + f->block / BLOCK_UNIT;

    /* The block has at most `max_block + 2^24` bytes, so the sum cannot overflow. */
    f->block += f->skip;
    if (f->block > f->max_block)
        return SRV_H2_LARGE_BLOCK;
    return spend(f, cost) ? SRV_H2_GOES_ON : SRV_H2_FLOOD;
}

static enum srv_h2_verdict take_data(struct srv_h2_frames *f, uint32_t stream)
{
    const uint32_t cost = f->skip < SRV_H2_LARGE_DATA;
    /* The core refuses DATA frames with other flags, such as that for padding, and ends their
     * streams. */
    const bool is_body = !(f->frame[4] & ~END_STREAM);
    struct srv_h2_upload *at = is_body ? srv_h2_uploads_find(&f->uploads, stream) : NULL;

    earn(f, f->skip / DATA_UNIT);
    if (at && f->skip && at->spent < FREE_FRAMES)
        at->spent += (uint8_t)cost;
    f->data_stream = is_body ? stream : 0;
    f->data_ends = f->frame[4] & END_STREAM;
    if (!f->skip)
        end_data(f);
    return spend(f, cost) ? SRV_H2_GOES_ON : SRV_H2_FLOOD;
}

static enum srv_h2_verdict take_frame(struct srv_h2_frames *f)
{
    const uint8_t *p = f->frame;
    uint32_t stream = stream_of(p), cost;

    f->n_frame = 0;
    f->skip = length_of(p);
    const bool is_large_data = p[3] == DATA && f->skip >= SRV_H2_LARGE_DATA;
    f->n_work += !is_large_data;
    if (p[3] == HEADERS)
        return take_headers(f, stream);
    if (p[3] == CONTINUATION)
        return take_continuation(f);
    f->block = 0;
    if (p[3] == DATA)
        return take_data(f, stream);
    cost = p[3] == RST_STREAM ? RESET_COST : 1 + f->skip / OTHER_UNIT;
    if (p[3] == RST_STREAM)
        end_upload(f, stream);
    f->has_settings_ack |= p[3] == SETTINGS && p[4] & ACK;
    return spend(f, cost) ? SRV_H2_GOES_ON : SRV_H2_FLOOD;
}

enum srv_h2_verdict srv_h2_frames_take(struct srv_h2_frames *f, const void *bytes, size_t n)
{
    /* the preface with which each client begins (RFC 9113, section 3.4) */
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const uint8_t *p = bytes;
    enum srv_h2_verdict v = spend(f, f->block / BLOCK_UNIT) ? SRV_H2_GOES_ON : SRV_H2_FLOOD;

    for (; n && f->n_preface < sizeof preface - 1; p++, n--)
        if (*p != (uint8_t)preface[f->n_preface++])
            return SRV_H2_NO_PREFACE;
    while (n && !v) {
        size_t k = f->skip ? f->skip : (size_t)SRV_H2_FRAME_BYTES - f->n_frame;
        k = k < n ? k : n;
        count(f, p, (uint32_t)k);
        if (f->skip) {
            f->skip -= (uint32_t)k;
            if (!f->skip)
                end_data(f);
        } else {
            memcpy(f->frame + f->n_frame, p, k);
            f->n_frame += (uint8_t)k;
            if (f->n_frame == SRV_H2_FRAME_BYTES)
                v = take_frame(f);
        }
        p += k;
        n -= k;
    }
    return v;
}

enum srv_h2_verdict srv_h2_frames_rekeyed(struct srv_h2_frames *f, uint32_t n)
{
    f->n_work += n;
    /* SRV_H2_BUDGET key updates already exhaust the budget. Limiting n to this number keeps `n *
     * REKEY_COST` from overflowing. */
    n = n < SRV_H2_BUDGET ? n : SRV_H2_BUDGET;
    return spend(f, n * REKEY_COST) ? SRV_H2_GOES_ON : SRV_H2_FLOOD;
}

/* ---- frames that the server sends ---- */

static void take_sent(struct srv_h2_frames *f)
{
    const uint8_t *p = f->sent.frame;
    const uint32_t stream = stream_of(p);

    f->sent.n_frame = 0;
    if (p[3] == WINDOW_UPDATE) {
        struct srv_h2_upload *at = srv_h2_uploads_find(&f->uploads, stream);
        if (!at)
            return;
        at->granted += number_of(p + SRV_H2_FRAME_BYTES);
        end_taken(f, at);
        return;
    }
    f->sent.skip = length_of(p);
    if (p[3] == RST_STREAM || (p[3] <= HEADERS && p[4] & END_STREAM))
        end_upload(f, stream);
}

void srv_h2_frames_sent(struct srv_h2_frames *f, const void *bytes, size_t n)
{
    struct srv_h2_sent *s = &f->sent;
    const uint8_t *p = bytes;

    while (n) {
        const bool has_window = s->n_frame >= SRV_H2_FRAME_BYTES && s->frame[3] == WINDOW_UPDATE;
        const size_t size = has_window ? sizeof s->frame : SRV_H2_FRAME_BYTES;
        size_t k = s->skip ? s->skip : size - s->n_frame;
        k = k < n ? k : n;
        if (s->skip) {
            s->skip -= (uint32_t)k;
        } else {
            memcpy(s->frame + s->n_frame, p, k);
            s->n_frame += (uint8_t)k;
            if (s->n_frame == sizeof s->frame ||
                (s->n_frame == SRV_H2_FRAME_BYTES && s->frame[3] != WINDOW_UPDATE))
                take_sent(f);
        }
        p += k;
        n -= k;
    }
}
