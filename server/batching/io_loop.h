/*
 * An I/O loop is the part of a network thread that REST and gRPC have in common: a mailbox, the
 * current serving map, the jobs of the current turn, and handles to versions.
 *
 * Threads: only its network thread uses an I/O loop. Other threads may only post messages to its
 * mailbox and wake it.
 *
 * An I/O loop works in turns. In each turn, the thread waits for events and calls
 * srv_io_loop_begin_turn, which receives the messages and loads the newest serving map. The thread
 * then reads everything that is ready and admits each request as a job. Finally it calls
 * srv_io_loop_end_turn, which submits the jobs of the turn and confirms retirements. A network
 * thread never waits for a request to complete.
 */
#ifndef SRV_IO_LOOP_H
#define SRV_IO_LOOP_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/batching/job.h"
#include "server/base/serving_map.h"

struct srv_server;
struct srv_io_loop;

/* A message to an I/O loop. The sender embeds it in a larger struct. The receiver owns a posted
 * message. */
struct srv_message {
    struct srv_message *next;
    void (*receive)(struct srv_io_loop *io_loop,
                    /* called on the thread of the receiving I/O loop */
                    struct srv_message *message);
};

/*
 * A request from the manager to one I/O loop to confirm that the loop no longer uses `version`. If
 * `version` is NULL, the loop only confirms that it no longer uses an older serving map.
 *
 * The manager publishes a new map, and then posts the retirement as a message. The message's
 * `receive` function, srv_retirement_receive, adds the retirement to io_loop->retiring.
 * srv_io_loop_end_turn calls `confirm` once the loop uses the new map and holds no handle to the
 * version. `confirm` returns ownership of the retirement to the manager.
 */
struct srv_retirement {
    struct srv_message message;
    const struct srv_version *version;
    /* called on the thread of the I/O loop; must not block */
    void (*confirm)(struct srv_retirement *r);
    void *arg;
};
void srv_retirement_receive(struct srv_io_loop *io_loop, struct srv_message *message);

struct srv_io_loop {
    struct srv_server *server;
    const char *entrypoint; /* value of the metric label "entrypoint": "REST" or "GRPC" */
    /* index among the I/O loops of the server; it selects the thread's counters */
    int index;
    _Atomic(struct srv_message *) mailbox;
    /* wakes the I/O loop to receive its messages; may be called on any thread */
    void (*wake)(struct srv_io_loop *io_loop);
    void *loop; /* the transport's own data (REST or gRPC) */

    /* Only the thread of the I/O loop uses the members below. */
    /* valid until srv_io_loop_end_turn */
    const struct srv_map *map;
    struct srv_job *turn, **turn_end; /* jobs admitted in the current turn */
    int64_t inline_ns;
    int64_t decode_ns; /* time spent on decoding bodies in the current turn */
    /* retirements that are not confirmed yet */
    struct srv_message *retiring;
};

void srv_io_loop_init(struct srv_io_loop *io_loop, struct srv_server *server,
                      const char *entrypoint, void (*wake)(struct srv_io_loop *io_loop),
                      void *loop);
/* Posts a message to an I/O loop, and wakes the loop if its mailbox was empty. The loop takes
 * ownership of the message. May be called on any thread. */
void srv_message_post(struct srv_io_loop *io_loop, struct srv_message *message);
/* Begins a turn: receives the messages in the order of posting, and then loads the newest serving
 * map. Must be called on the thread of the I/O loop. */
void srv_io_loop_begin_turn(struct srv_io_loop *io_loop);
/* Ends a turn: submits its jobs, and confirms the retirements of versions to which the loop holds
 * no handle. Locks once for all jobs, and wakes at most one worker. Must be called on the thread of
 * the I/O loop. */
void srv_io_loop_end_turn(struct srv_io_loop *io_loop);

/* These functions acquire and release a handle to a version, on the thread of the I/O loop. A
 * version is not freed while a handle to it exists. */
static inline void srv_hold(struct srv_io_loop *io_loop, struct srv_version *v)
{
    v->handles[io_loop->index].n++;
}
static inline void srv_release(struct srv_io_loop *io_loop, struct srv_version *v)
{
    v->handles[io_loop->index].n--;
}

#endif
