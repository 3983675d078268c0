/*
 * Counts the incomplete request bodies of an HTTP/2 connection: the memory for DATA on streams that
 * neither side has ended. The core holds a message until it is complete and the server takes it. A
 * peer can therefore make the server hold these bytes before any request can be answered. A stream
 * that the peer has ended still counts if the server has not taken several of its messages.
 *
 * A message counts until the server has taken it. The frames that the server sends show this: the
 * core grants the peer flow-control window on a stream for the bytes of the messages that the
 * server has taken, and for the rest of a message that the server waits for. So all messages up to
 * a place in the body have been taken if each of them is complete and the granted window reaches
 * that place. The module stores one such place per stream, the mark. Therefore the messages after
 * the mark still count when the server has already taken some of them.
 *
 * Threads: these functions do not lock. The caller must hold the lock of the connection.
 */
#ifndef SRV_H2_UPLOADS_H
#define SRV_H2_UPLOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of streams that are counted on a connection, 16 times the limit on concurrent
 * calls in grpc_arguments.c. */
enum { SRV_H2_MOST_UPLOADS = 1 << 14 };

/* The body of a stream. `arrived`, `granted`, `end` and `mark` are numbers of bytes of DATA,
 * counted from the beginning of the body. */
struct srv_h2_upload {
    uint64_t arrived, granted; /* `granted` is the window beyond the initial one */
    uint64_t end;              /* end of the last complete message */
    uint64_t mark;             /* end of an earlier complete message */
    /* memory for the complete messages before the mark and after it, and for the incomplete one */
    uint64_t before_mark, after_mark, incomplete;
    /* number of the complete messages before the mark and after it, without the first message */
    uint32_t n_before_mark, n_after_mark;
    uint32_t stream;  /* number of the stream, or 0 if the slot is free */
    uint32_t left;    /* number of bytes that the message lacks, or its length so far */
    uint8_t n_prefix; /* number of bytes of the message's prefix that have arrived */
    uint8_t spent;    /* budget that the frames of the incomplete message cost (h2_frames.c) */
    bool has_message; /* whether a message is complete */
};

/* Messages that no longer count. */
struct srv_h2_taken {
    uint64_t bytes;
    uint32_t n; /* number of messages, without the first message of a stream */
};

/* The streams with incomplete bodies on a connection. A zeroed struct has no streams. */
struct srv_h2_uploads {
    struct srv_h2_upload *slots; /* hash table with linear probing, at most half full */
    /* number of counted streams, and number of slots, which is a power of two */
    uint32_t n, capacity;
    uint64_t held; /* total number of bytes counted on all streams */
};

void srv_h2_uploads_clear(struct srv_h2_uploads *u);
/* Begins to count the body bytes of a stream. If memory runs out, this stream is not counted. */
void srv_h2_uploads_begin(struct srv_h2_uploads *u, uint32_t stream);
/* Returns NULL if the stream is not counted. */
struct srv_h2_upload *srv_h2_uploads_find(const struct srv_h2_uploads *u, uint32_t stream);
/* Parses the next n bytes of a body, which take `memory` bytes of memory. Returns whether a message
 * is complete with them. */
bool srv_h2_uploads_add(struct srv_h2_uploads *u, struct srv_h2_upload *at, const uint8_t *p,
                        size_t n, uint64_t memory);
/* Stops counting the messages that the server has taken, and returns them. */
struct srv_h2_taken srv_h2_uploads_take(struct srv_h2_uploads *u, struct srv_h2_upload *at);
/* Removes the stream and returns the number of bytes that counted on it. */
uint64_t srv_h2_uploads_end(struct srv_h2_uploads *u, uint32_t stream);

#endif
