/*
 * The end of an I/O loop, before the core's servers are told to shut down. From then on the core
 * refuses each call that it has not delivered yet, even one whose bytes have been in a socket's
 * buffer for long because the process got no CPU time. So an I/O loop continues as usual until
 * everything that had arrived when it was told to close has been read and delivered.
 */
#include "server/grpc/grpc_internal.h"
#include "server/base/sockets.h"

enum {
    QUIET_TURNS = 3, /* turns without a new call, after which all that was read is delivered */
    /* after this many turns the loop closes in any case: some client sends calls all the time */
    MOST_TURNS = 1000,
};

/* Notes the connections of the whole process, since the core does not say which are its own. */
static void note_unread(struct srv_grpc_closing *closing)
{
    int n = srv_sockets(closing->unread, SRV_GRPC_MAX_UNREAD);

    closing->n_unread = 0;
    for (int i = 0; i < n; i++)
        if (srv_socket_has_unread(closing->unread[i]))
            closing->unread[closing->n_unread++] = closing->unread[i];
}

/* A connection whose buffer was empty once has been read up to where it was. */
static bool all_read(struct srv_grpc_closing *closing)
{
    while (closing->n_unread && !srv_socket_has_unread(closing->unread[closing->n_unread - 1]))
        closing->n_unread--;
    return closing->n_unread == 0;
}

void srv_grpc_close_turn(struct srv_grpc_loop *loop)
{
    struct srv_grpc_closing *closing = &loop->closing;

    if (closing->turns++ == 0)
        note_unread(closing);
    closing->quiet_turns = closing->n_new || !all_read(closing) ? 0 : closing->quiet_turns + 1;
    closing->n_new = 0;
    if (closing->quiet_turns < QUIET_TURNS && closing->turns < MOST_TURNS)
        return;
    closing->is_closing = false;
    if (atomic_fetch_add(&loop->grpc->n_closed, 1) + 1 == loop->grpc->n_loops)
        srv_grpc_shut_down(loop->grpc);
}
