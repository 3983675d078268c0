/*
 * The frames of an HTTP/2 connection, followed in the bytes that its server reads, however these
 * are cut into pieces. It finds what a server that has no defence of its own must not get to read:
 *
 *  - a header block (HEADERS and its CONTINUATIONs) of more than max_block bytes;
 *  - more than SRV_H2_MAX_STREAMS_BEFORE_ACK streams before the peer has acknowledged our settings,
 * by which it learns how many it may have. Every peer acknowledges as soon as it has read anything;
 *  - a flood of frames that cost work and bring none. Each such frame takes from a budget, which
 *    time, new streams, payload and what the server sends fill again up to SRV_H2_BUDGET:
 *
 *      | what                                        | budget                                 |
 *      |---------------------------------------------|----------------------------------------|
 *      | a millisecond                               | +5                                     |
 *      | 256 bytes that were sent                    | +1                                     |
 *      | HEADERS of a new stream                     | +8                                     |
 *      | DATA                                        | +1 for each KiB of it, and -1          |
 *      | RST_STREAM                                  | -13: a call was begun in vain          |
 *      | a change of keys by TLS                     | -13                                    |
 *      | CONTINUATION, or a piece of a block         | -1 for each 4 KiB of the block, which  |
 *      |   that is read by itself                    |   may be parsed anew                   |
 *      | any CONTINUATION, all other frames          | -1, and -1 for each 64 bytes           |
 *
 *    So a peer may cancel 2,000 calls of a sudden, all of its calls at 1,000 a second without an
 * end, and three of five at any rate. The windows and pings of transfers are paid by these.
 *
 * Payloads are stepped over: the time that a read takes depends on its frames, not on its bytes.
 *
 * The bodies that are arriving are counted (h2_uploads.h), and with each piece of one the bytes
 * that came before it on the connection, up to SRV_H2_RETAINED_BYTES: what is read lies in blocks,
 * and a piece keeps the whole block. How much a connection may hold is for the caller to say.
 *
 * Threads: none of these calls lock; the struct belongs to whoever reads the connection.
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
    SRV_H2_NO_SETTINGS_ACK, /* too many streams before it acknowledged our settings */
    SRV_H2_FLOOD,
    SRV_H2_HOLDS_MUCH, /* of bodies that are arriving: the caller's verdict */
};

struct srv_h2_frames {
    int64_t filled_ms; /* the time, and the bytes sent, that the budget was given for */
    uint64_t filled_sent;
    int32_t budget;
    uint32_t max_block;
    uint32_t skip;        /* bytes of a payload, or of the preface, that come first */
    uint32_t block;       /* bytes of the header block that was read last, or is being read */
    uint32_t last_stream; /* the highest that was opened */
    uint32_t n_work;      /* frames that cost work, modulo 2^32: all but DATA of some size */
    uint32_t data_stream; /* of the DATA whose payload is being read; 0: it is no DATA */
    uint32_t unpaid;      /* bytes that no piece of a body has been counted with */
    struct srv_h2_uploads uploads;
    bool data_ends;     /* and its stream with it */
    uint16_t n_streams; /* counted until has_settings_ack */
    bool has_settings_ack;
    uint8_t n_frame;
    uint8_t frame[SRV_H2_FRAME_BYTES]; /* of a frame, before its payload */
};

/* A new connection, of which the client's preface is still to come. `sent`: see below. */
void srv_h2_frames_init(struct srv_h2_frames *f, uint32_t max_block, int64_t now_ms, uint64_t sent);
void srv_h2_frames_clear(struct srv_h2_frames *f);
/* Before bytes are taken. `sent`: bytes that the server has sent, from any beginning. */
void srv_h2_frames_fill(struct srv_h2_frames *f, int64_t now_ms, uint64_t sent);
/* The next bytes, one read of the server. After a verdict the connection is over. */
enum srv_h2_verdict srv_h2_frames_take(struct srv_h2_frames *f, const void *p, size_t n);
/* The same of changes of keys (TLS's KeyUpdate), which came between such bytes. */
enum srv_h2_verdict srv_h2_frames_rekeyed(struct srv_h2_frames *f, uint32_t n);

/* The frames that the server sends. A server whose answer is over forgets the stream, and what has
 * come of its body. Zero: nothing was sent. */
struct srv_h2_sent {
    uint32_t skip;
    uint8_t n_frame;
    uint8_t frame[SRV_H2_FRAME_BYTES];
};
/* The next of the n bytes at *p, which move on: the next stream that ended, or 0 at their end. */
uint32_t srv_h2_sent_take(struct srv_h2_sent *s, const uint8_t **p, size_t *n);

#endif
