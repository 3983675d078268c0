/*
 * An I/O loop is the state of a network thread that REST and gRPC have in common: a mailbox, the
 * current serving map, and the jobs of the current turn. The I/O loop can hold handles to versions.
 *
 * Threads: an I/O loop is used only by its network thread. Other threads may only post messages to
 * its mailbox and wake it.
 *
 * An I/O loop works in turns. In each turn the thread waits for events, and then calls
 * srv_io_loop_begin_turn to receive the messages and load the newest serving map. It reads
 * everything that is ready, and admits each request as a job. Finally it calls srv_io_loop_end_turn
 * to submit the jobs of the turn and confirm retirements. A network thread never waits for a
 * request to complete.
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
 * A request from the manager to one I/O loop to confirm that the loop no longer uses `version`. If
 * `version` is NULL, the loop only confirms that it no longer uses an older serving map. The
 * manager publishes a new map, and then posts the retirement as a message. The message's `receive`
 * function, srv_retirement_receive, adds the retirement to the list io_loop->retiring, which is
 * linked by message.next. srv_io_loop_end_turn calls `confirm` once the loop holds no handle to the
 * version; the loop uses the new map by then. The call returns ownership of the retirement to the
 * manager.
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
    const char *entrypoint; /* value of the metric label "entrypoint": "REST" or "GRPC" */
    /* index among the I/O loops of the server; selects the thread's counters */
    int index;
    _Atomic(struct srv_message *) mailbox;
    /* wakes the I/O loop so that it receives its messages soon; may be called on any thread */
    void (*wake)(struct srv_io_loop *io_loop);
    void *loop; /* the transport's own data (REST or gRPC) */

    /* Only the thread of the I/O loop uses the members below. */
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
/* Ends a turn on the thread of the I/O loop: submits the jobs of the turn (locking once and waking
 * at most one worker) and confirms the retirements of versions to which the loop holds no
 * handle. */
void srv_io_loop_end_turn(struct srv_io_loop *io_loop);

/* srv_hold acquires and srv_release releases a handle to a version. They must be called on the
 * thread of the I/O loop. A version is not freed while a handle to it exists. */
static inline void srv_hold(struct srv_io_loop *io_loop, struct srv_version *v)
{
    v->handles[io_loop->index].n++;
}
static inline void srv_release(struct srv_io_loop *io_loop, struct srv_version *v)
{
    v->handles[io_loop->index].n--;
}

#endif
