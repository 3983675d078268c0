/*
 * An I/O loop is the part of a network thread that REST and gRPC share: a mailbox, a view of the
 * serving map, and the number of its handles to each version.
 *
 * Threads: an I/O loop is used only by its network thread. Other threads may only post messages to
 * its mailbox and wake it.
 *
 * A loop works in turns. In each turn it waits, and then calls srv_io_loop_begin_turn to receive
 * the messages and load the newest serving map. It reads everything that is ready, and admits each
 * request as a job. Finally it calls srv_io_loop_end_turn to submit the jobs of the turn and
 * confirm retirements. No network thread waits for a request.
 */
#ifndef SRV_IO_LOOP_H
#define SRV_IO_LOOP_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/batching/job.h"
#include "server/base/serving_map.h"

struct srv_server;
struct srv_io_loop;

/* A message to an I/O loop, embedded in a struct of the sender. The receiver owns a posted
 * message. */
struct srv_message {
    struct srv_message *next;
    void (*receive)(struct srv_io_loop *io_loop,
                    /* called when the message is received, on the thread of the receiving I/O
                     * loop */
                    struct srv_message *message);
};

/*
 * A query from the manager to one I/O loop, asking whether the loop still uses `version`. If
 * `version` is NULL, the query asks only whether the loop still uses an older serving map. The
 * manager posts the query as a message. srv_retirement_receive, the `receive` of this message,
 * links the query into the list io_loop->retiring (by message.next). srv_io_loop_end_turn calls
 * `confirm` once the loop uses a map published after the message was posted and holds no handle to
 * the version. From the call of `confirm` on, the manager owns the retirement again.
 */
struct srv_retirement {
    struct srv_message message;
    const struct srv_version *version;
    /* called on the thread of the I/O loop to confirm the retirement; must not block */
    void (*confirm)(struct srv_retirement *r);
    void *arg;
};
void srv_retirement_receive(struct srv_io_loop *io_loop, struct srv_message *message);

struct srv_io_loop {
    struct srv_server *server;
    const char *entrypoint; /* entrypoint of the requests, "REST" or "GRPC" */
    /* index of the loop among all network threads; selects the thread's counters */
    int index;
    _Atomic(struct srv_message *) mailbox;
    /* wakes the I/O loop so that it receives its messages soon; may be called on any thread */
    void (*wake)(struct srv_io_loop *io_loop);
    void *loop; /* the transport's own data (REST or gRPC) */

    /* The members below are used only by the thread of the I/O loop. */
    /* the serving map of the current turn, valid until srv_io_loop_end_turn */
    const struct srv_map *map;
    struct srv_job *turn, **turn_end; /* list of the jobs admitted in the current turn */
    int64_t inline_ns;                /* time spent on inline jobs in the current turn */
    int64_t decode_ns;                /* time spent on decoding bodies in the current turn */
    /* the srv_retirement messages that still have to be confirmed */
    struct srv_message *retiring;
};

void srv_io_loop_init(struct srv_io_loop *io_loop, struct srv_server *server,
                      const char *entrypoint, void (*wake)(struct srv_io_loop *io_loop),
                      void *loop);
/* Posts a message to an I/O loop, and wakes the loop if its mailbox was empty. The loop takes
 * ownership of the message. May be called on any thread. */
void srv_message_post(struct srv_io_loop *io_loop, struct srv_message *message);
/* Begins a turn on the thread of the I/O loop: receives the messages in the order of posting, then
 * loads the newest serving map. */
void srv_io_loop_begin_turn(struct srv_io_loop *io_loop);
/* Ends a turn on the thread of the I/O loop: submits the jobs of the turn (locking once and
 * waking at most one worker) and confirms the retirements that are due. */
void srv_io_loop_end_turn(struct srv_io_loop *io_loop);

/* These functions acquire and release a handle to a version. They must be called on the thread of
 * the I/O loop. A version is not freed while a handle to it exists. */
static inline void srv_hold(struct srv_io_loop *io_loop, struct srv_version *v)
{
    v->handles[io_loop->index].n++;
}
static inline void srv_release(struct srv_io_loop *io_loop, struct srv_version *v)
{
    v->handles[io_loop->index].n--;
}

#endif
