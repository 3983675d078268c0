#include "server/batching/net.h"

#include "server/batching/scheduler.h"
#include "server/server.h"

void srv_net_init(struct srv_net *net, struct srv_server *server, const char *entrypoint,
                  void (*wake)(struct srv_net *net), void *loop)
{
    *net = (struct srv_net){.server = server, .entrypoint = entrypoint, .wake = wake, .loop = loop};
    net->turn_end = &net->turn;
    net->map = atomic_load_explicit(&server->map, memory_order_acquire);
}

void srv_mail_post(struct srv_net *net, struct srv_mail *mail)
{
    /* Read before the exchange: the receiver may free the mail, never the net. */
    struct srv_mail *head = atomic_load_explicit(&net->box, memory_order_relaxed);
    do
        mail->next = head;
    while (!atomic_compare_exchange_weak_explicit(&net->box, &head, mail, memory_order_release,
                                                  memory_order_relaxed));
    if (!head)
        net->wake(net);
}

void srv_net_begin(struct srv_net *net)
{
    struct srv_mail *newest = atomic_exchange_explicit(&net->box, NULL, memory_order_acquire);
    struct srv_mail *oldest = NULL;

    while (newest) {
        struct srv_mail *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        struct srv_mail *next = oldest->next;
        oldest->open(net, oldest);
        oldest = next;
    }
    /* After the mail: a question about a retired version was posted after the map without it. */
    net->map = atomic_load_explicit(&net->server->map, memory_order_acquire);
    net->inline_ns = 0;
}

void srv_retirement_open(struct srv_net *net, struct srv_mail *mail)
{
    mail->next = net->retiring;
    net->retiring = mail;
}

void srv_net_end(struct srv_net *net)
{
    struct srv_job *first = net->turn;

    net->turn = NULL;
    net->turn_end = &net->turn;
    if (first)
        srv_scheduler_submit(net->server->scheduler, first);
    for (struct srv_mail **at = &net->retiring; *at;) {
        struct srv_retirement *r = (struct srv_retirement *)*at; /* mail is its first member */
        if (r->version && net->held[r->version->slot]) {
            at = &r->mail.next;
            continue;
        }
        *at = r->mail.next;
        r->answer(r);
    }
}
