#include "server/base/send_group.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* The thread's group. `n_sends` is the number of sends since the last flush. `waiting` contains the
 * sockets whose bytes the kernel may have collected since then. */
static _Thread_local struct {
    int depth;
    int n_sends, n_waiting;
    int waiting[SRV_SEND_GROUP_MOST];
} group;

void srv_send_group_begin(void)
{
    group.depth++;
}

void srv_send_group_flush(void)
{
    const int on = 1;

    /* Linux transmits what it has collected when TCP_NODELAY is set, even if it was set before. If
     * the socket has been closed, its bytes have been transmitted, and the descriptor may belong to
     * another connection, to which this does no harm. */
    for (int i = 0; i < group.n_waiting; i++)
        setsockopt(group.waiting[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    group.n_sends = group.n_waiting = 0;
}

void srv_send_group_end(void)
{
    if (--group.depth == 0)
        srv_send_group_flush();
}

int srv_send_group_flags(int fd)
{
    if (!group.depth)
        return 0;
    if (group.n_sends == SRV_SEND_GROUP_MOST)
        srv_send_group_flush();
    if (group.n_sends++ == 0)
        return 0;
    for (int i = 0; i < group.n_waiting; i++)
        if (group.waiting[i] == fd)
            return MSG_MORE;
    group.waiting[group.n_waiting++] = fd;
    return MSG_MORE;
}
