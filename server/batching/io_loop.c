#include "server/batching/io_loop.h"

#include "server/batching/scheduler.h"
#include "server/server.h"

void srv_io_loop_init(struct srv_io_loop *io_loop, struct srv_server *server,
                      const char *entrypoint, void (*wake)(struct srv_io_loop *io_loop), void *loop)
{
    *io_loop = (struct srv_io_loop){
        .server = server, .entrypoint = entrypoint, .wake = wake, .loop = loop};
    io_loop->turn_end = &io_loop->turn;
    io_loop->map = atomic_load_explicit(&server->map, memory_order_acquire);
}

void srv_message_post(struct srv_io_loop *io_loop, struct srv_message *message)
{
    /* The receiver may free `message` as soon as the atomic exchange succeeds, so the code after it
     * uses only `head`. No receiver frees `io_loop`. */
    struct srv_message *head = atomic_load_explicit(&io_loop->mailbox, memory_order_relaxed);
    do
        message->next = head;
    while (!atomic_compare_exchange_weak_explicit(&io_loop->mailbox, &head, message,
                                                  memory_order_release, memory_order_relaxed));
    if (!head)
        io_loop->wake(io_loop);
}

void srv_io_loop_begin_turn(struct srv_io_loop *io_loop)
{
    struct srv_message *newest =
        atomic_exchange_explicit(&io_loop->mailbox, NULL, memory_order_acquire);
    struct srv_message *oldest = NULL;

    while (newest) {
        struct srv_message *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        struct srv_message *next = oldest->next;
        oldest->receive(io_loop, oldest);
        oldest = next;
    }
    /* The map must be loaded after the messages are received. The manager posts a retirement only
     * after it has published a map without the retired version. */
    io_loop->map = atomic_load_explicit(&io_loop->server->map, memory_order_acquire);
    io_loop->inline_ns = io_loop->decode_ns = 0;
}

void srv_retirement_receive(struct srv_io_loop *io_loop, struct srv_message *message)
{
    message->next = io_loop->retiring;
    io_loop->retiring = message;
}

void srv_io_loop_end_turn(struct srv_io_loop *io_loop)
{
    struct srv_job *first = io_loop->turn;

    io_loop->turn = NULL;
    io_loop->turn_end = &io_loop->turn;
    if (first)
        srv_scheduler_submit(io_loop->server->scheduler, first);
    for (struct srv_message **at = &io_loop->retiring; *at;) {
        /* The message is the first member of struct srv_retirement. */
        struct srv_retirement *r = (struct srv_retirement *)*at;
        if (r->version && r->version->handles[io_loop->index].n) {
            at = &r->message.next;
            continue;
        }
        *at = r->message.next;
        r->confirm(r);
    }
}
