/*
 * The incomplete request bodies of an HTTP/2 connection: how many bytes of DATA have arrived on
 * each stream that neither side has ended. gRPC's core holds a message until it is whole, so these
 * are the bytes that a peer makes the server hold before any request can be answered.
 *
 * A stream of several messages counts all of them until it ends, because the frames do not show
 * which messages the server has handled.
 *
 * Threads: none of these calls lock; the struct belongs to the holder of its connection's lock.
 */
#ifndef SRV_H2_UPLOADS_H
#define SRV_H2_UPLOADS_H

#include <stdint.h>

/* The most streams counted on a connection; gRPC's core allows a quarter of this number. */
enum { SRV_H2_MOST_UPLOADS = 1 << 14 };

struct srv_h2_upload {
    uint64_t bytes;
    uint32_t stream; /* 0: the slot is free */
};

/* All zero: no streams. */
struct srv_h2_uploads {
    struct srv_h2_upload *slots; /* hash table with linear probing, at most half full */
    uint32_t n, capacity;        /* number of streams; number of slots, a power of two */
    uint64_t held;               /* bytes of all streams */
};

void srv_h2_uploads_clear(struct srv_h2_uploads *u);
/* Begins to count a stream whose body is to follow. Out of memory, it is not counted. */
void srv_h2_uploads_begin(struct srv_h2_uploads *u, uint32_t stream);
/* The bytes of the stream so far, or NULL if it is not counted. A caller that adds to them adds
 * the same number to `held`. */
uint64_t *srv_h2_uploads_find(const struct srv_h2_uploads *u, uint32_t stream);
/* Ends the stream and returns the bytes that had arrived on it. */
uint64_t srv_h2_uploads_end(struct srv_h2_uploads *u, uint32_t stream);

#endif
