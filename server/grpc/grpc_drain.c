/*
 * Closes an I/O loop before the core's servers shut down. During the shutdown, the core refuses
 * each call that it has not delivered yet. If the process got no CPU time to read a socket, the
 * bytes of such a call may have been in the socket's buffer for a long time. A closing I/O loop
 * therefore continues as usual until everything that had arrived before the close was read and
 * delivered.
 */
#include "server/grpc/grpc_internal.h"
#include "server/base/sockets.h"

enum {
    /* after this number of turns without a new call, the core has probably delivered every call
     * that it has read */
    QUIET_TURNS = 3,
    /* after this number of turns, the loop closes even if new calls arrive */
    MOST_TURNS = 1000,
};

/* Records all connections of the process that have unread bytes. They may include connections of
 * other servers in the process, because the core does not reveal which connections are its own. */
static void note_unread(struct srv_grpc_closing *closing)
{
    int n = srv_sockets(closing->unread, SRV_GRPC_MAX_UNREAD);

    closing->n_unread = 0;
    for (int i = 0; i < n; i++)
        if (srv_socket_has_unread(closing->unread[i]))
            closing->unread[closing->n_unread++] = closing->unread[i];
}

/* Returns whether all bytes that had arrived before the I/O loop began to close were read. The
 * bytes of a connection count as read once a check has found its receive buffer empty. */
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
