/*
 * Follows the frames of an HTTP/2 connection in the bytes that its server reads, independently of
 * how the reads divide them. It detects what a server without a defence of its own must not be
 * given:
 *
 *  - a header block (HEADERS and its CONTINUATIONs) of more than max_block bytes;
 *  - more than SRV_H2_MAX_STREAMS_BEFORE_ACK streams before the peer has acknowledged the server's
 *    settings, which tell it how many streams it may open. A normal peer acknowledges them as soon
 *    as it has read anything;
 *  - a flood of frames that cost work and request nothing. Each of these frames spends from a
 *    budget, which time, new streams, payload and the bytes that the server sends refill up to
 *    SRV_H2_BUDGET:
 *
 *      | what                                        | budget                                 |
 *      |---------------------------------------------|----------------------------------------|
 *      | a millisecond                               | +5                                     |
 *      | 256 bytes that were sent                    | +1                                     |
 *      | HEADERS of a new stream                     | +8                                     |
 *      | DATA                                        | +1 for each KiB of it, and -1          |
 *      | RST_STREAM                                  | -13: a call was begun in vain          |
 *      | a change of keys by TLS                     | -13                                    |
 *      | CONTINUATION, or a read that brings only    | -1 for each 4 KiB of the block, which  |
 *      |   a part of a header block                  |   may be parsed again                  |
 *      | any CONTINUATION, all other frames          | -1, and -1 for each 64 bytes           |
 *
 *    So a peer may cancel 2,000 calls at once, all of its calls at a steady 1,000 a second, and
 *    three of five calls at any rate. The window updates and pings of transfers are paid for by
 *    the transfers.
 *
 * Payloads are skipped: the time of srv_h2_frames_take depends on the number of frames, not of
 * bytes.
 *
 * The bytes of incomplete bodies are counted (h2_uploads.h). With each part of a body, the bytes
 * that preceded it on the connection are counted up to SRV_H2_RETAINED_BYTES, because gRPC's core
 * reads into blocks of memory and a part of a body retains its whole block. The caller decides how
 * much a connection may hold.
 *
 * Threads: none of these calls lock; the struct belongs to the thread that reads the connection.
 */
#ifndef SRV_H2_FRAMES_H
#define SRV_H2_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/grpc/h2_uploads.h"

enum { SRV_H2_MAX_STREAMS_BEFORE_ACK = 1024, SRV_H2_BUDGET = 10000, SRV_H2_FRAME_BYTES = 9 };
enum { SRV_H2_RETAINED_BYTES = 1 << 16 };

enum srv_h2_verdict {
    SRV_H2_GOES_ON,
    SRV_H2_LARGE_BLOCK,
    SRV_H2_NO_SETTINGS_ACK, /* too many streams before the peer acknowledged the settings */
    SRV_H2_FLOOD,
    SRV_H2_HOLDS_MUCH, /* too many bytes of incomplete bodies; only the caller sets it */
};

struct srv_h2_frames {
    int64_t filled_ms; /* the time and the bytes sent up to which the budget was refilled */
    uint64_t filled_sent;
    int32_t budget;
    uint32_t max_block;
    uint32_t skip;        /* bytes of a payload, or of the preface, still to be skipped */
    uint32_t block;       /* bytes of the header block read last or being read */
    uint32_t last_stream; /* the highest stream that was opened */
    uint32_t n_work; /* frames that cost work, modulo 2^32: all but DATA of 256 bytes or more */
    uint32_t data_stream; /* stream of the DATA whose payload is being read; 0: other frames */
    uint32_t unpaid;      /* bytes that were not yet counted with a part of a body */
    struct srv_h2_uploads uploads;
    bool data_ends;     /* the DATA being read ends its stream */
    uint16_t n_streams; /* streams opened; counted until has_settings_ack */
    bool has_settings_ack;
    uint8_t n_frame;
    uint8_t frame[SRV_H2_FRAME_BYTES]; /* the frame's header, before its payload */
};

/* A new connection, which begins with the client's preface. `sent`: as in srv_h2_frames_fill. */
void srv_h2_frames_init(struct srv_h2_frames *f, uint32_t max_block, int64_t now_ms, uint64_t sent);
void srv_h2_frames_clear(struct srv_h2_frames *f);
/* Refills the budget; call it before srv_h2_frames_take. `sent`: a running count of the bytes that
 * the server has sent, from any starting value. */
void srv_h2_frames_fill(struct srv_h2_frames *f, int64_t now_ms, uint64_t sent);
/* The bytes of one read. After any verdict but SRV_H2_GOES_ON the connection is over. */
enum srv_h2_verdict srv_h2_frames_take(struct srv_h2_frames *f, const void *p, size_t n);
/* Counts n changes of keys (KeyUpdate of TLS) that arrived between the bytes. */
enum srv_h2_verdict srv_h2_frames_rekeyed(struct srv_h2_frames *f, uint32_t n);

/* The frames that the server sends. When the server's response ends a stream, it forgets the
 * stream and what has arrived of its body. Zero: nothing was sent. */
struct srv_h2_sent {
    uint32_t skip;
    uint8_t n_frame;
    uint8_t frame[SRV_H2_FRAME_BYTES];
};
/* Advances *p through n bytes. Returns the next stream that the server ended, or 0 at the end. */
uint32_t srv_h2_sent_take(struct srv_h2_sent *s, const uint8_t **p, size_t *n);

#endif
