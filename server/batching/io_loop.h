/*
 * An I/O loop is the part of a network thread that REST and gRPC share: a mailbox, a view of the
 * serving map, and its own count of handles per version.
 *
 * Threads: an I/O loop belongs to its network thread. Other threads may only post messages to its
 * mailbox and wake it.
 *
 * A loop works in turns: wait; srv_io_loop_begin_turn (receive messages, take the newest serving
 * map); read everything that is ready and admit each request as a job; srv_io_loop_end_turn (submit
 * the jobs of the turn, confirm retirements). No network thread waits for a request.
 */
#ifndef SRV_IO_LOOP_H
#define SRV_IO_LOOP_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/batching/job.h"
#include "server/base/serving_map.h"

/* versions loaded at the same time; each has a slot below this number */
enum { SRV_MAX_VERSIONS = 4096 };

struct srv_server;
struct srv_io_loop;

/* One message in a mailbox, embedded in the sender's struct. The receiver owns a posted message. */
struct srv_message {
    struct srv_message *next;
    void (*receive)(struct srv_io_loop *io_loop,
                    struct srv_message *message); /* called on the loop thread */
};

/*
 * The manager's query to one I/O loop: does the loop still use `version`? A NULL version asks only
 * whether the loop still uses an older serving map. The manager posts it as a message whose
 * `receive` is srv_retirement_receive, which links it into io_loop->retiring (by message.next).
 * srv_io_loop_end_turn calls `confirm` once the loop uses a map published after the message was
 * posted and holds no handle of the version. The manager owns the retirement again from that call
 * on.
 */
struct srv_retirement {
    struct srv_message message;
    const struct srv_version *version;
    void (*confirm)(struct srv_retirement *r); /* called on the loop thread; must not block */
    void *arg;
};
void srv_retirement_receive(struct srv_io_loop *io_loop, struct srv_message *message);

struct srv_io_loop {
    struct srv_server *server;
    const char *entrypoint; /* "REST" or "GRPC" */
    int index;              /* index among all network threads, for counters per thread */
    _Atomic(struct srv_message *) mailbox;
    /* called on any thread; the loop receives its messages soon afterwards */
    void (*wake)(struct srv_io_loop *io_loop);
    void *loop; /* the transport's own data */

    /* Members below belong to the loop thread: */
    const struct srv_map *map; /* the serving map of this turn; valid until srv_io_loop_end_turn */
    uint32_t held[SRV_MAX_VERSIONS];
    struct srv_job *turn, **turn_end; /* jobs admitted in this turn */
    int64_t inline_ns;                /* time spent on jobs that ran inline in this turn */
    /* struct srv_retirement messages whose version still has handles */
    struct srv_message *retiring;
};

void srv_io_loop_init(struct srv_io_loop *io_loop, struct srv_server *server,
                      const char *entrypoint, void (*wake)(struct srv_io_loop *io_loop),
                      void *loop);
/* Any thread. Takes ownership of the message; wakes the loop when the mailbox was empty. */
void srv_message_post(struct srv_io_loop *io_loop, struct srv_message *message);
/* Loop thread: receives the messages in the order of posting, then takes the newest serving map. */
void srv_io_loop_begin_turn(struct srv_io_loop *io_loop);
/* Loop thread: submits the jobs of the turn (one lock, one wake) and confirms the retirements that
 * are due. */
void srv_io_loop_end_turn(struct srv_io_loop *io_loop);

/* Handles of a version: loop thread only. A version with a handle is not freed. */
static inline void srv_hold(struct srv_io_loop *io_loop, struct srv_version *v)
{
    io_loop->held[v->slot]++;
}
static inline void srv_release(struct srv_io_loop *io_loop, struct srv_version *v)
{
    io_loop->held[v->slot]--;
}

#endif
