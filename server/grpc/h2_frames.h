/*
 * Parses the frames of an HTTP/2 connection in the bytes that the server reads, regardless of where
 * one read ends and the next one begins. It detects input that is harmful to a server without its
 * own defences:
 *
 *  - a header block (HEADERS and its CONTINUATIONs) of more than max_block bytes;
 *  - more than SRV_H2_MAX_STREAMS_BEFORE_ACK streams before the peer has acknowledged the server's
 *  settings (the settings limit the number of streams, and a normal peer acknowledges them as soon
 *  as it has read anything);
 *  - a flood of frames that cost work and request nothing. Each of these frames spends part of a
 *  budget. Time, new streams, payload and the bytes that the server sends refill the budget up to
 *  SRV_H2_BUDGET:
 *
 *      | what                                        | budget                                 |
 *      |---------------------------------------------|----------------------------------------|
 *      | a millisecond                               | +5                                     |
 *      | 256 bytes that the server sends             | +1                                     |
 *      | HEADERS of a new stream                     | +9: 8, and 1 for a small message       |
 *      | HEADERS of an open stream                   | -1                                     |
 *      | DATA                                        | +1 for each KiB, and -1 if it has less |
 *      |                                             |   than SRV_H2_LARGE_DATA bytes         |
 *      | a message that is complete                  | +1 for each of its small DATA frames   |
 *      |                                             |   with payload, at most +2             |
 *      | a message that the server has taken, if it  | +8                                     |
 *      |   is not the first of its stream            |                                        |
 *      | RST_STREAM                                  | -13, because a call began in vain      |
 *      | a TLS key update                            | -500, because a peer needs one only    |
 *      |                                             |   after gigabytes                      |
 *      | CONTINUATION                                | -1, and -1 for each 4 KiB that the     |
 *      |                                             |   header block already has             |
 *      | a read that begins in or after a header     | -1 for each 4 KiB of the block, which  |
 *      |   block                                     |   may be parsed again                  |
 *      | any other frame                             | -1, and -1 for each 64 bytes           |
 *
 * Therefore a peer whose calls have one small message each may cancel about 2,000 calls in one
 * burst, all of its calls at a steady rate of 1,000 per second, and three of five calls at any
 * rate. A peer sends window updates and pings to acknowledge the server's bytes. These frames spend
 * the budget, so the bytes that the server sends refill it. A body in frames of at least
 * SRV_H2_LARGE_DATA bytes spends nothing. A message of a stream earns as much as a call with one
 * message, but only when the server has taken it, so that nobody can pay for resets with messages
 * that nobody takes.
 *
 * Of payloads, only the prefixes of messages are read, so the running time of srv_h2_frames_take
 * depends on the number of frames and messages and not on the number of bytes.
 *
 * The bytes of incomplete bodies are counted (h2_uploads.h). gRPC's core reads into blocks of
 * memory, and a part of a body retains its whole block. So each part is counted together with up to
 * SRV_H2_RETAINED_BYTES of the bytes that preceded it on the connection. A part consists of the
 * bytes of one DATA frame in one read. The core also stores a grpc_slice for each part. The slice
 * is counted as SRV_H2_PART_BYTES. The caller limits the counted bytes of a connection.
 *
 * Threads: these functions do not lock; the struct is used by the thread that reads the connection.
 */
#ifndef SRV_H2_FRAMES_H
#define SRV_H2_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/grpc/h2_uploads.h"

enum { SRV_H2_MAX_STREAMS_BEFORE_ACK = 1024, SRV_H2_BUDGET = 10000, SRV_H2_FRAME_BYTES = 9 };
/* Number of TLS key updates that spend a full budget. A key update and its response take 40 us. */
enum { SRV_H2_MAX_REKEYS = 20 };
/* A grpc_slice has 32 bytes. The array of slices grows by half of its size, so a slice may take 48
 * bytes. */
enum { SRV_H2_RETAINED_BYTES = 1 << 16, SRV_H2_PART_BYTES = 48 };
/* A DATA frame with at least this number of payload bytes causes no work in addition to the work
 * for the payload. */
enum { SRV_H2_LARGE_DATA = 256 };

enum srv_h2_verdict {
    SRV_H2_GOES_ON,
    SRV_H2_LARGE_BLOCK,
    /* the peer opened too many streams before it acknowledged the settings */
    SRV_H2_NO_SETTINGS_ACK,
    SRV_H2_FLOOD,
    SRV_H2_NO_PREFACE, /* the peer does not use HTTP/2 */
    /* The connection has too many bytes of incomplete bodies. Only the callers of these functions
     * return this verdict. */
    SRV_H2_HOLDS_MUCH,
};

/* State for parsing the frames that the server sends. The frames show which streams the server has
 * ended, and which messages it has taken (h2_uploads.h). */
struct srv_h2_sent {
    uint32_t skip;
    uint8_t n_frame;
    uint8_t frame[SRV_H2_FRAME_BYTES + 4]; /* header of a frame, and payload of a WINDOW_UPDATE */
};

struct srv_h2_frames {
    /* time of the last refill of the budget, and number of sent bytes that have refilled the
     * budget */
    int64_t filled_ms;
    uint64_t filled_sent;
    int32_t budget;
    uint32_t max_block;
    uint32_t skip; /* number of bytes to skip in a payload */
    /* size in bytes of the last header block, which may be incomplete; 0 after any other frame */
    uint32_t block;
    uint32_t last_stream; /* highest number of any stream opened so far */
    /* Number, modulo `2^32`, of frames and key updates that cost work. A DATA frame of at least
     * SRV_H2_LARGE_DATA bytes costs no work. */
    uint32_t n_work;
    /* number of the current DATA frame's stream, or 0 if the current frame is not a DATA frame of
     * a body */
    uint32_t data_stream;
    /* number of bytes, at most SRV_H2_RETAINED_BYTES, that were read since the last part of a
     * counted body; these bytes are counted together with the next part */
    uint32_t unpaid;
    struct srv_h2_uploads uploads;
    struct srv_h2_sent sent;
    bool data_ends; /* whether the current DATA frame ends its stream */
    /* Number of streams opened so far. Counted only until has_settings_ack is set. */
    uint16_t n_streams;
    bool has_settings_ack;
    uint8_t n_preface; /* number of bytes of the client's preface that have arrived */
    uint8_t n_frame;
    uint8_t frame[SRV_H2_FRAME_BYTES]; /* header of the current frame */
};

/* Initialises the state of a new connection, which begins with the client's preface. `sent` has the
 * same meaning as in srv_h2_frames_fill. */
void srv_h2_frames_init(struct srv_h2_frames *f, uint32_t max_block, int64_t now_ms, uint64_t sent);
void srv_h2_frames_clear(struct srv_h2_frames *f);
/* Refills the budget. Must be called before srv_h2_frames_take. `sent` is a running count of the
 * bytes that the server has sent, with any initial value. */
void srv_h2_frames_fill(struct srv_h2_frames *f, int64_t now_ms, uint64_t sent);
/* Inspects the bytes of one read. Unless the function returns SRV_H2_GOES_ON, the connection must
 * be closed. */
enum srv_h2_verdict srv_h2_frames_take(struct srv_h2_frames *f, const void *p, size_t n);
/* Counts n TLS key updates that arrived between two reads. */
enum srv_h2_verdict srv_h2_frames_rekeyed(struct srv_h2_frames *f, uint32_t n);

/* Inspects the next n bytes that the server sends. */
void srv_h2_frames_sent(struct srv_h2_frames *f, const void *p, size_t n);

#endif
