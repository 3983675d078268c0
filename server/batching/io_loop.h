/*
 * What every network thread has, REST or gRPC: a mailbox, its view of the serving map, and its own
 * count of handles per version.
 *
 * Threads: a net belongs to its loop thread. Others may only post to its mailbox and wake it.
 *
 * A loop works in turns: wait; srv_io_loop_begin_turn (mailbox, newest map); read all that is
 * ready, each request admitted as a job; srv_io_loop_end_turn (submit the turn's jobs, answer
 * retirements). No thread waits for a request.
 */
#ifndef SRV_IO_LOOP_H
#define SRV_IO_LOOP_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/batching/job.h"
#include "server/base/map.h"

enum { SRV_MAX_VERSIONS = 4096 }; /* loaded at a time, each has a slot below this */

struct srv_server;
struct srv_io_loop;

/* One message in a mailbox. Embed it; the receiver owns it once posted. */
struct srv_message {
    struct srv_message *next;
    void (*receive)(struct srv_io_loop *io_loop,
                    struct srv_message *message); /* on the loop thread */
};

/*
 * The manager's question to one net: has it done with a version (NULL: only with older maps)?
 * Posted as mail with `open` set to srv_retirement_receive, which puts it into net->retiring (by
 * mail.next); srv_io_loop_end_turn calls `answer` once the net has taken a map published after the
 * mail was posted and holds no handle of the version. The manager owns it again then.
 */
struct srv_retirement {
    struct srv_message message;
    const struct srv_version *version;
    void (*confirm)(struct srv_retirement *r); /* on the loop thread: must not block */
    void *arg;
};
void srv_retirement_receive(struct srv_io_loop *io_loop, struct srv_message *message);

struct srv_io_loop {
    struct srv_server *server;
    const char *entrypoint; /* "REST" or "GRPC" */
    int index;              /* among all net threads: for per-thread counters */
    _Atomic(struct srv_message *) mailbox;
    void (*wake)(struct srv_io_loop *io_loop); /* any thread: the loop opens its mailbox soon */
    void *loop;                                /* the transport's own */

    /* Loop thread only: */
    const struct srv_map *map; /* as of this turn; valid until srv_io_loop_end_turn */
    uint32_t held[SRV_MAX_VERSIONS];
    struct srv_job *turn, **turn_end; /* jobs admitted in this turn */
    int64_t inline_ns;                /* spent on jobs run inline in this turn */
    struct srv_message *retiring; /* of struct srv_retirement: until its version's count is zero */
};

void srv_io_loop_init(struct srv_io_loop *io_loop, struct srv_server *server,
                      const char *entrypoint, void (*wake)(struct srv_io_loop *io_loop),
                      void *loop);
/* Any thread. Takes the mail; wakes the loop if the box was empty. */
void srv_message_post(struct srv_io_loop *io_loop, struct srv_message *message);
/* Loop thread: opens the mail in the order posted, then takes the newest map. */
void srv_io_loop_begin_turn(struct srv_io_loop *io_loop);
/* Loop thread: submits the turn's jobs (lock once, wake once), answers retirements that are due. */
void srv_io_loop_end_turn(struct srv_io_loop *io_loop);

/* Handles: loop thread only. A version that is held is not freed. */
static inline void srv_hold(struct srv_io_loop *io_loop, struct srv_version *v)
{
    io_loop->held[v->slot]++;
}
static inline void srv_release(struct srv_io_loop *io_loop, struct srv_version *v)
{
    io_loop->held[v->slot]--;
}

#endif
