/*
 * Counts the incomplete request bodies of an HTTP/2 connection: the memory for DATA on streams that
 * neither side has ended. The core holds a message until it is complete. A peer can therefore make
 * the server hold these bytes before any request can be answered.
 *
 * If a stream carries several messages, all of them count until the stream ends, because the frames
 * do not show which messages the server has handled.
 *
 * Threads: these functions do not lock. The caller must hold the lock of the connection.
 */
#ifndef SRV_H2_UPLOADS_H
#define SRV_H2_UPLOADS_H

#include <stdint.h>

/* Maximum number of streams that are counted on a connection, 16 times the limit on concurrent
 * calls in grpc_arguments.c. */
enum { SRV_H2_MOST_UPLOADS = 1 << 14 };

struct srv_h2_upload {
    uint64_t bytes;
    uint32_t stream; /* number of the stream, or 0 if the slot is free */
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
/* Returns a pointer to the number of bytes counted on a stream, or NULL if the stream is not
 * counted. A caller that increases the number must increase `held` by the same amount. */
uint64_t *srv_h2_uploads_find(const struct srv_h2_uploads *u, uint32_t stream);
/* Removes the stream and returns the number of bytes that had arrived on it. */
uint64_t srv_h2_uploads_end(struct srv_h2_uploads *u, uint32_t stream);

#endif
