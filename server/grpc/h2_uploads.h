/*
 * The bodies that are arriving on an HTTP/2 connection: how many bytes of DATA each stream has
 * brought that neither side has ended yet. gRPC's core holds a message until it is whole, so these
 * are the bytes that a peer makes the server hold without asking for anything yet.
 *
 * A stream of several messages counts all of them until it ends: the frames do not tell which the
 * server has handled.
 *
 * Threads: none of these calls lock; the struct belongs to who holds its connection's lock.
 */
#ifndef SRV_H2_UPLOADS_H
#define SRV_H2_UPLOADS_H

#include <stdint.h>

/* Further streams of a connection are not counted; gRPC's core allows a quarter of them. */
enum { SRV_H2_MOST_UPLOADS = 1 << 14 };

struct srv_h2_upload {
    uint64_t bytes;
    uint32_t stream; /* 0: the slot is free */
};

/* Zero: no streams. */
struct srv_h2_uploads {
    struct srv_h2_upload *slots; /* a hash table with linear probing, half full at the most */
    uint32_t n, capacity;        /* streams; slots, a power of two */
    uint64_t held;               /* the bytes of all streams */
};

void srv_h2_uploads_clear(struct srv_h2_uploads *u);
/* A stream whose body is to come. Out of memory it is not counted. */
void srv_h2_uploads_begin(struct srv_h2_uploads *u, uint32_t stream);
/* The stream's bytes so far, or NULL: it is not counted. Whoever adds to them adds to `held`. */
uint64_t *srv_h2_uploads_find(const struct srv_h2_uploads *u, uint32_t stream);
/* The stream is over: how many bytes it had brought. */
uint64_t srv_h2_uploads_end(struct srv_h2_uploads *u, uint32_t stream);

#endif
